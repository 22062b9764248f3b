"""A round of which hops pass nothing on that can be counted ends, is said to be over, and holds no later round up."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hubbub.analyzer.progress import Obstacles, progress_of, standing_of
from hubbub.analyzer.shortfall import nothing_counted
from hubbub.protos.batch import HopRecord, released_digest
from hubbub.protos.errors import Unreachable
from hubbub.protos.messages import Committed
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.results import Progress
from hubbub.protos.signed import SignedDocument
from hubbub.shuffler.release import Parcel, hand_over
from support.chain import Chain, strangers

SYMBOLS = [0, 1, 2, 0, 1, 2, 0, 0]
DUMMIES = 4


@pytest.fixture(params=[1, 2], ids=["one-hop", "two-hops"])
async def chain(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Chain]:
    made = Chain(tmp_path, request.param)
    await made.start()
    yield made
    made.close()


async def ended(chain: Chain, parcel: Parcel, envelopes: list[bytes]) -> str:
    """Deliver a batch that comes to nothing, and once more: the end is final. Returns what was said first."""
    with pytest.raises(Refusal) as first:
        await chain.deliver(parcel, envelopes)
    assert first.value.reason is Reason.NOTHING_LEFT
    with pytest.raises(Refusal) as again:
        await chain.deliver(parcel, envelopes)
    assert again.value.reason in (Reason.NOTHING_LEFT, Reason.ERASED)
    return first.value.message


async def lose(chain: Chain, hop: str) -> None:
    """All start anew, the hop on an empty store."""
    chain.close()
    shutil.rmtree(chain.at(hop))
    await chain.start()


async def deliver_whole(chain: Chain, number: int) -> None:
    sent = {query: await chain.seal(SYMBOLS, query, number) for query in range(2)}
    for query, parcel in (await chain.parcels(sent, number)).items():
        assert await chain.deliver(parcel, sent[query]) == Committed(len(SYMBOLS), {})


async def certified(chain: Chain, number: int) -> dict[str, object]:
    await chain.certifier.run()
    document = await chain.analyzer_store.certificate(chain.task.id, number)
    assert document is not None
    content: dict[str, object] = json.loads(document)["body"]
    return content


async def standing(chain: Chain, number: int) -> tuple[Progress, str]:
    progress = next(each for each in await chain.analyzer_store.progress(None) if each.id.round == number)
    return progress_of(progress), standing_of(progress, chain.task, Obstacles({chain.task.id}, False, {})).waiting_for


@pytest.mark.parametrize("hop", ["hop-2", "hop-3"])
async def test_a_hop_that_lost_its_store_ends_the_round_and_later_ones_do_not_wait(tmp_path: Path, hop: str) -> None:
    chain = Chain(tmp_path, 2)
    await chain.start()
    envelopes = await chain.seal(SYMBOLS)
    parcel = await chain.parcel(envelopes)
    held = [await store.key(chain.task.id, 0) for store in chain.stores]
    await lose(chain, hop)
    with capture_logs() as logs:
        message = await ended(chain, parcel, envelopes)
    assert f"{hop} lost its store, and with it the round's key" in message
    assert any(each["event"] == "nothing passed on" and each["log_level"] == "error" for each in logs)
    assert any(each["event"] == "round given up" for each in logs)
    state, waiting = await standing(chain, 0)
    assert (state, "its hops passed on 0 envelopes" in waiting) == (Progress.OVER, True)
    for key, party in zip(held, ("hop-2", "hop-3"), strict=True):
        assert key is not None
        assert key.private is not None
        assert key.private not in chain.files(party)
    await deliver_whole(chain, 1)
    assert (await certified(chain, 1))["uncounted"] == [0]
    chain.close()


async def test_a_hop_that_lost_its_store_after_a_batch_was_announced_ends_the_round(chain: Chain) -> None:
    """What was delivered with another record of the hop is not mistaken for another batch."""
    envelopes = await chain.seal(SYMBOLS)
    parcel = await chain.parcel(envelopes)
    chain.links[-1].trouble = broken_at("put")
    with pytest.raises(Refusal):
        await chain.deliver(parcel, envelopes)
    await lose(chain, "hop-2")
    assert "it was announced before, and now hop-2 passed on 0 of 8" in await ended(chain, parcel, envelopes)
    await deliver_whole(chain, 1)
    assert (await certified(chain, 1))["uncounted"] == [0]


async def test_a_hop_that_lost_its_store_after_all_was_counted_answers_what_was_counted(chain: Chain) -> None:
    sent = {query: await chain.seal(SYMBOLS, query) for query in range(2)}
    parcels = await chain.parcels(sent)
    for query, parcel in parcels.items():
        await chain.deliver(parcel, sent[query])
    await lose(chain, "hop-2")
    # The shuffler may not have heard of it.
    for query, parcel in parcels.items():
        assert await chain.deliver(parcel, sent[query]) == Committed(8, {})
    rounds = await chain.analyzer_store.progress(None)
    assert [batch.committed for each in rounds for batch in each.batches] == [Committed(8, {})] * 2
    assert (await certified(chain, 0))["uncounted"] == []


async def test_a_hop_that_lost_its_store_between_two_queries_ends_the_round(chain: Chain) -> None:
    sent = {query: await chain.seal(SYMBOLS, query) for query in range(2)}
    parcels = await chain.parcels(sent)
    await chain.deliver(parcels[0], sent[0])
    await lose(chain, "hop-2")
    assert await chain.deliver(parcels[0], sent[0]) == Committed(8, {})
    await ended(chain, parcels[1], sent[1])
    assert (await standing(chain, 0))[0] is Progress.OVER
    await deliver_whole(chain, 1)
    assert (await certified(chain, 1))["uncounted"] == [0]


async def test_while_who_comes_after_is_silent_a_lost_store_is_no_end(chain: Chain) -> None:
    envelopes = await chain.seal(SYMBOLS)
    parcel = await chain.parcel(envelopes)
    await lose(chain, "hop-2")
    chain.links[-1].trouble = broken_at("begin")
    with pytest.raises(Refusal) as refused:
        await chain.deliver(parcel, envelopes)
    assert refused.value.reason is Reason.NOT_READY
    chain.links[-1].trouble = lambda _point: None
    await ended(chain, parcel, envelopes)


def broken_at(call: str) -> Callable[[str], None]:
    def trouble(point: str) -> None:
        if point.startswith(f"before {call}"):
            raise Unreachable("broken")

    return trouble


# Hops that leave out


async def left_by_the_last(chain: Chain, kept: int, number: int = 0, query: int = 0) -> tuple[Parcel, list[bytes]]:
    """What the last hop delivers that leaves out all but so many of what it got, and says so."""
    envelopes = await chain.seal(SYMBOLS + [0] * DUMMIES, query, number)
    parcel = await chain.parcel(envelopes, query, number)
    chain.links[-1].trouble = broken_at("begin")
    with pytest.raises(Refusal):
        await chain.deliver(parcel, envelopes)
    chain.links[-1].trouble = lambda _point: None
    return await passing(chain, parcel, kept)


async def passing(chain: Chain, parcel: Parcel, kept: int) -> tuple[Parcel, list[bytes]]:
    """The same of a batch that the last hop has mixed."""
    width = chain.task.counted_bytes[parcel.batch.query]
    some = list(await chain.stores[-1].envelopes(parcel.batch, 0, width))[:kept]
    document = said_of(await last_record(chain, parcel), some, chain)
    return dataclasses.replace(parcel, record=document, digest=released_digest(some)), some


async def last_record(chain: Chain, parcel: Parcel) -> HopRecord:
    stored = await chain.stores[-1].batch(parcel.batch)
    assert stored is not None
    assert stored.mixed is not None
    return HopRecord.read(stored.mixed, chain.parties.hops[-1].public)


def said_of(record: HopRecord, envelopes: list[bytes], chain: Chain) -> SignedDocument:
    """The last hop's record of a list of its own choice."""
    lacking = record.received - len(envelopes)
    left_out = {"unopenable": lacking} if lacking else {}
    said = dataclasses.replace(record, left_out=left_out, digest=released_digest(envelopes))
    return said.signed_by(chain.parties.hops[-1])


