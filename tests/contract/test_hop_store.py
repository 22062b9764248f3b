"""What every store of a hop promises (`hubbub.shuffler.hop.store`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contract.crashes import Step, Story, check_full_disk, check_kills, check_stays_full
from contract.implementations import HOP_STORES, Implementation

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId, BatchRecord, HopRecord, released_digest
from hubbub.protos.records.release_chain import position_after
from hubbub.protos.task.admission import ENROLLED
from hubbub.service.errors import StoreError
from hubbub.service.receiving.receiver import Announced, Delivery
from hubbub.service.receiving.round_keys import make_key
from hubbub.shuffler.hop.store import HopStore
from support.samples import Parties, sample_task

PARTIES = Parties.generate(1)
TASK = sample_task(PARTIES, admission=ENROLLED)
WIDTH = TASK.counted_bytes[0]
COMMITTED = Committed(5, {"unopenable": 1})

pytestmark = pytest.mark.parametrize("implementation", HOP_STORES, ids=str)
Kind = Implementation[HopStore]


class Batch:
    """A batch as it arrives, and what was inside."""

    def __init__(self, query: int) -> None:
        self.id = BatchId(TASK.id, 0, query)
        self.arriving = tuple(os.urandom(TASK.inner_bytes[0]) for _ in range(6))
        self.inside = tuple(os.urandom(WIDTH) for _ in range(5))
        self.record = BatchRecord(
            self.id,
            6,
            released_digest(self.arriving),
            bytes(32),
            "schedule",
            admission="enrolled",
            position=position_after(TASK.id, ()),
        )
        self.document = self.record.signed_by(PARTIES.shuffler)

    def chunk(self, start: int = 0, end: int | None = None) -> Envelopes:
        return Envelopes(self.id, start, self.arriving[start:end])

    def blocks(self) -> Iterator[bytes]:
        yield b"".join(self.inside[:3])
        yield b"".join(self.inside[3:])

    def sign(self, digest: bytes, released: int) -> SignedDocument:
        assert released == 5
        return HopRecord(2, self.document, 6, {"unopenable": 1}, digest).signed_by(PARTIES.hops[0])


def anything(_stored: Announced[Delivery]) -> None:
    """Refuses nothing."""


async def announced(store: HopStore, batch: Batch) -> None:
    await store.announce(batch.record, batch.document, bytes(32), anything)


async def mixed(store: HopStore, batch: Batch) -> None:
    await store.mix(batch.id, batch.blocks(), WIDTH, batch.sign)


async def described(store: HopStore) -> Any:
    batches = []
    for query in range(2):
        batch = await store.batch(BatchId(TASK.id, 0, query))
        if batch is not None:
            arrived = await asyncio.to_thread(lambda batch=batch: b"".join(store.arrived(batch.id)))
            batches.append((batch, arrived, await all_of(store, batch.id)))
    return await store.statuses(), await store.key(TASK.id, 0), batches


async def all_of(store: HopStore, batch: BatchId) -> list[bytes]:
    found: list[bytes] = []
    while some := await store.envelopes(batch, len(found), WIDTH):
        found.extend(some)
    return found


def a_life() -> Story[HopStore]:
    """The story of a round, from its key until all of it was passed on."""
    key = make_key(Role.HOP, TASK, 0, PARTIES.hops[0], behind=make_key(Role.ANALYZER, TASK, 0, PARTIES.analyzer).record)
    first, second = Batch(0), Batch(1)
    steps: list[Step[HopStore]] = [
        Step("tasks", lambda store: store.add_tasks([TASK])),
        Step("key", lambda store: store.add_key(TASK.id, 0, key)),
        Step("announce 0", lambda store: announced(store, first)),
        Step("put half", lambda store: store.append(first.chunk(0, 4))),
        Step("put over", lambda store: store.append(first.chunk(2))),
        Step("mix 0", lambda store: mixed(store, first)),
        Step("announce 1", lambda store: announced(store, second)),
        Step("put 1", lambda store: store.append(second.chunk())),
        Step("passed on 0", lambda store: store.passed_on(first.id, COMMITTED)),
        Step("mix 1", lambda store: mixed(store, second)),
        Step("passed on 1", lambda store: store.passed_on(second.id, COMMITTED)),
    ]
    secrets = [key.private, *(each for batch in (first, second) for each in (*batch.arriving, *batch.inside))]
    return Story(steps, described, secrets)


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


async def test_a_list_is_permuted_once(implementation: Kind, tmp_path: Path) -> None:
    batch, other = Batch(0), Batch(0)
    with contextlib.closing(implementation.open(tmp_path)) as store:
        await store.add_tasks([TASK])
        key = make_key(Role.HOP, TASK, 0, PARTIES.hops[0], behind=batch.document)
        await store.add_key(TASK.id, 0, key)
        await announced(store, batch)
        await store.append(batch.chunk())
        first = await store.mix(batch.id, batch.blocks(), WIDTH, batch.sign)
        assert await store.mix(batch.id, other.blocks(), WIDTH, other.sign) == first
        assert tuple(await all_of(store, batch.id)) == batch.inside
        assert await store.envelopes(batch.id, 4, WIDTH) == [batch.inside[4]]
        assert await store.passed_on(batch.id, COMMITTED) == COMMITTED
        assert await store.passed_on(batch.id, Committed(1, {})) == COMMITTED
        assert await all_of(store, batch.id) == []


async def test_a_list_that_cannot_be_signed_is_not_stored(implementation: Kind, tmp_path: Path) -> None:
    batch = Batch(0)

    def unsigned(_digest: bytes, _released: int) -> SignedDocument:
        raise StoreError("not as many as were opened")

    with contextlib.closing(implementation.open(tmp_path)) as store:
        await store.add_tasks([TASK])
        await store.add_key(TASK.id, 0, make_key(Role.HOP, TASK, 0, PARTIES.hops[0], behind=batch.document))
        await announced(store, batch)
        await store.append(batch.chunk())
        before = await described(store)
        with pytest.raises(StoreError):
            await store.mix(batch.id, batch.blocks(), WIDTH, unsigned)
        assert await described(store) == before
