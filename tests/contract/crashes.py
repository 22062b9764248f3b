"""A story is told to a store, and at changes of its disk the process is killed, or the disk is full.

A story is a list of steps. After each one that was answered, what the store holds is described through its protocol.
So it is known for every moment what must be there: all steps that were answered, and the one in work whole or not at
all. And done again, that one comes to what it would have come to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest
from contract.implementations import Implementation

from hubbub.protos.errors import HubbubError
from hubbub.protos.refusals import Refusal
from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import IncidentKind, Incidents
from support.thoroughness import EXHAUSTIVE, spread

S = TypeVar("S", bound=Any)
Describe = Callable[[S], Awaitable[Any]]


@dataclass(frozen=True)
class Step(Generic[S]):
    """Something that is asked of a store. One that is not `whole` is several transactions; all may be repeated."""

    name: str
    do: Callable[[S], Awaitable[Any]]
    whole: bool = True


@dataclass(frozen=True)
class Story(Generic[S]):
    """Steps, what a store holds in words, and the secrets of which nothing is left after the last step."""

    steps: Sequence[Step[S]]
    describe: Describe[S]
    secrets: Sequence[bytes]


async def told(implementation: Implementation[S], folder: Path, story: Story[S]) -> list[Any]:
    """Tell a story to a new store; return what it holds before the first step and after each."""
    with contextlib.closing(implementation.open(folder)) as store:
        described = [await story.describe(store)]
        for step in story.steps:
            await step.do(store)
            described.append(await story.describe(store))
    return described


async def changes(implementation: Implementation[S], folder: Path, story: Story[S]) -> tuple[list[str], int]:
    """The moments before and after each change that a story makes, and how many of them its steps make."""
    points: list[str] = []
    with contextlib.closing(implementation.open_watched(folder, points.append, Incidents())) as store:
        points.clear()  # what happens before is the migrations' business
        for step in story.steps:
            await step.do(store)
        within = len(points)
    return points, within


FEW = 6
"""Places at which a story is broken in a usual run where each is told to a database that other processes keep."""


def chosen(points: Sequence[str], few: bool) -> Sequence[int]:
    """The places at which a story is broken: all in an exhaustive run; else the first, the last, and one of each name.

    What is there after a change is there before the next one, so of the moments after, only commits' have names then.
    If there are to be few, they are spread over these.
    """
    if EXHAUSTIVE:
        return range(len(points))
    named = {point: place for place, point in enumerate(points) if point.startswith("before") or "COMMIT" in point}
    places = sorted({0, len(points) - 1, *named.values()})
    return spread(places, FEW) if few else places


async def check_kills(implementation: Implementation[S], folder: Path, story: Story[S]) -> int:
    """Kill at changes, in an exhaustive run at every one; return how many there are."""
    described = await told(implementation, folder / "undisturbed", story)
    points, _ = await changes(implementation, folder / "watched", story)
    places = chosen(points, implementation.cut_off is not None)
    if implementation.cut_off is not None:
        for kills in places:
            assert await _killed(implementation, folder / f"killed{kills}", story, described, kills)
        return len(points)
    copies: list[tuple[int, str, Path]] = []
    seen: list[str] = []
    answered, opened = 0, False
    data = folder / "data"

    def watch(point: str) -> None:
        if not opened:
            return
        if len(seen) in places:
            copies.append((answered, point, folder / f"copy{len(copies)}"))
            implementation.copy(data, copies[-1][2])
        seen.append(point)

    with contextlib.closing(implementation.open_watched(data, watch, Incidents())) as store:
        opened = True
        for step in story.steps:
            await step.do(store)
            answered += 1
    for done, point, copy in copies:
        if done < len(story.steps):
            await _check_one(implementation, copy, story, described, done, point)
        else:
            _check_gone(copy, story)
    assert seen == points
    return len(points)


async def _killed(
    implementation: Implementation[S], folder: Path, story: Story[S], described: list[Any], kills: int
) -> bool:
    """Have a process be killed at that change, and go on in another; return whether there is such a change."""
    seen, opened, point = 0, False, ""
    data, copy = folder / "data", folder / "copy"

    def watch(reached: str) -> None:
        nonlocal seen, point
        seen += opened
        if point:
            raise _Dead
        if seen == kills + 1:
            point = reached
            implementation.copy(data, copy)
            if implementation.cut_off is not None:
                implementation.cut_off(data)
            raise _Dead

    done = 0
    # The dead process's store can be let go only where it still takes that; nothing of it is looked at any more.
    with contextlib.ExitStack() as life:
        store = implementation.open_watched(data, watch, Incidents())
        life.push(lambda kind, _error, _trace: kind is not None and issubclass(kind, _Dead))
        life.callback(store.close)
        opened = True
        for step in story.steps:
            try:
                await step.do(store)
            except (_Dead, HubbubError):
                if not point:
                    raise
                break
            if point:  # what was under way besides died with it, and the step was answered
                done += 1
                break
            done += 1
    if not point:
        return False
    if done < len(story.steps):
        await _check_one(implementation, copy, story, described, done, point)
    else:
        _check_gone(copy, story)
    return True


class _Dead(Exception):
    """Raised in a process that is killed: it changes nothing any more."""


async def _check_one(
    implementation: Implementation[S], copy: Path, story: Story[S], described: list[Any], done: int, point: str
) -> None:
    step = story.steps[done]
    with contextlib.closing(implementation.open(copy)) as store:
        found = await story.describe(store)
        assert not step.whole or found in described[done : done + 2], (step.name, point)
        await step.do(store)
        assert await story.describe(store) == described[done + 1], (step.name, point)
        for later in story.steps[done + 1 :]:
            await later.do(store)
        assert await story.describe(store) == described[-1], (step.name, point)
    _check_gone(copy, story)


def _check_gone(folder: Path, story: Story[S]) -> None:
    """No part of a secret is in any file."""
    files = b"".join(path.read_bytes() for path in folder.iterdir())
    left = [secret for secret in story.secrets if secret[:16] in files or secret[-16:] in files]
    assert left == []


async def check_full_disk(implementation: Implementation[S], folder: Path, story: Story[S]) -> int:
    """Have changes fail, each in a run of its own, in an exhaustive run every one; return how many there are."""
    described = await told(implementation, folder / "undisturbed", story)
    points, within = await changes(implementation, folder / "watched", story)
    before = [point for point in points[:within] if point.startswith("before")]
    for failing in chosen(before, implementation.cut_off is not None):
        assert await _with_failure(implementation, folder / f"full{failing}", story, described, failing)
    return len(before)


async def _with_failure(
    implementation: Implementation[S], folder: Path, story: Story[S], described: list[Any], failing: int
) -> bool:
    """Tell a story in which the change at a place fails once; return whether there is such a change."""
    seen, armed = 0, False

    def watch(point: str) -> None:
        nonlocal seen
        if armed and point.startswith("before"):
            seen += 1
            if seen == failing + 1:
                raise implementation.disk_error()

    with contextlib.closing(implementation.open_watched(folder, watch, Incidents())) as store:
        for done, step in enumerate(story.steps):
            armed = True
            try:
                await step.do(store)
            except (StoreError, Refusal):
                assert seen > failing
                armed = False
                assert not step.whole or await story.describe(store) == described[done], step.name
                await step.do(store)
            armed = False
            assert await story.describe(store) == described[done + 1], step.name
    with contextlib.closing(implementation.open(folder)) as store:
        assert await story.describe(store) == described[-1]
    _check_gone(folder, story)
    return seen > failing


async def check_stays_full(implementation: Implementation[S], folder: Path, story: Story[S], tries: int = 3) -> None:
    """Have the disk be full for several tries of every step; it is told, and the step is done once there is room."""
    described = await told(implementation, folder / "undisturbed", story)
    incidents, full = Incidents(), False

    def watch(point: str) -> None:
        if full and point.startswith("before"):
            raise implementation.disk_error()

    data = folder / "data"
    with contextlib.closing(implementation.open_watched(data, watch, incidents)) as store:
        for done, step in enumerate(story.steps):
            full = True
            for _ in range(tries):
                with pytest.raises((StoreError, Refusal)):
                    await step.do(store)
            (incident,) = incidents.now()
            assert (incident.kind, implementation.told(data) in incident.text) == (IncidentKind.STORE, True), step.name
            assert "make room on its disk" in incident.text
            full = False
            assert not step.whole or await story.describe(store) == described[done], step.name
            await step.do(store)
            assert await story.describe(store) == described[done + 1], step.name
            assert incidents.now() == (), step.name
    _check_gone(data, story)


async def refused(work: Awaitable[Any]) -> Refusal:
    """Return what something is refused with."""
    with pytest.raises(Refusal) as caught:
        await work
    return caught.value
