"""Tests whether a count is larger than the noise if nobody has the category.

If nobody encoded symbol j, each of n people's reports counts for j with probability `base`, independently, and each of
D dummies with `dummy_mean`. So N_j is exactly a sum of two binomials, for any answers. The p-value is
P(N_j ≥ the observed count). No normal law is assumed, because small expected counts do not have one. A count of several
symbols together, such as a total over groups, is as exactly such a sum (`count_law`). For counts that are decoded from
hashes, Bennett's inequality bounds the probability.

If the shufflers add noise, z_j dummies replace the second binomial. Each shuffler's part of z_j is a draw of a table.
So N_j is exactly the sum of a binomial and of such draws. A count of several symbols has a z_j for each. The sum
of all z_j is known. Intervals use it; p-values do not, so that they keep the digits of far tails, and are a little
larger. For counts from hashes, Chernoff's bound
includes the noise.

`held` bounds the probability that any of a query's empty categories is called significant (Holm 1979). `discovered`
bounds the expected share of empty ones among those called significant (Benjamini and Yekutieli 2001, Thm 1.3). Both are
valid under any dependence of the counts; those of kRR are dependent, because each report names one symbol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hubbub.queries.estimation.estimates import Estimates, Row

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hubbub.accountant.mechanisms.noise_law import ChainNoise
    from hubbub.queries.estimation.count_law import CountLaw
    from hubbub.queries.randomizers.randomizer import Randomizer, Vector

ERROR_RATE = 0.025
"""Most probability that an empty category of a query is called significant: that of the lower ends of a 95 % band."""

_FAR = 12
"""Standard deviations summed on either side, and a few more: the binomial mass beyond is below 1e-18, and is added."""

_MARGIN = 1e-6
"""Part by which a p-value beside noise is raised, so that it is never too small: binomial tails of 10⁷ people are
computed to a part of 2·10⁻⁸, and those of fewer more accurately."""

_AT_ONCE = 2**20
"""Terms of the sums computed together: some 30 MB."""


def exact_p_values(totals: npt.NDArray[np.int64], law: CountLaw) -> Vector:
    """Return the probability of a total as large if nobody has one of its symbols; there is no noise; shape (totals,).

    All digits of small ones are kept.
    """
    import numpy as np

    counts, place = np.unique(totals, return_inverse=True)
    found: Vector = _tails(counts, law.trials, law.other, law.added, law.chance)[place]
    return found


def _tails(counts: npt.NDArray[np.int64], people: int, base: float, dummies: int, dummy_mean: float) -> Vector:
    """Return P(A + B ≥ N) for each N, with A a binomial of people and B of dummies."""
    import numpy as np
    from scipy import special

    if dummies == 0:
        return _at_least(counts, people, base)
    # Imported late: it takes half a second to load, longer than the rest of a round's estimates.
    from scipy import stats

    mean, spread = dummies * dummy_mean, (dummies * dummy_mean * (1 - dummy_mean)) ** 0.5
    low, high = max(0, int(mean - _FAR * spread) - 50), min(dummies, int(mean + _FAR * spread) + 50)
    added = np.arange(low, high + 1)
    chances = stats.binom.pmf(added, dummies, dummy_mean)
    beyond = float(special.bdtr(low - 1, dummies, dummy_mean) if low > 0 else 0.0)
    beyond += float(special.bdtrc(high, dummies, dummy_mean))
    tails = [min(float(chances @ _at_least(count - added, people, base)) + beyond, 1.0) for count in counts]
    return np.array(tails, dtype=np.float64)


def noisy_p_values(
    randomizer: Randomizer, totals: npt.NDArray[np.int64], people: int, noise: ChainNoise, symbols: int
) -> Vector:
    """Return the probability that so many symbols of kRR together count as much if nobody encoded one of them.

    They count a binomial number of the people's reports, and the sum of as many draws of each shuffler. Of two symbols
    one is drawn, and the other has the same law. Each number is a little above the probability, never below it; shape
    (totals,).
    """
    import numpy as np

    from hubbub.queries.estimation.noise_sums import kept_law_of_sum

    counts, place = np.unique(totals, return_inverse=True)
    (least, law, more), tails = kept_law_of_sum(noise, symbols), np.zeros(len(counts))
    added, rows = least + np.arange(len(law)), max(1, _AT_ONCE // len(law))
    for start in range(0, len(counts), rows):
        # The counts are in order, so most of what one needs is needed by its neighbors too, and computed once.
        wanted = counts[start : start + rows, None] - added
        values, index = np.unique(wanted, return_inverse=True)
        reached = _at_least(values, people, symbols * randomizer.support_other)
        tails[start : start + rows] = reached[index].reshape(wanted.shape) @ law
    found: Vector = np.minimum(tails * (1 + _MARGIN) + more, 1.0)[place]
    return found


def _at_least(counts: npt.NDArray[np.int64], people: int, chance: float) -> Vector:
    """Return P(A ≥ N) for each N."""
    import numpy as np
    from scipy import special

    # If N is at most 0, the event is certain; if N is above the number of people, it is impossible.
    inside = np.clip(counts, 1, max(people, 1))
    tails = special.bdtrc(inside - 1, max(people, 1), chance)
    found: Vector = np.where(counts <= 0, 1.0, np.where(counts > people, 0.0, tails))
    return found


def bounded_p_values(excess: Vector, variances: Vector, moments: Vector | None = None) -> Vector:
    """Return bounds of the probability that a count of reports is so far above its mean if nobody has the symbol.

    Bennett's inequality: a sum of variance v whose independent terms are at most 1 above their means is above its mean
    by x or more with a probability of at most exp(−v·h(x/v)), with h(u) = (1+u)·ln(1+u) − u. It is the least value of
    Chernoff's bound exp(v·(e^t − 1 − t) − t·x) over t ≥ 0. If there is noise of the shufflers, which is not part of
    the variances, `moments` are the logarithms of its E e^{t·X} at `hashed_noise.TILTS`. They are added to the
    exponent, and the least value is searched for.
    """
    import numpy as np

    spread = np.maximum(variances, 1e-300)
    if moments is not None:
        from hubbub.queries.randomizers.hashed_noise import TILTS

        logs = np.zeros(len(excess))
        for tilt, moment in zip(TILTS.tolist(), moments.tolist(), strict=True):
            np.minimum(logs, spread * (np.expm1(tilt) - tilt) + moment - tilt * excess, out=logs)
        bounds: Vector = np.exp(logs)
        return bounds
    over = np.maximum(excess, 0.0) / spread
    found: Vector = np.exp(-spread * ((1 + over) * np.log1p(over) - over))
    return found


def held(values: Sequence[float], rate: float = ERROR_RATE) -> list[bool]:
    """Return which categories are significant by Holm's step-down test: wrong about any with probability ≤ `rate`."""
    found, rejected = [False] * len(values), 0
    for place in sorted(range(len(values)), key=values.__getitem__):
        if values[place] > rate / (len(values) - rejected):
            break
        found[place], rejected = True, rejected + 1
    return found


def discovered(values: Vector, rate: float) -> list[int]:
    """Return the indices of the discoveries; on average a share of at most `rate` of them is false.

    With the p-values in order, these are all up to the last i with p_(i) ≤ i·rate/(m·(1 + 1/2 + … + 1/m)).
    """
    import numpy as np

    order = np.argsort(values, kind="stable")
    ranks = np.arange(1, len(values) + 1)
    passes = np.flatnonzero(values[order] <= ranks * rate / (len(values) * (1 / ranks).sum()))
    return [] if len(passes) == 0 else [int(place) for place in order[: passes[-1] + 1]]


def with_verdicts(estimates: Estimates) -> Estimates:
    """Return a query's estimates, with a verdict on each count that has a p-value: whether it is significant.

    A row that has its verdict already keeps it.
    """
    asked = [row for row in estimates.rows if row.p_value is not None and row.significant is None]
    verdicts = iter(held([row.p_value or 0.0 for row in asked]))

    def judged(row: Row) -> Row:
        open_ = row.p_value is not None and row.significant is None
        return replace(row, significant=next(verdicts)) if open_ else row

    return replace(estimates, rows=tuple(judged(row) for row in estimates.rows))
