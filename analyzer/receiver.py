"""Receives batches from the shuffler. Every call may be repeated; every acknowledged chunk is on disk."""

from __future__ import annotations

import asyncio
import functools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool

import structlog

from hubbub.analyzer.attestation import attestation
from hubbub.analyzer.opening import OpenedBatch, open_batch
from hubbub.analyzer.records import ReceivedBatch, RoundProgress
from hubbub.analyzer.stores.protocol import AnalyzerStore
from hubbub.analyzer.tasks import Tasks
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Identity, KeySet, Role, behind
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId, left_out_by_hops
from hubbub.protos.records.release_chain import NO_RELEASES, Known, ReleaseChunk
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.sealing.suites import Suite
from hubbub.protos.task.feed.budgets import PurposeSpending
from hubbub.protos.task.task import Task, ended
from hubbub.service.ledger.charges import Charges, LedgerMoved, TaskLocks
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.observability.traces import NO_TRACES, SpanCount, Step, TracedRound, Traces
from hubbub.service.processes.opening_pool import OpeningJob, OpeningPool
from hubbub.service.receiving.key_check import usable_key
from hubbub.service.receiving.receiver import Receiver, erased
from hubbub.service.receiving.record_checks import check_key_set, check_record, check_width, read_record, task_of
from hubbub.service.receiving.round_keys import NewKey, make_key
from hubbub.service.spark.errors import SparkError

RETRY_SECONDS = 2.0
"""Seconds until a caller may ask again after the processes that open envelopes were killed."""

_LOG = structlog.get_logger(__name__)


