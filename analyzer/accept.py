"""Accept: take batches from the shuffler. Every call may be made again; what was acknowledged is on disk."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool

import structlog

from hubbub.analyzer.open import Opening, open_batch
from hubbub.analyzer.store import Store
from hubbub.analyzer.tables import Charge, StoredBatch, StoredKey, Tables
from hubbub.analyzer.tasks import Tasks
from hubbub.analyzer.workers import Job, Workers
from hubbub.protos.batch import BatchId, BatchRecord
from hubbub.protos.envelope import INNER_BYTES, Destination, generate_key
from hubbub.protos.errors import HubbubError, KeyRecordError, SignatureError
from hubbub.protos.keys import Identity, KeySet, Role
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.signed import Label, SignedDocument
from hubbub.protos.task import Task
from hubbub.service.keys import NewKey, make_key

RETRY_SECONDS = 2.0
"""When to ask again after the processes that open envelopes were killed."""

_LOG = structlog.get_logger(__name__)


class Acceptor:
    """The delivery service, for batches signed by `shuffler` (its identity, 32 bytes).

    `committed` is called after the counts of a batch are on disk.
    """

    def __init__(
        self,
        tasks: Tasks,
        identity: Identity,
        shuffler: bytes,
        store: Store,
        workers: Workers,
        *,
        committed: Callable[[], None] = lambda: None,
        new_key: NewKey = generate_key,
    ) -> None:
        self._tasks = tasks
        self._identity = identity
        self._shuffler = shuffler
        self._store = store
        self._workers = workers
        self._committed = committed
        self._new_key = new_key
        self._commits: dict[BatchId, asyncio.Task[Committed]] = {}
        self._charging = asyncio.Lock()
        self._loading: asyncio.Task[None] | None = None

    async def get_key(self, task_id: bytes, round_number: int) -> SignedDocument:
        """Return the key record of a round, made at the first call; the same record each time.

        Raises:
            Refusal: ERASED once the key was destroyed.
        """
        task = self._task(task_id, round_number)
        stored = await self._store.run(lambda tables: self._ensure_key(tables, task, round_number))
        if stored.private is None:
            raise _erased(task, round_number)
        return stored.record

    async def begin(self, record: SignedDocument, key_set: KeySet) -> int:
        """Take a batch's announcement, checked, and return the offset to go on from.

        Raises:
            Refusal: BAD_RECORD, KEY_SET_DIFFERS, BELOW_MINIMUM, DIGEST_DIFFERS, ERASED, OVER_BUDGET.
        """
        read = _read_record(record, self._shuffler)
        task = self._task(read.batch.task_id, read.batch.round)
        _check_record(task, read)
        _check_key_set(task, read, key_set)
        if task.privacy.epsilon_total is not None:
            async with self._charging:
                await self._charges(task, read.batch.round)
        offset = await self._store.run(lambda tables: _announce(tables, task, read, record, key_set))
        if offset < read.envelopes:
            self._workers.warm_up(read.envelopes)
            self._loading = asyncio.create_task(asyncio.to_thread(_load_accountant))
        _LOG.info("batch announced", **_names(task, read.batch), reports=read.reports, offset=offset)
        return offset

    async def put(self, stretch: Envelopes) -> int:
        """Store a stretch and return the offset to go on from. A stretch that repeats what is stored changes nothing.

        Raises:
            Refusal: WRONG_OFFSET where it leaves a gap or goes beyond the batch, DIGEST_DIFFERS where it says otherwise
                than what is stored, INCOMPLETE where the batch was not announced.
        """
        self._task(stretch.batch.task_id, stretch.batch.round)
        return await self._store.run(lambda tables: _append(tables, stretch))

    async def commit(self, batch: BatchId, digest: bytes) -> Committed:
        """Open, count and commit a batch; return the counts. Calls that come together wait for the same work.

        Raises:
            Refusal: INCOMPLETE before all has arrived, DIGEST_DIFFERS where the digest is not the record's, BAD_RECORD
                where it holds fewer good dummies than it says, OVER_BUDGET.
        """
        task = self._task(batch.task_id, batch.round)
        _check_digest(digest, await self._announced(batch))
        work = self._commits.get(batch)
        if work is None:
            work = asyncio.create_task(self._commit(task, batch))
            self._commits[batch] = work
            work.add_done_callback(lambda done: self._forget(batch, done))
        # A caller that gives up does not stop the work: it asks again.
        return await asyncio.shield(work)

    def _forget(self, batch: BatchId, work: asyncio.Task[Committed]) -> None:
        del self._commits[batch]
        if not work.cancelled() and work.exception() is not None:
            _LOG.warning("commit failed", query=batch.query, round=batch.round, error=str(work.exception()))

    async def _announced(self, batch: BatchId) -> StoredBatch:
        return await self._store.run(lambda tables: _known(tables, batch))

    async def _commit(self, task: Task, batch: BatchId) -> Committed:
        stored = await self._announced(batch)
        if stored.committed is not None:
            return stored.committed
        if stored.next_offset < stored.envelopes:
            raise Refusal(
                Reason.INCOMPLETE, f"{stored.next_offset} of {stored.envelopes} envelopes arrived; put the others first"
            )
        started = time.monotonic()
        opening = await self._open(task, stored)
        committed = Committed(_valid_reports(stored, opening), opening.left_out)
        counts = opening.counts.astype("<i8").tobytes()
        async with self._charging:
            charges = await self._charges(task, batch.round)
            await self._store.run(lambda tables: tables.commit(stored, counts, committed, charges))
        seconds = round(time.monotonic() - started, 3)
        _LOG.info("batch committed", **_names(task, batch), counted=committed.counted, seconds=seconds)
        self._committed()
        return committed

    async def _charges(self, task: Task, round_number: int) -> list[Charge]:
        """Return what the round adds to the task's ledger; one that would pass the budget is abandoned and refused."""
        standing = await self._store.run(lambda tables: tables.charges(task.id))
        try:
            return await asyncio.to_thread(_new_charges, task, round_number, standing)
        except Refusal:
            await self._store.run(lambda tables: tables.abandon(task.id, round_number))
            raise

    async def _open(self, task: Task, stored: StoredBatch) -> Opening:
        key = await self._store.run(lambda tables: tables.key(stored.id.task_id, stored.id.round))
        if key is None or key.private is None or key.key_set_hash is None:
            raise _erased(task, stored.id.round)
        destination = Destination(stored.id.task_id, stored.id.round, key.key_set_hash)
        job = Job(destination, key.private, stored.id.query)
        try:
            return await asyncio.to_thread(self._count, job, stored, task.queries[stored.id.query].symbols)
        except BrokenProcessPool as error:
            message = "the processes that open envelopes were stopped; commit again"
            raise Refusal(Reason.NOT_READY, message, RETRY_SECONDS) from error

    def _count(self, job: Job, stored: StoredBatch, symbols: int) -> Opening:
        digest = hashlib.sha256(Label.BATCH_DIGEST.value.encode())
        for stretch in self._stretches(stored):
            digest.update(stretch)
        if digest.digest() != stored.digest:
            self._store.wait(lambda tables: tables.drop_envelopes(stored))
            message = "the envelopes that arrived are not those of the batch's record; deliver them again from offset 0"
            raise Refusal(Reason.DIGEST_DIFFERS, message)
        return open_batch(job, lambda: self._stretches(stored), stored.envelopes, symbols, self._workers.open)

    def _stretches(self, stored: StoredBatch) -> Iterator[bytes]:
        offset = 0
        while found := self._store.wait(functools.partial(Tables.stretch, batch=stored, offset=offset)):
            yield found[1]
            offset = found[0] + len(found[1]) // INNER_BYTES

    def _task(self, task_id: bytes, round_number: int) -> Task:
        if task_id not in self._tasks:
            raise Refusal(
                Reason.UNKNOWN_TASK, f"no task {task_id.hex()[:16]}… here; add its file to the analyzer's tasks"
            )
        task = self._tasks[task_id].task
        if not 0 <= round_number < task.schedule.rounds:
            raise Refusal(
                Reason.UNKNOWN_ROUND, f"task {task.name} has rounds 0 to {task.schedule.rounds - 1}, not {round_number}"
            )
        return task

    def _ensure_key(self, tables: Tables, task: Task, round_number: int) -> StoredKey:
        stored = tables.key(task.id, round_number)
        if stored is not None:
            return stored
        made = make_key(Role.ANALYZER, task, round_number, self._identity, self._new_key)
        tables.add_key(task.id, round_number, made.private, made.record, made.not_after)
        return StoredKey(made.private, made.record, None)


