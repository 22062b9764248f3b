"""The part of a store that submissions need, shared by the leader and its front ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from hubbub.service.errors import StoreError
from hubbub.service.postgres.sessions import Connection, Sessions
from hubbub.service.postgres.threads import Threads
from hubbub.shuffler.records import ANY_ROUND, InsertOutcome, Opened, Round, RoundId
from hubbub.shuffler.stores.postgres import tables
from hubbub.shuffler.stores.postgres.group_commit import InsertWriter
from hubbub.shuffler.stores.postgres.inserts import PendingInsert
from hubbub.shuffler.stores.postgres.secrets import SecretsOf, StorageSecrets

T = TypeVar("T")


class PostgresIngestStore:
    """Stores submissions, reads what is stored, and runs the threads of a store."""

    def __init__(self, secrets: SecretsOf, sessions: Sessions) -> None:
        self._secrets = secrets
        self._sessions = sessions
        self._threads = Threads()
        self._writer = InsertWriter(sessions, secrets)
        self._begun: set[RoundId] = set()
        self._counting: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """The number of calls that wait for the writing thread."""
        return self._writer.waiting

    def _stop(self) -> None:
        """Write waiting changes, and close the connections."""
        # The writer first: it still writes what waits.
        self._writer.close()
        self._threads.shutdown()
        self._sessions.close()

    def secrets_of(self, round_: Round) -> StorageSecrets:
        """Return a round's secrets.

        Raises:
            StoreError: if they are missing.
        """
        return self._secrets.of((round_.task_id, round_.number))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await self._threads.do(work)

    async def _read(self, work: Callable[[Connection], T]) -> T:
        return await self._in_thread(lambda: self._sessions.read(work))

    # Reading

    async def known(self, round_: Round, ids: Sequence[bytes]) -> list[bytes | None]:
        cipher = self.secrets_of(round_).cipher
        if cipher is None or not ids:
            return [None] * len(ids)
        stored = [cipher.id(each) for each in ids]
        found = await self._read(lambda connection: tables.digests(connection, round_, stored))
        return [cipher.open_digest(each, found[each]) if each in found else None for each in stored]

    async def submissions(self, round_: Round) -> int:
        return await self._read(lambda connection: tables.held(connection, round_))

    async def tally(self, task_id: bytes, number: int) -> Mapping[str, int]:
        """Return refusals by reason, and retries, of a round (or of a task, with number -1)."""
        # A server whose disk is full still shows what it has; the counts wait meanwhile, and are shown.
        with contextlib.suppress(StoreError):
            await self._writer.flush()
        stored = await self._read(lambda connection: tables.tally(connection, task_id, number))
        return Counter(stored) + self._writer.counted((task_id, number))

    async def insert(
        self, round_: Round, submissions: Sequence[Opened], unopenable: int = 0, most: int | None = None
    ) -> list[InsertOutcome]:
        """Store submissions, each by itself; count those that are not new, and those that did not open."""
        return await self._writer.insert(PendingInsert(round_, submissions, unopenable, most))

    # Counting

    def count(self, task_id: bytes, number: int, names: Mapping[str, int]) -> None:
        """Count refusals, to be written with the next transaction: a kill loses at most those since the last one."""
        # Only rounds that began have counts of their own: invented numbers must not fill the store.
        begun = (task_id, number) in self._begun
        first = self._writer.count({(task_id, number if begun else ANY_ROUND): Counter(names)})
        if first and (self._counting is None or self._counting.done()):
            self._counting = asyncio.get_running_loop().create_task(self._write_counts())

    async def _write_counts(self) -> None:
        # Counts that could not be written wait for the next transaction.
        with contextlib.suppress(StoreError):
            await self._writer.flush()
