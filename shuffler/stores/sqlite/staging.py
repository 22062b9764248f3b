"""Stages permuted lists in steps between the commits of other rounds, and adopts them in one short transaction.

During a write no other write runs, so 10⁷ envelopes in one transaction would delay every acknowledgement. No step
writes more than about `STEP_BYTES`:

- *Staged.* The work runs in a thread of its own. It reads the arrived submissions in short reads; nothing changes them
  after the cut. Its blocks become rows of `released`, a step at a time. Such rows of a CUT round are no list yet: they
  come from a try that failed or was killed, and are deleted before the next one begins, and with the round.
- *Adopted.* One transaction stores records, release and charges, destroys the private key and sets the state MIXED. All
  of this must be atomic: before it the round is CUT and nothing was charged, and after it the round is never mixed
  again.
- *Swept.* The arrived submissions are deleted in steps, and the log is cut. Their order reveals what the permuted lists
  hide, so no batch is returned before. A kill in between leaves rows of `arrived` of a MIXED round: they are deleted
  before its batches are returned, or with the round.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol, TypeVar

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.messages import RoundState
from hubbub.protos.records.release_chain import ChainPosition, Release
from hubbub.service.errors import StoreError
from hubbub.service.ledger.charges import Charges
from hubbub.service.sqlite.database import Database
from hubbub.service.sqlite.group_commit import GroupCommit
from hubbub.service.sqlite.release_table import insert_releases, last_of
from hubbub.shuffler.mix.mix import RoundContents
from hubbub.shuffler.records import Round
from hubbub.shuffler.stores.sqlite import tables
from hubbub.shuffler.stores.sqlite.snapshot import Snapshot
from hubbub.shuffler.stores.sqlite.tables import STEP_BYTES
from hubbub.shuffler.stores.sqlite.transaction import StoreTransaction

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


class Read(Protocol):
    """Reads with a connection that no other thread uses meanwhile; raises `StoreError` if the read fails."""

    def __call__(self, work: Callable[[], T], /) -> T:
        """Return the result of the work."""


Write = Callable[[Callable[[StoreTransaction], None]], "Future[None]"]
"""Submits a write; the future is done when it is on disk. For threads other than the event loop's."""


class Mixer:
    """Mixes the rounds of one store, one after the other: a list may take all of the memory for mixing."""

    def __init__(
        self, writer: GroupCommit[StoreTransaction], database: Database, snapshot: Snapshot, read: Read
    ) -> None:
        self._writer = writer
        self._database = database
        self._snapshot = snapshot
        self._read = read
        self._alone = asyncio.Lock()

    async def mix(self, round_: Round, work: Callable[[RoundContents], None], charges: Charges) -> Round:
        """Make a CUT round MIXED; see `shuffler.stores.protocol.ShufflerStore.mix`."""

        def begin(transaction: StoreTransaction) -> Round:
            current = transaction.current(round_)
            if current.state is RoundState.CUT:
                transaction.check_charges(current, charges)
            return current

        async with self._alone:
            current = await self._writer.submit(begin)
            while current.state is RoundState.CUT:
                current = await self._try(current, work, charges)
        try:
            await self.sweep(current)
        except StoreError as error:
            # The round is mixed, as requested; its batches are not returned before this deletion is done.
            _LOG.warning("what a mixed round's lists were made of is still to be deleted: %s", error)
        return current

    async def _try(self, round_: Round, work: Callable[[RoundContents], None], charges: Charges) -> Round:
        """Stage and adopt a round's lists; return the round, still CUT if this has to be repeated."""
        await self.delete("released", round_)
        write = functools.partial(self._writer.submit_from, asyncio.get_running_loop())
        staging = Staging(round_, self._database, self._read, write)
        staged = asyncio.ensure_future(asyncio.to_thread(staging.done, work))
        try:
            await asyncio.shield(staged)
            return await self._writer.submit(lambda transaction: staging.adopt(transaction, charges))
        except asyncio.CancelledError:
            # The files are closed next, so the thread must be over. Its error is expected.
            staging.stop()
            await asyncio.gather(staged, return_exceptions=True)
            raise
        except Exception:
            # If the disk was too full for the list, it then has room for submissions again.
            with contextlib.suppress(StoreError):
                await self.delete("released", round_)
                while await self._writer.submit_bare(lambda _transaction: self._database.shrink()):
                    pass
            raise

    async def sweep(self, round_: Round) -> None:
        """Delete the sources of a mixed round's lists.

        Raises:
            StoreError: if it could not be deleted; it may be called again.
        """
        if round_.key not in self._snapshot.unswept:
            return
        await self.delete("arrived", round_)
        try:
            await self._writer.submit_bare(lambda _transaction: self._database.cut_log())
        except StoreError as error:
            # Erasing the round, which comes next, requires that the log is cut.
            _LOG.warning("the log still has the key of a round that was mixed: %s", error)
        self._snapshot.unswept.discard(round_.key)

    async def delete(self, table: tables.Table, round_: Round) -> None:
        """Delete a round's rows of a table, in steps."""
        while await self._writer.submit(lambda transaction: tables.delete_some(transaction.connection, table, round_)):
            pass


