"""What an operator is promised, one test a promise; each fails when the promise is broken.

They run the simulated pipeline, whose end checks every count, every answer and every file against the model. What only
real processes and disks can show is in test_durability.py and test_processes.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from simulation import operations as ops
from simulation import world
from simulation.devices import MISDEEDS, Answers
from simulation.model import Model
from simulation.operations import (
    Close,
    Fill,
    Free,
    Kill,
    Lose,
    Misbehave,
    Restart,
    Skew,
    Start,
    Submit,
    SubmitMany,
    Wait,
)
from simulation.test_operations import PARTIES, run
from simulation.virtual import run as run_virtually
from simulation.world import MINIMUM, Simulation

from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.schedule import Schedule
from support.samples import START

EVERYBODY = tuple(Submit(number, "UA", 15.5) for number in range(ops.DEVICES))


def refusals(model: Model, reason: Reason) -> list[Refusal]:
    answers = [each.answer for each in model.said]
    return [answer for answer in answers if isinstance(answer, Refusal) and answer.reason is reason]


@pytest.mark.parametrize("point", ["before COMMIT", "after COMMIT", "after submit"])
def test_promise_1_acknowledged_means_kept(point: str) -> None:
    kill = Kill("shuffler", point, 2)
    full = [Fill("shuffler"), *EVERYBODY[4:], Wait(1.0), Kill("shuffler", ""), Free("shuffler"), Start("shuffler")]
    simulation = run([*EVERYBODY[:2], kill, *EVERYBODY[2:4], Start("shuffler"), Wait(10.0), *full, Wait(30.0)])
    assert {answer.retry_after for answer in refusals(simulation.model, Reason.OVERLOADED)} == {5.0}
    assert len(simulation.model.held[0]) == ops.DEVICES


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "fault",
    [
        Kill("shuffler", "before sending commit"),
        Kill("shuffler", "after the answer to commit"),
        Kill("shuffler", "before sending put", 2),
        Kill("analyzer", "before commit"),
        Kill("analyzer", "after commit"),
        Kill("analyzer", "after commit", 2),
        Lose("delivery", "requests", 3),
        Lose("delivery", "answers", 3),
    ],
    ids=str,
)
def test_promise_2_exactly_once(fault: ops.Operation) -> None:
    repaired = [Wait(3.0), Start("analyzer"), Start("shuffler"), Wait(30.0)]
    simulation = run(
        [*EVERYBODY, Lose("devices", "answers", 4), SubmitMany((0, 1, 2), 2), Wait(30.0), fault, Close(), *repaired]
    )
    assert len(simulation.model.held[0]) == ops.DEVICES + 3
    assert len(simulation.model.delivered[0]) == 2 * (ops.DEVICES + 3)


def test_promise_3_fail_closed() -> None:
    released = [Misbehave("good", 1), *EVERYBODY, Wait(30.0), Close(), Wait(30.0), Misbehave("replay", 0)]
    expired = [Wait(600.0), *EVERYBODY[: MINIMUM - 2], Misbehave("good", 2), Wait(700.0), Misbehave("replay", 1)]
    model = run([*released, *expired]).model
    assert (set(model.delivered), len(model.held[1])) == ({0}, MINIMUM - 1)
    (erased,), (late,) = refusals(model, Reason.ERASED), refusals(model, Reason.TOO_LATE)
    assert "round 0 is over and erased, so this came too late; the next is round 1" in erased.message
    assert "round 1 was cut at" in late.message
    assert "the next is round 2" in late.message


def test_promise_4_erased_means_gone() -> None:
    simulation = run([*EVERYBODY, Misbehave("good", 3), Wait(30.0), Close(), Wait(30.0), Restart("shuffler")])
    # The end looked for every id, envelope and key in both services' files; there were some to look for.
    assert len(simulation.model.delivered[0]) == 2 * (ops.DEVICES + 1)
    assert len(set(simulation.secrets)) >= 2


def test_promise_5_one_bad_report_sinks_nothing() -> None:
    simulation = run([*EVERYBODY, *(Misbehave(kind, 5) for kind in MISDEEDS), Wait(30.0), Close(), Wait(30.0)])
    model = simulation.model
    assert set(model.sent) == {(f"device {number}", 0) for number in range(ops.DEVICES)}
    assert {device for device, _ in model.acknowledged} == {f"device {number}" for number in range(ops.DEVICES)}
    told = {"malformed", "wrong_size", "unknown_task", "unknown_round", "key_set_differs", "unopenable", "id_conflict"}
    assert told <= set(model.answers)
    (expected,) = model.outcomes(0, len(model.held[0]))
    assert expected.left_out == [
        {"duplicate": 1, "unopenable": 2, "out_of_domain": 1},
        {"unopenable": 1, "out_of_domain": 1},
    ]


def test_promise_6_overload_is_answered() -> None:
    simulation = run([SubmitMany(tuple(range(60)), 12), Wait(40.0), Close(), Wait(30.0)])
    model = simulation.model
    assert model.answers["overloaded"] > 0
    assert len(model.held[0]) == 60
    assert {answer.retry_after for answer in refusals(model, Reason.OVERLOADED)} == {1.0}
    refused: dict[bytes, float] = {}
    for said in model.said:
        assert said.moment >= refused.get(said.submission.id, 0.0) + 1.0
        if isinstance(said.answer, Refusal):
            refused[said.submission.id] = said.moment


def test_promise_6_a_dead_analyzer_only_delays() -> None:
    simulation = run(
        [
            Kill("analyzer", ""),
            Wait(1.0),
            Start("analyzer"),
            Wait(10.0),
            *EVERYBODY,
            Wait(1.0),
            Kill("analyzer", ""),
            Close(),
            Wait(400.0),
        ]
    )
    assert len(simulation.model.held[0]) == ops.DEVICES
    assert 0 in simulation.model.delivered


@pytest.mark.parametrize("order", [("shuffler", "analyzer"), ("analyzer", "shuffler")])
def test_promise_7_peers_come_and_go(order: tuple[str, str]) -> None:
    down = [
        Kill(order[0], ""),
        Kill(order[1], ""),
        *EVERYBODY[:3],
        Start(order[0]),
        Wait(5.0),
        Start(order[1]),
        Wait(20.0),
    ]
    drained = [*EVERYBODY[3:], Restart(order[0]), Restart(order[1]), Wait(20.0), Close(), Restart(order[1]), Wait(30.0)]
    simulation = run([*down, *drained])
    assert len(simulation.model.held[0]) == ops.DEVICES
    assert 0 in simulation.model.delivered


def test_promise_7_a_round_of_long_ago_is_gone_on_with() -> None:
    down = [Wait(30.0), Kill("analyzer", ""), Close(), Wait(1.0), Kill("shuffler", ""), Wait(1400.0)]
    simulation = run([*EVERYBODY, *down, Start("shuffler"), Wait(3.0), Start("analyzer"), Wait(60.0)])
    assert len(simulation.model.delivered[0]) == 2 * ops.DEVICES


def test_promise_8_clocks_differ_up_to_the_grace_without_effect() -> None:
    behind, ahead = Skew("device 0", -59.0), Skew("device 1", 59.0)
    simulation = run([Wait(590.0), behind, ahead, *EVERYBODY[1:], Wait(55.0), *EVERYBODY[:1], Wait(20.0)])
    assert simulation.model.answers == {"receipt": ops.DEVICES}
    assert {(device, number) for device, number in simulation.model.sent} == {
        ("device 1", 1),
        *((f"device {number}", 0) for number in range(ops.DEVICES) if number != 1),
    }


def test_promise_8_a_clock_beyond_the_grace_is_refused_with_the_reason(tmp_path: Path) -> None:
    async def whole() -> list[Refusal]:
        simulation = Simulation(tmp_path, 0, PARTIES)
        await simulation.start()
        found = []
        for number, skew in enumerate((700.0, -700.0)):
            await simulation.do(Wait(680.0 * number))
            device = simulation.devices[number]
            device.skew = skew
            await device.start()
            with pytest.raises(Refusal) as refused:
                await device.client.submit(Answers(device.name, "AA", None), round=1 - number)
            found.append(refused.value)
        await simulation.close()
        return found

    early, late = run_virtually(whole())
    assert (early.reason, late.reason) == (Reason.TOO_EARLY, Reason.TOO_LATE)
    assert "takes submissions from" in early.message
    assert "the next is round 1" in late.message


def test_a_round_is_answered_a_grace_early_however_long_the_grace_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a task whose rounds take submissions one after the other on one day; the device checks both keys' times."""
    week = Schedule(START, length=86_400, grace=7 * 86_400, rounds=3, close="operator")
    monkeypatch.setattr(world, "SCHEDULE", week)

    async def whole() -> list[int]:
        simulation = Simulation(tmp_path, 0, PARTIES)
        await simulation.start()
        device = simulation.devices[0]
        await device.start()
        receipts = [await device.client.submit(Answers(device.name, "AA", None), round=number) for number in range(3)]
        await simulation.close()
        return [receipt.round for receipt in receipts]

    assert run_virtually(whole()) == [0, 1, 2]
