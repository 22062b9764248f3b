"""What a task asks: a number by digits is one question, of one answer and one draw, and several queries."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.cli.commands.submit import read_answers
from hubbub.client.encode import encode_all
from hubbub.deploy.load.rehearse import answers_in_turn
from hubbub.protos.errors import TaskError, UsageError
from hubbub.protos.task.draft import check_draft
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.signed_task import read_task
from hubbub.protos.task.task import Draft, Privacy, Task, task_content
from hubbub.queries.errors import AnswerError, FieldError
from hubbub.queries.query import Query
from hubbub.queries.questions.bit import bits_of
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question
from hubbub.queries.randomizers.krr import KRandomizedResponse
from support.krr_queries import krr_query
from support.samples import FEW, HALF, START, Parties, sample_task

PARTIES = Parties.generate()
DELAY = Number("delay", -30.0, 90.0, "minutes", digits=3)
LAW = NoiseLaw("geometric", HALF, 4)
THEME = krr_query(Histogram("theme", ("light", "dark")), HALF)
BITS = tuple(Query(bit, KRandomizedResponse(2, HALF), LAW) for bit in bits_of(DELAY))


def task(*queries: Query) -> Task:
    return sample_task(PARTIES, queries=queries)


def test_a_number_by_digits_is_asked_once() -> None:
    asked = task(THEME, *BITS)
    assert [(each.name, each.places) for each in asked.asked] == [("theme", range(1)), ("delay", range(1, 4))]
    assert asked.asked_named("delay").by_digits == replace(DELAY, levels=7)
    assert asked.asked_named("theme").by_digits is None
    assert read_task(task_content(asked)) == asked
    with pytest.raises(TaskError, match="task flights has no query 'delay-bit-1'; it asks theme, delay"):
        asked.asked_named("delay-bit-1")


@pytest.mark.parametrize(
    "queries",
    [
        (BITS[0], BITS[1]),
        (BITS[1], BITS[2]),
        (BITS[0], BITS[2], BITS[1]),
        (BITS[0], BITS[1], THEME, BITS[2]),
        (BITS[0], replace(BITS[1], question=replace(BITS[1].question, upper=91.0)), BITS[2]),
        (BITS[0], replace(BITS[1], question=replace(BITS[1].question, weight=2.0)), BITS[2]),
    ],
    ids=["one missing", "the first missing", "out of order", "apart", "another range", "another weight"],
)
def test_a_task_without_all_digits_in_order_is_refused(queries: tuple[Any, ...]) -> None:
    with pytest.raises(TaskError, match=r"delay is asked by 3 digits, but the queries from delay-bit-\d on"):
        task(*queries)


def test_no_other_question_has_the_name_of_one_asked_by_digits() -> None:
    for name in ("delay", "delay-bit-2"):
        with pytest.raises(TaskError, match=f"two questions of the task are named '{name}'"):
            task(*BITS, krr_query(Histogram(name, ("light", "dark")), HALF))


def test_all_digits_of_an_answer_are_of_one_draw() -> None:
    """30 is exactly between the steps 3 and 4, whose digits all differ: each submission has all of one of them."""
    asked = task(THEME, *BITS)
    found = {
        tuple(each.symbol for each in encode_all(asked, {"theme": "dark", "delay": 30}, os.urandom)) for _ in range(200)
    }
    # Both are drawn, but for a chance of 2^-199.
    assert found == {(1, 0, 1, 1), (1, 1, 0, 0)}


def test_ends_are_exact_and_given_back() -> None:
    asked = task(*BITS)
    for value, digits in ((-30.0, (0, 0, 0)), (90.0, (1, 1, 1))):
        assert tuple(each.symbol for each in encode_all(asked, {"delay": value}, os.urandom)) == digits
        assert asked.asked[0].answer_of(digits) == value
    assert asked.asked[0].answer_of((1, 0, 0)) == pytest.approx(-30 + 120 * 4 / 7)
    assert task(THEME).asked[0].answer_of(("dark",)) == "dark"


def test_an_answer_is_required_and_goes_by_the_number_s_name() -> None:
    asked = task(THEME, *BITS)
    with pytest.raises(AnswerError, match="delay has no answer, and a number asked by digits is never optional"):
        encode_all(asked, {"theme": "dark"}, os.urandom)
    with pytest.raises(AnswerError, match="it asks 'theme', 'delay'"):
        encode_all(asked, {"theme": "dark", "delay-bit-1": 1}, os.urandom)
    assert read_answers(asked, ["theme=dark", "delay=12.5"]) == {"theme": "dark", "delay": 12.5}
    with pytest.raises(UsageError, match="has no query 'delay-bit-1'; it asks theme, delay"):
        read_answers(asked, ["delay-bit-1=1"])
    assert list(answers_in_turn(asked, ["theme=dark", "delay=1", "delay=2"], 2)) == [
        {"theme": "dark", "delay": 1.0},
        {"theme": "dark", "delay": 2.0},
    ]
    with pytest.raises(UsageError, match="there is no answer to delay; add --answer delay=VALUE"):
        answers_in_turn(asked, ["theme=dark"], 2)


def draft(*questions: Question, noise: Any = "always", dummies: int = 0) -> Draft:
    privacy = Privacy(1.0, 1e-2, 40.0, dummies=dummies, large_delta=FEW)
    return Draft("usage", Schedule(START, 3600, 60, 1), 100, privacy, questions, noise=noise)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (draft(DELAY, noise="none"), r"query\[0\]\.digits are given, but the task has noise = 'none': a sum by digits"),
        (draft(DELAY, noise="none", dummies=9), r"digits are given, but the task has noise = 'none' and dummies = 9"),
        (
            draft(*(replace(DELAY, name=f"d{place}", digits=16) for place in range(5))),
            r"query\[0\]\.digits make the task's queries 80, as each digit is one; a task has at most 64",
        ),
        (
            draft(DELAY, Histogram("delay-bit-3", ("a", "b"))),
            r"query\[1\]\.name is 'delay-bit-3', the name of the query for a digit; use another name",
        ),
    ],
    ids=["no noise", "dummies", "too many", "a name"],
)
def test_a_draft_that_cannot_have_digits_is_refused(asked: Draft, message: str) -> None:
    with pytest.raises(FieldError, match=message):
        check_draft(asked)


def test_a_draft_may_have_digits_with_noise() -> None:
    check_draft(draft(DELAY, Histogram("theme", ("a", "b"))))
    check_draft(draft(DELAY, noise="auto"))
