"""A device answers each round once, whatever fails, and sends nothing it should not."""

from __future__ import annotations

import asyncio
import copy
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hubbub.client import (
    AnswerError,
    Device,
    DeviceReceipt,
    Fleet,
    Gateway,
    HubbubError,
    KeyRecordError,
    KeySetChanged,
    MessageError,
    NoRound,
    PrivacyLimits,
    Reason,
    Recorder,
    Refusal,
    Retrying,
    RetryPolicy,
    SignatureError,
    StateError,
    Unreachable,
    UsageError,
)
from hubbub.client.state.rounds import RoundRef
from hubbub.protos.errors import Distrusted
from hubbub.protos.identity.keys import Identity, KeyRecord, KeySet, Role, load_public
from hubbub.protos.rpc import clients
from hubbub.protos.sealing.envelope import outer_bytes
from hubbub.protos.sealing.suites import MLKEM768_X25519
from support.fake_shuffler import Clock, FakeShuffler
from support.krr_queries import INNER_BYTES, symbol
from support.messages import ANSWERS_KEPT
from support.patience import PATIENCE
from support.samples import START, Parties, make_tls

ANSWERS: dict[str, Any] = {"carrier": "UA", "delay": 12.5}
TRUTH = b"\xff" * 64
"""Randomness under which every report is the truth and rounding is down."""

Make = Callable[..., Device]
NOBODY = "127.0.0.1:1"


async def test_a_receipt_means_that_the_shuffler_holds_the_submission(device: Make, shuffler: FakeShuffler) -> None:
    receipt = await device().submit(ANSWERS)
    assert receipt.round == 0
    round_number, envelope = shuffler.held[receipt.submission_id]
    assert (round_number, len(envelope)) == (0, outer_bytes([INNER_BYTES] * 2))


async def test_a_device_is_shown_by_its_task_and_shuffler_alone(device: Make) -> None:
    """A log may have it: there is no answer, no key and no path of its state."""
    made = device()
    await made.submit(ANSWERS)
    task = made.task
    shown = repr(made)
    assert shown.startswith(f"Device(task={task.name!r}, id={task.id.hex()[:16]}, shuffler=")
    assert len(shown) < 150
    assert "12.5" not in shown
    assert "/" not in shown


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
async def test_what_has_a_state_file_or_a_connection_is_neither_copied_nor_pickled(
    copied: Callable[[Any], Any], device: Make, fleet: Callable[..., Fleet], gateway: Gateway
) -> None:
    with Recorder(device()) as recorder:
        for made in (device(), fleet(), gateway, recorder):
            name = type(made).__name__
            with pytest.raises(UsageError, match=f"a {name} is neither copied .* make a {name} in each process"):
                copied(made)
            assert repr(made).startswith(f"{name}(")
            assert "object at" not in repr(made)


@pytest.mark.parametrize("name", ["certificate", "key"])
@pytest.mark.parametrize("given", ["device.pem", b"-----BEGIN", 3])
def test_a_certificate_is_a_path_whatever_the_task(name: str, given: Any, device: Make) -> None:
    """A task that admits otherwise took anything; the mistake was seen when another task came."""
    with pytest.raises(UsageError, match=f"{name} is of type .*; give a Path"):
        device(**{name: given})


@pytest.mark.parametrize("seconds", [10**400, Fraction(10**400), float("inf")], ids=["whole", "ratio", "inf"])
def test_a_timeout_beyond_all_floats_has_no_end(seconds: Any, device: Make) -> None:
    assert device().resend_blocking(timeout=seconds) == []
    policy = RetryPolicy(total=seconds)
    assert Retrying(policy).begun(None).until == float("inf")
    assert PrivacyLimits(epsilon_per_day=seconds).any is False


def counted(shuffler: FakeShuffler, submission_id: bytes) -> tuple[int, ...]:
    """The symbols that the analyzer would count of a held submission; all queries here are answered through kRR."""
    return tuple(symbol(report) for report in shuffler.symbols(submission_id))


