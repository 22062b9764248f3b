"""More is taken into work while what came first is done in time, on a machine of any speed."""

from __future__ import annotations

import contextlib

import pytest

from hubbub.shuffler.queue import FEWEST, Queue


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_room_is_what_is_left_of_the_most() -> None:
    queue = Queue(10)
    assert (queue.in_work, queue.room) == (0, 10)
    with queue.working(4), queue.working(3):
        assert (queue.in_work, queue.room) == (7, 3)
    assert (queue.in_work, queue.room) == (0, 10)


def test_there_is_no_room_while_the_first_is_in_work_for_too_long(clock: Clock) -> None:
    queue = Queue(10 * FEWEST, 0.5, clock)
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    first.enter_context(queue.working(FEWEST))
    clock.now = 0.4
    second.enter_context(queue.working(FEWEST))
    clock.now = 0.5
    assert queue.room == 8 * FEWEST
    clock.now = 0.6
    assert queue.room == 0
    # It is the first that counts, and the second came later.
    first.close()
    assert queue.room == 9 * FEWEST
    clock.now = 1.0
    assert queue.room == 0
    second.close()
    assert queue.room == 10 * FEWEST


def test_a_few_are_taken_however_long_they_are_in_work(clock: Clock) -> None:
    queue = Queue(10 * FEWEST, 0.5, clock)
    with queue.working(FEWEST - 1):
        clock.now = 3600.0
        assert queue.room == 9 * FEWEST + 1
        with queue.working(1):
            assert queue.room == 0


def test_what_failed_is_in_work_no_more(clock: Clock) -> None:
    queue = Queue(10 * FEWEST, 0.5, clock)
    with pytest.raises(ValueError, match="x"), queue.working(5 * FEWEST):
        raise ValueError("x")
    clock.now = 1.0
    assert (queue.in_work, queue.room) == (0, 10 * FEWEST)
