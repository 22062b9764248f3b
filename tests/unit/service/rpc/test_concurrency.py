"""Places are given to whoever sends whole messages; who does not loses its own, and nobody else's."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from hubbub.protos.refusals import Reason, Refusal
from hubbub.service.rpc.concurrency import (
    ANSWER_BYTES,
    FEWEST_UNFINISHED,
    LOOK_SECONDS,
    MOST_UNFINISHED,
    MOST_WAITING,
    AdmissionControl,
    PortLimit,
    PortLimits,
)

MEBIBYTE = 1024 * 1024
FEW = PortLimits(calls=2, message_bytes=100, unfinished_seconds=30.0, largest=100)


async def never() -> bytes:
    return await asyncio.get_running_loop().create_future()


async def settled() -> None:
    """Every task that was made has begun, and whatever was due has happened."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_message_that_is_there_is_returned() -> None:
    async def read() -> bytes:
        assert admission.waiting == 1
        return b"whole"

    admission = AdmissionControl(PortLimits())
    assert await admission.read_message("a", read) == b"whole"
    assert (admission.waiting, admission.refused) == (0, {})


async def test_a_message_that_is_not_whole_in_time_is_refused() -> None:
    admission = AdmissionControl(PortLimits(unfinished_seconds=0.01))
    with pytest.raises(Refusal, match=r"incomplete after 0\.01 s.*try again in 1 s") as caught:
        await admission.read_message("a", never)
    assert (caught.value.reason, caught.value.retry_after) == (Reason.OVERLOADED, 1.0)
    # Nothing of the call is held by what is sent back.
    assert caught.value.__context__ is None
    assert (admission.waiting, admission.refused) == (0, {PortLimit.UNFINISHED: 1})


async def test_the_busiest_connection_makes_room_by_its_oldest_call() -> None:
    admission = AdmissionControl(FEW)
    assert FEW.unfinished == FEWEST_UNFINISHED
    honest = asyncio.create_task(admission.read_message("honest", never))
    await settled()
    held = [asyncio.create_task(admission.read_message("attacker", never)) for _ in range(FEWEST_UNFINISHED - 1)]
    await settled()
    newcomers = [asyncio.create_task(admission.read_message(f"{number}", never)) for number in range(3)]
    await settled()
    assert [task.done() for task in held] == [True] * 3 + [False] * (len(held) - 3)
    assert not any(task.done() for task in (honest, *newcomers))
    for task in held[:3]:
        with pytest.raises(Refusal, match="when other calls needed its slot"):
            task.result()
    assert (admission.waiting, admission.refused[PortLimit.EVICTED]) == (FEWEST_UNFINISHED, 3)
    for task in (honest, *held, *newcomers):
        task.cancel()
    await asyncio.gather(honest, *held, *newcomers, return_exceptions=True)
    assert admission.waiting == 0


async def test_bytes_that_are_known_of_unfinished_messages_are_bounded() -> None:
    admission = AdmissionControl(PortLimits(message_bytes=1000, largest=100))
    held = [asyncio.create_task(admission.read_message(name, never)) for name in ("oldest", "newer")]
    await settled()
    admission.receive(1000)
    await settled()
    assert not any(task.done() for task in held)
    admission.receive(1)
    await settled()
    assert [task.done() for task in held] == [True, False]
    with pytest.raises(Refusal, match="when other calls needed its slot"):
        held[0].result()
    # What it held is let go then, and there is room again.
    admission.receive(-900)
    admission.receive(100)
    await settled()
    assert not held[1].done()
    held[1].cancel()
    await asyncio.gather(*held, return_exceptions=True)


async def test_a_slot_whose_time_is_up_is_taken_without_harm_to_who_comes() -> None:
    """Between a deadline and the moment at which its call notices, others come, and find it the oldest."""

    async def read() -> bytes:
        return b"whole"

    admission = AdmissionControl(PortLimits(message_bytes=1, unfinished_seconds=0.0, largest=1000))
    held = [asyncio.create_task(admission.read_message("attacker", never)) for _ in range(FEWEST_UNFINISHED)]
    # The first lets them begin, the second has their deadlines pass, which they hear of only after this task.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert admission.waiting == FEWEST_UNFINISHED
    assert await admission.read_message("newcomer", read) == b"whole"
    await asyncio.gather(*held, return_exceptions=True)
    assert (admission.waiting, admission.refused) == (0, {PortLimit.UNFINISHED: FEWEST_UNFINISHED})


