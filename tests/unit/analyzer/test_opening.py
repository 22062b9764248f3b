from __future__ import annotations

import heapq
import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.analyzer.opening import Counted, OpenedBatch, counted, open_batch
from hubbub.protos.sealing.envelope import Destination, Sealer, inner_bytes
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Tally
from hubbub.queries.randomizers.unary import UnaryEncoding
from hubbub.service.processes.opening_pool import CHUNK, LAST_CHUNK, Opened, OpeningJob, OpeningPool, open_chunk
from support.krr_queries import INNER_BYTES, report
from support.samples import HALF

DESTINATION = Destination(bytes(32), 0, bytes(32))
PRIVATE, PUBLIC = DEFAULT.generate_key()
JOB = OpeningJob(DESTINATION, PRIVATE, 0, INNER_BYTES)


def krr(symbols: int) -> KRandomizedResponse:
    return KRandomizedResponse(symbols, HALF)


def seal(symbols: Iterable[int]) -> list[bytes]:
    sealer = Sealer(DESTINATION, DEFAULT.generate_key()[1], PUBLIC)
    return [sealer.inner(report(symbol), 0) for symbol in symbols]


def in_process(job: OpeningJob, parts: Iterable[bytes], expected: int, use: object) -> Iterator[Opened]:
    return (open_chunk(job, part) for part in parts)


def read(job: OpeningJob, parts: Iterable[bytes], expected: int, use: object) -> Iterator[Opened]:
    """Envelopes in these tests are not sealed: what stands behind the overhead is the report."""
    for part in parts:
        rows = np.frombuffer(part, dtype=np.uint8).reshape(-1, job.width)
        yield rows[:, DEFAULT.overhead_bytes :].tobytes(), 0


def split(envelopes: list[bytes], cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(envelopes) + 1) for cut in cuts), len(envelopes)]
    return [b"".join(envelopes[start:stop]) for start, stop in pairwise(edges)]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 6)), max_size=40),
    st.lists(st.integers(0, 100), max_size=4),
)
def test_copies_are_left_out_wherever_they_stand(reports: list[tuple[int, int, int]], cuts: list[int]) -> None:
    """Few different beginnings and few different rests: envelopes that only begin alike are not copies."""
    envelopes = [bytes([begin]) * 8 + bytes([rest]) * 40 + report(symbol) for begin, rest, symbol in reports]
    opening = open_batch(JOB, lambda: split(envelopes, cuts), len(envelopes), krr(5), read)
    distinct = set(envelopes)
    symbols = Counter(int.from_bytes(envelope[-4:], "big") for envelope in distinct)
    assert opening.tally.counts.tolist() == [symbols[symbol] for symbol in range(5)]
    assert opening.left_out.get("duplicate", 0) == len(envelopes) - len(distinct)
    assert opening.left_out.get("out_of_domain", 0) == symbols[5] + symbols[6]
    assert opening.tally.valid + sum(opening.left_out.values()) == len(envelopes)


def test_any_bytes_are_counted_and_left_out() -> None:
    envelopes = [os.urandom(INNER_BYTES) for _ in range(20)] + [bytes(INNER_BYTES), b"\xff" * INNER_BYTES]
    opening = open_batch(JOB, lambda: [b"".join(envelopes)], len(envelopes), krr(3), in_process)
    assert (opening.tally.valid, opening.left_out) == (0, {"unopenable": 22})


def test_an_empty_batch_is_nothing() -> None:
    opening: OpenedBatch = open_batch(JOB, list, 0, krr(3), in_process)
    assert (opening.tally.counts.tolist(), opening.left_out) == ([0, 0, 0], {})


