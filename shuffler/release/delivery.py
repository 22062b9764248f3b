"""Delivers a mixed round's batches to the analyzer, each counted once despite any failure on the way.

If the task's records state positions, the analyzer is first asked which releases it knows. If it lacks a release that
it counted, its store is an old copy. Begin returns the offset to continue from, Put sends chunks, and Commit has the
batch counted; all may be repeated. Only an acknowledged Commit is recorded, and the round goes on only when all are. If
a hop acknowledged them, the analyzer must know of them too. An analyzer that is down, slow or refusing causes only
delay.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from hubbub.protos.errors import HubbubError, Unreachable
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Committed, Envelopes, RoundState
from hubbub.protos.records.batch import BatchId, BatchRecord, begun_digest
from hubbub.protos.records.release_chain import Known, Release, ReleaseChunk, head_after
from hubbub.protos.refusals import ROUND_ENDED, TRANSIENT, Reason, Refusal
from hubbub.protos.sealing.envelope import FIRST_HOP
from hubbub.protos.task.task import Task, hop_name, signers
from hubbub.service.observability.traces import NO_TRACES, SpanCount, Step, TracedRound, Traces
from hubbub.shuffler.records import Round, StoredBatch, StoreError
from hubbub.shuffler.stores.protocol import ShufflerStore

CALL_SECONDS = 30.0
"""Deadline of a call to the analyzer."""

LONGEST_ASKED = 60.0
"""Most seconds that are waited because the next party asks for it: no party asks for more. A malicious hop could else
hold up a round for as long as its analyzer's key lasts, although it is honest again by then."""

COMMITS_PER_SECOND = 2000
"""A commit opens the whole batch, so its deadline allows for an analyzer that opens this many reports a second."""

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0
"""Seconds between tries: doubled from the first to the longest, each times a random factor from 0.5 to 1."""

COUNTED = frozenset({RoundState.RELEASED, RoundState.ERASED})
"""States of a round whose batches the analyzer has all counted."""


class Undeliverable(HubbubError):
    """A round is stored differently from what was signed: every party refuses it, however often it is sent."""


class RolledBack(HubbubError):
    """The analyzer's store is older than its acknowledgements."""


class Swallowed(HubbubError):
    """A hop answered that a round is counted, and the analyzer has not counted it."""


Pause = Callable[[float], Awaitable[None]]
Notice = Callable[[HubbubError | None], None]
"""Called with the error that keeps the next party from taking a batch, or None once there is none."""

_LOG = structlog.get_logger(__name__)


class Analyzer(Protocol):
    """The analyzer as the shuffler calls it (`protos.rpc.clients.DeliveryCaller`); a hop has the same calls."""

    async def get_key(self, task_id: bytes, round_number: int, deadline: float) -> SignedDocument:
        """Return the analyzer's key record for a round."""

    async def get_releases(self, task_id: bytes, deadline: float) -> Known:
        """Return the releases of a task that the analyzer knows."""

    async def begin(self, record: SignedDocument, key_set: KeySet, releases: ReleaseChunk, deadline: float) -> int:
        """Announce a batch, with the releases up to its round's; return the offset to go on from."""

    async def put(self, chunk: Envelopes, deadline: float) -> int:
        """Send a chunk; return the offset to go on from."""

    async def commit(self, batch: BatchId, digest: bytes, deadline: float) -> Committed:
        """Have the batch counted."""


@dataclass(frozen=True)
class BatchDelivery:
    """A batch as it is delivered: its record, its round's key set and releases; the digest and length of its list."""

    batch: BatchId
    record: SignedDocument
    key_set: KeySet
    releases: ReleaseChunk
    digest: bytes
    envelopes: int


Read = Callable[[int], Awaitable[Sequence[bytes]]]
"""Reads some of a batch's envelopes from an offset on; empty at its end."""

Look = Callable[[], Awaitable[None]]
"""Raises if a list is not the signed one. Called only if the other side reports a wrong digest. Reading every list
twice takes an eighth of a mix, and the receiver refuses a damaged list and forgets it."""


async def _no_look() -> None:
    """Return at once: for lists in memory."""