async def test_the_analyzer_gets_the_randomized_symbols(device: Make, shuffler: FakeShuffler) -> None:
    receipt = await device(random=lambda count: TRUTH[:count]).submit(ANSWERS)
    assert counted(shuffler, receipt.submission_id) == (2, 1)
    receipt = await device(random=lambda count: b"\xfe" * count, name="other").submit({"carrier": "AA"})
    assert counted(shuffler, receipt.submission_id) == (0, 8)


async def test_all_randomness_is_handed_in_but_the_seals(device: Make, shuffler: FakeShuffler) -> None:
    receipt = await device(random=lambda count: bytes(count)).submit(ANSWERS)
    assert receipt.submission_id == bytes(16)
    assert counted(shuffler, receipt.submission_id) == (0, 0)


async def test_a_second_call_returns_the_first_receipt_and_sends_nothing(device: Make, shuffler: FakeShuffler) -> None:
    one = device()
    first = await one.submit(ANSWERS)
    assert await one.submit({"carrier": "AA"}) == first
    assert await device().submit({"carrier": "AA", "delay": "not even looked at"}) == first
    assert len(shuffler.seen) == 1


async def test_each_round_is_answered_anew(device: Make, shuffler: FakeShuffler, clock: Clock) -> None:
    one = device()
    first = await one.submit(ANSWERS)
    clock.now += 3600
    second = await one.submit(ANSWERS)
    assert (first.round, second.round) == (0, 1)
    assert first.submission_id != second.submission_id
    assert await one.submit(ANSWERS, round=0) == first


async def test_a_kill_before_the_first_send_resends_the_stored_bytes(device: Make, shuffler: FakeShuffler) -> None:
    shuffler.failures.extend([RuntimeError("killed")] * 99)
    with pytest.raises(Unreachable, match=f"the answers to round 0 {ANSWERS_KEPT}"):
        await device().submit(ANSWERS)
    earlier = "the answers given earlier to round 0 are kept .* and those of this call are not used: resend them"
    with pytest.raises(Unreachable, match=earlier):
        await device().submit({"carrier": "AA"})
    shuffler.failures.clear()
    receipt = await device().submit({"carrier": "AA"})
    assert len(shuffler.seen) > 2
    assert len(set(shuffler.seen)) == 1
    assert shuffler.seen[0].id == receipt.submission_id
    assert len(shuffler.held) == 1


async def test_a_real_kill_between_storing_and_sending_resends_the_same_bytes(
    device: Make, settings: dict[str, Any], shuffler: FakeShuffler, tmp_path: Path
) -> None:
    """Another process seals and stores, and dies by SIGKILL where it would send."""
    first = device()
    await first.submit({"carrier": "AA"}, round=0)
    await asyncio.to_thread(run_until_killed, settings, shuffler, tmp_path)
    stored = first._state.find(first_round(first), ["killed"])["killed"].submission
    assert stored is not None
    receipt = await device(name="killed").submit({"carrier": "B6"})
    assert receipt.submission_id == stored.id
    assert shuffler.seen[-1] == stored


def first_round(device: Device) -> RoundRef:
    return RoundRef(device.task.id, 0)


