"""Chooses, at each ε, the smaller of two bounds on one batch: by all that the others send, or by the blanket alone.

Both are valid at every ε, so whichever is evaluated is. Both are looked at in some places. Between two places where the
same one is the smaller, that one alone is asked; else both are. The blanket is the smaller one for few people, for a δ
that hardly counts, and near ε = 0 if the local ε is small.
"""

from __future__ import annotations

from bisect import bisect_left
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

WHOLE, BLANKET = "whole", "blanket"
"""Names of the two bounds."""


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
    asked = _asked(whole, blanket, people, epsilon)
    found = []
    if WHOLE in asked:
        found.append(whole.log_delta(people, epsilon))
    if BLANKET in asked:
        found.append(blanket.ends(people, epsilon, precision))
    return min(found, key=lambda each: each.upper)


def _asked(whole: Whole, blanket: Beside, people: int, epsilon: float) -> set[str]:
    """Return which bounds are asked at `epsilon`: that which is smaller at the places beside it, or both."""
    places, smaller = _smaller(whole, blanket, people)
    after = bisect_left(places, epsilon)
    return set(smaller[max(after - 1, 0) : after + 1])


@lru_cache(maxsize=64)
def _smaller(whole: Whole, blanket: Beside, people: int) -> tuple[list[float], list[str]]:
    """Return the places where both are looked at, and which is the smaller one there."""
    deviation = sqrt(whole.variance() / people)
    places = [place * deviation for place in _DEVIATIONS]
    return places, [
        BLANKET if blanket.ends(people, each, COARSE).lower < whole.log_delta(people, each).upper else WHOLE
        for each in places
    ]
