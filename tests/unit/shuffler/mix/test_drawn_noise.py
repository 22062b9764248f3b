"""Noise of the shuffler: drawn once a round from its law, sealed as devices' reports are, and stated by its sum."""

from __future__ import annotations

import errno
import itertools
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.shuffler.mix.test_mix import Memory
from unit.shuffler.world import MINIMUM, FakeAnalyzer, World, unreachable

from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.protos.messages import RoundState
from hubbub.protos.records.batch import BatchId
from hubbub.protos.sealing.envelope import Destination, InnerOpener
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.question import symbols_of
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.sampling import Random
from hubbub.queries.texts.text import Text
from hubbub.shuffler.keys import make_keys
from hubbub.shuffler.mix.dummies import let_go, seal_dummies
from hubbub.shuffler.mix.mix import mix
from hubbub.shuffler.mix.spool import Spool
from hubbub.shuffler.records import Round, StoreError
from support.krr_queries import krr_query
from support.messages import OTHER_DUMMIES
from support.samples import Parties, sample_task

LAW = NoiseLaw.of("geometric", Fraction(3, 5), 6)
THREE = replace(krr_query(Histogram("carrier", ("AA", "B6", "UA")), 2**30), noise=LAW)
TWO = replace(krr_query(Histogram("late", ("no", "yes")), 2**30), noise=LAW)
NINE = replace(krr_query(Histogram("floor", tuple(f"f{number}" for number in range(9))), 2**30), noise=LAW)
PLAIN = krr_query(Histogram("theme", ("dark", "light", "none")), 2**30)
HASHED = Query(Text("editor"), HashedResponse(symbols_of(Text("editor")), 4, 2, 2**30), LAW)


def known(numbers: list[int]) -> Callable[[int], bytes]:
    """Give these numbers of 128 bits, one after the other, to whoever asks for 16 bytes; zeros to others."""
    stream = iter(numbers)
    return lambda count: next(stream).to_bytes(16, "big") if count == 16 else bytes(count)


async def sealed_by(queries: tuple[Query, ...], folder: Path | None = None) -> list[Counter[int]]:
    """Seal a round's noise, open it as the analyzer does, and count each query's symbols."""
    parties = Parties.generate()
    task = sample_task(parties, queries=queries)
    analyzer = FakeAnalyzer(task, parties)
    keys = make_keys(task, 0, parties.shuffler, await analyzer.get_key(task.id, 0))
    columns = await seal_dummies(task, Round(1, task.id, 0, RoundState.CUT, keys), folder=folder)
    here = Destination(task.id, 0, keys.key_set.hash)
    found = []
    for index, column in enumerate(columns):
        opener = InnerOpener(here, analyzer.keys[0][0], index)
        rows = itertools.chain.from_iterable(column.chunks() if isinstance(column, Spool) else (column,))
        found.append(Counter(int.from_bytes(opener.open(row.tobytes()), "big") for row in rows))
    let_go(columns)
    return found


async def test_each_query_gets_the_noise_of_its_law_and_others_nothing() -> None:
    three, two, plain, hashed = await sealed_by((THREE, TWO, PLAIN, HASHED))
    assert set(three) <= {0, 1, 2}
    assert max(three.values()) <= LAW.largest
    # Two symbols have a fixed total: the count of one tells that of the other.
    assert two.total() == LAW.largest
    assert not plain
    assert set(hashed) <= set(range(8))
    assert max(hashed.values()) <= LAW.largest


async def test_noise_that_is_too_much_for_memory_waits_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.shuffler.mix.dummies.IN_MEMORY", 0)
    (two,) = await sealed_by((TWO,), tmp_path)
    assert two.total() == LAW.largest


def test_a_draw_is_the_law_inverted_at_the_system_s_random_bits() -> None:
    least, middle, most = 0, 2**127, 2**128 - 1
    assert THREE.draw_noise(known([least, middle, most])) == (0, LAW.reach, LAW.largest)
    assert TWO.draw_noise(known([most])) == (0, LAW.largest)


def test_draws_follow_the_law() -> None:
    """Chi-squared of 13 values with 12 degrees of freedom stays below 65 but for one run in 10⁸."""
    law = NoiseLaw.of("gaussian", Fraction(9), 6)
    query = replace(THREE, noise=law)
    drawn = np.bincount([z for _ in range(4000) for z in query.draw_noise(np.random.default_rng().bytes)], minlength=13)
    expected = np.array([weight / 2**128 for weight in law.weights]) * drawn.sum()
    assert float(((drawn - expected) ** 2 / expected).sum()) < 65


async def test_the_record_states_the_sum_and_the_released_list_has_it(tmp_path: Path) -> None:
    world = World(tmp_path, queries=(THREE, NINE))
    await world.start()
    assert (await world.live(0)).state is RoundState.ERASED
    records = {batch.query: record for batch, record in world.analyzer.records.items()}
    for query, symbols in enumerate((3, 9)):
        real = Counter(i % symbols for i in range(MINIMUM))
        added = Counter(world.analyzer.symbols(query)) - real
        record = records[query]
        assert record.envelopes == MINIMUM + record.dummies == len(world.analyzer.symbols(query))
        assert added.total() == record.dummies
    await world.stop()


