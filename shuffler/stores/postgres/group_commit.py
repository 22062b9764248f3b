"""Writer: calls that wait together are held in one transaction, and counts are written with them.

A call's outcome is given out only after its transaction is committed. A transaction that fails takes all its calls
back: none of them was acknowledged. The thread itself survives whatever is raised.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from hubbub.protos.errors import HubbubError
from hubbub.service.errors import StoreError
from hubbub.service.postgres.sessions import Connection, Sessions, as_store_error
from hubbub.shuffler.records import Held, RoundId, Tally
from hubbub.shuffler.stores.postgres import tables
from hubbub.shuffler.stores.postgres.inserts import Call, NearlyFullError, hold
from hubbub.shuffler.stores.postgres.secrets import SecretsOf

GROUP_SUBMISSIONS = 20_000
"""Submissions in one transaction beyond which no further call joins it; a single call may have more."""


@dataclass(frozen=True)
class _Job:
    call: Call | None
    future: asyncio.Future[list[Held]]


class Writer:
    """Holds submissions, and writes counts; one thread, which takes one transaction after the other."""

    def __init__(self, sessions: Sessions, secrets: SecretsOf) -> None:
        self._sessions = sessions
        self._secrets = secrets
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._carried: _Job | None = None
        self._lock = threading.Lock()
        self._pending: dict[RoundId, Tally] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many calls wait."""
        return self._jobs.qsize()

    def count(self, counts: Mapping[RoundId, Tally]) -> bool:
        """Have counts written with the next transaction; return whether none waited before."""
        with self._lock:
            first = not self._pending
            _add(self._pending, counts)
        return first

    async def hold(self, call: Call) -> list[Held]:
        """Hold what a call asks for.

        Raises:
            StoreError: where it could not be done, or the store was closed.
        """
        return await self._put(call)

    async def flush(self) -> None:
        """Write the counts that wait.

        Raises:
            StoreError: where it could not be done; they go on waiting.
        """
        with self._lock:
            if not self._pending:
                return
        await self._put(None)

    def _put(self, call: Call | None) -> asyncio.Future[list[Held]]:
        future: asyncio.Future[list[Held]] = asyncio.get_running_loop().create_future()
        # The lock keeps a job from being put behind the end, where nobody would ever do it.
        with self._lock:
            if self._closed:
                raise StoreError("the store is closed; the service is stopping")
            self._jobs.put(_Job(call, future))
        return future

    def close(self) -> None:
        """Do what is waiting, then end; a second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while group := self._next_group():
            self._finish(group)
        self._finish([])  # what was counted without a call

    def _next_group(self) -> list[_Job]:
        """Wait for a job, then take those that wait behind it. Empty at the end."""
        first = self._carried or self._jobs.get()
        self._carried = None
        if first is None:
            return []
        group, size = [first], _size(first)
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return group
            if job is None:
                self._jobs.put(None)  # the end, put back: it is read again when this group is done
                return group
            size += _size(job)
            if size > GROUP_SUBMISSIONS:
                self._carried = job
                return group
            group.append(job)

    def _finish(self, group: list[_Job]) -> None:
        with self._lock:
            counts, self._pending = self._pending, {}
        calls = [job.call for job in group if job.call is not None]
        try:
            found = iter(self._done(calls, counts) if calls or counts else ())
        except Exception as error:
            with self._lock:
                _add(self._pending, counts)
            told = error if isinstance(error, HubbubError) else as_store_error(error, self._sessions.address)
            _give_out([(job.future, [], told) for job in group])
        else:
            _give_out([(job.future, next(found) if job.call is not None else [], None) for job in group])

    def _done(self, calls: list[Call], counts: Mapping[RoundId, Tally]) -> list[list[Held]]:
        try:
            return self._sessions.change(lambda connection: self._in_one(connection, calls, counts, alone=False))
        except NearlyFullError:
            return self._sessions.change(lambda connection: self._in_one(connection, calls, counts, alone=True))

    def _in_one(
        self, connection: Connection, calls: list[Call], counts: Mapping[RoundId, Tally], *, alone: bool
    ) -> list[list[Held]]:
        found = hold(connection, self._secrets, calls, alone=alone)
        tables.add_tallies(connection, counts)
        return found


def _size(job: _Job) -> int:
    return 0 if job.call is None else len(job.call.submissions)


def _add(tallies: dict[RoundId, Tally], more: Mapping[RoundId, Tally]) -> None:
    for key, tally in more.items():
        tallies.setdefault(key, Counter()).update(tally)


_Result = tuple["asyncio.Future[list[Held]]", list[Held], BaseException | None]


def _give_out(results: list[_Result]) -> None:
    """Give all results to the event loop in one call: waking it is what costs."""
    if not results:
        return
    try:
        results[0][0].get_loop().call_soon_threadsafe(_resolve, results)
    except RuntimeError:
        return  # the loop is closed: nobody waits any more


def _resolve(results: list[_Result]) -> None:
    for future, result, error in results:
        # Who asked was cancelled; what was done for them is stored all the same.
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