async def deliver_batch(
    taker: Analyzer,
    delivery: BatchDelivery,
    read: Read,
    parties: int = 1,
    moved: Callable[[], None] = lambda: None,
    look: Look = _no_look,
) -> Committed:
    """Deliver the rest of a batch that the other side lacks, and have it committed; `moved` is called after each chunk.

    `parties` is the number of parties that open the batch before the commit is answered.

    Raises:
        Refusal, Unreachable: as the calls raise them; the whole delivery may be repeated.
        HubbubError: as `look` raises it; then no retry repairs it.
    """
    try:
        return await _delivered(taker, delivery, read, parties, moved)
    except Refusal as refusal:
        if refusal.reason is Reason.DIGEST_DIFFERS:
            await look()
        raise


async def _delivered(
    taker: Analyzer, delivery: BatchDelivery, read: Read, parties: int, moved: Callable[[], None]
) -> Committed:
    offset = await taker.begin(delivery.record, delivery.key_set, delivery.releases, CALL_SECONDS)
    _check_offset(offset, 0, delivery)
    while envelopes := await read(offset):
        following = await taker.put(Envelopes(delivery.batch, offset, tuple(envelopes)), CALL_SECONDS)
        # Otherwise a party that never moves on would be sent the same chunk for ever, without a pause.
        _check_offset(following, offset + len(envelopes), delivery)
        offset = following
        moved()
    return await taker.commit(delivery.batch, delivery.digest, _commit_seconds(offset, parties))


def _check_offset(offset: int, least: int, delivery: BatchDelivery) -> None:
    """Check where the other side says that the delivery goes on: a store is not read at any place that it names.

    Raises:
        Refusal: WRONG_OFFSET.
    """
    if not least <= offset <= delivery.envelopes:
        raise Refusal(
            Reason.WRONG_OFFSET,
            f"it says to go on at offset {offset}, but has {least} of {delivery.envelopes} envelopes; install the same "
            "hubbub on both sides",
        )


def _commit_seconds(envelopes: int, parties: int) -> float:
    return parties * (CALL_SECONDS + envelopes / COMMITS_PER_SECOND)


async def check_list(read: Read, digest: bytes, whose: str) -> None:
    """Return only if a list is the signed one; `whose` names it in the error.

    Raises:
        Undeliverable: if it is not: a disk or a person changed the store since.
    """
    found, offset = begun_digest(), 0
    while envelopes := await read(offset):
        found.update(b"".join(envelopes))
        offset += len(envelopes)
    if found.digest() != digest:
        raise Undeliverable(
            f"{whose} is not the list that was signed, so its store is damaged and every party refuses it. Restore "
            "the store of that time, or give the round up if you have none"
        )


class Backoff:
    """Pauses between retries, each longer than the last."""

    def __init__(self, pause: Pause = asyncio.sleep) -> None:
        self._pause = pause
        self._next = FIRST_PAUSE

    async def wait(self, asked: float | None = None) -> None:
        """Wait before the next try, the seconds that the other side asked for if they are more, up to a minute."""
        seconds = self._next * random.uniform(0.5, 1)
        self._next = min(LONGEST_PAUSE, self._next * 2)
        await self._pause(max(seconds, min(asked or 0, LONGEST_ASKED)))

    def succeeded(self) -> None:
        """Return to short pauses."""
        self._next = FIRST_PAUSE