async def to_the_analyzer(chain: Chain, parcel: Parcel, envelopes: list[bytes]) -> Committed:
    async def stretch(offset: int) -> list[bytes]:
        return envelopes[offset:]

    return await hand_over(chain.links[-1], parcel, stretch)


@pytest.fixture(params=[1, 2], ids=["one-hop", "two-hops"])
async def dummied(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Chain]:
    made = Chain(tmp_path, request.param, dummies=DUMMIES)
    await made.start()
    yield made
    made.close()


async def test_a_hop_that_leaves_out_all_but_as_many_as_are_dummies_ends_the_round(dummied: Chain) -> None:
    parcel, envelopes = await left_by_the_last(dummied, DUMMIES)
    with pytest.raises(Refusal, match=r"passed on 4 of 12 envelopes, and 4 of the batch are dummies") as refused:
        await to_the_analyzer(dummied, parcel, envelopes)
    assert refused.value.reason is Reason.NOTHING_LEFT
    assert (await standing(dummied, 0))[0] is Progress.OVER


async def test_one_that_leaves_out_less_is_counted_as_what_came(dummied: Chain) -> None:
    parcel, envelopes = await left_by_the_last(dummied, DUMMIES + 1)
    assert await to_the_analyzer(dummied, parcel, envelopes) == Committed(1, {"unopenable": 7})