def _load_accountant() -> None:
    """Have the accountant at hand when a batch is counted: it loads while the envelopes arrive."""
    import hubbub.analyzer.budget
    import hubbub.analyzer.statements  # noqa: F401 - loading is all


def _new_charges(task: Task, round_number: int, standing: list[Charge]) -> list[Charge]:
    # The accountant brings scipy, which would double the service's start-up time; batches come later.
    from hubbub.analyzer.budget import charges_for

    return charges_for(task, round_number, standing)


def _valid_reports(stored: StoredBatch, opening: Opening) -> int:
    """How many reports of devices are counted: all dummies are good, or the shuffler's record is not true."""
    if opening.valid < stored.dummies:
        message = f"{opening.valid} envelopes are good, the record says that {stored.dummies} of them are dummies"
        raise Refusal(Reason.BAD_RECORD, f"{message}; a shuffler's own always are")
    return opening.valid - stored.dummies


def _names(task: Task, batch: BatchId) -> dict[str, object]:
    return {"task": task.name, "round": batch.round, "query": task.queries[batch.query].name}


def _erased(task: Task, round_number: int) -> Refusal:
    return Refusal(
        Reason.ERASED,
        f"round {round_number} of task {task.name} is over; its key was destroyed and nothing opens any more",
    )


def _check_digest(digest: bytes, stored: StoredBatch) -> None:
    if digest != stored.digest:
        raise Refusal(Reason.DIGEST_DIFFERS, "this batch was announced with another digest; a batch is released once")


