"""What every store of the analyzer promises (`hubbub.analyzer.stores.protocol`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from contract.crashes import Step, Story, check_full_disk, check_kills, check_stays_full, refused
from contract.implementations import ANALYZER_STORES, Implementation

from hubbub.analyzer.stores.protocol import AnalyzerStore
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId, BatchRecord, released_digest
from hubbub.protos.records.release_chain import (
    NO_RELEASES,
    Known,
    Release,
    ReleaseChunk,
    first_head,
    head_after,
    position_after,
)
from hubbub.protos.records.results import RoundId
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.suites import SUITES, Suite
from hubbub.service.errors import StoreError
from hubbub.service.ledger.charges import Charge, LedgerMoved
from hubbub.service.ledger.ledgers import charges_for
from hubbub.service.receiving.receiver import Announced, Delivery
from hubbub.service.receiving.round_keys import NewRoundKey, make_key
from support.krr_queries import INNER_BYTES
from support.samples import Parties, sample_task, signed

PARTIES = Parties.generate()
TASK = sample_task(PARTIES)
OTHER = sample_task(PARTIES, name="others")
SIGNED, SIGNED_OTHER = signed(TASK, PARTIES), signed(OTHER, PARTIES)
KEY_SET = bytes(range(32))
SIGNATURE = bytes(64)
COUNTS = b"counts of each symbol"

pytestmark = pytest.mark.parametrize("implementation", ANALYZER_STORES, ids=str)
Kind = Implementation[AnalyzerStore]


def new_key(number: int = 0) -> NewRoundKey:
    return make_key(Role.ANALYZER, TASK, number, PARTIES.analyzer)


def charges(number: int, before: Sequence[Charge] = ()) -> list[Charge]:
    return charges_for(TASK, number, before)


@dataclass(frozen=True)
class Batch:
    """A batch as its sender has it."""

    id: BatchId
    envelopes: tuple[bytes, ...]
    record: BatchRecord
    document: SignedDocument

    @classmethod
    def make(cls, query: int = 0, number: int = 0, count: int = 6, task_id: bytes = TASK.id) -> Batch:
        envelopes = tuple(os.urandom(INNER_BYTES) for _ in range(count))
        batch = BatchId(task_id, number, query)
        record = BatchRecord(
            batch,
            count,
            released_digest(envelopes),
            KEY_SET,
            "schedule",
            admission="open",
            position=position_after(task_id, ()),
        )
        return cls(batch, envelopes, record, record.signed_by(PARTIES.shuffler))

    def chunk(self, start: int = 0, end: int | None = None) -> Envelopes:
        return Envelopes(self.id, start, self.envelopes[start:end])


@pytest.fixture
async def store(implementation: Kind, tmp_path: Path) -> AsyncIterator[AnalyzerStore]:
    store = implementation.open(tmp_path / "data")
    await store.add_tasks([SIGNED])
    yield store
    await asyncio.to_thread(store.close)


def accept(_stored: Announced[Delivery]) -> None:
    """A check that takes everything."""


async def announce(
    store: AnalyzerStore, batch: Batch, check: Any = accept, releases: ReleaseChunk = NO_RELEASES
) -> int:
    return await store.announce(batch.record, batch.document, KEY_SET, check, releases)


async def begun(store: AnalyzerStore, query: int = 0, number: int = 0, count: int = 6) -> Batch:
    """A batch of a round with a key, announced."""
    await store.add_key(TASK.id, number, new_key(number))
    batch = Batch.make(query, number, count)
    await announce(store, batch)
    return batch


async def delivered(store: AnalyzerStore, query: int = 0, number: int = 0) -> Batch:
    batch = await begun(store, query, number)
    await store.append(batch.chunk())
    return batch


async def counted(store: AnalyzerStore, number: int = 0) -> list[Batch]:
    """A round whose batches are all committed."""
    batches = [await delivered(store, query, number) for query in range(len(TASK.queries))]
    for batch in batches:
        paid = charges_for(TASK, number, await store.charges(TASK.id))
        await store.commit(batch.id, COUNTS, SIGNATURE, Committed(6, {}), paid)
    return batches


# Rounds 1 and 0, released in this order; what their records are is not the store's business.
RELEASES = ReleaseChunk(0, tuple(Release(number, 6, 0, (bytes([number]) * 32,) * 2) for number in (1, 0)))


def arrived(store: AnalyzerStore, batch: BatchId) -> bytes:
    return b"".join(store.arrived(batch))


# Tasks


async def test_tasks_are_remembered_once_and_as_they_were(store: AnalyzerStore) -> None:
    await store.add_tasks([SIGNED, SIGNED_OTHER, SIGNED])
    assert await store.task(TASK.id) == SIGNED
    assert await store.task(OTHER.id) == SIGNED_OTHER
    assert await store.task(bytes(32)) is None


# Keys


async def test_a_round_has_the_first_key_that_was_added(store: AnalyzerStore) -> None:
    assert await store.key(TASK.id, 0) is None
    made = [new_key() for _ in range(5)]
    found = await asyncio.gather(*(store.add_key(TASK.id, 0, key) for key in made))
    assert len({key.record for key in found}) == 1
    assert await store.key(TASK.id, 0) == found[0]
    assert found[0].record in {key.record for key in made}
    assert found[0].key_set_hash is None


async def test_keys_of_rounds_are_kept_apart(store: AnalyzerStore) -> None:
    one, other = new_key(0), new_key(1)
    await store.add_key(TASK.id, 0, one)
    await store.add_key(TASK.id, 1, other)
    found = [await store.key(TASK.id, number) for number in (0, 1)]
    assert [key and key.private for key in found] == [one.private, other.private]


@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
async def test_keys_are_kept_whole_whatever_their_suite(implementation: Kind, tmp_path: Path, suite: Suite) -> None:
    task = replace(TASK, suite=suite.name)
    made = make_key(Role.ANALYZER, task, 0, PARTIES.analyzer)
    assert len(made.private) == suite.private_key_bytes
    with contextlib.closing(implementation.open(tmp_path)) as store:
        await store.add_tasks([signed(task, PARTIES)])
        await store.add_key(task.id, 0, made)
    with contextlib.closing(implementation.open(tmp_path)) as store:
        found = await store.key(task.id, 0)
    assert found is not None
    assert (found.private, found.record) == (made.private, made.record)


async def test_keys_whose_time_is_over_are_destroyed_unless_what_was_counted_costs_more(store: AnalyzerStore) -> None:
    key = new_key(0)
    await store.add_key(TASK.id, 0, key)
    await begun(store, 0, 1)
    # Six reports are fewer than the minimum, at which the round would stand if it was given up.
    short = await delivered(store, 0, 2)
    paid = charges_for(TASK, 2, await store.charges(TASK.id))
    await store.commit(short.id, COUNTS, SIGNATURE, Committed(6, {}), paid)
    assert await store.expire_keys(key.not_after) == 0
    assert await store.expire_keys(2.0**40) == 2
    assert await store.expire_keys(2.0**40) == 0
    first, *others = [await store.key(TASK.id, number) for number in range(3)]
    assert first is not None
    assert (first.private, first.record) == (None, key.record)
    assert [each is not None and each.private is not None for each in others] == [False, True]
    assert (await store.add_key(TASK.id, 0, new_key(0))).private is None


# Announcing


async def test_a_batch_is_announced_once_and_fixes_the_key_set(store: AnalyzerStore) -> None:
    batch = await begun(store)
    assert await announce(store, batch) == 0
    await store.append(batch.chunk(0, 4))
    assert await announce(store, batch) == 4
    found, key = await store.batch(batch.id), await store.key(TASK.id, 0)
    assert found is not None
    assert (found.record, found.reports, found.digest) == (batch.document, 6, batch.record.digest)
    assert (found.next_offset, found.committed, found.counts) == (4, None, None)
    assert key is not None
    assert key.key_set_hash == KEY_SET


async def test_a_check_sees_the_round_as_it_is_stored(store: AnalyzerStore) -> None:
    seen: list[Announced[Delivery]] = []
    key = await store.add_key(TASK.id, 0, new_key())
    first, second = Batch.make(0), Batch.make(1)
    await announce(store, first, seen.append)
    await announce(store, second, seen.append)
    await announce(store, second, seen.append)
    assert [each.key and each.key.record for each in seen] == [key.record] * 3
    assert [each.known and each.known.id for each in seen] == [None, None, second.id]
    assert [[other.id for other in each.others] for each in seen] == [[], [first.id], [first.id]]


async def test_what_a_check_refuses_is_not_stored(store: AnalyzerStore) -> None:
    await store.add_key(TASK.id, 0, new_key())
    batch = Batch.make()

    def check(_stored: Announced[Delivery]) -> None:
        raise Refusal(Reason.BAD_RECORD, "no")

    assert (await refused(announce(store, batch, check))).reason is Reason.BAD_RECORD
    key = await store.key(TASK.id, 0)
    assert await store.batch(batch.id) is None
    assert key is not None
    assert key.key_set_hash is None


async def test_announcements_that_come_together_are_decided_one_after_the_other(store: AnalyzerStore) -> None:
    await store.add_key(TASK.id, 0, new_key())
    batches = [Batch.make(query) for query in range(8)]
    seen: list[int] = []
    checks = [announce(store, batch, lambda stored: seen.append(len(stored.others))) for batch in batches]
    assert await asyncio.gather(*checks) == [0] * 8
    assert sorted(seen) == list(range(8))


# Putting


async def test_a_chunk_that_repeats_what_is_stored_changes_nothing(store: AnalyzerStore) -> None:
    batch = await begun(store)
    for start, end, following in (
        (0, 2, 2),
        (2, 3, 3),
        (0, 2, 3),
        (1, 3, 3),
        (1, 5, 5),
        (5, 5, 5),
        (0, 6, 6),
        (3, 6, 6),
    ):
        assert await store.append(batch.chunk(start, end)) == following
    assert arrived(store, batch.id) == b"".join(batch.envelopes)


async def test_gaps_and_what_goes_beyond_the_batch_are_refused(store: AnalyzerStore) -> None:
    batch = await begun(store)
    gap = await refused(store.append(batch.chunk(1, 2)))
    assert (gap.reason, "continue at 0" in gap.message) == (Reason.WRONG_OFFSET, True)
    beyond = Envelopes(batch.id, 0, (*batch.envelopes, batch.envelopes[0]))
    assert (await refused(store.append(beyond))).reason is Reason.WRONG_OFFSET
    assert arrived(store, batch.id) == b""
    unknown = Envelopes(BatchId(TASK.id, 0, 1), 0, batch.envelopes)
    assert (await refused(store.append(unknown))).reason is Reason.INCOMPLETE


@pytest.mark.parametrize("place", range(5))
async def test_another_envelope_at_a_known_place_is_refused_wherever_it_is(store: AnalyzerStore, place: int) -> None:
    batch = await begun(store)
    for start, end in ((0, 2), (2, 3), (3, 5)):
        await store.append(batch.chunk(start, end))
    other = [*batch.envelopes]
    other[place] = os.urandom(INNER_BYTES)
    for start in range(place + 1):
        wrong = Envelopes(batch.id, start, tuple(other[start:]))
        assert (await refused(store.append(wrong))).reason is Reason.DIGEST_DIFFERS
    assert arrived(store, batch.id) == b"".join(batch.envelopes[:5])
    assert await store.append(batch.chunk(place + 1)) == 6


async def test_what_arrived_can_be_forgotten_until_it_is_committed(store: AnalyzerStore) -> None:
    batch = await delivered(store)
    await store.forget_envelopes(batch.id)
    assert arrived(store, batch.id) == b""
    assert await announce(store, batch) == 0
    await store.append(batch.chunk())
    await store.commit(batch.id, COUNTS, SIGNATURE, Committed(6, {}), charges(0))
    await store.forget_envelopes(batch.id)
    assert arrived(store, batch.id) == b"".join(batch.envelopes)


# Releases


async def test_what_is_new_of_the_releases_is_stored_with_an_announcement(store: AnalyzerStore) -> None:
    await store.add_key(TASK.id, 0, new_key())
    assert await store.known(TASK.id) == Known(0, first_head(TASK.id))
    seen: list[Sequence[Release]] = []
    for sent in (ReleaseChunk(0, RELEASES.releases[:1]), ReleaseChunk(1, RELEASES.releases[1:]), RELEASES, NO_RELEASES):
        batch = Batch.make(number=0, query=len(seen) % 2)
        await announce(store, batch, lambda stored: seen.append(list(stored.releases)), sent)
    assert [len(releases) for releases in seen] == [0, 1, 2, 2]
    assert await store.known(TASK.id) == Known(2, head_after(TASK.id, RELEASES.releases), (1, 0))
    (chain,) = (await store.chains()).values()
    assert [release for release, _ in chain] == list(RELEASES.releases)
    assert chain[-1][1] == head_after(TASK.id, RELEASES.releases)


async def test_an_announcement_that_is_refused_leaves_its_releases_out(store: AnalyzerStore) -> None:
    await store.add_key(TASK.id, 0, new_key())

    def refuse(_stored: Announced[Delivery]) -> None:
        raise Refusal(Reason.FORKED, "another chain")

    with pytest.raises(Refusal):
        await announce(store, Batch.make(), refuse, RELEASES)
    assert (await store.known(TASK.id)).count == 0


async def test_a_past_has_what_was_released_before_and_awaits_what_may_still_be_counted(store: AnalyzerStore) -> None:
    await counted(store, 0)
    with pytest.raises(HubbubError, match="round 0 was counted, but is not among the releases"):
        await store.past(TASK.id, 0)
    await announce(store, await begun(store, 1, 1), releases=RELEASES)
    past = await store.past(TASK.id, 0)
    assert (past.releases, [number for number, _ in past.history]) == (RELEASES.releases[:1], [0])
    assert (list(past.awaited), past.uncounted) == ([1], [1])
    await store.abandon(TASK.id, 1)
    past = await store.past(TASK.id, 0)
    assert (list(past.awaited), past.uncounted) == ([], [1])
    assert await store.known(TASK.id) == Known(2, head_after(TASK.id, RELEASES.releases), (1,))


async def test_a_past_has_the_rounds_that_were_counted_in_the_order_of_their_release(store: AnalyzerStore) -> None:
    await counted(store, 0)
    await counted(store, 1)
    await announce(store, Batch.make(1, 1), releases=RELEASES)
    past = await store.past(TASK.id, 0)
    assert [number for number, _ in past.history] == [1, 0]
    assert (list(past.awaited), past.uncounted) == ([], [])
    assert (await store.past(TASK.id, 1)).releases == ()
    records = await store.records()
    assert sorted((task_id, query) for task_id, query, _ in records) == [(TASK.id, 0)] * 2 + [(TASK.id, 1)] * 2


# Committing


async def test_counts_and_charges_are_stored_together_and_once(store: AnalyzerStore) -> None:
    batch = await delivered(store)
    first = Committed(4, {"duplicate": 1, "unopenable": 1})
    assert await store.commit(batch.id, COUNTS, SIGNATURE, first, charges(0)) == first
    assert await store.commit(batch.id, b"others", SIGNATURE, Committed(5, {}), charges(1, charges(0))) == first
    found = await store.batch(batch.id)
    assert found is not None
    assert (found.committed, found.counts, found.position) == (first, COUNTS, 6)
    assert list(await store.charges(TASK.id)) == charges(0)
    assert await store.ledgers() == {TASK.id: charges(0)}
    assert await store.counted() == {(TASK.id, 0): 2}
    assert await store.append(batch.chunk(0, 2)) == 6


async def test_charges_that_do_not_follow_are_refused_and_nothing_is_committed(store: AnalyzerStore) -> None:
    one, two = await delivered(store, 0, 0), await delivered(store, 0, 1)
    await store.commit(one.id, COUNTS, SIGNATURE, Committed(6, {}), charges(0))
    for wrong in (charges(1), charges(1, charges(0))[1:]):
        with pytest.raises(LedgerMoved):
            await store.commit(two.id, COUNTS, SIGNATURE, Committed(6, {}), wrong)
    found = await store.batch(two.id)
    assert found is not None
    assert (found.committed, found.counts) == (None, None)
    assert list(await store.charges(TASK.id)) == charges(0)
    await store.commit(two.id, COUNTS, SIGNATURE, Committed(6, {}), charges(1, charges(0)))
    assert [charge.position for charge in await store.charges(TASK.id)] == [0, 1, 2, 3]


async def test_of_rounds_that_are_charged_together_one_is_first(store: AnalyzerStore) -> None:
    batches = [await delivered(store, 0, number) for number in range(3)]
    calls = [store.commit(each.id, COUNTS, SIGNATURE, Committed(6, {}), charges(each.id.round)) for each in batches]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Committed", "LedgerMoved", "LedgerMoved"]
    assert len(await store.counted()) == 1


async def test_a_round_that_is_abandoned_has_neither_key_nor_envelopes(store: AnalyzerStore) -> None:
    batch = await delivered(store)
    await store.abandon(TASK.id, 0)
    await store.abandon(TASK.id, 0)
    key = await store.key(TASK.id, 0)
    assert key is not None
    assert key.private is None
    assert arrived(store, batch.id) == b""


# Certificates


async def test_a_round_is_certified_when_all_its_batches_are_committed_and_once(store: AnalyzerStore) -> None:
    first = await delivered(store, 0)
    await store.commit(first.id, COUNTS, SIGNATURE, Committed(6, {}), charges(0))
    assert await store.uncertified() == []
    second = await delivered(store, 1)
    await store.commit(second.id, COUNTS, SIGNATURE, Committed(2, {}), [])
    assert await store.uncertified() == [(TASK.id, 0)]
    assert await store.certificate(TASK.id, 0) is None
    for document in (b"certificate", b"another"):
        await store.certify(TASK.id, 0, document, {1})
    assert await store.certificate(TASK.id, 0) == b"certificate"
    assert await store.uncertified() == []
    assert [batch.counts for batch in await store.batches(TASK.id, 0)] == [COUNTS, None]
    key = await store.key(TASK.id, 0)
    assert key is not None
    assert key.private is None


async def test_envelopes_are_erased_after_the_certificate(store: AnalyzerStore) -> None:
    batches = await counted(store)
    assert await store.unerased() == []
    await store.certify(TASK.id, 0, b"certificate", ())
    assert await store.unerased() == [(TASK.id, 0)]
    while await store.erase_some(TASK.id, 0):
        pass
    assert await store.unerased() == []
    assert [arrived(store, batch.id) for batch in batches] == [b"", b""]
    assert not await store.erase_some(TASK.id, 0)


async def test_certified_rounds_are_listed_in_the_order_of_their_certificates(store: AnalyzerStore) -> None:
    for number in (2, 0, 1):
        await counted(store, number)
    for number in (2, 0):
        await store.certify(TASK.id, number, b"certificate", ())
    assert await store.certified(None) == [RoundId(TASK.id, TASK.name, number) for number in (2, 0)]
    assert await store.certified(TASK.id) == await store.certified(None)
    assert await store.certified(OTHER.id) == []


async def test_progress_tells_how_far_each_round_is(store: AnalyzerStore) -> None:
    await store.add_tasks([SIGNED_OTHER])
    await store.add_key(OTHER.id, 2, new_key(2))
    await counted(store, 0)
    await store.certify(TASK.id, 0, b"certificate", ())
    batch = await begun(store, 0, 1)
    await store.append(batch.chunk(0, 4))
    other, first, second = await store.progress(None)
    assert (other.id, other.has_key, other.batches) == (RoundId(OTHER.id, OTHER.name, 2), True, ())
    assert (first.has_key, first.is_certified, first.queries) == (False, True, 2)
    assert [each.committed for each in first.batches] == [Committed(6, {})] * 2
    assert [(each.arrived, each.envelopes, each.committed) for each in second.batches] == [(4, 6, None)]
    assert await store.progress(TASK.id) == [first, second]


# Durability


async def test_everything_is_there_after_it_was_closed(implementation: Kind, tmp_path: Path) -> None:
    with contextlib.closing(implementation.open(tmp_path)) as store:
        await store.add_tasks([SIGNED])
        await counted(store, 0)
        await store.certify(TASK.id, 0, b"certificate", {1})
        await delivered(store, 0, 1)
        before = await describe(store)
    with contextlib.closing(implementation.open(tmp_path)) as store:
        assert await describe(store) == before


async def test_a_closed_store_says_so(implementation: Kind, tmp_path: Path) -> None:
    store = implementation.open(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.uncertified()


async def describe(store: AnalyzerStore) -> Any:
    """What a store holds."""
    rounds = []
    for progress in await store.progress(None):
        task_id, number = progress.id.task_id, progress.id.round
        batches = await store.batches(task_id, number)
        envelopes = [await asyncio.to_thread(arrived, store, batch.id) for batch in batches]
        certificate = await store.certificate(task_id, number)
        rounds.append((progress, await store.key(task_id, number), batches, envelopes, certificate))
    return rounds, await store.task(TASK.id), await store.ledgers(), await store.chains(), await store.known(TASK.id)


def a_life() -> Story[AnalyzerStore]:
    """The story of a round, from its key until it is erased."""
    key, batches, paid = new_key(), [Batch.make(0), Batch.make(1)], charges(0)

    async def add_key(store: AnalyzerStore) -> None:
        await store.add_key(TASK.id, 0, key)

    async def erase(store: AnalyzerStore) -> None:
        while await store.erase_some(TASK.id, 0):
            pass

    async def commit(store: AnalyzerStore, query: int) -> None:
        found = await store.charges(TASK.id)
        await store.commit(batches[query].id, COUNTS, SIGNATURE, Committed(6, {}), paid[len(found) :])

    steps: list[Step[AnalyzerStore]] = [
        Step("tasks", lambda store: store.add_tasks([SIGNED])),
        Step("key", add_key),
        Step("announce 0", lambda store: announce(store, batches[0], releases=RELEASES)),
        Step("put half", lambda store: store.append(batches[0].chunk(0, 4))),
        Step("put over", lambda store: store.append(batches[0].chunk(2))),
        Step("announce 1", lambda store: announce(store, batches[1], releases=RELEASES)),
        Step("put 1", lambda store: store.append(batches[1].chunk())),
        Step("commit 0", lambda store: commit(store, 0)),
        Step("commit 1", lambda store: commit(store, 1)),
        Step("certify", lambda store: store.certify(TASK.id, 0, b"certificate", {1})),
        Step("erase", erase),
    ]
    return Story(steps, describe, [key.private, *(each for batch in batches for each in batch.envelopes)])


async def test_killed_at_any_change_it_holds_what_was_answered_and_goes_on(
    implementation: Kind, tmp_path: Path
) -> None:
    assert await check_kills(implementation, tmp_path, a_life()) > 60


async def test_a_disk_that_is_full_at_any_change_fails_what_was_asked_and_nothing_else(
    implementation: Kind, tmp_path: Path
) -> None:
    assert await check_full_disk(implementation, tmp_path, a_life()) > 30


async def test_a_disk_that_stays_full_is_told_until_there_is_room(implementation: Kind, tmp_path: Path) -> None:
    await check_stays_full(implementation, tmp_path, a_life())


async def test_a_killed_key_is_in_no_file_when_its_round_is_certified(implementation: Kind, tmp_path: Path) -> None:
    with contextlib.closing(implementation.open(tmp_path / "data")) as store:
        await store.add_tasks([SIGNED])
        key = new_key()
        await store.add_key(TASK.id, 0, key)
        await counted(store)
        await store.certify(TASK.id, 0, b"certificate", ())
        implementation.copy(tmp_path / "data", tmp_path / "copy")
    files = b"".join(path.read_bytes() for path in (tmp_path / "copy").iterdir())
    assert key.private not in files
