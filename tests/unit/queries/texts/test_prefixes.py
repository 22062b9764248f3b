"""What a device says of its text in each round, what stands for it, and how a task states their lengths."""

from __future__ import annotations

import hashlib
import os
import unicodedata
from typing import Any

import pytest

from hubbub.protos.errors import TaskError
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.signed_task import read_task
from hubbub.protos.task.task import task_content
from hubbub.queries.errors import AnswerError, FieldError
from hubbub.queries.longitudinal.over_rounds import RoundContext
from hubbub.queries.query import Query, read_question
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.texts.prefixes import LONGEST_PREFIX, MOST_PREFIXES, Prefix
from hubbub.queries.texts.text import DIGESTS, Text
from support.samples import Parties, sample_task

WORD = Text("word", prefixes=(3, 5))
WHOLE_ROUND = 2


@pytest.mark.parametrize(
    ("text", "length", "content", "ended", "label"),
    [
        ("catalog", 3, b"cat", False, "cat…"),
        ("cat", 3, b"cat", True, "cat"),
        ("c", 3, b"c", True, "c"),
        ("straße", 5, b"stra\xc3", False, "stra\\xc3…"),
        ("straße", 6, "straß".encode(), False, "straß…"),
        ("日本語", 4, b"\xe6\x97\xa5\xe6", False, "日\\xe6…"),
        ("日本", 6, "日本".encode(), True, "日本"),
        ("🙂🙂", 2, b"\xf0\x9f", False, "\\xf0\\x9f…"),
        ("catalog", None, b"catalog", True, "catalog"),
    ],
)
def test_a_text_is_cut_after_so_many_bytes(
    text: str, length: int | None, content: bytes, ended: bool, label: str
) -> None:
    said = Prefix.of(text, length)
    assert (said, said.label) == (Prefix(content, ended), label)


def test_a_text_is_cut_in_its_composed_form() -> None:
    assert Prefix.of(unicodedata.normalize("NFD", "éa"), 2) == Prefix("é".encode(), False)


def test_a_round_asks_for_its_length_and_later_ones_for_whole_texts() -> None:
    assert [WORD.length_in(number) for number in range(4)] == [3, 5, None, None]
    assert [WORD.said("catalog", number).content for number in range(3)] == [b"cat", b"catal", b"catalog"]


def test_a_text_and_a_longer_one_that_begins_so_are_told_apart_in_every_round() -> None:
    for number in range(3):
        symbols = {WORD.encode_in(text, number, os.urandom) for text in ("cat", "catalog")}
        assert len(symbols) == 2


def test_texts_with_the_same_beginning_are_one_until_they_differ() -> None:
    same = [
        WORD.encode_in("catalog", number, os.urandom) == WORD.encode_in("catamaran", number, os.urandom)
        for number in range(3)
    ]
    assert same == [True, False, False]


def test_a_text_has_another_digest_in_each_length() -> None:
    """So that what collides with it in one round does not in the next."""
    assert len({WORD.encode_in("a", number, os.urandom) for number in range(3)}) == 3


def test_digests_are_known_answers() -> None:
    def number(written: bytes, person: bytes) -> int:
        return int.from_bytes(hashlib.blake2b(written, digest_size=8, person=person).digest(), "little") % DIGESTS

    assert WORD.encode_in("catalog", 0, os.urandom) == number(b"word\x003\0cat", b"hubbub-prefix-1")
    assert WORD.encode_in("cat", 0, os.urandom) == number(b"word\x003\0cat\xff", b"hubbub-prefix-1")
    assert WORD.encode_in("straße", 1, os.urandom) == number(b"word\x005\0stra\xc3", b"hubbub-prefix-1")
    assert WORD.encode_in("straße", WHOLE_ROUND, os.urandom) == Text("word").digest("straße") == 14559111332556168367
    assert WORD.encode_in("catalog", 0, os.urandom) == 3385909435466208875


def test_a_device_says_the_beginning_that_its_round_asks_for() -> None:
    query = Query(WORD, HashedResponse(DIGESTS, 16, 4, 1))
    for number in range(4):
        encoded = query.encode_at("catalog", RoundContext(number), os.urandom)
        assert (encoded.symbol, encoded.memory) == (WORD.encode_in("catalog", number, os.urandom), None)