def _read_record(document: SignedDocument, shuffler: bytes) -> BatchRecord:
    try:
        return BatchRecord.read(document, shuffler)
    except SignatureError as error:
        raise Refusal(Reason.BAD_RECORD, str(error)) from error


def _check_record(task: Task, record: BatchRecord) -> None:
    if record.batch.query >= len(task.queries):
        last = len(task.queries) - 1
        raise Refusal(Reason.BAD_RECORD, f"task {task.name} has queries 0 to {last}, not {record.batch.query}")
    if record.closed_by == "operator" and task.schedule.close != "operator":
        raise Refusal(Reason.BAD_RECORD, f"rounds of task {task.name} are closed by the schedule, not by the operator")
    if record.reports < task.minimum_reports:
        limits = f"{record.reports} reports, the minimum of task {task.name} is {task.minimum_reports}"
        raise Refusal(Reason.BELOW_MINIMUM, f"{limits}; such a round expires and is not released")
    if record.dummies != task.privacy.dummies:
        wanted = f"{record.dummies} dummies, task {task.name} has {task.privacy.dummies} in every batch"
        raise Refusal(Reason.BAD_RECORD, f"{wanted}; a batch is counted with exactly those")


def _check_key_set(task: Task, record: BatchRecord, key_set: KeySet) -> None:
    identities = task.identities
    try:
        key_set.read(task.id, record.batch.round, task.suite, identities.shuffler, identities.analyzer)
    except (SignatureError, KeyRecordError) as error:
        raise Refusal(Reason.BAD_RECORD, f"the key set does not hold: {error}") from error
    if record.key_set_hash != key_set.hash:
        raise Refusal(Reason.KEY_SET_DIFFERS, "the batch record names another key set than the one that came with it")


