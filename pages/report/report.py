"""Everything that a report says about published rounds: what was asked, what came out, what is promised, how to check.

Numbers are those of the rows and of the newest certificate; words are the task's own, and those of the certificate.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from markupsafe import Markup

from hubbub import __version__
from hubbub.accountant.certificate.ladder import AT_MINIMUM, Ladder, ladders_of_people
from hubbub.pages import charts, shown_rows
from hubbub.pages.dictionary.entry import Entry
from hubbub.pages.report.citation import Citation
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.records.results import QueryResult, SumResult
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.results.published_row import PublishedRow
from hubbub.results.table import ResultsTable
from hubbub.verification.certificate import stated

MOST_EMBEDDED = 4 * 2**20
"""Bytes of certificates in one report; of more rounds, only the newest one's is in it."""

OVER_ROUNDS = "smoothed_count"
"""The statistic of a question over time whose categories are the rounds so far: a series in each round."""


@dataclass(frozen=True)
class ShownPart:
    """Numbers of one query with one unit: what they are, their pictures, and the table with the same numbers."""

    heading: str
    pictures: Markup
    table: Markup


@dataclass(frozen=True)
class ReportedQuery:
    """A query's answers: its name and what it asks, its parts, and in which rounds it is withheld, with the reason.

    `notes` are sentences that belong to its numbers, such as how many texts were looked up.
    """

    name: str
    asks: str | None
    parts: tuple[ShownPart, ...]
    withheld: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Embedded:
    """A round's certificate in the report: its file name, the link that has it whole, and its SHA-256."""

    round: int
    file_name: str
    link: str
    digest: str


@dataclass(frozen=True)
class Signer:
    """A party, the fingerprint of its key, and whether that was known to whoever made the report."""

    name: str
    fingerprint: str
    pinned: bool