def test_no_answer_is_the_same_symbol_in_every_round() -> None:
    query = Query(Text("word", optional=True, prefixes=(3,)), HashedResponse(DIGESTS + 1, 16, 4, 1))
    assert {query.encode_at(None, RoundContext(number), os.urandom).symbol for number in range(3)} == {DIGESTS}


@pytest.mark.parametrize("answer", ["", 3, "\ud800", "x" * 10_001])
def test_what_is_no_text_is_refused_in_every_round(answer: str | int) -> None:
    for number in (0, WHOLE_ROUND):
        with pytest.raises(AnswerError, match="the answer to word"):
            WORD.encode_in(answer, number, os.urandom)


@pytest.mark.parametrize(
    ("prefixes", "says"),
    [
        ([], "give 1 to 64 lengths in bytes"),
        (list(range(1, MOST_PREFIXES + 2)), "give 1 to 64 lengths in bytes"),
        (3, "is 3; give 1 to 64 lengths in bytes"),
        ([0, 2], "its lengths are whole numbers of bytes, from 1 to 1024"),
        ([True], "its lengths are whole numbers"),
        ([1.0], "its lengths are whole numbers"),
        ([LONGEST_PREFIX + 1], "its lengths are whole numbers"),
        ([2, 2], "its lengths must rise"),
        ([4, 2], "its lengths must rise"),
    ],
)
def test_lengths_that_no_round_can_ask_for_are_refused(prefixes: Any, says: str) -> None:
    with pytest.raises(FieldError, match=f"prefixes .*{says}"):
        read_question("query[0]", {"name": "word", "kind": "text", "prefixes": prefixes})


def test_there_is_a_round_for_every_prefix_and_one_for_whole_texts() -> None:
    WORD.check_rounds("query[0]", 3)
    WORD.check_rounds("query[0]", 9)
    Text("word").check_rounds("query[0]", 1)
    with pytest.raises(
        FieldError, match=r"task\.rounds is 2; word takes one for each of its 2 prefixes and one for whole"
    ):
        WORD.check_rounds("query[0]", 2)


def test_the_truth_has_every_beginning_that_a_round_asks_for() -> None:
    truth = WORD.truth(["catalog", "catamaran", "cat", None, "dog"])
    assert truth == {
        ("answered", None): 4.0,
        ("count", "catalog"): 1.0,
        ("count", "catamaran"): 1.0,
        ("count", "cat"): 1.0,
        ("count", "dog"): 1.0,
        ("beginning", "0\x1fcat…"): 2.0,
        ("beginning", "1\x1fcatal…"): 1.0,
        ("beginning", "1\x1fcatam…"): 1.0,
    }


# In a task


@pytest.fixture(scope="module")
def parties() -> Parties:
    return Parties.generate()


def asking(question: Text, parties: Parties) -> dict[str, Any]:
    """A task's JSON that asks this question alone, in three rounds."""
    query = Query(question, HashedResponse(DIGESTS, 16, 4, 2**31))
    return task_content(sample_task(parties, queries=(query,), schedule=Schedule(0, 3600, 60, 3)))


def test_a_task_states_the_lengths_and_comes_back(parties: Parties) -> None:
    content = asking(WORD, parties)
    assert content["queries"] == [
        {
            "cells": 16,
            "gamma": [2**31, 2**32],
            "kind": "text",
            "mechanism": "hashed",
            "name": "word",
            "optional": False,
            "prefixes": [3, 5],
            "rows": 4,
            "weight": 1.0,
        }
    ]
    read = read_task(content)
    assert read.queries[0].question == WORD
    assert task_content(read) == content


def test_a_task_without_lengths_has_an_empty_list_of_them(parties: Parties) -> None:
    content = asking(Text("word"), parties)
    assert sorted(content["queries"][0]) == [
        *("cells", "gamma", "kind", "mechanism", "name", "optional", "prefixes", "rows", "weight"),
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"prefixes": [1, 2, 3]}, "task.rounds is 3; word takes one for each of its 3 prefixes"),
        ({"suffixes": [3]}, r"has members that are not read here: query\[0\].suffixes"),
    ],
)
def test_a_task_with_other_members_is_refused_by_name(parties: Parties, change: dict[str, Any], says: str) -> None:
    content = asking(WORD, parties)
    content["queries"][0] |= change
    with pytest.raises(TaskError, match=says):
        read_task(content)
