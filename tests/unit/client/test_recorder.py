"""An application hands its answers over in passing: it never waits, never fails, and each round is answered once."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hubbub.client import (
    AnswerError,
    Device,
    Reason,
    Recorder,
    RecorderCounts,
    Refusal,
    StateError,
    Unreachable,
    UsageError,
)
from hubbub.client import recorder as module
from support.fake_shuffler import Clock, FakeShuffler
from support.patience import CALL_SECONDS, PATIENCE, pause
from support.samples import START, make_tls

ANSWERS: dict[str, Any] = {"carrier": "UA", "delay": 12.5}
NOBODY = "127.0.0.1:1"

Make = Callable[..., Device]


class Errors(list[Exception]):
    """What a recorder tells."""

    def __call__(self, error: Exception) -> None:
        self.append(error)


class Gate:
    """Randomness that lets nobody draw until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, count: int) -> bytes:
        self.reached.set()
        assert self.opened.wait(CALL_SECONDS)
        return os.urandom(count)


def prompt(device: Device, **named: Any) -> Recorder:
    """A recorder that sends as soon as it can; those that wait for a moment are in test_moment.py."""
    return Recorder(device, spread=False, **named)


async def flushed(recorder: Recorder) -> bool:
    return await asyncio.to_thread(recorder.flush, CALL_SECONDS)


async def test_what_is_recorded_is_sent(device: Make, shuffler: FakeShuffler) -> None:
    recorder = prompt(device())
    assert recorder.record(ANSWERS)
    assert await flushed(recorder)
    assert recorder.counts == RecorderCounts(calls=1, kept=1, acknowledged=1)
    assert len(shuffler.held) == 1
    await asyncio.to_thread(recorder.close)


async def test_the_first_answers_of_a_round_stand_and_the_others_are_counted(
    device: Make, shuffler: FakeShuffler, clock: Clock
) -> None:
    async with prompt(device()) as recorder:
        for _ in range(20):
            recorder.record(ANSWERS)
        assert await flushed(recorder)
        assert not recorder.record(ANSWERS)
        assert recorder.counts == RecorderCounts(calls=21, kept=1, repeated=20, acknowledged=1)
        clock.now += 3600
        assert recorder.record(ANSWERS)
        assert await flushed(recorder)
    assert [number for number, _ in shuffler.held.values()] == [0, 1]


async def test_what_waits_offline_is_sent_by_the_next_run(device: Make, shuffler: FakeShuffler) -> None:
    errors = Errors()
    async with prompt(device(shuffler=NOBODY), on_error=errors) as recorder:
        recorder.record(ANSWERS)
        assert not await flushed(recorder)
        assert (recorder.counts.kept, recorder.counts.acknowledged) == (1, 0)
    assert any(isinstance(error, Unreachable) for error in errors)
    async with prompt(device()) as recorder:
        assert await flushed(recorder)
        assert recorder.counts == RecorderCounts(acknowledged=1)
    assert len(shuffler.held) == 1


async def test_an_answer_is_for_the_round_in_which_it_was_recorded(
    device: Make, shuffler: FakeShuffler, clock: Clock
) -> None:
    gate = Gate()
    async with prompt(device(random=gate)) as recorder:
        clock.now = START + 3599.0
        recorder.record(ANSWERS)
        assert await asyncio.to_thread(gate.reached.wait, 30)
        clock.now = START + 3601.0
        gate.opened.set()
        assert await flushed(recorder)
    assert [number for number, _ in shuffler.held.values()] == [0]


class Unreadable(Mapping[str, Any]):
    """Answers that raise an error which has one of them."""

    def __getitem__(self, name: str) -> Any:
        raise RuntimeError("secret")

    def __iter__(self) -> Iterator[str]:
        return iter(["carrier"])

    def __len__(self) -> int:
        return 1


