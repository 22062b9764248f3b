"""What the operator may ask."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from unit.shuffler.world import BY_OPERATOR, MINIMUM, World, unreachable

from hubbub.protos.messages import Receipt, RoundState
from hubbub.protos.refusals import Reason, Refusal
from hubbub.service.errors import StoreError, as_store_error
from support.samples import START


async def test_operator_cuts_a_round_at_its_minimum_and_the_record_says_so(operated: World) -> None:
    await operated.fill()
    status = await operated.control.close_round(operated.task.id, 0)
    assert (status.state, status.submissions) == (RoundState.CUT, MINIMUM)
    await operated.over()
    assert operated.state is RoundState.ERASED
    assert {record.closed_by for record in operated.analyzer.records.values()} == {"operator"}


async def test_closing_under_the_minimum_is_refused_and_the_round_goes_on(operated: World) -> None:
    await operated.fill(MINIMUM - 1)
    with pytest.raises(Refusal, match="has fewer submissions than the minimum of 20; wait") as refused:
        await operated.control.close_round(operated.task.id, 0)
    assert refused.value.reason is Reason.BELOW_MINIMUM
    await operated.fill(1)
    assert (await operated.control.close_round(operated.task.id, 0)).submissions == MINIMUM


async def test_closing_again_changes_nothing(operated: World) -> None:
    await operated.fill()
    await operated.control.close_round(operated.task.id, 0)
    await operated.over()
    again = await operated.control.close_round(operated.task.id, 0)
    assert (again.state, again.submissions) == (RoundState.ERASED, MINIMUM)


async def test_round_by_schedule_is_not_closed_by_the_operator(world: World) -> None:
    await world.fill()
    with pytest.raises(Refusal, match="2026-01-01T01:01:00Z") as refused:
        await world.control.close_round(world.task.id, 0)
    assert refused.value.reason is Reason.CLOSED_BY_SCHEDULE


async def test_operator_task_that_nobody_closes_is_cut_by_schedule(operated: World) -> None:
    await operated.fill()
    await operated.cut()
    await operated.over()
    assert {record.closed_by for record in operated.analyzer.records.values()} == {"schedule"}


async def test_closing_a_round_that_is_not_there_is_refused(operated: World) -> None:
    with pytest.raises(Refusal, match="0 to 2") as refused:
        await operated.control.close_round(operated.task.id, 3)
    assert refused.value.reason is Reason.UNKNOWN_ROUND
    with pytest.raises(Refusal, match="2026-01-01T02:00:00Z") as refused:
        await operated.control.close_round(operated.task.id, 2)
    assert refused.value.reason is Reason.TOO_EARLY
    with pytest.raises(Refusal) as refused:
        await operated.control.close_round(bytes(32), 0)
    assert refused.value.reason is Reason.UNKNOWN_TASK


async def test_round_that_was_over_before_the_first_start_is_named_as_such(tmp_path: Path) -> None:
    world = World(tmp_path, BY_OPERATOR)
    world.clock.now = float(START + 3660)
    await world.start(ready=False)
    await world.until(lambda: world.found(1) is not None)
    with pytest.raises(Refusal, match="over before this shuffler first ran"):
        await world.control.close_round(world.task.id, 0)
    await world.stop()


async def test_closing_on_a_failing_disk_is_to_be_asked_for_again(
    operated: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise as_store_error(OSError(28, "No space left on device"), operated.folder / "shuffler.db")

    monkeypatch.setattr(operated.store, "cut", fail)
    await operated.fill()
    says = (
        "round 0 was not closed; close it again once the store can be used: the store .* No space left on device; make"
    )
    with pytest.raises(Refusal, match=says) as refused:
        await operated.control.close_round(operated.task.id, 0)
    assert refused.value.reason is Reason.NOT_READY


async def test_a_store_that_cannot_be_read_now_is_a_refusal_that_names_it(
    operated: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StoreError("the store postgresql://hubbub@db/shuffler could not be used: no connection")

    for name in ("rounds", "find"):
        monkeypatch.setattr(operated.store, name, fail)
    says = "the shuffler's store cannot be used now: the store postgresql://hubbub@db/shuffler could not be used"
    for call in (operated.control.get_status(None), operated.control.close_round(operated.task.id, 0)):
        with pytest.raises(Refusal, match=says) as refused:
            await call
        assert (refused.value.reason, refused.value.retry_after) == (Reason.NOT_READY, 5.0)
    monkeypatch.undo()


async def test_a_submission_beside_the_cut_is_in_the_batch_or_refused(operated: World) -> None:
    await operated.fill()
    destination = await operated.destination()
    late = await operated.seal([(0, 0)] * 12)
    calls = [operated.admission.submit(destination, [submission]) for submission in late]
    calls.insert(6, operated.control.close_round(operated.task.id, 0))
    answers = [result[0] for result in await asyncio.gather(*calls) if isinstance(result, list)]
    acknowledged = sum(isinstance(answer, Receipt) for answer in answers)
    await operated.over()
    assert len(operated.analyzer.symbols(0)) == MINIMUM + acknowledged
    assert {answer.reason for answer in answers if isinstance(answer, Refusal)} <= {Reason.TOO_LATE}


async def test_status_says_what_each_round_waits_for(operated: World) -> None:
    assert "or the operator to close it" in (await operated.status()).waiting_for
    operated.analyzer.incident = unreachable("begin")
    await operated.fill()
    await operated.control.close_round(operated.task.id, 0)
    await operated.until(lambda: "begin" in operated.analyzer.calls)
    await operated.until(lambda: operated.pauses > 3)
    assert (await operated.status()).waiting_for == (
        "the analyzer at analyzer:1: did not answer (since 2026-01-01T00:00:10Z)"
    )
    operated.analyzer.incident = lambda _call: None
    await operated.over()
    assert (await operated.status()).waiting_for == "nothing"


async def test_a_round_that_is_prepared_waits_for_its_opening_and_cannot_be_closed_yet(tmp_path: Path) -> None:
    world = World(tmp_path, BY_OPERATOR)
    world.clock.now = float(START - 61)
    await world.start()
    assert (await world.status()).state is RoundState.OPEN
    # Its state is OPEN already, so what is shown has to explain why nothing can be submitted.
    assert (await world.status()).shown_state == "prepared"
    said = "its opening at 2026-01-01T00:00:00Z; until then devices can only fetch its keys"
    assert (await world.status()).waiting_for == said
    with pytest.raises(Refusal, match="round 0 opens at 2026-01-01T00:00:00Z") as refused:
        await world.control.close_round(world.task.id, 0)
    assert refused.value.reason is Reason.TOO_EARLY
    world.clock.now = float(START - 60)
    status = await world.status()
    assert (status.waiting_for, status.shown_state) == ("submissions until 2026-01-01T01:01:00Z", "open")
    world.clock.now = float(START)
    assert (await world.status()).waiting_for.endswith("01:01:00Z, or the operator to close it")
    await world.stop()


async def test_status_of_a_task_that_is_not_run_is_refused(operated: World) -> None:
    with pytest.raises(Refusal) as refused:
        await operated.control.get_status(bytes(32))
    assert refused.value.reason is Reason.UNKNOWN_TASK


@pytest.mark.parametrize("state", [RoundState.OPEN, RoundState.MIXED])
async def test_a_round_whose_task_was_taken_away_is_shown_until_it_is_over(tmp_path: Path, state: RoundState) -> None:
    """Its answers wait for the task's file, so the operator has to see them without reading the log."""
    world = World(tmp_path, BY_OPERATOR)
    world.analyzer.incident = unreachable("begin")
    await world.start()
    await world.fill()
    if state is RoundState.MIXED:
        await world.control.close_round(world.task.id, 0)
        await world.over(RoundState.MIXED)
    await world.kill()
    other = World(tmp_path / "other").task
    world.tasks = {other.id: other}
    await world.start(ready=False)
    (shown,) = [
        each for each in await world.control.get_status(None) if (each.task_id, each.round) == (world.task.id, 0)
    ]
    assert (shown.state, shown.submissions, shown.minimum_reports) == (state, MINIMUM, 0)
    assert shown.waiting_for == "its task, which is no longer among this shuffler's tasks"
    await world.stop()


async def test_a_finished_round_of_a_task_that_was_taken_away_is_not_shown(operated: World) -> None:
    await operated.fill()
    await operated.control.close_round(operated.task.id, 0)
    await operated.over()
    operated.tasks.clear()
    assert [each.state for each in await operated.control.get_status(None) if each.round == 0] == []
