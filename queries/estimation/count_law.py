"""The exact law of how many reports count for some symbols, and intervals of the number of people that hold for any.

Let c of n people have one of s symbols, and let N be the sum of these symbols' counts of reports. Given c, N is a sum
of independent numbers, whatever the people's answers are:

    N = Bin(c, p) + Bin(T − c, q) + dummies,        p > q.

- One symbol per report (kRR of k symbols): T = n, q = s·γ/k, p = q + 1 − γ. A uniform dummy is one of the s symbols
  with probability s/k.
- A bit per symbol (unary encoding): each person's s bits are independent, so T = n·s, and p and q are the probabilities
  of a 1. Of a uniform dummy's s bits, s − 1 are 1 with probability q, and one with q + (p − q)·s/k.
- Noise of the shufflers: the dummies are s draws of its law from each of H shufflers. Their sum S over all symbols is
  known, so their law given S is used: P(A_s = a | S) ∝ P(A_s = a)·P(A_{m−s} = S − a), with A_s the sum of H·s draws
  and m the number of all symbols.

**Intervals.** As p > q, N rises stochastically in c. So P_c(N ≥ N_obs) rises in c, and P_c(N ≤ N_obs) falls. The set

    { c in 0 … n : P_c(N ≥ N_obs) > α/2 and P_c(N ≤ N_obs) > α/2 }

is an interval. If c is the truth, P_c(N ≥ N_obs) ≤ α/2 happens with a probability of at most α/2, by the definition of
a tail; so does the other. So the interval misses the truth with a probability of at most α, for every n, c, γ and law
of the dummies (Clopper and Pearson, 1934). Of m intervals at α/m, one or more miss with a probability of at most α,
however they depend on each other (Bonferroni).

**Tails** are sums over the values of N. They are computed by the discrete Fourier transform of N's characteristic
function, over a period that has all but 10⁻¹³ of the mass on either side of N_obs. What is cut, and rounding, are less
than `_SLACK`, and an end is moved outwards until its tail is below α/2 even so. So errors make an interval wider.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import special

from hubbub.queries.estimation.noise_sums import NoiseSum, noise_sum

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms.noise_law import ChainNoise
    from hubbub.queries.randomizers.randomizer import Randomizer, Vector

    Whole = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]

_SLACK = 2e-9
"""More than a tail is wrong by. A single end's α/2 is 0.025 or, in a band of a thousand, 2.5·10⁻⁵."""

_FAR, _FURTHER = 7.75, 20
"""Beyond 7.75 standard deviations and 20 more, a sum of independent 0s and 1s has less than 10⁻¹³ (Bernstein)."""

_LEAST_DECAY = 40.0
"""A characteristic function below e^−40 adds nothing to a sum of doubles."""

_GUESSES = 8
"""Guesses of an end by the normal law; four are usual. Then the range that is left is halved."""

_AT_ONCE = 2**18
"""Terms of the sums computed together: some 10 MB."""


class CountIntervals:
    """The intervals of some observed sums of one law, at any level."""

    def __init__(self, law: CountLaw, observed: Whole) -> None:
        self._law, self._observed = law, observed
        self._found: dict[float, tuple[list[float], list[float]]] = {}

    def of(self, place: int, rate: float) -> tuple[float, float]:
        """Return the ends of one sum's interval, which misses with a probability of at most `rate`."""
        if rate not in self._found:
            low, high = self._law.intervals(self._observed, rate)
            self._found[rate] = low.astype(np.float64).tolist(), high.astype(np.float64).tolist()
        low_ends, high_ends = self._found[rate]
        return low_ends[place], high_ends[place]


