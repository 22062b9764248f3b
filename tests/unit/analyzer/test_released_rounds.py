"""The chain of released rounds goes on where it was, a fork is refused, and certificates wait for all."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from unit.analyzer.conftest import SYMBOLS, Bench, rounds_in

from hubbub.analyzer.certifier import accountant_statement
from hubbub.analyzer.metrics import REFUSED
from hubbub.analyzer.server import check_store
from hubbub.protos.records.batch import BatchRecord
from hubbub.protos.records.release_chain import ChainPosition, Known, Release, ReleaseChunk, first_head, head_after
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.admission import OPEN
from hubbub.service.errors import StoreError
from hubbub.verification.certificate import Pins, verify

pytestmark = pytest.mark.usefixtures("composed_once")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path / "data", admission=OPEN)
    await bench.start()
    yield bench
    await bench.stop()


async def envelopes_of(bench: Bench, number: int) -> list[list[bytes]]:
    return [await bench.seal(query, symbols, number) for query, symbols in enumerate(SYMBOLS)]


async def prepared(bench: Bench, number: int) -> tuple[list[list[bytes]], list[BatchRecord], ReleaseChunk]:
    """A round that is released, and not delivered."""
    batches = await envelopes_of(bench, number)
    return batches, *(await bench.released(batches, number))


async def deliver(
    bench: Bench, number: int, of: tuple[list[list[bytes]], list[BatchRecord], ReleaseChunk], queries: int | None = None
) -> None:
    batches, records, releases = of
    for query, record in enumerate(records[:queries]):
        await bench.begin(record, releases=releases)
        await bench.put(query, 0, batches[query], number)
        await bench.receiver.commit(record.batch, record.digest)
    await bench.certifier.settle()


async def refused(bench: Bench, record: BatchRecord, releases: ReleaseChunk, reason: Reason, *words: str) -> None:
    before = await bench.store.known(bench.task.id)
    with pytest.raises(Refusal) as caught:
        await bench.begin(record, releases=releases)
    assert caught.value.reason is reason, caught.value
    assert all(word in caught.value.message for word in words), caught.value.message
    assert await bench.store.known(bench.task.id) == before


async def body_of(bench: Bench, number: int) -> dict[str, Any]:
    certificate = (await bench.results.get_results(bench.task.id, number, 0)).certificate
    body: dict[str, Any] = json.loads(certificate)["body"]
    return body


async def test_a_chain_goes_on_from_round_to_round_and_is_told(bench: Bench) -> None:
    assert await bench.receiver.get_releases(bench.task.id) == Known(0, first_head(bench.task.id))
    await bench.deliver_round(0)
    of = await prepared(bench, 1)
    # Only what the analyzer lacks need be sent.
    await deliver(bench, 1, (of[0], of[1], ReleaseChunk(1, of[2].releases[1:])))
    head = head_after(bench.task.id, bench.chain)
    assert await bench.receiver.get_releases(bench.task.id) == Known(2, head)
    await bench.restart()
    await check_store(bench.store)
    assert await bench.receiver.get_releases(bench.task.id) == Known(2, head)


async def test_the_same_announcement_may_come_again_at_any_time(bench: Bench) -> None:
    first, key_set = await prepared(bench, 0), await bench.key_set(0)
    for _ in range(3):
        await bench.begin(first[1][0], releases=first[2])
    await deliver(bench, 0, first)
    await bench.deliver_round(1)
    assert await bench.begin(first[1][0], key_set, first[2]) == len(SYMBOLS[0])
    assert bench.incidents.report().incidents == ()


async def test_a_round_in_the_place_of_another_is_refused_as_forked_and_told_until_the_right_one_comes(
    bench: Bench,
) -> None:
    await bench.deliver_round(0)
    kept = list(bench.chain)
    of_1 = await prepared(bench, 1)
    # The shuffler's store is put back to before round 1: it knows nothing of it, and releases round 2 next.
    await bench.begin(of_1[1][0], releases=of_1[2])
    bench.chain = kept
    _, records, releases = await prepared(bench, 2)
    told = "its release at position 1 is of round 2 now, and was of round 1 before"
    await refused(bench, records[0], releases, Reason.FORKED, told, "old copy", "end the task")
    (incident,) = bench.incidents.report().incidents
    assert (incident.kind, told in incident.text) == ("peer", True)
    assert Reason.FORKED in REFUSED
    await deliver(bench, 1, of_1)
    assert bench.incidents.report().incidents == ()


async def test_a_round_that_is_released_once_more_is_refused_as_forked(bench: Bench) -> None:
    first = await prepared(bench, 0)
    await bench.begin(first[1][0], releases=first[2])
    bench.chain.clear()
    _, records, releases = await prepared(bench, 0)
    await refused(
        bench,
        records[0],
        releases,
        Reason.FORKED,
        "its release of round 0 has other contents than the one that it sent before",
    )


async def test_a_record_whose_head_is_not_that_of_the_rounds_before_is_refused(bench: Bench) -> None:
    await bench.deliver_round(0)
    _, records, releases = await prepared(bench, 1)
    wrong = dataclasses.replace(records[0], position=ChainPosition(1, bytes(32)))
    own = dataclasses.replace(
        releases.releases[-1],
        records=Release.signed(
            1, 0, 0, [each.signed_by(bench.parties.shuffler) for each in (wrong, records[1])]
        ).records,
    )
    forged = ReleaseChunk(0, (*releases.releases[:-1], own))
    await refused(bench, wrong, forged, Reason.FORKED, "the head before round 1 is not that of")


async def test_releases_that_do_not_hold_in_themselves_are_refused(bench: Bench) -> None:
    await bench.deliver_round(0)
    _, (record, other), releases = await prepared(bench, 1)
    first, own = releases.releases
    shorter = dataclasses.replace(own, reports=4)
    for wrong, reason, word in (
        (ReleaseChunk(), Reason.BAD_RECORD, "do not end with its round; send all"),
        (ReleaseChunk(0, (own,)), Reason.BAD_RECORD, "do not end with its round; send all"),
        (ReleaseChunk(0, (first, shorter)), Reason.BAD_RECORD, "has 4 reports; it must have 5"),
        (
            ReleaseChunk(0, (first, dataclasses.replace(own, reports=9))),
            Reason.BAD_RECORD,
            "not the one in the release",
        ),
        (ReleaseChunk(0, (first, dataclasses.replace(own, round=2))), Reason.BAD_RECORD, "not the one in the release"),
        (
            ReleaseChunk(0, (first, dataclasses.replace(own, records=own.records[::-1]))),
            Reason.BAD_RECORD,
            "not the one",
        ),
        (ReleaseChunk(0, (own, own)), Reason.FORKED, "is of round 1 now, and was of round 0"),
    ):
        await refused(bench, record, wrong, reason, word)
    await bench.begin(record, releases=releases)
    # The second batch of a round must be the one that the round's release holds.
    changed = dataclasses.replace(other, digest=bytes(32))
    await refused(bench, changed, releases, Reason.BAD_RECORD, "not the one in the release")


async def test_releases_behind_a_gap_are_asked_for(bench: Bench) -> None:
    await prepared(bench, 0)
    _, records, releases = await prepared(bench, 1)
    late = ReleaseChunk(1, releases.releases[1:])
    await refused(bench, records[0], late, Reason.INCOMPLETE, "0 releases are known here; send those from position 0")


async def test_a_round_twice_in_the_chain_is_refused(bench: Bench) -> None:
    first = await prepared(bench, 0)
    await bench.begin(first[1][0], releases=first[2])
    _, records, releases = await prepared(bench, 0)
    await refused(bench, records[0], releases, Reason.BAD_RECORD, "a round occurs twice among the releases")


async def test_a_certificate_waits_until_what_was_released_before_is_counted(bench: Bench) -> None:
    first, second = await prepared(bench, 0), await prepared(bench, 1)
    await deliver(bench, 1, second)
    with pytest.raises(Refusal, match="being made once round 0 is counted, released before it"):
        await bench.results.get_results(bench.task.id, 1, 0)
    (status,) = [each for each in await bench.results.get_statuses(None) if each.id.round == 1]
    assert status.waiting_for == "its certificate once round 0 is counted, released before it"
    assert bench.incidents.report().incidents == ()
    await deliver(bench, 0, first)
    assert [round_id.round for round_id in await bench.results.list_results(None)] == [0, 1]
    assert rounds_in(await body_of(bench, 1)) == [0, 1]


async def test_certificates_compose_what_was_released_before_in_its_order(bench: Bench) -> None:
    for number in (1, 0, 2):
        await bench.deliver_round(number)
    found = {number: rounds_in(await body_of(bench, number)) for number in range(3)}
    assert found == {1: [1], 0: [1, 0], 2: [1, 0, 2]}
    body = await body_of(bench, 2)
    assert body["releases"] == [release.content() for release in bench.chain[:2]]
    assert (body["uncounted"], "earlier" in body) == ([], False)


async def test_a_round_whose_key_is_gone_stands_at_the_minimum_in_what_verifies(bench: Bench) -> None:
    bench.state = accountant_statement
    await bench.restart()
    await prepared(bench, 0)
    second = await prepared(bench, 1)
    await deliver(bench, 1, second)
    assert await bench.results.list_results(None) == []
    # Its time is over, and no batch of it came: nobody will ever open it. It was released all the same.
    key = await bench.store.key(bench.task.id, 0)
    assert key is not None
    assert await bench.store.expire_keys(2.0**36) == 1
    await bench.certifier.run()
    parties = bench.parties
    pins = Pins(parties.operator.public, parties.shuffler.public, parties.analyzer.public)
    verified = verify((await bench.results.get_results(bench.task.id, 1, 0)).certificate, pins)
    assert verified.content["uncounted"] == [0]
    assert [each["valid"] for each in verified.content["all_rounds"]["history"][0]["queries"]] == [5, 5]
    assert await bench.receiver.get_releases(bench.task.id) == Known(2, head_after(bench.task.id, bench.chain), (0,))


async def test_a_round_that_never_gets_whole_holds_up_no_other_for_ever(bench: Bench) -> None:
    first, second = await prepared(bench, 0), await prepared(bench, 1)
    await deliver(bench, 0, first, queries=1)
    await deliver(bench, 1, second)
    await bench.certifier.run()
    key = await bench.store.key(bench.task.id, 0)
    assert key is not None
    assert await bench.results.list_results(None) == []
    # One query of round 0 was counted, and the other never comes: once its key's time is over, round 1 goes on.
    assert await bench.store.expire_keys(0.0) == 0
    assert await bench.store.expire_keys(2.0**36) == 1
    await bench.certifier.run()
    assert [found.round for found in await bench.results.list_results(None)] == [1]
    with pytest.raises(Refusal) as caught:
        await deliver(bench, 0, first)
    assert caught.value.reason is Reason.ERASED


async def test_a_store_whose_chain_was_changed_is_refused(bench: Bench) -> None:
    await bench.deliver_round(0)
    chains, records = await bench.store.chains(), await bench.store.records()
    ((task_id, ((release, head),)),) = chains.items()

    class Changed:
        """The store, with other releases."""

        def __init__(self, release: Release | None, head: bytes = head) -> None:
            self._chains = {} if release is None else {task_id: [(release, head)]}

        async def chains(self) -> Any:
            return self._chains

        async def records(self) -> Any:
            return records

    other = dataclasses.replace(release, records=(bytes(32),) * 2)
    for wrong, word in (
        (Changed(None), "round 0 was signed, and is not among them"),
        (Changed(release, bytes(32)), "the release at position 0 was changed"),
        (Changed(other), "the release at position 0 was changed"),
        (Changed(other, head_after(task_id, [other])), "round 0 was signed, and is not among them"),
    ):
        with pytest.raises(StoreError, match=word):
            await check_store(wrong)  # type: ignore[arg-type]
