"""Every hop draws noise of its own, states its sum, and releases it in no order among what it received."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.shuffler.hop.test_chain import _broken_at, _last_record, refused

from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.analyzer.records import counted_of
from hubbub.protos.errors import HubbubError, Unreachable
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId, BatchRecord, HopRecord, released_digest
from hubbub.protos.records.release_chain import Release, ReleaseChunk
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import Destination, InnerOpener
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.shuffler.hop.sqlite import HopSqliteStore, HopTables
from hubbub.shuffler.release.delivery import BatchDelivery, deliver_batch
from support.hop_chain import Chain, Once, strangers
from support.krr_queries import krr_query

LAW = NoiseLaw.of("geometric", Fraction(3, 5), 6)
THREE = replace(krr_query(Histogram("carrier", ("AA", "B6", "UA")), 2**30), noise=LAW)
TWO = replace(krr_query(Histogram("late", ("no", "yes")), 2**30), noise=LAW)
PLAIN = krr_query(Histogram("theme", ("dark", "light", "none")), 2**30)
SYMBOLS = [0, 1, 2, 0, 1, 2, 0, 0]
MOST = 3 * LAW.largest


async def started(folder: Path, hops: int = 1, queries: Sequence[Query] = (THREE,), **more: Any) -> Chain:
    chain = Chain(folder, hops, queries=queries, **more)
    await chain.start()
    return chain


async def tally_of(chain: Chain, query: int = 0, number: int = 0) -> list[int]:
    stored = await chain.analyzer_store.batch(BatchId(chain.task.id, number, query))
    assert stored is not None
    counted = counted_of(chain.task, stored)
    assert counted.tally is not None
    assert counted.noise == (await chain.record(query, number)).added
    found: list[int] = counted.tally.counts.tolist()
    return found


def drawing(monkeypatch: pytest.MonkeyPatch, *draws: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Have hops draw these, one after the other; return what was drawn so far."""
    drawn: list[tuple[int, ...]] = []

    def draw(_query: Query, _random: Any) -> tuple[int, ...]:
        drawn.append(draws[len(drawn)])
        return drawn[-1]

    monkeypatch.setattr(Query, "draw_noise", draw)
    return drawn


