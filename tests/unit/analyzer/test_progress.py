"""Where rounds stand at the analyzer, as the operator sees it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs
from unit.analyzer.conftest import SYMBOLS, Bench

from hubbub.analyzer.progress import Obstacles, status_of
from hubbub.analyzer.server import tell_held
from hubbub.protos.errors import HubbubError
from hubbub.protos.records.results import AnalysisStage, AnalyzerRoundStatus, QueryStatus
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.schedule import at


async def status(bench: Bench, round_number: int = 0) -> AnalyzerRoundStatus:
    found = await bench.results.get_statuses(bench.task.id)
    assert found == await bench.results.get_statuses(None)
    return next(each for each in found if each.id.round == round_number)


async def test_a_round_is_followed_from_its_key_to_its_certificate(bench: Bench) -> None:
    assert await bench.results.get_statuses(None) == []
    envelopes = await bench.seal(0, SYMBOLS[0])
    awaited = await status(bench)
    assert (awaited.progress, awaited.queries) == (AnalysisStage.AWAITED, ())
    assert awaited.waiting_for == f"its delivery by the shuffler, which cuts it at {at(bench.task.schedule.cut(0))}"
    second = await bench.seal(1, SYMBOLS[1])
    (record, _), _ = await bench.released([envelopes, second])
    await bench.begin(record)
    await bench.put(0, 0, envelopes[:3])
    delivering = await status(bench)
    assert delivering.queries == (QueryStatus("carrier", 8, 8, 3, None, {}),)
    assert delivering.waiting_for.startswith("carrier: 3 of 8 reports arrived; delay: the shuffler")
    await bench.deliver(0, envelopes)
    counted = await status(bench)
    assert (counted.progress, counted.queries[0].valid) == (AnalysisStage.DELIVERING, 8)
    await bench.deliver(1, second)
    await bench.certifier.settle()
    certified = await status(bench)
    assert (certified.progress, certified.waiting_for) == (AnalysisStage.CERTIFIED, "nothing")
    assert [query.valid for query in certified.queries] == [8, 8]


async def test_an_awaited_round_that_the_operator_may_close_is_cut_at_the_latest_at_its_end(bench: Bench) -> None:
    await bench.key_set()
    progress = (await bench.store.progress(bench.task.id))[0]
    task = replace(bench.task, schedule=replace(bench.task.schedule, close="operator"))
    found = status_of(progress, task, Obstacles({task.id}, False, {}))
    assert found.waiting_for == (f"its delivery by the shuffler, which cuts it at {at(task.schedule.cut(0))} or before")


async def test_rounds_are_in_the_order_of_their_openings(bench: Bench) -> None:
    for number in (2, 0, 1):
        await bench.key_set(number)
    assert [each.id.round for each in await bench.results.get_statuses(None)] == [0, 1, 2]


async def test_why_a_certificate_failed_is_said(bench: Bench) -> None:
    def fails(*_: object) -> dict[str, object]:
        raise HubbubError("no statement today")

    bench.certifier._state = fails
    await bench.deliver_round()
    found = await status(bench)
    assert found.progress is AnalysisStage.COUNTED
    assert found.waiting_for == "its certificate, which failed: no statement today"


async def test_a_round_whose_key_expired_waits_for_nothing(bench: Bench) -> None:
    await bench.key_set()
    await bench.store.expire_keys(2.0**40)
    found = await status(bench)
    assert found.progress is AnalysisStage.OVER
    assert found.waiting_for.startswith("nothing, its key was destroyed")


async def test_a_task_of_another_analyzer_is_refused(bench: Bench) -> None:
    with pytest.raises(Refusal) as refused:
        await bench.results.get_statuses(bytes(32))
    assert refused.value.reason is Reason.UNKNOWN_TASK


async def missing(bench: Bench) -> str:
    with pytest.raises(Refusal) as refused:
        await bench.results.get_results(bench.task.id, 0, 0)
    assert refused.value.reason is Reason.NO_RESULTS
    return refused.value.message.removeprefix("round 0 of task flights has no results yet: ")


async def test_a_store_that_takes_nothing_is_said_beside_what_the_shuffler_delivered(bench: Bench) -> None:
    await bench.key_set()
    told = bench.incidents.of_store(bench.folder / "analyzer.db")
    told(OSError(28, "No space left on device"))
    said = "delay: the shuffler has delivered nothing; the store takes nothing now"
    assert (await status(bench)).waiting_for.endswith("; the store takes nothing now")
    assert (await missing(bench)).endswith(said)
    told(None)
    assert (await missing(bench)).endswith("the shuffler has delivered nothing")


async def test_a_round_waits_for_its_task_where_that_was_taken_away(bench: Bench) -> None:
    bench.served.clear()
    await bench.key_set()
    assert (await status(bench)).waiting_for == "its task, which is no longer among this analyzer's tasks"
    assert await missing(bench) == "its task, which is no longer among this analyzer's tasks"


async def test_a_round_that_is_over_is_not_said_to_wait_for_the_shuffler(bench: Bench) -> None:
    await bench.key_set()
    await bench.store.expire_keys(2.0**40)
    assert (await missing(bench)).startswith("its key was destroyed")


async def test_rounds_of_a_task_that_was_taken_away_are_logged_at_the_start(bench: Bench) -> None:
    await bench.key_set(1)
    await bench.deliver_round()
    with capture_logs() as found:
        await tell_held(bench.store, {bench.task.id: bench.signed})
        assert found == []
        await tell_held(bench.store, {})
    assert [(line["event"], line["task"], line["round"]) for line in found] == [
        ("a stored round's task is not among the tasks", "flights", 1)
    ]
