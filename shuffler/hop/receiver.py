"""Receives batches at a hop as the analyzer does; a commit is answered after the next party has answered the hop's.

So the first shuffler's deliveries drive the whole chain: after a kill, or while the next party is down, a hop resumes
when it is called again. Every call may be repeated, and every acknowledged chunk is on disk.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

import structlog

from hubbub.protos.errors import HubbubError, KeyRecordError, SignatureError, Unreachable
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Identity, KeySet, Role, behind, read_behind
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId, HopRecord
from hubbub.protos.records.release_chain import Known, ReleaseChunk
from hubbub.protos.refusals import ROUND_ENDED, Reason, Refusal
from hubbub.protos.sealing.envelope import FIRST_HOP, Destination
from hubbub.protos.sealing.suites import Suite
from hubbub.protos.task.task import Task, ended, hop_name, signers
from hubbub.service.observability.incidents import Incidents
from hubbub.service.observability.traces import NO_TRACES, SpanCount, Step, TracedRound, Traces
from hubbub.service.processes.opening_pool import OpeningJob, OpeningPool
from hubbub.service.receiving.key_check import usable_key
from hubbub.service.receiving.receiver import Receiver, erased
from hubbub.service.receiving.record_checks import check_key_set, check_record, check_width, read_record, task_of
from hubbub.service.receiving.round_keys import NewKey, make_key
from hubbub.shuffler.hop.mixing import opened
from hubbub.shuffler.hop.records import HopBatch
from hubbub.shuffler.hop.store import HopStore
from hubbub.shuffler.mix.dummies import DummySealer, let_go
from hubbub.shuffler.mix.mix import Random
from hubbub.shuffler.mix.spool import Kept
from hubbub.shuffler.release.delivery import (
    CALL_SECONDS,
    Analyzer,
    BatchDelivery,
    Read,
    Undeliverable,
    check_list,
    deliver_batch,
)

RETRY_SECONDS = 1.0
"""Seconds until a caller may ask again if the next party did not answer."""

T = TypeVar("T")
_LOG = structlog.get_logger(__name__)


class _HopReceiver(Receiver[HopBatch]):
    async def check_envelopes(self, delivery: HopBatch) -> None:
        """Return only if the arrived envelopes are as in the record; those of a mixed batch were checked and erased."""
        if delivery.mixed is None:
            await super().check_envelopes(delivery)


class Hop:
    """The delivery service of a hop (`DeliveryHandler`), in `tasks` that name its identity.

    `taker` is the next party, another hop or the analyzer; texts name `taker_name` (host:port).
    """

    def __init__(
        self,
        tasks: Mapping[bytes, Task],
        identity: Identity,
        store: HopStore,
        opening_pool: OpeningPool,
        taker: Analyzer,
        taker_name: str,
        *,
        random: Random = os.urandom,
        new_key: NewKey = Suite.generate_key,
        incidents: Incidents | None = None,
        traces: Traces = NO_TRACES,
    ) -> None:
        self._tasks = tasks
        self._identity = identity
        self._store = store
        self._opening_pool = opening_pool
        self._taker = taker
        self._taker_name = taker_name
        self._random = random
        self._new_key = new_key
        self._traces = traces
        self._announced: dict[BatchId, tuple[KeySet, ReleaseChunk]] = {}
        self.added: Counter[bytes] = Counter()
        """How many reports of noise this process added to the batches of each task."""
        self._receiver = _HopReceiver(store, self._traced, incidents)

    async def get_key(self, task_id: bytes, round_number: int) -> SignedDocument:
        """Return the hop's key record of a round, with the next party's record inside; the same each time.

        Raises:
            Refusal: ERASED once the key was destroyed; TASK_ENDED if the task ended before the round; NOT_READY if the
                next party gave none.
        """
        task = self._task(task_id, round_number)
        stored = await self._store.key(task.id, round_number)
        if stored is None:
            # The feed ended the task: the shuffler may not have learned of it, or ignore it.
            if round_number > task.last_round:
                raise ended(task)
            after = await self._key_behind(task, round_number)
            made = make_key(Role.HOP, task, round_number, self._identity, self._new_key, after)
            # If several keys are made at once, the store keeps one, and that one is given out.
            stored = await self._store.add_key(task.id, round_number, made)
        if stored.private is None:
            raise erased(task, round_number)
        return stored.record

    async def get_releases(self, task_id: bytes) -> Known:
        """Return what the analyzer knows of a task's releases.

        Raises:
            Refusal: NOT_READY if the next party did not answer.
        """
        return await self._asked(self._taker.get_releases(self._known(task_id).id, CALL_SECONDS))

    async def begin(self, record: SignedDocument, key_set: KeySet, releases: ReleaseChunk) -> int:
        """Take a batch's announcement, checked, and return the offset to go on from.

        The hop keeps the releases, and passes them on. All rounds that it permutes with one store are in one chain of
        releases, which each certificate lists. So no round can be kept from the certificates behind this hop's back.

        Raises:
            Refusal: BAD_RECORD, KEY_SET_DIFFERS, BELOW_MINIMUM, FORKED, INCOMPLETE, DIGEST_DIFFERS, ERASED.
        """
        task = self._known(task_of(record))
        read = read_record(record, task, task.identities.hops[: self._index(task)])
        self._task(task.id, read.batch.round)
        check_record(task, read)
        check_key_set(task, read, key_set)
        own = behind(key_set.analyzer, self._index(task))
        offset = await self._receiver.begin(task, read, record, key_set, own, releases)
        self._announced[read.batch] = key_set, releases
        if offset < read.envelopes:
            self._opening_pool.warm_up(read.envelopes)
        _LOG.info("batch announced", **_names(task, read.batch), envelopes=read.envelopes, offset=offset)
        return offset

    async def put(self, chunk: Envelopes) -> int:
        """Store a chunk and return the offset to go on from. A chunk that repeats what is stored changes nothing.

        Raises:
            Refusal: MALFORMED, WRONG_OFFSET, DIGEST_DIFFERS, INCOMPLETE.
        """
        task = self._task(chunk.batch.task_id, chunk.batch.round)
        check_width(task, chunk, task.arriving_bytes(self._position(task)))
        return await self._receiver.put(chunk)

    async def commit(self, batch: BatchId, digest: bytes) -> Committed:
        """Remove a layer from a batch, permute it, pass it on; return what the analyzer counted.

        Raises:
            Refusal: INCOMPLETE before all has arrived, DIGEST_DIFFERS if the digest is not the record's, NOT_READY if
                the next party does not answer, or that party's own refusal.
        """
        return await self._receiver.commit(self._task(batch.task_id, batch.round), batch, digest)

    # Passing on

    async def _traced(self, task: Task, stored: HopBatch) -> Committed:
        with self._traces.span(Step.HOP, _traced_batch(task, stored)) as span:
            committed = await self._pass_on(task, stored)
            span.note({SpanCount.COUNTED: committed.counted, SpanCount.REPORTS: stored.reports})
        return committed

    async def _pass_on(self, task: Task, stored: HopBatch) -> Committed:
        # Key set and releases go on with the batch, and are only in memory: `begin` brings them again.
        if stored.id not in self._announced:
            raise Refusal(Reason.NOT_READY, "this hop was restarted; begin the delivery again", RETRY_SECONDS)
        # Noise is drawn for a list, and the list permuted, only once: a repeated commit delivers the stored list, whose
        # record is signed. A hop that stops before the list is stored draws anew, and nobody has seen the first draw.
        if stored.mixed is None:
            stored = await self._mix(task, stored)
        try:
            with self._traces.span(Step.DELIVER, _traced_batch(task, stored)):
                counted = await self._asked(self._deliver(task, stored))
        except Refusal as refusal:
            if refusal.reason in ROUND_ENDED:
                # The round has ended for good, so its envelopes and key are erased here.
                await self._store.abandon(task.id, stored.id.round)
            raise
        committed = await self._store.passed_on(stored.id, counted)
        self._announced.pop(stored.id, None)
        _LOG.info("batch passed on", **_names(task, stored.id), counted=committed.counted)
        return committed

    async def _mix(self, task: Task, stored: HopBatch) -> HopBatch:
        key = await usable_key(self._store, task, stored.id.round, Role.HOP, self._identity)
        if key.private is None or key.key_set_hash is None:
            raise erased(task, stored.id.round)
        position, query = self._position(task), stored.id.query
        destination = Destination(task.id, stored.id.round, key.key_set_hash)
        job = OpeningJob(destination, key.private, query, task.arriving_bytes(position)[query], task.suite, position)
        key_set, _ = self._announced[stored.id]
        sealing = DummySealer(task, stored.id.round, key_set, position)
        with self._traces.span(Step.NOISE, _traced_batch(task, stored)):
            dummies = await sealing.of_query(query, self._random, self._store.folder)
        try:
            with self._traces.span(Step.PERMUTE, _traced_batch(task, stored)):
                mixed = await self._mixed(task, stored, job, dummies)
        finally:
            # The draw was in this process's memory alone, and now is nowhere.
            let_go([dummies])
        return mixed

    async def _mixed(self, task: Task, stored: HopBatch, job: OpeningJob, dummies: Kept) -> HopBatch:
        """Open a batch, permute it with the dummies, and store it with its record."""
        position, store = self._position(task), self._store
        width, chunks = task.arriving_bytes(position + 1)[stored.id.query], functools.partial(store.arrived, stored.id)
        batch = job, chunks, stored.envelopes, width
        opening = await asyncio.to_thread(
            lambda: opened(*batch, self._opening_pool.open, store.folder, self._random, dummies)
        )

        def sign(digest: bytes, released: int) -> SignedDocument:
            record = HopRecord(position, stored.record, stored.envelopes, opening.left_out, digest, len(dummies))
            if record.released != released:
                raise HubbubError(
                    f"{released} envelopes were stored, but {record.released} were opened or added; the store may be "
                    "damaged (docs/howto/respond-to-incidents.md, A store was damaged or lost)"
                )
            return record.signed_by(self._identity)

        mixed = await store.mix(stored.id, opening.blocks, width, sign)
        self.added[task.id] += len(dummies)
        counts = {"received": stored.envelopes, "added": len(dummies), **opening.left_out}
        _LOG.info("batch mixed", **_names(task, stored.id), **counts)
        return mixed

    async def _deliver(self, task: Task, stored: HopBatch) -> Committed:
        if stored.mixed is None:
            raise HubbubError(
                "a batch to be passed on is not mixed; the store may be damaged "
                "(docs/howto/respond-to-incidents.md, A store was damaged or lost)"
            )
        position = self._position(task)
        width = task.arriving_bytes(position + 1)[stored.id.query]

        async def read(offset: int) -> Sequence[bytes]:
            return await self._store.envelopes(stored.id, offset, width)

        record = self._signed_record(task, stored, stored.mixed)
        announced = self._announced[stored.id]
        delivery = BatchDelivery(stored.id, stored.mixed, *announced, record.digest, record.released)
        look = functools.partial(self._look, task, stored, record.digest, read)
        parties = FIRST_HOP + len(task.identities.hops) - position
        return await deliver_batch(self._taker, delivery, read, parties, look=look)

    def _signed_record(self, task: Task, stored: HopBatch, record: SignedDocument) -> HopRecord:
        """Return this hop's record of a batch.

        Raises:
            Refusal: NOT_READY, for the first shuffler's operator to read.
        """
        try:
            return HopRecord.read(record, self._identity.public)
        except HubbubError as error:
            raise _damaged(f"the record of {self._whose(task, stored)} is not valid: {error}") from error

    async def _look(self, task: Task, stored: HopBatch, digest: bytes, read: Read) -> None:
        """Return only if a list is as this hop signed it; otherwise it would be refused for ever.

        Raises:
            Refusal: NOT_READY, for the first shuffler's operator to read.
        """
        try:
            await check_list(read, digest, self._whose(task, stored))
        except Undeliverable as error:
            raise _damaged(str(error)) from error

    def _whose(self, task: Task, stored: HopBatch) -> str:
        return f"at {hop_name(self._position(task))} query {task.queries[stored.id.query].name} of the round"

    async def _key_behind(self, task: Task, round_number: int) -> SignedDocument:
        """Return the next party's signed key record, after checking that it contains those of all later parties."""
        document = await self._asked(self._taker.get_key(task.id, round_number, CALL_SECONDS))
        identities = (*task.identities.hops[self._index(task) + 1 :], signers(task, round_number).analyzer)
        roles = (*(Role.HOP for _ in identities[1:]), Role.ANALYZER)
        try:
            for record, role in zip(read_behind(document, identities), roles, strict=True):
                record.check_for(role, task.id, round_number, task.suite)
        except (SignatureError, KeyRecordError) as error:
            raise Refusal(
                Reason.NOT_READY, f"{self._taker_name} gave a key record that is not valid: {error}"
            ) from error
        return document

    async def _asked(self, call: Awaitable[T]) -> T:
        """Await a call to the next party; if it is not answered, refuse it so that this hop's caller asks again."""
        try:
            return await call
        except Unreachable as error:
            message = f"{self._taker_name}, the party behind this hop, did not answer; it is asked again"
            raise Refusal(Reason.NOT_READY, message, RETRY_SECONDS) from error

    # Tasks, and this hop's place in them

    def _index(self, task: Task) -> int:
        return task.identities.hops.index(self._identity.public)

    def _position(self, task: Task) -> int:
        return FIRST_HOP + self._index(task)

    def _known(self, task_id: bytes) -> Task:
        task = self._tasks.get(task_id)
        if task is None:
            raise Refusal(
                Reason.UNKNOWN_TASK,
                f"{self._own_name()} has no task {task_id.hex()[:16]}…; if the task names this hop, add its file to "
                "the hop's `tasks`, or its entry to the hop's `feed`; otherwise remove its file from the shuffler's "
                "`tasks`, or end it there (`hubbub tasks end`)",
            )
        return task

    def _own_name(self) -> str:
        """Return the hop's name in its tasks, or "this hop" where it has another place in each."""
        names = {hop_name(self._position(task)) for task in self._tasks.values()}
        return names.pop() if len(names) == 1 else "this hop"

    def _task(self, task_id: bytes, round_number: int) -> Task:
        task = self._known(task_id)
        if not 0 <= round_number < task.schedule.rounds:
            raise Refusal(
                Reason.UNKNOWN_ROUND,
                f"task {task.name} has rounds 0 to {task.schedule.rounds - 1}, not {round_number}; install the same "
                "task on both sides",
            )
        return task


def _damaged(what: str) -> Refusal:
    return Refusal(Reason.NOT_READY, f"this hop's store is damaged: {what}; its log names the remedy", RETRY_SECONDS)


def _traced_batch(task: Task, stored: HopBatch) -> TracedRound:
    return TracedRound.of(task, stored.id.round, stored.id.query)


def _names(task: Task, batch: BatchId) -> dict[str, object]:
    return {"task": task.name, "round": batch.round, "query": task.queries[batch.query].name}