class Staging:
    """One try at mixing a cut round (`mix.mix.RoundContents`).

    Nothing that its work stores counts until it is adopted.

    Used by the thread of the work, and by other threads only after it.
    """

    def __init__(self, round_: Round, database: Database, read: Read, write: Write) -> None:
        self.folder: Path = database.path.parent
        self._round = round_
        self._database = database
        self._read = read
        self._write = write
        self._blocks: list[tuple[int, bytes]] = []
        self._bytes = 0
        self._writing: Future[None] | None = None
        self._batches: list[tuple[int, bytes, SignedDocument]] = []
        self._position: ChainPosition | None = None
        self._releases: list[Release] = []
        self._stopped = False

    # Called by the work

    def arrived(self) -> Iterator[bytes]:
        """Yield blocks of submissions as they came."""
        after = -1
        while rows := self._read_after(after):
            yield from (inners for _, inners in rows)
            after = rows[-1][0]

    def _read_after(self, after: int) -> list[tuple[int, bytes]]:
        self._go_on()
        return self._read(lambda: tables.arrived(self._database.reader, self._round, after))

    def put_released(self, query: int, block: int, envelopes: bytes) -> None:
        """Stage one block of a permuted list."""
        self._go_on()
        self._blocks.append((tables.block_key(self._round, query, block), envelopes))
        self._bytes += len(envelopes)
        if self._bytes >= STEP_BYTES:
            self._stage()

    def put_batch(self, query: int, digest: bytes, record: SignedDocument) -> None:
        """Keep a permuted list's digest and signed record until the round is adopted."""
        self._batches.append((query, digest, record))

    def position(self) -> ChainPosition:
        """Return the round's position among its task's releases, valid if no other is stored before it is adopted."""
        self._position = self._read(lambda: ChainPosition(*last_of(self._database.reader, self._round.task_id)))
        return self._position

    def put_release(self, release: Release) -> None:
        """Keep the round's release until it is adopted."""
        self._releases.append(release)

    # Called by the store

    def stop(self) -> None:
        """Make the work fail at its next step; callable from any thread."""
        self._stopped = True

    def done(self, work: Callable[[Staging], None]) -> None:
        """Do the work; return when everything that it staged is on disk."""
        try:
            work(self)
            self._stage()
        finally:
            # Even if the work failed: a write in progress must not come after its deletion.
            self._wait()

    def adopt(self, transaction: StoreTransaction, charges: Charges) -> Round:
        """Make the round MIXED with the staged lists, in one transaction; return it as it is then.

        If another round took its position among the task's releases, it stays CUT and nothing is done.

        Raises:
            LedgerMoved: if the charges do not follow the task's last one; then nothing was done.
        """
        current = transaction.current(self._round)
        if current.state is not RoundState.CUT:
            return current
        # First: only a job that has written nothing may fail alone.
        transaction.check_charges(current, charges)
        if self._position not in (None, ChainPosition(*last_of(transaction.connection, current.task_id))):
            return current
        for query, digest, record in self._batches:
            tables.insert_batch(transaction.connection, current, query, digest, record)
        insert_releases(transaction.connection, current.task_id, self._releases)
        transaction.charge(current, charges)
        return transaction.write_mixed(current)

    # Steps

    def _stage(self) -> None:
        """Submit the gathered blocks, while the work goes on; one step at a time is in progress."""
        self._wait()
        blocks, self._blocks, self._bytes = self._blocks, [], 0
        if blocks:
            self._writing = self._write(lambda transaction: tables.insert_released(transaction.connection, blocks))

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _go_on(self) -> None:
        if self._stopped:
            raise StoreError("the service is stopping; the round is mixed at its next start")
