"""The question for one binary digit of a number whose sum is asked by digits (`Number.digits`).

A person answers the number once. The device rounds it at random, once, to one of 2^b − 1 even steps, and sends each bit
of that whole number to a query of its own. Planning makes these queries; no draft asks for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.queries.errors import AnswerError, FieldError, TaskError, shown
from hubbub.queries.estimation.estimates import Estimates, Row, Truth
from hubbub.queries.fields import DEFAULT_RANDOMIZER, Fields, check_count, check_shared
from hubbub.queries.questions.number import MOST_DIGITS, Number, bit_name
from hubbub.queries.questions.number_answers import numbers_of, parsed
from hubbub.queries.questions.question import Question, Value
from hubbub.queries.randomizers.sampling import Random

if TYPE_CHECKING:
    from hubbub.queries.estimation.debiased import Debiased
    from hubbub.queries.randomizers.randomizer import Vector


@dataclass(frozen=True)
class Bit:
    """One binary digit of the number `of`, clipped to [lower, upper] and rounded to 2^digits − 1 steps, in `unit`.

    `digit` counts from 1, the most significant one, to `digits`. An answer is the digit itself, 0 or 1.
    """

    kind: ClassVar[str] = "bit"
    column: ClassVar[type] = float

    of: str
    digit: int
    digits: int
    lower: float
    upper: float
    unit: str = ""
    weight: float = 1.0
    randomizer: str = DEFAULT_RANDOMIZER

    @property
    def optional(self) -> bool:
        """A number that is asked by digits is never optional."""
        return False

    @property
    def answers(self) -> int:
        """A digit is 0 or 1."""
        return 2

    @property
    def name(self) -> str:
        """The query's name: that of the number, with the digit's place."""
        return bit_name(self.of, self.digit)

    @property
    def number(self) -> Number:
        """The number that a person is asked for, with the steps that its digits count."""
        return stepped(Number(self.of, self.lower, self.upper, self.unit, weight=self.weight, digits=self.digits))

    @property
    def parts(self) -> tuple[Bit, ...]:
        """The question itself."""
        return (self,)

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Read a frozen task's table; see `Question.read`."""
        shared = fields.shared()
        found = cls(
            of=fields["of"],
            digit=fields["digit"],
            digits=fields["digits"],
            lower=fields.number("lower"),
            upper=fields.number("upper"),
            unit=fields["unit"],
            weight=shared["weight"],
            randomizer=shared["randomizer"],
        )
        if found.name != shared["name"]:
            problem = f"is {shown(shared['name'])}; the query of this digit is named {found.name!r}"
            raise FieldError(fields.table, "name", problem)
        return found

    def check(self, table: str) -> None:
        """Check the digit's place, then the number as a sum's draft is checked."""
        check_count(table, "digits", self.digits, 1, MOST_DIGITS)
        check_count(table, "digit", self.digit, 1, self.digits)
        check_shared(table, self.name, self.optional, self.weight)
        replace(self.number, randomizer=self.randomizer).check(table)

    def content(self) -> dict[str, Any]:
        """Return the members of a task's JSON."""
        return {
            "digit": self.digit,
            "digits": self.digits,
            "kind": self.kind,
            "lower": self.lower,
            "name": self.name,
            "of": self.of,
            "unit": self.unit,
            "upper": self.upper,
            "weight": self.weight,
        }

    def parse(self, text: str) -> Value:
        """Return a number."""
        return parsed(self.name, text)

    def encode(self, answer: Value, random: Random) -> int:  # noqa: ARG002 - the number was rounded before
        """Return the digit itself."""
        if isinstance(answer, bool) or answer not in (0, 1):
            raise AnswerError(f"the answer to {self.name} must be 0 or 1: a digit of {self.of}, after it was rounded")
        return int(answer == 1)

    def distinct_answers(self) -> tuple[Value, ...]:
        """Return both digits."""
        return (0, 1)

    @property
    def sizes(self) -> range:
        """A digit has two values."""
        return range(2, 3)

    def sized(self, answers: int) -> Bit:
        """Return the question itself: there is no other encoding."""
        if answers != self.answers:
            raise TaskError(f"{self.name} has {self.answers} answers, not {answers}")
        return self

    @property
    def planned_for(self) -> str:
        """The statistic of the expected error."""
        return "the number of ones"

    @property
    def extent(self) -> float:
        """A report adds 0 or 1 to the number of ones."""
        return 1.0

    def headline(self) -> Vector:
        """Return the weights of the number of ones."""
        import numpy as np

        return np.array([0.0, 1.0])

    def worst(self, variances: Vector) -> float:
        """Return the larger variance of the two digits."""
        return float(variances.max())

    def estimates(self, debiased: Debiased) -> Estimates:
        """Return how many people's rounded number has a 1 in this place."""
        return Estimates(self.kind, (Row("ones", debiased.count_of(self.headline())),))

    def truth(self, answers: Iterable[Value]) -> Truth:
        """Return the true number of ones."""
        return {("ones", None): sum(numbers_of(answers))}


def bits_of(question: Number) -> tuple[Bit, ...]:
    """Return the question of each digit of a number that is asked by digits, the most significant one first.

    Raises:
        TaskError: if it is not asked by digits.
    """
    if question.digits is None:
        raise TaskError(f"{question.name} is not asked by digits; give digits, such as 8")
    first = Bit(
        question.name, 1, question.digits, question.lower, question.upper, question.unit, weight=question.weight
    )
    return tuple(replace(first, digit=place) for place in range(1, question.digits + 1))


def stepped(question: Number) -> Number:
    """Return a number that is asked by digits, with the steps that they count: 2^digits − 1."""
    return replace(question, levels=2 ** (question.digits or 1) - 1)


def digits_in(rounded: int, digits: int) -> tuple[int, ...]:
    """Return the binary digits of a whole number below 2^digits, the most significant one first."""
    return tuple(rounded >> place & 1 for place in reversed(range(digits)))


def queries_made(question: Question) -> int:
    """Return how many queries planning makes of a question: one, or one for each digit."""
    return (question.digits or 1) if isinstance(question, Number) else 1


def names_made(questions: Sequence[Question]) -> list[str]:
    """Return the names of the queries that planning makes of questions, and of those asked by digits their own too."""
    own = [question.name for question in questions]
    return own + [bit.name for each in questions if isinstance(each, Number) and each.digits for bit in bits_of(each)]
