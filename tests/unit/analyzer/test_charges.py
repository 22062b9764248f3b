"""A round is charged with the counts it pays for, verifiable, and never beyond the task's budget."""

from __future__ import annotations

import asyncio
import dataclasses
import sqlite3
from typing import TYPE_CHECKING

import pytest

from hubbub.accountant.spending.ledger import Ledger
from hubbub.analyzer.server import check_store
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.feed.budgets import PurposeBudget, PurposeSpending
from hubbub.protos.task.task import Privacy
from hubbub.service.errors import StoreError
from hubbub.service.ledger.ledgers import check_ledgers
from support.estimate_rows import counts
from support.krr_queries import INNER_BYTES
from support.messages import SPENT_SO_FAR
from support.samples import sample_task, signed

pytestmark = pytest.mark.usefixtures("composed_once")

if TYPE_CHECKING:
    from conftest import Bench

ONE_ROUND = Privacy(epsilon=10.0, delta=1e-2, epsilon_local=20.0, epsilon_total=4.0)
"""One round of five reports costs ε = 3.3, two 5.5."""


async def with_privacy(bench: Bench, privacy: Privacy) -> None:
    """Have the bench's task promise something else."""
    bench.store.close()
    bench.task = sample_task(bench.parties, minimum_reports=5, privacy=privacy)
    bench.signed = signed(bench.task, bench.parties)
    await bench.start()


async def ledger(bench: Bench) -> Ledger:
    charges = await bench.store.charges(bench.task.id)
    records = [(charge.entry, charge.digest) for charge in charges]
    return Ledger.from_records(bench.task.id.hex(), 100.0, 1e-2, records)


async def test_a_round_is_charged_whole_with_its_first_counts_at_the_minimum(bench: Bench) -> None:
    assert (await ledger(bench)).entries == ()
    batches = [await bench.seal(query, [0] * 8) for query in (0, 1)]
    await bench.released(batches)
    await bench.deliver(0, batches[0])
    charged = (await ledger(bench)).entries
    assert [(entry.round, entry.query, entry.part.reports) for entry in charged] == [(0, "carrier", 5), (0, "delay", 5)]
    await bench.deliver(1, batches[1])
    assert (await ledger(bench)).entries == charged


async def test_rounds_that_are_committed_together_are_all_in_the_chain(bench: Bench) -> None:
    rounds = [[await bench.seal(query, [0] * 8, number) for query in (0, 1)] for number in range(3)]
    for number, batches in enumerate(rounds):
        await bench.released(batches, number)
    await asyncio.gather(*(bench.deliver(0, batches[0], number) for number, batches in enumerate(rounds)))
    kept = await ledger(bench)
    kept.verify()
    assert {entry.key for entry in kept.entries} == {
        (number, name) for number in range(3) for name in ("carrier", "delay")
    }


async def test_a_round_beyond_the_budget_is_refused_at_begin_and_its_key_destroyed(bench: Bench) -> None:
    await with_privacy(bench, ONE_ROUND)
    await bench.deliver_round(0)
    envelopes = await bench.seal(0, [0] * 6, 1)
    with pytest.raises(Refusal, match=rf"charging round 1 .*budget is 4; {SPENT_SO_FAR}: .*round 0") as refused:
        await bench.deliver(0, envelopes, 1)
    assert refused.value.reason is Reason.OVER_BUDGET
    assert len((await ledger(bench)).entries) == 2
    with pytest.raises(Refusal) as gone:
        await bench.receiver.get_key(bench.task.id, 1)
    assert gone.value.reason is Reason.ERASED
    assert await bench.store.batch(bench.batch(0, 1)) is None


async def test_a_round_with_few_valid_reports_leaves_less_for_those_after_it(bench: Bench) -> None:
    """Two rounds of five valid reports fit this budget; not after one in which four of six could not be read."""
    await with_privacy(bench, dataclasses.replace(ONE_ROUND, epsilon_total=5.4))
    envelopes = await bench.seal(0, [0] * 6)
    spoilt = [*envelopes[:2], *(bytes(INNER_BYTES) for _ in range(4))]
    await bench.deliver_batches([spoilt, await bench.seal(1, [0] * 6)])
    with pytest.raises(Refusal, match=rf"charging round 1 .*budget is 5.4; {SPENT_SO_FAR}") as refused:
        await bench.deliver(0, await bench.seal(0, [0] * 6, 1), 1)
    assert refused.value.reason is Reason.OVER_BUDGET
    (await ledger(bench)).verify()


