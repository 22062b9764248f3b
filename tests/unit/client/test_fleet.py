"""A fleet carries many devices by a device's rules, and one device's failure is only its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from hubbub.client import Device, Fleet, HubbubError, KeySetChanged, Reason, Refusal, Unreachable, UsageError
from hubbub.client.session.session import Session
from hubbub.protos.messages import Answer, Submission
from hubbub.protos.sealing.envelope import Destination
from support.fake_shuffler import Clock, FakeShuffler
from support.krr_queries import symbol

Make = Callable[..., Fleet]
TRUTH = b"\xff" * 64


def people(count: int, start: int = 0) -> list[tuple[str, dict[str, Any]]]:
    return [(f"device-{number}", {"carrier": "UA", "delay": float(number)}) for number in range(start, start + count)]


async def test_every_device_is_submitted_once_in_calls_of_the_asked_size(fleet: Make, shuffler: FakeShuffler) -> None:
    told: list[int] = []
    summary = await fleet().submit_many(people(253), progress=told.append, per_call=20, calls=3)
    assert (summary.accepted, summary.refused) == (253, {})
    assert sum(told) == 253
    assert sorted(shuffler.sizes) == [13, *[20] * 12]
    assert len(shuffler.held) == len({submission.id for submission in shuffler.seen}) == 253
    assert shuffler.fetched == [0]


async def test_a_chunk_is_drawn_before_any_of_it_is_sealed(
    fleet: Make, shuffler: FakeShuffler, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    for name in ("draw", "sealed"):
        monkeypatch.setattr(Session, name, _noting(steps, name, getattr(Session, name)))
    await fleet().submit_many([*people(3), ("odd", {"carrier": "no carrier"})])
    assert steps == [*["draw"] * 4, *["sealed"] * 3]
    assert len(shuffler.held) == 3


def _noting(steps: list[str], name: str, work: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*arguments: Any) -> Any:
        steps.append(name)
        return work(*arguments)

    return noted


async def test_a_mapping_is_refused_before_anything_is_stored(fleet: Make, shuffler: FakeShuffler) -> None:
    with pytest.raises(UsageError, match=r"answers is a mapping; give pairs .* items\(\)"):
        await fleet().submit_many(dict(people(3)))  # type: ignore[arg-type]
    assert not shuffler.seen


async def test_symbols_are_those_of_the_answers(fleet: Make, shuffler: FakeShuffler) -> None:
    await fleet(random=lambda count: TRUTH[:count]).submit_many([("a", {"carrier": "B6"})])
    (held,) = shuffler.held
    assert tuple(symbol(report) for report in shuffler.symbols(held)) == (1, 8)


async def test_calling_again_sends_only_what_remains(fleet: Make, shuffler: FakeShuffler) -> None:
    await fleet().submit_many(people(50))
    told: list[int] = []
    summary = await fleet().submit_many(people(80), progress=told.append)
    assert summary.accepted == sum(told) == 80
    assert len(shuffler.seen) == len(shuffler.held) == 80


async def test_after_a_kill_the_stored_bytes_are_sent_again(fleet: Make, shuffler: FakeShuffler) -> None:
    shuffler.failures.extend(["lost", RuntimeError("down"), *[RuntimeError("down")] * 99])
    with pytest.raises(Unreachable):
        await fleet().submit_many(people(60), per_call=30, calls=1)
    first_seen, first_held = set(shuffler.seen), len(shuffler.held)
    assert first_held == 30
    shuffler.failures.clear()
    summary = await fleet().submit_many(people(70), per_call=30)
    assert summary.accepted == 70
    assert len(shuffler.held) == 70
    assert first_seen <= set(shuffler.seen)
    assert len({one.id for one in shuffler.seen}) == len(set(shuffler.seen)) == 70


async def test_cancelling_leaves_a_state_to_go_on_from(fleet: Make, shuffler: FakeShuffler) -> None:
    def stop(_: int) -> None:
        running.cancel()

    running = asyncio.create_task(fleet().submit_many(people(200), per_call=10, progress=stop, calls=1))
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(shuffler.held) < 200
    assert (await fleet().submit_many(people(200))).accepted == 200
    assert len(shuffler.held) == len({one.id for one in shuffler.seen}) == 200


async def test_only_overloaded_devices_are_sent_again(fleet: Make, shuffler: FakeShuffler, clock: Clock) -> None:
    overloaded = Refusal(Reason.OVERLOADED, "full", 2.0)
    shuffler.refuse = {3: overloaded, 7: overloaded, 21: overloaded}
    summary = await fleet().submit_many(people(20))
    assert (summary.accepted, summary.refused) == (20, {})
    assert shuffler.sizes == [20, 2, 1]
    assert len(shuffler.held) == len(set(shuffler.seen)) == 20
    assert len(clock.slept) == 2
    assert min(clock.slept) >= 2.0


async def test_devices_overloaded_to_the_end_are_counted_and_kept(fleet: Make, shuffler: FakeShuffler) -> None:
    shuffler.refuse = dict.fromkeys(range(10, 1000), Refusal(Reason.OVERLOADED, "full", 2.0))
    assert (await fleet().submit_many(people(20))).refused == {"overloaded": 10}
    shuffler.refuse = {}
    assert (await fleet().submit_many(people(20))).accepted == 20
    assert len(set(shuffler.seen)) == 20


async def test_a_refused_call_is_counted_by_reason(fleet: Make, shuffler: FakeShuffler) -> None:
    shuffler.failures.append(Refusal(Reason.TOO_LATE, "round 1 begins soon"))
    summary = await fleet().submit_many(people(30), per_call=10, calls=1)
    assert (summary.accepted, summary.refused) == (20, {"too_late": 10})
    assert summary.messages == {"too_late": "round 1 begins soon"}
    again = await fleet().submit_many(people(30))
    assert (again.accepted, again.refused) == (20, {"too_late": 10})
    assert len(shuffler.seen) == 30


async def test_other_refusals_are_counted_and_their_bytes_kept(fleet: Make, shuffler: FakeShuffler) -> None:
    shuffler.failures.append(Refusal(Reason.UNOPENABLE, "no"))
    assert (await fleet().submit_many(people(5))).refused == {"unopenable": 5}
    assert (await fleet().submit_many(people(5))).accepted == 5
    assert len(set(shuffler.seen)) == 5


async def test_a_bad_answer_sinks_nobody_else(fleet: Make, shuffler: FakeShuffler) -> None:
    unreadable: Any = [("none", None), ("list", [])]
    some = [*people(3), ("bad", {"carrier": "??"}), ("worse", {"carrier": "UA", "delay": float("nan")}), *people(3, 3)]
    summary = await fleet().submit_many([*unreadable, *some, ("line\nbreak", {"carrier": "UA"})])
    assert (summary.accepted, summary.refused) == (6, {"bad_answer": 5})
    assert summary.devices == 11
    assert len(shuffler.held) == 6


async def test_what_is_no_pair_is_named_and_the_next_call_sends_the_rest(fleet: Make, shuffler: FakeShuffler) -> None:
    for wrong in ("device-0", ("device-0", {"carrier": "UA"}, 1), 3):
        with pytest.raises(UsageError, match="no pair of a device and its answers; give such pairs"):
            await fleet().submit_many([*people(3), wrong], per_call=1)
    assert (await fleet().submit_many(people(3))).accepted == 3
    assert len(shuffler.held) == 3


async def test_a_device_named_twice_submits_once(fleet: Make, shuffler: FakeShuffler) -> None:
    told: list[int] = []
    summary = await fleet().submit_many([*people(2), *people(2), *people(1)], progress=told.append)
    assert summary.accepted == sum(told) == 5
    assert len(shuffler.seen) == 2


async def test_a_fleet_goes_on_where_a_device_ended(fleet: Make, device: Any, shuffler: FakeShuffler) -> None:
    one: Device = device(name="device-0")
    receipt = await one.submit({"carrier": "AA"})
    assert (await fleet().submit_many(people(3))).accepted == 3
    assert receipt.submission_id in shuffler.held
    assert len(shuffler.seen) == 3


async def test_fleets_that_share_a_state_submit_each_device_once(fleet: Make, shuffler: FakeShuffler) -> None:
    summaries = await asyncio.gather(*(fleet().submit_many(people(150)) for _ in range(3)))
    assert [summary.accepted for summary in summaries] == [150] * 3
    assert len(shuffler.held) == len(set(shuffler.seen)) == 150


async def test_one_error_is_raised_as_itself(fleet: Make, shuffler: FakeShuffler) -> None:
    one = fleet()

    def fail(*arguments: Any) -> Any:
        raise KeySetChanged("of old")

    one._state.keep = fail  # type: ignore[method-assign]  # an error in the middle
    with pytest.raises(KeySetChanged):
        await one.submit_many(people(3))


async def test_nobody_is_nothing(fleet: Make, shuffler: FakeShuffler) -> None:
    assert (await fleet().submit_many([])).devices == 0
    assert shuffler.seen == []


@pytest.mark.parametrize(("per_call", "calls"), [(0, 1), (1, 0), (10_001, 1)])
async def test_sizes_that_cannot_be_are_refused(fleet: Make, per_call: int, calls: int) -> None:
    with pytest.raises(HubbubError, match="per_call of 1 to 10000, and calls of 1 or more"):
        await fleet().submit_many(people(1), per_call=per_call, calls=calls)


async def test_a_fleet_that_stays_open_keeps_nothing_on_disk_of_what_was_acknowledged(
    fleet: Make, shuffler: FakeShuffler, settings: dict[str, Any]
) -> None:
    assert (await fleet().submit_many(people(30))).accepted == 30
    files = [path.read_bytes() for path in settings["state"].parent.glob("device.sqlite*")]
    assert len(files) >= 2
    assert len(shuffler.seen) == 30
    assert not any(one.envelope[:32] in content for one in shuffler.seen for content in files)


async def test_who_opts_out_while_answers_are_drawn_is_not_stored(
    fleet: Make, device: Callable[..., Device], shuffler: FakeShuffler
) -> None:
    one = device(name="device-1")

    def drawing(count: int) -> bytes:
        one.opt_out()
        return os.urandom(count)

    summary = await fleet(random=drawing).submit_many(people(3))
    assert (summary.accepted, summary.refused) == (2, {"opted_out": 1})
    assert len(shuffler.seen) == 2
    assert one.budget().today.rounds == 0


async def test_who_opts_out_or_is_wiped_while_others_are_sent_is_not_sent(
    fleet: Make, device: Callable[..., Device], shuffler: FakeShuffler, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = shuffler.submit

    async def answer(destination: Destination, submissions: Sequence[Submission]) -> list[Answer]:
        if not shuffler.seen:
            device(name="device-1").opt_out()
            device(name="device-2").wipe()
        return await answered(destination, submissions)

    monkeypatch.setattr(shuffler, "submit", answer)
    summary = await fleet().submit_many(people(4), per_call=1, calls=1)
    assert (summary.accepted, summary.refused) == (2, {"erased_here": 2})
    assert len(shuffler.seen) == 2
