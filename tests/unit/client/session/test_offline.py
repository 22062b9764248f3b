"""Answers given while nobody can be reached are kept: randomized once, sent later in their round, or in none."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from hubbub.client import (
    Answer,
    AnswerError,
    AuthorityError,
    Device,
    Fleet,
    Gateway,
    KeySetChanged,
    NoRound,
    OptedOut,
    Reason,
    Refusal,
    Retry,
    Retrying,
    RetryPolicy,
    SignatureError,
    StateError,
    Unreachable,
    UsageError,
)
from hubbub.client.state.rounds import Drawn, RoundRef
from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.transport.channels import TLS
from hubbub.queries.questions.histogram import Histogram
from support.charges import BILL
from support.fake_shuffler import Clock, FakeShuffler
from support.https_port import opened
from support.krr_queries import krr_query, symbol
from support.messages import NO_READABLE_CERTIFICATE
from support.planted_secrets import found_in
from support.samples import HALF, START, Parties, sample_task, signed

ANSWERS: dict[str, Any] = {"carrier": "UA", "delay": 12.5}
NOBODY = "127.0.0.1:1"
REPORT_BYTES = 4
"""Of a report of kRR."""

KEPT = (
    "the answers to round 0 are kept on this device, randomized: resend them, or submit again, "
    "before 2026-01-01T01:01:00Z"
)

Make = Callable[..., Device]


async def kept_offline(device: Make, says: str = KEPT, **changes: Any) -> Drawn:
    """What a device has on disk after it answered while nobody could be reached."""
    one = device(shuffler=NOBODY, **changes)
    with pytest.raises(Unreachable, match=says):
        await one.submit(ANSWERS)
    (entry,) = one._state.find(RoundRef(one.task.id, 0), [changes.get("name", "")]).values()
    await one.close()
    assert entry.drawn is not None
    return entry.drawn


async def test_the_first_answers_given_offline_are_kept_and_resent(device: Make, shuffler: FakeShuffler) -> None:
    drawn = await kept_offline(device)
    (receipt,) = await device().resend()
    assert (receipt.round, receipt.submission_id) == (0, drawn.submission_id)
    assert b"".join(shuffler.symbols(receipt.submission_id)) == drawn.reports  # type: ignore[arg-type]
    assert await device().resend() == []


async def test_nothing_is_drawn_a_second_time(device: Make, shuffler: FakeShuffler) -> None:
    drawn = await kept_offline(device)
    assert await kept_offline(device, "those of this call are not used") == drawn

    def exhausted(count: int) -> bytes:
        raise AssertionError(f"{count} bytes were drawn")

    receipt = await device(random=exhausted).submit({"carrier": "AA"})
    assert receipt.submission_id == drawn.submission_id
    assert b"".join(shuffler.symbols(receipt.submission_id)) == drawn.reports  # type: ignore[arg-type]


async def test_the_first_answers_stand_and_a_later_call_says_so(device: Make) -> None:
    await kept_offline(device)
    first = await device().submit({"carrier": "AA"})
    second = await device().submit({"carrier": "AA"})
    fresh = await device(name="other").submit(ANSWERS)
    assert (first.used, second.used, fresh.used) == (False, False, True)
    assert first == second


async def test_the_answers_themselves_are_never_on_disk(
    device: Make, settings: dict[str, Any], parties: Parties
) -> None:
    """Under this randomness the carrier's report is not the answer's symbol: it is drawn anew, as the second one."""
    # Long answers: two bytes come by chance in random ones, once in 300 runs.
    answers = ("nothing of the kind", "another one", "a matter of its own")
    asked = sample_task(parties, queries=(krr_query(Histogram("carrier", answers), HALF),))
    one = device(
        task=signed(asked, parties).encode(),
        shuffler=NOBODY,
        random=lambda count: (b"\x00" * count)[:-1] + b"\x01",
    )
    with pytest.raises(Unreachable):
        await one.submit({"carrier": answers[2]})
    (entry,) = one._state.find(RoundRef(one.task.id, 0), [""]).values()
    assert entry.reports is not None
    assert symbol(entry.reports[:REPORT_BYTES]) == 1
    files = [path.read_bytes() for path in settings["state"].parent.glob("device.sqlite*")]
    assert files
    assert found_in(b"".join(files), [*(answer.encode() for answer in answers), b"carrier"]) == []


async def test_what_is_kept_is_sent_after_the_rounds_end_until_its_cut(device: Make, clock: Clock) -> None:
    await kept_offline(device)
    clock.now = START + 3600 + 59
    late = device()
    assert (await late.submit(ANSWERS)).round == 1
    assert [receipt.round for receipt in await late.resend()] == [0]


async def test_answers_to_a_later_round_are_kept_until_it_begins_and_sent_then(
    device: Make, shuffler: FakeShuffler, clock: Clock
) -> None:
    one = device()
    assert one.keep(ANSWERS, round=1)
    status = one.status()
    assert (status.waiting, status.next and status.next.send_time) == ((1,), START + 3600)
    for early in (False, True):
        assert await one.resend(early=early) == []
        assert await one.sealed_submissions(early=early) == []
    assert (shuffler.fetched, shuffler.seen) == ([], []), "nobody was asked"
    clock.now = START + 3600
    (receipt,) = await one.resend()
    assert (receipt.round, len(shuffler.seen)) == (1, 1)


async def test_a_later_round_is_answered_at_once_only_a_grace_before_it(
    device: Make, fleet: Callable[..., Fleet], shuffler: FakeShuffler, clock: Clock
) -> None:
    one = device()
    said = r"round 1 of task flights begins at 2026-01-01T01:00:00Z, .*; store the answers with keep\(\)"
    clock.now = START + 3600 - 61
    for answer in (one.submit(ANSWERS, round=1), one.prepare(ANSWERS, round=1)):
        with pytest.raises(NoRound, match=said):
            await answer
    with pytest.raises(NoRound, match=said):
        await fleet().submit_many([("a", ANSWERS)], round=1)
    assert (one.status().waiting, shuffler.fetched) == ((), []), "nothing was stored, and nobody was asked"
    clock.now += 1
    # Clocks may differ by a grace, and the shuffler takes submissions from then on.
    assert (await one.submit(ANSWERS, round=1)).round == 1


async def test_what_is_kept_too_long_is_erased_unsent_and_never_sent_in_another_round(
    device: Make, shuffler: FakeShuffler, clock: Clock, settings: dict[str, Any]
) -> None:
    drawn = await kept_offline(device)
    clock.now = START + 3600 + 2 * 60 + 1
    later = device()
    assert await later.resend() == []
    assert (shuffler.fetched, shuffler.seen) == ([], [])
    spending = later.status().spending
    assert (spending.rounds, spending.unsent, spending.expired, spending.epsilon_local) == (0, 0, 1, 0.0)
    receipt = await later.submit(ANSWERS)
    assert (receipt.round, receipt.used) == (1, True)
    await later.close()
    assert drawn.submission_id not in settings["state"].read_bytes()


async def test_keys_that_are_refused_for_good_discard_what_is_kept(
    device: Make, shuffler: FakeShuffler, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kept_offline(device)

    async def too_late(*_: Any) -> Any:
        raise Refusal(Reason.TOO_LATE, "round 1 begins soon")

    monkeypatch.setattr(shuffler, "get_round", too_late)
    one = device()
    with pytest.raises(Refusal, match=r"^round 1 begins soon$"):
        await one.resend()
    assert await one.resend() == []
    assert (one.status().current.answer, one.status().spending.rounds) == (Answer.REFUSED, 0)  # type: ignore[union-attr]
    with pytest.raises(Refusal, match="was discarded; answer the next"):
        await one.submit(ANSWERS)


async def test_keys_that_are_not_to_be_trusted_leave_it_kept(device: Make, shuffler: FakeShuffler) -> None:
    good = shuffler.keys(0)[2]
    forged = shuffler.record(Role.SHUFFLER, 0, b"k" * 32).signed_by(Identity.generate())
    shuffler.serve_keys(0, replace(good, shuffler=forged))
    with pytest.raises(SignatureError):
        await device().submit(ANSWERS)
    shuffler.serve_keys(0, good)
    assert len(await device().resend()) == 1


async def test_a_refusal_that_is_not_for_good_says_that_the_answers_are_kept(
    device: Make, shuffler: FakeShuffler
) -> None:
    shuffler.failures.append(Refusal(Reason.UNKNOWN_TASK, "not this task"))
    with pytest.raises(Refusal, match=f"^not this task; {KEPT}$"):
        await device().submit(ANSWERS)
    assert len(await device().resend()) == 1


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        (Reason.REVOKED, "randomized: revoking is for good: put a new ticket in place, then resend them, or submit"),
        (Reason.CREDENTIAL_EXPIRED, "randomized: put a new ticket in place, then resend them, or submit"),
    ],
)
async def test_a_refusal_that_the_same_ticket_gets_again_asks_for_a_new_one(
    device: Make, shuffler: FakeShuffler, reason: Reason, remedy: str
) -> None:
    shuffler.failures.append(Refusal(reason, "not this one"))
    with pytest.raises(Refusal, match=remedy):
        await device().submit(ANSWERS)


async def test_a_round_that_is_refused_keeps_no_other_from_being_resent(
    device: Make, shuffler: FakeShuffler, clock: Clock
) -> None:
    await kept_offline(device)
    clock.now = START + 3600 + 10
    with pytest.raises(Unreachable):
        await device(shuffler=NOBODY).submit(ANSWERS)
    shuffler.failures.append(Refusal(Reason.TOO_LATE, "late"))
    one = device()
    with pytest.raises(Refusal, match=r"^late$"):
        await one.resend()
    assert [number for number, _ in shuffler.held.values()] == [1]
    assert one.status().waiting == ()


async def test_two_who_seal_the_same_reports_send_the_same_bytes(device: Make, shuffler: FakeShuffler) -> None:
    await kept_offline(device)
    one, other = device(), device()
    receipts = await asyncio.gather(*(who.submit(ANSWERS) for who in (one, other, one, other)), one.resend())
    assert len({receipt.submission_id for receipt in receipts[:4]}) == 1
    assert len(set(shuffler.seen)) == 1


async def test_a_fleet_that_shares_the_file_sends_what_a_device_kept(
    device: Make, fleet: Callable[..., Fleet], shuffler: FakeShuffler
) -> None:
    drawn = await kept_offline(device, name="a")
    summary = await fleet().submit_many([("a", {"carrier": "AA"}), ("b", {"carrier": "AA"})])
    assert summary.accepted == 2
    assert b"".join(shuffler.symbols(drawn.submission_id)) == drawn.reports  # type: ignore[arg-type]


async def test_a_fleet_without_keys_says_that_it_stored_nothing(fleet: Callable[..., Fleet]) -> None:
    one = fleet(shuffler=NOBODY)
    with pytest.raises(Unreachable, match="none of these answers was stored"):
        await one.submit_many([("a", ANSWERS)])
    assert one._state.find(RoundRef(one.task.id, 0), ["a"]) == {}


async def test_a_fleet_that_is_cut_off_says_what_is_kept(fleet: Callable[..., Fleet], shuffler: FakeShuffler) -> None:
    shuffler.failures.extend([RuntimeError("down")] * 99)
    with pytest.raises(Unreachable, match="the sealed submissions are kept: call again to continue"):
        await fleet().submit_many([("a", ANSWERS)])


async def test_reports_of_another_length_are_not_sealed(device: Make, shuffler: FakeShuffler) -> None:
    one = device()
    of = RoundRef(one.task.id, 0)
    one._state.keep_reports(of, "", Drawn(os.urandom(16), b"x"), START + 10_000.0, BILL)
    with pytest.raises(StateError, match=r"has 1 bytes of reports, but \d+ are expected"):
        await one.resend()
    assert shuffler.seen == []


async def test_other_keys_at_another_time_are_refused_for_what_is_kept_too(
    device: Make, shuffler: FakeShuffler
) -> None:
    await kept_offline(device)
    one = device()
    first = shuffler.keys(0)[2]
    shuffler.rotate(0)
    one._state.pin(RoundRef(one.task.id, 0), first, START + 10_000.0)
    with pytest.raises(KeySetChanged):
        one._state.pin(RoundRef(one.task.id, 0), shuffler.keys(0)[2], START + 10_000.0)


POINTS = ["look", "keep_reports", "pin", "seal", "settle"]
UNSTORED = {("look", "before"), ("look", "after"), ("keep_reports", "before")}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", POINTS)
async def test_killed_at_any_step_one_set_of_reports_is_sent(
    device: Make, settings: dict[str, Any], shuffler: FakeShuffler, tmp_path: Path, point: str, when: str
) -> None:
    """A process is killed around a step of its state; the next run must send what the first may have sent."""
    before = device(random=lambda count: b"\x01" * count)
    await asyncio.to_thread(run_until_killed, settings, shuffler, tmp_path, point, when)
    stored = before._state.find(RoundRef(before.task.id, 0), [""])
    assert bool(stored) is ((point, when) not in UNSTORED)
    receipt = await before.submit({"carrier": "AA"})
    assert receipt.used is not bool(stored)
    assert len({one.id for one in shuffler.seen}) == 1
    assert len(set(shuffler.seen)) == 1
    for entry in stored.values():
        assert entry.submission_id == receipt.submission_id
        assert entry.reports in (None, b"".join(shuffler.symbols(receipt.submission_id)))  # type: ignore[arg-type]


def run_until_killed(settings: dict[str, Any], shuffler: FakeShuffler, folder: Path, point: str, when: str) -> None:
    (folder / "task.json").write_bytes(settings["task"])
    program = f"""
