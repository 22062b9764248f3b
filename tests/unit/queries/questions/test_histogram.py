"""A category becomes its place; anything else is an error that does not repeat it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from hubbub.queries.errors import AnswerError, FieldError
from hubbub.queries.fields import Fields
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from support.krr_queries import krr_query, unary_query

QUESTION = Histogram("carrier", ("AA", "B6", "UA"))
CARRIERS = [krr_query(QUESTION, 1), unary_query(QUESTION, 2, 1)]
BOTH = pytest.mark.parametrize("carrier", CARRIERS, ids=["krr", "unary"])
OPTIONAL = krr_query(Histogram("carrier", ("AA", "B6"), optional=True), 1)


@BOTH
def test_category_becomes_its_index(carrier: Query) -> None:
    assert [carrier.encode(name, os.urandom) for name in ("AA", "B6", "UA")] == [0, 1, 2]


def test_no_answer_becomes_the_last_symbol() -> None:
    assert OPTIONAL.encode(None, os.urandom) == 2 == OPTIONAL.symbols - 1


@BOTH
def test_no_answer_to_a_query_that_is_not_optional_is_an_error(carrier: Query) -> None:
    with pytest.raises(AnswerError, match="not optional; give one"):
        carrier.encode(None, os.urandom)


@pytest.mark.parametrize("answer", ["UA ", "ua", "", 1, True, 2.0, b"UA", "\ud800"])
@BOTH
def test_unknown_category_is_an_error_that_lists_the_known_but_not_the_answer(carrier: Query, answer: Any) -> None:
    what = "not one of its categories" if isinstance(answer, str) else f"a {type(answer).__name__}"
    text = "" if isinstance(answer, str) else "a text, "
    says = f"the answer to carrier is {what}; it must be {text}one of 'AA', 'B6', 'UA'"
    with pytest.raises(AnswerError, match=says) as caught:
        carrier.encode(answer, os.urandom)
    assert repr(answer) not in str(caught.value)


def test_a_category_is_found_in_any_form_of_unicode() -> None:
    question = Histogram("place", ("caf\u00e9", "bar"))
    question.check("query[0]")
    assert question.encode("cafe\u0301", os.urandom) == question.encode("caf\u00e9", os.urandom) == 0


@pytest.mark.parametrize("name", ["cafe\u0301", "bar ", "\u00a0bar"])
def test_two_categories_that_look_the_same_are_the_same(name: str) -> None:
    with pytest.raises(FieldError, match="without spaces at its ends, and in Unicode's composed form"):
        Histogram("place", ("bar", name)).check("query[0]")


def test_a_long_list_of_categories_is_cut_short() -> None:
    query = krr_query(Histogram("many", tuple(f"c{number}" for number in range(1000))), 1)
    with pytest.raises(AnswerError, match=r"'c9' … \(1000 in all\)$") as caught:
        query.encode("secret", os.urandom)
    assert "secret" not in str(caught.value)
    assert query.encode("c999", os.urandom) == 999


def test_encoding_a_category_takes_no_chance() -> None:
    def none(count: int) -> bytes:
        raise AssertionError("no randomness is needed")

    assert [CARRIERS[0].encode(name, none) for name in ("AA", "B6", "UA")] == [0, 1, 2]


def test_the_truth_is_a_count_of_every_category_and_of_those_who_answered() -> None:
    truth = QUESTION.truth(["UA", None, "AA", "UA", "ZZ"])
    assert truth == {("count", "AA"): 1.0, ("count", "B6"): 0.0, ("count", "UA"): 2.0, ("answered", None): 4.0}


@pytest.mark.parametrize(
    ("categories", "more", "share"),
    [
        (2, {"randomizer": "auto"}, 1 / 2),
        (5, {"randomizer": "hashed"}, 1 / 5),
        (1000, {"randomizer": "auto"}, 0.01),
        (2, {"randomizer": "auto", "share": 0.02}, 0.02),
        (2, {}, 1.0),
    ],
)
def test_kinds_are_compared_at_a_count_that_some_category_must_have(
    categories: int, more: dict[str, Any], share: float
) -> None:
    content = {"name": "carrier", "kind": "histogram", "categories": [f"c{place}" for place in range(categories)]}
    assert Histogram.read(Fields("query[0]", {**content, **more})).share == share
