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
    Limit,
    Limits,
    Places,
)

MEBIBYTE = 1024 * 1024
FEW = Limits(calls=2, message_bytes=100, unfinished_seconds=30.0, largest=100)


async def never() -> bytes:
    return await asyncio.get_running_loop().create_future()


async def settled() -> None:
    """Every task that was made has begun, and whatever was due has happened."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_message_that_is_there_is_returned() -> None:
    async def read() -> bytes:
        assert places.waiting == 1
        return b"whole"

    places = Places(Limits())
    assert await places.whole("a", read) == b"whole"
    assert (places.waiting, places.refused) == (0, {})


async def test_a_message_that_is_not_whole_in_time_is_refused() -> None:
    places = Places(Limits(unfinished_seconds=0.01))
    with pytest.raises(Refusal, match=r"not whole after 0\.01 s.*try again in 1 s") as caught:
        await places.whole("a", never)
    assert (caught.value.reason, caught.value.retry_after) == (Reason.OVERLOADED, 1.0)
    # Nothing of the call is held by what is sent back.
    assert caught.value.__context__ is None
    assert (places.waiting, places.refused) == (0, {Limit.UNFINISHED: 1})


async def test_the_busiest_connection_makes_room_by_its_oldest_call() -> None:
    places = Places(FEW)
    assert FEW.unfinished == FEWEST_UNFINISHED
    honest = asyncio.create_task(places.whole("honest", never))
    await settled()
    held = [asyncio.create_task(places.whole("attacker", never)) for _ in range(FEWEST_UNFINISHED - 1)]
    await settled()
    newcomers = [asyncio.create_task(places.whole(f"{number}", never)) for number in range(3)]
    await settled()
    assert [task.done() for task in held] == [True] * 3 + [False] * (len(held) - 3)
    assert not any(task.done() for task in (honest, *newcomers))
    for task in held[:3]:
        with pytest.raises(Refusal, match="when others needed its place"):
            task.result()
    assert (places.waiting, places.refused[Limit.CROWDED]) == (FEWEST_UNFINISHED, 3)
    for task in (honest, *held, *newcomers):
        task.cancel()
    await asyncio.gather(honest, *held, *newcomers, return_exceptions=True)
    assert places.waiting == 0


async def test_bytes_that_are_known_of_unfinished_messages_are_bounded() -> None:
    places = Places(Limits(message_bytes=1000, largest=100))
    held = [asyncio.create_task(places.whole(name, never)) for name in ("oldest", "newer")]
    await settled()
    places.receive(1000)
    await settled()
    assert not any(task.done() for task in held)
    places.receive(1)
    await settled()
    assert [task.done() for task in held] == [True, False]
    with pytest.raises(Refusal, match="when others needed its place"):
        held[0].result()
    # What it held is let go then, and there is room again.
    places.receive(-900)
    places.receive(100)
    await settled()
    assert not held[1].done()
    held[1].cancel()
    await asyncio.gather(*held, return_exceptions=True)


async def test_a_place_whose_time_is_up_is_taken_without_harm_to_who_comes() -> None:
    """Between a deadline and the moment at which its call notices, others come, and find it the oldest."""

    async def read() -> bytes:
        return b"whole"

    places = Places(Limits(message_bytes=1, unfinished_seconds=0.0, largest=1000))
    held = [asyncio.create_task(places.whole("attacker", never)) for _ in range(FEWEST_UNFINISHED)]
    # The first lets them begin, the second has their deadlines pass, which they hear of only after this task.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert places.waiting == FEWEST_UNFINISHED
    assert await places.whole("newcomer", read) == b"whole"
    await asyncio.gather(*held, return_exceptions=True)
    assert (places.waiting, places.refused) == (0, {Limit.UNFINISHED: FEWEST_UNFINISHED})


async def test_a_message_that_came_just_before_its_place_was_taken_is_returned_and_nothing_kept() -> None:
    places = Places(FEW)
    arriving: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def read() -> bytes:
        return await arriving

    oldest = asyncio.create_task(places.whole("a", read))
    others = [asyncio.create_task(places.whole("a", never)) for _ in range(FEWEST_UNFINISHED - 1)]
    await settled()
    # In this order: the newcomer takes the place of a call that has not heard of its message yet.
    newcomer = asyncio.create_task(places.whole("b", never))
    arriving.set_result(b"whole")
    assert await oldest == b"whole"
    for task in (*others, newcomer):
        task.cancel()
    await asyncio.gather(*others, newcomer, return_exceptions=True)
    assert (places.waiting, places._crowded) == (0, set())


async def test_more_are_waited_for_while_memory_does_not_grow() -> None:
    """Most messages are small: as many as there are may be on their way."""
    held = 1000
    places = Places(FEW, lambda: held)
    waiting = [asyncio.create_task(places.whole(f"{number}", never)) for number in range(4 * FEWEST_UNFINISHED)]
    await settled()
    held += FEW.message_bytes
    places._look()
    assert (places.waiting, places.refused) == (4 * FEWEST_UNFINISHED, {})
    # They all send at once, and nobody else comes: what surely fits is still waited for.
    held += 1
    done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION, timeout=20 * LOOK_SECONDS)
    await settled()
    assert places.waiting == FEWEST_UNFINISHED
    assert places.refused == {Limit.CROWDED: 3 * FEWEST_UNFINISHED}
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert done
    assert pending


async def test_what_one_flood_left_does_not_let_the_next_have_as_much_again() -> None:
    async def read() -> bytes:
        return b"whole"

    held = 10 * MEBIBYTE
    places = Places(Limits(message_bytes=MEBIBYTE, unfinished_seconds=30.0, largest=MEBIBYTE), lambda: held)
    await places.whole("honest", read)
    # Free, but not yet given back.
    held += 100 * MEBIBYTE
    await places.whole("honest", read)
    waiting = [asyncio.create_task(places.whole("attacker", never)) for _ in range(2 * FEWEST_UNFINISHED)]
    await settled()
    assert places.waiting == FEWEST_UNFINISHED
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_calls_are_bounded_even_where_memory_does_not_grow() -> None:
    places = Places(FEW, lambda: 1000)
    waiting = [asyncio.create_task(places.whole("a", never)) for _ in range(MOST_UNFINISHED + 3)]
    await settled()
    assert (places.waiting, places.refused) == (MOST_UNFINISHED, {Limit.CROWDED: 3})
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_calls_in_work_are_bounded_for_each_kind_of_caller() -> None:
    places = Places(FEW)
    places.enter("reader", 10)
    places.enter("reader", 10)
    with pytest.raises(Refusal, match="2 calls are in work"):
        places.enter("reader", 10)
    # Another one has places of its own.
    places.enter("operator", 10)
    places.leave("reader", 10)
    places.enter("reader", 10)
    assert (places.in_work, places.refused) == (3, {Limit.CALLS: 1})


async def test_bytes_in_work_are_bounded_and_one_message_always_fits() -> None:
    places = Places(FEW)
    places.enter("a", 1000)
    with pytest.raises(Refusal, match="1000 bytes are in work, 100 fit"):
        places.enter("b", 1)
    places.leave("a", 1000)
    places.enter("b", 60)
    places.enter("b", 40)
    with pytest.raises(Refusal):
        places.enter("c", 1)
    assert places.refused == {Limit.BYTES: 2}


@pytest.mark.parametrize(("largest", "unfinished"), [(2 * MEBIBYTE, 32), (MEBIBYTE // 2, 128), (8 * MEBIBYTE, 16)])
def test_messages_on_their_way_hold_no_more_than_may_be(largest: int, unfinished: int) -> None:
    limits = Limits(message_bytes=64 * MEBIBYTE, largest=largest)
    assert limits.unfinished == unfinished
    assert limits.unfinished * largest <= max(64 * MEBIBYTE, FEWEST_UNFINISHED * largest)


async def test_who_holds_fewer_calls_than_a_gateway_makes_loses_none_to_who_holds_them_longer() -> None:
    """Attackers with one call on each of many connections: a gateway's newer calls are not the first to go."""
    places = Places(FEW)
    held = [asyncio.create_task(places.whole(f"attacker {number}", never)) for number in range(FEWEST_UNFINISHED - 4)]
    await settled()
    gateway = [asyncio.create_task(places.whole("gateway", never)) for _ in range(4)]
    await settled()
    newcomers = [asyncio.create_task(places.whole(f"newcomer {number}", never)) for number in range(7)]
    await settled()
    assert [task.done() for task in held] == [True] * 7 + [False] * (len(held) - 7)
    assert not any(task.done() for task in gateway)
    for task in (*held, *gateway, *newcomers):
        task.cancel()
    await asyncio.gather(*held, *gateway, *newcomers, return_exceptions=True)
    assert (places.waiting, places._of) == (0, {})


