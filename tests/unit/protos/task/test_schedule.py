"""In the order in which a round lives, whatever the schedule."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos.identity.keys import LATEST_TIME
from hubbub.protos.task.schedule import (
    CLOCK_SECONDS,
    Schedule,
    first_not_cut,
    forgotten_after,
    key_validity,
    prepared_from,
    taken_from,
)

YEAR = 365 * 86_400
SCHEDULES = st.builds(
    Schedule,
    start=st.integers(0, 4 * 10**9),
    length=st.integers(1, 10 * YEAR),
    grace=st.integers(0, YEAR),
    rounds=st.integers(1, 1000),
)
"""Any that a draft may have, up to the year 2096 or so."""


@given(SCHEDULES, st.integers(0, 999))
def test_moments_come_in_the_order_of_a_round_s_life(schedule: Schedule, number: int) -> None:
    valid = key_validity(schedule, number)
    moments = [
        prepared_from(schedule, number),
        taken_from(schedule, number),
        schedule.opens(number),
        schedule.ends(number),
        schedule.cut(number),
        forgotten_after(schedule, number),
        valid.not_after,
    ]
    assert moments == sorted(moments)
    assert valid.not_before in (0, prepared_from(schedule, number) - CLOCK_SECONDS)


def test_a_key_is_valid_to_the_last_second_that_can_be_written() -> None:
    schedule = Schedule(LATEST_TIME - 3600, length=3600, grace=0, rounds=1)
    assert key_validity(schedule, 0).not_after == LATEST_TIME


@given(SCHEDULES, st.integers(0, 5 * 10**9))
def test_the_first_round_that_is_not_cut_is_the_first_one(schedule: Schedule, now: int) -> None:
    number = first_not_cut(schedule, now)
    assert schedule.cut(number) > now
    assert number == 0 or schedule.cut(number - 1) <= now
