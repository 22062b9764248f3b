"""Intervals of a ratio of two estimates by Fieller's method, which needs no large denominator.

A mean of those who answered, or a share of them, is T/A, and both T and A are estimated. T̂/Â has heavy tails, and the
standard error of the delta method is too small where Â is small. But for the true ratio r, T̂ − r·Â is an unbiased
estimate of 0, and a sum over all reports. So the set

    { r : |T̂ − r·Â| ≤ z·se(T̂ − r·Â) + reach·(z² + 2)/6 }

has the true ratio as often as the interval of one sum covers (Fieller 1954; `bands.near_interval` has the second part).
If Â is hardly above 0, the set may be every possible value, and then nothing is known of the ratio. The interval is
the least one with all of the set that is possible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hubbub.queries.estimation.bands import half_width, near_half_width

_STEPS = 32
"""Possible ratios that are tried first, evenly spaced."""

_HALVINGS = 40


@dataclass(frozen=True)
class Parabola:
    """a + b·x + c·x²."""

    a: float
    b: float
    c: float

    @classmethod
    def through(cls, places: Sequence[float], values: Sequence[float]) -> Parabola:
        """Return the parabola through three points."""
        (x, y, z), (f, g, h) = places, values
        first, second = (g - f) / (y - x), (h - g) / (z - y)
        c = (second - first) / (z - x)
        b = first - c * (x + y)
        return cls(f - x * (b + c * x), b, c)

    def at(self, place: float) -> float:
        """Return its value, or 0 if that is negative."""
        return max(0.0, self.a + place * (self.b + place * self.c))


@dataclass(frozen=True)
class Line:
    """T̂ − r·Â by r: `total` and `people`, its `variance`, and how far one report can move it; r is in `span`.

    `value` is the ratio's estimate.
    """

    total: float
    people: float
    value: float
    variance: Parabola
    reach: float
    span: tuple[float, float]

    def fits(self, ratio: float, z: float) -> bool:
        """Whether T̂ − r·Â is within z standard errors of 0, and what a near interval adds."""
        error = math.sqrt(self.variance.at(ratio))
        return abs(self.total - ratio * self.people) <= near_half_width(z, error, self.reach)

    def interval(self, rate: float) -> tuple[float, float]:
        """Return the least interval with all ratios that fit; if none does, the estimate alone."""
        (first, last), z = self.span, half_width(rate)
        # Within the span, the set is an interval around the estimate, or it has an end of the span.
        tried = sorted({self.value, *(first + (last - first) * step / _STEPS for step in range(_STEPS)), last})
        fitting = [place for place, ratio in enumerate(tried) if self.fits(ratio, z)]
        if not fitting:
            return self.value, self.value
        low, high = fitting[0], fitting[-1]
        return (
            tried[0] if low == 0 else self._edge(tried[low], tried[low - 1], z),
            tried[-1] if high == len(tried) - 1 else self._edge(tried[high], tried[high + 1], z),
        )

    def _edge(self, inside: float, outside: float, z: float) -> float:
        """Return a ratio outside of the set, next to its edge between the two."""
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if self.fits(middle, z) else (inside, middle)
        return outside
