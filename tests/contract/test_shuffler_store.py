"""What every store of the shuffler promises (`hubbub.shuffler.stores.protocol`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contract.crashes import Step, Story, check_full_disk, check_kills, check_stays_full, refused
from contract.implementations import SHUFFLER_STORES, Implementation

from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import CredentialAction as KeyStep
from hubbub.protos.messages import RoundState
from hubbub.protos.records.batch import BatchId, BatchRecord, released_digest
from hubbub.protos.records.release_chain import Release, position_after
from hubbub.protos.refusals import Reason
from hubbub.protos.sealing.suites import SUITES, Suite
from hubbub.service.errors import StoreError
from hubbub.service.ledger.charges import Charge, LedgerMoved
from hubbub.service.ledger.ledgers import charges_for
from hubbub.service.receiving.round_keys import make_key
from hubbub.shuffler.keys import RoundKeyMaterial, make_keys
from hubbub.shuffler.mix.mix import RoundContents
from hubbub.shuffler.records import ANY_ROUND, InsertOutcome, Opened, RedeemedTicket, Revoked, Round
from hubbub.shuffler.stores.protocol import ShufflerStore
from hubbub.shuffler.stores.sqlite.enrollment import KEPT_SECONDS
from support.krr_queries import INNER_BYTES
from support.samples import Parties, sample_task

PARTIES = Parties.generate()
TASK = sample_task(PARTIES)
QUERIES = len(TASK.queries)

pytestmark = pytest.mark.parametrize("implementation", SHUFFLER_STORES, ids=str)
Kind = Implementation[ShufflerStore]


def keys_of(number: int) -> RoundKeyMaterial:
    analyzer = make_key(Role.ANALYZER, TASK, number, PARTIES.analyzer).record
    return make_keys(TASK, number, PARTIES.shuffler, analyzer)


def submission(number: int, digest: bytes = b"d" * 16) -> Opened:
    return Opened(number.to_bytes(16, "big"), digest, bytes([number]) * INNER_BYTES * QUERIES)


def charges(number: int, before: Sequence[Charge] = ()) -> list[Charge]:
    return charges_for(TASK, number, before)


def mixing(round_: Round) -> Any:
    """Work that gives the lists back in the order of their arrival; the real one draws, and nobody could compare."""

    def work(inners: RoundContents) -> None:
        arrived, position, records = b"".join(inners.arrived()), inners.position(), []
        width = INNER_BYTES * QUERIES
        for query in range(QUERIES):
            starts = range(query * INNER_BYTES, len(arrived), width)
            envelopes = b"".join(arrived[start : start + INNER_BYTES] for start in starts)
            inners.put_released(query, 0, envelopes)
            digest = released_digest([envelopes])
            batch = BatchId(round_.task_id, round_.number, query)
            record = BatchRecord(
                batch, len(arrived) // width, digest, b"k" * 32, "schedule", admission="open", position=position
            )
            records.append(record.signed_by(PARTIES.shuffler))
            inners.put_batch(query, digest, records[-1])
        inners.put_release(Release.signed(round_.number, len(arrived) // width, 0, records))

    return work


@pytest.fixture
async def store(implementation: Kind, tmp_path: Path) -> AsyncIterator[ShufflerStore]:
    store = implementation.open(tmp_path / "data")
    yield store
    await asyncio.to_thread(store.close)


async def a_round(store: ShufflerStore, number: int = 0, count: int = 3) -> Round:
    """An open round with keys that holds so many submissions."""
    round_ = await store.install(await store.add_round(TASK.id, number), keys_of(number))
    await store.insert(round_, [submission(each) for each in range(count)])
    return round_


async def mixed(store: ShufflerStore, number: int = 0) -> Round:
    cut = await store.cut(await a_round(store, number), "schedule", 0)
    return await store.mix(cut, mixing(cut), charges(number, await store.charges(TASK.id)))


# What devices are admitted with


def a_ticket(number: int, by: bytes = b"s", expires: int = 1000) -> RedeemedTicket:
    return RedeemedTicket(bytes([number]) * 16, by * 32, os.urandom(16), expires)


async def test_a_ticket_is_redeemed_once_and_keeps_its_number(store: ShufflerStore) -> None:
    first, second = a_ticket(1), a_ticket(2)
    assert await store.redeem([first, second]) == [first, second]
    copy, longer = a_ticket(1, b"t", 9000), a_ticket(1, expires=5000)
    kept = replace(first, expires=5000)
    assert await store.redeem([copy, longer, copy]) == [kept] * 3
    assert await store.redeemed() == 2


async def test_devices_are_revoked_whether_their_tickets_are_redeemed_or_not(store: ShufflerStore) -> None:
    early, late = a_ticket(1), a_ticket(2)
    await store.redeem([early])
    for _ in range(2):
        await store.revoke([early.device, late.device])
    assert await store.revoked() == Revoked(frozenset({early.device, late.device}), frozenset({early.number}))
    await store.redeem([late])
    assert (await store.revoked()).numbers == {early.number, late.number}


async def test_master_keys_are_prepared_activated_and_forgotten_and_each_step_may_be_repeated(
    store: ShufflerStore,
) -> None:
    assert await store.masters() == []
    states = []
    await store.redeem([a_ticket(1, expires=10), a_ticket(2, expires=11)])
    for step in (
        KeyStep(each) for each in ("status", "activate", "forget", "prepare", "activate", "prepare", "forget")
    ):
        for _ in range(2):
            await store.step_masters(step, os.urandom(32), 10 + KEPT_SECONDS)
        states.append([(each.generation, each.state.value) for each in await store.masters()])
    first, second, third = (1, "active"), (2, "active"), (3, "pending")
    assert states[:3] == [[first]] * 3
    assert states[3:5] == [[first, (2, "pending")], [(1, "retired"), second]]
    assert states[5:] == [[(1, "retired"), second, third], [second, third]]
    assert await store.redeemed() == 1
    assert len({each.secret for each in await store.masters()}) == 2


# Reading


async def test_a_new_store_holds_nothing(store: ShufflerStore) -> None:
    assert await store.rounds() == []
    assert await store.find(TASK.id, 0) is None
    assert await store.tally(TASK.id, 0) == {}
    assert list(await store.charges(TASK.id)) == []


async def test_rounds_are_told_in_the_order_in_which_they_were_begun(store: ShufflerStore) -> None:
    for number in (5, 1, 3):
        await store.add_round(TASK.id, number)
    assert [round_.number for round_ in await store.rounds()] == [5, 1, 3]


async def test_ids_are_looked_up_together_and_each_by_itself(store: ShufflerStore) -> None:
    round_, other = await a_round(store, 0, 2), await a_round(store, 1, 0)
    ids = [submission(number).id for number in (1, 7, 0)]
    assert await store.known(round_, ids) == [b"d" * 16, None, b"d" * 16]
    assert await store.known(other, ids) == [None] * 3
    assert await store.known(round_, []) == []


# Beginning


async def test_a_round_is_begun_once(store: ShufflerStore) -> None:
    first = await asyncio.gather(*(store.add_round(TASK.id, 0) for _ in range(5)))
    assert len({round_.key for round_ in first}) == 1
    assert len(await store.rounds()) == 1
    await store.cut(first[0], "schedule", 0)
    assert (await store.add_round(TASK.id, 0)).state is RoundState.CUT


async def test_a_round_has_the_first_keys_that_were_installed(store: ShufflerStore) -> None:
    round_ = await store.add_round(TASK.id, 0)
    assert round_.keys is None
    first, second = keys_of(0), keys_of(0)
    assert (await store.install(round_, first)).keys == first
    assert (await store.install(round_, second)).keys == first
    found = await store.find(TASK.id, 0)
    assert found is not None
    assert found.keys == first


@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
async def test_keys_are_kept_whole_whatever_their_suite(implementation: Kind, tmp_path: Path, suite: Suite) -> None:
    task = replace(TASK, suite=suite.name)
    analyzer = make_key(Role.ANALYZER, task, 0, PARTIES.analyzer).record
    keys = make_keys(task, 0, PARTIES.shuffler, analyzer)
    assert len(keys.private_key) == suite.private_key_bytes
    with contextlib.closing(implementation.open(tmp_path)) as store:
        await store.install(await store.add_round(task.id, 0), keys)
    with contextlib.closing(implementation.open(tmp_path)) as store:
        found = await store.find(task.id, 0)
    assert found is not None
    assert found.keys == keys


async def test_a_round_that_is_cut_gets_no_keys(store: ShufflerStore) -> None:
    round_ = await store.add_round(TASK.id, 0)
    await store.cut(round_, "schedule", 0)
    assert (await store.install(round_, keys_of(0))).keys is None


# Holding


async def test_each_submission_of_a_call_is_held_by_itself(store: ShufflerStore) -> None:
    round_ = await store.add_round(TASK.id, 0)
    outcomes = await store.insert(round_, [submission(1), submission(1), submission(1, b"e" * 16), submission(2)])
    assert outcomes == [InsertOutcome.STORED, InsertOutcome.DUPLICATE, InsertOutcome.CONFLICT, InsertOutcome.STORED]
    assert await store.submissions(round_) == 2
    assert await store.insert(round_, [submission(2), submission(1, b"e" * 16)]) == [
        InsertOutcome.DUPLICATE,
        InsertOutcome.CONFLICT,
    ]


async def test_a_round_holds_no_more_than_its_most_and_knows_what_it_holds(store: ShufflerStore) -> None:
    round_ = await store.add_round(TASK.id, 0)
    assert await store.insert(round_, [submission(1), submission(2), submission(3)], most=2) == [
        *[InsertOutcome.STORED] * 2,
        InsertOutcome.FULL,
    ]
    assert await store.insert(round_, [submission(3), submission(1), submission(2, b"e" * 16)], most=2) == [
        InsertOutcome.FULL,
        InsertOutcome.DUPLICATE,
        InsertOutcome.CONFLICT,
    ]
    calls = [store.insert(round_, [submission(number)], most=10) for number in range(3, 20)]
    outcomes = [outcome for found in await asyncio.gather(*calls) for outcome in found]
    assert (outcomes.count(InsertOutcome.STORED), outcomes.count(InsertOutcome.FULL)) == (8, 9)
    assert await store.submissions(round_) == 10
    assert (await store.tally(TASK.id, 0))["round_full"] == 11


async def test_the_same_id_in_another_round_is_another_submission(store: ShufflerStore) -> None:
    one, other = await store.add_round(TASK.id, 0), await store.add_round(TASK.id, 1)
    assert await store.insert(one, [submission(1)]) == [InsertOutcome.STORED]
    assert await store.insert(other, [submission(1, b"e" * 16)]) == [InsertOutcome.STORED]


async def test_calls_that_come_together_hold_an_id_once(store: ShufflerStore) -> None:
    round_ = await store.add_round(TASK.id, 0)
    calls = [store.insert(round_, [submission(1, bytes([number]) * 16)]) for number in range(20)]
    outcomes = [outcome for found in await asyncio.gather(*calls) for outcome in found]
    assert sorted(outcome.value for outcome in outcomes) == ["conflict"] * 19 + ["new"]
    assert await store.submissions(round_) == 1


async def test_what_is_not_new_is_counted_with_what_did_not_open(store: ShufflerStore) -> None:
    round_ = await a_round(store, 0, 2)
    await store.insert(round_, [submission(0), submission(1, b"e" * 16)], unopenable=3)
    assert await store.tally(TASK.id, 0) == {"retried": 1, "id_conflict": 1, "unopenable": 3}


# Counting


async def test_counts_of_rounds_that_never_began_are_the_task_s(store: ShufflerStore) -> None:
    await store.add_round(TASK.id, 0)
    store.count(TASK.id, 0, {"too_early": 2})
    store.count(TASK.id, 99, {"unknown_round": 3})
    store.count(b"", ANY_ROUND, {"unknown_task": 4})
    assert await store.tally(TASK.id, 0) == {"too_early": 2}
    assert await store.tally(TASK.id, ANY_ROUND) == {"unknown_round": 3}
    assert await store.tally(b"", ANY_ROUND) == {"unknown_task": 4}
    assert await store.tally(TASK.id, 99) == {}


async def test_counts_are_there_after_the_store_was_closed(implementation: Kind, tmp_path: Path) -> None:
    with contextlib.closing(implementation.open(tmp_path)) as store:
        round_ = await store.add_round(TASK.id, 0)
        for _ in range(3):
            store.count(TASK.id, 0, {"wrong_size": 2})
    with contextlib.closing(implementation.open(tmp_path)) as store:
        assert await store.tally(TASK.id, round_.number) == {"wrong_size": 6}


# Cutting


async def test_the_cut_fixes_the_numbers(store: ShufflerStore) -> None:
    round_ = await a_round(store, 0, 3)
    store.count(TASK.id, 0, {"too_early": 2})
    cut = await store.cut(round_, "schedule", 100)
    assert (cut.state, cut.submissions, cut.closed_by) == (RoundState.CUT, 3, "schedule")
    assert cut.refusals_at_cut == {"too_early": 2}
    assert await store.insert(round_, [submission(0), submission(9), submission(1, b"e" * 16)]) == [
        InsertOutcome.DUPLICATE,
        InsertOutcome.CUT,
        InsertOutcome.CONFLICT,
    ]
    assert await store.submissions(round_) == 3
    again = await store.cut(round_, "operator", 0)
    assert again == cut == await store.find(TASK.id, 0)
    assert (await store.tally(TASK.id, 0))["too_late"] == 1


async def test_the_operator_cuts_from_the_minimum_on(store: ShufflerStore) -> None:
    round_ = await a_round(store, 0, 3)
    assert (await refused(store.cut(round_, "operator", 4))).reason is Reason.BELOW_MINIMUM
    found = await store.find(TASK.id, 0)
    assert found is not None
    assert found.state is RoundState.OPEN
    assert (await store.cut(round_, "operator", 3)).closed_by == "operator"


async def test_nothing_is_held_after_the_cut_whatever_comes_together(store: ShufflerStore) -> None:
    round_ = await a_round(store, 0, 0)
    holding = [asyncio.ensure_future(store.insert(round_, [submission(number)])) for number in range(10)]
    cutting = asyncio.ensure_future(store.cut(round_, "schedule", 0))
    holding += [asyncio.ensure_future(store.insert(round_, [submission(number)])) for number in range(10, 20)]
    outcomes = [outcome for found in await asyncio.gather(*holding) for outcome in found]
    assert (await cutting).submissions == outcomes.count(InsertOutcome.STORED) == await store.submissions(round_)


# Mixing


async def test_mixing_stores_the_lists_charges_and_destroys_the_key(store: ShufflerStore) -> None:
    round_ = await mixed(store)
    assert round_.state is RoundState.MIXED
    assert round_.keys is not None
    assert round_.keys.private_key == b""
    assert list(await store.charges(TASK.id)) == charges(0)
    assert [batch.query for batch in await store.batches(round_)] == [0, 1]
    for query in range(QUERIES):
        envelopes = await store.envelopes(round_, query, 0, INNER_BYTES)
        assert envelopes == [bytes([number]) * INNER_BYTES for number in range(3)]
        assert await store.envelopes(round_, query, 2, INNER_BYTES) == envelopes[2:]
        assert await store.envelopes(round_, query, 3, INNER_BYTES) == []


async def test_a_round_is_mixed_and_charged_once(store: ShufflerStore) -> None:
    round_ = await mixed(store)
    batches = await store.batches(round_)

    def never(_inners: RoundContents) -> None:
        raise AssertionError("it was mixed before")

    assert await store.mix(round_, never, charges(0)) == round_
    assert await store.batches(round_) == batches
    assert len(await store.charges(TASK.id)) == QUERIES


async def test_a_release_is_stored_with_its_lists_behind_those_before_it(store: ShufflerStore) -> None:
    assert list(await store.releases(TASK.id)) == []
    for number in (1, 0):
        round_ = await mixed(store, number)
        releases = list(await store.releases(TASK.id))
        before, own = releases[:-1], releases[-1]
        records = [BatchRecord.read(each.record, PARTIES.shuffler.public) for each in await store.batches(round_)]
        assert {record.position for record in records} == {position_after(TASK.id, before)}
        assert own == Release.signed(number, 3, 0, [batch.record for batch in await store.batches(round_)])
    assert [release.round for release in releases] == [1, 0]
    # What is erased was released all the same.
    await store.erase(round_, RoundState.EXPIRED, "the analyzer refused it")
    assert list(await store.releases(TASK.id)) == releases
    assert list(await store.releases(bytes(32))) == []


async def test_work_that_fails_after_its_release_releases_nothing(store: ShufflerStore) -> None:
    cut = await store.cut(await a_round(store), "schedule", 0)

    def to_the_end(inners: RoundContents) -> None:
        mixing(cut)(inners)
        raise StoreError("the disk is full")

    with pytest.raises(StoreError):
        await store.mix(cut, to_the_end, charges(0))
    assert list(await store.releases(TASK.id)) == []


async def test_a_round_that_is_not_cut_is_not_mixed(store: ShufflerStore) -> None:
    round_ = await a_round(store)
    assert (await store.mix(round_, mixing(round_), charges(0))).state is RoundState.OPEN
    assert list(await store.charges(TASK.id)) == []


async def test_charges_that_do_not_follow_are_refused_and_nothing_is_mixed(store: ShufflerStore) -> None:
    await mixed(store, 0)
    cut = await store.cut(await a_round(store, 1), "schedule", 0)
    for wrong in (charges(1), charges(1, charges(0))[1:], charges(0)):
        with pytest.raises(LedgerMoved):
            await store.mix(cut, mixing(cut), wrong)
        found = await store.find(TASK.id, 1)
        assert found is not None
        assert found.state is RoundState.CUT
        assert await store.batches(cut) == []
    right = charges(1, await store.charges(TASK.id))
    assert (await store.mix(cut, mixing(cut), right)).state is RoundState.MIXED
    assert [charge.position for charge in await store.charges(TASK.id)] == [0, 1, 2, 3]


async def test_work_that_fails_leaves_the_round_as_it_was(store: ShufflerStore) -> None:
    cut = await store.cut(await a_round(store), "schedule", 0)

    def half(inners: RoundContents) -> None:
        inners.put_released(0, 0, b"".join(inners.arrived())[:INNER_BYTES])
        raise StoreError("two keys are equal")

    with pytest.raises(StoreError, match="two keys"):
        await store.mix(cut, half, charges(0))
    assert await store.find(TASK.id, 0) == cut
    assert await store.batches(cut) == []
    assert list(await store.charges(TASK.id)) == []
    assert (await store.mix(cut, mixing(cut), charges(0))).state is RoundState.MIXED


# Releasing and erasing


async def test_the_last_batch_that_is_committed_releases_the_round(store: ShufflerStore) -> None:
    round_ = await mixed(store)
    for _ in range(2):
        assert (await store.commit_batch(round_, 0)).state is RoundState.MIXED
    assert [batch.committed for batch in await store.batches(round_)] == [True, False]
    for _ in range(2):
        assert (await store.commit_batch(round_, 1)).state is RoundState.RELEASED


async def test_an_erased_round_keeps_numbers_and_signed_records(store: ShufflerStore) -> None:
    round_ = await mixed(store)
    records = [batch.record for batch in await store.batches(round_)]
    erased = await store.erase(round_, RoundState.EXPIRED, "beyond the budget")
    assert (erased.state, erased.reason, erased.submissions) == (RoundState.EXPIRED, "beyond the budget", 3)
    assert await store.erase(round_, RoundState.ERASED) == erased == await store.find(TASK.id, 0)
    assert [batch.record for batch in await store.batches(round_)] == records
    assert await store.envelopes(round_, 0, 0, INNER_BYTES) == []
    assert await store.known(round_, [submission(0).id]) == [None]
    assert await store.submissions(round_) == 3
    assert len(await store.charges(TASK.id)) == QUERIES


async def test_erasing_a_round_leaves_the_others(store: ShufflerStore) -> None:
    one, other = await a_round(store, 0), await a_round(store, 1)
    before = await store.find(TASK.id, 1)
    await store.erase(await store.cut(one, "schedule", 0), RoundState.EXPIRED)
    assert await store.find(TASK.id, 1) == before
    assert await store.known(other, [submission(1).id]) == [b"d" * 16]


# Durability


async def test_everything_is_there_after_it_was_closed(implementation: Kind, tmp_path: Path) -> None:
    with contextlib.closing(implementation.open(tmp_path)) as store:
        await mixed(store, 0)
        await a_round(store, 1)
        before = await describe(store)
    with contextlib.closing(implementation.open(tmp_path)) as store:
        assert await describe(store) == before


async def test_one_process_at_a_time_or_all_see_the_same(implementation: Kind, tmp_path: Path) -> None:
    with contextlib.closing(implementation.open(tmp_path)) as store:
        await store.add_round(TASK.id, 0)
        try:
            second = implementation.open(tmp_path)
        except StoreError:
            return
        with contextlib.closing(second):
            assert await second.rounds() == await store.rounds()


async def test_a_closed_store_says_so(implementation: Kind, tmp_path: Path) -> None:
    store = implementation.open(tmp_path)
    store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.add_round(TASK.id, 0)


async def describe(store: ShufflerStore) -> Any:
    """What a store holds, but for the counts of retries: a step that is done again is a retry."""
    ids = [submission(number).id for number in range(10)]
    rounds = []
    for round_ in await store.rounds():
        batches = await store.batches(round_)
        lists = [await store.envelopes(round_, batch.query, 0, INNER_BYTES) for batch in batches]
        held = await store.submissions(round_)
        rounds.append((round_, held, await store.known(round_, ids), batches, lists))
    return rounds, list(await store.charges(TASK.id)), list(await store.releases(TASK.id))


def a_life() -> Story[ShufflerStore]:
    """The story of a round, from its beginning until it is erased."""
    keys = keys_of(0)
    inners = [os.urandom(INNER_BYTES * QUERIES) for _ in range(4)]
    opened = [Opened(os.urandom(16), os.urandom(16), inner) for inner in inners]
    # Its number fixes it: nobody else's round is in the story.
    paid = charges(0)

    async def round_of(store: ShufflerStore) -> Round:
        return await store.add_round(TASK.id, 0)

    async def install(store: ShufflerStore) -> None:
        await store.install(await round_of(store), keys)

    async def insert(store: ShufflerStore) -> None:
        await store.insert(await round_of(store), opened[:2], 1)

    async def insert_more(store: ShufflerStore) -> None:
        await store.insert(await round_of(store), [opened[1], replace(opened[0], digest=bytes(16)), *opened[2:]])

    async def cut(store: ShufflerStore) -> None:
        await store.cut(await round_of(store), "schedule", 2)

    async def mix(store: ShufflerStore) -> None:
        round_ = await round_of(store)
        await store.mix(round_, mixing(round_), paid)

    async def commit(store: ShufflerStore, query: int) -> None:
        await store.commit_batch(await round_of(store), query)

    async def erase(store: ShufflerStore) -> None:
        await store.erase(await round_of(store), RoundState.ERASED)

    steps = [
        Step("begin", round_of),
        Step("install", install),
        Step("hold", insert),
        Step("hold more", insert_more),
        Step("cut", cut),
        Step("mix", mix),
        Step("commit 0", lambda store: commit(store, 0)),
        Step("commit 1", lambda store: commit(store, 1)),
        Step("erase", erase, whole=False),
    ]
    pieces = [inner[start : start + INNER_BYTES] for inner in inners for start in (0, INNER_BYTES)]
    return Story(steps, describe_life, [keys.private_key, keys.pseudonym_key, *(one.id for one in opened), *pieces])


async def describe_life(store: ShufflerStore) -> Any:
    """As `describe`, without what was refused until the cut, to which a step that is done again adds."""
    rounds, *rest = await describe(store)
    return [(replace(round_, refusals_at_cut={}), *of) for round_, *of in rounds], *rest


def an_enrollment() -> Story[ShufflerStore]:
    """The story of what devices are admitted with, until the first master key is forgotten."""
    first, second = os.urandom(32), os.urandom(32)
    tickets = [a_ticket(1, expires=5), a_ticket(2, expires=50)]

    async def step(store: ShufflerStore, name: str, secret: bytes = second) -> None:
        await store.step_masters(KeyStep(name), secret, 10)

    steps = [
        Step("begin", lambda store: step(store, "status", first)),
        Step("redeem", lambda store: store.redeem(tickets)),
        Step("revoke", lambda store: store.revoke([tickets[1].device, bytes(16)])),
        Step("prepare", lambda store: step(store, "prepare")),
        Step("activate", lambda store: step(store, "activate")),
        Step("forget", lambda store: step(store, "forget")),
    ]
    return Story(steps, describe_enrollment, [first])


async def describe_enrollment(store: ShufflerStore) -> Any:
    return await store.masters(), await store.redeemed(), await store.revoked()


async def test_killed_at_any_change_it_holds_what_was_answered_and_goes_on(
    implementation: Kind, tmp_path: Path
) -> None:
    assert await check_kills(implementation, tmp_path, a_life()) > 60


async def test_killed_while_devices_enroll_or_keys_are_turned_over_it_goes_on(
    implementation: Kind, tmp_path: Path
) -> None:
    assert await check_kills(implementation, tmp_path, an_enrollment()) > 20


async def test_a_disk_that_is_full_at_any_change_fails_what_was_asked_and_nothing_else(
    implementation: Kind, tmp_path: Path
) -> None:
    assert await check_full_disk(implementation, tmp_path, a_life()) > 30


async def test_a_disk_that_stays_full_is_told_until_there_is_room(implementation: Kind, tmp_path: Path) -> None:
    await check_stays_full(implementation, tmp_path, a_life())


async def test_no_key_is_left_when_its_round_is_mixed(implementation: Kind, tmp_path: Path) -> None:
    with contextlib.closing(implementation.open(tmp_path / "data")) as store:
        keys = keys_of(0)
        round_ = await store.install(await store.add_round(TASK.id, 0), keys)
        cut = await store.cut(round_, "schedule", 0)
        await store.mix(cut, mixing(cut), charges(0))
        implementation.copy(tmp_path / "data", tmp_path / "copy")
    files = b"".join(path.read_bytes() for path in (tmp_path / "copy").iterdir())
    assert keys.private_key not in files
