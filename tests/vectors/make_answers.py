"""Writes tests/vectors/wire/answers.json: how answers become symbols and reports, for clients in other languages.

    python tests/vectors/make_answers.py

Each vector has the queries of one question as a task has them, an answer, the random bytes in the order in which they
are drawn, and the symbols and reports that follow. Of a longitudinal question it has all rounds of a device, in order:
what a device keeps from one to the next is its own affair. The bytes are the same in every run, and some are chosen:
ties, rejected draws, the last byte below a probability. Who adds a kind or a randomizer adds it to `CASES`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random as Seeded
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from hubbub.protos.task.asked_question import asked_by  # noqa: E402
from hubbub.queries.longitudinal.over_rounds import Memory  # noqa: E402
from hubbub.queries.query import Query  # noqa: E402
from hubbub.queries.questions.bit import bits_of  # noqa: E402
from hubbub.queries.questions.distribution import Distribution  # noqa: E402
from hubbub.queries.questions.grouped import Grouped  # noqa: E402
from hubbub.queries.questions.histogram import Histogram  # noqa: E402
from hubbub.queries.questions.number import Number  # noqa: E402
from hubbub.queries.questions.question import Question, Value, symbols_of  # noqa: E402
from hubbub.queries.questions.top import Top  # noqa: E402
from hubbub.queries.questions.variance import Variance  # noqa: E402
from hubbub.queries.randomizers.hashed import HashedResponse  # noqa: E402
from hubbub.queries.randomizers.krr import KRandomizedResponse  # noqa: E402
from hubbub.queries.randomizers.unary import UnaryEncoding  # noqa: E402
from hubbub.queries.texts.text import DIGESTS, Text  # noqa: E402

FILE = Path(__file__).parent / "wire" / "answers.json"

EIGHTH = 2**29
"""γ = 1/8."""

SAFE = 2**53
"""Whole numbers from here on are written as texts: many readers of JSON take a number for a double, and round it."""

SEEDS = 4
"""Runs of each answer with bytes that nobody chose."""


@dataclass(frozen=True)
class Case:
    """The queries of one question, answers to it, and bytes that are chosen for the first of them."""

    queries: Sequence[Query]
    answers: Sequence[Value]
    chosen: Sequence[str] = ()
    rounds: Sequence[int] = (0,)
    streams: Sequence[Mapping[int, Value]] = ()
    """The answers of whole devices, by round; they answer no round that is not here."""


def _krr(question: Question) -> Query:
    return Query(question, KRandomizedResponse(symbols_of(question), EIGHTH))


def _case(question: Question, *answers: Value, chosen: Sequence[str] = ()) -> Case:
    return Case((_krr(question),), answers, chosen)


THEME = Histogram("theme", ("light", "dark"))
SITE = Histogram("site", ("a", "b", "c"), optional=True)
REGION = Histogram("region", ("north", "south"))
PLAN = Histogram("plan", ("free", "paid", "trial"))
MINUTES = Number("session", 0.0, 90.0, "minutes", levels=3)
DELAY = Variance("delay", -30.0, 180.0, "minutes", levels=7)
STAIRS = Number("stairs", 0.0, 10.0, "floors", digits=3)


def _over_time(changes: int, strategy: str, parameters: Mapping[str, Any]) -> Query:
    about: dict[str, Any] = {"name": "active", "kind": "longitudinal", "changes": changes, "periods": 11, "weight": 1}
    about |= {"epsilon_local": 60, "steady_share": 0.5, "strategy": strategy}
    return Query.read("query", about | dict(parameters))


_HALF = [2**31, 2**32]
OVER_TIME: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("direct", {"gamma": _HALF}),
    ("tree", {"gamma": _HALF, "side": [2**30, 2**32]}),
    ("sampled", {"steady": 3, "odds": str(3 * 2**31)}),
    ("vector", {"steady": 3, "odds": str(3 * 2**31), "minuses": 0}),
)
STREAMS: Sequence[Mapping[int, Value]] = (
    dict(enumerate((True, True, False, False, True, None, False, True, None, True, False))),
    dict(enumerate((None, False, False, True, True, True, True, True, True, True, True))),
    {1: True, 3: True, 6: False, 7: None, 10: True},
    {0: False, 4: True, 8: True, 9: False},
    {10: True},
)
"""Of a state that changes often, once, or rounds that were missed: also the first, and the middle of a node."""

KRR_CHOSEN = (
    "1fffffff" + "ffffffff" + "00000005",  # below w: uniform; the first draw for it is rejected if 3 symbols
    "20000000",  # w itself is not below w: the symbol
    "00000000" + "00000000",
)

CASES: Sequence[Case] = (
    _case(THEME, "light", "dark", chosen=KRR_CHOSEN),
    _case(Histogram("site", SITE.categories), "a", "c", chosen=KRR_CHOSEN),
    _case(SITE, "b", None, chosen=KRR_CHOSEN),
    _case(Top("site", SITE.categories, false_discovery_rate=0.1), "b"),
    _case(Distribution("session", (0.0, 5.0, 10.0, 30.0), (0.5,), "minutes", optional=True), -1, 5, 5.1, 99.0, None),
    # 10 is a third of a step above 0: a draw of 0x55555555 is a tie, and the next one decides.
    _case(MINUTES, 10.0, -3, 90, 30.0, 45.5, chosen=("55555555" * 2 + "55555554", "55555555" + "55555556", "55555554")),
    _case(Number("session", 0.0, 90.0, "minutes", levels=3, optional=True), 0.1, None),
    _case(DELAY, 0.0, -30.0, 180, 500.0, 37.25),
    _case(
        Grouped("theme", (REGION,), THEME), {"region": "south", "theme": "dark"}, {"region": "north", "theme": "dark"}
    ),
    _case(Grouped("session", (REGION, PLAN), MINUTES), {"region": "south", "plan": "trial", "session": 10.0}),
    _case(Grouped("site", (REGION,), SITE), {"region": "south", "site": "a"}, {"region": "south"}),
    Case(tuple(_krr(bit) for bit in bits_of(STAIRS)), (0.0, 4.0, 7.3, 10)),
    Case((Query(SITE, UnaryEncoding(4, 2**31, EIGHTH)),), ("a", "c", None), ("7fffffff80000000" + "1fffffff20000000",)),
    Case((Query(Histogram("site", SITE.categories), HashedResponse(3, 16, 8, EIGHTH)),), ("a", "c")),
    Case(
        (Query(Text("drink", optional=True), HashedResponse(DIGESTS + 1, 64, 8, EIGHTH)),), ("tea", "maté", "水", None)
    ),
    Case(
        (Query(Text("drink", prefixes=(1, 3)), HashedResponse(DIGESTS, 64, 8, EIGHTH)),), ("tea", "水"), (), (0, 1, 2)
    ),
    *(
        Case((_over_time(changes, strategy, parameters),), (), streams=STREAMS)
        for strategy, parameters in OVER_TIME
        for changes in (1, 3)
    ),
)


class Recorded:
    """Random bytes: those that were chosen, then seeded ones. It records what was drawn."""

    def __init__(self, chosen: bytes, seed: str) -> None:
        self._chosen, self._seeded, self._drawn = chosen, Seeded(seed), b""

    def __call__(self, count: int) -> bytes:
        taken, self._chosen = self._chosen[:count], self._chosen[count:]
        taken += self._seeded.randbytes(count - len(taken))
        self._drawn += taken
        return taken

    def taken(self) -> str:
        """Return what was drawn since the last call, in hex."""
        drawn, self._drawn = self._drawn, b""
        return drawn.hex()


def vector_of(
    case: Case, answer: Value, number: int, random: Recorded, memories: dict[str, Memory] | None = None
) -> dict[str, Any]:
    """Return one vector: an answer in a round, what is drawn, and what follows; `memories` are updated."""
    (asked,), kept = asked_by(case.queries), {} if memories is None else memories
    found = asked.encoded(case.queries, answer, number, kept, random)
    kept |= {query.name: each.memory for query, each in zip(case.queries, found, strict=True) if each.memory}
    symbols = [each.symbol for each in found]
    rounding = random.taken()
    reports, randomizing = [], []
    for query, symbol in zip(case.queries, symbols, strict=True):
        reports.append(query.randomize(symbol, random).hex())
        randomizing.append(random.taken())
    return {
        "answer": answer,
        "round": number,
        "random": {"symbol": rounding, "reports": randomizing},
        "symbols": [str(each) if each >= SAFE else each for each in symbols],
        "reports": reports,
    }


def _runs(place: int, case: Case) -> Iterator[dict[str, Any]]:
    for number in case.rounds:
        for at, answer in enumerate(case.answers):
            for chosen in case.chosen if at == 0 else ():
                yield vector_of(case, answer, number, Recorded(bytes.fromhex(chosen), f"{place} {chosen}"))
            for seed in range(SEEDS):
                yield vector_of(case, answer, number, Recorded(b"", f"{place} {at} {number} {seed}"))


def _streams(place: int, case: Case) -> Iterator[list[dict[str, Any]]]:
    """Return the vectors of each stream, a list for each device."""
    for at, stream in enumerate(case.streams):
        for seed in range(SEEDS):
            memories: dict[str, Memory] = {}
            random = Recorded(b"", f"{place} {at} {seed}")
            yield [vector_of(case, answer, number, random, memories) for number, answer in stream.items()]


def content() -> list[dict[str, Any]]:
    """Return what the file has: for each case its queries, and their vectors, those of a device after one another."""
    return [
        {
            "queries": [query.content() for query in case.queries],
            "vectors": list(_streams(place, case) if case.streams else _runs(place, case)),
        }
        for place, case in enumerate(CASES)
    ]


def encoded() -> bytes:
    """Return the file: a case a line would be too long, so a vector has one."""
    cases = []
    for case in content():
        vectors = ",\n".join("  " + json.dumps(each, ensure_ascii=False) for each in case["vectors"])
        queries = ",\n".join("  " + json.dumps(each, ensure_ascii=False) for each in case["queries"])
        cases.append(f' {{"queries": [\n{queries}\n ], "vectors": [\n{vectors}\n ]}}')
    return ("[\n" + ",\n".join(cases) + "\n]\n").encode()


if __name__ == "__main__":
    FILE.write_bytes(encoded())