class CountLaw:
    """The law of the reports N of some symbols, by the number c of people who have one of them; see the module.

    Args:
        people: n.
        trials: T, n or n times the number of symbols.
        own: p, the probability that one of the c counts.
        other: q, the probability that each further trial counts.
        added: how many further trials the uniform dummies are.
        chance: the probability that each of these counts.
        noise: the law of the dummies that are drawn by symbol, if there are any.
    """

    def __init__(
        self,
        people: int,
        trials: int,
        own: float,
        other: float,
        added: int = 0,
        chance: float = 0.0,
        noise: NoiseSum | None = None,
    ) -> None:
        self.people, self.trials, self.added, self.noise = people, trials, added, noise
        self.own, self.other, self.chance = min(own, 1.0), other, chance
        self._grids: dict[int, _Grid] = {}

    def intervals(self, observed: Whole, rate: float) -> tuple[Whole, Whole]:
        """Return the ends of each observed sum's interval, which misses with a probability of at most `rate`.

        If no c fits, because the sum is lower or higher than any explains, both ends are the nearest one, 0 or n.
        """
        seen, place = np.unique(observed, return_inverse=True)
        # The least c that explains as much, and the largest that explains as little, found together: the second ends
        # where the tail below is too small for the first time.
        above = np.repeat([True, False], len(seen))
        ends = self._first(np.concatenate([seen, seen]), above, rate / 2)
        low, high = ends[: len(seen)], ends[len(seen) :] - 1
        return np.minimum(low, self.people)[place], np.maximum(high, 0)[place]

    def chance_of_as_many(self, observed: Whole) -> Vector:
        """Return the probability of sums as large if nobody has one of the symbols; at most 2·`_SLACK` too large."""
        nobody, above = np.zeros(len(observed), dtype=np.int64), np.ones(len(observed), dtype=np.bool_)
        return np.minimum(self._tails(nobody, observed, above)[0] + _SLACK, 1.0)

    def _first(self, seen: Whole, above: Flags, level: float) -> Whole:
        """Return the least c from 0 to n with P_c(N ≥ seen) > level, or not `above` with P_c(N ≤ seen) ≤ level.

        If there is none, it is n + 1.
        """
        # It is above `low`, and at most `high`.
        low, high = np.full(len(seen), -1), np.full(len(seen), self.people + 1)
        guess, steps = np.rint(self._expected(seen)).astype(np.int64), 0
        while len(open_ := np.flatnonzero(high - low > 1)):
            least, most = low[open_] + 1, high[open_] - 1
            tried = np.clip(guess[open_], least, most) if steps < _GUESSES else (least + most) // 2
            # Where a guess is right, its neighbor shows that it is.
            both = np.concatenate([tried, np.maximum(tried - 1, 0)])
            sides, sums = np.tile(above[open_], 2), np.tile(seen[open_], 2)
            tails, spread = self._tails(both, sums, sides)
            found = (tails + _SLACK > level) == sides
            here, before = found[: len(tried)], found[len(tried) :] & (tried > 0)
            high[open_] = np.where(before, tried - 1, np.where(here, tried, high[open_]))
            low[open_] = np.where(before, low[open_], np.where(here, tried - 1, tried))
            guess[open_] = self._better(tried, tails[: len(tried)], spread[: len(tried)], above[open_], level)
            steps += 1
        return high

    def _expected(self, seen: Whole) -> Vector:
        """Return the c whose N has the mean `seen`."""
        mean = self.trials * self.other + self.added * self.chance + (0.0 if self.noise is None else self.noise.mean)
        return np.asarray((seen - mean) / (self.own - self.other), dtype=np.float64)

    def _better(self, tried: Whole, tails: Vector, spread: Vector, above: Flags, level: float) -> Whole:
        """Return where the tail would be `level` by the normal law, given the tails of what was tried."""
        inside = np.clip(tails, _SLACK / 100, 1 - _SLACK / 100)
        away = (special.ndtri(level) - special.ndtri(inside)) * spread / (self.own - self.other)
        found: Whole = np.ceil(tried + np.where(above, away, -away)).astype(np.int64)
        return found

    def _moments(self, people: Whole) -> tuple[Vector, Vector]:
        rest = self.trials - people
        mean = people * self.own + rest * self.other + self.added * self.chance
        spread = self.added * self.chance * (1 - self.chance) + rest * self.other * (1 - self.other)
        return mean, spread + people * self.own * (1 - self.own)

    def _tails(self, people: Whole, seen: Whole, above: Flags) -> tuple[Vector, Vector]:
        """Return P_c(N ≥ seen), or P_c(N ≤ seen) if not `above`, for each c of `people`, and N's deviations."""
        mean, variance = self._moments(people)
        reach, further = _FAR * np.sqrt(variance) + _FURTHER, 0.0
        if self.noise is not None:
            mean, reach, further = mean + self.noise.mean, reach + self.noise.reach, self.noise.variance
        away = seen - mean
        tails, inside = np.where((away < 0) == above, 1.0, 0.0), np.abs(away) <= reach
        sizes = np.ceil(np.log2(4 * reach + 2)).astype(np.int64)
        for size in set(sizes[inside].tolist()):
            some = np.flatnonzero((sizes == size) & inside)
            tails[some] = self._grid(size).tails(people[some], seen[some], above[some], float(variance[some].min()))
        return tails, np.sqrt(variance + further)

    def _grid(self, size: int) -> _Grid:
        if size not in self._grids:
            # No reach of this size is smaller than this.
            reach = ((1 << size - 1) - 2) / 4 - (0.0 if self.noise is None else self.noise.reach)
            self._grids[size] = _Grid(self, (1 << size) + 1, max(0.0, (reach - _FURTHER) / _FAR) ** 2)
        return self._grids[size]


