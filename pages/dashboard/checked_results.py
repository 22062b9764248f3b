"""Reads what pages show at once, and has it verified meanwhile: each round is verified once.

A certified round never changes, and to verify a year of daily rounds may take hours. So a page shows a round as soon as
it is read, and says that it is not checked yet. One thread checks all rounds of a task, those that somebody looks at
first. A round that turns out wrong is shown no more.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Protocol

from hubbub.accountant.errors import AccountingError
from hubbub.pages.dashboard.shown_round import ShownRound
from hubbub.pages.dashboard.shown_task import ShownTask, TaskRounds
from hubbub.protos.errors import HubbubError, Unreachable
from hubbub.protos.messages import ListedTask
from hubbub.protos.records.results import RoundId
from hubbub.protos.refusals import Refusal
from hubbub.protos.task.signed_task import SignedTask
from hubbub.results import ResultsTable
from hubbub.verification.pins import Pins

MOST_TABLES = 4
"""Whole rounds that are kept, with certificates of up to half a megabyte: those that were saved or verified last."""

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

    def look(self, task: str, number: int) -> ResultsTable:
        """Return a round that is not verified; its table says so."""


class NotThere(HubbubError):
    """A page is about a task or a round that is not there; the message names it."""


def in_background(work: Callable[[], None]) -> None:
    """Start work in a thread that does not keep the process from ending."""
    threading.Thread(target=work, name="checks", daemon=True).start()


class CheckedResults:
    """All tasks of a reader, with their verified rounds."""

    def __init__(self, reader: ResultsReader, pins: Pins, start: Start = in_background) -> None:
        """Show what `reader` reads; `pins` are the known keys, and `start` starts the checks of many rounds."""
        self._reader, self.pins, self._start = reader, pins, start
        self._rounds: dict[str, TaskRounds] = {}
        self._tasks: dict[str, ShownTask] = {}
        self._checking: set[str] = set()
        self._lock = threading.Lock()
        # Two pages that ask for the same round wait for one check.
        self._one_check = threading.Lock()
        self._tables: OrderedDict[tuple[str, int], ResultsTable] = OrderedDict()

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

    def of(self, task_id: str) -> TaskRounds:
        """Return what is known of a task's rounds, without asking anybody."""
        with self._lock:
            return self._rounds.setdefault(task_id, TaskRounds(task_id))

    def listed(self, task_id: str) -> TaskRounds:
        """Return what is known of a task's rounds, with all that are certified by now."""
        of_task = self.of(task_id)
        found, last = tuple(each.round for each in self._reader.rounds(task_id)), self._last(task_id)
        if beyond := [number for number in found if number > last]:
            raise HubbubError(f"round {beyond[0]} is listed, but the task ends with round {last}; ask who lists it")
        of_task.list_now(found)
        return of_task

    def _last(self, task_id: str) -> int:
        return self.task(task_id).task.schedule.rounds - 1

    def look(self, task_id: str, number: int) -> ShownRound:
        """Return a round at once, and have it checked before others; it says whether it was checked by now.

        Raises:
            NotThere: if there is no such round.
            HubbubError: if it is not as its certificate states, or cannot be read.
        """
        of_task = self.of(task_id)
        shown = of_task.rounds.get(number)
        if shown is not None and shown.verified:
            return shown
        self._check_listed(of_task, number)
        if number in of_task.wrong:
            # It may be right by now, and what is wrong is said if it is not; its numbers are not shown before.
            self._check(of_task, number)
            return of_task.rounds[number]
        of_task.wanted = [*(each for each in of_task.wanted if each != number), number]
        self._read(of_task, number)
        self.check_all(task_id)
        if number in of_task.wrong:
            raise HubbubError(of_task.wrong[number])
        return of_task.rounds[number]

    def table(self, task_id: str, number: int) -> ResultsTable:
        """Return a round with its certificate, verified now if it was not before.

        Raises:
            NotThere, HubbubError: as `look`.
        """
        of_task = self.of(task_id)
        self._check_listed(of_task, number)
        held = of_task.rounds.get(number)
        # Not behind a check that runs, if this round was checked before.
        return self._again(of_task, held) if held is not None and held.verified else self._check(of_task, number)

    def _check_listed(self, of_task: TaskRounds, number: int) -> None:
        if number not in of_task.listed and number not in self.listed(of_task.task_id).listed:
            raise NotThere(f"round {number} is not certified; the task's page lists the rounds")

    def check_all(self, task_id: str) -> TaskRounds:
        """Return what is known of a task's rounds, and start to read and check the rest unless that runs already."""
        of_task = self.listed(task_id)
        with self._lock:
            starts = bool(of_task.unchecked) and task_id not in self._checking
            if starts:
                self._checking.add(task_id)
        if starts:
            self._start(lambda: self._work_on(of_task))
        return of_task

    def _work_on(self, of_task: TaskRounds) -> None:
        """Check what somebody looks at, then read all rounds, then check the rest, the newest first."""
        try:
            _ = self.task(of_task.task_id).budget
            while of_task.unchecked:
                wanted = [number for number in of_task.wanted if number in of_task.unchecked]
                if wanted:
                    self._attempt(of_task, wanted[-1], self._check)
                elif of_task.unread:
                    self._attempt(of_task, of_task.unread[0], self._read)
                else:
                    self._attempt(of_task, of_task.unchecked[0], self._check)
        except (Unreachable, Refusal):
            # Nothing is wrong with the rounds: the next look checks them.
            return
        finally:
            with self._lock:
                self._checking.discard(of_task.task_id)

    def _attempt(self, of_task: TaskRounds, number: int, act: Callable[[TaskRounds, int], object]) -> None:
        try:
            act(of_task, number)
        except (HubbubError, AccountingError) as error:
            # A service that is away, or starts again, says nothing about the round.
            if isinstance(error, Unreachable) or (isinstance(error, Refusal) and error.passes):
                raise
            with self._lock:
                of_task.refuse(number, str(error))

    def _read(self, of_task: TaskRounds, number: int) -> None:
        """Show a round before it is checked."""
        if number in of_task.rounds:
            return
        found = ShownRound.of(self._reader.look(of_task.task_id, number))
        with self._lock:
            if number not in of_task.rounds:
                of_task.put(found)

    def _check(self, of_task: TaskRounds, number: int) -> ResultsTable:
        """Verify a round, and show it."""
        with self._one_check:
            held = of_task.rounds.get(number)
            if held is not None and held.verified:
                return self._again(of_task, held)
            table = self._reader.read(of_task.task_id, [number])
            found = ShownRound.of(table)
            with self._lock:
                self._keep(of_task, table)
                of_task.put(found)
            return table

    def _again(self, of_task: TaskRounds, shown: ShownRound) -> ResultsTable:
        """Return a round that was verified with its certificate, which is not verified a second time."""
        with self._lock:
            kept = self._tables.get((of_task.task_id, shown.number))
        if kept is not None:
            return kept
        table = self._reader.read(of_task.task_id, [shown.number])
        if sha256(table.results[0].certificate).hexdigest() != shown.digest:
            raise HubbubError(f"round {shown.number} has another certificate than before; ask who sends it")
        with self._lock:
            self._keep(of_task, table)
        return table

    def _keep(self, of_task: TaskRounds, table: ResultsTable) -> None:
        self._tables[of_task.task_id, table.results[0].id.round] = table
        if len(self._tables) > MOST_TABLES:
            self._tables.popitem(last=False)

    def joined(self, task_id: str, numbers: Sequence[int]) -> ResultsTable:
        """Return these rounds, each verified, as one table."""
        return ResultsTable.joined([self.table(task_id, number) for number in numbers])

    def table_now(self, task_id: str, number: int) -> ResultsTable:
        """Return a round with its certificate at once, and have it checked before others, as `look`."""
        shown = self.look(task_id, number)
        return self._again(self.of(task_id), shown) if shown.verified else self._reader.look(task_id, number)
