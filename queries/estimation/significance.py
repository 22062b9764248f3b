"""Whether a count is more than the noise where nobody holds the category.

Where nobody encoded symbol j, each of n people's reports counts for j with probability `base`, independently, and each
of D dummies with `dummy_mean`: N_j is a sum of two binomials, exactly, whatever everybody else answered. The p-value is
P(N_j ≥ what was counted): no normal law is assumed, which counts that are expected to be a few would not have. A count
of several symbols together, a total over groups, is compared with the normal law of the noise that there would be.
Counts that are decoded from hashes have a bound of the chance instead, Bennett's.

`held` bounds the chance that any of a query's empty categories is said to be held (Holm 1979), and `discovered` the
expected share of empty ones among those that are said to be (Benjamini and Yekutieli 2001, Thm 1.3). Both hold under
any dependence of the counts; those of kRR are dependent, since each report names one symbol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hubbub.queries.estimation.estimates import Estimates, Row

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hubbub.queries.randomizers.randomizer import Randomizer, Tally, Vector

ERROR_RATE = 0.025
"""The most chance that an empty category of a query is said to be held: that of the lower ends of a 95 % band."""

_FAR = 12
"""Standard deviations and a few more on either side: binomial mass beyond it is below 1e-18, and is added."""


def exact_p_values(randomizer: Randomizer, tally: Tally, dummies: int) -> Vector:
    """Return, by symbol, the chance of a count as large where nobody encoded the symbol; shape (symbols,)."""
    import numpy as np

    counts, place = np.unique(tally.counts, return_inverse=True)
    tails = _tails(counts, tally.valid - dummies, randomizer.support_other, dummies, randomizer.dummy_mean)
    found: Vector = tails[place]
    return found


def _tails(counts: npt.NDArray[np.int64], people: int, base: float, dummies: int, dummy_mean: float) -> Vector:
    """Return P(A + B ≥ N) for each N, A binomial of people and B of dummies."""
    import numpy as np
    from scipy import special

    if dummies == 0:
        return _at_least(counts, people, base)
    # It takes half a second to load: longer than all the rest of a round's estimates.
    from scipy import stats

    mean, spread = dummies * dummy_mean, (dummies * dummy_mean * (1 - dummy_mean)) ** 0.5
    low, high = max(0, int(mean - _FAR * spread) - 50), min(dummies, int(mean + _FAR * spread) + 50)
    added = np.arange(low, high + 1)
    chances = stats.binom.pmf(added, dummies, dummy_mean)
    beyond = float(special.bdtr(low - 1, dummies, dummy_mean) if low > 0 else 0.0)
    beyond += float(special.bdtrc(high, dummies, dummy_mean))
    tails = [min(float(chances @ _at_least(count - added, people, base)) + beyond, 1.0) for count in counts]
    return np.array(tails, dtype=np.float64)


def _at_least(counts: npt.NDArray[np.int64], people: int, chance: float) -> Vector:
    """Return P(A ≥ N) for each N."""
    import numpy as np
    from scipy import special

    # Where N is at most 0 it is certain, and where it is above the number of people impossible.
    inside = np.clip(counts, 1, max(people, 1))
    tails = special.bdtrc(inside - 1, max(people, 1), chance)
    found: Vector = np.where(counts <= 0, 1.0, np.where(counts > people, 0.0, tails))
    return found


def bounded_p_values(excess: Vector, variances: Vector) -> Vector:
    """Return bounds of the chance that a count of reports is that far above its mean where nobody holds the symbol.

    Bennett's: a sum whose terms are at most 1 above their means, of variance v, is above its mean by x with a chance of
    at most exp(−v·h(x/v)), h(u) = (1+u)·ln(1+u) − u.
    """
    import numpy as np

    spread = np.maximum(variances, 1e-300)
    over = np.maximum(excess, 0.0) / spread
    found: Vector = np.exp(-spread * ((1 + over) * np.log1p(over) - over))
    return found


def normal_p_values(counts: Vector, variances: Vector) -> Vector:
    """Return the chance that normal noise of each variance is at least as large as the count."""
    import numpy as np
    from scipy import special

    errors = np.sqrt(np.maximum(variances, 0.0))
    certain = np.where(counts > 0, 0.0, 1.0)
    return np.where(errors > 0, special.ndtr(-counts / np.where(errors > 0, errors, 1.0)), certain)


def held(values: Sequence[float], rate: float = ERROR_RATE) -> list[bool]:
    """Return which categories are held: Holm's step-down test, wrong about any with a chance of at most `rate`."""
    found, rejected = [False] * len(values), 0
    for place in sorted(range(len(values)), key=values.__getitem__):
        if values[place] > rate / (len(values) - rejected):
            break
        found[place], rejected = True, rejected + 1
    return found


def discovered(values: Vector, rate: float) -> list[int]:
    """Return the places of those discovered, a share of at most `rate` of which is false on average.

    With the p-values in order, the last i with p_(i) ≤ i·rate/(m·(1 + 1/2 + … + 1/m)) and all before it.
    """
    import numpy as np

    order = np.argsort(values, kind="stable")
    ranks = np.arange(1, len(values) + 1)
    passes = np.flatnonzero(values[order] <= ranks * rate / (len(values) * (1 / ranks).sum()))
    return [] if len(passes) == 0 else [int(place) for place in order[: passes[-1] + 1]]


def with_verdicts(estimates: Estimates) -> Estimates:
    """Return a query's estimates with what each count says about zero, over all counts that have a p-value.

    A row that has its verdict already keeps it.
    """
    asked = [row for row in estimates.rows if row.p_value is not None and row.significant is None]
    verdicts = iter(held([row.p_value or 0.0 for row in asked]))

    def judged(row: Row) -> Row:
        open_ = row.p_value is not None and row.significant is None
        return replace(row, significant=next(verdicts)) if open_ else row

    return replace(estimates, rows=tuple(judged(row) for row in estimates.rows))
