"""The witness writes down what is opened, whole batches, in their order, and changes nothing of it."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from hubbub.deploy.audit.recording_analyzer import (
    LOST_SHARE,
    LosingReceiver,
    RecordingPool,
    read_observations,
    read_second_deliveries,
)
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.release_chain import NO_RELEASES, Known, ReleaseChunk
from hubbub.protos.refusals import Refusal
from hubbub.protos.sealing.envelope import Destination, Sealer
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.service.processes.opening_pool import OpeningJob, OpeningPool

DESTINATION = Destination(b"t" * 32, 0, b"k" * 32)


def test_what_is_opened_is_written_down_in_its_order(tmp_path: Path) -> None:
    (private, public), reports = DEFAULT.generate_key(), [bytes([number] * 4) for number in range(5)]
    sealer = Sealer(DESTINATION, DEFAULT.generate_key()[1], public)
    sealed = [sealer.inner(report, 1) for report in reports]
    job = OpeningJob(DESTINATION, private, 1, len(sealed[0]))
    bad = bytes(len(sealed[0]))
    opening_pool = RecordingPool(tmp_path / "seen", 1)
    parts = [sealed[0] + sealed[1], bad + sealed[2], sealed[3] + sealed[4]]
    opened = list(opening_pool.open(job, parts, 6))
    assert opened == list(OpeningPool(1).open(job, parts, 6))
    assert read_observations(tmp_path / "seen") == {(DESTINATION.task_id.hex(), 1): b"".join(reports)}


def test_nothing_opened_is_nothing_seen(tmp_path: Path) -> None:
    assert read_observations(tmp_path / "seen") == {}


class Receiver:
    """Takes every batch, and keeps what it was given."""

    def __init__(self) -> None:
        self.envelopes: dict[BatchId, list[bytes]] = {}

    async def get_key(self, task_id: bytes, round_number: int) -> SignedDocument:
        return SignedDocument(task_id, bytes([round_number]))

    async def get_releases(self, task_id: bytes) -> Known:
        return Known(0, task_id)

    async def begin(self, record: SignedDocument, _key_set: KeySet, _releases: ReleaseChunk) -> int:
        content = json.loads(record.body)
        self.envelopes[BatchId(bytes.fromhex(content["task"]), content["round"], content["query"])] = []
        return 0

    async def put(self, chunk: Envelopes) -> int:
        self.envelopes[chunk.batch] += chunk.envelopes
        return chunk.offset + len(chunk.envelopes)

    async def commit(self, batch: BatchId, _digest: bytes) -> Committed:
        return Committed(len(self.envelopes[batch]), {})


async def delivered(losing: LosingReceiver, batch: BatchId, *lists: tuple[bytes, ...]) -> int:
    """Deliver lists of a batch, one after the other until one is committed; return how many were."""
    content = {"task": batch.task_id.hex(), "round": batch.round, "query": batch.query}
    record = SignedDocument(json.dumps(content).encode(), b"")
    for count, envelopes in enumerate(lists, 1):
        offset = await losing.begin(record, KeySet(record, record), NO_RELEASES)
        while offset < len(envelopes):
            offset = await losing.put(Envelopes(batch, offset, envelopes[offset : offset + 2]))
        with contextlib.suppress(Refusal):
            assert (await losing.commit(batch, b"")).counted == len(envelopes)
            return count
    raise AssertionError("no list was committed")


async def test_every_eighth_batch_is_lost_once_and_both_lists_are_compared(tmp_path: Path) -> None:
    inside = Receiver()
    losing = LosingReceiver(tmp_path / "seen", inside)
    batches = [BatchId(bytes([number]) * 32, 0, 1) for number in range(LOST_SHARE + 1)]
    first, other = (b"a", b"b", b"c"), (b"a", b"c", b"b")
    tries = [await delivered(losing, batch, first, first) for batch in batches[:-1]]
    assert tries == [2] + [1] * (LOST_SHARE - 1)
    assert await delivered(losing, batches[-1], first, other) == 2
    assert read_second_deliveries(tmp_path / "seen") == {
        (batches[0].task_id.hex(), 1): True,
        (batches[-1].task_id.hex(), 1): False,
    }
    assert all(tuple(inside.envelopes[batch]) == first for batch in batches[:-1])
    assert read_observations(tmp_path / "seen") == {}
    assert (await losing.get_key(b"t", 3), await losing.get_releases(b"t")) == (
        SignedDocument(b"t", b"\x03"),
        Known(0, b"t"),
    )
