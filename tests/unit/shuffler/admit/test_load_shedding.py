"""More is taken into work while what came first is done in time, on a machine of any speed."""

from __future__ import annotations

import pytest

from hubbub.shuffler.admit.load_shedding import FEWEST, LoadShedder


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_room_is_what_is_left_of_the_most() -> None:
    load_shedder = LoadShedder(10)
    assert (load_shedder.in_work, load_shedder.free) == (0, 10)
    with load_shedder.track(4), load_shedder.track(3):
        assert (load_shedder.in_work, load_shedder.free) == (7, 3)
    assert (load_shedder.in_work, load_shedder.free) == (0, 10)


def teach(load_shedder: LoadShedder, clock: Clock, pace: float) -> None:
    """Have many calls, of which each finds enough to do, take as long as that many submissions a second take."""
    for _ in range(100):
        with load_shedder.track(2 * FEWEST):
            clock.now += 2 * FEWEST / pace


@pytest.mark.parametrize("pace", [20_000.0, 2_000_000.0])
def test_there_is_no_room_while_what_comes_would_wait_too_long(clock: Clock, pace: float) -> None:
    load_shedder = LoadShedder(10**6, 0.5, clock)
    teach(load_shedder, clock, pace)
    limit = int(0.5 * pace)
    with load_shedder.track(limit // 2), load_shedder.track(limit // 2 - 1):
        assert (load_shedder.overloaded, load_shedder.free) == (False, 10**6 - limit + 1)
        with load_shedder.track(2):
            assert (load_shedder.overloaded, load_shedder.free) == (True, 0)
    assert load_shedder.free == 10**6


def test_the_pace_follows_the_service(clock: Clock) -> None:
    load_shedder = LoadShedder(10**6, 0.5, clock)
    with load_shedder.track(5000), load_shedder.track(5000):
        assert not load_shedder.overloaded  # nothing is known yet
        clock.now += 1.0
    teach(load_shedder, clock, 2_000.0)
    with load_shedder.track(600), load_shedder.track(600):
        assert load_shedder.overloaded
    teach(load_shedder, clock, 20_000.0)
    with load_shedder.track(600), load_shedder.track(600):
        assert not load_shedder.overloaded


def test_a_quiet_hour_makes_no_service_slow(clock: Clock) -> None:
    load_shedder = LoadShedder(10**6, 0.5, clock)
    teach(load_shedder, clock, 20_000.0)
    for _ in range(1000):
        with load_shedder.track(1):
            clock.now += 0.01
    with load_shedder.track(5000), load_shedder.track(5000):
        assert not load_shedder.overloaded
        with load_shedder.track(1):
            assert load_shedder.overloaded


def test_few_submissions_tell_that_a_service_is_faster_than_was_known(clock: Clock) -> None:
    load_shedder = LoadShedder(10**6, 0.5, clock)
    with load_shedder.track(1):
        clock.now += 0.01
    with load_shedder.track(600), load_shedder.track(600):
        assert load_shedder.overloaded
    with load_shedder.track(FEWEST):
        clock.now += 0.1
    with load_shedder.track(600), load_shedder.track(600):
        assert not load_shedder.overloaded


def test_a_few_and_two_calls_are_taken_however_slow_the_service_is(clock: Clock) -> None:
    load_shedder = LoadShedder(10 * FEWEST, 0.5, clock)
    teach(load_shedder, clock, 1.0)
    with load_shedder.track(1), load_shedder.track(FEWEST - 1):
        assert load_shedder.free == 9 * FEWEST
        with load_shedder.track(1):
            assert load_shedder.free == 0
    with load_shedder.track(2 * FEWEST):
        assert load_shedder.free == 8 * FEWEST


def test_what_failed_is_in_work_no_more(clock: Clock) -> None:
    load_shedder = LoadShedder(10 * FEWEST, 0.5, clock)
    with pytest.raises(ValueError, match="x"), load_shedder.track(5 * FEWEST):
        raise ValueError("x")
    assert (load_shedder.in_work, load_shedder.free) == (0, 10 * FEWEST)
