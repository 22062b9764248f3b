"""What a device keeps changes with the report drawn from it, once a round, or never."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from hubbub.accountant.mechanisms.longitudinal import Horizon, Vector
from hubbub.client import AnswerError, Device, Fleet, Unreachable
from hubbub.client.errors import StateError
from hubbub.client.session.rounds import VerifiedRoundKeys
from hubbub.client.state.longitudinal import MemoryMoved, MemoryUpdate
from hubbub.client.state.rounds import Drawn, RoundRef
from hubbub.client.state.store import State
from hubbub.protos.task.schedule import Schedule
from hubbub.queries.longitudinal.question import Longitudinal
from hubbub.queries.longitudinal.signs import SendingVector
from hubbub.queries.query import Query
from support.charges import BILL
from support.fake_shuffler import Clock, FakeShuffler
from support.samples import QUERIES, START, Parties, sample_task, signed

NOBODY = "127.0.0.1:1"
ROUNDS = 8
ACTIVE = Query(
    Longitudinal("active", 2, "vector", steady_share=1.0, periods=ROUNDS),
    SendingVector(Vector(Horizon(ROUNDS, 2), 3 * 2**32, 0), 1),
)


@pytest.fixture
def settings(settings: dict[str, Any], parties: Parties) -> dict[str, Any]:
    """The settings of the other tests, with a task that asks a longitudinal question beside the others."""
    schedule = Schedule(START, length=3600, grace=60, rounds=ROUNDS)
    task = sample_task(parties, schedule=schedule, queries=(*QUERIES, ACTIVE))
    return {**settings, "task": signed(task, parties).encode(), "shuffler": NOBODY}


def answers(state: bool) -> dict[str, Any]:
    return {"carrier": "UA", "active": state}


def kept(device: Device) -> dict[str, Any]:
    stored = device._state.memories(device.task.id, [device._work.name])
    return dict(json.loads(stored[device._work.name])["active"]) if stored else {}


def drawn(device: Device, number: int) -> Drawn | None:
    found = device._state.find(RoundRef(device.task.id, number), [device._work.name])
    return found[device._work.name].drawn if found else None


async def test_what_was_drawn_stands_across_restarts_and_rounds(settings: dict[str, Any], clock: Clock) -> None:
    first = Device(**settings)
    assert first.keep(answers(True))
    before = kept(first)
    await first.close()
    clock.now += 3600
    second = Device(**settings)
    assert second.keep(answers(True))
    after = kept(second)
    assert {name: after[name] for name in ("level", "minuses")} == {name: before[name] for name in ("level", "minuses")}
    assert (after["period"], after["changes"], after["state"]) == (2, 1, 1)


async def test_a_second_answer_of_a_round_neither_draws_nor_steps(settings: dict[str, Any]) -> None:
    device = Device(**settings)
    assert device.keep(answers(True))
    found = kept(device), drawn(device, 0)
    assert not device.keep(answers(False))
    with pytest.raises(Unreachable):
        await device.submit(answers(False))
    assert (kept(device), drawn(device, 0)) == found


def test_a_preview_of_a_round_that_was_answered_says_so_instead_of_too_late(
    settings: dict[str, Any], clock: Clock
) -> None:
    device = Device(**settings)
    assert device.preview(answers(True)).not_sent is None
    assert device.keep(answers(True))
    with pytest.raises(AnswerError, match=r"round 0 was answered before, and its first answers stay; .* later round"):
        device.preview(answers(True))
    clock.now += 3600
    assert device.preview(answers(False)).round == 1


@pytest.mark.parametrize("failing", ["INSERT INTO submission", "INSERT INTO memory", "COMMIT"])
async def test_a_crash_while_storing_leaves_neither_report_nor_step(
    settings: dict[str, Any], failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = False

    class Dying(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            nonlocal reached
            reached = armed and (reached or sql.startswith("INSERT INTO submission"))
            if reached and sql.startswith(failing):
                raise sqlite3.DatabaseError("killed")
            return super().execute(sql, *values)

    armed = True
    device = Device(**settings)
    monkeypatch.setattr(device._session, "state", State(settings["state"], connection=Dying))
    with pytest.raises(StateError, match="killed"):
        device.keep(answers(True))
    armed = False
    await device.close()
    again = Device(**settings)
    assert (kept(again), drawn(again, 0)) == ({}, None)
    assert again.keep(answers(True))
    assert kept(again)["period"] == 1


async def test_a_device_killed_between_storing_and_sending_sends_what_it_stored(settings: dict[str, Any]) -> None:
    device = Device(**settings)
    with pytest.raises(Unreachable):
        await device.submit(answers(True))
    found = kept(device), drawn(device, 0)
    assert found[1] is not None
    # Nothing is closed or flushed: another process finds the file as a kill leaves it.
    other = Device(**settings)
    with pytest.raises(Unreachable):
        await other.resend()
    assert (kept(other), drawn(other, 0)) == found


def test_a_report_drawn_from_a_memory_that_moved_is_not_stored(tmp_path: Path) -> None:
    state, task_id = State(tmp_path / "state.db"), bytes(32)
    state.keep_reports(
        RoundRef(task_id, 0), "", Drawn(bytes(16), b"a"), 9.0, BILL, MemoryUpdate(None, {"q": {"period": 1}}, 9.0)
    )
    with pytest.raises(MemoryMoved):
        state.keep_reports(
            RoundRef(task_id, 1), "", Drawn(bytes(16), b"b"), 9.0, BILL, MemoryUpdate(None, {"q": {"period": 2}}, 9.0)
        )
    assert state.find(RoundRef(task_id, 1), [""]) == {}
    assert state.memories(task_id, [""]) == {"": '{"q":{"period":1}}'}


async def test_two_processes_that_answer_at_once_step_once_each(
    settings: dict[str, Any], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one draws for round 1, the other answers round 0: the first finds its memory moved, and draws again."""
    clock.now += 3600
    one, other = Device(**settings), Device(**settings)
    draw, raced = one._session.draw, []

    def slow(*given: Any) -> Any:
        found = draw(*given)
        if not raced:
            raced.append(other.keep(answers(False), 0))
        return found

    monkeypatch.setattr(one._session, "draw", slow)
    assert one.keep(answers(True))
    assert raced == [True]
    assert (kept(one)["period"], kept(one)["changes"]) == (2, 1)


