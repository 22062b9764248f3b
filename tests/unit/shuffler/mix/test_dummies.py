"""As many as the task says, exactly uniform, sealed as any other, and nowhere told apart."""

from __future__ import annotations

import itertools
import os
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from unit.shuffler.mix.test_mix import Memory
from unit.shuffler.world import MINIMUM, FakeAnalyzer, World

from hubbub.protos.messages import RoundState
from hubbub.protos.sealing.envelope import Destination, InnerOpener
from hubbub.protos.task.task import Privacy
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.randomizers.counting import uniform_symbols
from hubbub.queries.randomizers.unary import UnaryEncoding
from hubbub.shuffler.keys import make_keys
from hubbub.shuffler.mix.dummies import let_go, seal_dummies
from hubbub.shuffler.mix.mix import mix
from hubbub.shuffler.mix.spool import Spool
from hubbub.shuffler.records import Round, StoreError
from support.krr_queries import krr_query, unary_query
from support.messages import OTHER_DUMMIES
from support.samples import Parties, sample_task

PRIVACY = Privacy(epsilon=10.0, delta=1e-2, epsilon_local=20.0, dummies=30)


def test_draws_from_the_incomplete_chunk_are_rejected() -> None:
    """With 3 symbols 2³² − 1 would make symbol 0 likelier; with 2 there is nothing to reject."""
    words = [2**32 - 1, 2**32 - 2, 0, 1, 2, 7]
    stream = itertools.chain.from_iterable(word.to_bytes(4, "little") for word in words)

    def random(count: int) -> bytes:
        return bytes(itertools.islice(stream, count))

    assert uniform_symbols(5, 3, random).tolist() == [2, 0, 1, 2, 1]


@pytest.mark.parametrize("symbols", [2, 3, 9, 10**6])
def test_symbols_are_in_the_domain_and_as_many_as_asked(symbols: int) -> None:
    drawn = uniform_symbols(1000, symbols, os.urandom)
    assert len(drawn) == 1000
    assert int(drawn.max()) < symbols
    assert len(uniform_symbols(0, symbols, os.urandom)) == 0


def test_symbols_are_uniform() -> None:
    """Chi-squared with 8 degrees of freedom stays below 55.6 but for one run in 3·10⁹ (two in three for a bias)."""
    counts = np.bincount(uniform_symbols(90_000, 9, os.urandom), minlength=9)
    assert float(((counts - 10_000) ** 2 / 10_000).sum()) < 55.6


async def test_dummies_are_among_the_released_and_stated_in_the_record(tmp_path: Path) -> None:
    world = World(tmp_path, privacy=PRIVACY)
    await world.start()
    assert (await world.live(0)).state is RoundState.ERASED
    for query, symbols in enumerate((3, 9)):
        real = Counter(i % symbols for i in range(MINIMUM))
        record = next(record for batch, record in world.analyzer.records.items() if batch.query == query)
        assert (record.reports, record.dummies, record.envelopes) == (MINIMUM, 30, MINIMUM + 30)
        added = Counter(world.analyzer.symbols(query)) - real
        assert added.total() == 30
        assert set(added) <= set(range(symbols))
    await world.stop()


async def test_dummies_do_not_help_a_round_over_its_minimum(tmp_path: Path) -> None:
    world = World(tmp_path, privacy=PRIVACY)
    await world.start()
    assert (await world.live(0, MINIMUM - 1)).state is RoundState.EXPIRED
    assert not world.analyzer.records
    await world.stop()


async def test_round_is_not_mixed_without_its_dummies_or_keys() -> None:
    parties = Parties.generate()
    task = sample_task(parties, privacy=PRIVACY)
    round_ = Round(1, task.id, 0, RoundState.CUT, submissions=20, closed_by="schedule")
    with pytest.raises(StoreError, match=f"the batch has 0 {OTHER_DUMMIES} 30"):
        mix(Memory([]), round_, task, parties.shuffler)
    with pytest.raises(StoreError, match="without keys"):
        await seal_dummies(task, round_)


