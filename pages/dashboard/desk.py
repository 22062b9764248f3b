"""Reads what pages show, and keeps every round that was verified: a round is fetched and verified once.

A certified round never changes, and to verify a year of daily rounds takes minutes. So each round is kept from its
first check on, as long as the process runs. One thread checks what a series needs, while pages show what is there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any, Protocol

from markupsafe import Markup

from hubbub.accountant.certificate.ladder import AT_MINIMUM, Ladder, ladders
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.spending.budget import BudgetForecast, forecast
from hubbub.protos.errors import HubbubError, SignatureError, Unreachable
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.identity.keys import CORE_ROLES
from hubbub.protos.messages import ListedTask
from hubbub.protos.records.results import RoundId, RoundResults
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.results import PublishedRow, ResultsTable, Trust
from hubbub.verification.certificate import stated
from hubbub.verification.pins import Pins

Start = Callable[[Callable[[], None]], None]
"""Starts work that nobody waits for."""


class ResultsReader(Protocol):
    """Where results come from: `hubbub.results.SavedResults`, or a `ServiceReader`."""

    def tasks(self) -> tuple[ListedTask, ...]:
        """Return the tasks."""

    def task(self, task: str) -> SignedTask:
        """Return the task with this id in hex, its signatures not checked."""

    def rounds(self, task: str | None = None) -> tuple[RoundId, ...]:
        """Return the certified rounds."""

    def read(self, task: str | None = None, rounds: Sequence[int] | None = None) -> ResultsTable:
        """Return rounds, verified."""


class NotThere(HubbubError):
    """A page is about a task or a round that is not there; the message names it."""


@dataclass(frozen=True)
class ShownTask:
    """A task with its signatures checked by the keys that it names.

    Attributes:
        signed: the task.
        unsigned: why its signatures do not hold, None if they do.
        known: for each party whose key is known beforehand, whether the task names that key.
    """

    signed: SignedTask
    unsigned: str | None
    known: Mapping[str, bool]

    @classmethod
    def of(cls, signed: SignedTask, pins: Pins) -> ShownTask:
        """Check a task's signatures, and compare its keys with those that are known."""
        named = signed.task.identities
        known = {role.value: pins.of(role) == named.of(role) for role in CORE_ROLES if pins.of(role) is not None}
        cores = {role.value for role in CORE_ROLES}
        if pins.hops is not None:
            known |= {name: pins.hops == named.hops for name in named.named if name not in cores}
        try:
            signed.check(named.operator, named.shuffler)
        except SignatureError as error:
            return cls(signed, str(error), known)
        return cls(signed, None, known)

    @property
    def task(self) -> Task:
        """The task."""
        return self.signed.task

    @property
    def parties(self) -> list[tuple[str, str, bool | None]]:
        """Each party with the fingerprint of its key, and whether that is the known one; None if none is known."""
        return [(name, fingerprint(key), self.known.get(name)) for name, key in self.task.identities.named.items()]

    @property
    def strangers(self) -> list[str]:
        """The parties that have other keys than those known beforehand."""
        return [name for name, _, same in self.parties if same is False]

    @property
    def compared(self) -> bool:
        """Whether both signers have the keys that were known beforehand."""
        return all(self.known.get(name) for name in ("operator", "shuffler"))

    @cached_property
    def budget(self) -> BudgetForecast:
        """How many rounds fit the task's budget; computed once, as it may take a second."""
        task = self.task
        return forecast(Terms.of(task), [query.mechanism for query in task.queries], task.schedule.rounds)


@dataclass(frozen=True)
class ShownRound:
    """A verified round: its rows, and what its certificate states of the round and of all rounds so far."""

    table: ResultsTable
    digest: str
    ladders: tuple[Ladder, ...]
    spent: float
    delta: float

    @classmethod
    def of(cls, table: ResultsTable) -> ShownRound:
        """Return the round of a table of one round."""
        certificate = table.results[0].certificate
        content = stated(certificate)
        every = content["all_rounds"]
        # A budget is charged at the minimum; where a batch was below it, at what came.
        at_minimum = every.get(AT_MINIMUM)
        spent = every["epsilon_upper"] if at_minimum is None else at_minimum
        return cls(table, sha256(certificate).hexdigest(), ladders(content), spent, content["delta"])

    @property
    def results(self) -> RoundResults:
        """The results that the rows are of."""
        return self.table.results[0]

    @property
    def number(self) -> int:
        """The round's number."""
        return self.results.id.round

    @property
    def withheld(self) -> list[str]:
        """The names of the queries that are withheld."""
        return [row.query for row in self.table if row.withheld]