class Deliverer:
    """Delivers mixed rounds."""

    def __init__(
        self, store: ShufflerStore, analyzer: Analyzer, pause: Pause = asyncio.sleep, traces: Traces = NO_TRACES
    ) -> None:
        self._store = store
        self._analyzer = analyzer
        self._pause = pause
        self._traces = traces
        self._gaps: set[bytes] = set()

    async def deliver(self, round_: Round, task: Task, notice: Notice) -> Round:
        """Deliver all batches of a mixed round of a task; return it RELEASED. Retries for ever.

        In a chain the analyzer is asked first, through the hops, whether it counted the round.

        Raises:
            Refusal: one of `ROUND_ENDED`.
            Undeliverable: if a list, or its record, is not the signed one, and the analyzer has not counted it.
            StoreError: if the store could not be read or written.
        """
        if round_.keys is None:
            # The shuffler's own disk is at fault. The step fails, and is tried again from the stored state.
            raise StoreError(
                "a mixed round has no keys; the store may be damaged (docs/howto/respond-to-incidents.md, A store "
                "was damaged or lost)"
            )
        batches = await self._store.batches(round_)
        hops = bool(task.identities.hops)
        # What a hop answers is not yet known to be true. Until it is, an incident that goes on is not over.
        said = _held(notice) if hops else notice
        for batch in batches:
            if not batch.committed:
                with self._traces.span(Step.DELIVER, TracedRound.of(task, round_.number, batch.query)) as span:
                    span.note(await self._deliver_one(round_, task, round_.keys.key_set, batch, said))
            if not hops:
                # A kill before this line is harmless: the commit is sent again, and the analyzer answers the same.
                round_ = await self._store.commit_batch(round_, batch.query)
        if hops:
            await self._until_counted(round_, task, notice)
            for batch in batches:
                round_ = await self._store.commit_batch(round_, batch.query)
        if round_.state is not RoundState.RELEASED:
            raise StoreError(
                "a delivered round has batches left; the store may be damaged (docs/howto/respond-to-incidents.md, "
                "A store was damaged or lost)"
            )
        return round_

    async def _until_counted(self, round_: Round, task: Task, notice: Notice) -> None:
        """Return once the analyzer knows that it has counted a round of which hops answered so.

        A hop that passed nothing on could else have the only copy erased. While the analyzer lacks the round, it is
        sent again: a hop that is honest by then passes it on. Other rounds are delivered meanwhile.
        """
        backoff = Backoff(self._pause)
        while True:
            try:
                known = await self._analyzer.get_releases(task.id, CALL_SECONDS)
                _check_counted(known, await self._store.releases(task.id), round_.number, len(task.identities.hops))
                notice(None)
                return
            except StoreError:
                raise
            except HubbubError as error:
                notice(error)
                await backoff.wait(error.retry_after if isinstance(error, Refusal) else None)
                if not isinstance(error, Swallowed):
                    continue
            for batch in await self._store.batches(round_):
                if not batch.committed and round_.keys is not None:
                    await self._deliver_one(round_, task, round_.keys.key_set, batch, _held(notice), again=True)

    async def _deliver_one(
        self, round_: Round, task: Task, key_set: KeySet, batch: StoredBatch, notice: Notice, again: bool = False
    ) -> Mapping[SpanCount, int]:
        """Deliver a batch; return what the trace says of it. What was delivered before is not logged `again`."""
        backoff = Backoff(self._pause)
        tries = 0
        while True:
            tries += 1
            try:
                committed = await self._try(round_, task, key_set, batch, backoff)
                break
            except StoreError:
                raise
            except HubbubError as error:
                # No retry repairs either.
                if isinstance(error, Undeliverable) or (isinstance(error, Refusal) and error.reason in ROUND_ENDED):
                    raise
                notice(error)
                await backoff.wait(error.retry_after if isinstance(error, Refusal) else None)
        notice(None)
        query = task.queries[batch.query].name
        if not again:
            _LOG.info("delivered", task=task.name, round=round_.number, query=query, counted=committed.counted)
        return {SpanCount.COUNTED: committed.counted, SpanCount.TRIES: tries}

    async def _try(self, round_: Round, task: Task, key_set: KeySet, batch: StoredBatch, backoff: Backoff) -> Committed:
        parties = 1 + len(task.identities.hops)
        releases = await self._releases(round_, task)
        batch_id = BatchId(task.id, round_.number, batch.query)
        try:
            record = _signed_record(round_, task, batch)
        except Undeliverable as error:
            deadline = _commit_seconds(round_.submissions, parties)
            return await self._counted_before(batch_id, batch.digest, deadline, error)
        delivery = BatchDelivery(batch_id, batch.record, key_set, releases, record.digest, record.envelopes)
        read = _reader(self._store, round_, task, batch)
        look = functools.partial(check_signed, self._store, round_, task, batch)
        try:
            committed = await deliver_batch(self._analyzer, delivery, read, parties, backoff.succeeded, look)
        except Refusal as refusal:
            if refusal.reason is Reason.INCOMPLETE:
                # A hop with a new store lacks releases that the analyzer has: the next try sends all of them.
                self._gaps.add(task.id)
            raise
        self._gaps.discard(task.id)
        return committed

    async def _counted_before(
        self, batch: BatchId, digest: bytes, deadline: float, damaged: Undeliverable
    ) -> Committed:
        """Commit a batch that cannot be announced: the other side may have received it whole before the damage."""
        try:
            return await self._analyzer.commit(batch, digest, deadline)
        except Refusal as refusal:
            if refusal.reason in TRANSIENT | ROUND_ENDED:
                raise
            raise damaged from refusal

    async def _releases(self, round_: Round, task: Task) -> ReleaseChunk:
        """Return the releases up to this round's that the analyzer lacks.

        Raises:
            RolledBack: if it lacks one that it had counted; then nothing more is delivered to it.
        """
        # Read before the analyzer is asked: it must know every release counted by then.
        rounds = {found.number: found for found in await self._store.rounds() if found.task_id == task.id}
        releases = await self._store.releases(task.id)
        # Asked before each try: an old copy of the analyzer's store may be restored at any time.
        known = await self._analyzer.get_releases(task.id, CALL_SECONDS)
        check_analyzer(known, releases, rounds, hops=len(task.identities.hops))
        end = [release.round for release in releases].index(round_.number) + 1
        # If its chain is not a prefix of ours, send all of it: the analyzer's own refusal explains the difference.
        follows = head_after(task.id, releases[: known.count]) == known.head
        # `end - 1`: this round's own release is sent even if the analyzer has it.
        first = min(known.count, end - 1) if follows and task.id not in self._gaps else 0
        return ReleaseChunk(first, tuple(releases[first:end]))