async def test_nothing_that_is_recorded_raises(device: Make, shuffler: FakeShuffler, clock: Clock) -> None:
    errors = Errors()
    async with prompt(device(), on_error=errors) as recorder:
        wrong: list[Any] = [None, 7, [("carrier", "UA")], {"carrier": "secret"}, {"carrier": None}, {"what": 1}]
        queued = [recorder.record(each) for each in [*wrong, Unreadable()]]
        assert queued == [False, False, False, True, True, True, False]
        assert await flushed(recorder)
        assert recorder.counts == RecorderCounts(calls=7, bad_answer=7)
        assert [type(error) for error in errors] == [AnswerError] * 7
        assert str(errors[2]) == "the answers are of type list; give a mapping from each query's name to its answer"
        assert not any("secret" in str(error) for error in errors)
        # A wrong answer does not use up the round.
        recorder.record(ANSWERS)
        assert await flushed(recorder)
        assert recorder.counts.kept == 1
        clock.now = START - 1.0
        assert not recorder.record(ANSWERS)
        assert recorder.counts.no_round == 1


async def test_the_mapping_that_was_recorded_may_change_afterwards(device: Make, shuffler: FakeShuffler) -> None:
    gate, answers = Gate(), dict(ANSWERS)
    async with prompt(device(random=gate)) as recorder:
        recorder.record(answers)
        answers["carrier"] = "not a carrier"
        gate.opened.set()
        assert await flushed(recorder)
        assert recorder.counts.kept == 1


async def test_after_opting_out_nothing_is_sent(device: Make, shuffler: FakeShuffler) -> None:
    one = device()
    one.opt_out()
    async with prompt(one) as recorder:
        recorder.record(ANSWERS)
        assert await flushed(recorder)
        assert recorder.counts == RecorderCounts(calls=1, opted_out=1)
    assert (shuffler.fetched, shuffler.seen) == ([], [])


async def test_a_full_queue_drops_and_counts(device: Make, shuffler: FakeShuffler) -> None:
    gate = Gate()
    async with prompt(device(random=gate), capacity=2) as recorder:
        assert recorder.record(ANSWERS)
        assert await asyncio.to_thread(gate.reached.wait, 30)
        assert [recorder.record(ANSWERS) for _ in range(4)] == [True, True, False, False]
        assert (recorder.counts.queued, recorder.counts.dropped) == (3, 2)
        gate.opened.set()
        assert await flushed(recorder)
        assert recorder.counts == RecorderCounts(calls=5, kept=1, repeated=2, dropped=2, acknowledged=1)


async def test_a_state_file_that_cannot_be_used_is_told_and_counted(device: Make, tmp_path: Path) -> None:
    errors = Errors()
    async with prompt(device(state=tmp_path / "missing" / "state.db"), on_error=errors) as recorder:
        recorder.record(ANSWERS)
        assert not await flushed(recorder)
        assert recorder.counts == RecorderCounts(calls=1, failed=1)
    assert {type(error) for error in errors} == {StateError}


async def test_what_handles_errors_may_fail_itself(device: Make, shuffler: FakeShuffler) -> None:
    def fail(error: Exception) -> None:
        raise RuntimeError("on top of that") from error

    async with prompt(device(), on_error=fail) as recorder:
        recorder.record({"carrier": "nothing like it"})
        recorder.record(ANSWERS)
        assert await flushed(recorder)
        assert recorder.counts == RecorderCounts(calls=2, bad_answer=1, kept=1, acknowledged=1)


def test_a_cause_is_logged_once_an_hour_with_how_often_it_came(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger=module.__name__)
    clock = Clock()
    log = module.ErrorLog(clock)
    for tries in range(5):
        log.tell(Unreachable(f"nobody answers; tried {tries} times"))
        log.tell(AnswerError("theme is not asked"))
    assert [record.getMessage() for record in caplog.records] == [
        "Unreachable: nobody answers; tried 0 times",
        "AnswerError: theme is not asked",
    ]
    clock.now += module.REPEAT_SECONDS
    log.tell(Unreachable("nobody answers; tried 9 times"))
    again = "Unreachable: nobody answers; tried 9 times (4 more times since it was logged)"
    assert caplog.records[-1].getMessage() == again
    log.end()
    last = "AnswerError: theme is not asked (4 more times since it was logged)"
    assert caplog.records[-1].getMessage() == last
    log.end()
    assert len(caplog.records) == 4, "what was said once is not said again"
    for number in range(2 * module.MOST_CAUSES):
        log.tell(AnswerError("x" * number))
    assert len(log._known) <= module.MOST_CAUSES