def run_until_killed(settings: dict[str, Any], shuffler: FakeShuffler, folder: Path) -> None:
    (folder / "task.json").write_bytes(settings["task"])
    program = f"""
import os, signal
from pathlib import Path
from hubbub.client import Device
from hubbub.client.enrollment import credentials

async def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

credentials.submit = die
Device(
    Path({str(folder / "task.json")!r}).read_bytes(),
    operator_key=bytes.fromhex({settings["operator_key"].hex()!r}),
    shuffler_key=bytes.fromhex({settings["shuffler_key"].hex()!r}),
    state=Path({str(settings["state"])!r}),
    shuffler={shuffler.address!r},
    authority=Path({str(settings["authority"])!r}),
    name="killed",
    clock=lambda: {START + 50},
).submit_blocking({{"carrier": "UA"}})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr.decode()


async def test_a_lost_answer_is_asked_for_again_with_the_same_bytes(device: Make, shuffler: FakeShuffler) -> None:
    shuffler.failures.append("lost")
    receipt = await device().submit(ANSWERS)
    assert len(shuffler.seen) == 2
    assert len(set(shuffler.seen)) == 1
    assert list(shuffler.held) == [receipt.submission_id]


async def test_resend_hands_over_what_waits(device: Make, shuffler: FakeShuffler, clock: Clock) -> None:
    shuffler.failures.extend([RuntimeError("down")] * 99)
    with pytest.raises(Unreachable):
        await device().submit(ANSWERS)
    shuffler.failures.clear()
    clock.now = START + 3600 + 30
    later = device()
    (receipt,) = await later.resend()
    assert receipt.round == 0
    assert len(set(shuffler.seen)) == 1
    assert await later.resend() == []


async def test_overload_is_waited_out_as_the_shuffler_asks(device: Make, shuffler: FakeShuffler, clock: Clock) -> None:
    shuffler.failures.append(Refusal(Reason.OVERLOADED, "the queue is full", 4.0))
    await device().submit(ANSWERS)
    assert len(clock.slept) == 1
    assert 4.0 <= clock.slept[0] < 5.0
    assert len(set(shuffler.seen)) == 1


async def test_keys_that_are_not_ready_are_waited_for(device: Make, shuffler: FakeShuffler, clock: Clock) -> None:
    shuffler.failures.append(Refusal(Reason.NOT_READY, "no keys yet", 2.0))
    assert (await device().submit(ANSWERS)).round == 0
    assert 2.0 <= clock.slept[0] < 3.0


async def test_nobody_listening_is_unreachable_after_the_deadline(device: Make, clock: Clock) -> None:
    began = clock.now
    with pytest.raises(Unreachable, match=r"the shuffler at 127\.0\.0\.1:1 did not answer: no server listens there"):
        await device(shuffler="127.0.0.1:1").submit(ANSWERS)
    assert clock.now - began <= 30.0


async def test_a_shuffler_of_another_authority_gets_nothing_and_is_not_asked_twice(
    device: Make, shuffler: FakeShuffler, clock: Clock, tmp_path: Path
) -> None:
    with pytest.raises(Distrusted, match=r"not of the authority that is trusted here; check .* are kept"):
        await device(authority=make_tls(tmp_path / "other", "shuffler")["shuffler"].authority).submit(ANSWERS)
    assert shuffler.fetched == []
    assert shuffler.seen == []
    assert clock.slept == []


@pytest.mark.parametrize("reason", [Reason.TOO_LATE, Reason.ERASED, Reason.ROUND_FULL])
async def test_what_came_too_late_is_discarded_and_not_carried_into_another_round(
    device: Make, shuffler: FakeShuffler, clock: Clock, reason: Reason
) -> None:
    one = device()
    shuffler.failures.append(Refusal(reason, "round 1 begins soon"))
    with pytest.raises(Refusal, match="round 1 begins soon"):
        await one.submit(ANSWERS)
    late = shuffler.seen[0]
    with pytest.raises(Refusal, match="was discarded; answer the next") as caught:
        await one.submit(ANSWERS)
    assert caught.value.reason is reason
    assert shuffler.seen == [late]
    assert await one.resend() == []
    clock.now += 3600
    receipt = await one.submit(ANSWERS)
    assert receipt.round == 1
    assert shuffler.seen[1].id != late.id
    assert shuffler.seen[1].envelope != late.envelope


async def test_without_room_at_the_shuffler_the_same_bytes_are_sent_later(
    device: Make, shuffler: FakeShuffler, clock: Clock
) -> None:
    shuffler.failures.append(Refusal(Reason.DISK_FULL, "no room", 1.0))
    assert (await device().submit(ANSWERS)).round == 0
    assert len(shuffler.seen) == 2
    assert len(set(shuffler.seen)) == 1
    assert sum(clock.slept) >= 1.0


@pytest.mark.parametrize("reason", [Reason.TOO_EARLY, Reason.UNKNOWN_TASK, Reason.ID_CONFLICT, Reason.UNOPENABLE])
async def test_a_final_refusal_is_raised_and_the_bytes_are_kept(
    device: Make, shuffler: FakeShuffler, clock: Clock, reason: Reason
) -> None:
    shuffler.failures.append(Refusal(reason, "no"))
    with pytest.raises(Refusal) as caught:
        await device().submit(ANSWERS)
    assert caught.value.reason is reason
    assert clock.slept == []
    await device().submit(ANSWERS)
    assert len(set(shuffler.seen)) == 1


async def test_two_calls_at_once_make_one_submission(device: Make, shuffler: FakeShuffler) -> None:
    one, other = device(), device()
    receipts = await asyncio.gather(*(who.submit(ANSWERS) for who in (one, one, other, one, other)))
    assert len(set(receipts)) == 1
    assert len(set(shuffler.seen)) == 1
    assert len(shuffler.held) == 1


async def test_devices_that_share_a_state_file_answer_each_for_itself(device: Make, shuffler: FakeShuffler) -> None:
    receipts = {(await device(name=name).submit(ANSWERS)).submission_id for name in ("a", "b", "")}
    assert len(receipts) == 3
    assert shuffler.fetched == [0]


@pytest.mark.parametrize("answers", [{"carrier": "??"}, {"carrier": None}, {}, {"carrier": "UA", "delay": "x"}])
async def test_a_bad_answer_reveals_nothing_to_the_network(
    device: Make, shuffler: FakeShuffler, answers: dict[str, Any]
) -> None:
    one = device()
    with pytest.raises(AnswerError):
        await one.submit(answers)
    assert (shuffler.fetched, shuffler.seen) == ([], [])
    assert (await one.submit(ANSWERS)).round == 0


async def test_other_keys_than_before_are_not_sealed_with(device: Make, shuffler: FakeShuffler) -> None:
    """Two devices of one state fetch at once, and are shown two key sets: the second is refused."""
    one = device()
    of = first_round(one)
    first = shuffler.keys(0)[2]
    shuffler.rotate(0)

    async def fetch_after_another(*arguments: Any) -> KeySet:
        one._state.pin(of, first, START + 10_000.0)
        return shuffler.keys(0)[2]

    one._session.fetch = fetch_after_another  # type: ignore[method-assign]  # the moment between two devices' fetches
    with pytest.raises(KeySetChanged):
        await one.submit(ANSWERS)
    assert shuffler.seen == []


async def test_a_round_keeps_the_keys_it_was_first_seen_with(device: Make, shuffler: FakeShuffler) -> None:
    await device(name="a").submit(ANSWERS)
    shuffler.rotate(0)
    with pytest.raises(Refusal) as caught:
        await device(name="b").submit(ANSWERS)
    assert caught.value.reason is Reason.KEY_SET_DIFFERS
    assert shuffler.fetched == [0]


@pytest.mark.parametrize("role", [Role.SHUFFLER, Role.ANALYZER])
async def test_a_key_record_of_the_wrong_identity_is_refused(device: Make, shuffler: FakeShuffler, role: Role) -> None:
    forged = shuffler.record(role, 0, b"k" * 32).signed_by(Identity.generate())
    shuffler.serve_keys(0, replace(shuffler.keys(0)[2], **{role.value: forged}))
    with pytest.raises(SignatureError):
        await device().submit(ANSWERS)
    assert shuffler.seen == []


@pytest.mark.parametrize("role", [Role.SHUFFLER, Role.ANALYZER])
async def test_a_tampered_key_record_is_refused(device: Make, shuffler: FakeShuffler, role: Role) -> None:
    key_set = shuffler.keys(0)[2]
    document = getattr(key_set, role.value)
    tampered = replace(document, body=document.body.replace(b'"round":0', b'"round":1'))
    shuffler.serve_keys(0, replace(key_set, **{role.value: tampered}))
    with pytest.raises(SignatureError):
        await device().submit(ANSWERS)
    assert shuffler.seen == []


async def test_a_round_key_of_another_suite_than_the_task_s_is_refused(device: Make, shuffler: FakeShuffler) -> None:
    """The service's own key, signed by itself: nothing is sealed to it, and what was drawn waits."""
    key_set = shuffler.keys(0)[2]
    key = MLKEM768_X25519.generate_key()[1]
    record = replace(shuffler.record(Role.ANALYZER, 0, key), suite=MLKEM768_X25519.name)
    shuffler.serve_keys(0, KeySet(key_set.shuffler, record.signed_by(shuffler.parties.analyzer)))
    with pytest.raises(KeyRecordError, match=r"another suite: MLKEM768-.*, not X25519"):
        await device().submit(ANSWERS)
    assert shuffler.seen == []


