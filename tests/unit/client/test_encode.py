"""A task's answers become one symbol per query; what a question makes of its answer is tested with the questions."""

from __future__ import annotations

import os

import pytest

from hubbub.client import AnswerError
from hubbub.client.encode import encode_all
from hubbub.protos.task.task import Task
from hubbub.queries.questions.question import Value


def symbols(task: Task, answers: dict[str, Value]) -> tuple[int, ...]:
    return tuple(each.symbol for each in encode_all(task, answers, os.urandom))


def test_symbols_are_in_the_order_of_the_queries(task: Task) -> None:
    assert symbols(task, {"delay": 180.0, "carrier": "UA"}) == (2, 7)


def test_a_query_that_is_not_named_has_no_answer(task: Task) -> None:
    assert symbols(task, {"carrier": "B6"}) == (1, 8)


def test_an_answer_to_no_query_is_an_error(task: Task) -> None:
    with pytest.raises(AnswerError, match="no query of task flights; it asks 'carrier', 'delay'"):
        encode_all(task, {"carrier": "B6", "dealy": 3}, os.urandom)