async def test_a_message_that_came_just_before_its_slot_was_taken_is_returned_and_nothing_kept() -> None:
    admission = AdmissionControl(FEW)
    arriving: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def read() -> bytes:
        return await arriving

    oldest = asyncio.create_task(admission.read_message("a", read))
    others = [asyncio.create_task(admission.read_message("a", never)) for _ in range(FEWEST_UNFINISHED - 1)]
    await settled()
    # In this order: the newcomer takes the slot of a call that has not heard of its message yet.
    newcomer = asyncio.create_task(admission.read_message("b", never))
    arriving.set_result(b"whole")
    assert await oldest == b"whole"
    for task in (*others, newcomer):
        task.cancel()
    await asyncio.gather(*others, newcomer, return_exceptions=True)
    assert (admission.waiting, admission._evicted) == (0, set())


async def test_more_are_waited_for_while_memory_does_not_grow() -> None:
    """Most messages are small: as many as there are may be on their way."""
    held = 1000
    admission = AdmissionControl(FEW, lambda: held)
    waiting = [
        asyncio.create_task(admission.read_message(f"{number}", never)) for number in range(4 * FEWEST_UNFINISHED)
    ]
    await settled()
    held += FEW.message_bytes
    admission._look()
    assert (admission.waiting, admission.refused) == (4 * FEWEST_UNFINISHED, {})
    # They all send at once, and nobody else comes: what surely fits is still waited for.
    held += 1
    done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION, timeout=20 * LOOK_SECONDS)
    await settled()
    assert admission.waiting == FEWEST_UNFINISHED
    assert admission.refused == {PortLimit.EVICTED: 3 * FEWEST_UNFINISHED}
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert done
    assert pending


async def test_what_one_flood_left_does_not_let_the_next_have_as_much_again() -> None:
    async def read() -> bytes:
        return b"whole"

    held = 10 * MEBIBYTE
    admission = AdmissionControl(
        PortLimits(message_bytes=MEBIBYTE, unfinished_seconds=30.0, largest=MEBIBYTE), lambda: held
    )
    await admission.read_message("honest", read)
    # Free, but not yet given back.
    held += 100 * MEBIBYTE
    await admission.read_message("honest", read)
    waiting = [asyncio.create_task(admission.read_message("attacker", never)) for _ in range(2 * FEWEST_UNFINISHED)]
    await settled()
    assert admission.waiting == FEWEST_UNFINISHED
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_calls_are_bounded_even_where_memory_does_not_grow() -> None:
    admission = AdmissionControl(FEW, lambda: 1000)
    waiting = [asyncio.create_task(admission.read_message("a", never)) for _ in range(MOST_UNFINISHED + 3)]
    await settled()
    assert (admission.waiting, admission.refused) == (MOST_UNFINISHED, {PortLimit.EVICTED: 3})
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_calls_in_work_are_bounded_for_each_kind_of_caller() -> None:
    admission = AdmissionControl(FEW)
    admission.acquire("reader", 10)
    admission.acquire("reader", 10)
    with pytest.raises(Refusal, match="2 calls are in work"):
        admission.acquire("reader", 10)
    # Another one has slots of its own.
    admission.acquire("operator", 10)
    admission.release("reader", 10)
    admission.acquire("reader", 10)
    assert (admission.in_work, admission.refused) == (3, {PortLimit.CALLS: 1})


async def test_bytes_in_work_are_bounded_and_one_message_always_fits() -> None:
    admission = AdmissionControl(FEW)
    admission.acquire("a", 1000)
    with pytest.raises(Refusal, match="1000 bytes are in work, 100 fit"):
        admission.acquire("b", 1)
    admission.release("a", 1000)
    admission.acquire("b", 60)
    admission.acquire("b", 40)
    with pytest.raises(Refusal):
        admission.acquire("c", 1)
    assert admission.refused == {PortLimit.BYTES: 2}