@pytest.mark.parametrize("dummies", [1, 1000, 2500])
async def test_dummies_are_drawn_in_threads_and_at_most_a_thousand_at_once(
    dummies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unary encoding draws four bytes for every bit: a million dummies would stop the service for minutes."""
    drawn: list[int] = []
    drawing = UnaryEncoding.dummies

    def noted(randomizer: UnaryEncoding, count: int, random: Callable[[int], bytes]) -> bytes:
        assert threading.current_thread() is not threading.main_thread()
        drawn.append(count)
        return drawing(randomizer, count, random)

    monkeypatch.setattr(UnaryEncoding, "dummies", noted)
    parties = Parties.generate()
    query = unary_query(Histogram("word", ("a", "b", "c")), 2**31, 2**30)
    task = sample_task(parties, privacy=replace(PRIVACY, dummies=dummies), queries=(query,))
    keys = make_keys(task, 0, parties.shuffler, await FakeAnalyzer(task, parties).get_key(task.id, 0))
    (column,) = await seal_dummies(task, Round(1, task.id, 0, RoundState.CUT, keys))
    assert len(column) == sum(drawn) == dummies
    assert max(drawn) <= 1000


async def test_dummies_of_each_query_are_reports_of_its_own_randomizer() -> None:
    """Bits of unary encoding among 3000 dummies: means beyond six standard errors with probability below 6e-8."""
    words = Histogram("word", tuple(f"w{number}" for number in range(19)))
    queries = (
        unary_query(words, 3 * 2**30, 2**30),
        krr_query(Histogram("carrier", ("AA", "B6", "UA")), 2**31),
        unary_query(Number("delay", -30.0, 180.0, optional=True), 2**31, 2**28, levels=3),
    )
    parties = Parties.generate()
    task = sample_task(parties, privacy=replace(PRIVACY, dummies=3000), queries=queries)
    analyzer = FakeAnalyzer(task, parties)
    keys = make_keys(task, 0, parties.shuffler, await analyzer.get_key(task.id, 0))
    columns = await seal_dummies(task, Round(1, task.id, 0, RoundState.CUT, keys))
    assert tuple(column.shape for column in columns) == tuple((3000, width) for width in task.inner_bytes)
    assert len({column.shape[1] for column in columns}) == 3
    here = Destination(task.id, 0, keys.key_set.hash)
    for index, (query, column) in enumerate(zip(queries, columns, strict=True)):
        opener = InnerOpener(here, analyzer.keys[0][0], index)
        tally = query.randomizer.tally(b"".join(opener.open(row.tobytes()) for row in column))
        assert (tally.valid, tally.invalid) == (3000, 0)
        mean = query.randomizer.dummy_mean
        # A symbol counts for a dummy or does not: its number is binomial.
        assert all(abs(tally.counts - 3000 * mean) < 6 * (3000 * mean * (1 - mean)) ** 0.5)
    assert [isinstance(query.randomizer, UnaryEncoding) for query in queries] == [True, False, True]


async def test_dummies_that_are_too_many_for_memory_wait_on_the_disk_and_are_released_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.shuffler.mix.dummies.IN_MEMORY", 0)
    parties = Parties.generate()
    query = krr_query(Histogram("carrier", ("AA", "B6", "UA")), 2**31)
    task = sample_task(parties, privacy=replace(PRIVACY, dummies=1500), queries=(query,))
    analyzer = FakeAnalyzer(task, parties)
    keys = make_keys(task, 0, parties.shuffler, await analyzer.get_key(task.id, 0))
    sealed = await seal_dummies(task, Round(1, task.id, 0, RoundState.CUT, keys), folder=tmp_path)
    (column,) = sealed
    assert isinstance(column, Spool)
    assert len(column) == 1500
    opener = InnerOpener(Destination(task.id, 0, keys.key_set.hash), analyzer.keys[0][0], 0)
    opened = [opener.open(row.tobytes()) for chunk in column.chunks() for row in chunk]
    assert query.randomizer.tally(b"".join(opened)).valid == 1500
    let_go(sealed)


async def test_a_round_is_released_with_dummies_from_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.shuffler.mix.dummies.IN_MEMORY", 0)
    world = World(tmp_path, privacy=PRIVACY)
    await world.start()
    assert (await world.live(0)).state is RoundState.ERASED
    assert [len(world.analyzer.symbols(query)) for query in range(2)] == [MINIMUM + PRIVACY.dummies] * 2
    await world.stop()
