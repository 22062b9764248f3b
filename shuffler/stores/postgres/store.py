"""The store on PostgreSQL: what it acknowledged is committed on the server's disk and in the keyring's file.

A change of both has an order in which it can be repeated. Keys are in the keyring before the database refers to them,
and are destroyed there before the database records that a round is erased. Decisions use the rows of rounds, which are
locked while they change, so several processes may use one database.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import psycopg

from hubbub.protos.errors import SignatureError
from hubbub.protos.messages import RoundState
from hubbub.protos.records.release_chain import Release
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.schedule import Close
from hubbub.service.errors import damaged
from hubbub.service.ledger.charges import Charges
from hubbub.service.ledger.ledgers import check_ledgers
from hubbub.service.ledger.release_chain import check_chains
from hubbub.service.observability.incidents import Incidents
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.postgres import ledger
from hubbub.service.postgres.binding import bind
from hubbub.service.postgres.kept_feed import DatabaseFeed
from hubbub.service.postgres.schema import bring_forward
from hubbub.service.postgres.sessions import Connection, Sessions, lock
from hubbub.shuffler.keys import RoundKeyMaterial
from hubbub.shuffler.mix.mix import RoundContents
from hubbub.shuffler.records import (
    RETRIED,
    Round,
    RoundId,
    StoredBatch,
    StoreError,
    is_over,
)
from hubbub.shuffler.stores.postgres import tables
from hubbub.shuffler.stores.postgres.enrollment import EnrollmentStore
from hubbub.shuffler.stores.postgres.inserts import ROUND_LOCK
from hubbub.shuffler.stores.postgres.keyring import ShufflerKeyring
from hubbub.shuffler.stores.postgres.replication.leadership import Lease
from hubbub.shuffler.stores.postgres.replication.replication import KeyringLeader
from hubbub.shuffler.stores.postgres.replication.secret_server import SecretServer
from hubbub.shuffler.stores.postgres.schema import SCHEMA

T = TypeVar("T")

_TASK_LOCK = "task"
"""The kind of lock under which a task's ledger and chain grow."""

_LOG = logging.getLogger(__name__)