async def check_signed(store: ShufflerStore, round_: Round, task: Task, batch: StoredBatch) -> None:
    """Return only if a batch is stored as it was signed; otherwise it would be refused for ever.

    Raises:
        Undeliverable: if it is not.
    """
    digest = _signed_record(round_, task, batch).digest
    await check_list(_reader(store, round_, task, batch), digest, _whose(round_, task, batch))


def _signed_record(round_: Round, task: Task, batch: StoredBatch) -> BatchRecord:
    """Return a batch's signed record."""
    try:
        return BatchRecord.read(batch.record, signers(task, round_.number).shuffler)
    except HubbubError as error:
        whose = _whose(round_, task, batch)
        raise Undeliverable(
            f"the record of {whose} is not valid, so the store is damaged: {error}. Restore the store of that time, "
            "or give the round up if you have none"
        ) from error


def _reader(store: ShufflerStore, round_: Round, task: Task, batch: StoredBatch) -> Read:
    width = task.inner_bytes[batch.query]

    async def read(offset: int) -> Sequence[bytes]:
        return await store.envelopes(round_, batch.query, offset, width)

    return read


def _whose(round_: Round, task: Task, batch: StoredBatch) -> str:
    return f"query {task.queries[batch.query].name} of round {round_.number}"


def check_analyzer(known: Known, releases: Sequence[Release], rounds: Mapping[int, Round], *, hops: int = 0) -> None:
    """Return only if the analyzer still has every round that it counted whole, as far as `hops` between told the truth.

    Raises:
        RolledBack: naming the first missing round.
    """
    missing = {release.round for release in releases[known.count :]} | set(known.uncounted)
    lost = sorted(number for number in missing if number in rounds and rounds[number].state in COUNTED)
    if lost:
        or_hop = ", or a hop answered that it was counted and passed nothing on" if hops else ""
        raise RolledBack(
            f"its store is an old copy: round {lost[0]}, which it had counted, is missing there{or_hop}; "
            "restore its newest store, or end the task"
        )


def _check_counted(known: Known, releases: Sequence[Release], number: int, hops: int) -> None:
    """Return only if the analyzer has counted a round of which a hop answered so.

    Raises:
        Swallowed: if not.
    """
    if number in {release.round for release in releases[: known.count]} - set(known.uncounted):
        return
    which = hop_name(FIRST_HOP) if hops == 1 else f"{hop_name(FIRST_HOP)} or a hop behind it"
    raise Swallowed(
        f"it answered that round {number} is counted, and the analyzer has not counted it: {which} passed nothing on. "
        "It is sent again, and other rounds go on; ask the party of each hop what became of it"
    )


def _held(notice: Notice) -> Notice:
    """Return a notice of errors alone: one that says that they are over follows elsewhere."""

    def say(error: HubbubError | None) -> None:
        if error is not None:
            notice(error)

    return say


def in_words(error: HubbubError) -> str:
    """Return in words why the next party, the analyzer or a hop, does not take a batch."""
    if isinstance(error, Unreachable):
        return "did not answer"
    if isinstance(error, Refusal) and error.reason in TRANSIENT:
        return f"asked to wait: {error.message}"
    if isinstance(error, Refusal):
        return f"refused, {error.reason.value}: {error.message}"
    return str(error)
