"""The permutation and what is stored of it."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import hypothesis
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st
from unit.shuffler.world import FakeAnalyzer

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.messages import RoundState
from hubbub.protos.records.batch import BatchRecord, released_digest
from hubbub.protos.records.release_chain import ChainPosition, Release
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.randomizers.sampling import Random
from hubbub.shuffler.keys import RoundKeyMaterial, make_keys
from hubbub.shuffler.mix.external_sort import Buckets, Column
from hubbub.shuffler.mix.mix import (
    RELEASED_BLOCK,
    Draw,
    blocks,
    keystream,
    mix,
    permutation,
    permuted,
    permuted_by_buckets,
)
from hubbub.shuffler.records import Round, StoreError
from support.krr_queries import INNER_BYTES, unary_query
from support.samples import QUERIES, Parties, sample_task


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_permutation_is_one(count: int) -> None:
    assert sorted(permutation(count, keystream())) == list(range(count))


def test_same_randomness_gives_the_same_permutation_and_other_another() -> None:
    first, again, other = (permutation(50, keystream(lambda n, b=b: bytes([b]) * n)) for b in (1, 1, 2))
    assert first.tolist() == again.tolist() != other.tolist()


def test_each_draw_takes_a_fresh_key() -> None:
    asked: list[int] = []

    def random(count: int) -> bytes:
        asked.append(count)
        return bytes([len(asked)]) * count

    draw = keystream(random)
    assert draw(4).tolist() != draw(4).tolist()
    assert asked == [32, 32]


def test_a_tie_draws_all_keys_again() -> None:
    draws = iter([[5, 5, 1], [1, 2, 1], [9, 7, 8]])

    def draw(_count: int) -> npt.NDArray[np.uint64]:
        return np.array(next(draws), dtype=np.uint64)

    assert permutation(3, draw).tolist() == [1, 2, 0]


@dataclass
class Memory:
    """`mix.RoundContents` in memory."""

    blocks: list[bytes]
    folder: Path = Path("nowhere")
    released: dict[tuple[int, int], bytes] = field(default_factory=dict)
    batches: dict[int, tuple[bytes, SignedDocument]] = field(default_factory=dict)
    releases: list[Release] = field(default_factory=list)

    def arrived(self) -> Iterator[bytes]:
        yield from self.blocks

    def put_released(self, query: int, block: int, envelopes: bytes) -> None:
        self.released[query, block] = envelopes

    def put_batch(self, query: int, digest: bytes, record: SignedDocument) -> None:
        self.batches[query] = digest, record

    def position(self) -> ChainPosition:
        return ChainPosition(0, bytes(32))

    def put_release(self, release: Release) -> None:
        self.releases.append(release)


def envelope(device: int, query: int) -> bytes:
    return device.to_bytes(4, "big") + bytes([query]) * (INNER_BYTES - 4)


def devices(count: int) -> bytes:
    return b"".join(envelope(device, query) for device in range(count) for query in (0, 1))


@pytest.fixture
async def cut() -> tuple[Parties, Round]:
    parties = Parties.generate()
    task = sample_task(parties)
    keys = make_keys(task, 0, parties.shuffler, await FakeAnalyzer(task, parties).get_key(task.id, 0))
    return parties, Round(1, task.id, 0, RoundState.CUT, keys, 5000, "schedule", {"wrong_size": 2})


def test_every_query_is_released_whole_in_its_own_order(cut: tuple[Parties, Round]) -> None:
    parties, round_ = cut
    memory = Memory([devices(5000)[:104000], devices(5000)[104000:]])
    mix(memory, round_, sample_task(parties), parties.shuffler)
    orders = []
    for query in (0, 1):
        joined = memory.released[query, 0] + memory.released[query, 1]
        assert len(memory.released[query, 0]) == RELEASED_BLOCK * INNER_BYTES
        parts = [joined[start : start + INNER_BYTES] for start in range(0, len(joined), INNER_BYTES)]
        assert sorted(parts) == [envelope(device, query) for device in range(5000)]
        digest, document = memory.batches[query]
        record = BatchRecord.read(document, parties.shuffler.public)
        assert digest == record.digest == released_digest(parts)
        assert (record.reports, record.closed_by, record.refusals) == (5000, "schedule", {"wrong_size": 2})
        orders.append([part[:4] for part in parts])
    assert orders[0] != orders[1] != sorted(orders[1])


async def test_queries_whose_reports_differ_in_length_are_cut_apart_where_they_meet() -> None:
    """Reports of 4, 1 and 13 bytes; each list is whole, in blocks of whole envelopes, each by itself."""
    words = Histogram("word", tuple(f"w{number}" for number in range(100)))
    shades = Histogram("shade", ("dark", "light"))
    queries = (QUERIES[0], unary_query(shades, 3 * 2**30, 2**30), unary_query(words, 2**31, 2**28))
    parties = Parties.generate()
    task = sample_task(parties, queries=queries)
    assert task.inner_bytes == (52, 49, 61)
    keys = make_keys(task, 0, parties.shuffler, await FakeAnalyzer(task, parties).get_key(task.id, 0))
    round_ = Round(1, task.id, 0, RoundState.CUT, keys, 5000, "schedule", {})
    sent = [[os.urandom(width) for width in task.inner_bytes] for _ in range(5000)]
    memory = Memory([b"".join(map(b"".join, sent[:3000])), b"".join(map(b"".join, sent[3000:]))])
    mix(memory, round_, task, parties.shuffler)
    for query, width in enumerate(task.inner_bytes):
        assert len(memory.released[query, 0]) == RELEASED_BLOCK * width
        joined = memory.released[query, 0] + memory.released[query, 1]
        parts = [joined[start : start + width] for start in range(0, len(joined), width)]
        assert sorted(parts) == sorted(each[query] for each in sent) != parts
        assert memory.batches[query][0] == released_digest(parts)


@pytest.mark.parametrize("width", [49, 52, 560])
def test_buckets_hold_envelopes_of_any_length(tmp_path: Path, width: int) -> None:
    column = np.frombuffer(os.urandom(700 * width), dtype=np.uint8).reshape(-1, width)
    keys = keystream()(700).tolist()
    spilled = permuted_by_buckets([column], 700, given(keys), tmp_path, width, limit=100)
    assert np.array_equal(np.concatenate(list(spilled)), column[np.argsort(np.array(keys, dtype=np.uint64))])


@pytest.mark.parametrize("held", [4999, 5001])
def test_store_that_holds_another_number_than_was_acknowledged_is_not_released(
    cut: tuple[Parties, Round], held: int
) -> None:
    parties, round_ = cut
    with pytest.raises(StoreError, match="acknowledged submissions"):
        mix(Memory([devices(held)]), round_, sample_task(parties), parties.shuffler)


def test_round_without_keys_is_not_mixed(cut: tuple[Parties, Round]) -> None:
    parties, round_ = cut
    with pytest.raises(StoreError, match="without keys"):
        mix(Memory([devices(5000)]), replace(round_, keys=None), sample_task(parties), parties.shuffler)


def test_private_key_is_never_printed() -> None:
    assert "secret" not in repr(RoundKeyMaterial(b"secret", None))  # type: ignore[arg-type] - only its repr is looked at


# Columns too long for memory


def rows(count: int) -> list[Column]:
    """Envelopes 0 … count − 1 in chunks of several lengths, an empty one among them."""
    column = np.frombuffer(b"".join(envelope(device, 0) for device in range(count)), dtype=np.uint8)
    return np.split(column.reshape(-1, INNER_BYTES), sorted({0, count // 7, count // 2}))


def numbers(chunks: Iterable[Column]) -> list[int]:
    return [int.from_bytes(row[:4].tobytes(), "big") for chunk in chunks for row in chunk]


def given(keys: Iterable[int]) -> Draw:
    """Draws that give these keys, however they are asked for."""
    remaining = iter(keys)
    return lambda count: np.array([next(remaining) for _ in range(count)], dtype=np.uint64)


LEVELS = (0, 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
"""Keys on both sides of the borders of two and of four buckets."""


@pytest.mark.parametrize("limit", [1, 2])
def test_buckets_give_the_order_of_the_keys_for_all_keys_and_refuse_every_tie(tmp_path: Path, limit: int) -> None:
    """All 6³ and 6⁴ choices of keys: those that differ give all orders equally often, as sorting at once does."""
    for count in (3, 4):
        orders = Counter[tuple[int, ...]]()
        for keys in product(LEVELS, repeat=count):
            mixed = permuted_by_buckets(rows(count), count, given(keys), tmp_path, INNER_BYTES, limit=limit)
            if len(set(keys)) < count:
                with pytest.raises(StoreError, match="drawn again"):
                    numbers(mixed)
                continue
            found = numbers(mixed)
            assert found == np.argsort(np.array(keys, dtype=np.uint64)).tolist()
            orders[tuple(found)] += 1
        assert len(orders) == math.factorial(count)
        assert len(set(orders.values())) == 1


@pytest.mark.parametrize("count", [5000, 5001])
def test_buckets_and_memory_give_the_same_order_from_the_same_keys(tmp_path: Path, count: int) -> None:
    keys = keystream()(count).tolist()
    spilled = numbers(permuted_by_buckets(rows(count), count, given(keys), tmp_path, INNER_BYTES, limit=300))
    assert spilled == numbers(permuted(rows(count), count, given(keys), INNER_BYTES))
    assert sorted(spilled) == list(range(count))


def test_a_round_that_spills_is_released_whole_and_leaves_no_file(
    cut: tuple[Parties, Round], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parties, round_ = cut
    monkeypatch.setattr("hubbub.shuffler.mix.mix.IN_MEMORY", 1000 * INNER_BYTES)
    memory = Memory([devices(5000)[:104000], devices(5000)[104000:]], tmp_path)
    mix(memory, round_, sample_task(parties), parties.shuffler)
    for query in (0, 1):
        joined = memory.released[query, 0] + memory.released[query, 1]
        assert len(memory.released[query, 0]) == RELEASED_BLOCK * INNER_BYTES
        parts = [joined[start : start + INNER_BYTES] for start in range(0, len(joined), INNER_BYTES)]
        assert sorted(parts) == [envelope(device, query) for device in range(5000)] != parts
        assert memory.batches[query][0] == released_digest(parts)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("symbols", "spills"), [(8, False), (4096, True)])
def test_what_is_in_memory_is_counted_in_bytes_as_reports_of_unary_encoding_are_long(
    cut: tuple[Parties, Round], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, symbols: int, spills: bool
) -> None:
    """The same 50 envelopes fit where each has 53 bytes, not where each has 564."""
    parties, round_ = cut
    limits: list[int] = []

    def noted(
        rows: Iterable[Column], count: int, draw: Draw, folder: Path, width: int, limit: int, random: Random
    ) -> Iterator[Column]:
        limits.append(limit)
        return permuted_by_buckets(rows, count, draw, folder, width, limit, random)

    monkeypatch.setattr("hubbub.shuffler.mix.mix.IN_MEMORY", 10_000)
    monkeypatch.setattr("hubbub.shuffler.mix.mix.permuted_by_buckets", noted)
    query = unary_query(Histogram("word", tuple(f"w{number}" for number in range(symbols))), 2**31, 2**30)
    task = sample_task(parties, queries=(query,))
    (width,) = task.inner_bytes
    sent = [number.to_bytes(width, "big") for number in range(50)]
    memory = Memory([b"".join(sent)], tmp_path)
    mix(memory, replace(round_, submissions=50), task, parties.shuffler)
    released = memory.released[0, 0]
    assert sorted(released[start : start + width] for start in range(0, 50 * width, width)) == sent
    assert limits == ([10_000 // width] if spills else [])


def test_a_bucket_on_disk_has_no_name_and_holds_nothing_readable(tmp_path: Path) -> None:
    column = np.frombuffer(b"".join(envelope(device, 0) for device in range(100)), dtype=np.uint8)
    with Buckets(tmp_path, 1, INNER_BYTES, os.urandom) as buckets:
        keys = keystream()(100)
        buckets.add(keys, column.reshape(-1, INNER_BYTES))
        assert list(tmp_path.iterdir()) == []
        stored = b""
        for file in buckets._files:
            file.seek(0)
            stored += file.read()
        assert len(stored) == 100 * (8 + INNER_BYTES)
        assert not any(column.tobytes()[start : start + 8] in stored for start in range(0, column.size, 4))
        assert not any(key.tobytes() in stored for key in keys)


@hypothesis.given(st.lists(st.integers(0, 20), max_size=6), st.integers(1, 9))
def test_a_list_is_the_same_in_blocks_whatever_its_chunks(lengths: list[int], size: int) -> None:
    chunks = [np.frombuffer(os.urandom(3 * length), dtype=np.uint8).reshape(-1, 3) for length in lengths]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hubbub.shuffler.mix.mix.RELEASED_BLOCK", size)
        found = list(blocks(chunks, 3))
    assert b"".join(found) == b"".join(chunk.tobytes() for chunk in chunks)
    assert [len(block) for block in found[:-1]] == [3 * size] * (len(found) - 1)
    assert all(0 < len(block) <= 3 * size for block in found[-1:])
