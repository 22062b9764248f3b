"""Every kind of question names answers that are told apart: symbols of their own."""

from __future__ import annotations

import os

import pytest

from hubbub.queries.longitudinal.question import Longitudinal
from hubbub.queries.questions.distribution import Distribution
from hubbub.queries.questions.grouped import Grouped
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question
from hubbub.queries.questions.top import Top
from hubbub.queries.questions.variance import Variance
from hubbub.queries.registry import QUESTIONS
from hubbub.queries.texts.text import Text

COLORS = ("red", "green", "blue", "gray")
ASKED: dict[str, tuple[Question, int]] = {
    "histogram": (Histogram("color", COLORS), 3),
    "two categories": (Histogram("color", COLORS[:2]), 2),
    "one optional category": (Histogram("color", COLORS[:1], optional=True), 1),
    "top": (Top("color", COLORS), 3),
    "sum": (Number("minutes", 0.0, 60.0, levels=8), 3),
    "one step": (Number("minutes", 0.0, 60.0, levels=1), 2),
    "distribution": (Distribution("minutes", (0.0, 10.0, 20.0, 30.0, 60.0)), 3),
    "two buckets": (Distribution("minutes", (0.0, 10.0, 20.0)), 2),
    "variance": (Variance("minutes", 0.0, 60.0, levels=20), 3),
    "grouped": (Grouped("color", (Histogram("shop", ("A", "B")),), Histogram("color", COLORS[:2])), 3),
    "text": (Text("word"), 3),
    "longitudinal": (Longitudinal("subscribed", 1), 2),
}


@pytest.mark.parametrize("name", ASKED)
def test_telling_answers_have_symbols_of_their_own(name: str) -> None:
    question, answers = ASKED[name]
    found = question.distinct_answers()
    assert len(found) == answers
    drawn = [{question.encode(answer, os.urandom) for _ in range(50)} for answer in found]
    assert all(one.isdisjoint(other) for place, one in enumerate(drawn) for other in drawn[:place])


def test_every_kind_is_asked() -> None:
    assert {question.kind for question, _ in ASKED.values()} == set(QUESTIONS)