@dataclass
class TaskDesk:
    """What is known of one task's rounds.

    Attributes:
        rounds: the verified ones, by number.
        wrong: why a round is not shown, by number.
        listed: the numbers of all that are certified.
        parts: parts of pages that were made of the verified rounds, until a further one is there.
    """

    task_id: str
    rounds: dict[int, ShownRound] = field(default_factory=dict)
    wrong: dict[int, str] = field(default_factory=dict)
    listed: tuple[int, ...] = ()
    parts: dict[object, Markup] = field(default_factory=dict)

    @property
    def newest(self) -> ShownRound | None:
        """The newest verified round."""
        return self.rounds[max(self.rounds)] if self.rounds else None

    @property
    def unchecked(self) -> list[int]:
        """The rounds that are still to be checked, the newest first."""
        return sorted(set(self.listed) - set(self.rounds) - set(self.wrong), reverse=True)

    @property
    def trust(self) -> Trust:
        """What was checked of all verified rounds together."""
        return Trust.joined([self.rounds[number].table.trust for number in sorted(self.rounds)])

    def rows(self, query: str) -> list[PublishedRow]:
        """Return the rows of a query in all verified rounds, rising."""
        return [row for number in sorted(self.rounds) for row in self.rounds[number].table if row.query == query]

    def part(self, key: object, make: Callable[[], Markup]) -> Markup:
        """Return a part of a page, made once for the rounds that are there."""
        # A round that comes while a part is made begins new parts, so the part without it is not kept.
        held = self.parts
        if key not in held:
            held[key] = make()
        return held[key]


def in_background(work: Callable[[], None]) -> None:
    """Start work in a thread that does not keep the process from ending."""
    threading.Thread(target=work, name="checks", daemon=True).start()


class Desk:
    """All tasks of a reader, with their verified rounds."""

    def __init__(self, reader: ResultsReader, pins: Pins, start: Start = in_background) -> None:
        """Show what `reader` reads; `pins` are the known keys, and `start` starts the checks of many rounds."""
        self._reader, self.pins, self._start = reader, pins, start
        self._desks: dict[str, TaskDesk] = {}
        self._tasks: dict[str, ShownTask] = {}
        self._checking: set[str] = set()
        self._lock = threading.Lock()
        # Two pages that ask for the same round wait for one check.
        self._one_check = threading.Lock()

    def tasks(self) -> list[tuple[ListedTask, ShownTask]]:
        """Return every task, by name."""
        return [(each, self.task(each.task_id.hex())) for each in self._reader.tasks()]

    def task(self, task_id: str) -> ShownTask:
        """Return a task, kept: its bytes follow from its id.

        Raises:
            NotThere: if there is none with this id.
        """
        if task_id not in self._tasks:
            if task_id not in {each.task_id.hex() for each in self._reader.tasks()}:
                raise NotThere(f"there is no task {task_id:.64}; the first page lists all tasks")
            self._tasks[task_id] = ShownTask.of(self._reader.task(task_id), self.pins)
        return self._tasks[task_id]

    def known(self) -> Mapping[str, ShownTask]:
        """Return the tasks that were shown before: what is known while the services do not answer."""
        return dict(self._tasks)

    def of(self, task_id: str) -> TaskDesk:
        """Return what is known of a task's rounds, without asking anybody."""
        with self._lock:
            return self._desks.setdefault(task_id, TaskDesk(task_id))

    def listed(self, task_id: str) -> TaskDesk:
        """Return what is known of a task's rounds, with all that are certified by now."""
        desk = self.of(task_id)
        found, last = tuple(each.round for each in self._reader.rounds(task_id)), self._last(task_id)
        if beyond := [number for number in found if number > last]:
            raise HubbubError(f"round {beyond[0]} is listed, but the task ends with round {last}; ask who lists it")
        if found != desk.listed:
            desk.listed = found
            desk.parts = {}
        return desk

    def _last(self, task_id: str) -> int:
        return self.task(task_id).task.schedule.rounds - 1

    def round(self, task_id: str, number: int) -> ShownRound:
        """Return a round, verified now if it was not before.

        Raises:
            NotThere: if there is no such round.
            HubbubError: if it is not as its certificate states, or cannot be read.
        """
        desk = self.of(task_id)
        if number not in desk.rounds:
            if number not in self.listed(task_id).listed:
                raise NotThere(f"round {number} is not certified; the task's page lists the rounds")
            self._check(desk, number)
        return desk.rounds[number]

    def check_all(self, task_id: str) -> TaskDesk:
        """Return what is known of a task's rounds, and start to check the rest unless that runs already."""
        desk = self.listed(task_id)
        with self._lock:
            starts = bool(desk.unchecked) and task_id not in self._checking
            if starts:
                self._checking.add(task_id)
        if starts:
            self._start(lambda: self._check_rest(desk))
        return desk

    def _check_rest(self, desk: TaskDesk) -> None:
        try:
            for number in desk.unchecked:
                try:
                    self._check(desk, number)
                except Unreachable:
                    # Nothing is wrong with the rounds: the next look checks them.
                    return
                except (HubbubError, AccountingError) as error:
                    desk.wrong[number] = str(error)
                    desk.parts = {}
        finally:
            with self._lock:
                self._checking.discard(desk.task_id)

    def _check(self, desk: TaskDesk, number: int) -> None:
        with self._one_check:
            if number in desk.rounds:
                return
            found = ShownRound.of(self._reader.read(desk.task_id, [number]))
            with self._lock:
                desk.rounds[number] = found
                desk.wrong.pop(number, None)
                desk.parts = {}

    def joined(self, task_id: str, numbers: Sequence[int]) -> ResultsTable:
        """Return these rounds, each verified, as one table."""
        return ResultsTable.joined([self.round(task_id, number).table for number in numbers])


def left_of(spent: float, whole: float) -> float:
    """Return what is left of a budget."""
    return max(whole - spent, 0.0)


def content_of(each: ShownRound) -> dict[str, Any]:
    """Return everything that a round's certificate states."""
    return stated(each.results.certificate)