def law_of_counts(
    randomizer: Randomizer, people: int, dummies: int, noise: ChainNoise | None, symbols: int
) -> CountLaw:
    """Return the law of the sum of so many symbols' counts, of people and dummies."""
    gap, other, share = randomizer.support_gap, randomizer.support_other, symbols / randomizer.symbols
    if not randomizer.one_symbol_per_report:
        further = dummies * (symbols - 1)
        return _law(people, people * symbols + further, gap + other, other, dummies, other + gap * share)
    drawn = None if noise is None else noise_sum(noise, symbols, randomizer.symbols, dummies)
    added = dummies if noise is None else 0
    return _law(people, people, gap + symbols * other, symbols * other, added, share, drawn)


# Cached with its grids, because many groups have one law.
_law = lru_cache(maxsize=128)(CountLaw)


def _used(omega: Vector, variance: float) -> slice:
    """Return the frequencies at which the characteristic function of such a variance is not negligible.

    |E e^{iωX}|² of an X that is 1 with probability p, else 0, is 1 − 2p(1 − p)(1 − cos ω). So |φ(ω)| is at most
    exp(−2·variance·sin²(ω/2)).
    """
    decay = 2 * variance * np.sin(omega / 2) ** 2
    return slice(0, max(1, int(np.searchsorted(decay, _LEAST_DECAY))))


class _Grid:
    """The characteristic function of a law at the frequencies ω = 2πj/period, and sums of it that are tails.

    With an odd period 2J + 1, Σ_{d=0…J} P(N = x + d) is (1/period)·Σ_j φ(ω_j)·e^{−iω_j x}·Σ_{d=0…J} e^{−iω_j d}, up to
    the mass outside x − J … x + J. No c that is asked for has a smaller variance of N without noise than `variance`.
    """

    def __init__(self, law: CountLaw, period: int, variance: float) -> None:
        half = (period - 1) // 2
        omega: Vector = np.asarray(2 * np.pi / period * np.arange(half + 1), dtype=np.float64)
        used = _used(omega, variance)
        self.period, self.omega = period, omega[used]
        self.steps = np.arange(len(self.omega))
        # If p is above ½, those who do not count are counted: c is then added in whole numbers, without rounding.
        self.turned = law.own > 0.5
        other = _logarithm(law.other, self.omega)
        own = np.conj(_logarithm(1 - law.own, self.omega)) if self.turned else _logarithm(law.own, self.omega)
        self.gap, self.base = own - other, law.trials * other + law.added * _logarithm(law.chance, self.omega)
        # Both j and −j are in the sum over j from 1 on.
        kernel = np.array([half + 1, *(2 * _geometric(self.omega[1:], half + 1))]) / period
        factor = np.ones(half + 1) if law.noise is None else law.noise.characteristic(period)
        self.above, self.below = kernel * factor[used], np.conj(kernel) * factor[used]

    def tails(self, people: Whole, seen: Whole, above: Flags, variance: float) -> Vector:
        """Return P_c(N ≥ seen), or P_c(N ≤ seen) if not `above`."""
        used, tails = _used(self.omega, variance), np.empty(len(people))
        steps, gap, base = self.steps[used], self.gap[used], self.base[used]
        rows = max(1, _AT_ONCE // len(steps))
        for part in (slice(start, start + rows) for start in range(0, len(people), rows)):
            # Whole numbers are reduced to one period first, so that no digits of the angle are lost.
            turns = (seen[part] - self.turned * people[part])[:, None] * steps % self.period
            angle = turns * (2 * np.pi / self.period)
            waves, side = np.exp(people[part, None] * gap + base - 1j * angle), above[part]
            # Not by a matrix product: its threads take longer to wait for each other than so few sums.
            sums = (np.einsum("ij,j->i", waves, weights[used]).real for weights in (self.above, self.below))
            tails[part] = np.where(side, *sums)
        return np.clip(tails, 0.0, 1.0)


def _logarithm(chance: float, omega: Vector) -> npt.NDArray[np.complex128]:
    """Return ln E e^{iωX} of an X that is 1 with that chance, else 0; its digits are kept if the chance is small."""
    less = 2 * chance * np.sin(omega / 2) ** 2
    found: npt.NDArray[np.complex128] = 0.5 * np.log1p(-2 * (1 - chance) * less) + 1j * np.arctan2(
        chance * np.sin(omega), 1 - less
    )
    return found


def _geometric(omega: Vector, terms: int) -> npt.NDArray[np.complex128]:
    """Return Σ e^{−iωd} over so many d from 0 on."""
    found: npt.NDArray[np.complex128] = (1 - np.exp(-1j * omega * terms)) / (1 - np.exp(-1j * omega))
    return found