async def test_what_a_short_batch_costs_beyond_its_task_s_share_is_taken_from_the_purpose(bench: Bench) -> None:
    """One of six reports could be read: with the other query that costs ε 3.36, of a share of 3.1."""
    await with_privacy(bench, dataclasses.replace(ONE_ROUND, epsilon_total=3.1))
    other = signed(sample_task(bench.parties, name="other", minimum_reports=5, privacy=ONE_ROUND), bench.parties)
    await bench.store.add_tasks([other])
    bench.receiver._tasks = {each.task.id: each for each in (bench.signed, other)}
    budget = PurposeBudget("usage", 7.3, 0.1)
    tight, wide = (
        PurposeSpending(dataclasses.replace(budget, epsilon=each)).with_task(bench.task).with_task(other.task)
        for each in (7.3, 7.4)
    )
    bench.receiver._spending = lambda _task_id: tight
    envelopes = await bench.seal(0, [0] * 6)
    spoilt = [*envelopes[:1], *(bytes(INNER_BYTES) for _ in range(5))]
    # Its own round goes on, though the first batch turned out short.
    await bench.deliver_batches([spoilt, await bench.seal(1, [0] * 6)])
    bench.task, bench.signed, bench.chain = other.task, other, []
    says = r"cost more than the shares of their tasks \(flights ε 0.26.*of purpose usage ε 7.1 of 7.3 is spent"
    with pytest.raises(Refusal, match=says) as refused:
        await bench.deliver(0, await bench.seal(0, [0] * 6))
    assert refused.value.reason is Reason.OVER_BUDGET
    assert (await ledger(bench)).entries == ()
    bench.receiver._spending = lambda _task_id: wide
    bench.chain = []
    assert (await bench.deliver(0, await bench.seal(0, [0] * 6, 1), 1)).counted == 6


async def test_a_round_that_was_begun_within_the_budget_is_refused_at_commit_beyond_it(bench: Bench) -> None:
    await with_privacy(bench, ONE_ROUND)
    envelopes = await bench.seal(0, [0] * 6, 1)
    (record, _), _ = await bench.released([envelopes, await bench.seal(1, [0] * 6, 1)], 1)
    await bench.begin(record)
    await bench.put(0, 0, envelopes, 1)
    await bench.deliver(0, await bench.seal(0, [0] * 6))
    with pytest.raises(Refusal) as refused:
        await bench.receiver.commit(record.batch, record.digest)
    assert refused.value.reason is Reason.OVER_BUDGET
    assert not any(envelope in bench.files() for envelope in envelopes)
    assert {entry.round for entry in (await ledger(bench)).entries} == {0}


async def test_what_was_paid_for_is_answered_again_though_the_budget_is_spent(bench: Bench) -> None:
    await with_privacy(bench, ONE_ROUND)
    envelopes = await bench.seal(0, [0] * 8)
    assert [(await bench.deliver(0, envelopes)).counted for _ in range(2)] == [8, 8]
    assert len((await ledger(bench)).entries) == 2


async def test_a_ledger_that_does_not_fit_what_was_counted_stops_the_start(bench: Bench) -> None:
    await bench.deliver(0, await bench.seal(0, [0] * 8))
    await check_store(bench.store)
    charges = await bench.store.charges(bench.task.id)
    task = bench.task.id
    check_ledgers("analyzer", {task: charges}, {(task, 0): 2})
    cheaper = dataclasses.replace(charges[0], entry=charges[0].entry.replace('"reports":5', '"reports":500'))
    for wrong, rounds in (
        ([cheaper, charges[1]], {(task, 0): 2}),
        (charges[1:], {(task, 0): 2}),
        (charges[:1], {(task, 0): 2}),
        ([], {(task, 0): 2}),
        (charges, {(task, 0): 2, (task, 1): 2}),
        (charges, {}),
    ):
        with pytest.raises(StoreError, match=r"ledger is invalid|the analyzer's ledger charges"):
            check_ledgers("analyzer", {task: wrong}, rounds)
    for statement in ("DROP TRIGGER ledger_is_not_shortened", "DELETE FROM ledger"):
        bench.store._database.writer.execute(statement)
    with pytest.raises(
        StoreError, match=f"charges 0 queries of round 0 of task {task.hex()}, but the store has outputs of 2"
    ):
        await check_store(bench.store)