async def test_a_key_record_of_another_round_is_refused(device: Make, shuffler: FakeShuffler) -> None:
    shuffler.serve_keys(0, shuffler.keys(1)[2])
    with pytest.raises(KeyRecordError, match="another round"):
        await device().submit(ANSWERS)
    assert shuffler.seen == []


async def test_rounds_that_are_over_are_forgotten(device: Make, clock: Clock, settings: dict[str, Any]) -> None:
    one = device()
    first = await one.submit(ANSWERS)
    clock.now = START + 3600 + 2 * 60 + 1
    second = await one.submit(ANSWERS)
    await one.close()
    content = settings["state"].read_bytes()
    assert first.submission_id not in content
    assert second.submission_id in content
    clock.now = START + 100.0
    with pytest.raises(NoRound, match="is over on this device"):
        await one.submit(ANSWERS)


async def test_no_round_now_is_an_error(device: Make, clock: Clock, shuffler: FakeShuffler) -> None:
    clock.now = START - 1
    with pytest.raises(NoRound, match="round 0 begins at"):
        await device().submit(ANSWERS)
    assert shuffler.fetched == []


async def test_nothing_is_sent_where_nothing_can_be_stored(device: Make, shuffler: FakeShuffler) -> None:
    one = device()

    def fail(*arguments: Any) -> Any:
        raise StateError("the disk is full")

    one._state.keep_reports = fail  # type: ignore[method-assign]  # the disk fills up here
    with pytest.raises(StateError):
        await one.submit(ANSWERS)
    assert (shuffler.fetched, shuffler.seen) == ([], [])


