"""Encode: a person's answers become symbols, one for each query, before anything is randomized.

A category becomes its index; a number becomes one of `levels` + 1 steps by randomized rounding (balle-2019, Alg. 2), so
that its mean is kept; no answer becomes its own symbol. An answer that does not fit is an error, and its message says
what would fit but never what was given: messages end in logs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Real

from hubbub.client.draws import Random, happens
from hubbub.client.errors import AnswerError
from hubbub.protos.task import Histogram, Query, Sum, Task

Value = str | int | float | None
"""An answer: a category's name, a number in the query's unit, or None where there is no answer."""

SHOWN_NAMES = 10
"""How many categories or queries an error lists."""


def encode_all(task: Task, answers: Mapping[str, Value], random: Random) -> tuple[int, ...]:
    """Return one symbol per query, in the task's order; a query that `answers` does not name has no answer.

    Raises:
        AnswerError: where an answer does not fit its query, or belongs to none.
    """
    names = [query.name for query in task.queries]
    if not set(answers) <= set(names):
        raise AnswerError(f"an answer belongs to no query of task {task.name}; it asks {_listed(names)}")
    return tuple(encode(query, answers.get(query.name), random) for query in task.queries)


def encode(query: Query, answer: Value, random: Random) -> int:
    """Return the symbol, in range(query.symbols), that stands for `answer`.

    Raises:
        AnswerError: where it does not fit the query.
    """
    if answer is None:
        return _no_answer(query)
    if isinstance(query.question, Histogram):
        return _category(query.question, answer)
    return _fixed_point(query.question, query.answers - 1, answer, random)


def _no_answer(query: Query) -> int:
    if query.no_answer is None:
        raise AnswerError(f"{query.name} has no answer, and is not optional; give one, or ask with optional = true")
    return query.no_answer


def _category(question: Histogram, answer: Value) -> int:
    place = _places(question.categories).get(answer) if isinstance(answer, str) else None
    if place is None:
        known = _listed(question.categories)
        raise AnswerError(f"the answer to {question.name} is none of its categories; it takes the text {known}")
    return place


@lru_cache(maxsize=64)
def _places(categories: tuple[str, ...]) -> dict[str, int]:
    return {category: place for place, category in enumerate(categories)}


def _fixed_point(question: Sum, levels: int, answer: Value, random: Random) -> int:
    """Clip to [lower, upper], scale to [0, levels], and round up with probability the fractional part, exactly."""
    number = _finite(question, answer)
    # Python compares whole numbers and floats exactly.
    if number <= question.lower:
        return 0
    if number >= question.upper:
        return levels
    scaled = (Fraction(number) - Fraction(question.lower)) * _scale(question.lower, question.upper, levels)
    below = math.floor(scaled)
    return below + happens(scaled - below, random)


@lru_cache(maxsize=64)
def _scale(lower: float, upper: float, levels: int) -> Fraction:
    return levels / (Fraction(upper) - Fraction(lower))


def _finite(question: Sum, answer: object) -> int | float:
    if isinstance(answer, bool) or not isinstance(answer, Real):
        raise AnswerError(f"the answer to {question.name} is a {type(answer).__name__}; it takes a number")
    if isinstance(answer, Integral):
        return int(answer)
    number = float(answer)
    if not math.isfinite(number):
        raise AnswerError(f"the answer to {question.name} is not finite; give a number, or None where there is none")
    return number


def _listed(names: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(names[:SHOWN_NAMES])
    return f"{shown} … ({len(names)} in all)" if len(names) > SHOWN_NAMES else shown
