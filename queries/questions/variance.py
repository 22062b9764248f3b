"""The question for the variance of a number, with its sum and its mean.

The estimand is σ² = (1/A) Σ (x_i − x̄)² over the A people who answered, of their numbers clipped to [lower, upper].

**Encoding.** Rounding to two neighboring steps keeps the mean and adds f(1−f)·step² to the square, if the number is f
of the way between them. That is a bias of σ² that depends on everybody's f; with one step nothing would show the
variance at all. So a number is rounded to three neighbors of a grid, with probabilities that add the same amount to
every square. The grid has levels + 2 points, t_j = (j − ½)/levels in units of the interval, half a step beyond either
end. With s the number's place on it, j the nearest point and f = s − j in [−½, ½], the neighbors j − 1, j, j + 1 have
the probabilities

    (½ − f)²/2,    ¾ − f²,    (½ + f)²/2.

The mean is s, and the variance is exactly ¼ of a squared step, for any f. So t_j and t_j² − 1/(4·levels²) are
unbiased for z and z², with z the number scaled to [0, 1], and one step is enough.

**Estimate.** Let T₁ and T₂ be the debiased totals of t − ½ and (t − ½)² − 1/(4·levels²), and m = T₁/A the mean counted
from the middle. Then σ̂² = T₂/A − m² + V̂(m). V̂(m) is the estimated variance of m, by which m² is too large on
average. If everybody answers, σ̂² is unbiased, up to the clipping of V̂ (`debiased`). If some do not, A is estimated, and
the bias is of the order of σ²/A. The estimate may be negative.

**Standard error.** It is that of the linear statistic with weights (t − ½ − m)², by the delta method, plus 2V̂(m)² in
the variance for the square of m's own error. In this statistic a person's rounding has the variance
h²(z−m)² + 4h³(z−m)(f/4 − f³) + h⁴(3/16 − 3f²/2 + 3f⁴), for z counted from the middle and h = 1/levels. All people
together have at most A(h²σ² + h³σ/√27 + 3h⁴/16), because f/4 − f³ is at most 1/√432, and Σ|z−m| at most Aσ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

from hubbub.queries.errors import FieldError
from hubbub.queries.estimation.estimates import Estimate, Estimates, Row, Truth
from hubbub.queries.fields import MAXIMUM_SYMBOLS, Fields
from hubbub.queries.questions.number import LEVELS_LIMIT, Number
from hubbub.queries.questions.number_answers import finite, numbers_of
from hubbub.queries.questions.question import Value
from hubbub.queries.randomizers.sampling import Random, happens

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hubbub.queries.estimation.debiased import Debiased
    from hubbub.queries.randomizers.randomizer import Vector

_HALF = Fraction(1, 2)

FURTHEST = 1e150
"""Furthest end of an interval from 0: larger squares overflow a double."""


@dataclass(frozen=True)
class Variance(Number):
    """The variance, sum and mean of a number clipped to [lower, upper], in `unit`; `levels` is chosen in planning."""

    kind: ClassVar[str] = "variance"

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Read a table as a sum's; it has no digits."""
        fields.check_keys({"lower", "upper"}, {"unit"})
        return super().read(fields)

    @property
    def answers(self) -> int:
        """How many symbols encode an answer: one for each point of the grid."""
        return self._steps + 2

    def check(self, table: str) -> None:
        """Check the fields of a sum, and that the grid is within the limit."""
        super().check(table)
        if max(abs(self.lower), abs(self.upper)) > FURTHEST:
            raise FieldError(table, "upper", f"is {self.upper:g}; the ends of a variance must be within ±{FURTHEST:g}")
        if self.levels is not None and self.answers >= MAXIMUM_SYMBOLS:
            limit = f"it must be a whole number from 1 to {MAXIMUM_SYMBOLS - 3}"
            raise FieldError(table, "levels", f"is {self.levels}; {limit}")

    def encode(self, answer: Value, random: Random) -> int:
        """Clip to [lower, upper] and draw one of three neighbors on the grid, with exactly their probabilities."""
        nearest, below, above = self.neighbors(finite(self.name, answer))
        if happens(above, random):
            return nearest + 1
        return nearest - happens(below / (1 - above), random)

    def neighbors(self, number: int | float) -> tuple[int, Fraction, Fraction]:
        """Return the index of the nearest point, and the probabilities of the points below and above it."""
        clipped = min(max(number, self.lower), self.upper)
        # Fractions: rounding in floats would shift the probabilities, and with them the estimate's mean.
        share = (Fraction(clipped) - Fraction(self.lower)) / (Fraction(self.upper) - Fraction(self.lower))
        place = share * self._steps + _HALF
        nearest = min(max(math.floor(place + _HALF), 1), self._steps)
        off = place - nearest
        return nearest, (_HALF - off) ** 2 / 2, (_HALF + off) ** 2 / 2

    @property
    def sizes(self) -> range:
        """The numbers of answers to choose from: those of 1 to `LEVELS_LIMIT` steps."""
        return range(3, LEVELS_LIMIT + 3)

    def sized(self, answers: int) -> Variance:
        """Return the question with a grid of so many points."""
        return replace(self, levels=answers - 2)

    @property
    def planned_for(self) -> str:
        """The statistic of the expected error."""
        return "the variance times the number of people, at most, wherever their mean is"

    @property
    def extent(self) -> float:
        """A quarter of the squared width: the largest possible variance."""
        return self.width**2 / 4

    def _grid(self) -> Vector:
        """Return the points, in units of the width, counted from the interval's middle."""
        import numpy as np

        return (np.arange(self.answers) - 0.5) / self._steps - 0.5

    @property
    def _middle(self) -> float:
        return self.lower / 2 + self.upper / 2

    def _padded(self, weights: Vector) -> Vector:
        """Return the weights with a 0 for "no answer", if the question is optional."""
        import numpy as np

        return np.append(weights, 0.0) if self.optional else weights

    def headline(self) -> Vector:
        """Return the weights of Σ z², with z the number scaled to [0, 1], in units of the largest variance.

        The variance of a person's part of Σ (z−m)² is convex in m, so it is largest if m is an end of the interval, and
        both ends are alike. So the planned error bounds the error of the variance over all means; for kRR it is reached
        at an end.
        """
        return self._padded(4 * ((self._grid() + 0.5) ** 2 - 1 / (4 * self._steps**2)))

    def worst(self, variances: Vector) -> float:
        """Return the largest variance over all numbers, randomized rounding included, and "no answer".

        In each cell it is a polynomial of degree 4 in f. It is evaluated at 9 points in every cell, and at 1,001 in the
        three largest ones. That finds the maximum to a millionth.
        """
        import numpy as np

        rough = self._in_cells(variances, np.arange(1, self._steps + 1), np.linspace(-0.5, 0.5, 9)).max(axis=1)
        best = 1 + np.argsort(rough)[-3:]
        silent = [float(variances[-1])] if self.optional else []
        return max([float(self._in_cells(variances, best, np.linspace(-0.5, 0.5, 1001)).max()), *silent])

    def _in_cells(self, variances: Vector, nearest: npt.NDArray[np.int64], off: Vector) -> Vector:
        """Return the variance of a number `off` from the point `nearest`, shape (cells, places)."""
        step, j, f = 1 / self._steps, nearest[:, None], off[None, :]
        z = (j - 0.5 + f) * step
        mean = (
            (0.5 - f) ** 2 / 2 * variances[j - 1] + (0.75 - f**2) * variances[j] + (0.5 + f) ** 2 / 2 * variances[j + 1]
        )
        third, fourth = f / 4 - f**3, 3 / 16 - 1.5 * f**2 + 3 * f**4
        found: Vector = mean + 16 * (step**2 * z**2 + 4 * step**3 * z * third + step**4 * fourth)
        return found

    def estimates(self, debiased: Debiased) -> Estimates:
        """Return how many answered, their sum, the mean, and the variance."""
        answered = debiased.answered(self.answers)
        first = self._padded(self._grid())
        people = min(max(answered.value, 0.0), float(debiased.reports))
        rounding = people / (4 * self._steps**2)
        weights = first + self._middle / self.width * debiased.answering(self.answers)
        value = self._middle * answered.value + self.width * debiased.total(first)
        total = self._sum(debiased, value, debiased.variance(weights, rounding), weights)
        mean, variance = self._moments(debiased, answered.value, rounding) if answered.value > 0 else (None, None)
        rows = (
            Row("answered", answered),
            Row("sum", total, unit=self.unit),
            Row("mean", mean, unit=self.unit),
            Row("variance", variance, unit=f"{self.unit}²" if self.unit else ""),
        )
        return Estimates(self.kind, rows, self.unit, (self.lower, self.upper))

    def _moments(self, debiased: Debiased, answered: float, rounding: float) -> tuple[Estimate, Estimate]:
        """Return the mean and the variance of those who answered."""
        grid = self._grid()
        first, second = self._padded(grid), self._padded(grid**2 - 1 / (4 * self._steps**2))
        answering = debiased.answering(self.answers)
        m, square = debiased.total(first) / answered, debiased.total(second) / answered
        of_mean = debiased.variance(first - m * answering, rounding) / answered**2
        spread = square - m**2 + of_mean
        weights = second - 2 * m * first - (square - 2 * m**2) * answering
        most = 4 * rounding * self._rounding_of_squares(min(max(spread, 0.0), 0.25))
        of_spread = debiased.variance(weights, most) / answered**2 + 2 * of_mean**2
        mean = debiased.ratio(first, self.answers, (-0.5, 0.5), rounding)
        if mean is None:
            raise ValueError("the mean of people who answered is a number")
        within = (0.0, self.width**2 / 4)
        variance = debiased.near(self.width**2 * spread, of_spread, weights / answered, self.width**2, within)
        return mean.mapped(self._middle, self.width), variance

    def _rounding_of_squares(self, spread: float) -> float:
        """Return σ² + hσ/√27 + 3h²/16; times h² it is the most that rounding adds to the variance for each person."""
        step = 1 / self._steps
        return spread + step * math.sqrt(spread / 27) + 3 * step**2 / 16

    def truth(self, answers: Iterable[Value]) -> Truth:
        """Return the true values of a sum, and the variance of the clipped values."""
        given = list(answers)
        numbers = [min(max(number, self.lower), self.upper) for number in numbers_of(given)]
        found = dict(super().truth(given))
        if numbers:
            mean = math.fsum(numbers) / len(numbers)
            found["variance", None] = math.fsum((number - mean) ** 2 for number in numbers) / len(numbers)
        return found