async def test_submit_blocking_does_the_same_and_leaves_nothing_open(device: Make, shuffler: FakeShuffler) -> None:
    one = device()
    receipt = await asyncio.to_thread(one.submit_blocking, ANSWERS)
    assert await asyncio.to_thread(one.submit_blocking, ANSWERS) == receipt
    assert one._state._connection is None
    assert len(shuffler.seen) == 1


async def test_a_device_that_was_closed_opens_again(device: Make, shuffler: FakeShuffler, clock: Clock) -> None:
    async with device() as one:
        first = await one.submit(ANSWERS)
    assert await one.submit(ANSWERS) == first
    clock.now = START + 3600
    assert (await one.submit(ANSWERS, round=1)).round == 1


async def test_authority_and_keys_may_be_pem_bytes(
    device: Make, settings: dict[str, Any], parties: Parties, tmp_path: Path
) -> None:
    parties.operator.save_public(tmp_path / "operator.pub.pem")
    assert load_public(tmp_path / "operator.pub.pem") == parties.operator.public
    pem = (tmp_path / "operator.pub.pem").read_bytes()
    one = device(authority=settings["authority"].read_bytes(), operator_key=pem)
    assert (await one.submit(ANSWERS)).round == 0


def test_a_device_is_not_made_with_a_key_that_did_not_sign(settings: dict[str, Any]) -> None:
    with pytest.raises(SignatureError, match="another operator"):
        Device(**{**settings, "operator_key": b"k" * 32}, shuffler="127.0.0.1:1")


@pytest.mark.parametrize("name", ["a\nb", "x" * 201, "\x00", 7])
def test_a_name_that_cannot_be_stored_is_refused(settings: dict[str, Any], name: Any) -> None:
    with pytest.raises(UsageError, match="at most 200 printable characters"):
        Device(**settings, shuffler="127.0.0.1:1", name=name)


def test_every_error_of_a_device_is_of_one_family(retrying: Retrying) -> None:
    for kind in (AnswerError, KeySetChanged, NoRound, Refusal, SignatureError, StateError, Unreachable, KeyRecordError):
        assert issubclass(kind, HubbubError)


