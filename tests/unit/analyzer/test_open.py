from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.analyzer.open import Opening, open_batch
from hubbub.analyzer.workers import Job, Opened, Workers, open_chunk
from hubbub.protos.envelope import INNER_BYTES, Destination, Sealer, generate_key

DESTINATION = Destination(bytes(32), 0, bytes(32))
PRIVATE, PUBLIC = generate_key()
JOB = Job(DESTINATION, PRIVATE, 0)


def seal(symbols: Iterable[int]) -> list[bytes]:
    sealer = Sealer(DESTINATION, generate_key()[1], PUBLIC)
    return [sealer.inner(symbol, 0) for symbol in symbols]


def in_process(job: Job, stretches: Iterable[bytes], expected: int) -> Iterator[Opened]:
    return (open_chunk(job, stretch) for stretch in stretches)


def read(job: Job, stretches: Iterable[bytes], expected: int) -> Iterator[Opened]:
    """Envelopes in these tests are not sealed: their last four bytes are the symbol."""
    for stretch in stretches:
        rows = np.frombuffer(stretch, dtype=np.uint8).reshape(-1, INNER_BYTES)
        yield np.ascontiguousarray(rows[:, -4:]).view(">u4").astype(np.uintc).tobytes(), 0


def split(envelopes: list[bytes], cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(envelopes) + 1) for cut in cuts), len(envelopes)]
    return [b"".join(envelopes[start:stop]) for start, stop in pairwise(edges)]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 6)), max_size=40),
    st.lists(st.integers(0, 100), max_size=4),
)
def test_copies_are_left_out_wherever_they_stand(reports: list[tuple[int, int, int]], cuts: list[int]) -> None:
    """Few different beginnings and few different rests: envelopes that only begin alike are not copies."""
    envelopes = [bytes([begin]) * 8 + bytes([rest]) * 40 + symbol.to_bytes(4, "big") for begin, rest, symbol in reports]
    opening = open_batch(JOB, lambda: split(envelopes, cuts), len(envelopes), 5, read)
    distinct = set(envelopes)
    symbols = Counter(int.from_bytes(envelope[-4:], "big") for envelope in distinct)
    assert opening.counts.tolist() == [symbols[symbol] for symbol in range(5)]
    assert opening.left_out.get("duplicate", 0) == len(envelopes) - len(distinct)
    assert opening.left_out.get("out_of_domain", 0) == symbols[5] + symbols[6]
    assert opening.valid + sum(opening.left_out.values()) == len(envelopes)


def test_any_bytes_are_counted_and_left_out() -> None:
    envelopes = [os.urandom(INNER_BYTES) for _ in range(20)] + [bytes(INNER_BYTES), b"\xff" * INNER_BYTES]
    opening = open_batch(JOB, lambda: [b"".join(envelopes)], len(envelopes), 3, in_process)
    assert (opening.valid, opening.left_out) == (0, {"unopenable": 22})


def test_an_empty_batch_is_nothing() -> None:
    opening: Opening = open_batch(JOB, list, 0, 3, in_process)
    assert (opening.counts.tolist(), opening.left_out) == ([0, 0, 0], {})


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers(2, chunk=20)
    yield workers
    workers.close()


def test_workers_killed_in_the_middle_lose_no_report(workers: Workers) -> None:
    symbols = [number % 7 for number in range(400)]
    answers = workers.open(JOB, [b"".join(seal(symbols))], 400)
    found = [next(answers)]
    assert workers._executor is not None
    for process in list(workers._executor._processes.values()):
        process.kill()
    found.extend(answers)
    assert [symbol for packed, _ in found for symbol in np.frombuffer(packed, dtype=np.uintc).tolist()] == symbols
    assert sum(unopenable for _, unopenable in found) == 0


def test_a_small_batch_starts_no_process(workers: Workers) -> None:
    workers.warm_up(20)
    ((packed, unopenable),) = workers.open(JOB, [b"".join(seal([1, 2]))], 2)
    assert np.frombuffer(packed, dtype=np.uintc).tolist() == [1, 2]
    assert unopenable == 0
    assert workers._executor is None


def test_a_job_does_not_show_its_key() -> None:
    assert PRIVATE.hex() not in repr(JOB)
    assert repr(PRIVATE) not in repr(JOB)