async def test_a_batch_with_more_than_its_noise_can_be_is_not_mixed() -> None:
    parties = Parties.generate()
    task = sample_task(parties, queries=(TWO,))
    round_ = Round(1, task.id, 0, RoundState.CUT, submissions=20, closed_by="schedule")
    for made in (LAW.largest - 1, LAW.largest + 1):
        column = np.zeros((made, task.inner_bytes[0]), dtype=np.uint8)
        with pytest.raises(StoreError, match=f"the batch has {made} {OTHER_DUMMIES} {LAW.largest}"):
            mix(Memory([]), round_, task, parties.shuffler, dummies=(column,))


class Filling:
    """A disk on which a number of writes of waiting noise fail, from one on; it has room again after them."""

    def __init__(self, first: int, failing: int) -> None:
        self.writes, self.files, self._failing = 0, list[Any](), range(first, first + failing)
        self._made = tempfile.TemporaryFile

    def file(self, **given: Any) -> Any:
        """Make a file without a buffer: each write reaches the disk, or fails."""
        self.files.append(made := self._made(buffering=0, **given))
        # Named by the file's own writes, so that reading is as it always is.
        return _Full(made, self)

    def written(self) -> None:
        self.writes += 1
        if self.writes - 1 in self._failing:
            raise OSError(errno.ENOSPC, "No space left on device")


class _Full:
    def __init__(self, file: Any, disk: Filling) -> None:
        self._file, self._disk = file, disk

    def write(self, content: bytes) -> int:
        self._disk.written()
        return int(self._file.write(content))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.mark.parametrize(("first", "failing"), [(0, 1), (0, 5), (1, 1), (2, 1), (3, 1)])
async def test_a_disk_that_is_full_while_noise_waits_on_it_loses_nothing_and_counts_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, failing: int
) -> None:
    """Every try that fails is drawn again, as nobody has seen it. What is released is the last draw, once."""
    disk, draws = Filling(first, failing), list[tuple[int, ...]]()
    monkeypatch.setattr(tempfile, "TemporaryFile", disk.file)
    monkeypatch.setattr("hubbub.shuffler.mix.dummies.IN_MEMORY", 0)
    monkeypatch.setattr("hubbub.shuffler.mix.dummies.CHUNK", 4)
    right = Query.draw_noise
    monkeypatch.setattr(Query, "draw_noise", lambda query, random: draws.append(right(query, random)) or draws[-1])
    world = World(tmp_path, queries=(THREE, NINE))
    await world.start()
    assert (await world.live(0)).state is RoundState.ERASED
    assert disk.writes > first + failing
    assert world.rounds.incidents.now() == ()
    assert len(draws) > 2, "the first try failed, so the round was drawn again"
    for query, (symbols, z) in enumerate(zip((3, 9), draws[-2:], strict=True)):
        record = world.analyzer.records[BatchId(world.task.id, 0, query)]
        found = Counter(world.analyzer.symbols(query))
        real = Counter(i % symbols for i in range(MINIMUM))
        assert found - real == Counter({symbol: count for symbol, count in enumerate(z) if count})
        assert real <= found
        assert (record.reports, record.dummies) == (MINIMUM, sum(z))
    assert all(file.closed for file in disk.files)
    await world.stop()


async def test_a_released_list_is_sent_again_and_never_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The analyzer fails in calls of the delivery, and the shuffler is killed in between: each query has one draw."""
    draws = 0
    right = Query.draw_noise

    def counted(query: Query, random: Random) -> tuple[int, ...]:
        nonlocal draws
        draws += 1
        return right(query, random)

    monkeypatch.setattr(Query, "draw_noise", counted)
    world = World(tmp_path, queries=(THREE, NINE))
    await world.start()
    world.analyzer.incident = unreachable("commit")
    await world.fill()
    await world.cut()
    await world.until(lambda: world.state is RoundState.MIXED and world.analyzer.calls.count("commit") > 2)
    first = dict(world.analyzer.records)
    await world.kill()
    world.analyzer.incident = unreachable("begin")
    await world.start(ready=False)
    tried = world.analyzer.calls.count("begin")
    await world.until(lambda: world.analyzer.calls.count("begin") > tried + 2)
    world.analyzer.incident = lambda _call: None
    await world.over()
    assert draws == 2
    assert first.items() <= world.analyzer.records.items()
    for query, symbols in enumerate((3, 9)):
        record = world.analyzer.records[BatchId(world.task.id, 0, query)]
        assert len(world.analyzer.symbols(query)) == MINIMUM + record.dummies
        real = Counter(i % symbols for i in range(MINIMUM))
        assert (Counter(world.analyzer.symbols(query)) - real).total() == record.dummies
    await world.stop()