def test_importing_the_client_loads_no_science_and_no_tables() -> None:
    program = (
        "import sys, hubbub.client; print([m for m in ('numpy', 'scipy', 'pyarrow', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


# What is checked is checked once


async def test_keys_and_receipts_are_verified_once_a_submission(
    device: Make, shuffler: FakeShuffler, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []
    read, receipt_for = KeyRecord.read, clients._receipt_for
    monkeypatch.setattr(KeyRecord, "read", lambda *given: (checked.append("key record"), read(*given))[1])
    monkeypatch.setattr(clients, "_receipt_for", lambda *given: (checked.append("receipt"), receipt_for(*given))[1])
    one = device()
    await one.submit(ANSWERS)
    assert checked == ["key record", "key record", "receipt"]
    checked.clear()
    await one.submit(ANSWERS)
    assert checked == []
    shuffler.failures.extend([RuntimeError("down")] * 99)
    with pytest.raises(Unreachable):
        await device(name="later").submit(ANSWERS)
    shuffler.failures.clear()
    checked.clear()
    await device(name="later").resend()
    assert checked == ["key record", "key record", "receipt"]


@pytest.mark.parametrize("wrong", [{"submission_id": b"o" * 16}, {"round": 1}])
async def test_a_receipt_for_something_else_is_not_taken_and_the_same_bytes_are_sent_again(
    device: Make,
    fleet: Callable[..., Fleet],
    shuffler: FakeShuffler,
    monkeypatch: pytest.MonkeyPatch,
    wrong: dict[str, Any],
) -> None:
    answer = shuffler._answer
    monkeypatch.setattr(shuffler, "_answer", lambda *given: replace(answer(*given), **wrong))
    for send in (device().submit(ANSWERS), fleet().submit_many([("other", ANSWERS)])):
        with pytest.raises(MessageError, match="receipt is for another submission or round; send the same bytes again"):
            await send
    monkeypatch.undo()
    await device().submit(ANSWERS)
    assert (await fleet().submit_many([("other", ANSWERS)])).accepted == 1
    assert [one.id for one in shuffler.seen[:2]] == [one.id for one in shuffler.seen[2:]]


@pytest.mark.parametrize("blocks", [False, True])
async def test_threads_with_a_loop_each_use_one_device_at_a_time(
    device: Make, shuffler: FakeShuffler, blocks: bool
) -> None:
    """The barrier lets all of them begin before any ends: their calls meet in one device."""
    one, start = device(), threading.Barrier(4)

    async def answer() -> DeviceReceipt:
        await asyncio.to_thread(start.wait, PATIENCE)
        if not blocks:
            return await one.submit(ANSWERS)
        async with one:
            return await one.submit(ANSWERS)

    found = await asyncio.gather(*(asyncio.to_thread(asyncio.run, answer()) for _ in range(4)))
    assert len({receipt.submission_id for receipt in found}) == 1
    assert len(shuffler.held) == 1


async def test_a_block_that_ends_closes_nothing_that_another_of_its_loop_uses(
    device: Make, shuffler: FakeShuffler, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, asked, answered, fetch = device(), asyncio.Event(), asyncio.Event(), shuffler.get_round

    async def get_round(task_id: bytes, number: int) -> KeySet:
        asked.set()
        await answered.wait()
        return await fetch(task_id, number)

    async def answer() -> DeviceReceipt:
        async with one:
            return await one.submit(ANSWERS)

    monkeypatch.setattr(shuffler, "get_round", get_round)
    calling = asyncio.create_task(answer())
    await asked.wait()
    async with one:
        pass
    answered.set()
    assert (await calling).round == 0


def test_one_loop_after_the_other_uses_a_device_that_was_not_closed(settings: dict[str, Any]) -> None:
    """The second must not call over the first one's connection, whose loop is closed."""
    one = Device(**{**settings, "shuffler": NOBODY, "retrying": Retrying(RetryPolicy(total=0.5, call=0.5))})
    for _ in range(2):
        with pytest.raises(Unreachable, match="the answers"):
            asyncio.run(one.submit(ANSWERS))
    asyncio.run(one.close())
