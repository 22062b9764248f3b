"""What a task asks people, each question with the queries that an answer to it is sent to.

Most questions are one query. The sum of a number by digits is one question and a query for each digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hubbub.protos.errors import TaskError
from hubbub.queries.errors import AnswerError
from hubbub.queries.longitudinal.over_rounds import Encoded, Memory, RoundContext
from hubbub.queries.query import Query
from hubbub.queries.questions.bit import Bit, digits_in
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question, Value
from hubbub.queries.randomizers.sampling import Random


@dataclass(frozen=True)
class Asked:
    """A question as a person is asked, and the places of its queries in the task."""

    question: Question
    places: range

    @property
    def name(self) -> str:
        """The name by which it is answered."""
        return self.question.name

    @property
    def by_digits(self) -> Number | None:
        """The number whose digits are the queries; None if the question is one query."""
        return self.question if isinstance(self.question, Number) and self.question.digits is not None else None

    def encoded(
        self, queries: Sequence[Query], answer: Value, number: int, memories: Mapping[str, Memory], random: Random
    ) -> tuple[Encoded, ...]:
        """Return a symbol for each of its queries, given all of the task's, in round `number`.

        A number that is asked by digits is rounded by one draw, which all its digits come from.

        Raises:
            AnswerError: if the answer does not fit the question.
        """
        asked = self.by_digits
        if asked is None:
            query = queries[self.places.start]
            return (query.encode_at(answer, RoundContext(number, memories.get(query.name)), random),)
        if answer is None:
            raise AnswerError(f"{self.name} has no answer, and a number asked by digits is never optional; give one")
        digits = digits_in(asked.encode(answer, random), len(self.places))
        return tuple(Encoded(digit) for digit in digits)

    def answer_of(self, symbols: Sequence[Value]) -> Value:
        """Return the answer that is encoded into these answers of its queries."""
        asked = self.by_digits
        if asked is None:
            return symbols[0]
        steps = 2 ** len(symbols) - 1
        rounded = sum(2**place for place, each in enumerate(reversed(symbols)) if each)
        # The ends are exact, so that they are encoded into all zeros and all ones.
        return asked.upper if rounded == steps else asked.lower + asked.width * rounded / steps


def asked_by(queries: Sequence[Query]) -> tuple[Asked, ...]:
    """Return what is asked with a task's queries, in their order.

    Raises:
        TaskError: if a number asked by digits does not have all of its digits in order, equal but for their places; or
            if two questions have one name.
    """
    found: list[Asked] = []
    place = 0
    while place < len(queries):
        question = queries[place].question
        number = 1
        if isinstance(question, Bit):
            number = question.digits
            _check_digits(question, queries[place : place + number])
            question = question.number
        found.append(Asked(question, range(place, place + number)))
        place += number
    _check_names(found, [query.name for query in queries if isinstance(query.question, Bit)])
    return tuple(found)


def _check_names(found: Sequence[Asked], digits: Sequence[str]) -> None:
    """Refuse a name that a number asked by digits, or the query of a digit, shares with something else."""
    names = [each.name for each in found] + list(digits)
    taken = [*digits, *(each.name for each in found if each.by_digits is not None)]
    twice = next((name for name in taken if names.count(name) > 1), None)
    if twice is not None:
        raise TaskError(f"two questions of the task are named {twice!r}; give each its own name")


def _check_digits(first: Bit, queries: Sequence[Query]) -> None:
    expected = [replace(first, digit=digit) for digit in range(1, first.digits + 1)]
    if [query.question for query in queries] != expected:
        raise TaskError(
            f"{first.of} is asked by {first.digits} digits, but the queries from {first.name} on are not all of them "
            f"in order, equal but for the digit; `hubbub plan` writes {expected[0].name} to {expected[-1].name}"
        )
