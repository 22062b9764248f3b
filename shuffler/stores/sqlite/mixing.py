"""Permuted lists are staged in steps between the commits of other rounds, and adopted in one short transaction.

While something is written nothing else is, so 10⁷ envelopes in one transaction kept every acknowledgement waiting for
them. No step writes more than about `STEP_BYTES`:

- *Staged.* The work runs in a thread of its own. It reads what arrived in short reads, which nothing changes after the
  cut, and its blocks become rows of `released` a step at a time. Such rows of a round that is CUT are no list yet: they
  are what a try that failed or was killed has left, and are deleted before the next one begins, and with the round.
- *Adopted.* One transaction stores records, release and charges, destroys the private key and says MIXED. This is all
  that must hold together: before it the round is CUT and nothing was charged, after it nobody mixes it again.
- *Swept.* What arrived is deleted in steps, and the log cut. The order in which envelopes came tells what the permuted
  lists hide, so no batch is given out before. A kill in between leaves rows of `arrived` of a round that is MIXED: they
  are deleted before its batches are asked for, or with the round.
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
    """Reads with a connection that nobody else uses meanwhile; raises `StoreError` where that cannot be."""

    def __call__(self, work: Callable[[], T], /) -> T:
        """Return what the work returns."""


Write = Callable[[Callable[[StoreTransaction], None]], "Future[None]"]
"""Has something written, and says when it is on disk; for a thread that is not the event loop's."""


class Mixer:
    """Mixes the rounds of one store, one after the other: a list may take all the memory that there is for it."""

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
            # The round is mixed, which is what was asked for; its batches are not given out before this is done.
            _LOG.warning("what a mixed round's lists were made of is still to be deleted: %s", error)
        return current

    async def _try(self, round_: Round, work: Callable[[RoundContents], None], charges: Charges) -> Round:
        """Have a round's lists staged and adopted; return the round, which is CUT where that has to be done anew."""
        await self.delete("released", round_)
        write = functools.partial(self._writer.submit_from, asyncio.get_running_loop())
        staging = Staging(round_, self._database, self._read, write)
        staged = asyncio.ensure_future(asyncio.to_thread(staging.done, work))
        try:
            await asyncio.shield(staged)
            return await self._writer.submit(lambda transaction: staging.adopt(transaction, charges))
        except asyncio.CancelledError:
            # The files are closed next, so the thread must be over. What it stopped with was asked for.
            staging.stop()
            await asyncio.gather(staged, return_exceptions=True)
            raise
        except Exception:
            # A disk that was too full for the list has room for submissions again.
            with contextlib.suppress(StoreError):
                await self.delete("released", round_)
                while await self._writer.submit_bare(lambda _transaction: self._database.shrink()):
                    pass
            raise

    async def sweep(self, round_: Round) -> None:
        """Leave nothing of what a mixed round's lists were made of.

        Raises:
            StoreError: if it could not be deleted; it may be called again.
        """
        if round_.key not in self._snapshot.unswept:
            return
        await self.delete("arrived", round_)
        try:
            await self._writer.submit_bare(lambda _transaction: self._database.cut_log())
        except StoreError as error:
            # Erasing the round, which comes next, insists on cutting the log.
            _LOG.warning("the log still holds the key of a round that was mixed: %s", error)
        self._snapshot.unswept.discard(round_.key)

    async def delete(self, table: tables.Table, round_: Round) -> None:
        """Delete what a table holds of a round, in steps."""
        while await self._writer.submit(lambda transaction: tables.delete_some(transaction.connection, table, round_)):
            pass


class Staging:
    """A try at mixing a cut round (`mix.RoundContents`).

    What its work stored, of which nothing counts until it is adopted.

    Used by the thread of the work, and by others only after it.
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

    # What the work calls

    def arrived(self) -> Iterator[bytes]:
        """Blocks of submissions as they came."""
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
        """Where the round stands among the releases of its task, if none comes before it is adopted."""
        self._position = self._read(lambda: ChainPosition(*last_of(self._database.reader, self._round.task_id)))
        return self._position

    def put_release(self, release: Release) -> None:
        """Keep the round's release until it is adopted."""
        self._releases.append(release)

    # What the store calls

    def stop(self) -> None:
        """Have the work fail at its next step; for any thread."""
        self._stopped = True

    def done(self, work: Callable[[Staging], None]) -> None:
        """Do the work; return when all that it staged is on disk."""
        try:
            work(self)
            self._stage()
        finally:
            # Also where the work failed: what is still being written must not come after its deletion.
            self._wait()

    def adopt(self, transaction: StoreTransaction, charges: Charges) -> Round:
        """Make the round MIXED with what was staged, in one transaction; return it as it is then.

        It stays CUT, and nothing is done, where another round took its position among the task's releases.

        Raises:
            LedgerMoved: where the charges do not follow the task's last; nothing was done.
        """
        current = transaction.current(self._round)
        if current.state is not RoundState.CUT:
            return current
        # First: a job that fails alone must not have written anything.
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
        """Have what was gathered written while the work goes on; one step at a time is on its way."""
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