async def test_an_earlier_round_is_refused_and_changes_nothing(settings: dict[str, Any], clock: Clock) -> None:
    clock.now += 3600
    device = Device(**settings)
    device.keep(answers(True))
    before = kept(device)
    with pytest.raises(AnswerError, match="round 0 comes too late"):
        device.keep(answers(True), 0)
    assert (kept(device), drawn(device, 0)) == (before, None)


async def test_a_wiped_device_keeps_only_that_it_kept_something(settings: dict[str, Any], clock: Clock) -> None:
    device = Device(**settings)
    device.keep(answers(True))
    device.wipe()
    assert kept(device) == {"erased": 1}
    clock.now += 3600
    assert device.keep(answers(True))
    assert kept(device) == {"erased": 1}


async def test_what_is_kept_is_erased_when_the_task_is_over(settings: dict[str, Any], clock: Clock) -> None:
    device = Device(**settings)
    device.keep(answers(True))
    clock.now += 3600 * (ROUNDS + 1) + 200
    device._state.forget(clock.now)
    assert kept(device) == {"erased": 1}


async def test_a_clock_that_was_ahead_of_the_end_has_nothing_drawn_a_second_time(
    settings: dict[str, Any], clock: Clock
) -> None:
    device = Device(**settings)
    device.keep(answers(True))
    clock.now += 3600 * (ROUNDS + 1) + 200
    device._state.forget(clock.now)
    # Set right again, a round later than that which was answered.
    clock.now -= 3600 * ROUNDS + 200
    assert device.keep(answers(True))
    assert kept(device) == {"erased": 1}


async def test_a_fleet_keeps_each_devices_stream(
    settings: dict[str, Any], clock: Clock, parties: Parties, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(**settings)
    fake = FakeShuffler(fleet.task, parties)
    everybody = [(name, answers(True)) for name in "abc"]
    for number in range(2):
        of = RoundRef(fleet.task.id, number)
        keys = VerifiedRoundKeys.read(fake.keys(number)[2], fleet.task, number)
        fleet._state.pin(of, fake.keys(number)[2], 1e12)
        # The first time a step is stored, another process has made one already.
        moved = [MemoryMoved("meanwhile")]
        keep = fleet._state.keep
        monkeypatch.setattr(fleet._state, "keep", lambda *given, keep=keep, moved=moved: fail(moved) or keep(*given))
        sealed_submissions, _ = await fleet._prepare(of, keys.sealer(clock()), everybody)
        assert len(sealed_submissions) == 3
        stored = fleet._state.memories(fleet.task.id, [name for name, _ in everybody])
        assert {json.loads(each)["active"]["period"] for each in stored.values()} == {number + 1}
        clock.now += 3600


def fail(errors: list[MemoryMoved]) -> None:
    if errors:
        raise errors.pop()