@pytest.mark.parametrize(("largest", "unfinished"), [(2 * MEBIBYTE, 32), (MEBIBYTE // 2, 128), (8 * MEBIBYTE, 16)])
def test_messages_on_their_way_hold_no_more_than_may_be(largest: int, unfinished: int) -> None:
    limits = PortLimits(message_bytes=64 * MEBIBYTE, largest=largest)
    assert limits.unfinished == unfinished
    assert limits.unfinished * largest <= max(64 * MEBIBYTE, FEWEST_UNFINISHED * largest)


async def test_who_holds_fewer_calls_than_a_gateway_makes_loses_none_to_who_holds_them_longer() -> None:
    """Attackers with one call on each of many connections: a gateway's newer calls are not the first to go."""
    admission = AdmissionControl(FEW)
    held = [
        asyncio.create_task(admission.read_message(f"attacker {number}", never))
        for number in range(FEWEST_UNFINISHED - 4)
    ]
    await settled()
    gateway = [asyncio.create_task(admission.read_message("gateway", never)) for _ in range(4)]
    await settled()
    newcomers = [asyncio.create_task(admission.read_message(f"newcomer {number}", never)) for number in range(7)]
    await settled()
    assert [task.done() for task in held] == [True] * 7 + [False] * (len(held) - 7)
    assert not any(task.done() for task in gateway)
    for task in (*held, *gateway, *newcomers):
        task.cancel()
    await asyncio.gather(*held, *gateway, *newcomers, return_exceptions=True)
    assert (admission.waiting, admission._of) == (0, {})


async def test_one_call_that_never_ends_does_not_turn_honest_growth_into_a_flood(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held, now = 10 * MEBIBYTE, 0.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    limits = PortLimits(message_bytes=MEBIBYTE, unfinished_seconds=3000.0, largest=MEBIBYTE)
    admission = AdmissionControl(limits, lambda: held)
    waiting = [asyncio.create_task(admission.read_message("open", never))]
    await settled()
    # Submissions that are held, in a quarter of an hour.
    now, held = 900.0, 100 * MEBIBYTE
    waiting += [
        asyncio.create_task(admission.read_message(f"{number}", never)) for number in range(4 * FEWEST_UNFINISHED)
    ]
    await settled()
    assert (admission.waiting, admission.refused) == (len(waiting), {})
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def test_a_connection_holds_at_most_as_much_as_is_left_for_others() -> None:
    admission = AdmissionControl(PortLimits(message_bytes=64 * MEBIBYTE))
    sizes = [8 * MEBIBYTE] * 8
    taken = 0
    for size in sizes:
        try:
            admission.acquire("", size, "attacker")
        except Refusal:
            break
        taken += 1
    assert taken == 4
    admission.acquire("", 8 * MEBIBYTE, "gateway")
    # Others that fill what is left take nothing from who makes a small call.
    for number in range(100):
        with contextlib.suppress(Refusal):
            admission.acquire("", 8 * MEBIBYTE, f"attacker {number}")
    admission.acquire("", 200, "honest")
    admission.release("", 200, "honest")
    assert set(admission.refused) == {PortLimit.BYTES}
    assert admission._bytes_of["attacker"] == taken * 8 * MEBIBYTE
    assert "honest" not in admission._bytes_of


def test_answers_that_nobody_takes_are_bounded_and_take_no_slot_of_others() -> None:
    admission = AdmissionControl(PortLimits(message_bytes=MEBIBYTE))
    held = []
    for number in range(20):
        with contextlib.suppress(Refusal):
            for _ in range(1000):
                held.append(admission.answer(f"attacker {number}", 1000))  # noqa: PERF401
    assert admission.refused == {PortLimit.UNREAD: 20}
    # One small answer is for everybody who holds none, and is not among what is bounded.
    assert admission._bytes <= MEBIBYTE + 20 * (ANSWER_BYTES + 1000)
    with pytest.raises(Refusal, match="of this connection use"):
        admission.answer("attacker 0", 1000)
    admission.acquire("", 1000, "honest")
    admission.release("", 1000, "honest")
    held.append(admission.answer("honest", 1000))
    for taken in held:
        taken(None)
    assert (admission._bytes, admission._bytes_of) == (0, {})


def test_calls_that_wait_take_no_slot_of_those_that_work() -> None:
    admission = AdmissionControl(FEW)
    for _ in range(MOST_WAITING):
        admission.acquire("reader", 0)
        admission.wait("reader", "reader, waiting")
    admission.acquire("reader", 0)
    with pytest.raises(Refusal, match=f"{MOST_WAITING} calls wait"):
        admission.wait("reader", "reader, waiting")
    admission.release("reader, waiting", 0)
    admission.wait("reader", "reader, waiting")
    assert admission.in_work == MOST_WAITING


def test_messages_of_no_bytes_are_given_back_as_often_as_they_came() -> None:
    admission = AdmissionControl(PortLimits())
    for size in (0, 0, 10):
        admission.acquire("", size, "a")
    for size in (10, 0, 0):
        admission.release("", size, "a")
    assert (admission.in_work, admission._bytes, admission._bytes_of) == (0, 0, {})


async def test_refused_calls_of_a_connection_are_answered_one_after_the_other_and_nobody_else_waits() -> None:
    admission, ended = AdmissionControl(PortLimits()), list[str]()

    async def refused(connection: str, name: str) -> None:
        await admission.pause(connection)
        ended.append(name)

    await asyncio.gather(*(refused(*each) for each in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1")]))
    assert ended == ["a1", "b1", "a2", "a3"]
    assert admission._pausing == {}


async def test_no_more_than_so_many_answers_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.service.rpc.concurrency.MOST_PAUSING", 2)
    admission = AdmissionControl(PortLimits())
    waiting = [asyncio.create_task(admission.pause(connection)) for connection in "ab"]
    await settled()
    assert not any(task.done() for task in waiting)
    third = asyncio.create_task(admission.pause("c"))
    await settled()
    assert third.done()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert admission._pausing == {}
