"""Finds the least noise level of a family that meets a target; the bound itself decides."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import isqrt
from typing import Protocol

from hubbub.accountant import bounds
from hubbub.accountant.calibration import krr
from hubbub.accountant.calibration.design import NOISE_LEVELS, MechanismFamily, R, Target, is_within
from hubbub.accountant.errors import AccountingError, UnmetTarget
from hubbub.accountant.mechanisms import KRR, Hashed, LocalMechanism

COARSE_STEPS = 64
"""The quick search ends if a step is a 64th of the noise level: errors of neighboring encodings differ by more."""

FINE_STEPS = 2**20
"""The precise search ends if a step is a millionth of the noise level: the loss of accuracy is invisible."""


Beaten = Callable[[int], bool]
"""Whether the randomizer of a noise level has a larger error than one that is known: then so has that of each above."""


class Search(Protocol):
    """A search for the least noise level of one kind of mechanism."""

    def quick(self, family: MechanismFamily[R], target: Target, beaten: Beaten) -> int:
        """Return a noise level near the least, good enough to compare encodings; or one below that is `beaten`."""

    def precise(self, family: MechanismFamily[R], target: Target) -> int:
        """Return a noise level at, or a little below, the least."""


class Bisection:
    """A search for any mechanism: it evaluates the bound at every step."""

    def quick(self, family: MechanismFamily[R], target: Target, beaten: Beaten) -> int:
        """Bisect to a 64th."""
        return _bisected(family, target, COARSE_STEPS, beaten)

    def precise(self, family: MechanismFamily[R], target: Target) -> int:
        """Bisect to a millionth. `least` continues from there and checks ε and δ, so one check is enough here."""
        return _bisected(family, target, FINE_STEPS, _never)


class OfKRR:
    """A search for kRR, whose divergence is cheap to guess (`calibration.krr`)."""

    def quick(self, family: MechanismFamily[R], target: Target, beaten: Beaten) -> int:
        """Return the level found from coarse evaluations."""
        return krr.quick(_categories(family), target, beaten)

    def precise(self, family: MechanismFamily[R], target: Target) -> int:
        """Return that level, refined by Newton's method."""
        categories = _categories(family)
        return krr.refined(categories, krr.quick(categories, target, _never), target)


def _never(noise_level: int) -> bool:  # noqa: ARG001 - what is beaten by nothing
    return False


def _categories(family: MechanismFamily[R]) -> int:
    mechanism = family.at(1).mechanism
    # The bound of hashed answers is kRR's over the cells of a row, so γ is found in the same way.
    krr = mechanism.krr if isinstance(mechanism, Hashed) else mechanism
    if not isinstance(krr, KRR):
        raise AccountingError(
            f"the family's mechanism is {mechanism!r}, but this search is for kRR; use Bisection for others"
        )
    return krr.categories


_SEARCHES: dict[type, Search] = {KRR: OfKRR(), Hashed: OfKRR()}
"""The mechanisms that have a faster search than bisection."""


def search_of(family: MechanismFamily[R]) -> Search:
    """Return the search for a family's least noise level."""
    return _SEARCHES.get(type(family.at(1).mechanism), Bisection())


def least(family: MechanismFamily[R], target: Target) -> R:
    """Return the randomizer of the least noise level found that meets the target, as the bound itself checked.

    Raises:
        UnmetTarget: if no randomizer meets it.
    """
    noise_level = search_of(family).precise(family, target)
    finest = step = max(1, noise_level // 1_000_000)
    failed = noise_level
    # The search may be off by its rounding: go up until the bound itself is met.
    while not holds(family.at(noise_level).mechanism, target):
        failed, noise_level, step = noise_level, noise_level + step, 2 * step
        if noise_level >= NOISE_LEVELS:
            raise impossible(target)
    # The last step may have gone far beyond the least level. Both ends were checked, so bisection between them is safe.
    while noise_level - failed > finest:
        middle = (failed + noise_level) // 2
        failed, noise_level = (failed, middle) if holds(family.at(middle).mechanism, target) else (middle, noise_level)
    return family.at(noise_level)


def holds(mechanism: LocalMechanism, target: Target) -> bool:
    """Return whether δ_upper(ε) ≤ δ and ε_upper(δ) ≤ ε, under the cap on ε_local.

    Both are checked, so that a later certificate does not state more than the target.
    """
    return _delta_holds(mechanism, target) and certified(mechanism, target) <= target.epsilon


def _delta_holds(mechanism: LocalMechanism, target: Target) -> bool:
    if not is_within(mechanism, target.cap):
        return False
    return _delta_upper(mechanism, target.hiding, target.epsilon, target.dummies) <= target.delta


def certified(mechanism: LocalMechanism, target: Target) -> float:
    """Return the certified ε of one batch at the target's δ."""
    return _certified(mechanism, target.hiding, target.delta, target.dummies)


@lru_cache(maxsize=256)
def _delta_upper(mechanism: LocalMechanism, hiding: int, epsilon: float, dummies: int) -> float:
    # Cached, as both bisections begin alike, and what they end at is checked.
    return bounds.delta_upper(mechanism, hiding, epsilon, dummies=dummies)


@lru_cache(maxsize=256)
def _certified(mechanism: LocalMechanism, hiding: int, delta: float, dummies: int) -> float:
    # Cached, as both the check and the result need it: with dummies it takes a second.
    return bounds.epsilon_upper(mechanism, hiding, delta, dummies=dummies)


def _bisected(family: MechanismFamily[R], target: Target, steps: int, beaten: Beaten) -> int:
    """Return the least noise level that meets δ, to one part in `steps`, on a logarithmic scale; else the last one.

    More noise is more privacy, so the levels that do are an upper interval. One below it is returned if it is `beaten`.
    """

    def does(noise_level: int) -> bool:
        return _delta_holds(family.at(noise_level).mechanism, target)

    low, high = 1, NOISE_LEVELS - 1
    if does(low):
        return low
    while high - low > max(1, low // steps):
        if beaten(low):
            return low
        # The geometric middle: relevant noise levels span nine orders of magnitude.
        middle = min(max(isqrt(low * high), low + 1), high - 1)
        low, high = (low, middle) if does(middle) else (middle, high)
    return high


def impossible(target: Target) -> UnmetTarget:
    """Return the error for a target that no randomizer of a family meets."""
    return UnmetTarget(
        f"epsilon {target.epsilon:g} at delta {target.delta:g} cannot be met by {target.hiding} reports; "
        "collect more reports or allow a larger epsilon"
    )