def test_twenty_bad_answers_are_two_lines(device: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger=module.__name__)
    with Recorder(device()) as recorder:
        for _ in range(20):
            assert recorder.record({"theme": "light"}), "what does not fit the task is found after the queue"
        recorder.flush()
        assert recorder.counts.bad_answer == 20
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(told) == 2
    assert told[1] == f"{told[0]} (19 more times since it was logged)"


def test_a_state_file_that_cannot_be_used_is_two_lines_too(
    device: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The last look at the file, when the recorder closes, finds what was logged before."""
    caplog.set_level("INFO", logger=module.__name__)
    with Recorder(device(state=tmp_path / "missing" / "state.db")) as recorder:
        recorder.record(ANSWERS)
        assert not recorder.flush(30)
    first, last = [record.getMessage() for record in caplog.records if record.name == module.__name__]
    assert re.fullmatch(rf"{re.escape(first)} \([0-9]+ more times since it was logged\)", last)


async def test_a_shuffler_that_is_not_trusted_is_a_warning(
    device: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not one that is silent for a while: somebody has to look at the authority's file."""
    caplog.set_level("INFO", logger=module.__name__)
    stranger = make_tls(tmp_path, "shuffler")["shuffler"].authority
    async with prompt(device(authority=stranger)) as recorder:
        recorder.record(ANSWERS)
        assert not await flushed(recorder)
    own = [record for record in caplog.records if record.name == module.__name__]
    assert {(record.levelname, record.getMessage().partition(":")[0]) for record in own} == {("WARNING", "Distrusted")}


async def test_errors_are_logged_by_default(device: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger=module.__name__)
    async with prompt(device(shuffler=NOBODY)) as recorder:
        recorder.record({"carrier": "secret"})
        recorder.record(ANSWERS)
        await flushed(recorder)
    levels = {(record.levelname, record.getMessage().partition(":")[0]) for record in caplog.records}
    assert levels == {("WARNING", "AnswerError"), ("INFO", "Unreachable")}
    assert "secret" not in caplog.text


@pytest.mark.parametrize(("reason", "refused"), [(Reason.TOO_LATE, 1), (Reason.UNKNOWN_TASK, 0)])
async def test_a_refusal_for_good_is_counted_and_any_other_waits(
    device: Make, shuffler: FakeShuffler, reason: Reason, refused: int
) -> None:
    shuffler.failures.append(Refusal(reason, "no"))
    errors = Errors()
    async with prompt(device(), on_error=errors) as recorder:
        recorder.record(ANSWERS)
        await flushed(recorder)
        assert [getattr(error, "reason", None) for error in errors] == [reason]
        assert await flushed(recorder)
        assert recorder.counts == RecorderCounts(calls=1, kept=1, refused=refused, acknowledged=1 - refused)


async def test_a_refusal_that_repeats_is_told_once(device: Make, shuffler: FakeShuffler) -> None:
    shuffler.failures.extend([Refusal(Reason.UNKNOWN_TASK, "no")] * 2 + [Refusal(Reason.NOT_ALLOWED, "nor now")])
    errors = Errors()
    async with prompt(device(), on_error=errors) as recorder:
        recorder.record(ANSWERS)
        # Tries follow each other by themselves too, so how many calls it takes is left open.
        while not await flushed(recorder):
            await pause()
        assert [getattr(error, "reason", None) for error in errors] == [Reason.UNKNOWN_TASK, Reason.NOT_ALLOWED]


async def test_what_failed_is_tried_again_by_itself(
    device: Make, shuffler: FakeShuffler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    shuffler.failures.extend([Refusal(Reason.UNKNOWN_TASK, "not yet")] * 3)
    answered, answer = threading.Event(), shuffler._answer
    monkeypatch.setattr(shuffler, "_answer", lambda *given: (answer(*given), answered.set())[0])
    async with prompt(device(), on_error=Errors()) as recorder:
        recorder.record(ANSWERS)
        assert await asyncio.to_thread(answered.wait, CALL_SECONDS)


async def test_a_try_that_hangs_is_given_up(
    device: Make, shuffler: FakeShuffler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TRY_SECONDS", 0.01)
    monkeypatch.setattr(module, "HANGING_SECONDS", 0.01)
    one, errors = device(), Errors()

    async def hang(*_: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(one._submissions, "resend_all", hang)
    async with prompt(one, on_error=errors) as recorder:
        recorder.record(ANSWERS)
        assert not await flushed(recorder)
        assert (recorder.counts.kept, recorder.counts.acknowledged) == (1, 0)
    assert "sending hangs" in str(errors[0])


async def test_what_comes_after_closing_is_dropped(device: Make, shuffler: FakeShuffler) -> None:
    recorder = prompt(device())
    recorder.record(ANSWERS)
    assert await asyncio.to_thread(recorder.close, CALL_SECONDS)
    assert await asyncio.to_thread(recorder.close, CALL_SECONDS)
    wrong: Any = "no mapping"
    assert [recorder.record(each) for each in (ANSWERS, wrong)] == [False, False]
    assert await flushed(recorder)
    assert recorder.counts == RecorderCounts(calls=3, kept=1, dropped=2, acknowledged=1)
    assert recorder._worker is None
    assert recorder._device._state._connection is None


async def test_without_a_thread_closing_stores_what_is_queued(
    device: Make, shuffler: FakeShuffler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at the end of a program, when no thread can be started."""

    def no_thread(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    recorder = prompt(device())
    assert recorder.record(ANSWERS)
    assert not recorder.flush(30)
    assert not recorder.close()
    assert recorder.counts == RecorderCounts(calls=1, kept=1)
    monkeypatch.undo()
    assert len(await device().resend()) == 1


@pytest.mark.parametrize("wrong", [0, True, "x", 1.5])
async def test_a_recorder_without_room_is_refused(device: Make, wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"capacity is .*; give a whole number, 1 or more"):
        prompt(device(), capacity=wrong)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), "x", True])
async def test_what_is_not_a_time_is_refused(device: Make, shuffler: FakeShuffler, wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"exit_seconds is .*; give a number of seconds, 0 or more"):
        prompt(device(), exit_seconds=wrong)
    async with prompt(device()) as recorder:
        for call in (recorder.flush, recorder.close):
            with pytest.raises(UsageError, match=r"timeout is .*; give a number of seconds, 0 or more"):
                call(wrong)
        assert recorder.record(ANSWERS)


async def test_a_recorder_is_of_a_device_and_tells_a_function(device: Make) -> None:
    nothing: Any = None
    with pytest.raises(UsageError, match="device is of type NoneType; give a Device"):
        prompt(nothing)
    wrong: Any = 5
    with pytest.raises(UsageError, match="on_error is of type int; give a function"):
        prompt(device(), on_error=wrong)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
async def test_what_handles_errors_may_even_exit(
    device: Make, shuffler: FakeShuffler, kind: type[BaseException]
) -> None:
    def leave(error: Exception) -> None:
        raise kind from error

    async with prompt(device(), on_error=leave) as recorder:
        recorder.record({"carrier": "nothing like it"})
        recorder.record(ANSWERS)
        assert await flushed(recorder)
        assert recorder.counts == RecorderCounts(calls=2, bad_answer=1, kept=1, acknowledged=1)


async def test_a_refused_round_takes_no_more_and_later_calls_do_not_count_as_repeated(
    device: Make, shuffler: FakeShuffler
) -> None:
    """Nothing of that round counts, neither the first answers nor these."""
    shuffler.failures.append(Refusal(Reason.TOO_LATE, "no"))
    one = device()
    async with prompt(one, on_error=Errors()) as recorder:
        recorder.record(ANSWERS)
        assert await flushed(recorder)
        assert recorder.record(ANSWERS), "what became of the round is found in the file"
        assert await flushed(recorder)
        assert not recorder.record(ANSWERS)
        assert recorder.counts == RecorderCounts(calls=3, kept=1, no_round=2, refused=1)
    async with prompt(one) as later:
        later.record(ANSWERS)
        assert await flushed(later)
        assert later.counts == RecorderCounts(calls=1, no_round=1)


async def test_answers_whose_round_went_by_are_counted_and_reported_once(
    device: Make, shuffler: FakeShuffler, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """As by a program that runs briefly in each round, and whose send times all come after its end."""
    caplog.set_level("INFO", logger=module.__name__)
    at_the_end = {"random": lambda count: b"\xff" * count}
    for number in range(3):
        clock.now = START + 3600 * number + 125.0
        async with Recorder(device(**at_the_end)) as recorder:
            assert recorder.record(ANSWERS)
            assert await flushed(recorder) is False
            assert (recorder.counts.kept, recorder.counts.expired) == (1, min(number, 1))
    assert shuffler.seen == []
    lost = "Expired: the answers to 1 round of task flights were not acknowledged before the round was over"
    assert [record.levelname for record in caplog.records if record.getMessage().startswith(lost)] == ["WARNING"] * 2
    # The state of all runs: two are lost, and the last one waits.
    spending = device().status().spending
    assert (spending.rounds, spending.unsent, spending.expired) == (0, 1, 2)


class Thread:
    """The recorder's thread, as one that never ends: it holds the state file's lock."""

    is_alive = True

    def wake(self) -> None:
        pass

    def stop(self) -> None:
        pass


async def test_the_end_of_a_program_waits_for_no_file_that_others_hold(
    device: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is never let go, so this ends only because closing gives it up."""
    monkeypatch.setattr(module, "FILE_SECONDS", 0.05)
    errors = Errors()
    recorder = prompt(device(), on_error=errors, exit_seconds=0.0)
    assert await flushed(recorder)
    assert recorder._worker is not None
    recorder._worker.stop()
    recorder._worker = Thread()  # type: ignore[assignment]
    for _ in range(5):
        assert recorder.record(ANSWERS)
    lock = recorder._device._state._lock
    lock.acquire()
    try:
        assert not recorder.close()
    finally:
        lock.release()
    assert recorder.counts == RecorderCounts(calls=5, failed=5)
    assert {type(error) for error in errors} == {StateError}


async def test_a_closed_recorder_answers_from_what_waits_on_disk(device: Make, shuffler: FakeShuffler) -> None:
    one = device(shuffler=NOBODY)
    async with prompt(one, on_error=Errors()) as recorder:
        recorder.record(ANSWERS)
    assert not await flushed(recorder)
    await device().resend()
    assert await flushed(recorder)
    assert await asyncio.to_thread(recorder.close)
    assert one._state._connection is None


# Programs that end, and that fork


def program(settings: dict[str, Any], address: str, folder: Path, body: str) -> subprocess.CompletedProcess[str]:
    (folder / "task.json").write_bytes(settings["task"])
    text = f"""
import os, sys
from pathlib import Path
from hubbub.client import Device, Recorder

recorder = Recorder(
    Device(
        Path({str(folder / "task.json")!r}).read_bytes(),
        operator_key=bytes.fromhex({settings["operator_key"].hex()!r}),
        shuffler_key=bytes.fromhex({settings["shuffler_key"].hex()!r}),
        state=Path({str(settings["state"])!r}),
        shuffler={address!r},
        authority=Path({str(settings["authority"])!r}),
        clock=lambda: {START + 50},
    ),
    exit_seconds={CALL_SECONDS},
    spread=False,
)
{body}
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, check=False, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done


async def test_the_end_of_a_program_sends_what_was_recorded(
    settings: dict[str, Any], shuffler: FakeShuffler, tmp_path: Path
) -> None:
    done = await asyncio.to_thread(program, settings, shuffler.address, tmp_path, "recorder.record({'carrier': 'UA'})")
    assert (done.stdout, done.stderr) == ("", "")
    assert len(shuffler.held) == 1


async def test_the_end_of_a_program_stores_what_cannot_be_sent(
    settings: dict[str, Any], device: Make, shuffler: FakeShuffler, tmp_path: Path
) -> None:
    body = "recorder._exit_seconds = 0.01\nrecorder.record({'carrier': 'UA'})"
    await asyncio.to_thread(program, settings, NOBODY, tmp_path, body)
    assert len(await device().resend()) == 1


async def test_a_forked_process_records_for_itself_and_one_answer_counts(
    settings: dict[str, Any], shuffler: FakeShuffler, tmp_path: Path
) -> None:
    body = """
assert recorder.record({"carrier": "UA"}) and recorder.flush(270)
child = os.fork()
if child == 0:
    assert recorder.counts.calls == 0
    assert not recorder.record({"carrier": "AA"})
    recorder._device._session.clock = lambda: %s
    assert recorder.record({"carrier": "AA"})
    assert recorder.flush(270)
    assert recorder.counts.acknowledged == 1, recorder.counts
    recorder.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert recorder.counts.acknowledged == 1
""" % (START + 3650)
    await asyncio.to_thread(program, settings, shuffler.address, tmp_path, body)
    assert sorted(number for number, _ in shuffler.held.values()) == [0, 1]


async def test_a_fork_in_the_middle_of_storing_leaves_a_whole_file(
    settings: dict[str, Any], shuffler: FakeShuffler, tmp_path: Path
) -> None:
    """The fork waits until the transaction is done, and neither process has the other's connection."""
    body = """
import threading
from hubbub.client.state.store import State

state = recorder._device._state
state.forget(0)
inside, forking = threading.Event(), threading.Event()

def before_fork(self, before_fork=State.before_fork):
    forking.set()
    before_fork(self)

State.before_fork = before_fork

def hold():
    with state.transaction():
        inside.set()
        forking.wait()

thread = threading.Thread(target=hold)
thread.start()
inside.wait()
child = os.fork()
assert state._connection is None
state.opt_out("child" if child == 0 else "parent")
assert not state._lock.locked()
if child == 0:
    state.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert state.opted_out(["child", "parent"]) == {"child", "parent"}
"""
    await asyncio.to_thread(program, settings, shuffler.address, tmp_path, body)


async def test_a_process_forked_beside_a_connection_keeps_its_answers_and_its_parent_sends_them(
    settings: dict[str, Any], shuffler: FakeShuffler, tmp_path: Path
) -> None:
    """Its calls by gRPC would never return, whatever their time is."""
    body = """
import asyncio, threading
from hubbub.client import CannotCall

device = recorder._device
opened, done = threading.Event(), threading.Event()

async def connected():
    async with device:
        await device.submit({"carrier": "UA"})
        opened.set()
        await asyncio.to_thread(done.wait)

thread = threading.Thread(target=lambda: asyncio.run(connected()))
thread.start()
opened.wait()
child = os.fork()
device._session.clock = lambda: %s
if child == 0:
    try:
        device.submit_blocking({"carrier": "AA"})
    except CannotCall as error:
        assert "gRPC" in str(error) and "are kept on this device" in str(error), error
        sys.exit()
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
assert len(device.resend_blocking()) == 1
done.set()
thread.join()
""" % (START + 3650)
    await asyncio.to_thread(program, settings, shuffler.address, tmp_path, body)
    assert sorted(number for number, _ in shuffler.held.values()) == [0, 1]


def test_pacing_of_a_device_is_its_own(settings: dict[str, Any]) -> None:
    """Progress of tries is told by the device's pacing, in the recorder's thread as elsewhere."""
    told: list[Any] = []
    retrying = replace(settings["retrying"], progress=told.append)
    with prompt(Device(**{**settings, "retrying": retrying}, shuffler=NOBODY), on_error=Errors()) as recorder:
        recorder.record(ANSWERS)
        assert not recorder.flush(30)
    assert told


async def test_a_process_of_multiprocessing_stores_what_is_queued_when_it_ends(
    settings: dict[str, Any], shuffler: FakeShuffler, tmp_path: Path
) -> None:
    """Its processes run no exit handlers. Here the thread stores nothing, as if the process ended before it could."""
    body = """
import multiprocessing
from hubbub.client import recorder as module

def work():
    module._RecorderThread._run = lambda self: None
    recorder._exit_seconds = 0
    assert recorder.record({"carrier": "UA"})

assert recorder.flush(270) and recorder._device._work.is_clear()
process = multiprocessing.get_context("fork").Process(target=work)
process.start()
process.join()
assert process.exitcode == 0
assert not recorder._device._work.is_clear()
os._exit(0)
"""
    await asyncio.to_thread(program, settings, shuffler.address, tmp_path, body)


def test_answers_are_copied_with_their_parts() -> None:
    """A program may use one mapping for all its calls, which the thread reads later."""
    part: dict[str, Any] = {"region": "north", "session": 1.0}
    taken = module._copied({"session": part, "theme": "dark"})
    part["session"] = 2.0
    assert taken == {"session": {"region": "north", "session": 1.0}, "theme": "dark"}
