"""The vectors of answers, for clients in other languages, are what a device draws, and the pages alone give them."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from fractions import Fraction
from math import floor
from typing import Any

import pytest

from hubbub.protos.task.asked import asked_by
from hubbub.queries.query import Query
from hubbub.queries.registry import PLANNED, RANDOMIZERS
from vectors.make_answers import CASES, FILE, Case, content, encoded

KEPT = json.loads(FILE.read_bytes())

NOT_HERE = {"longitudinal"}
"""Kinds that no page describes: a device in another language cannot answer them."""

each = pytest.mark.parametrize("place", range(len(CASES)))


class Bytes:
    """Random bytes that were recorded; all of them must be drawn."""

    def __init__(self, text: str) -> None:
        self.left = bytes.fromhex(text)

    def __call__(self, count: int) -> bytes:
        assert len(self.left) >= count, "more is drawn than the vector has"
        drawn, self.left = self.left[:count], self.left[count:]
        return drawn

    def number(self) -> int:
        return int.from_bytes(self(4), "big")


def test_the_file_is_what_its_program_writes() -> None:
    assert content() == KEPT
    assert encoded() == FILE.read_bytes()


def test_every_kind_and_randomizer_has_vectors() -> None:
    queries = [query for case in KEPT for query in case["queries"]]
    assert {query["kind"] for query in queries} == set(PLANNED) - NOT_HERE
    assert {query["mechanism"] for query in queries} == set(RANDOMIZERS)


@each
def test_a_device_draws_these_bytes_and_reports_this(place: int) -> None:
    case: Case = CASES[place]
    (asked,) = asked_by(case.queries)
    for one in KEPT[place]["vectors"]:
        random = Bytes(one["random"]["symbol"])
        found = asked.encoded(case.queries, one["answer"], one["round"], {}, random)
        assert [symbol.symbol for symbol in found] == one["symbols"]
        assert random.left == b""
        for query, symbol, drawn, report in zip(
            case.queries, one["symbols"], one["random"]["reports"], one["reports"], strict=True
        ):
            assert _reported(query, symbol, drawn) == report


def _reported(query: Query, symbol: int, drawn: str) -> str:
    random = Bytes(drawn)
    report = query.randomize(symbol, random)
    assert random.left == b""
    return report.hex()


# As docs/howto/write-a-client.md and docs/reference/formats-results.md say it, with nothing of hubbub


@each
def test_the_page_by_itself_gives_these_symbols(place: int) -> None:
    first, vectors = KEPT[place]["queries"][0], KEPT[place]["vectors"]
    for one in vectors:
        random = Bytes(one["random"]["symbol"])
        if first["kind"] == "bit":
            rounded = _sum(first | {"levels": 2 ** first["digits"] - 1}, one["answer"], random)
            found = [rounded >> (first["digits"] - query["digit"]) & 1 for query in KEPT[place]["queries"]]
        else:
            found = [_symbol(first, one["answer"], one["round"], random)]
        assert (found, random.left) == (one["symbols"], b"")


@each
def test_the_page_by_itself_gives_these_reports(place: int) -> None:
    for one in KEPT[place]["vectors"]:
        for query, symbol, drawn, report in zip(
            KEPT[place]["queries"], one["symbols"], one["random"]["reports"], one["reports"], strict=True
        ):
            random = Bytes(drawn)
            assert (_report(query, symbol, random), random.left) == (report, b"")


def _happens(probability: Fraction, random: Bytes) -> bool:
    while True:
        probability *= 2**32
        digit, drawn = floor(probability), random.number()
        probability -= digit
        if drawn != digit:
            return drawn < digit
        if probability == 0:
            return False


def _sum(query: dict[str, Any], answer: float, random: Bytes) -> int:
    levels, lower, upper = int(query["levels"]), Fraction(query["lower"]), Fraction(query["upper"])
    if answer <= lower or answer >= upper:
        return 0 if answer <= lower else levels
    place = (Fraction(answer) - lower) * levels / (upper - lower)
    return floor(place) + _happens(place - floor(place), random)


def _variance(query: dict[str, Any], answer: float, random: Bytes) -> int:
    levels, lower, upper = int(query["levels"]), Fraction(query["lower"]), Fraction(query["upper"])
    y = (min(max(Fraction(answer), lower), upper) - lower) * levels / (upper - lower) + Fraction(1, 2)
    n = min(max(floor(y + Fraction(1, 2)), 1), levels)
    above, below = (Fraction(1, 2) + y - n) ** 2 / 2, (Fraction(1, 2) - y + n) ** 2 / 2
    if _happens(above, random):
        return n + 1
    return n - _happens(below / (1 - above), random)


def _text(query: dict[str, Any], answer: str, number: int) -> int:
    content, name = unicodedata.normalize("NFC", answer).encode(), query["name"].encode()
    prefixes = query.get("prefixes", [])
    if number >= len(prefixes):
        hashed = hashlib.blake2b(name + b"\0" + content, digest_size=8, person=b"hubbub-text-1")
    else:
        length = prefixes[number]
        cut = content[:length] + (b"" if len(content) > length else b"\xff")
        hashed = hashlib.blake2b(name + b"\0%d\0" % length + cut, digest_size=8, person=b"hubbub-prefix-1")
    return int.from_bytes(hashed.digest(), "little") % (2**64 - 1)


def _answers(query: dict[str, Any]) -> int:
    """How many symbols answers have, without "no answer"."""
    found: dict[str, Any] = {
        "histogram": lambda: len(query["categories"]),
        "top": lambda: len(query["categories"]),
        "distribution": lambda: len(query["edges"]) - 1,
        "sum": lambda: query["levels"] + 1,
        "variance": lambda: query["levels"] + 2,
        "bit": lambda: 2,
        "grouped": lambda: _groups(query) * _symbols(query["of"]),
    }
    return int(found[query["kind"]]())


def _symbols(query: dict[str, Any]) -> int:
    return _answers(query) + bool(query.get("optional", False))


def _groups(query: dict[str, Any]) -> int:
    groups = 1
    for attribute in query["by"]:
        groups *= len(attribute["categories"])
    return groups


def _symbol(query: dict[str, Any], answer: Any, number: int, random: Bytes) -> int:
    kind = query["kind"]
    if kind == "text":
        return 2**64 - 1 if answer is None else _text(query, answer, number)
    if answer is None:
        return _answers(query)
    if kind == "grouped":
        place = 0
        for attribute in query["by"]:
            place = place * len(attribute["categories"]) + attribute["categories"].index(answer[attribute["name"]])
        return place * _symbols(query["of"]) + _symbol(query["of"], answer.get(query["name"]), number, random)
    if kind == "distribution":
        return sum(edge < answer for edge in query["edges"][1:-1])
    if kind in ("sum", "variance"):
        return (_sum if kind == "sum" else _variance)(query, answer, random)
    return int(query["categories"].index(answer))


def _report(query: dict[str, Any], symbol: int, random: Bytes) -> str:
    if query["mechanism"] == "unary":
        bits = 0
        for place in range(_symbols(query)):
            bits |= (random.number() < query["truthful" if place == symbol else "other"][0]) << place
        return bits.to_bytes(-(-_symbols(query) // 8), "little").hex()
    hashed = query["mechanism"] == "hashed"
    row = _uniform(query["rows"], random) if hashed else 0
    count = query["cells"] if hashed else _symbols(query)
    if random.number() < query["gamma"][0]:
        symbol = _uniform(count, random)
    elif hashed:
        symbol = _cell(query, row, symbol)
    return (row * count + symbol).to_bytes(4, "big").hex()


def _uniform(count: int, random: Bytes) -> int:
    while True:
        drawn = random.number()
        if drawn < 2**32 // count * count:
            return drawn % count


def _cell(query: dict[str, Any], row: int, x: int) -> int:
    text = " ".join(str(each) for each in (query["cells"], query["rows"], query["gamma"][0], row)).encode()
    digest = hashlib.blake2b(text, digest_size=24, person=b"hubbub-hashed-1").digest()
    low, high, shift = (int.from_bytes(digest[start : start + 8], "little") for start in (0, 8, 16))
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    x ^= x >> 31
    return int((low * (x % 2**32) + high * (x >> 32) + shift) % 2**64 // 2**32 * query["cells"] // 2**32)
