"""Stores calls that wait together in one transaction, and writes counts with them.

A call's outcome is returned only after its transaction is committed. A transaction that fails rolls back all its calls:
none of them was acknowledged. The thread survives every exception.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

from hubbub.protos.errors import HubbubError
from hubbub.service.postgres.server_errors import as_store_error
from hubbub.service.postgres.sessions import Connection, Sessions
from hubbub.service.runtime.job_thread import Job, JobThread, give_out
from hubbub.shuffler.records import InsertOutcome, RoundId, Tally
from hubbub.shuffler.stores.postgres import tables
from hubbub.shuffler.stores.postgres.inserts import NearlyFullError, PendingInsert, insert
from hubbub.shuffler.stores.postgres.secrets import SecretsOf

GROUP_SUBMISSIONS = 20_000
"""Submissions in one transaction beyond which no further call joins it; a single call may have more."""


class InsertWriter(JobThread[PendingInsert | None]):
    """Stores submissions, and writes counts, in one thread, one transaction after the other."""

    def __init__(self, sessions: Sessions, secrets: SecretsOf) -> None:
        super().__init__(GROUP_SUBMISSIONS)
        self._sessions = sessions
        self._secrets = secrets
        self._lock = threading.Lock()
        self._pending: dict[RoundId, Tally] = {}
        self._start()

    def count(self, counts: Mapping[RoundId, Tally]) -> bool:
        """Have counts written with the next transaction; return whether none waited before."""
        with self._lock:
            first = not self._pending
            _add(self._pending, counts)
        return first

    def counted(self, round_: RoundId) -> Tally:
        """Return the counts of a round that wait to be written."""
        with self._lock:
            return Counter(self._pending.get(round_, ()))

    async def insert(self, call: PendingInsert) -> list[InsertOutcome]:
        """Store a call's submissions.

        Raises:
            StoreError: if it failed, or the store was closed.
        """
        held: list[InsertOutcome] = await self._put(call, size=len(call.submissions))
        return held

    async def flush(self) -> None:
        """Write the counts that wait.

        Raises:
            StoreError: if it failed; the counts stay waiting.
        """
        with self._lock:
            if not self._pending:
                return
        await self._put(None, size=0)

    def _run(self) -> None:
        while group := self._next_group():
            self._finish(group)
        self._finish([])  # counts without a call

    def _finish(self, group: list[Job[PendingInsert | None]]) -> None:
        with self._lock:
            counts, self._pending = self._pending, {}
        calls = [job.work for job in group if job.work is not None]
        try:
            found = iter(self._done(calls, counts) if calls or counts else ())
        except Exception as error:
            with self._lock:
                _add(self._pending, counts)
            told = error if isinstance(error, HubbubError) else as_store_error(error, self._sessions.address)
            give_out([(job.future, [], told) for job in group])
        else:
            give_out([(job.future, next(found) if job.work is not None else [], None) for job in group])

    def _done(self, calls: list[PendingInsert], counts: Mapping[RoundId, Tally]) -> list[list[InsertOutcome]]:
        try:
            return self._sessions.change(lambda connection: self._in_one(connection, calls, counts, alone=False))
        except NearlyFullError:
            return self._sessions.change(lambda connection: self._in_one(connection, calls, counts, alone=True))

    def _in_one(
        self, connection: Connection, calls: list[PendingInsert], counts: Mapping[RoundId, Tally], *, alone: bool
    ) -> list[list[InsertOutcome]]:
        found = insert(connection, self._secrets, calls, alone=alone)
        tables.add_tallies(connection, counts)
        return found


def _add(tallies: dict[RoundId, Tally], more: Mapping[RoundId, Tally]) -> None:
    for key, tally in more.items():
        tallies.setdefault(key, Counter()).update(tally)