async def test_a_hop_that_passes_on_what_nobody_sealed_ends_the_round(dummied: Chain) -> None:
    parcel, _ = await left_by_the_last(dummied, DUMMIES)
    garbage = strangers(12, dummied.task.counted_bytes[0])
    parcel = dataclasses.replace(
        parcel, record=said_of(await last_record(dummied, parcel), garbage, dummied), digest=released_digest(garbage)
    )
    with pytest.raises(Refusal, match=r"0 of the 12 envelopes that came through the hops are good") as refused:
        await to_the_analyzer(dummied, parcel, garbage)
    assert refused.value.reason is Reason.NOTHING_LEFT
    with pytest.raises(Refusal) as again:
        await to_the_analyzer(dummied, parcel, garbage)
    assert again.value.reason is Reason.ERASED
    assert "no report that its hops passed on could be counted" in (await standing(dummied, 0))[1]


async def test_beside_a_batch_that_was_counted_short_nothing_is_counted_as_nothing(dummied: Chain) -> None:
    """At the minimum the round would be stated to cost less than the short batch did, so it is not given up."""
    sent = {query: await dummied.seal(SYMBOLS + [0] * DUMMIES, query) for query in range(2)}
    parcels = await dummied.parcels(sent)
    dummied.links[-1].trouble = broken_at("begin")
    for query, parcel in parcels.items():
        with pytest.raises(Refusal):
            await dummied.deliver(parcel, sent[query])
    dummied.links[-1].trouble = lambda _point: None
    short = await passing(dummied, parcels[0], DUMMIES + 1)
    assert await to_the_analyzer(dummied, *short) == Committed(1, {"unopenable": 7})
    assert await to_the_analyzer(dummied, *await passing(dummied, parcels[1], 3)) == Committed(0, {"unopenable": 8})
    assert (await certified(dummied, 0))["uncounted"] == []


async def test_so_is_what_a_hop_lost_beside_it_and_the_round_becomes_whole(dummied: Chain) -> None:
    sent = {query: await dummied.seal(SYMBOLS + [0] * DUMMIES, query) for query in range(2)}
    parcels = await dummied.parcels(sent)
    dummied.links[-1].trouble = broken_at("begin")
    with pytest.raises(Refusal):
        await dummied.deliver(parcels[0], sent[0])
    dummied.links[-1].trouble = lambda _point: None
    await to_the_analyzer(dummied, *await passing(dummied, parcels[0], DUMMIES + 1))
    await lose(dummied, "hop-2")
    for _ in range(2):
        assert await dummied.deliver(parcels[1], sent[1]) == Committed(0, {"unopenable": 8})
    assert (await certified(dummied, 0))["uncounted"] == []


@pytest.mark.parametrize(
    ("left_out", "stated"),
    [
        ({"unopenable": 11}, {"unopenable": 8}),
        ({"unopenable": 6, "duplicate": 5}, {"unopenable": 3, "duplicate": 5}),
        ({"unopenable": 1, "duplicate": 1, "out_of_domain": 10}, {"unopenable": 1, "duplicate": 1, "out_of_domain": 6}),
        ({"unopenable": 4, "duplicate": 4, "out_of_domain": 1}, {"unopenable": 3, "duplicate": 4, "out_of_domain": 1}),
    ],
)
def test_what_is_left_out_of_a_batch_without_a_report_is_each_of_its_reports(
    left_out: dict[str, int], stated: dict[str, int]
) -> None:
    assert nothing_counted(8, left_out) == Committed(0, stated)