# Dummies

WITH_DUMMIES = Privacy(epsilon=10.0, delta=1e-2, epsilon_local=20.0, dummies=4)


async def deliver_with_dummies(bench: Bench, *batches: tuple[list[int], list[int]]) -> None:
    """Deliver each query's real reports and dummies."""
    sealed = [await bench.seal(query, real + dummies) for query, (real, dummies) in enumerate(batches)]
    records = [
        await bench.record(query, envelopes, reports=len(real), dummies=len(dummies))
        for query, (envelopes, (real, dummies)) in enumerate(zip(sealed, batches, strict=True))
    ]
    bench.release(records)
    for query, (envelopes, record) in enumerate(zip(sealed, records, strict=True)):
        assert await bench.begin(record) == 0
        assert await bench.put(query, 0, envelopes) == len(envelopes)
        assert await bench.begin(record) == len(envelopes)
        await bench.receiver.commit(record.batch, record.digest)
        assert await bench.begin(record) == len(envelopes)


async def test_dummies_are_neither_reports_nor_valid_and_are_subtracted(bench: Bench) -> None:
    await with_privacy(bench, WITH_DUMMIES)
    await deliver_with_dummies(bench, ([0, 0, 0, 1, 1, 99], [0, 1, 2, 2]), ([0] * 6, [8, 3, 3, 0]))
    await bench.certifier.settle()
    carrier, delay = (await bench.results.get_results(bench.task.id, 0, 0)).queries
    assert (carrier.reports, carrier.valid, carrier.left_out) == (6, 5, {"out_of_domain": 1})
    assert (delay.reports, delay.valid, delay.left_out) == (6, 6, {})
    # gamma = 1/2: (N − 4/3 − 5/6)·2 for N = 4, 3, 2; they add up to the five.
    assert [round(count.value, 6) for count in counts(carrier.estimates)] == [3.666667, 1.666667, -0.333333]


async def test_dummies_do_not_make_a_minimum(bench: Bench) -> None:
    await with_privacy(bench, WITH_DUMMIES)
    envelopes = await bench.seal(0, [0] * 8)
    with pytest.raises(Refusal) as refused:
        await bench.begin(await bench.record(0, envelopes, reports=4, dummies=4))
    assert refused.value.reason is Reason.BELOW_MINIMUM


@pytest.mark.parametrize("dummies", [0, 3, 5])
async def test_a_batch_with_another_number_of_dummies_is_refused(bench: Bench, dummies: int) -> None:
    await with_privacy(bench, WITH_DUMMIES)
    envelopes = await bench.seal(0, [0] * (6 + dummies))
    with pytest.raises(Refusal, match="4 in every batch") as refused:
        await bench.begin(await bench.record(0, envelopes, reports=6, dummies=dummies))
    assert refused.value.reason is Reason.BAD_RECORD


async def test_fewer_good_envelopes_than_dummies_belie_the_record(bench: Bench) -> None:
    await with_privacy(bench, WITH_DUMMIES)
    envelopes = [bytes([number]) * INNER_BYTES for number in range(7)] + await bench.seal(0, [0] * 3)
    record = await bench.record(0, envelopes, reports=6, dummies=4)
    await bench.begin(record)
    await bench.put(0, 0, envelopes)
    with pytest.raises(Refusal, match="3 envelopes are valid") as refused:
        await bench.receiver.commit(record.batch, record.digest)
    assert refused.value.reason is Reason.BAD_RECORD


async def test_the_ledger_only_grows(bench: Bench) -> None:
    await bench.deliver(0, await bench.seal(0, [0] * 8))
    for statement in ("DELETE FROM ledger", "UPDATE ledger SET digest = ''"):
        with pytest.raises(sqlite3.IntegrityError, match="only grows"):
            bench.store._database.writer.execute(statement)
