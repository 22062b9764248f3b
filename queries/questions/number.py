"""The question for the sum and the mean of a number, which is clipped to an interval and encoded in steps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.queries.errors import FieldError, TaskError, shown
from hubbub.queries.estimation.estimates import Estimate, Estimates, Row, Truth
from hubbub.queries.fields import (
    AUTO,
    DEFAULT_RANDOMIZER,
    MAXIMUM_NAME_LENGTH,
    MAXIMUM_SYMBOLS,
    Fields,
    check_count,
    check_shared,
    is_finite_number,
)
from hubbub.queries.questions.number_answers import check_unit, finite, numbers_of, parsed
from hubbub.queries.questions.question import Value
from hubbub.queries.randomizers.sampling import Random, happens_in

if TYPE_CHECKING:
    from hubbub.queries.estimation.debiased import Debiased
    from hubbub.queries.randomizers.randomizer import Vector

LARGEST_BOUND = 1e300
"""Largest absolute value of an interval's end, so that the width is finite."""

LEVELS_LIMIT = 100_000
"""Most steps that planning tries; more would not change an error visibly."""

MOST_DIGITS = 16
"""Most binary digits of a sum: its steps are then a 65,535th of the range, far below any noise."""


@dataclass(frozen=True)
class Number:
    """The sum and the mean of a number clipped to [lower, upper], in `unit`.

    `levels` is the number of steps of its fixed-point encoding, which planning chooses: symbols 0 … levels encode
    evenly spaced values from lower to upper (balle-2019, Alg. 2). It is None in a draft.

    With `digits`, a draft asks for the sum by that many binary digits. Its task then has a query for each of them
    (`queries.questions.bit`), and no query for the number itself.
    """

    kind: ClassVar[str] = "sum"
    column: ClassVar[type] = float

    name: str
    lower: float
    upper: float
    unit: str = ""
    optional: bool = False
    weight: float = 1.0
    levels: int | None = None
    randomizer: str = DEFAULT_RANDOMIZER
    digits: int | None = None

    @property
    def answers(self) -> int:
        """How many symbols encode an answer: one more than there are steps."""
        return self._steps + 1

    @property
    def _steps(self) -> int:
        if self.levels is None:
            raise TaskError(f"query {self.name} has no levels yet; `hubbub plan` chooses them")
        return self.levels

    @property
    def width(self) -> float:
        """The interval's width."""
        return self.upper - self.lower

    @property
    def parts(self) -> tuple[Number, ...]:
        """The question itself: an answer has one part."""
        return (self,)

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Read a table; see `Question.read`. Only a planned one has levels, and only a draft's has digits."""
        fields.check_keys({"lower", "upper"}, {"unit", "digits"})
        lower, upper = fields.number("lower"), fields.number("upper")
        levels, digits = (fields["levels"], None) if fields.planned else (None, fields.get("digits", None))
        ends = {"lower": lower, "upper": upper, "unit": fields.get("unit", "")}
        return cls(levels=levels, digits=digits, **ends, **fields.shared())

    def check(self, table: str) -> None:
        """Check the shared fields, the interval, the unit, and the levels if they are chosen."""
        check_shared(table, self.name, self.optional, self.weight)
        if self.randomizer == AUTO:
            limit = "planning compares randomizers by the errors of counts; name krr or unary, or leave it out"
            raise FieldError(table, "randomizer", f"is 'auto'; {limit}")
        for key in ("lower", "upper"):
            value = getattr(self, key)
            if not is_finite_number(value) or abs(value) > LARGEST_BOUND:
                raise FieldError(table, key, f"is {shown(value)}; it must be a number from -1e300 to 1e300")
        if self.lower >= self.upper:
            problem = f"is {self.lower:g}, which is not below upper = {self.upper:g}; swap or widen them"
            raise FieldError(table, "lower", problem)
        check_unit(table, self.unit)
        if self.levels is not None and not (type(self.levels) is int and 1 <= self.levels < MAXIMUM_SYMBOLS - 1):
            limit = f"it must be a whole number from 1 to {MAXIMUM_SYMBOLS - 2}"
            raise FieldError(table, "levels", f"is {shown(self.levels)}; {limit}")
        if self.digits is not None:
            self._check_digits(table)

    def _check_digits(self, table: str) -> None:
        """Check what only a sum by digits must be: each digit has two symbols, and noise of a fixed total."""
        check_count(table, "digits", self.digits, 1, MOST_DIGITS)
        if self.optional:
            problem = (
                "is true beside digits: a digit would have a third symbol, and no noise of a fixed total; leave the "
                "digits out, or ask for a number that everybody has"
            )
            raise FieldError(table, "optional", problem)
        if self.randomizer != DEFAULT_RANDOMIZER:
            problem = f"is {self.randomizer!r} beside digits, which are sent by krr; leave it or the digits out"
            raise FieldError(table, "randomizer", problem)
        if len(self.name) > (most := MAXIMUM_NAME_LENGTH - len(bit_name("", MOST_DIGITS))):
            problem = (
                f"has {len(self.name)} characters; with digits it may have {most}, as each digit's query adds some"
            )
            raise FieldError(table, "name", problem)

    def content(self) -> dict[str, Any]:
        """Return the members of a task's JSON."""
        return {
            "kind": self.kind,
            "levels": self.levels,
            "lower": self.lower,
            "name": self.name,
            "optional": self.optional,
            "unit": self.unit,
            "upper": self.upper,
            "weight": self.weight,
        }

    def parse(self, text: str) -> Value:
        """Return a number."""
        return parsed(self.name, text)

    def encode(self, answer: Value, random: Random) -> int:
        """Clip to [lower, upper], scale to [0, levels], and round up with probability the fractional part, exactly."""
        number, levels = finite(self.name, answer), self._steps
        # Python compares whole numbers and floats exactly.
        if number <= self.lower:
            return 0
        if number >= self.upper:
            return levels
        # In whole numbers, because rounding in floats would shift the probabilities, and so the estimate's mean.
        begin, begin_part, scale, scale_part = _scale(self.lower, self.upper, levels)
        above, part = number.as_integer_ratio()
        whole = part * begin_part * scale_part
        below, rest = divmod((above * begin_part - begin * part) * scale, whole)
        return below + happens_in(rest, whole, random)

    def distinct_answers(self) -> tuple[Value, ...]:
        """Return both ends, and their middle if there is a symbol between them."""
        middle = (self.lower / 2 + self.upper / 2,) if self.answers > 2 else ()
        return (self.lower, self.upper, *middle)

    @property
    def sizes(self) -> range:
        """The numbers of answers to choose from: those of 1 to `LEVELS_LIMIT` steps."""
        return range(2, LEVELS_LIMIT + 2)

    def sized(self, answers: int) -> Number:
        """Return the number encoded in answers - 1 steps."""
        return replace(self, levels=answers - 1)

    @property
    def planned_for(self) -> str:
        """The statistic of the expected error, without lower·A, which adds its own error if A is estimated."""
        return "the sum" if self.lower == 0 else "the sum, with values counted from lower"

    @property
    def extent(self) -> float:
        """The interval's width: a report adds between lower and upper to the sum."""
        return self.width

    def headline(self) -> Vector:
        """Return the weights of the sum of values scaled to [0, 1], over those who answered."""
        import numpy as np

        scaled = np.arange(self.answers) / self._steps
        return np.append(scaled, 0.0) if self.optional else scaled

    def worst(self, variances: Vector) -> float:
        """Return the largest variance over all values in [0, 1], randomized rounding included, and "no answer".

        A value f of the way from step s to the next has variance (1−f) v_s + f v_{s+1} + f(1−f)/levels²: the mean of
        the report's variance, plus the variance of its mean. This is a concave parabola in f. Over the cells, v is
        quadratic in s: either convex, so that an end cell is worst, or concave and monotone, with the same result.
        """
        levels, cells = self._steps, {0, self._steps - 1}
        values = [_worst_in_cell(float(variances[s]), float(variances[s + 1]), levels) for s in cells]
        silent = [float(variances[-1])] if self.optional else []
        return max(values + silent)

    def estimates(self, debiased: Debiased) -> Estimates:
        """Return how many answered, their sum, and the mean.

        The sum is lower·A + (upper−lower)·T, with A people who answered, and T the sum of their values scaled to
        [0, 1]. The mean is lower + (upper−lower)·T/A, a ratio unless everybody answers (`Debiased.ratio`). Its standard
        error is by the delta method, and includes the covariance of T and A.
        """
        scaled, answered = self.headline(), debiased.answered(self.answers)
        # No statistic of the reports shows the variance of rounding; this is its maximum.
        rounding = min(max(answered.value, 0.0), float(debiased.reports)) / (4 * self._steps**2)
        weights = scaled + self.lower / self.width * debiased.answering(self.answers)
        value = self.lower * answered.value + self.width * debiased.total(scaled)
        total = self._sum(debiased, value, debiased.variance(weights, rounding), weights)
        mean = debiased.ratio(scaled, self.answers, (0.0, 1.0), rounding)
        rows = (
            Row("answered", answered),
            Row("sum", total, unit=self.unit),
            Row("mean", None if mean is None else mean.mapped(self.lower, self.width), unit=self.unit),
        )
        return Estimates(self.kind, rows, self.unit, (self.lower, self.upper))

    def _sum(self, debiased: Debiased, value: float, variance: float, weights: Vector) -> Estimate:
        """Return the sum; its interval has sums of at most n numbers only, or of n if all n people answer."""
        people = float(debiased.reports)
        all_answer = debiased.answered(self.answers).interval is None
        least, most = people * self.lower, people * self.upper
        within = (least, most) if all_answer else (min(least, 0.0), max(most, 0.0))
        return debiased.near(value, variance, weights, self.width, within)

    def truth(self, answers: Iterable[Value]) -> Truth:
        """Return the true values, from the clipped numbers; `raw_mean` is the mean of the numbers before clipping."""
        numbers = numbers_of(answers)
        total = math.fsum(min(max(value, self.lower), self.upper) for value in numbers)
        found: dict[tuple[str, str | None], float] = {("answered", None): float(len(numbers)), ("sum", None): total}
        if not numbers:
            return found
        found["mean", None] = total / len(numbers)
        found["raw_mean", None] = math.fsum(numbers) / len(numbers)
        return found


def bit_name(name: str, digit: int) -> str:
    """Return the name of the query for a digit of a sum, counted from 1, the most significant one."""
    return f"{name}-bit-{digit}"


def _worst_in_cell(low: float, high: float, levels: int) -> float:
    """Return the maximum over f in [0, 1] of (1−f)·low + f·high + f(1−f)/levels²."""
    f = min(max(0.5 + (high - low) * levels**2 / 2, 0.0), 1.0)
    return (1 - f) * low + f * high + f * (1 - f) / levels**2


@lru_cache(maxsize=64)
def _scale(lower: float, upper: float, levels: int) -> tuple[int, int, int, int]:
    """Return `lower`, and the steps in a unit, exactly: numerator and denominator of each."""
    # Cached between answers, as integers: fractions are slow to create, and slower to calculate with.
    scale = levels / (Fraction(upper) - Fraction(lower))
    return *Fraction(lower).as_integer_ratio(), *scale.as_integer_ratio()
