"""Chooses, at each ε, the smaller of two bounds on one batch: by all that the others send, or by the blanket alone.

Both are valid at every ε, so whichever is evaluated is. The blanket takes more time, and is the larger one but for few
people or a δ that hardly counts. So it is asked only beyond the last of some places where it was not the smaller one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Protocol

from hubbub.accountant.divergence.logs import LogBracket
from hubbub.accountant.divergence.search import COARSE
from hubbub.accountant.divergence.whole_law import Whole

_DEVIATIONS = (0.0, 0.5, 1.0, 2.0, 3.5, 5.0, 7.0)
"""Where both are compared, in standard deviations of the loss."""


class Beside(Hashable, Protocol):
    """A bound by a part of what others send."""

    def ends(self, people: int, epsilon: float, precision: float) -> LogBracket:
        """Return ends of ln of a number never below δ(`epsilon`)."""


@dataclass(frozen=True, eq=False)
class SmallerCurve:
    """One batch's curve: `whole` is δ by all that the others send, `blanket` by the blanket."""

    whole: Whole
    blanket: Beside

    def variance(self) -> float:
        """Return the variance of one draw at ε = 0, which sets the distance of the curve's points."""
        return self.whole.variance()

    def log_upper(self, people: int, epsilon: float, precision: float) -> float:
        """Return ln of an upper end of δ."""
        return self._ends(people, epsilon, precision).upper

    def log_lower(self, people: int, epsilon: float, precision: float) -> float:
        """Return ln of a lower end of the bound that `log_upper` evaluates."""
        return self._ends(people, epsilon, precision).lower

    def _ends(self, people: int, epsilon: float, precision: float) -> LogBracket:
        return _ends(self.whole, self.blanket, people, epsilon, precision)


@lru_cache(maxsize=4096)
def _ends(whole: Whole, blanket: Beside, people: int, epsilon: float, precision: float) -> LogBracket:
    """Return both ends, cached: a curve asks for the upper ones first, and then for the lower ones."""
    found = whole.log_delta(people, epsilon)
    if epsilon <= _reach(whole, blanket, people):
        return found
    other = blanket.ends(people, epsilon, precision)
    return min(found, other, key=lambda each: each.upper)


@lru_cache(maxsize=64)
def _reach(whole: Whole, blanket: Beside, people: int) -> float:
    """Return an ε up to which the blanket is smaller at none of the places that are looked at; −1 if there is none."""
    deviation, reached = sqrt(whole.variance() / people), -1.0
    for place in _DEVIATIONS:
        epsilon = place * deviation
        other = blanket.ends(people, epsilon, COARSE)
        if other.lower < whole.log_delta(people, epsilon).upper:
            break
        reached = epsilon
    return reached
