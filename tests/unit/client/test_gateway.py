"""It carries what devices sealed, and each submission counts once whatever is lost."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hubbub.client import (
    Answer,
    Device,
    Ending,
    Gateway,
    MessageError,
    NoRound,
    Outcome,
    Reason,
    Refusal,
    SealedSubmission,
    Unreachable,
    UsageError,
)
from hubbub.client.state.rounds import RoundRef
from hubbub.protos.enrollment.tickets import new_tickets
from hubbub.protos.messages import Submission
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.admission import ENROLLED, AdmissionPolicy, Mode
from hubbub.protos.task.task import Task
from support.fake_shuffler import FakeShuffler
from support.messages import ANSWERS_KEPT, ANSWERS_OF_ROUND
from support.patience import PATIENCE
from support.samples import START, Parties, sample_task, signed

ANSWERS: dict[str, Any] = {"carrier": "UA", "delay": 12.5}
TO = Destination(bytes(32), 0, bytes(32))
Make = Callable[..., Device]


async def prepared(device: Make, count: int) -> tuple[list[Device], list[SealedSubmission]]:
    """Devices that share a file, and the sealed submission of each."""
    devices = [device(name=f"device {number}") for number in range(count)]
    sealed_submissions = [await one.prepare(ANSWERS) for one in devices]
    assert all(sealed_submission is not None for sealed_submission in sealed_submissions)
    return devices, [sealed_submission for sealed_submission in sealed_submissions if sealed_submission is not None]


async def test_what_devices_seal_is_carried_in_few_calls_and_each_settles_its_own(
    device: Make, gateway: Gateway, shuffler: FakeShuffler
) -> None:
    devices, sealed_submissions = await prepared(device, 25)
    assert shuffler.seen == []
    outcomes = await gateway.carry(sealed_submissions, per_call=10)
    assert [one.ending for one in outcomes] == [Ending.ACKNOWLEDGED] * 25
    assert sorted(shuffler.sizes) == [5, 10, 10]
    for one, sealed_submission, outcome in zip(devices, sealed_submissions, outcomes, strict=True):
        receipt = await one.settle(Outcome.decode(outcome.encode()))
        assert (receipt.submission_id, receipt.sent) == (sealed_submission.submission.id, True)
        assert one.status().current.answer is Answer.ACKNOWLEDGED  # type: ignore[union-attr]
        assert await one.settle(outcome) == receipt
        assert await one.prepare(ANSWERS) is None
        assert await one.resend() == []
    assert len(shuffler.held) == len(shuffler.seen) == 25


def test_nothing_of_a_gateway_takes_answers_tickets_or_a_state_file() -> None:
    taken = {*inspect.signature(Gateway).parameters, *inspect.signature(Gateway.carry).parameters}
    assert taken == {"shuffler", "authority", "proxy", "retrying", "self", "sealed_submissions", "per_call", "calls"}


async def test_a_parcel_shows_neither_answer_nor_report(device: Make, shuffler: FakeShuffler) -> None:
    one = device()
    sealed_submission = await one.prepare(ANSWERS)
    assert sealed_submission is not None
    content = sealed_submission.encode()
    assert SealedSubmission.decode(content) == sealed_submission
    keys = shuffler.keys(0)
    shuffler.held[sealed_submission.submission.id] = (0, sealed_submission.submission.envelope)
    for secret in (*shuffler.symbols(sealed_submission.submission.id), keys[0], keys[1]):
        assert secret not in sealed_submission.submission.envelope
        assert secret.hex().encode() not in content


async def test_a_parcel_prepared_again_and_sent_by_both_ways_counts_once(
    device: Make, gateway: Gateway, shuffler: FakeShuffler
) -> None:
    one = device()
    first = await one.prepare(ANSWERS)
    assert await one.prepare({"carrier": "AA"}) == first
    assert await one.sealed_submissions() == [first]
    (receipt,) = await one.resend()
    assert first is not None
    (outcome, again) = await gateway.carry([first, first])
    assert (outcome, again) == (outcome, outcome)
    assert (await one.settle(outcome)).submission_id == receipt.submission_id
    assert await one.sealed_submissions() == []
    assert len(shuffler.held) == len(set(shuffler.seen)) == 1


async def test_what_was_lost_on_the_way_is_tried_again_with_the_same_bytes(
    device: Make, gateway: Gateway, shuffler: FakeShuffler
) -> None:
    (one,), sealed_submissions = await prepared(device, 1)
    shuffler.failures.extend(["lost", *[RuntimeError("down")] * 99])
    (outcome,) = await gateway.carry(sealed_submissions)
    assert (outcome.ending, outcome.reason) == (Ending.TRY_AGAIN, None)
    with pytest.raises(Unreachable, match=ANSWERS_KEPT):
        await one.settle(outcome)
    shuffler.failures.clear()
    (second,) = await gateway.carry(await one.sealed_submissions())
    assert (await one.settle(second)).submission_id == sealed_submissions[0].submission.id
    assert len(shuffler.held) == len(set(shuffler.seen)) == 1


async def test_a_shuffler_that_stays_busy_is_to_be_tried_again(
    device: Make, gateway: Gateway, shuffler: FakeShuffler
) -> None:
    (one,), sealed_submissions = await prepared(device, 1)
    shuffler.failures.extend([Refusal(Reason.OVERLOADED, "full", 2.0)] * 99)
    (outcome,) = await gateway.carry(sealed_submissions)
    assert (outcome.ending, outcome.message) == (Ending.TRY_AGAIN, "full")
    with pytest.raises(Unreachable, match=f"full{ANSWERS_OF_ROUND} 0 are kept"):
        await one.settle(outcome)


async def test_a_refusal_for_good_discards_and_any_other_keeps(
    device: Make, gateway: Gateway, shuffler: FakeShuffler
) -> None:
    (late, other), sealed_submissions = await prepared(device, 2)
    shuffler.refuse = {0: Refusal(Reason.TOO_LATE, "late"), 1: Refusal(Reason.UNOPENABLE, "does not open")}
    outcomes = await gateway.carry(sealed_submissions)
    assert [one.ending for one in outcomes] == [Ending.REFUSED] * 2
    with pytest.raises(Refusal, match=r"^late$"):
        await late.settle(outcomes[0])
    with pytest.raises(Refusal, match="took no more submissions when this came"):
        await late.prepare(ANSWERS)
    with pytest.raises(Refusal, match=f"does not open{ANSWERS_OF_ROUND} 0 are kept"):
        await other.settle(outcomes[1])
    assert await other.prepare(ANSWERS) == sealed_submissions[1]


async def test_an_outcome_of_another_submission_changes_nothing(
    device: Make, gateway: Gateway, shuffler: FakeShuffler
) -> None:
    (one, two), sealed_submissions = await prepared(device, 2)
    (first, second) = await gateway.carry(sealed_submissions)
    elsewhere = replace(first, destination=replace(first.destination, task_id=bytes(32)))
    for wrong in (second, elsewhere, replace(first, destination=replace(first.destination, round=1))):
        with pytest.raises(UsageError, match=r"that is not stored here.*nothing was changed"):
            await one.settle(wrong)
    assert await one.prepare(ANSWERS) == sealed_submissions[0]
    with pytest.raises(UsageError, match="outcome is of type bytes"):
        await one.settle(first.encode())  # type: ignore[arg-type]
    assert (await two.settle(second)).sent


async def test_who_opted_out_meanwhile_settles_nothing(device: Make, gateway: Gateway) -> None:
    (one,), sealed_submissions = await prepared(device, 1)
    outcomes = await gateway.carry(sealed_submissions)
    one.opt_out()
    with pytest.raises(NoRound, match="the submission was erased here"):
        await one.settle(outcomes[0])


async def test_a_parcel_that_spoils_a_call_spoils_none_of_its_neighbors(
    device: Make, gateway: Gateway, shuffler: FakeShuffler
) -> None:
    _, sealed_submissions = await prepared(device, 3)
    other = [
        replace(
            sealed_submissions[0],
            submission=replace(sealed_submissions[0].submission, id=os.urandom(16), envelope=bytes(4_000_000)),
        ),
        replace(sealed_submissions[0], destination=replace(sealed_submissions[0].destination, key_set_hash=bytes(32))),
        replace(sealed_submissions[0], submission=Submission(os.urandom(16), b"", b"x", b"y")),
    ]
    outcomes = await gateway.carry([one for pair in zip(sealed_submissions, other, strict=True) for one in pair])
    assert [one.ending for one in outcomes[::2]] == [Ending.ACKNOWLEDGED] * 3
    assert outcomes[3].reason is Reason.KEY_SET_DIFFERS
    assert 3 in shuffler.sizes


async def test_what_is_no_parcel_is_refused_before_anything_is_sent(
    device: Make, gateway: Gateway, shuffler: FakeShuffler
) -> None:
    _, sealed_submissions = await prepared(device, 1)
    for given in ([*sealed_submissions, b"{}"], [*sealed_submissions, None]):
        with pytest.raises(UsageError, match=r"a sealed submission is .*; give what Device.prepare"):
            await gateway.carry(given)
    for sizes in ({"per_call": 0}, {"calls": 0}):
        with pytest.raises(UsageError, match="1 or more"):
            await gateway.carry(sealed_submissions, **sizes)
    assert (await gateway.carry([]), shuffler.seen) == ([], [])


@pytest.mark.parametrize(
    "changes",
    [{"id": b"short"}, {"credential": bytes(257)}, {"proof": bytes(257)}, {"envelope": bytes(4 * 1024 * 1024 + 1)}],
)
def test_a_parcel_has_the_lengths_that_devices_give_it(changes: dict[str, bytes]) -> None:
    with pytest.raises(MessageError, match=f"a sealed submission's {next(iter(changes)).removesuffix('proof')}"):
        SealedSubmission(TO, replace(Submission(bytes(16), b"sealed"), **changes))


@pytest.mark.parametrize(
    "document", [b"", b"[]", b"null", b'{"format":"hubbub-submission/2"}', b" {}", bytes(17 << 20)]
)
def test_what_is_neither_parcel_nor_outcome_is_refused(document: bytes) -> None:
    for kind in (SealedSubmission, Outcome):
        with pytest.raises(MessageError, match=r"^the (sealed submission|outcome) (cannot be read: |has )"):
            kind.decode(document)


@pytest.mark.parametrize("document", [None, "{}", bytearray(b"{}")])
def test_what_is_not_bytes_is_a_wrong_argument(document: Any) -> None:
    for kind in (SealedSubmission, Outcome):
        with pytest.raises(UsageError, match=r"^the (sealed submission|outcome) is of type .*; give bytes, as encode"):
            kind.decode(document)


def test_an_outcome_has_a_reason_where_it_is_a_refusal() -> None:
    for ending, reason in ((Ending.REFUSED, None), (Ending.ACKNOWLEDGED, Reason.TOO_LATE)):
        with pytest.raises(MessageError, match="refusals alone have one"):
            Outcome(TO, bytes(16), ending, reason)


# In a task for enrolled devices


def enrolled(
    settings: dict[str, Any], parties: Parties, shuffler: FakeShuffler, admission: Any = ENROLLED, **changes: Any
) -> tuple[Task, dict[str, Any]]:
    task = sample_task(parties, admission=admission)
    shuffler.task = task
    return task, {**settings, "task": signed(task, parties).encode(), "shuffler": shuffler.address, **changes}


async def test_a_gateway_carries_each_devices_own_proof_and_a_forgotten_key_is_renewed(
    settings: dict[str, Any], parties: Parties, shuffler: FakeShuffler, gateway: Gateway
) -> None:
    ticket = new_tickets(1, parties.shuffler.public, START + 10_000_000, [parties.operator])[0].encode()
    _, given = enrolled(settings, parties, shuffler, ticket=ticket)
    async with Device(**given) as one:
        stale = await one.prepare(ANSWERS)
        assert stale is not None
        assert stale.submission.proof
        shuffler.generation = 2
        (outcome,) = await gateway.carry([stale])
        with pytest.raises(Refusal, match=f"no credential proves it{ANSWERS_OF_ROUND} 0 are kept"):
            await one.settle(outcome)
    # Another run of the program proves the same bytes with what the first one got.
    async with Device(**given) as other:
        (fresh,) = await other.sealed_submissions()
        assert fresh.submission.envelope == stale.submission.envelope
        assert fresh.submission.proof != stale.submission.proof
        (outcome,) = await gateway.carry([fresh])
        assert (await other.settle(outcome)).submission_id == stale.submission.id


async def test_a_task_that_admits_by_certificates_is_carried_by_nobody(
    settings: dict[str, Any], parties: Parties, shuffler: FakeShuffler, tls: Any
) -> None:
    _, given = enrolled(
        settings, parties, shuffler, AdmissionPolicy(Mode.MTLS), certificate=tls.certificate, key=tls.key
    )
    async with Device(**given) as one:
        for made in (one.prepare(ANSWERS), one.sealed_submissions()):
            with pytest.raises(UsageError, match=r"a gateway cannot show; call submit\(\) instead"):
                await made
        assert one.status().waiting == ()


# Killed


@pytest.mark.sampled(3)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", ["keep_reports", "pin", "seal", "settle"])
async def test_killed_at_any_step_nothing_counts_twice(
    device: Make,
    gateway: Gateway,
    settings: dict[str, Any],
    shuffler: FakeShuffler,
    tmp_path: Path,
    point: str,
    when: str,
) -> None:
    """A device is killed around a step of its state, by a signal that nothing of it sees; the next run goes on."""
    before = device(random=lambda count: b"\x01" * count)
    await asyncio.to_thread(_run_until_killed, settings, shuffler, tmp_path, point, when)
    stored = before._state.find(RoundRef(before.task.id, 0), [""])
    assert bool(stored) is not ((point, when) == ("keep_reports", "before"))
    sealed_submission = await before.prepare({"carrier": "AA"})
    assert (sealed_submission is None) is ((point, when) == ("settle", "after"))
    if sealed_submission is not None:
        (outcome,) = await gateway.carry([sealed_submission])
        assert (await before.settle(outcome)).submission_id == sealed_submission.submission.id
    assert len({one.id for one in shuffler.seen}) == len(set(shuffler.seen)) == len(shuffler.held) == 1
    for entry in stored.values():
        assert entry.submission_id in shuffler.held


def _run_until_killed(settings: dict[str, Any], shuffler: FakeShuffler, folder: Path, point: str, when: str) -> None:
    (folder / "task.json").write_bytes(settings["task"])
    program = f"""