@pytest.mark.parametrize("symbols", [3, 8, 9, 500])
def test_envelopes_are_as_wide_as_the_randomizer_s_reports(symbols: int) -> None:
    """Unary reports: one bit each, a copy, one beyond the last symbol where there is room, one that does not open."""
    randomizer = UnaryEncoding(symbols, 3 * 2**30, 2**30)
    job = OpeningJob(DESTINATION, PRIVATE, 0, inner_bytes(randomizer.report_bytes))
    sealer = Sealer(DESTINATION, DEFAULT.generate_key()[1], PUBLIC)
    places = [*range(symbols), symbols] if symbols % 8 else range(symbols)
    sealed = [sealer.inner((1 << place).to_bytes(randomizer.report_bytes, "little"), 0) for place in places]
    envelopes = [*sealed, sealed[0], bytes(job.width)]
    outside = 1 if symbols % 8 else 0
    for parts in ([b"".join(envelopes)], envelopes):
        opening = open_batch(job, lambda given=parts: given, len(envelopes), randomizer, in_process)  # type: ignore[misc]
        assert opening.tally.counts.tolist() == [1] * symbols
        assert (opening.tally.valid, opening.tally.invalid) == (symbols, outside)
        expected = {"duplicate": 1, "unopenable": 1} | ({"out_of_domain": 1} if outside else {})
        assert opening.left_out == expected


def elsewhere(
    job: OpeningJob, parts: Iterable[bytes], expected: int, use: Callable[[bytes], Counted]
) -> Iterator[tuple[Counted, int]]:
    """Open as a cluster does: what comes back is what `use` made, pickled."""
    for reports, unopenable in in_process(job, parts, expected, use):
        yield pickle.loads(pickle.dumps(use))(reports), unopenable  # noqa: S301 - its own


@pytest.mark.parametrize(("symbols", "tallies"), [(5, True), (500, False)])
def test_reports_that_are_counted_elsewhere_make_the_same_tally(symbols: int, tallies: bool) -> None:
    """A tally of few symbols comes back instead of its reports; of more than there are reports, they do."""
    parts = [b"".join(seal(range(place, place + 90))) for place in (0, 40)]
    here = open_batch(JOB, lambda: parts, 180, krr(symbols), in_process)
    there = open_batch(JOB, lambda: parts, 180, krr(symbols), elsewhere)
    assert (there.tally.written(), there.left_out) == (here.tally.written(), here.left_out)
    assert isinstance(counted(krr(symbols), report(1) * 90), Tally if tallies else bytes)


@pytest.fixture
def opening_pool() -> Iterator[OpeningPool]:
    opening_pool = OpeningPool(2, chunk=20)
    yield opening_pool
    opening_pool.close()


def test_workers_killed_in_the_middle_lose_no_report(opening_pool: OpeningPool) -> None:
    symbols = [number % 7 for number in range(400)]
    answers = opening_pool.open(JOB, [b"".join(seal(symbols))], 400)
    found = [next(answers)]
    assert opening_pool._executor is not None
    for process in list(opening_pool._executor._processes.values()):
        process.kill()
    found.extend(answers)
    assert b"".join(reports for reports, _ in found) == b"".join(map(report, symbols))
    assert sum(unopenable for _, unopenable in found) == 0


def test_a_small_batch_starts_no_process(opening_pool: OpeningPool) -> None:
    opening_pool.warm_up(20)
    ((reports, unopenable),) = opening_pool.open(JOB, [b"".join(seal([1, 2]))], 2)
    assert reports == report(1) + report(2)
    assert unopenable == 0
    assert opening_pool._executor is None


@pytest.mark.parametrize("processes", [1, 2, 16])
@pytest.mark.parametrize("envelopes", [CHUNK + 1, 1500, 5000, 40_000])
def test_no_worker_is_idle_for_longer_than_the_last_chunk(processes: int, envelopes: int) -> None:
    """Chunks go to whoever is free first; all workers end within one of the last chunks."""
    block = 4 * CHUNK
    parts = [bytes(2 * min(block, envelopes - start)) for start in range(0, envelopes, block)]
    sizes = [len(chunk) // 2 for chunk in OpeningPool(processes)._chunks(parts, 2, envelopes)]
    assert sum(sizes) == envelopes
    assert max(sizes) <= CHUNK
    ends = [0] * processes
    for size in sizes:
        heapq.heapreplace(ends, ends[0] + size)
    assert max(ends) - min(ends) <= LAST_CHUNK


def test_more_envelopes_than_were_announced_are_divided_too() -> None:
    parts = [bytes(range(200)), bytes(range(100))]
    assert b"".join(OpeningPool(2)._chunks(parts, 1, 50)) == b"".join(parts)


def test_a_job_does_not_show_its_key() -> None:
    assert PRIVATE.hex() not in repr(JOB)
    assert repr(PRIVATE) not in repr(JOB)
