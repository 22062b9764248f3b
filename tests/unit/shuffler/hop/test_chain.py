"""What goes through a chain of shufflers comes out once, permuted, with everybody's signed record of it."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from hubbub.protos.errors import Unreachable
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Identity, KeyRecord, Role
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId, BatchRecord, HopRecord, released_digest
from hubbub.protos.records.release_chain import head_after
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import Destination, InnerOpener
from hubbub.shuffler.release.delivery import BatchDelivery, deliver_batch
from support.hop_chain import Chain, Once, strangers

SYMBOLS = [0, 1, 2, 0, 1, 2, 0, 0]


@pytest.fixture(params=[1, 2], ids=["one-hop", "two-hops"])
async def chain(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Chain]:
    made = Chain(tmp_path, request.param)
    await made.start()
    yield made
    made.close()


async def refused(call: Any, reason: Reason) -> str:
    with pytest.raises(Refusal) as caught:
        await call
    assert caught.value.reason is reason
    return caught.value.message


async def test_all_reports_come_out_and_the_record_holds_every_partys(chain: Chain) -> None:
    assert await chain.delivered(SYMBOLS) == Committed(len(SYMBOLS), {})
    record = await chain.record()
    assert (record.reports, record.envelopes, record.left_out) == (8, 8, {})
    assert [(hop.position, hop.received, hop.released) for hop in record.hops] == [
        (position, 8, 8) for position in range(2, 2 + len(chain.parties.hops))
    ]
    digests = {record.digest, *(hop.digest for hop in record.hops)}
    assert len(digests) == 1 + len(record.hops)


async def test_each_layer_is_as_long_as_the_task_says(chain: Chain) -> None:
    envelopes = await chain.seal(SYMBOLS)
    layers = 1 + len(chain.parties.hops)
    assert {len(each) for each in envelopes} == {chain.task.inner_bytes[0]}
    assert chain.task.inner_bytes[0] == chain.task.counted_bytes[0] + (layers - 1) * chain.task.hpke.overhead_bytes


async def test_what_a_hop_releases_is_in_no_order_of_what_it_received(tmp_path: Path) -> None:
    """Over 400 envelopes the chance of an order with more than 20 of them in their place is below 10⁻¹⁸."""
    chain = Chain(tmp_path)
    await chain.start()
    envelopes = await chain.seal([0] * 400)
    delivery = await chain.delivery(envelopes)
    chain.links[1].incident = _broken_at("commit")
    with pytest.raises(Refusal):
        await chain.deliver(delivery, envelopes)
    released = await chain.stores[0].envelopes(delivery.batch, 0, chain.task.counted_bytes[0])
    inside = await _opened(chain, envelopes)
    assert sorted(released) == sorted(inside)
    assert sum(one == other for one, other in zip(released, inside, strict=True)) <= 20
    chain.close()


async def _opened(chain: Chain, envelopes: list[bytes]) -> list[bytes]:
    key = await chain.stores[0].key(chain.task.id, 0)
    assert key is not None
    assert key.private is not None
    to = Destination(chain.task.id, 0, (await chain.key_set()).hash)
    opener = InnerOpener(to, key.private, 0, chain.task.hpke, 2)
    return [opener.open(envelope) for envelope in envelopes]


def _broken_at(call: str) -> Callable[[str], None]:
    def incident(point: str) -> None:
        if point.startswith(f"before {call}"):
            raise Unreachable("broken")

    return incident


async def test_what_is_there_twice_or_does_not_open_is_left_out_and_counted(chain: Chain) -> None:
    good = await chain.seal(SYMBOLS)
    envelopes = [*good, good[3], good[3], *strangers(1, len(good[0]))]
    committed = await chain.deliver(await chain.delivery(envelopes), envelopes)
    assert committed == Committed(8, {"duplicate": 2, "unopenable": 1})
    record = await chain.record()
    assert record.hops[0].left_out == {"duplicate": 2, "unopenable": 1}
    assert (record.reports, record.envelopes) == (11, 8)
    (progress,) = await chain.analyzer_store.progress(None)
    assert [(batch.arrived, batch.envelopes) for batch in progress.batches] == [(8, 8)]


async def test_after_a_round_a_hop_holds_neither_key_nor_envelope(chain: Chain) -> None:
    await chain.key_set()
    key = await chain.stores[0].key(chain.task.id, 0)
    assert key is not None
    assert key.private is not None
    sent = [await chain.seal([0, 1, 2, 0, 1, 2], query) for query in range(2)]
    deliveries = await chain.deliveries(dict(enumerate(sent)))
    for query, envelopes in enumerate(sent):
        assert key.private in chain.files("hop-2")
        await chain.deliver(deliveries[query], envelopes)
    left = chain.files("hop-2")
    assert key.private not in left
    assert not [envelope for envelopes in sent for envelope in envelopes if envelope in left]
    await refused(chain.hops[0].get_key(chain.task.id, 0), Reason.ERASED)


async def test_delivered_again_it_is_answered_as_before(chain: Chain) -> None:
    envelopes = await chain.seal(SYMBOLS)
    delivery = await chain.delivery(envelopes)
    first = await chain.deliver(delivery, envelopes)
    assert await chain.deliver(delivery, envelopes) == first
    await chain.restart()
    assert await chain.deliver(delivery, envelopes) == first


@pytest.mark.sampled(1)
@pytest.mark.parametrize("hops", [1, 2])
async def test_broken_at_any_call_and_started_again_it_is_counted_once(hops: int, tmp_path: Path) -> None:
    chain = Chain(tmp_path, hops, rounds=100)
    await chain.start()
    chain.failing = whole = Once()
    await chain.delivered(SYMBOLS, number=0)
    points = len(whole.passed)
    assert points >= 8 + 8 * hops
    for number in range(1, points + 1):
        # Each round breaks at another point, all parties are started again, and the delivery is tried again.
        chain.failing = Once(number - 1)
        await _insisted(chain, number)
        assert [hop.released for hop in (await chain.record(number=number)).hops] == [8] * hops
    rounds = await chain.analyzer_store.progress(None)
    assert [batch.committed for each in rounds for batch in each.batches] == [Committed(8, {})] * (points + 1)
    chain.close()


async def _insisted(chain: Chain, number: int) -> None:
    envelopes = await chain.insist(lambda: chain.seal(SYMBOLS, number=number))
    delivery = await chain.insist(lambda: chain.delivery(envelopes, number=number))
    assert await chain.insist(lambda: chain.deliver(delivery, envelopes)) == Committed(8, {})


async def test_another_record_of_a_batch_is_refused(chain: Chain) -> None:
    envelopes = await chain.seal(SYMBOLS)
    await chain.deliver(await chain.delivery(envelopes), envelopes)
    other = await chain.delivery(envelopes, refusals={"malformed": 1})
    await refused(chain.deliver(other, envelopes), Reason.FORKED)


async def test_the_batch_of_another_query_does_not_open(chain: Chain) -> None:
    envelopes = await chain.seal(SYMBOLS, query=0)
    committed = await chain.deliver(await chain.delivery(envelopes, query=1), envelopes)
    assert committed == Committed(0, {"unopenable": 8})


async def test_what_only_the_first_shuffler_may_say_is_checked_at_each_hop(chain: Chain) -> None:
    envelopes = await chain.seal(SYMBOLS)
    good = await chain.delivery(envelopes)
    for changes, reason in (
        ({"reports": 4}, Reason.BELOW_MINIMUM),
        ({"dummies": 3}, Reason.BAD_RECORD),
        ({"admission": "open"}, Reason.BAD_RECORD),
        ({"key_set_hash": bytes(32)}, Reason.KEY_SET_DIFFERS),
    ):
        delivery = await chain.delivery(envelopes, **changes)
        await refused(chain.links[0].begin(delivery.record, delivery.key_set, delivery.releases, 1), reason)
    stranger = BatchRecord.read(good.record, chain.parties.shuffler.public).signed_by(Identity.generate())
    await refused(chain.links[0].begin(stranger, good.key_set, good.releases, 1), Reason.BAD_RECORD)
    await refused(
        chain.links[0].begin(SignedDocument(b"{}", bytes(64)), good.key_set, good.releases, 1), Reason.BAD_RECORD
    )


async def test_a_batch_that_passed_a_hop_by_is_refused(chain: Chain) -> None:
    """The analyzer takes no batch from the first shuffler itself, where the task names hops."""
    envelopes = await chain.seal(SYMBOLS)
    delivery = await chain.delivery(envelopes)
    await refused(chain.receiver.begin(delivery.record, delivery.key_set, delivery.releases), Reason.BAD_RECORD)


async def _last_record(chain: Chain) -> tuple[BatchDelivery, HopRecord]:
    """What the last hop delivers to the analyzer, which does not answer now."""
    envelopes = await chain.seal(SYMBOLS)
    delivery = await chain.delivery(envelopes)
    chain.links[-1].incident = _broken_at("begin")
    await refused(chain.deliver(delivery, envelopes), Reason.NOT_READY)
    passing = await chain.stores[-1].batch(delivery.batch)
    assert passing is not None
    assert passing.mixed is not None
    return dataclasses.replace(delivery, record=passing.mixed), HopRecord.read(
        passing.mixed, chain.parties.hops[-1].public
    )


async def test_a_hop_cannot_drop_reports_in_silence_or_speak_for_another(chain: Chain) -> None:
    delivery, record = await _last_record(chain)
    last = chain.parties.hops[-1]
    fewer = dataclasses.replace(record, received=record.received - 1)
    lies = [
        fewer.signed_by(last),
        dataclasses.replace(record, position=record.position + 1).signed_by(last),
        record.signed_by(Identity.generate()),
        record.signed_by(chain.parties.shuffler),
        dataclasses.replace(record, previous=SignedDocument(record.previous.body, bytes(64))).signed_by(last),
        record.previous,
    ]
    for lie in lies:
        await refused(chain.receiver.begin(lie, delivery.key_set, delivery.releases), Reason.BAD_RECORD)
    assert await chain.receiver.begin(delivery.record, delivery.key_set, delivery.releases) == 0


async def test_a_hop_that_delivers_other_bytes_than_it_signed_is_refused(chain: Chain) -> None:
    delivery, record = await _last_record(chain)
    await chain.receiver.begin(delivery.record, delivery.key_set, delivery.releases)
    others = tuple(strangers(record.released, chain.task.counted_bytes[0]))
    await chain.receiver.put(Envelopes(delivery.batch, 0, others))
    await refused(chain.receiver.commit(delivery.batch, record.digest), Reason.DIGEST_DIFFERS)


async def test_a_hop_that_drops_reports_and_says_so_is_counted(chain: Chain) -> None:
    delivery, record = await _last_record(chain)
    width = chain.task.counted_bytes[0]
    kept = list(await chain.stores[-1].envelopes(delivery.batch, 0, width))[:6]
    said = dataclasses.replace(record, left_out={"unopenable": 2}, digest=released_digest(kept))
    signed = said.signed_by(chain.parties.hops[-1])
    chain.links[-1].incident = lambda _point: None

    async def chunk(offset: int) -> list[bytes]:
        return kept[offset:]

    sent = BatchDelivery(delivery.batch, signed, delivery.key_set, delivery.releases, said.digest, len(kept))
    committed = await deliver_batch(chain.links[-1], sent, chunk)
    assert committed == Committed(6, {"unopenable": 2})


async def test_a_round_that_is_over_for_the_analyzer_is_over_for_the_hops(chain: Chain) -> None:
    envelopes = await chain.seal(SYMBOLS)
    delivery = await chain.delivery(envelopes)
    keys = [await store.key(chain.task.id, 0) for store in chain.stores]
    await chain.analyzer_store.abandon(chain.task.id, 0)
    await refused(chain.deliver(delivery, envelopes), Reason.ERASED)
    for index, key in enumerate(keys):
        assert key is not None
        assert key.private is not None
        left = chain.files(f"hop-{index + 2}")
        assert key.private not in left
        assert not [envelope for envelope in envelopes if envelope in left]
    await refused(chain.deliver(delivery, envelopes), Reason.ERASED)


async def test_a_key_record_holds_those_of_all_behind(chain: Chain) -> None:
    first = await chain.hops[0].get_key(chain.task.id, 0)
    assert await chain.hops[0].get_key(chain.task.id, 0) == first
    inside = KeyRecord.read(first, chain.parties.hops[0].public)
    for hop in chain.parties.hops[1:]:
        assert (inside.role, inside.round) == (Role.HOP, 0)
        assert inside.behind is not None
        inside = KeyRecord.read(inside.behind, hop.public)
    assert inside.behind == await chain.receiver.get_key(chain.task.id, 0)


async def test_without_the_key_behind_it_a_hop_gives_none(chain: Chain) -> None:
    chain.links[-1].incident = _broken_at("get_key")
    await refused(chain.links[0].get_key(chain.task.id, 0, 1), Reason.NOT_READY)
    chain.links[-1].incident = lambda _point: None
    chain.links[-1].to = _Stranger(chain)
    message = await refused(chain.links[-2].get_key(chain.task.id, 0, 1), Reason.NOT_READY)
    assert "is not valid" in message
    assert [await store.key(chain.task.id, 0) for store in chain.stores] == [None] * len(chain.stores)


class _Stranger:
    """Somebody in the analyzer's place, with an identity of their own."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    async def get_key(self, task_id: bytes, round_number: int) -> SignedDocument:
        task = self._chain.task
        record = KeyRecord(Role.ANALYZER, task_id, round_number, task.suite, task.hpke.generate_key()[1], 0, 2**33)
        return record.signed_by(Identity.generate())


