from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from unit.analyzer.conftest import rounds_in

from hubbub.accountant.errors import AccountingError
from hubbub.analyzer.certifier import Certifier, accountant_statement
from hubbub.analyzer.records import Past
from hubbub.protos.errors import HubbubError, SignatureError
from hubbub.protos.identity.documents import SignedDocument, canonical, parse_canonical
from hubbub.protos.identity.formats import CERTIFICATE
from hubbub.protos.identity.keys import KeyRecord
from hubbub.protos.records.batch import BatchRecord, released_digest
from hubbub.protos.records.results import QueryState
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.task import Task
from hubbub.service.receiving.delivery_service import sweep
from hubbub.verification.certificate import Pins, verify
from support.estimate_rows import counts
from support.estimate_rows import number as number_of
from support.krr_queries import unary_query
from support.messages import DELIVERED_NOTHING
from support.patience import CALL_SECONDS, PATIENCE
from support.samples import Parties, sample_task, signed

pytestmark = pytest.mark.usefixtures("composed_once")

if TYPE_CHECKING:
    from conftest import Bench


def content(bench: Bench, certificate: bytes) -> dict[str, Any]:
    document = SignedDocument.from_json(parse_canonical(certificate))
    return document.content(CERTIFICATE, bench.parties.analyzer.public)


async def test_a_certificate_is_signed_canonical_and_holds(bench: Bench) -> None:
    bench.state = accountant_statement
    await bench.restart()
    batches = await bench.deliver_round()
    results = await bench.results.get_results(bench.task.id, 0, 0)
    body = content(bench, results.certificate)
    assert canonical(json.loads(results.certificate)) == results.certificate
    members = [
        "admission",
        "all_rounds",
        "batches",
        "counts_digest",
        "delta",
        "format",
        "honest_share",
        "ladder",
        "queries",
        "releases",
        "round",
        "round_total",
    ]
    assert sorted(body) == [*members, "successions", "task", "uncounted"]
    assert body["task"] == bench.signed.as_json()
    assert verify(results.certificate, Pins(analyzer=bench.parties.analyzer.public)).task == bench.task
    for query, batch in enumerate(body["batches"]):
        record = BatchRecord.read(SignedDocument.from_json(batch), bench.parties.shuffler.public)
        assert (record.batch, record.digest) == (bench.batch(query), released_digest(batches[query]))
    with pytest.raises(SignatureError):
        SignedDocument.from_json(json.loads(results.certificate)).content(
            CERTIFICATE, Parties.generate().analyzer.public
        )


async def test_a_round_is_certified_once_all_its_queries_are_committed(bench: Bench) -> None:
    first, envelopes = [await bench.seal(query, [0] * 6) for query in (0, 1)]
    await bench.released([first, envelopes])
    await bench.deliver(0, first)
    await bench.certifier.settle()
    with pytest.raises(Refusal, match=f"delay: {DELIVERED_NOTHING}") as refusal:
        await bench.results.get_results(bench.task.id, 0, 0)
    assert refusal.value.reason is Reason.NO_RESULTS
    await bench.begin(await bench.record(1, envelopes))
    await bench.put(1, 0, envelopes[:4])
    with pytest.raises(Refusal, match=r"delay: 4 of 6 reports arrived$"):
        await bench.results.get_results(bench.task.id, 0, 0)
    await bench.deliver(1, envelopes)
    await bench.certifier.settle()
    assert [round_id.round for round_id in await bench.results.list_results(None)] == [0]


async def test_a_certificate_is_made_exactly_once(bench: Bench) -> None:
    await bench.deliver_round()
    first = (await bench.results.get_results(bench.task.id, 0, 0)).certificate
    await asyncio.gather(*(bench.certifier.run() for _ in range(3)))
    await bench.restart()
    await bench.certifier.run()
    assert (await bench.results.get_results(bench.task.id, 0, 0)).certificate == first
    assert len(await bench.results.list_results(None)) == 1


async def test_a_crash_between_the_last_commit_and_the_certificate_loses_nothing(bench: Bench) -> None:
    bench.receiver._committed = lambda: None
    await bench.deliver_round()
    assert await bench.results.list_results(None) == []
    await bench.restart()
    bench.certifier.start()
    results = await bench.results.get_results(bench.task.id, 0, 10)
    assert [query.valid for query in results.queries] == [8, 8]


async def test_erased_means_gone_from_the_files(bench: Bench) -> None:
    privates = []
    new_key = bench.receiver._new_key
    bench.receiver._new_key = lambda suite: privates.append(new_key(suite)) or privates[-1]  # type: ignore[func-returns-value]
    bench.receiver._committed = lambda: None
    batches = await bench.deliver_round()
    assert privates[0][0] in bench.files()
    assert all(envelope in bench.files() for envelopes in batches for envelope in envelopes)
    await bench.certifier.run()
    for _ in range(2):
        files = bench.files()
        assert privates[0][0] not in files
        assert not any(envelope[:16] in files or envelope[-16:] in files for batch in batches for envelope in batch)
        await bench.restart()
    with pytest.raises(Refusal) as refusal:
        await bench.receiver.get_key(bench.task.id, 0)
    assert refusal.value.reason is Reason.ERASED