import asyncio, os, signal
from pathlib import Path
from hubbub.client import Device, Gateway
from hubbub.client.state.store import State

step = State.{point}

def killing(self, *arguments):
    if {when!r} == "after":
        step(self, *arguments)
    os.kill(os.getpid(), signal.SIGKILL)

State.{point} = killing
where = dict(shuffler={shuffler.address!r}, authority=Path({str(settings["authority"])!r}))
device = Device(
    Path({str(folder / "task.json")!r}).read_bytes(), operator_key={settings["operator_key"]!r},
    shuffler_key={settings["shuffler_key"]!r}, state=Path({str(settings["state"])!r}),
    clock=lambda: {settings["clock"].now}, **where,
)

async def main():
    sealed = await device.prepare({ANSWERS!r})
    (outcome,) = await Gateway(**where).carry([sealed])
    await device.settle(outcome)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=PATIENCE, capture_output=True, check=False)
    assert done.returncode == -9, done.stderr.decode()


async def test_a_gateway_killed_with_its_parcels_loses_none_for_good(
    device: Make, gateway: Gateway, shuffler: FakeShuffler, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices, sealed_submissions = await prepared(device, 20)
    submit, third = shuffler.submit, asyncio.Event()

    async def told(*given: Any) -> list[Any]:
        answers = await submit(*given)
        if len(shuffler.held) == 3:
            third.set()
        return answers

    monkeypatch.setattr(shuffler, "submit", told)
    running = asyncio.create_task(gateway.carry(sealed_submissions, per_call=1, calls=1))
    await third.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    again = [sealed_submission for one in devices for sealed_submission in await one.sealed_submissions()]
    assert again == sealed_submissions
    for one, outcome in zip(devices, await gateway.carry(again), strict=True):
        assert (await one.settle(outcome)).sent
    assert len(shuffler.held) == len({one.id for one in shuffler.seen}) == 20