async def test_what_the_analyzer_knows_of_releases_is_asked_through_the_chain(chain: Chain) -> None:
    assert (await chain.links[0].get_releases(chain.task.id, 1)).count == 0
    await chain.delivered(SYMBOLS)
    known = await chain.links[0].get_releases(chain.task.id, 1)
    assert (known.count, known.head) == (1, head_after(chain.task.id, chain.released))
    chain.links[-1].incident = _broken_at("get_releases")
    await refused(chain.links[0].get_releases(chain.task.id, 1), Reason.NOT_READY)


async def test_what_a_hop_does_not_know_is_refused(chain: Chain) -> None:
    message = await refused(chain.hops[0].get_key(bytes(32), 0), Reason.UNKNOWN_TASK)
    # A hop that has the file of a task that does not name it does not start, and the whole chain stands still.
    assert message.startswith("hop-2 has no task 0000000000000000…; if the task names this hop, add its file to the")
    # A hop takes tasks of the feed, too, and so does the shuffler before it (`hubbub tasks publish`).
    assert "the hop's `tasks`, or its entry to the hop's `feed`; " in message
    assert message.endswith("remove its file from the shuffler's `tasks`, or end it there (`hubbub tasks end`)")
    await refused(chain.hops[0].get_key(chain.task.id, chain.task.schedule.rounds), Reason.UNKNOWN_ROUND)
    await refused(chain.hops[0].commit(BatchId(chain.task.id, 0, 0), bytes(32)), Reason.INCOMPLETE)
    short = await chain.seal([0])
    await refused(chain.hops[0].put(Envelopes(BatchId(chain.task.id, 0, 0), 0, (short[0][1:],))), Reason.MALFORMED)


async def test_started_again_a_hop_asks_for_the_announcement_again(chain: Chain) -> None:
    envelopes = await chain.seal(SYMBOLS)
    delivery = await chain.delivery(envelopes)
    chain.links[0].incident = _broken_at("commit")
    with pytest.raises(Unreachable):
        await chain.deliver(delivery, envelopes)
    await chain.restart()
    message = await refused(chain.links[0].commit(delivery.batch, delivery.digest, 1), Reason.NOT_READY)
    assert "begin the delivery again" in message
    assert await chain.deliver(delivery, envelopes) == Committed(8, {})
