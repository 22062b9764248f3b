"""Shares ε and ε_local among the bits of a number, each of which is a query of two symbols beside its own noise.

The sum is Σ_j w_j·(ones of bit j), with weights w_j that halve from bit to bit. So the first bits need the least noise.
If bit j has noise of variance V_j and its randomizer the variance κ_j in each of n reports, the sum's variance is
Σ_j w_j²·(V_j + n·κ_j), apart from rounding.

Geometric noise of spread s is about 1/s-private, so with Σ_j 1/s_j fixed, Σ_j w_j²·s_j² is least for s_j ∝ w_j^(−2/3).
Gaussian noise composes by Σ_j 1/s_j², so it is least for s_j ∝ w_j^(−1/2). The composition of all bits then decides how
large the spreads must be: what is computed otherwise only says where to look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, cosh, fsum, inf, log, sinh, sqrt

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.calibration.noise import CLOSE, ENDS, LEAST_SPREAD, LOG_TAIL, NOISE_FAMILIES, STEPS, NoiseFamily
from hubbub.accountant.composition import compose_upper, composed_delta
from hubbub.accountant.errors import AccountingError, UnmetTarget
from hubbub.accountant.mechanisms import KRR, WithNoise
from hubbub.accountant.mechanisms.exact_values import GAMMA_DENOMINATOR
from hubbub.accountant.mechanisms.noise_law import REACH_LIMIT, NoiseLaw
from hubbub.accountant.numbers import checked_delta, checked_epsilon, checked_whole
from hubbub.accountant.pairs import ROUNDS_LIMIT, Part, dominating_grid

MOST_DIGITS = 16
"""Most bits of a number that are planned: its steps are then a 65,535th of the range."""

LARGEST_BIT = log(2 * GAMMA_DENOMINATOR - 1)
"""The largest local ε of one bit: γ = 1/2³² is the least that a task can state."""

_POWERS = {"geometric": 2 / 3, "gaussian": 1 / 2}
"""By family, the power p in spreads ∝ w^(−p)."""

_SPREADS = {"geometric": sqrt(2), "gaussian": 1.0}
"""By family, the standard deviation of a law of spread 1, about."""

_HALVINGS = 60
"""Bisections that leave no error to be seen in a float."""


def weights_of(digits: int) -> tuple[float, ...]:
    """Return 2^(b−j)/(2^b − 1) for each bit j = 1 … b of a number of so many binary digits: they add up to 1."""
    return tuple(2 ** (digits - place) / (2**digits - 1) for place in range(1, digits + 1))


def shares_of_local(digits: int, cap: float) -> tuple[float, ...]:
    """Return the local ε of each bit, in all at most `cap`, that make Σ_j w_j²·κ_j least.

    κ = e^ε/(e^ε − 1)² is the variance that one report of a bit has by its randomizer. At the minimum all
    w_j²·(−κ'(ε_j)) are equal, unless ε_j is the largest of a bit. κ is convex, so there is only one.

    Raises:
        AccountingError: if `digits` is not 1 to `MOST_DIGITS`, or the cap is not above 0.
    """
    checked_whole("digits", digits, 1, MOST_DIGITS)
    if not cap > 0:
        raise AccountingError(f"the cap on epsilon_local is {cap}; give a number above 0")
    weights = weights_of(digits)
    if cap >= digits * LARGEST_BIT:
        return (LARGEST_BIT,) * digits

    def shares(level: float) -> list[float]:
        return [_local_at(level - 2 * log(weight)) for weight in weights]

    low, high = log(_falling(LARGEST_BIT)) + 2 * log(weights[-1]), log(_falling(cap / digits / 2)) + 2 * log(weights[0])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fsum(shares(middle)) > cap else (low, middle)
    return tuple(shares(high))


def _falling(epsilon_local: float) -> float:
    """Return −κ'(ε): how fast the variance of a report falls."""
    return cosh(epsilon_local / 2) / (4 * sinh(epsilon_local / 2) ** 3)


def _local_at(level: float) -> float:
    """Return the ε, at most `LARGEST_BIT`, at which ln(−κ'(ε)) is `level`."""
    low, high = 1e-9, LARGEST_BIT
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if log(_falling(middle)) > level else (low, middle)
    return low


@dataclass(frozen=True)
class DigitsTarget:
    """(epsilon, delta) of all bits of one round together, and (total, delta) of those of all `rounds`.

    With `total` infinite only one round is limited, as for `calibrate`.

    Raises:
        AccountingError: if a number is out of range.
    """

    epsilon: float
    delta: float
    rounds: int = 1
    total: float = inf

    def __post_init__(self) -> None:
        if checked_epsilon(self.epsilon) == 0:
            raise AccountingError("epsilon is 0, which no noise reaches; allow more")
        checked_delta(self.delta)
        checked_whole("rounds", self.rounds, 1, ROUNDS_LIMIT)
        if not self.total > 0:
            raise AccountingError(f"epsilon of all rounds is {self.total}; give a number above 0")

    @property
    def limits(self) -> tuple[tuple[float, int], ...]:
        """Each ε that must hold at δ, with its number of rounds."""
        over_rounds = self.rounds > 1 and self.total < inf
        return ((self.epsilon, 1), *(((self.total, self.rounds),) if over_rounds else ()))


@answering
def least_noise_of_bits(randomizers: tuple[KRR, ...], target: DigitsTarget) -> tuple[NoiseLaw, ...]:
    """Return a law for each bit's noise, from the first bit on, with the least Σ_j w_j²·V_j found that meets `target`.

    The noise alone meets it, whatever everybody else sent. `compose_upper` confirmed each limit. If only one round is
    limited, the laws' ends are so far away that over all rounds they take little of delta.

    Raises:
        UnmetTarget: if no laws within reach meet the target.
    """
    return _least(randomizers, target)


@lru_cache(maxsize=64)
def _least(randomizers: tuple[KRR, ...], target: DigitsTarget) -> tuple[NoiseLaw, ...]:
    best: tuple[float, tuple[NoiseLaw, ...]] | None = None
    for family in NOISE_FAMILIES:
        search = _ScaleSearch(family, randomizers, target)
        # A family that does not meet the target with as much noise as the best one so far cannot be better.
        if best is not None and search.excess(search.scale_of(best[0])) > 0:
            continue
        laws = search.least()
        found = inf if laws is None else variance_of_laws(laws)
        if laws is not None and (best is None or found < best[0]):
            best = found, laws
    if best is None:
        raise UnmetTarget(
            f"no noise with a reach of at most {REACH_LIMIT} meets epsilon {target.epsilon:g} at delta "
            f"{target.delta:g} for {len(randomizers)} digits; allow a larger epsilon, or fewer digits or rounds"
        )
    return best[1]


def variance_of_laws(laws: Sequence[NoiseLaw]) -> float:
    """Return Σ_j w_j²·V_j: the variance of the noise of a number's bits, in squared widths of its range."""
    return fsum(weight**2 * float(law.variance) for weight, law in zip(weights_of(len(laws)), laws, strict=True))


@dataclass(frozen=True)
class _ScaleSearch:
    """The search for the least scale of one family: the spread of the first bit, from which all others follow."""

    family: NoiseFamily
    randomizers: tuple[KRR, ...]
    target: DigitsTarget

    @property
    def factors(self) -> tuple[float, ...]:
        """Each bit's spread, relative to that of the first."""
        weights = weights_of(len(self.randomizers))
        return tuple((weights[0] / weight) ** _POWERS[self.family.name] for weight in weights)

    def scale_of(self, variance: float) -> float:
        """Return the scale at which the laws have about that variance together."""
        spreads = zip(weights_of(len(self.randomizers)), self.factors, strict=True)
        one = fsum((weight * factor * _SPREADS[self.family.name]) ** 2 for weight, factor in spreads)
        return sqrt(variance / one)

    def laws(self, scale: float) -> tuple[NoiseLaw, ...]:
        """Return the laws of that scale; where one would reach too far, its spread is smaller."""
        lost = min(ENDS * self.target.delta / self.target.rounds / len(self.randomizers), 1e-4)
        furthest = REACH_LIMIT / self.family.end_at(1.0, lost)
        return tuple(self.family.at(min(scale * factor, furthest), lost) for factor in self.factors)

    def excess(self, scale: float) -> float:
        """Return the largest ln(δ found / δ) of all limits at that scale: the noise is enough if it is at most 0."""
        pairs = zip(self.randomizers, self.laws(scale), strict=True)
        parts = [Part(WithNoise(randomizer, law), 1) for randomizer, law in pairs]
        found = max(_delta(parts, epsilon, rounds) for epsilon, rounds in self.target.limits)
        return log(max(found, 1e-300) / self.target.delta)

    def least(self) -> tuple[NoiseLaw, ...] | None:
        """Return the laws of the least scale found; None if none within reach meets the target."""
        ends = self._bracket()
        if ends is None:
            return None
        (low, above), (high, below) = ends
        # ln δ is nearly a line in ln(scale), so a few steps between both ends suffice.
        while high > STEPS * low and below < -CLOSE:
            share = min(max(above / (above - below + CLOSE / 2), 0.1), 0.9)
            middle = low * (high / low) ** share
            found = self.excess(middle)
            low, above, high, below = (low, above, middle, found) if found <= 0 else (middle, found, high, below)
        while not self._is_confirmed(high):
            high *= STEPS
            if high > REACH_LIMIT:
                return None
        return self.laws(high)

    def _bracket(self) -> tuple[tuple[float, float], tuple[float, float]] | None:
        """Return a scale that is too small and one that is enough, each with its excess; None if none is enough."""
        # Geometric noise of this scale is enough in any case, as its ε add up.
        high = fsum(1 / factor for factor in self.factors) / self.target.epsilon
        below = self.excess(high)
        low, above = high / 1.5, 0.0
        while below > 0:
            low, above, high = high, below, 1.5 * high
            if high > REACH_LIMIT:
                return None
            below = self.excess(high)
        while above <= 0:
            above = self.excess(low)
            if above > 0:
                break
            if low < LEAST_SPREAD:
                return (low / STEPS, 1.0), (low, above)
            low, high, below = low / 1.5, low, above
        return (low, above), (high, below)

    def _is_confirmed(self, scale: float) -> bool:
        """Whether ε by the accountant's own composition is within each limit: its grids are others."""
        pairs = list(zip(self.randomizers, self.laws(scale), strict=True))
        return all(
            compose_upper([Part(WithNoise(*each), 1, rounds) for each in pairs], self.target.delta) <= epsilon
            for epsilon, rounds in self.target.limits
        )


def _delta(parts: Sequence[Part], epsilon: float, rounds: int) -> float:
    """Return δ at ε of so many rounds of all parts, by the noise alone; never below the truth."""
    if epsilon >= rounds * fsum(part.mechanism.epsilon_local for part in parts):
        return 0.0
    tail = 10.0 * ceil((log(rounds * len(parts)) + LOG_TAIL) / 10)
    return composed_delta([(dominating_grid(part, tail), rounds) for part in parts], epsilon)
