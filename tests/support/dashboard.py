"""A dashboard of made-up rounds, and a browser without scripts that looks at it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random as Seeded
from typing import Any

from starlette.testclient import TestClient

from hubbub.accountant.certificate.terms import QueryCount, RoundCounts
from hubbub.analyzer.records import ReceivedBatch, counted_of
from hubbub.analyzer.results import results_of
from hubbub.pages.dashboard.access import TOKEN, WORD, Access
from hubbub.pages.dashboard.app import application
from hubbub.pages.dashboard.checked_results import CheckedResults, ResultsReader
from hubbub.pages.dashboard.site import Site
from hubbub.protos.messages import Committed, ListedTask
from hubbub.protos.records.batch import BatchId, BatchRecord
from hubbub.protos.records.counts import DIGEST, counts_digest
from hubbub.protos.records.release_chain import position_after
from hubbub.protos.records.results import RoundId, RoundResults
from hubbub.protos.task.about import About
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Privacy, Task
from hubbub.queries.questions.histogram import Histogram
from hubbub.results import ResultsTable
from hubbub.results.checked import Trust, check_counts, check_signed
from hubbub.verification.pins import Pins
from support.certificates import content_of, encode
from support.html_page import Page
from support.krr_queries import krr_query
from support.samples import START, Parties, changed, sample_task, signed

HOSTILE = ("<script>alert(1)</script>", '" onclick="x', "{{ 7 * 7 }}", "tea & 水")
"""Names of categories that a page must show as they are."""

AT = "http://127.0.0.1:8737"
DEVICES = 120
PARTIES = Parties.generate()
KEYS = Pins(PARTIES.operator.public, PARTIES.shuffler.public, PARTIES.analyzer.public, ())
TASK = changed(
    sample_task(
        PARTIES,
        name="drinks",
        minimum_reports=100,
        schedule=Schedule(START, length=3600, grace=60, rounds=4),
        queries=(krr_query(Histogram("drink", HOSTILE), 2**29), krr_query(Histogram("milk", ("yes", "no")), 2**29)),
        privacy=Privacy(epsilon=10.0, delta=1e-2, epsilon_local=20.0, epsilon_total=30.0),
    ),
    about=About("the <b>kitchen</b> team", "What to buy & when", None, ()),
)
VALID = ((120, 120), (120, 60), (110, 120))
"""The valid reports of each query in each round: in round 1 the second query is withheld."""


@dataclass(frozen=True)
class MadeUp:
    """Rounds of a task, of which the devices answer as `answer` says, given the round, the device, and how many choose.

    `valid` has the valid reports of each query in each round.
    """

    task: Task = TASK
    valid: tuple[tuple[int, ...], ...] = VALID
    devices: int = DEVICES
    answer: Callable[[int, int, int], int] = lambda _round, device, many: min(device % 5, many - 1)

    def rounds(self) -> tuple[RoundResults, ...]:
        """What the analyzer publishes of each round, with certificates that verify."""
        history: list[tuple[int, list[ReceivedBatch]]] = []
        found = []
        for number, valid in enumerate(self.valid):
            history.append((number, [self._batch(number, index, each) for index, each in enumerate(valid)]))
            content = content_of(self.task, PARTIES, [self._counts(each) for each in range(number + 1)])
            counted = [counted_of(self.task, batch) for batch in history[-1][1]]
            content[DIGEST] = counts_digest(self.task, number, counted).hex()
            which = RoundId(self.task.id, self.task.name, number)
            found.append(RoundResults(which, results_of(self.task, history), encode(content, PARTIES)))
        return tuple(found)

    def _batch(self, number: int, index: int, valid: int) -> ReceivedBatch:
        query, random = self.task.queries[index], Seeded(f"{number} {index}").randbytes
        answers = query.question.categories  # type: ignore[attr-defined] # histograms all
        sent = b"".join(
            query.randomize(query.encode(answers[self.answer(number, device, len(answers))], random), random)
            for device in range(valid)
        )
        record = BatchRecord(
            *(BatchId(self.task.id, number, index), self.devices, bytes(32), bytes(32), "schedule"),
            admission=self.task.admission.mode.value,
            position=position_after(self.task.id, ()),
        )
        counts = query.randomizer.tally(sent).counts.astype("<i8").tobytes()
        document, committed = record.signed_by(PARTIES.shuffler), Committed(valid, self._left_out(valid))
        return ReceivedBatch(record.batch, document, self.devices, 0, bytes(32), self.devices, committed, counts)

    def _counts(self, number: int) -> RoundCounts:
        pairs = zip(self.task.queries, self.valid[number], strict=True)
        queries = [
            QueryCount(query.name, query.mechanism, self.devices, valid, self._left_out(valid))
            for query, valid in pairs
        ]
        return RoundCounts(number, tuple(queries))

    def _left_out(self, valid: int) -> dict[str, int]:
        return {"unopenable": self.devices - valid} if valid < self.devices else {}


@cache
def made_rounds() -> tuple[RoundResults, ...]:
    """The rounds of `TASK`."""
    return MadeUp().rounds()


class StubReader:
    """A reader of these rounds; `down` is what it raises instead, `asked` the rounds that it read."""

    def __init__(self, rounds: Sequence[RoundResults], task: SignedTask) -> None:
        self.held = {each.id.round: each for each in rounds}
        self.signed = task
        self.down: Exception | None = None
        self.asked: list[int] = []

    def tasks(self) -> tuple[ListedTask, ...]:
        self._check()
        return (ListedTask(self.signed.task.id, self.signed.task.name),)

    def task(self, _task: str) -> SignedTask:
        self._check()
        return self.signed

    def rounds(self, _task: str | None = None) -> tuple[RoundId, ...]:
        self._check()
        return tuple(each.id for each in self.held.values())

    def read(self, _task: str | None = None, rounds: Sequence[int] | None = None) -> ResultsTable:
        self._check()
        self.asked += rounds or ()
        shown = [self.held[number] for number in rounds or ()]
        return ResultsTable(shown, Trust(True, check_signed(shown, KEYS), check_counts(shown)))

    def look(self, _task: str, number: int) -> ResultsTable:
        self._check()
        return ResultsTable([self.held[number]], Trust(verified=False))

    def _check(self) -> None:
        if self.down is not None:
            raise self.down


@dataclass(frozen=True)
class Looked:
    """What a browser got."""

    status: int
    text: str
    headers: Any
    content: bytes

    @property
    def page(self) -> Page:
        return Page(self.text)


class Browser:
    """A browser that was let in, runs no script, and sends what browsers send."""

    def __init__(self, site: Site, *, known: bool = True) -> None:
        self.site = site
        self.client = TestClient(application(site), base_url=AT, follow_redirects=True)
        if known:
            self.client.get(f"/?{TOKEN}={site.access.token}", follow_redirects=False)

    def get(self, path: str, **headers: str) -> Looked:
        return self._looked(self.client.get(path, headers=headers))

    def post(self, path: str, fields: dict[str, str], headers: dict[str, str] | None = None, **more: Any) -> Looked:
        """Send a form of the site's own pages, unless the fields or headers say otherwise."""
        usual = {"origin": "null", "sec-fetch-site": "same-origin"}
        data = {WORD: self.site.access.word, **fields}
        return self._looked(self.client.post(path, data=data, headers=usual | (headers or {}), **more))

    def _looked(self, answer: Any) -> Looked:
        return Looked(answer.status_code, answer.text, answer.headers, answer.content)


def at_once(work: Callable[[], None]) -> None:
    """Start work and wait for its end."""
    work()


def site_of(reader: ResultsReader, pins: Pins = KEYS, start: Callable[[Callable[[], None]], None] = at_once) -> Site:
    return Site(CheckedResults(reader, pins, start), Access.at("127.0.0.1", 8737), "a test")


def stub(task: Task = TASK) -> StubReader:
    return StubReader(made_rounds(), signed(task, PARTIES))


def without_pictures(text: str) -> str:
    """A page without its pictures, which repeat the numbers."""
    return re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL)
