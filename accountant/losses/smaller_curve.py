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

from hubbub.accountant.divergence.log_bracket import ZERO, LogBracket
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


@dataclass(frozen=True)
class SmallerCurve:
    """One batch's curve: `whole` is δ by all that the others send, `blanket` by the blanket.

    From `epsilon_local` on δ is 0, and neither is asked.
    """

    whole: Whole
    blanket: Beside
    epsilon_local: float

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
        # A curve asks for the lower end at its last place, too; that is at 0 if the local ε is.
        if epsilon >= self.epsilon_local:
            return ZERO
        return _ends(self, people, epsilon, precision)


@lru_cache(maxsize=4096)
def _ends(curve: SmallerCurve, people: int, epsilon: float, precision: float) -> LogBracket:
    """Return both ends, cached: a curve asks for the upper ones first, and then for the lower ones."""
    asked = _asked(curve, people, epsilon)
    found = []
    if WHOLE in asked:
        found.append(curve.whole.log_delta(people, epsilon))
    if BLANKET in asked:
        found.append(curve.blanket.ends(people, epsilon, precision))
    return min(found, key=lambda each: each.upper)


def _asked(curve: SmallerCurve, people: int, epsilon: float) -> set[str]:
    """Return which bounds are asked at `epsilon`: that which is smaller at the places beside it, or both."""
    places, smaller = _smaller(curve, people)
    after = bisect_left(places, epsilon)
    return set(smaller[max(after - 1, 0) : after + 1])


@lru_cache(maxsize=64)
def _smaller(curve: SmallerCurve, people: int) -> tuple[list[float], list[str]]:
    """Return the places where both are looked at, and which is the smaller one there."""
    whole, blanket = curve.whole, curve.blanket
    deviation = sqrt(whole.variance() / people)
    # Few people of a large local ε have deviations beyond it, where e^ε may be no double.
    places = [place * deviation for place in _DEVIATIONS if place * deviation < curve.epsilon_local]
    smaller = [
        BLANKET if blanket.ends(people, each, COARSE).lower < whole.log_delta(people, each).upper else WHOLE
        for each in places
    ]
    if len(places) < len(_DEVIATIONS):
        # Before this one both are asked.
        places.append(curve.epsilon_local)
        smaller.append(BLANKET if smaller[-1] == WHOLE else WHOLE)
    return places, smaller
