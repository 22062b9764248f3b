"""A table of ids answers as a dictionary does, whichever of its entries are sorted already."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.shuffler.stores.sqlite.id_index import RECENT, IdIndex

# Few different bytes: ids that begin alike, in one part and with one key.
IDS = st.tuples(
    st.sampled_from(b"\x00\x10\xff"), st.sampled_from([bytes(7), b"\xff" * 7]), st.binary(min_size=8, max_size=8)
)
BATCHES = st.lists(st.lists(st.tuples(IDS, st.binary(min_size=16, max_size=16)), max_size=12), max_size=6)


def joined(parts: tuple[int, bytes, bytes]) -> bytes:
    return bytes([parts[0]]) + parts[1] + parts[2]


@given(BATCHES, st.lists(IDS, max_size=10), st.integers(1, 10))
def test_it_answers_as_a_dictionary(
    batches: list[list[tuple[tuple[int, bytes, bytes], bytes]]], others: list[tuple[int, bytes, bytes]], recent: int
) -> None:
    ids, expected = IdIndex(recent), dict[bytes, bytes]()
    for batch in batches:
        fresh = {joined(parts): digest for parts, digest in batch if joined(parts) not in expected}
        ids.update(fresh)
        expected |= fresh
        assert len(ids) == len(expected)
        assert all(ids.get(each) == expected.get(each) for each in [*expected, *map(joined, others)])


@given(BATCHES, st.lists(IDS, max_size=10), st.integers(1, 10))
def test_a_table_of_stored_entries_answers_as_one_that_they_were_added_to(
    batches: list[list[tuple[tuple[int, bytes, bytes], bytes]]], others: list[tuple[int, bytes, bytes]], gathered: int
) -> None:
    expected, blocks = dict[bytes, bytes](), []
    for batch in batches:
        fresh = {joined(parts): digest for parts, digest in batch if joined(parts) not in expected}
        blocks.append(b"".join(part for entry in fresh.items() for part in entry))
        expected |= fresh
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hubbub.shuffler.stores.sqlite.id_index._GATHERED", gathered)
        ids = IdIndex.stored(blocks)
    asked = [*expected, *map(joined, others)]
    assert len(ids) == len(expected)
    assert ids.find(asked) == [ids.get(each) for each in asked] == [expected.get(each) for each in asked]
    more = {bytes(15) + b"m": bytes(16)}
    ids.update({} if more.keys() & expected.keys() else more)
    assert ids.get(bytes(15) + b"m") == expected.get(bytes(15) + b"m", bytes(16))


def test_ids_of_other_lengths_are_refused_and_shift_none_that_come_later() -> None:
    ids = IdIndex()
    for wrong in (bytes(15), bytes(17)):
        with pytest.raises(ValueError, match="16 bytes each"):
            ids.get(wrong)
    ids.update({bytes(16): b"d" * 16})
    assert ids.get(bytes(16)) == b"d" * 16


def test_a_million_entries_take_far_less_than_a_dictionary() -> None:
    ids = IdIndex(recent=1000)
    for _ in range(100):
        ids.update({os.urandom(16): os.urandom(16) for _ in range(1000)})
    in_arrays = sum(array.nbytes for part in ids._parts for array in part.sorted)
    in_dictionaries = sum(len(part.recent) for part in ids._parts)
    assert in_dictionaries < 16 * 1000
    assert in_arrays == 32 * (100_000 - in_dictionaries)


@pytest.mark.parametrize("recent", [1, 7])
def test_what_was_added_is_found_while_more_is_added(recent: int) -> None:
    ids, added, missed = IdIndex(recent), list[bytes](), list[bytes]()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            missed.extend(each for each in added[-50:] if ids.get(each) is None)

    looking = threading.Thread(target=look)
    looking.start()
    for _ in range(3000):
        fresh = os.urandom(16)
        ids.update({fresh: fresh})
        added.append(fresh)
    done.set()
    looking.join()
    assert len(added) == 3000
    assert missed == []


class Counting(np.ndarray[Any, np.dtype[np.uint8]]):
    """Rows of a table that count how many of them are looked at."""

    looked_at = 0

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        if isinstance(index, slice):
            Counting.looked_at += len(found)
        return found


@pytest.mark.parametrize("recent", [RECENT, 1000])
def test_ids_that_were_chosen_to_begin_alike_cost_no_more_than_random_ones(recent: int) -> None:
    """80,000 held ids of one beginning, and a call of 10,000 of it: 8·10⁸ rows were looked at, 21 s without a break."""
    ids = IdIndex(recent)
    held = [bytes(8) + os.urandom(8) for _ in range(80_000)]
    for start in range(0, len(held), 10_000):
        ids.update({each: bytes(16) for each in held[start : start + 10_000]})
    for part in ids._parts:
        part.sorted = part.sorted[0], part.sorted[1].view(Counting)
    Counting.looked_at = 0
    called = [bytes(8) + os.urandom(8) for _ in range(5000)]
    assert [ids.get(each) for each in called] == [None] * len(called)
    assert all(ids.get(each) is not None for each in held[:5000])
    # A held id is looked at once where it is among the sorted ones; nothing else is, but by a chance of 2⁻³⁰.
    assert Counting.looked_at <= 5000
    # The parts are as full as random ids fill them: 5,000 each, 1,000 more or less by a chance below 10⁻⁴⁰.
    assert all(abs(len(part.recent) + len(part.sorted[0]) - 5000) < 1000 for part in ids._parts)
