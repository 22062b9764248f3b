"""How they are encoded, what their table is as bytes, and which candidates stand out of it."""

from __future__ import annotations

import os
import unicodedata
import zlib

import numpy as np
import pytest

from hubbub.queries.errors import AnswerError, FieldError
from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.estimation.estimates import Estimates
from hubbub.queries.query import Query, read_question
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.randomizer import Tally
from hubbub.queries.texts.lookup import Decodable, packed, unpacked
from hubbub.queries.texts.text import DIGESTS, MAXIMUM_TEXT_LENGTH, Text
from support.estimate_rows import number

WORD = Text("word")
OPTIONAL = Text("word", optional=True)

KNOWN_DIGEST = 14559111332556168367


def batch(question: Text, held: dict[str | None, int], cells: int = 1024, dummies: int = 0) -> Debiased:
    """A batch of reports, drawn from the exact law; seeded, so that what is asserted of it does not vary."""
    query = Query(question, HashedResponse(DIGESTS + question.optional, cells, 64, 2**30))
    random = np.random.default_rng(11).bytes
    symbols = [(query.encode(text, random), people) for text, people in held.items()]
    reports = b"".join(query.randomize(symbol, random) for symbol, people in symbols for _ in range(people))
    tally = query.randomizer.tally(reports + query.randomizer.dummies(dummies, random))
    return Debiased(query.randomizer, tally, dummies)


def found(estimates: Estimates) -> list[str | None]:
    return [row.category for row in estimates.rows if row.statistic == "count"]


def numbers_of(estimates: Estimates) -> list[tuple[float, float]]:
    return [(row.estimate.value, row.estimate.standard_error) for row in estimates.rows]


def test_a_text_in_any_form_of_unicode_is_one_text() -> None:
    composed = "caf\u00e9"
    assert WORD.encode(composed, os.urandom) == WORD.encode(unicodedata.normalize("NFD", composed), os.urandom)
    assert WORD.encode("a", os.urandom) != WORD.encode("A", os.urandom)
    assert WORD.digest("a") != Text("another").digest("a")


def test_the_digest_is_a_known_answer() -> None:
    assert WORD.digest("straße") == KNOWN_DIGEST


@pytest.mark.parametrize("answer", ["", "x" * (MAXIMUM_TEXT_LENGTH + 1), 3, 1.5, "\ud800"])
def test_what_is_no_text_is_refused_without_being_repeated(answer: str | float) -> None:
    with pytest.raises(AnswerError, match="the answer to word") as caught:
        WORD.encode(answer, os.urandom)
    assert "xxx" not in str(caught.value)
    assert "\ud800" not in str(caught.value)


def test_a_draft_of_a_text_needs_a_name_alone() -> None:
    question = read_question("query[0]", {"name": "word", "kind": "text"})
    question.check("query[0]")
    assert (question, question.randomizer) == (WORD, "hashed")
    assert isinstance(question, Decodable)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"randomizer": "krr"}, "randomizer is 'krr'; a text needs one that takes any number of symbols"),
        ({"categories": ["a"]}, "categories is not a key"),
        ({"share": 0}, "share is 0.0; it must be a number above 0"),
        ({"share": 1.5}, "share is 1.5"),
    ],
)
def test_what_a_draft_of_a_text_cannot_say_is_refused(more: dict[str, object], says: str) -> None:
    with pytest.raises(FieldError, match=says):
        read_question("query[0]", {"name": "word", "kind": "text", **more}).check("query[0]")


def test_candidates_that_are_held_stand_out_and_others_do_not() -> None:
    debiased = batch(OPTIONAL, {"opera": 300, "chrome": 3000, "firefox": 1200, None: 4000}, dummies=1000)
    candidates = ["lynx", "firefox", "chrome", "opera", "chrome", *(f"nobody {n}" for n in range(3000))]
    estimates = OPTIONAL.decode(debiased, candidates)
    assert found(estimates) == ["chrome", "firefox", "opera"]
    for text, people in (("chrome", 3000), ("firefox", 1200), ("opera", 300)):
        estimate = number(estimates, "count", text)
        assert abs(estimate.value - people) < 5 * estimate.standard_error
        assert estimate.lower < estimate.value < estimate.upper
    answered = number(estimates, "answered")
    assert abs(answered.value - 4500) < 5 * answered.standard_error


def test_nobody_s_candidates_are_not_found() -> None:
    debiased = batch(WORD, {f"only {n}": 1 for n in range(2000)})
    assert found(WORD.decode(debiased, [f"nobody {n}" for n in range(5000)])) == []


def test_a_text_of_half_the_people_makes_no_others_stand_out() -> None:
    """Hundreds of candidates collide with it in the same row, and so with each other."""
    debiased = batch(WORD, {"everywhere": 4000, **{f"only {n}": 1 for n in range(2000)}})
    assert found(WORD.decode(debiased, ["everywhere", *(f"nobody {n}" for n in range(60_000))])) == ["everywhere"]


def test_a_common_text_that_nobody_looks_for_makes_no_others_stand_out() -> None:
    """Every collision with it adds many reports at once."""
    debiased = batch(WORD, {"everywhere": 4000, "chrome": 1500, **{f"only {n}": 1 for n in range(2000)}})
    assert found(WORD.decode(debiased, ["chrome", *(f"nobody {n}" for n in range(30_000))])) == ["chrome"]


@pytest.mark.parametrize("question", [WORD, OPTIONAL])
def test_the_listed_texts_have_the_same_counts_if_they_alone_are_looked_up(question: Text) -> None:
    held: dict[str | None, int] = {f"text {number}": 1200 // number for number in range(1, 40)}
    debiased = batch(question, held | ({None: 300} if question.optional else {}), cells=128)
    # Texts that nobody has collide with common ones, and some are taken for common ones at first.
    every = question.decode(debiased, [*map(str, held), *(f"nobody's {number}" for number in range(20_000))])
    listed = [text for text in found(every) if text is not None]
    assert 5 < len(listed) < len(held)
    for order in (listed, listed[::-1], sorted(listed)):
        again = question.decode(debiased, order)
        assert found(again) == listed
        assert numbers_of(again) == numbers_of(every)


def test_whoever_must_answer_has_answered_without_noise() -> None:
    answered = number(WORD.estimates(batch(WORD, {"a": 20})), "answered")
    assert (answered.value, answered.standard_error) == (20.0, 0.0)


def test_a_table_comes_back_as_it_was() -> None:
    cells = np.array([5, 5, 0, 2**32 - 1, 77], dtype=np.int64)
    read = unpacked(packed(Tally(cells, 5)), 5)
    assert (read.counts.tolist(), read.valid) == (sorted(cells.tolist()), 5)
    assert unpacked(packed(Tally(cells[:0], 0)), 0).counts.shape == (0,)


@pytest.mark.parametrize(
    "table",
    [b"", b"\0", packed(Tally(np.arange(4), 4)), packed(Tally(np.arange(6), 6)), zlib.compress(bytes(10**7))],
    ids=["empty", "no table", "too short", "too long", "a bomb"],
)
def test_a_damaged_table_is_refused(table: bytes) -> None:
    with pytest.raises(ValueError, match="the table of cells"):
        unpacked(table, 5)


def test_bytes_after_a_table_are_refused() -> None:
    with pytest.raises(ValueError, match="the table of cells"):
        unpacked(packed(Tally(np.arange(5), 5)) + b"\0", 5)