class Report:
    """What a report says about the rounds of a table, all of one task.

    Raises:
        VerificationError: if a certificate has not the form of one.
    """

    def __init__(self, table: ResultsTable, written: datetime) -> None:
        """Report on `table`, at the time `written`, in UTC."""
        self.table, self.written = table, written
        self.version = __version__
        self.content: dict[str, Any] = stated(table.certificate(self.newest))
        self.entry = Entry.of(SignedTask.from_json(self.content["task"]))

    @property
    def task(self) -> Task:
        """The task."""
        return self.entry.task

    @property
    def newest(self) -> int:
        """The last round that is reported."""
        return self.table.rounds[-1]

    @property
    def several(self) -> bool:
        """Whether it is about more than one round."""
        return len(self.table.rounds) > 1

    @property
    def rounds(self) -> str:
        """The rounds that it is about, in words."""
        first = self.table.rounds[0]
        return f"rounds {first} to {self.newest}" if self.several else f"round {self.newest}"

    @property
    def begins(self) -> datetime:
        """When the first of them began."""
        return min(row.round_begins for row in self.table)

    @property
    def ends(self) -> datetime:
        """When the last of them ended."""
        return max(row.round_ends for row in self.table)

    @cached_property
    def shown(self) -> tuple[ReportedQuery, ...]:
        """The answers to each query."""
        asks = dict(self.task.about.questions)
        return tuple(
            ReportedQuery(name, asks.get(name), tuple(self._parts(rows)), tuple(_reasons(rows)), self._notes(name))
            for name in self.table.queries
            for rows in (self.table.where(query=name).rows,)
        )

    def _parts(self, rows: tuple[PublishedRow, ...]) -> Iterator[ShownPart]:
        for part in shown_rows.parts(rows):
            first = part[0]
            if first.withheld:
                continue
            heading = " of ".join(filter(None, (_words(first), first.unit)))
            numbers = [row for row in part if not row.withheld]
            yield ShownPart(heading, self._pictures(part), shown_rows.table(numbers, f"{first.query}: {heading}"))

    def _notes(self, query: str) -> tuple[str, ...]:
        """Return the notes of a query's estimates; of several rounds, each with its round."""
        found: dict[int, tuple[str, ...]] = {}
        for each in self.table.results:
            results: tuple[QueryResult | SumResult, ...] = (*each.queries, *each.sums)
            for result in results:
                if result.name == query and result.estimates is not None:
                    found[each.id.round] = result.estimates.notes
        return tuple(
            f"round {number}: {note}" if self.several else note for number in sorted(found) for note in found[number]
        )

    def _pictures(self, part: list[PublishedRow]) -> Markup:
        numbered = [row for row in part if not row.withheld]
        if numbered[0].statistic == OVER_ROUNDS:
            last = max(row.round for row in numbered)
            return charts.series([self._in_its_round(row) for row in numbered if row.round == last])
        # Known numbers, and one alone, are compared with nothing: their rows say all.
        if all(row.standard_error == 0 for row in numbered):
            return Markup("")
        if self.several:
            return charts.series(part)
        return charts.estimates(numbered) if len(numbered) > 1 else Markup("")

    def _in_its_round(self, row: PublishedRow) -> PublishedRow:
        """Return a row about an earlier round as a row of that round, to draw it there."""
        number = int((row.category or "").removeprefix("round "))
        begins = datetime.fromtimestamp(self.task.schedule.opens(number), row.round_begins.tzinfo)
        return replace(row, round=number, round_begins=begins, category=None)

    @property
    def told_from_zero(self) -> tuple[int, int] | None:
        """How many of the counts that were tested are larger than noise explains; None if none was tested."""
        tested = [row.significant for row in self.table if row.significant is not None]
        return (sum(tested), len(tested)) if tested else None

    @property
    def answered(self) -> tuple[PublishedRow, ...]:
        """A row for each query of each round, for its numbers of reports."""
        found = {(row.round, row.query): row for row in self.table if row.reports is not None}
        return tuple(found.values())

    @property
    def spent(self) -> float:
        """ε of all rounds so far as the ledgers charge them; by the counts if a batch was below the minimum."""
        together = self.content["all_rounds"]
        charged: float | None = together[AT_MINIMUM]
        return float(together["epsilon_upper"] if charged is None else charged)

    @property
    def budget(self) -> Markup:
        """A picture of ε spent and left."""
        so_far = len(self.content["all_rounds"]["history"])
        about = f"all {so_far} rounds so far" if so_far > 1 else "the one round so far"
        return charts.budget(self.spent, self.task.privacy.epsilon_total, about=about)

    @property
    def ladders(self) -> tuple[tuple[str, Ladder], ...]:
        """Who must be honest for which ε, of the round and of all rounds, each with what it is about."""
        return tuple(ladders_of_people(self.content))

    @property
    def signers(self) -> tuple[Signer, ...]:
        """The parties with their keys. Without verification none is known."""
        unknown = set(self.table.trust.unpinned)
        return tuple(
            Signer(name, fingerprint(key), self.table.trust.verified and name not in unknown)
            for name, key in self.task.identities.named.items()
        )

    @cached_property
    def certificates(self) -> tuple[Embedded, ...]:
        """The certificates in the report, rising; if they are too large together, the newest alone."""
        held = {number: self.table.certificate(number) for number in self.table.rounds}
        if sum(map(len, held.values())) > MOST_EMBEDDED:
            held = {self.newest: held[self.newest]}
        return tuple(self._embedded(number, content) for number, content in held.items())

    def _embedded(self, number: int, content: bytes) -> Embedded:
        link = f"data:application/json;base64,{base64.b64encode(content).decode()}"
        digest = hashlib.sha256(content).hexdigest()
        return Embedded(number, f"certificate-{self.entry.file_name}-{number}.json", link, digest)

    @property
    def certificate(self) -> Embedded:
        """That of the newest round."""
        return self.certificates[-1]

    @property
    def line(self) -> str:
        """What to run to check the newest certificate, with the keys of its parties."""
        hops = (f"--hop-key {name}.pub.pem" for name in self.task.identities.named if name.startswith("hop-"))
        keys = (f"--{role}-key {role}.pub.pem" for role in ("operator", "shuffler", "analyzer"))
        return " ".join(("hubbub verify", shlex.quote(self.certificate.file_name), *keys, *hops))

    @property
    def citation(self) -> Citation:
        """How to cite it."""
        about = self.task.about
        return Citation(
            task=self.task.name,
            task_id=self.task.id.hex(),
            rounds=self.rounds,
            begins=self.begins,
            ends=self.ends,
            owner=about.owner,
            published=about.results,
            digest=self.certificate.digest,
        )


def _words(row: PublishedRow) -> str:
    """Return what numbers are, in words."""
    by = ", ".join(attribute for attribute, _ in row.group)
    name = (row.statistic or "").replace("_", " ")
    return f"{name} by {by}" if by else name


def _reasons(rows: tuple[PublishedRow, ...]) -> Iterator[str]:
    yield from dict.fromkeys(f"round {row.round}: {row.reason}" for row in rows if row.withheld)