async def test_one_call_that_never_ends_does_not_turn_honest_growth_into_a_flood(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held, now = 10 * MEBIBYTE, 0.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    limits = Limits(message_bytes=MEBIBYTE, unfinished_seconds=3000.0, largest=MEBIBYTE)
    places = Places(limits, lambda: held)
    waiting = [asyncio.create_task(places.whole("open", never))]
    await settled()
    # Submissions that are held, in a quarter of an hour.
    now, held = 900.0, 100 * MEBIBYTE
    waiting += [asyncio.create_task(places.whole(f"{number}", never)) for number in range(4 * FEWEST_UNFINISHED)]
    await settled()
    assert (places.waiting, places.refused) == (len(waiting), {})
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def test_a_connection_holds_at_most_as_much_as_is_left_for_others() -> None:
    places = Places(Limits(message_bytes=64 * MEBIBYTE))
    sizes = [8 * MEBIBYTE] * 8
    taken = 0
    for size in sizes:
        try:
            places.enter("", size, "attacker")
        except Refusal:
            break
        taken += 1
    assert taken == 4
    places.enter("", 8 * MEBIBYTE, "gateway")
    # Others that fill what is left take nothing from who makes a small call.
    for number in range(100):
        with contextlib.suppress(Refusal):
            places.enter("", 8 * MEBIBYTE, f"attacker {number}")
    places.enter("", 200, "honest")
    places.leave("", 200, "honest")
    assert set(places.refused) == {Limit.BYTES}
    assert places._bytes_of["attacker"] == taken * 8 * MEBIBYTE
    assert "honest" not in places._bytes_of


def test_answers_that_nobody_takes_are_bounded_and_take_no_place_of_others() -> None:
    places = Places(Limits(message_bytes=MEBIBYTE))
    held = []
    for number in range(20):
        with contextlib.suppress(Refusal):
            for _ in range(1000):
                held.append(places.answer(f"attacker {number}", 1000))  # noqa: PERF401
    assert places.refused == {Limit.UNREAD: 20}
    # One small answer is for everybody who holds none, and is not among what is bounded.
    assert places._bytes <= MEBIBYTE + 20 * (ANSWER_BYTES + 1000)
    with pytest.raises(Refusal, match="are not done with"):
        places.answer("attacker 0", 1000)
    places.enter("", 1000, "honest")
    places.leave("", 1000, "honest")
    held.append(places.answer("honest", 1000))
    for taken in held:
        taken(None)
    assert (places._bytes, places._bytes_of) == (0, {})


def test_calls_that_wait_take_no_place_of_those_that_work() -> None:
    places = Places(FEW)
    for _ in range(MOST_WAITING):
        places.enter("reader", 0)
        places.wait("reader", "reader, waiting")
    places.enter("reader", 0)
    with pytest.raises(Refusal, match=f"{MOST_WAITING} calls wait"):
        places.wait("reader", "reader, waiting")
    places.leave("reader, waiting", 0)
    places.wait("reader", "reader, waiting")
    assert places.in_work == MOST_WAITING


def test_messages_of_no_bytes_are_given_back_as_often_as_they_came() -> None:
    places = Places(Limits())
    for size in (0, 0, 10):
        places.enter("", size, "a")
    for size in (10, 0, 0):
        places.leave("", size, "a")
    assert (places.in_work, places._bytes, places._bytes_of) == (0, 0, {})


async def test_refused_calls_of_a_connection_are_answered_one_after_the_other_and_nobody_else_waits() -> None:
    places, ended = Places(Limits()), list[str]()

    async def refused(connection: str, name: str) -> None:
        await places.pause(connection)
        ended.append(name)

    await asyncio.gather(*(refused(*each) for each in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1")]))
    assert ended == ["a1", "b1", "a2", "a3"]
    assert places._pausing == {}


async def test_no_more_than_so_many_answers_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.service.rpc.concurrency.MOST_PAUSING", 2)
    places = Places(Limits())
    waiting = [asyncio.create_task(places.pause(connection)) for connection in "ab"]
    await settled()
    assert not any(task.done() for task in waiting)
    third = asyncio.create_task(places.pause("c"))
    await settled()
    assert third.done()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert places._pausing == {}
