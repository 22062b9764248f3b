"""What a process holds is seen, bounded, and given back when it is free."""

from __future__ import annotations

import pytest

from hubbub.service.runtime import memory
from hubbub.service.runtime.memory import LOOK_SECONDS, TRIM_BYTES, TRIM_SECONDS, MemoryTrim, MemoryWatch, resident

MEBIBYTE = 1024 * 1024


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_memory_that_is_written_is_held() -> None:
    before = resident()
    if not before:
        pytest.skip("this system does not tell a process's memory")
    written = bytearray(b"x" * (64 * MEBIBYTE))
    assert resident() - before > 48 * MEBIBYTE
    assert len(written) == 64 * MEBIBYTE


def test_a_limit_is_seen_when_it_is_passed_and_no_more_when_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    held, clock = iter([100, 101, 100]), Clock()
    monkeypatch.setattr(memory, "resident", lambda: next(held))
    watched = MemoryWatch(100, clock)
    seen = []
    for _ in range(3):
        # Looked at once in a while only: a look costs more than a small call.
        seen += [watched.full(), watched.full()]
        clock.now += 2 * LOOK_SECONDS
    assert seen == [False, False, True, True, False, False]


def test_without_a_limit_nothing_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "resident", lambda: 10**15)
    assert not MemoryWatch(0).full()
    assert MemoryWatch(0).held() == 10**15


def given(held: list[int], seconds: float) -> list[bool]:
    """Whether memory was given back, every so many seconds, by a process that holds as many times `TRIM_BYTES`."""
    clock, now = Clock(), iter(held)
    current = TRIM_BYTES * next(now)
    returned, found = MemoryTrim(clock, lambda: current), []
    for each in now:
        current = TRIM_BYTES * each
        clock.now += seconds
        found.append(returned.give_back())
    return found


def test_memory_is_given_back_where_there_may_be_much_and_not_too_often() -> None:
    assert given([3, 3, 4, 3], TRIM_SECONDS) == [False, True, False]
    assert given([3, *[4] * 10], TRIM_SECONDS / 5) == [False] * 4 + [True] + [False] * 5


def test_what_stays_is_looked_at_again_but_less_and_less_often() -> None:
    """It may be in use, or be free only later, as where a flood has not ended yet."""
    found = given([1, *[9] * 40], TRIM_SECONDS)
    assert [place for place, done in enumerate(found) if done] == [0, 2, 6, 14, 30]


def test_new_growth_is_looked_at_at_once() -> None:
    found = given([1, *[9] * 9, 10, 10, 10], TRIM_SECONDS)
    assert [place for place, done in enumerate(found) if done] == [0, 2, 6, 9, 11]


def test_while_calls_are_refused_it_is_tried_as_often_as_may_be() -> None:
    clock = Clock()
    returned, found = MemoryTrim(clock, lambda: 9 * TRIM_BYTES), []
    for _ in range(4):
        clock.now += TRIM_SECONDS
        found.append((returned.give_back(full=True), returned.give_back(full=True)))
    assert found == [(True, False)] * 4


def test_free_memory_goes_back_to_the_system() -> None:
    if not resident() or memory._malloc_trim() is None:
        pytest.skip("this system has no such call")
    clock = Clock()
    returned = MemoryTrim(clock)
    # Small pieces, which the C library keeps; every hundredth holds its page.
    pieces = [bytes(1000) for _ in range(200_000)]
    kept = pieces[::10_000]
    del pieces
    before = resident()
    clock.now += TRIM_SECONDS
    assert returned.give_back()
    assert resident() < before - TRIM_BYTES
    assert len(kept) == 20