def _announce(tables: Tables, task: Task, record: BatchRecord, document: SignedDocument, key_set: KeySet) -> int:
    known = tables.batch(record.batch)
    if known is not None and known.record.body != document.body:
        message = f"batch {_names(task, record.batch)} was announced with another record; a batch is released once"
        raise Refusal(Reason.DIGEST_DIFFERS, message)
    if known is not None and known.committed is not None:
        return known.envelopes
    _check_keys(tables, task, record, key_set)
    if known is not None:
        return known.next_offset
    for other in tables.batches(task.id, record.batch.round):
        _check_same_round(record, BatchRecord.read(other.record, task.identities.shuffler))
    tables.bind_key_set(task.id, record.batch.round, key_set.hash)
    tables.add_batch(record, document)
    return 0


def _check_keys(tables: Tables, task: Task, record: BatchRecord, key_set: KeySet) -> None:
    key = tables.key(task.id, record.batch.round)
    if key is None or key.record != key_set.analyzer:
        raise Refusal(Reason.KEY_SET_DIFFERS, "the key set's analyzer record is not the one this analyzer gave out")
    if key.key_set_hash not in (None, key_set.hash):
        message = "another batch of this round came with another key set; a round has exactly one"
        raise Refusal(Reason.KEY_SET_DIFFERS, message)
    if key.private is None:
        raise _erased(task, record.batch.round)


def _check_same_round(record: BatchRecord, other: BatchRecord) -> None:
    """Every device answers every query, so all batches of a round say the same of the round."""
    for name in ("reports", "closed_by", "refusals"):
        mine, theirs = getattr(record, name), getattr(other, name)
        if mine != theirs:
            message = (
                f"{name} is {mine!r} here and {theirs!r} in the batch of query {other.batch.query} of the same round"
            )
            raise Refusal(Reason.BAD_RECORD, message)


def _known(tables: Tables, batch: BatchId) -> StoredBatch:
    stored = tables.batch(batch)
    if stored is None:
        raise Refusal(Reason.INCOMPLETE, "this batch was not announced; begin its delivery first")
    return stored


def _append(tables: Tables, stretch: Envelopes) -> int:
    stored, count = _known(tables, stretch.batch), len(stretch.envelopes)
    if stretch.offset > stored.next_offset or stretch.offset + count > stored.envelopes:
        message = f"envelopes {stretch.offset} to {stretch.offset + count} of {stored.envelopes}"
        raise Refusal(Reason.WRONG_OFFSET, f"{message}; go on from {stored.next_offset}")
    if stored.committed is not None:
        return stored.envelopes
    repeated = min(count, stored.next_offset - stretch.offset)
    _check_repetition(tables, stored, stretch.offset, b"".join(stretch.envelopes[:repeated]))
    if repeated < count:
        tables.append(stored, b"".join(stretch.envelopes[repeated:]), count - repeated)
    return stored.next_offset + count - repeated


def _check_repetition(tables: Tables, stored: StoredBatch, offset: int, envelopes: bytes) -> None:
    while envelopes:
        found = tables.stretch(stored, offset)
        if found is None:
            raise HubbubError(f"the store lacks envelope {offset} of a batch; it was damaged")
        known = found[1][(offset - found[0]) * INNER_BYTES :][: len(envelopes)]
        if known != envelopes[: len(known)]:
            message = f"another envelope than before at {offset} or after; a batch is released once"
            raise Refusal(Reason.DIGEST_DIFFERS, message)
        envelopes = envelopes[len(known) :]
        offset += len(known) // INNER_BYTES
