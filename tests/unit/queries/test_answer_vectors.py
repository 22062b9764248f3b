"""The vectors of answers, for clients in other languages, are what a device draws, and the pages alone give them."""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from fractions import Fraction
from math import floor
from typing import Any

import pytest

from hubbub.protos.task.asked_question import asked_by
from hubbub.queries.longitudinal.over_rounds import Memory
from hubbub.queries.longitudinal.strategies import SENDINGS
from hubbub.queries.query import Query
from hubbub.queries.registry import PLANNED, RANDOMIZERS
from vectors.make_answers import CASES, FILE, Case, content, encoded

KEPT = json.loads(FILE.read_bytes())

each = pytest.mark.parametrize("place", [place for place, case in enumerate(CASES) if not case.streams])
streams = pytest.mark.parametrize("place", [place for place, case in enumerate(CASES) if case.streams])


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
    assert {query["kind"] for query in queries} == set(PLANNED)
    assert {query["mechanism"] for query in queries if "mechanism" in query} == set(RANDOMIZERS)
    assert {query["strategy"] for query in queries if "strategy" in query} == set(SENDINGS)


def symbols_in(one: dict[str, Any]) -> list[int]:
    """The symbols of a vector; large ones are texts."""
    return [int(symbol) for symbol in one["symbols"]]


def test_no_number_of_the_file_is_rounded_by_readers_that_take_it_for_a_double() -> None:
    assert json.loads(FILE.read_bytes(), parse_int=float) == KEPT


@each
def test_a_device_draws_these_bytes_and_reports_this(place: int) -> None:
    case: Case = CASES[place]
    (asked,) = asked_by(case.queries)
    for one in KEPT[place]["vectors"]:
        random = Bytes(one["random"]["symbol"])
        found = asked.encoded(case.queries, one["answer"], one["round"], {}, random)
        assert [symbol.symbol for symbol in found] == symbols_in(one)
        assert random.left == b""
        for query, symbol, drawn, report in zip(
            case.queries, symbols_in(one), one["random"]["reports"], one["reports"], strict=True
        ):
            assert _reported(query, symbol, drawn) == report


@streams
def test_a_device_draws_these_bytes_over_the_rounds_and_reports_this(place: int) -> None:
    (query,) = CASES[place].queries
    (asked,) = asked_by([query])
    for rounds in KEPT[place]["vectors"]:
        memories: dict[str, Memory] = {}
        for one in rounds:
            random = Bytes(one["random"]["symbol"])
            (found,) = asked.encoded([query], one["answer"], one["round"], memories, random)
            memories |= {} if found.memory is None else {query.name: found.memory}
            assert ([found.symbol], random.left) == (one["symbols"], b"")
            assert [_reported(query, found.symbol, *one["random"]["reports"])] == one["reports"]


def _reported(query: Query, symbol: int, drawn: str) -> str:
    random = Bytes(drawn)
    report = query.randomize(symbol, random)
    assert random.left == b""
    return report.hex()


# As docs/wire-reports.md says it, with nothing of hubbub


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
        assert (found, random.left) == (symbols_in(one), b"")


@each
def test_the_page_by_itself_gives_these_reports(place: int) -> None:
    for one in KEPT[place]["vectors"]:
        for query, symbol, drawn, report in zip(
            KEPT[place]["queries"], symbols_in(one), one["random"]["reports"], one["reports"], strict=True
        ):
            random = Bytes(drawn)
            assert (_report(query, symbol, random), random.left) == (report, b"")


@streams
def test_the_page_by_itself_gives_the_reports_of_all_rounds(place: int) -> None:
    query = KEPT[place]["queries"][0]
    for rounds in KEPT[place]["vectors"]:
        device = _OverTime(query)
        for one in rounds:
            random = Bytes(one["random"]["symbol"])
            symbol = device.symbol(one["answer"], one["round"], random)
            assert ([symbol], random.left) == (one["symbols"], b"")
            random = Bytes(one["random"]["reports"][0])
            report = _report(query | {"mechanism": "krr"}, symbol, random) if query["strategy"] == "direct" else None
            assert (report or symbol.to_bytes(4, "big").hex(), random.left) == (one["reports"][0], b"")


class _OverTime:
    """What a device keeps of a longitudinal question, and the symbol of each round."""

    def __init__(self, query: dict[str, Any]) -> None:
        self.query, self.levels = query, int(query["periods"]).bit_length()
        self.period = self.state = self.changes = 0
        self.bases = [0] * self.levels
        self.level: int | None = None
        self.base = self.pending = self.used = 0

    def symbol(self, answer: bool | None, number: int, random: Bytes) -> int:
        period, before, since = number + 1, self.state, self.period
        strategy = self.query["strategy"]
        if self.level is None and strategy in ("sampled", "vector"):
            self.begin(random)
        if answer is not None and answer != self.state and self.changes < self.query["changes"]:
            self.state, self.changes = int(answer), self.changes + 1
        self.period = period
        if strategy == "direct":
            return self.state
        if strategy == "tree":
            for level in range(self.levels):
                if since <= (period - 1) // 2**level * 2**level:
                    self.bases[level] = before
            return self.node(self.state - self.bases[(period & -period).bit_length() - 1], random)
        assert self.level is not None
        if since <= (period - 1) // 2**self.level * 2**self.level:
            self.base, self.pending = before, 0
        if strategy == "sampled" and self.state != before and self.changes == self.kept:
            self.pending = self.state - before
        ends = period % 2**self.level == 0
        return 2 * self.level + (self.sign(ends, random) > 0)

    def node(self, value: int, random: Bytes) -> int:
        truth, place, least = random.number(), random.number(), -1 if self.query["changes"] > 1 else 0
        if truth < self.query["gamma"][0]:
            side = self.query["side"][0]
            value = 1 if place < side else -1 if least and place < 2 * side else 0
        return value - least

    def begin(self, random: Bytes) -> None:
        changes = self.query["changes"]
        if self.query["strategy"] == "vector":
            odds, few = int(self.query["odds"]), self.query["minuses"]
            weights = [math.comb(changes, m) * (odds if m <= few else 2**32) for m in range(changes + 1)]
            drawn, minuses = _below(sum(weights), random), 0
            while drawn >= weights[minuses]:
                drawn, minuses = drawn - weights[minuses], minuses + 1
            self.signs = []
            for place in range(changes):
                minus = _uniform(changes - place, random) < minuses
                minuses -= minus
                self.signs.append(-1 if minus else 1)
        self.level = _uniform(self.levels, random)
        if self.query["strategy"] == "sampled":
            self.kept = 1 + _uniform(changes, random)

    def sign(self, ends: bool, random: Bytes) -> int:
        change = self.pending if self.query["strategy"] == "sampled" else self.state - self.base
        if not ends:
            return self.coin(random)
        self.pending, self.base = 0, self.state
        if change == 0:
            return self.coin(random)
        if self.query["strategy"] == "sampled":
            odds = int(self.query["odds"])
            return change if _below(odds + 2**32, random) < odds else -change
        self.used += 1
        return change * self.signs[self.used - 1]

    def coin(self, random: Bytes) -> int:
        return -1 if random(1)[0] & 1 else 1


def _below(count: int, random: Bytes) -> int:
    """A uniform number below a large one, of as many bytes as it has."""
    size = (count.bit_length() + 7) // 8
    while True:
        drawn = int.from_bytes(random(size), "big")
        if drawn < 256**size // count * count:
            return drawn % count


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
        "longitudinal": lambda: 2,
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