import os, signal
from pathlib import Path
from hubbub.client import Device
from hubbub.client.state.store import State

step = State.{point}

def killing(self, *arguments, **options):
    if {when!r} == "after":
        step(self, *arguments, **options)
    os.kill(os.getpid(), signal.SIGKILL)

State.{point} = killing
Device(
    Path({str(folder / "task.json")!r}).read_bytes(),
    operator_key=bytes.fromhex({settings["operator_key"].hex()!r}),
    shuffler_key=bytes.fromhex({settings["shuffler_key"].hex()!r}),
    state=Path({str(settings["state"])!r}),
    shuffler={shuffler.address!r},
    authority=Path({str(settings["authority"])!r}),
    clock=lambda: {START + 50},
).submit_blocking({{"carrier": "UA"}})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr.decode()


# Time, and progress


async def test_a_timeout_is_for_keys_and_sending_together(device: Make, clock: Clock) -> None:
    began = clock.now
    with pytest.raises(Unreachable, match=r"tried \d+ times in \d\.\d s"):
        await device(shuffler=NOBODY).submit(ANSWERS, timeout=4)
    assert clock.now - began <= 4.0


async def test_waiting_for_keys_leaves_less_time_for_sending(
    device: Make, shuffler: FakeShuffler, clock: Clock
) -> None:
    shuffler.failures.append(Refusal(Reason.NOT_READY, "no keys yet", 20.0))
    shuffler.failures.extend([RuntimeError("down")] * 99)
    began = clock.now
    with pytest.raises(Unreachable):
        await device().submit(ANSWERS)
    assert clock.now - began <= 30.0


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), "soon", True])
async def test_a_timeout_that_is_no_time_is_refused_before_anything_is_stored(
    device: Make, shuffler: FakeShuffler, seconds: Any
) -> None:
    one = device()
    with pytest.raises(UsageError, match=r"timeout is .*; give a number of seconds above 0"):
        await one.submit(ANSWERS, timeout=seconds)
    assert one.status().waiting == ()