@pytest.mark.parametrize("hops", [1, 2, 3])
async def test_every_hop_adds_its_own_draw_and_the_analyzer_counts_their_sum(
    hops: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = [(1, 0, 4), (0, 2, 12), (3, 3, 0)][:hops]
    drawn = drawing(monkeypatch, *draws)
    with closing(await started(tmp_path, hops)) as chain:
        assert await chain.delivered(SYMBOLS) == Committed(8, {})
        record = await chain.record()
        assert [hop.dummies for hop in record.hops] == [sum(each) for each in draws] == [sum(each) for each in drawn]
        assert [hop.released - hop.received for hop in record.hops] == [sum(each) for each in draws]
        assert (record.reports, record.dummies, record.envelopes) == (8, 0, 8 + record.added)
        every = np.bincount(SYMBOLS, minlength=3) + np.sum(draws, axis=0)
        assert await tally_of(chain) == every.tolist()
        assert [hop.added[chain.task.id] for hop in chain.hops] == [sum(each) for each in draws]
    assert chain.task.queries[0].shufflers == 1 + hops


@pytest.mark.parametrize("hops", [1, 2])
async def test_a_fixed_total_is_that_of_each_shuffler(hops: int, tmp_path: Path) -> None:
    with closing(await started(tmp_path, hops, (TWO,))) as chain:
        symbols = [0, 1, 1, 1, 0, 0]
        # The first shuffler's own noise: its total is fixed too.
        envelopes = await chain.seal([*symbols, *[1] * LAW.largest])
        await chain.deliver(await chain.delivery(envelopes, dummies=LAW.largest), envelopes)
        record = await chain.record()
        assert [hop.dummies for hop in record.hops] == [LAW.largest] * hops
        assert record.added == (1 + hops) * LAW.largest
        assert sum(await tally_of(chain)) == 6 + record.added


async def test_what_a_hop_draws_comes_from_the_law_anew_for_each_batch(tmp_path: Path) -> None:
    """Of 20 batches two sums of noise are not all alike: the chance of that is below 10⁻¹⁵."""
    with closing(await started(tmp_path, 1, rounds=20)) as chain:
        sums = []
        for number in range(20):
            assert await chain.delivered(SYMBOLS, number=number) == Committed(8, {})
            record, counts = await chain.record(number=number), await tally_of(chain, number=number)
            added = [each - known for each, known in zip(counts, np.bincount(SYMBOLS).tolist(), strict=True)]
            assert all(0 <= each <= LAW.largest for each in added)
            sums.append(sum(added))
            assert record.added == sums[-1]
        assert len(set(sums)) > 1


async def test_a_query_without_noise_gets_none_beside_one_that_has_it(tmp_path: Path) -> None:
    with closing(await started(tmp_path, 1, (THREE, PLAIN))) as chain:
        sent = {query: await chain.seal(SYMBOLS, query) for query in range(2)}
        for query, delivery in (await chain.deliveries(sent)).items():
            assert await chain.deliver(delivery, sent[query]) == Committed(8, {})
        assert [hop.dummies for hop in (await chain.record(1)).hops] == [0]
        assert await tally_of(chain, 1) == np.bincount(SYMBOLS).tolist()


async def test_noise_stands_in_no_order_among_what_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred reports of symbol 0 and two hundred dummies of symbol 1: half of them are in each half, about.

    Of 400 in uniform order 60 or fewer, or 140 or more of 200 are in the first half with a chance below 10⁻¹⁵.
    """
    wide = replace(THREE, noise=NoiseLaw.of("geometric", Fraction(99, 100), 100))
    drawing(monkeypatch, (0, 200, 0))
    with closing(await started(tmp_path, 1, (wide,))) as chain:
        envelopes = await chain.seal([0] * 200)
        delivery = await chain.delivery(envelopes)
        chain.links[1].incident = _broken_at("commit")
        await refused(chain.deliver(delivery, envelopes), Reason.NOT_READY)
        key = await chain.analyzer_store.key(chain.task.id, 0)
        released = await chain.stores[0].envelopes(delivery.batch, 0, chain.task.counted_bytes[0])
        assert key is not None
        assert key.private is not None
        seen = await _reports(chain, key.private, released)
        assert Counter(seen) == {0: 200, 1: 200}
        assert 60 < sum(seen[:200]) < 140


async def _reports(chain: Chain, key: bytes, released: Sequence[bytes]) -> list[int]:
    opener = InnerOpener(Destination(chain.task.id, 0, (await chain.key_set()).hash), key, 0, chain.task.hpke)
    return [int.from_bytes(opener.open(each), "big") for each in released]


async def test_noise_that_is_too_much_for_memory_goes_through_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("dummies", "mix"):
        monkeypatch.setattr(f"hubbub.shuffler.mix.{module}.IN_MEMORY", 300)
    with closing(await started(tmp_path, 2)) as chain:
        assert await chain.delivered(SYMBOLS) == Committed(8, {})
        record = await chain.record()
        assert sum(await tally_of(chain)) == 8 + record.added


# Once, whatever fails


async def test_a_list_is_drawn_for_once_whatever_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = drawing(monkeypatch, (1, 2, 3), (9, 9, 9))
    with closing(await started(tmp_path)) as chain:
        envelopes = await chain.seal(SYMBOLS)
        delivery = await chain.delivery(envelopes)
        for call in ("begin", "put", "commit"):
            chain.links[-1].incident = _broken_at(call)
            await refused(chain.deliver(delivery, envelopes), Reason.NOT_READY)
            await chain.restart()
        assert await chain.deliver(delivery, envelopes) == Committed(8, {})
        assert await chain.deliver(delivery, envelopes) == Committed(8, {})
        assert drawn == [(1, 2, 3)]


async def test_a_draw_whose_list_was_not_stored_is_seen_by_nobody_and_drawn_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = drawing(monkeypatch, (12, 0, 0), (0, 0, 7))
    right = HopTables.mix

    def full(_tables: HopTables, _batch: Any, blocks: Any, *_more: Any) -> Any:
        list(blocks)
        raise HubbubError("the disk is full")

    with closing(await started(tmp_path)) as chain:
        envelopes = await chain.seal(SYMBOLS)
        delivery = await chain.delivery(envelopes)
        monkeypatch.setattr(HopTables, "mix", full)
        with pytest.raises(HubbubError, match="the disk is full"):
            await chain.deliver(delivery, envelopes)
        stored = await chain.stores[0].batch(delivery.batch)
        assert stored is not None
        assert stored.mixed is None
        assert not await chain.stores[0].envelopes(delivery.batch, 0, chain.task.counted_bytes[0])
        assert await chain.analyzer_store.batch(delivery.batch) is None
        monkeypatch.setattr(HopTables, "mix", right)
        await chain.restart()
        assert await chain.deliver(delivery, envelopes) == Committed(8, {})
        assert drawn == [(12, 0, 0), (0, 0, 7)]
        assert await tally_of(chain) == np.add(np.bincount(SYMBOLS), (0, 0, 7)).tolist()


async def test_calls_that_come_together_wait_for_one_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = drawing(monkeypatch, (1, 2, 3), (9, 9, 9))
    with closing(await started(tmp_path)) as chain:
        envelopes = await chain.seal(SYMBOLS)
        delivery, hop = await chain.delivery(envelopes), chain.hops[0]
        await hop.begin(delivery.record, delivery.key_set, delivery.releases)
        await hop.put(Envelopes(delivery.batch, 0, tuple(envelopes)))
        answers = await asyncio.gather(*(hop.commit(delivery.batch, delivery.digest) for _ in range(5)))
        assert answers == [Committed(8, {})] * 5
        assert drawn == [(1, 2, 3)]


async def test_after_the_draw_a_batch_takes_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = drawing(monkeypatch, (1, 2, 3), (9, 9, 9))
    with closing(await started(tmp_path)) as chain:
        envelopes = await chain.seal(SYMBOLS)
        delivery, others = await chain.delivery(envelopes), await chain.seal(SYMBOLS)
        chain.links[-1].incident = _broken_at("commit")
        await refused(chain.deliver(delivery, envelopes), Reason.NOT_READY)
        for some in (envelopes, others):
            assert await chain.hops[0].put(Envelopes(delivery.batch, 0, tuple(some))) == 8
        assert not list(chain.stores[0].arrived(delivery.batch))
        await chain.restart()
        assert await chain.deliver(delivery, envelopes) == Committed(8, {})
        assert drawn == [(1, 2, 3)]


async def test_a_round_that_was_ended_behind_a_hop_is_never_drawn_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The party behind has seen the list, and says that the round is over: it must not get another one."""
    drawn = drawing(monkeypatch, (1, 2, 3), (9, 9, 9))
    with closing(await started(tmp_path)) as chain:
        envelopes = await chain.seal(SYMBOLS)
        delivery = await chain.delivery(envelopes)
        chain.links[-1].incident = _ended
        await refused(chain.deliver(delivery, envelopes), Reason.ERASED)
        for _ in range(2):
            hop, chunk = chain.hops[0], Envelopes(delivery.batch, 0, tuple(envelopes))
            await refused(hop.begin(delivery.record, delivery.key_set, delivery.releases), Reason.ERASED)
            assert await hop.put(chunk) == 0
            await refused(hop.commit(delivery.batch, delivery.digest), Reason.INCOMPLETE)
            await chain.restart()
        assert drawn == [(1, 2, 3)]


def _ended(point: str) -> None:
    if point.startswith("before commit"):
        raise Refusal(Reason.ERASED, "the round is over")


async def test_another_list_of_a_dishonest_hop_before_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first shuffler's record is the same: only the hop between says that one more envelope did not open."""
    drawn = drawing(monkeypatch, (1, 2, 3), (4, 5, 6), (9, 9, 9))
    with closing(await started(tmp_path, 2)) as chain:
        envelopes = await chain.seal(SYMBOLS)
        delivery = await chain.delivery(envelopes)
        chain.links[-1].incident = _broken_at("commit")
        await refused(chain.deliver(delivery, envelopes), Reason.NOT_READY)
        passing = await chain.stores[0].batch(delivery.batch)
        assert passing is not None
        assert passing.mixed is not None
        record = HopRecord.read(passing.mixed, chain.parties.hops[0].public)
        fewer = list(await chain.stores[0].envelopes(delivery.batch, 0, chain.task.arriving_bytes(3)[0]))[1:]
        other = dataclasses.replace(record, left_out={"unopenable": 1}, digest=released_digest(fewer))
        again = BatchDelivery(
            delivery.batch,
            other.signed_by(chain.parties.hops[0]),
            delivery.key_set,
            delivery.releases,
            other.digest,
            len(fewer),
        )

        async def chunk(offset: int) -> list[bytes]:
            return fewer[offset:]

        for _ in range(2):
            message = await refused(deliver_batch(chain.links[1], again, chunk), Reason.DIGEST_DIFFERS)
            assert "announced with another record before, but a batch is released only once" in message
            await chain.restart()
        assert len(drawn) == 2


async def test_another_key_set_in_a_round_is_refused(tmp_path: Path) -> None:
    """With two of them, one person's report could be sealed for two lists of a round."""
    with closing(await started(tmp_path, 1, (THREE, PLAIN))) as chain:
        sent = {query: await chain.seal(SYMBOLS, query) for query in range(2)}
        first = (await chain.deliveries(sent))[0]
        chain._key = chain.task.hpke.generate_key()
        second = await chain.delivery(sent[1], 1)
        # Both are in one release, as a dishonest first shuffler would sign it.
        of_first = BatchRecord.read(first.record, chain.parties.shuffler.public)
        both = Release.signed(0, of_first.reports, 0, [first.record, second.record])
        first, second = (replace(each, releases=ReleaseChunk(0, (both,))) for each in (first, second))
        assert first.key_set.hash != second.key_set.hash
        assert await chain.deliver(first, sent[0]) == Committed(8, {})
        message = await refused(chain.deliver(second, sent[1]), Reason.KEY_SET_DIFFERS)
        assert "a round has exactly one" in message


@pytest.mark.sampled(1)
@pytest.mark.parametrize("hops", [1, 2])
async def test_broken_at_any_call_and_started_again_noise_counts_once(hops: int, tmp_path: Path) -> None:
    with closing(await started(tmp_path, hops, rounds=100)) as chain:
        chain.failing = whole = Once()
        await chain.delivered(SYMBOLS)
        for number in range(1, len(whole.passed) + 1):
            chain.failing = Once(number - 1)
            await _insisted(chain, number)
            record = await chain.record(number=number)
            assert all(0 <= hop.dummies <= MOST for hop in record.hops)
            assert sum(await tally_of(chain, number=number)) == 8 + record.added == record.envelopes


async def _insisted(chain: Chain, number: int) -> None:
    envelopes = await chain.insist(lambda: chain.seal(SYMBOLS, number=number))
    delivery = await chain.insist(lambda: chain.delivery(envelopes, number=number))
    assert await chain.insist(lambda: chain.deliver(delivery, envelopes)) == Committed(8, {})


# Who lies about it


async def test_a_sum_that_no_draw_has_is_refused_by_name(tmp_path: Path) -> None:
    with closing(await started(tmp_path, 2)) as chain:
        delivery, record = await _last_record(chain)
        lie = dataclasses.replace(record, dummies=MOST + 1).signed_by(chain.parties.hops[-1])
        message = await refused(chain.receiver.begin(lie, delivery.key_set, delivery.releases), Reason.BAD_RECORD)
        assert message.startswith(
            f"hop-3 added {MOST + 1} dummies to the batch, but in task flights it adds from 0 to "
        )
        assert await chain.receiver.begin(delivery.record, delivery.key_set, delivery.releases) == 0


async def test_noise_of_a_hop_where_the_task_has_none_is_refused(tmp_path: Path) -> None:
    with closing(await started(tmp_path, 1, (PLAIN,), dummies=3)) as chain:
        envelopes = await chain.seal([*SYMBOLS, 0, 1, 2])
        delivery = await chain.delivery(envelopes)
        chain.links[-1].incident = _broken_at("begin")
        await refused(chain.deliver(delivery, envelopes), Reason.NOT_READY)
        passing = await chain.stores[0].batch(delivery.batch)
        assert passing is not None
        assert passing.mixed is not None
        record = HopRecord.read(passing.mixed, chain.parties.hops[0].public)
        assert record.dummies == 0
        lie = dataclasses.replace(record, dummies=3).signed_by(chain.parties.hops[0])
        message = await refused(chain.receiver.begin(lie, delivery.key_set, delivery.releases), Reason.BAD_RECORD)
        assert message.startswith("hop-2 added 3 dummies to the batch, but in task flights it adds 0 in every batch")


async def test_dummies_that_do_not_open_are_no_dummies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hop that states more than it sealed would take people out of the count: its record is false."""
    # Few, so that ten more are still a sum that its law has.
    drawing(monkeypatch, (1, 2, 3))
    with closing(await started(tmp_path)) as chain:
        delivery, record = await _last_record(chain)
        width = chain.task.counted_bytes[0]
        kept = [*(await chain.stores[-1].envelopes(delivery.batch, 0, width)), *strangers(10, width)]
        more = dataclasses.replace(record, dummies=record.dummies + 10, digest=released_digest(kept))
        chain.links[-1].incident = lambda _point: None
        signed = more.signed_by(chain.parties.hops[-1])

        async def chunk(offset: int) -> list[bytes]:
            return kept[offset:]

        sent = BatchDelivery(delivery.batch, signed, delivery.key_set, delivery.releases, more.digest, len(kept))
        message = await refused(deliver_batch(chain.links[-1], sent, chunk), Reason.BAD_RECORD)
        assert "all dummies of shufflers that seal them for this round are valid" in message


# Rounds that a first shuffler hides


async def test_a_round_that_is_kept_from_the_chain_of_releases_is_not_mixed(tmp_path: Path) -> None:
    """So every round that an honest hop adds noise to is in the certificates: nobody composes more than they state."""
    with closing(await started(tmp_path)) as chain:
        assert await chain.delivered(SYMBOLS, number=0) == Committed(8, {})
        hidden = chain.released
        # Round 1 is released as if round 0 had never been.
        chain.released = []
        envelopes = await chain.seal(SYMBOLS, number=1)
        delivery = await chain.delivery(envelopes, number=1)
        message = await refused(chain.deliver(delivery, envelopes), Reason.FORKED)
        assert "its release at position 0 is of round 1 now, and was of round 0 before" in message
        assert await chain.stores[0].batch(delivery.batch) is None
        chain.released = hidden
        again = await chain.delivery(envelopes, number=1)
        assert await chain.deliver(again, envelopes) == Committed(8, {})


async def test_a_hop_with_a_new_store_asks_for_the_releases_before(tmp_path: Path) -> None:
    with closing(await started(tmp_path)) as chain:
        assert await chain.delivered(SYMBOLS, number=0) == Committed(8, {})
        chain.close()
        (chain.at("hop-2") / "hop.db").unlink()
        HopSqliteStore.create(chain.at("hop-2"))
        await chain.start()
        envelopes = await chain.seal(SYMBOLS, number=1)
        delivery = await chain.delivery(envelopes, number=1)
        last = replace(delivery, releases=replace(delivery.releases, first=1, releases=delivery.releases.releases[1:]))
        message = await refused(chain.deliver(last, envelopes), Reason.INCOMPLETE)
        assert "0 releases are known here; send those from position 0" in message
        assert await chain.deliver(delivery, envelopes) == Committed(8, {})


Incident = Callable[[str], None]


async def test_a_draw_is_sealed_to_those_behind_the_hop_alone(tmp_path: Path) -> None:
    """Each layer as long as that of a report that a device sealed, so dummies cannot be told by their length."""
    with closing(await started(tmp_path, 3)) as chain:
        envelopes = await chain.seal(SYMBOLS)
        delivery = await chain.delivery(envelopes)
        for place, link in enumerate(chain.links[1:], 3):
            link.incident = _once_broken()
            await refused(chain.deliver(delivery, envelopes), Reason.NOT_READY)
            width = chain.task.arriving_bytes(place)[0]
            released = await chain.stores[place - 3].envelopes(delivery.batch, 0, width)
            assert {len(each) for each in released} == {width}
            assert len(released) >= 8
        assert await chain.deliver(delivery, envelopes) == Committed(8, {})


def _once_broken() -> Incident:
    broken = []

    def incident(point: str) -> None:
        if point.startswith("before begin") and not broken:
            broken.append(point)
            raise Unreachable("broken")

    return incident