async def test_a_crash_between_certificate_and_erasure_leaves_no_key_and_is_made_good_at_the_start(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    privates = []
    new_key = bench.receiver._new_key
    bench.receiver._new_key = lambda suite: privates.append(new_key(suite)) or privates[-1]  # type: ignore[func-returns-value]
    with monkeypatch.context() as crashing:
        crashing.setattr(bench.store, "erase_some", crash)
        batches = await bench.deliver_round()
    assert (await bench.results.get_results(bench.task.id, 0, 0)).queries
    assert privates[0][0] not in bench.files()
    assert batches[0][0] in bench.files()
    await bench.restart()
    await bench.certifier.run()
    files = bench.files()
    assert not any(envelope[:16] in files or envelope[-16:] in files for batch in batches for envelope in batch)


def crash(*_: object, **__: object) -> None:
    raise HubbubError("the process ends here")


async def test_under_the_minimum_of_valid_reports_a_query_is_withheld(bench: Bench) -> None:
    await bench.deliver_batches([await bench.seal(0, [0] * 8), await bench.seal(1, [7] * 4 + [99] * 4)])
    carrier, delay = (await bench.results.get_results(bench.task.id, 0, 0)).queries
    assert (carrier.state, delay.state) == (QueryState.PUBLISHED, QueryState.WITHHELD)
    assert (delay.reports, delay.valid, delay.left_out, delay.estimates) == (8, 4, {"out_of_domain": 4}, None)
    body = content(bench, (await bench.results.get_results(bench.task.id, 0, 0)).certificate)
    assert [query["state"] for query in body["queries"]] == ["published", "withheld"]
    stored = await bench.store.batches(bench.task.id, 0)
    assert [batch.counts is None for batch in stored] == [False, True]


async def test_history_is_every_round_that_was_released_before_in_order(bench: Bench) -> None:
    for number in (1, 0, 2):
        await bench.deliver_round(number)
    histories = {}
    for number in (0, 1, 2):
        body = content(bench, (await bench.results.get_results(bench.task.id, number, 0)).certificate)
        histories[number] = rounds_in(body)
    assert histories == {1: [1], 0: [1, 0], 2: [1, 0, 2]}
    assert [round_id.round for round_id in await bench.results.list_results(None)] == [1, 0, 2]


async def test_the_certificate_of_a_withheld_query_states_the_epsilon_reached(bench: Bench) -> None:
    bench.state = accountant_statement
    await bench.restart()
    await bench.deliver_batches([await bench.seal(0, [0] * 8), await bench.seal(1, [7] * 4 + [99] * 4)])
    body = content(bench, (await bench.results.get_results(bench.task.id, 0, 0)).certificate)
    assert [query["state"] for query in body["queries"]] == ["published", "withheld"]
    assert [query["left_out"] for query in body["queries"]] == [{}, {"out_of_domain": 4}]
    assert body["queries"][1]["epsilon_upper"] > 0


async def test_a_statement_that_fails_is_named_and_made_good_later(bench: Bench) -> None:
    def fail(task: Task, past: Past) -> dict[str, Any]:
        raise AccountingError("no bound known")

    bench.receiver._committed = lambda: None
    await bench.deliver_round()
    failing = Certifier(bench.parties.analyzer, bench.store, fail)
    bench.results._certifier = failing
    await failing.run()
    with pytest.raises(Refusal, match="no bound known"):
        await bench.results.get_results(bench.task.id, 0, 0)
    await bench.certifier.run()
    assert (await bench.results.get_results(bench.task.id, 0, 0)).queries


async def test_one_round_that_cannot_be_certified_keeps_no_other_from_it(bench: Bench) -> None:
    def fail_once(task: Task, past: Past) -> dict[str, Any]:
        if past.history[-1][0] == 0:
            raise ZeroDivisionError
        return quick(task, past)

    quick = bench.state
    bench.state = fail_once
    await bench.restart()
    for number in (0, 1):
        await bench.deliver_round(number)
    assert [round_id.round for round_id in await bench.results.list_results(None)] == [1]
    with pytest.raises(Refusal, match="could not be made: ZeroDivisionError"):
        await bench.results.get_results(bench.task.id, 0, 0)


async def test_results_carry_the_estimates_of_what_was_sent(bench: Bench) -> None:
    await bench.deliver_round()
    carrier, delay = (await bench.results.get_results(bench.task.id, 0, 0)).queries
    # gamma = 1/2: (N − 8/6)·2 for N = 4, 2, 2.
    assert [round(count.value, 9) for count in counts(carrier.estimates)] == [5.333333333, 1.333333333, 1.333333333]
    assert round(number_of(delay.estimates, "answered").value, 9) == round(8 - (2 - 8 / 18) * 2, 9)


async def test_unary_reports_are_counted_bit_by_bit_and_published(bench: Bench) -> None:
    """Beside kRR and in an envelope of its own width: p = 3/4, q = 1/4, so ĉ = (N − n/4)·2 at n valid reports."""
    carrier, delay = (query.question for query in bench.task.queries)
    queries = (unary_query(carrier, 3 * 2**30, 2**30), unary_query(delay, 3 * 2**30, 2**30, levels=7))
    bench.store.close()
    bench.task = sample_task(bench.parties, minimum_reports=5, queries=queries)
    bench.signed = signed(bench.task, bench.parties)
    await bench.start()
    four = [b"\x01", b"\x03", b"\x00", b"\x07", b"\x01", b"\x08", b"\xff"]
    nine = [b"\x00\x01", b"\x80\x00", b"\xff\x01", b"\x00\x00", b"\x01\x00", b"\x01\x02", b"\x00\x80"]
    await bench.deliver_batches([await bench.seal_reports(0, four), await bench.seal_reports(1, nine)])
    answered, timed = (await bench.results.get_results(bench.task.id, 0, 0)).queries
    for query in (answered, timed):
        assert (query.reports, query.valid, query.left_out) == (7, 5, {"out_of_domain": 2})
    # Bits 0, 1, 2 of the five valid ones are set 4, 2 and 1 times.
    assert [count.value for count in counts(answered.estimates)] == [5.5, 1.5, -0.5]
    assert number_of(answered.estimates, "answered").value == 5
    # The last bit, "no answer", is set twice, the first and the last step's twice, those between once.
    found = [(2 - 1.25) * 2, *[(1 - 1.25) * 2] * 6, (2 - 1.25) * 2]
    people = 5 - (2 - 1.25) * 2  # all but those without an answer
    assert number_of(timed.estimates, "answered").value == pytest.approx(people)
    total = -30 * people + sum(30 * step * count for step, count in enumerate(found))
    assert number_of(timed.estimates, "sum").value == pytest.approx(total)
    assert number_of(timed.estimates, "mean").value == pytest.approx(total / people)


async def test_waiting_is_bounded_and_ends_with_the_certificate(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for wait in (0.05, float("nan"), -1.0):
        with pytest.raises(Refusal):
            await bench.results.get_results(bench.task.id, 0, wait)
    monkeypatch.setattr("hubbub.analyzer.results.LONGEST_WAIT_SECONDS", PATIENCE)
    waiting = [asyncio.create_task(bench.results.get_results(bench.task.id, 0, PATIENCE)) for _ in range(3)]
    await asyncio.sleep(0)
    await bench.deliver_round()
    async with asyncio.timeout(CALL_SECONDS):
        assert len({(await each).certificate for each in waiting}) == 1


async def test_results_of_unknown_tasks_and_rounds_are_refused(bench: Bench) -> None:
    for call, reason in (
        (bench.results.get_results(bytes(32), 0, 0), Reason.UNKNOWN_TASK),
        (bench.results.list_results(bytes(32)), Reason.UNKNOWN_TASK),
        (bench.results.get_results(bench.task.id, 9, 0), Reason.UNKNOWN_ROUND),
    ):
        with pytest.raises(Refusal) as refusal:
            await call
        assert refusal.value.reason is reason


async def test_the_key_record_of_a_certified_round_still_stands_in_the_key_set(bench: Bench) -> None:
    """A shuffler whose acknowledgement got lost says Begin and Commit once more."""
    envelopes = await bench.seal(0, [0] * 6)
    record, key_set = await bench.record(0, envelopes), await bench.key_set()
    assert KeyRecord.read(key_set.analyzer, bench.parties.analyzer.public).round == 0
    await bench.deliver_batches([envelopes, await bench.seal(1, [0] * 6)])
    assert await bench.begin(record, key_set) == 6
    assert await bench.put(0, 0, envelopes) == 6
    assert (await bench.receiver.commit(record.batch, record.digest)).counted == 6


async def test_a_store_that_fails_while_rounds_are_looked_over_is_told_and_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failing = bench.store.uncertified, True

    async def fail() -> Any:
        if failing:
            raise RuntimeError("a bug")
        return await real()

    monkeypatch.setattr(bench.store, "uncertified", fail)
    await bench.deliver_round()
    await bench.certifier.settle()
    (incident,) = bench.incidents.now()
    assert incident.text.startswith("complete rounds could not be certified: a bug")
    failing = False
    bench.certifier.start()
    await bench.certifier.settle()
    assert bench.incidents.now() == ()
    assert (await bench.results.get_results(bench.task.id, 0, 0)).queries


async def test_the_sweep_survives_whatever_is_raised(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    tries, third = 0, asyncio.Event()

    async def fail(_now: float) -> int:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise RuntimeError("a bug")
        third.set()
        return 0

    monkeypatch.setattr(bench.store, "expire_keys", fail)
    monkeypatch.setattr("hubbub.service.receiving.delivery_service.SWEEP_SECONDS", 0.0)
    sweeping = asyncio.create_task(sweep(bench.store, lambda: 0.0, bench.incidents, bench.certifier.start))
    await asyncio.wait_for(third.wait(), CALL_SECONDS)
    assert not sweeping.done()
    sweeping.cancel()
    await asyncio.gather(sweeping, return_exceptions=True)
    await bench.certifier.settle()