class BatchReceiver:
    """The delivery service, for batches that the shuffler of a task signed, and after it the task's hops.

    `committed` is called after the counts of a batch are on disk. `spending` gives the spending of the purpose of a
    task, by its id; None if it has none.
    """

    def __init__(
        self,
        tasks: Tasks,
        identity: Identity,
        store: AnalyzerStore,
        opening_pool: OpeningPool,
        *,
        committed: Callable[[], None] = lambda: None,
        new_key: NewKey = Suite.generate_key,
        incidents: Incidents | None = None,
        traces: Traces = NO_TRACES,
        spending: Callable[[bytes], PurposeSpending | None] = lambda _task_id: None,
    ) -> None:
        self._tasks = tasks
        self._spending = spending
        self._identity = identity
        self._store = store
        self._opening_pool = opening_pool
        self._committed = committed
        self._new_key = new_key
        self._traces = traces
        self._locks = TaskLocks()
        self._incidents = incidents or Incidents()
        self._loading: asyncio.Task[None] | None = None
        self.unannounced: set[BatchId] = set()
        """Batches whose announcement the store refused at the last try."""
        self.receiver: Receiver[ReceivedBatch] = Receiver(store, self._count, self._incidents)

    async def get_key(self, task_id: bytes, round_number: int) -> SignedDocument:
        """Return the key record of a round, made at the first call; the same record each time.

        Raises:
            Refusal: ERASED once the key was destroyed; TASK_ENDED if the task ended before the round.
        """
        task = self._task(task_id, round_number)
        stored = await self._store.key(task.id, round_number)
        if stored is None:
            # The feed ended the task: the shuffler may not have learned of it, or ignore it.
            if round_number > task.last_round:
                raise ended(task)
            made = make_key(Role.ANALYZER, task, round_number, self._identity, self._new_key)
            # If several keys are made at once, the store keeps one, and that one is given out.
            stored = await self._store.add_key(task.id, round_number, made)
        if stored.private is None:
            raise erased(task, round_number)
        return stored.record

    async def check_keys(self) -> None:
        """Check the keys of all rounds that are not over, so that damage is reported before a batch comes."""
        for progress in await self._store.progress(None):
            found = self._tasks.get(progress.id.task_id)
            if found is None or not progress.has_key:
                continue
            try:
                await usable_key(self._store, found.task, progress.id.round, Role.ANALYZER, self._identity)
            except Refusal as refusal:
                names = {"task": found.task.name, "round": progress.id.round}
                self._incidents.open(
                    ("key", progress.id), IncidentKind.ROUNDS, "a key is damaged", refusal.message, refusal, **names
                )

    async def get_releases(self, task_id: bytes) -> Known:
        """Return the known releases of a task.

        Raises:
            Refusal: UNKNOWN_TASK.
        """
        return await self._store.known(self._task_of(task_id).id)

    async def begin(self, record: SignedDocument, key_set: KeySet, releases: ReleaseChunk = NO_RELEASES) -> int:
        """Take a batch's announcement, checked, and return the offset to go on from.

        Raises:
            Refusal: BAD_RECORD, KEY_SET_DIFFERS, BELOW_MINIMUM, FORKED, INCOMPLETE, DIGEST_DIFFERS, ERASED,
                OVER_BUDGET.
        """
        task = self._task_of(task_of(record))
        read = read_record(record, task, task.identities.hops)
        self._task(task.id, read.batch.round)
        check_record(task, read)
        check_key_set(task, read, key_set)
        if task.privacy.epsilon_total is not None:
            # Checked before the delivery: a round beyond the budget is refused now, not after all of it has arrived.
            async with self._locks.charging(task):
                await self._charges(task, read.batch.round)
        own = behind(key_set.analyzer, len(task.identities.hops))
        try:
            offset = await self.receiver.begin(task, read, record, key_set, own, releases)
        except Refusal as refusal:
            if refusal.reason is Reason.NOT_READY:
                self.unannounced.add(read.batch)
            raise
        self.unannounced.discard(read.batch)
        if offset < read.envelopes:
            self._opening_pool.warm_up(read.envelopes)
            # Kept in an attribute, because the event loop itself refers to its tasks only weakly.
            self._loading = asyncio.create_task(asyncio.to_thread(_load_accountant))
        _LOG.info("batch announced", **_names(task, read.batch), reports=read.reports, offset=offset)
        return offset

    async def put(self, chunk: Envelopes) -> int:
        """Store a chunk and return the offset to go on from. A chunk that repeats what is stored changes nothing.

        Raises:
            Refusal: MALFORMED if its envelopes are not the query's, WRONG_OFFSET if it leaves a gap or is beyond the
                batch, DIGEST_DIFFERS if it differs from the stored envelopes, INCOMPLETE if the batch was not
                announced.
        """
        task = self._task(chunk.batch.task_id, chunk.batch.round)
        check_width(task, chunk, task.counted_bytes)
        return await self.receiver.put(chunk)

    async def commit(self, batch: BatchId, digest: bytes) -> Committed:
        """Open, count and commit a batch; return the counts. Calls that come together wait for the same work.

        Raises:
            Refusal: INCOMPLETE before all has arrived, DIGEST_DIFFERS if the digest is not the record's, BAD_RECORD if
                it has fewer good dummies than its record states, OVER_BUDGET.
        """
        return await self.receiver.commit(self._task(batch.task_id, batch.round), batch, digest)

    async def _count(self, task: Task, stored: ReceivedBatch) -> Committed:
        """Open and count a complete batch; store its counts together with its charges."""
        started = time.monotonic()
        with self._traces.span(Step.DECODE, TracedRound.of(task, stored.id.round, stored.id.query)) as span:
            opening = await self._open(task, stored)
            left_out = Counter(opening.left_out) + Counter(left_out_by_hops(stored.record))
            counted = Committed(_valid_reports(stored, opening), dict(left_out))
            committed = await self._commit(task, stored, opening.tally.counts.astype("<i8").tobytes(), counted)
            stated = {
                SpanCount.REPORTS: stored.reports,
                SpanCount.DUMMIES: stored.dummies,
                SpanCount.COUNTED: committed.counted,
            }
            span.note(stated)
        seconds = round(time.monotonic() - started, 3)
        _LOG.info("batch committed", **_names(task, stored.id), counted=committed.counted, seconds=seconds)
        self._committed()
        return committed

    async def _commit(self, task: Task, stored: ReceivedBatch, counts: bytes, counted: Committed) -> Committed:
        batch, signature = stored.id, attestation(task, stored, counts, counted, self._identity)
        while True:
            async with self._locks.charging(task):
                charges = await self._charges(task, batch.round)
                try:
                    return await self._store.commit(batch, counts, signature, counted, charges)
                except LedgerMoved as error:  # another analyzer on the same store was faster
                    _LOG.info("charging again", **_names(task, batch), error=str(error))

    async def _charges(self, task: Task, round_number: int) -> Charges:
        """Return the round's additions to the task's ledger; a round beyond a budget is abandoned and refused."""
        stored, rounds = await self._store.charges(task.id), await self._store.progress(task.id)
        try:
            charges = await asyncio.to_thread(_new_charges, task, round_number, stored, rounds)
            # A round that is charged already goes on to its results.
            if charges and (spending := self._spending(task.id)) is not None:
                await self._check_purpose(spending)
            return charges
        except Refusal:
            # OVER_BUDGET is final and the shuffler gives the round up, so its envelopes are erased now.
            await self._store.abandon(task.id, round_number)
            raise

    async def _check_purpose(self, spending: PurposeSpending) -> None:
        from hubbub.analyzer.charges import TaskLedger, check_purpose

        tasks = [self._tasks[task_id].task for task_id in spending.tasks if task_id in self._tasks]
        ledgers = [
            TaskLedger(each, await self._store.charges(each.id), await self._store.progress(each.id)) for each in tasks
        ]
        await asyncio.to_thread(check_purpose, spending, ledgers)

    async def _open(self, task: Task, stored: ReceivedBatch) -> OpenedBatch:
        key = await usable_key(self._store, task, stored.id.round, Role.ANALYZER, self._identity)
        if key.private is None or key.key_set_hash is None:
            raise erased(task, stored.id.round)
        destination = Destination(stored.id.task_id, stored.id.round, key.key_set_hash)
        query = stored.id.query
        job = OpeningJob(destination, key.private, query, task.counted_bytes[query], task.suite)
        chunks = functools.partial(self._store.arrived, stored.id)
        randomizer = task.queries[query].randomizer
        try:
            return await asyncio.to_thread(
                open_batch, job, chunks, stored.envelopes, randomizer, self._opening_pool.count
            )
        except BrokenProcessPool as error:
            message = "the processes that open envelopes were stopped; commit again"
            raise Refusal(Reason.NOT_READY, message, RETRY_SECONDS) from error
        except SparkError as error:
            _LOG.warning("a job on Spark failed", **_names(task, stored.id), error=str(error))
            raise Refusal(Reason.NOT_READY, f"{error}; commit again", RETRY_SECONDS) from error

    def _task_of(self, task_id: bytes) -> Task:
        if task_id not in self._tasks:
            raise Refusal(
                Reason.UNKNOWN_TASK,
                f"this analyzer has no task {task_id.hex()[:16]}…; add its file to the analyzer's `tasks`, or its "
                "entry to the analyzer's `feed`",
            )
        return self._tasks[task_id].task

    def _task(self, task_id: bytes, round_number: int) -> Task:
        task = self._task_of(task_id)
        if not 0 <= round_number < task.schedule.rounds:
            raise Refusal(
                Reason.UNKNOWN_ROUND,
                f"task {task.name} has rounds 0 to {task.schedule.rounds - 1}, not {round_number}; install the same "
                "task on both sides",
            )
        return task


def _load_accountant() -> None:
    """Load the accountant while the envelopes arrive, so that it is loaded when a batch is counted."""
    import hubbub.analyzer.certificate_statement
    import hubbub.analyzer.charges  # noqa: F401 - loading is all


def _new_charges(task: Task, round_number: int, stored: Charges, rounds: Sequence[RoundProgress]) -> Charges:
    # Imported late: the accountant loads scipy, which would double the service's start-up time.
    from hubbub.analyzer.charges import charges_or_refusal

    return charges_or_refusal(task, round_number, stored, rounds)


def _valid_reports(stored: ReceivedBatch, opening: OpenedBatch) -> int:
    """Return the number of valid reports of devices; if dummies are bad, the record is false and refused."""
    if opening.tally.valid < stored.dummies:
        message = (
            f"{opening.tally.valid} envelopes are valid, but the records state {stored.dummies} dummies among them"
        )
        raise Refusal(Reason.BAD_RECORD, f"{message}; all dummies of shufflers that seal them for this round are valid")
    return opening.tally.valid - stored.dummies


def _names(task: Task, batch: BatchId) -> dict[str, object]:
    return {"task": task.name, "round": batch.round, "query": task.queries[batch.query].name}