class ShufflerPostgresStore(EnrollmentStore):
    """The store (`shuffler.stores.protocol.ShufflerStore`) in a database, with its keyring.

    A database has one keyring. Several stores of one process may share it.
    """

    def __init__(
        self,
        keyring: ShufflerKeyring,
        address: str,
        observe: Observe = unobserved,
        *,
        connection: type[Connection] = psycopg.Connection,
        incidents: Incidents | None = None,
        keeps: bool = True,
        lease: Lease | None = None,
    ) -> None:
        """Open the store in a database; `observe` gets the seconds of each transaction.

        `incidents` gets the server's failures; `connection` is the class of the connections to it. If the store `keeps`
        its keyring, the keyring is closed with it. With a `lease`, nothing is changed after another leader has taken
        over, and closing the store ends the lease.

        Raises:
            StoreError: if the server cannot be used, a newer version wrote the database, or it has another keyring.
                Also if a task's ledger or releases are not valid. The keyring is closed then.
        """
        self._keeps = keeps
        self._lease = lease
        self.standbys: KeyringLeader | None = None
        with contextlib.ExitStack() as opened:
            if keeps:
                opened.callback(keyring.close)
            bring_forward(address, SCHEMA)
            check = None if lease is None else lease.check
            sessions = Sessions(address, SCHEMA.name, observe, connection=connection, incidents=incidents, check=check)
            opened.callback(sessions.close)
            if lease is not None:
                lease.ask_before_telling(sessions.is_away)
            begun = self._checked(keyring, sessions)
            opened.pop_all()
        super().__init__(keyring, sessions)
        self._begun = begun
        self.secret_server = SecretServer(self, self.secrets_of)
        self.kept_feed = DatabaseFeed(sessions)

    def _checked(self, keyring: ShufflerKeyring, sessions: Sessions) -> set[RoundId]:
        """Check the content of the database, and finish the work of a killed process; return the rounds that began."""
        sessions.change(lambda connection: bind(connection, keyring, sessions.address))
        try:
            found = sessions.read(_checked_rounds)
        except (ValueError, TypeError, LookupError, AttributeError, SignatureError) as error:
            raise damaged(error) from error
        if self._keeps:
            keyring.accept()
        for round_ in found:
            key = (round_.task_id, round_.number)
            secrets = keyring.of(key)
            if round_.state in (RoundState.MIXED, RoundState.RELEASED) and secrets.private_key:
                keyring.destroy_private(key)
            if is_over(round_) and secrets.cipher is not None:
                keyring.destroy(key)
        return {(round_.task_id, round_.number) for round_ in found}

    @property
    def folder(self) -> Path:
        """The keyring's folder."""
        return self._keyring.folder

    def close(self) -> None:
        """Write waiting changes, and close the connections."""
        if self.standbys is not None:
            self.standbys.close()
        self._stop()
        if self._keeps:
            self._keyring.close()
        # Last, so that the next leader finds everything written, and the keyring free.
        if self._lease is not None:
            self._lease.close()

    def follow(self, standbys: int) -> None:
        """Let copies replicate the keyring; that many `standbys` must have each change before it is answered."""
        self.standbys = KeyringLeader(self._keyring, self._sessions, standbys)

    async def _enrolled(self, work: Callable[[sqlite3.Connection], T], *, everywhere: bool = True) -> T:
        # In a transaction of the database, though it changes nothing there: so a replaced leader changes nothing.
        return await self._change(lambda _connection: self._keyring.change(work, everywhere=everywhere))

    async def _change(self, work: Callable[[Connection], T]) -> T:
        return await self._in_thread(lambda: self._sessions.change(work))

    def _whole(self, round_: Round) -> Round:
        """Return a round with its keys; see `tables.with_secrets`."""
        return tables.with_secrets(round_, self._keyring.of((round_.task_id, round_.number)))

    # Reading

    async def find(self, task_id: bytes, number: int) -> Round | None:
        found = await self._read(lambda connection: tables.find(connection, task_id, number))
        if found is None:
            return None
        self._begun.add((task_id, number))
        return self._whole(found)

    async def rounds(self) -> list[Round]:
        return [self._whole(round_) for round_ in await self._read(tables.rounds)]

    async def charges(self, task_id: bytes) -> Charges:
        return await self._read(lambda connection: ledger.charges_of(connection, task_id))

    async def releases(self, task_id: bytes) -> Sequence[Release]:
        """Return a task's releases, oldest first."""
        return await self._read(lambda connection: ledger.releases_of(connection, task_id))

    # A round's life

    async def add_round(self, task_id: bytes, number: int) -> Round:
        """Begin a round; a round that began already is returned unchanged."""

        def work(connection: Connection) -> Round:
            made = tables.insert_round(connection, task_id, number)
            if made is not None:
                self._keyring.begin((task_id, number))
                return made
            found = tables.find(connection, task_id, number)
            if found is None:
                raise StoreError(
                    f"round {number} began but is missing in the database, which may be an old copy; restore the "
                    "newest copy"
                )
            return found

        found = await self.find(task_id, number)
        if found is not None:
            return found
        round_ = await self._change(work)
        self._begun.add((task_id, number))
        return self._whole(round_)

    async def install(self, round_: Round, keys: RoundKeyMaterial) -> Round:
        """Give a round its keys, for good."""

        def work(connection: Connection) -> Round:
            current = _locked(connection, round_)
            # Devices may have sealed for the first key set already, so a second one never replaces it.
            if current.keys is not None or current.state is not RoundState.OPEN:
                return current
            self._keyring.install((round_.task_id, round_.number), keys.private_key, keys.pseudonym_key)
            tables.update_key_set(connection, current, keys.key_set)
            return replace(current, keys=keys)

        return self._whole(await self._change(work))

    async def cut(self, round_: Round, closed_by: Close, minimum: int) -> Round:
        """Take no more submissions; by the operator only from `minimum` on.

        Raises:
            Refusal: BELOW_MINIMUM if the operator would cut under the minimum.
        """
        await self._writer.flush()

        def work(connection: Connection) -> Round:
            # Exclusively: a transaction that stores in the round has committed by then, or finds it cut.
            lock(connection, ROUND_LOCK, str(round_.key))
            current = _locked(connection, round_)
            if current.state is not RoundState.OPEN:
                return current
            held = tables.held(connection, current)
            if closed_by == "operator" and held < minimum:
                # Without the number: asked often enough, it would reveal when each person submits.
                fewer = f"round {round_.number} has fewer submissions than the minimum of {minimum}"
                raise Refusal(Reason.BELOW_MINIMUM, f"{fewer}; wait for more of them")
            tally = tables.tally(connection, round_.task_id, round_.number)
            refusals = {name: count for name, count in tally.items() if name != RETRIED}
            cut = replace(current, state=RoundState.CUT, submissions=held, closed_by=closed_by)
            cut = replace(cut, refusals_at_cut=refusals)
            tables.update_round(connection, cut)
            return cut

        return self._whole(await self._change(work))

    async def mix(self, round_: Round, work: Callable[[RoundContents], None], charges: Charges = ()) -> Round:
        """Store permuted lists, charge for them, delete their sources, in one transaction; destroy the key."""
        key = (round_.task_id, round_.number)

        def job(connection: Connection) -> Round:
            current = _locked(connection, round_)
            cipher = self._keyring.of(key).cipher
            if current.state is not RoundState.CUT or cipher is None:
                return current
            # The task's ledger and chain: rounds of other tasks are mixed meanwhile.
            lock(connection, _TASK_LOCK, round_.task_id.hex())
            ledger.check_charges(connection, round_.task_id, charges)
            tables.check_ids(connection, current, cipher)
            work(tables.RoundTables(connection, self._whole(current), cipher, self.folder))
            ledger.insert_charges(connection, round_.task_id, charges)
            tables.drop(connection, current, "arrived")
            mixed = replace(current, state=RoundState.MIXED)
            tables.update_round(connection, mixed)
            return mixed

        # In a thread of its own: it takes long, and others must not wait for it.
        mixed = await asyncio.to_thread(lambda: self._sessions.change(job))
        if mixed.state is RoundState.MIXED:
            try:
                await self._in_thread(lambda: self._keyring.destroy_private(key))
            except StoreError as error:
                # The round is mixed, as requested. Erasing it, which comes next, requires this deletion.
                _LOG.warning("the keyring still has the key of a round that was mixed: %s", error)
        return self._whole(mixed)

    async def batches(self, round_: Round) -> list[StoredBatch]:
        """Return a mixed round's batches, in the task's order of queries."""
        return await self._read(lambda connection: tables.batches(connection, round_))

    async def envelopes(self, round_: Round, query: int, offset: int, width: int) -> list[bytes]:
        cipher = self._keyring.of((round_.task_id, round_.number)).cipher
        if cipher is None:
            return []
        return await self._read(lambda connection: tables.envelopes(connection, round_, cipher, query, offset, width))

    async def commit_batch(self, round_: Round, query: int) -> Round:
        def work(connection: Connection) -> Round:
            current = _locked(connection, round_)
            left = tables.commit_batch(connection, current, query)
            if left or current.state is not RoundState.MIXED:
                return current
            released = replace(current, state=RoundState.RELEASED)
            tables.update_round(connection, released)
            return released

        return self._whole(await self._change(work))

    async def erase(self, round_: Round, final: RoundState, reason: str = "") -> Round:
        """Destroy the round's keys, then drop its tables and set its final state and reason in one transaction.

        A kill in between leaves the earlier state, without readable data, and everything is repeated.
        """

        def work(connection: Connection) -> Round:
            # Exclusively, and first: a transaction that stores in the round has committed, or finds its keys destroyed.
            lock(connection, ROUND_LOCK, str(round_.key))
            current = _locked(connection, round_)
            # In any state: keys that are still in the keyring must be gone before this is answered.
            self._keyring.destroy((round_.task_id, round_.number))
            if is_over(current):
                return current
            tables.drop(connection, current, "ids", "arrived", "released")
            erased = replace(current, state=final, reason=reason)
            tables.update_round(connection, erased)
            return erased

        return self._whole(await self._change(work))


def _locked(connection: Connection, round_: Round) -> Round:
    found = tables.find(connection, round_.task_id, round_.number, locked=True)
    if found is None:
        raise StoreError(
            f"the database has no round {round_.number} of task {round_.task_id.hex()}; it may be an old copy: "
            "restore the newest copy"
        )
    return found


def _checked_rounds(connection: Connection) -> list[Round]:
    check_ledgers("shuffler", ledger.charges(connection), tables.batches_by_round(connection))
    check_chains("shuffler", ledger.releases(connection), tables.all_records(connection), own=True)
    return tables.rounds(connection)