async def test_each_pause_is_told_before_it_begins(device: Make, settings: dict[str, Any], clock: Clock) -> None:
    told: list[tuple[Retry, int]] = []
    retrying = replace(
        settings["retrying"],
        policy=RetryPolicy(total=10.0),
        progress=lambda retry: told.append((retry, len(clock.slept))),
    )
    with pytest.raises(Unreachable):
        await device(shuffler=NOBODY, retrying=retrying).submit(ANSWERS)
    assert [retry.pause for retry, _ in told] == clock.slept
    assert [retry.tries for retry, _ in told] == list(range(1, len(told) + 1))
    assert [before for _, before in told] == list(range(len(told)))
    assert all(isinstance(retry.error, Unreachable) and retry.pause < retry.left <= 10.0 for retry, _ in told)


# Calls that cannot be right


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "{}"}, r"task is of type str; give bytes, such as Path\(…\).read_bytes\(\)"),
        ({"task": Path("task.json")}, "task is of type PosixPath; give bytes"),
        ({"operator_key": "-----BEGIN"}, "operator_key is of type str; give bytes"),
        ({"shuffler_key": None}, "shuffler_key is of type NoneType; give bytes"),
        ({"state": b"device.sqlite"}, "state is of type bytes; give a Path"),
        ({"state": None}, "state is of type NoneType; give a Path"),
        ({"state": Path("a\0b")}, r"state is 'a\\x00b', and no file's name may have a NUL character; name another"),
        ({"authority": Path("a\0b")}, r"authority is 'a\\x00b', and no file's name may have a NUL character"),
        ({"state": "device.sqlite"}, "state is of type str; give a Path"),
        ({"authority": 7}, "authority is of type int; give a Path to name a file, or bytes for its content"),
        ({"authority": "-----BEGIN CERTIFICATE-----"}, "authority is of type str; give a Path to name a file, or"),
        ({"authority": "authority.pem"}, "authority is of type str; give a Path to name a file, or bytes"),
        ({"authority": None}, "authority is of type NoneType; give a Path"),
        ({"shuffler": "http://shuffler.example.org:7301"}, "shuffler: 'http://.* is a URL or a path; give host:port"),
        ({"shuffler": "https://shuffler.example.org:7301/x"}, "is a URL or a path; give host:port"),
        ({"shuffler": "shuffler.example.org"}, "is not host:port with a port from 0 to 65535"),
        ({"shuffler": "host:0"}, "give the port at which the service listens"),
        ({"shuffler": "host:65536"}, "is not host:port with a port from 0 to 65535"),
        ({"shuffler": "::1:7301"}, "in brackets"),
        ({"shuffler": 7301}, "shuffler is of type int; give host:port"),
        ({"retrying": 5}, r"retrying is of type int; give a Retrying\(…\)"),
        ({"retrying": Retrying}, r"retrying is the class Retrying; give a Retrying\(…\)"),
        ({"random": None}, "random is of type NoneType; give a function that returns bytes"),
        ({"clock": 5}, "clock is of type int; give a function that returns seconds"),
    ],
)
@pytest.mark.parametrize("kind", [Device, Fleet])
def test_an_argument_of_another_type_is_named(
    settings: dict[str, Any], kind: type[Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        kind(**{**settings, "shuffler": NOBODY, **changes})


async def test_what_is_neither_true_nor_false_is_refused_before_anything_is_stored(
    device: Make, shuffler: FakeShuffler
) -> None:
    one, no = device(), cast(bool, "no")
    with pytest.raises(UsageError, match="spread is of type str; give True or False"):
        one.keep(ANSWERS, spread=no)
    with pytest.raises(UsageError, match="spread is of type str; give True or False"):
        await one.submit(ANSWERS, spread=no)
    for call in (one.resend(early=no), one.sealed_submissions(early=no)):
        with pytest.raises(UsageError, match="early is of type str; give True or False"):
            await call
    assert (one.status().waiting, shuffler.fetched) == ((), [])


def test_a_ticket_given_as_its_text_and_a_state_that_is_a_folder_are_named(device: Make, tmp_path: Path) -> None:
    for text in ('{"body": {}}', "device.ticket"):
        with pytest.raises(UsageError, match="ticket is of type str; give a Path to name a file, or bytes for its"):
            device(ticket=text)
    with pytest.raises(StateError, match="it is a folder; name a file in it"):
        device(state=tmp_path).status()


@pytest.mark.parametrize("wrong", ["2", 1.5, True, [1]])
async def test_a_fleet_and_a_gateway_name_an_argument_of_another_type(
    fleet: Callable[..., Fleet], gateway: Gateway, wrong: Any
) -> None:
    for name in ("per_call", "calls"):
        for call in (fleet().submit_many([], **{name: wrong}), gateway.carry([], **{name: wrong})):
            with pytest.raises(UsageError, match=f"{name} is .*; give a whole number, 1 or more"):
                await call
    with pytest.raises(UsageError, match="answers is of type NoneType; give pairs of a device and its answers"):
        await fleet().submit_many(None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="progress is of type list; give a function"):
        await fleet().submit_many([], progress=[])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="sealed_submissions is of type int; give a list of what"):
        await gateway.carry(5)  # type: ignore[arg-type]


async def test_a_port_of_the_other_kind_is_named(device: Make, shuffler: FakeShuffler, tls: TLS) -> None:
    grpc_port = shuffler.address
    with pytest.raises(Unreachable, match=f"https://{grpc_port} did not answer: .* without https://"):
        await device(shuffler=f"https://{grpc_port}").submit(ANSWERS)
    async with opened(shuffler, tls) as port:
        told = f"127.0.0.1:{port} did not answer: .* HTTPS port, give its address as https://host:port"
        with pytest.raises(Unreachable, match=told):
            await device(shuffler=f"127.0.0.1:{port}").submit(ANSWERS)
        assert (await device(shuffler=f"https://127.0.0.1:{port}").submit(ANSWERS)).round == 0


@pytest.mark.parametrize(
    "changes",
    [{"policy": 5}, {"progress": 5}, {"monotonic": 5}, {"sleep": None}, {"random": b""}, {"until": "x"}],
)
def test_a_pacing_checks_what_it_is_made_of(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"retrying {next(iter(changes))} is .*; give"):
        Retrying(**changes)


@pytest.mark.parametrize("total", ["x", None, True, 0, float("nan")])
def test_patience_is_in_seconds(total: Any) -> None:
    with pytest.raises(UsageError, match=r"retry policy total is .*; it must be a number of seconds above 0"):
        RetryPolicy(total=total)


@pytest.mark.parametrize("shuffler", ["host:1", "[::1]:7301", "192.0.2.1:65535", "shuffler.example.org:7301"])
def test_a_host_and_port_are_taken(settings: dict[str, Any], shuffler: str) -> None:
    assert repr(Device(**settings, shuffler=shuffler)).endswith(f"shuffler={shuffler!r})")


@pytest.mark.parametrize("answers", [None, [("carrier", "UA")], "carrier=UA", 7])
async def test_answers_that_are_no_mapping_are_refused(device: Make, answers: Any) -> None:
    one = device()
    with pytest.raises(AnswerError, match=r"answers are of type .*; give a mapping of queries to answers"):
        await one.submit(answers)
    await one.submit(ANSWERS)
    with pytest.raises(AnswerError):
        await one.submit(answers)


async def test_a_blocking_call_inside_an_event_loop_says_what_to_await(device: Make, shuffler: FakeShuffler) -> None:
    one = device()
    with pytest.raises(UsageError, match=r"submit_blocking\(\) was called inside .* await submit\(\) instead"):
        one.submit_blocking(ANSWERS)
    with pytest.raises(UsageError, match=r"await resend\(\) instead"):
        one.resend_blocking()
    assert shuffler.seen == []
    assert (await asyncio.to_thread(one.submit_blocking, ANSWERS)).used


async def test_resend_blocking_does_what_resend_does(device: Make, shuffler: FakeShuffler) -> None:
    drawn = await kept_offline(device)
    one = device()
    (receipt,) = await asyncio.to_thread(one.resend_blocking)
    assert receipt.submission_id == drawn.submission_id
    assert one._state._connection is None


# Opting out, and wiping


async def test_who_opted_out_sends_nothing_until_opting_in(device: Make, shuffler: FakeShuffler, clock: Clock) -> None:
    drawn = await kept_offline(device)
    device().opt_out()
    one = device()
    with pytest.raises(OptedOut, match=r"opt in again to change that \(`hubbub device opt-in`, or"):
        await one.submit(ANSWERS)
    assert await one.resend() == []
    assert (shuffler.fetched, shuffler.seen) == ([], [])
    assert one.status().opted_out
    assert (await device(name="other").submit(ANSWERS)).used
    one.opt_in()
    assert not one.status().opted_out
    # The first answers were erased before anything of them left: these are the first that are sent.
    receipt = await one.submit(ANSWERS)
    assert receipt.used
    assert receipt.submission_id != drawn.submission_id


async def test_what_may_have_been_sent_before_opting_out_is_not_answered_again(
    device: Make, shuffler: FakeShuffler, clock: Clock
) -> None:
    shuffler.failures.extend([RuntimeError("down")] * 99)
    one = device()
    with pytest.raises(Unreachable):
        await one.submit(ANSWERS)
    assert one.status().current.answer is Answer.SEALED  # type: ignore[union-attr]
    shuffler.failures.clear()
    one.opt_out()
    one.opt_in()
    with pytest.raises(NoRound, match="round 0 was answered before, and the submission was erased here"):
        await one.submit(ANSWERS)
    assert await one.resend() == []
    assert one.status().current.answer is Answer.ERASED  # type: ignore[union-attr]
    assert one.status().spending.rounds == 1
    clock.now += 3600
    assert (await one.submit(ANSWERS)).round == 1


async def test_an_answered_round_stays_answered_through_opting_out(device: Make) -> None:
    one = device()
    first = await one.submit(ANSWERS)
    one.opt_out()
    with pytest.raises(OptedOut):
        await one.submit(ANSWERS)
    one.opt_in()
    assert await one.submit(ANSWERS) == first


async def test_wiping_erases_everything_but_that_rounds_were_answered(
    device: Make, shuffler: FakeShuffler, settings: dict[str, Any], clock: Clock
) -> None:
    drawn = await kept_offline(device)
    one = device()
    # From now on round 1 is taken, and round 0 is still the current one.
    clock.now = START + 3600 - 60
    first = await one.submit(ANSWERS, round=1)
    other = await device(name="other").submit(ANSWERS, round=1)
    one.wipe()
    for path in settings["state"].parent.glob("device.sqlite*"):
        content = path.read_bytes()
        assert drawn.submission_id not in content
        assert first.submission_id not in content
    with pytest.raises(NoRound, match="round 1 was answered before"):
        await one.submit(ANSWERS, round=1)
    assert (await one.submit(ANSWERS)).used
    assert await device(name="other").submit(ANSWERS, round=1) == other
    assert one.status().spending.rounds == 2


async def test_a_fleet_leaves_out_who_opted_out(
    device: Make, fleet: Callable[..., Fleet], shuffler: FakeShuffler
) -> None:
    device(name="a").opt_out()
    device(name="b").wipe()
    summary = await fleet().submit_many([("a", ANSWERS), ("b", ANSWERS), ("a", ANSWERS)])
    assert (summary.accepted, summary.refused) == (1, {"opted_out": 2})
    device(name="b").wipe()
    assert (await fleet().submit_many([("b", ANSWERS)])).refused == {"erased_here": 1}
    assert len(shuffler.held) == 1


async def test_wiped_while_it_was_being_sealed_is_not_sent(
    device: Make, shuffler: FakeShuffler, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = device()
    fetch = one._session.fetch

    async def wiped_meanwhile(*given: Any) -> Any:
        found = await fetch(*given)
        one.wipe()
        return found

    monkeypatch.setattr(one._session, "fetch", wiped_meanwhile)
    with pytest.raises(NoRound, match="were erased on this device before they were sent"):
        await one.submit(ANSWERS)
    assert shuffler.seen == []


# An authority that cannot be used


@pytest.mark.parametrize("content", [b"", b"junk", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_an_authority_without_a_certificate_fails_at_once_and_is_named(
    settings: dict[str, Any], tmp_path: Path, content: bytes, parties: Parties
) -> None:

    path = tmp_path / "authority.pem"
    path.write_bytes(content)
    for given, name in ((path, str(path)), (content, "authority")):
        with pytest.raises(AuthorityError, match=f"{name} {NO_READABLE_CERTIFICATE}"):
            Device(**{**settings, "authority": given}, shuffler=NOBODY)
    parties.operator.save_public(path)
    with pytest.raises(AuthorityError, match=f"{path} {NO_READABLE_CERTIFICATE}"):
        Device(**{**settings, "authority": path}, shuffler=NOBODY)


def test_an_authority_that_is_missing_is_named_at_once(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(
        AuthorityError, match=r"nowhere\.pem: No such file or directory; give the authority's certificate"
    ):
        Device(**{**settings, "authority": tmp_path / "nowhere.pem"}, shuffler=NOBODY)
