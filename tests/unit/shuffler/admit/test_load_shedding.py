"""More is taken into work while what came first is done in time, on a machine of any speed."""

from __future__ import annotations

import pytest

from hubbub.shuffler.admit.load_shedding import FEWEST, Queue


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


def teach(queue: Queue, clock: Clock, pace: float) -> None:
    """Have many calls, of which each finds enough to do, take as long as that many submissions a second take."""
    for _ in range(100):
        with queue.working(2 * FEWEST):
            clock.now += 2 * FEWEST / pace


@pytest.mark.parametrize("pace", [20_000.0, 2_000_000.0])
def test_there_is_no_room_while_what_comes_would_wait_too_long(clock: Clock, pace: float) -> None:
    queue = Queue(10**6, 0.5, clock)
    teach(queue, clock, pace)
    limit = int(0.5 * pace)
    with queue.working(limit // 2), queue.working(limit // 2 - 1):
        assert (queue.is_late, queue.room) == (False, 10**6 - limit + 1)
        with queue.working(2):
            assert (queue.is_late, queue.room) == (True, 0)
    assert queue.room == 10**6


def test_the_pace_follows_the_service(clock: Clock) -> None:
    queue = Queue(10**6, 0.5, clock)
    with queue.working(5000), queue.working(5000):
        assert not queue.is_late  # nothing is known yet
        clock.now += 1.0
    teach(queue, clock, 2_000.0)
    with queue.working(600), queue.working(600):
        assert queue.is_late
    teach(queue, clock, 20_000.0)
    with queue.working(600), queue.working(600):
        assert not queue.is_late


def test_a_quiet_hour_makes_no_service_slow(clock: Clock) -> None:
    queue = Queue(10**6, 0.5, clock)
    teach(queue, clock, 20_000.0)
    for _ in range(1000):
        with queue.working(1):
            clock.now += 0.01
    with queue.working(5000), queue.working(5000):
        assert not queue.is_late
        with queue.working(1):
            assert queue.is_late


def test_few_submissions_tell_that_a_service_is_faster_than_was_known(clock: Clock) -> None:
    queue = Queue(10**6, 0.5, clock)
    with queue.working(1):
        clock.now += 0.01
    with queue.working(600), queue.working(600):
        assert queue.is_late
    with queue.working(FEWEST):
        clock.now += 0.1
    with queue.working(600), queue.working(600):
        assert not queue.is_late


def test_a_few_and_two_calls_are_taken_however_slow_the_service_is(clock: Clock) -> None:
    queue = Queue(10 * FEWEST, 0.5, clock)
    teach(queue, clock, 1.0)
    with queue.working(1), queue.working(FEWEST - 1):
        assert queue.room == 9 * FEWEST
        with queue.working(1):
            assert queue.room == 0
    with queue.working(2 * FEWEST):
        assert queue.room == 8 * FEWEST


def test_what_failed_is_in_work_no_more(clock: Clock) -> None:
    queue = Queue(10 * FEWEST, 0.5, clock)
    with pytest.raises(ValueError, match="x"), queue.working(5 * FEWEST):
        raise ValueError("x")
    assert (queue.in_work, queue.room) == (0, 10 * FEWEST)
