"""What strangers submit fills neither a round beyond its most nor the disk beyond its reserve; retries are answered."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from unit.shuffler.world import RESERVE, World, reason

from hubbub.protos.messages import Receipt, RoundState, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import Sealer
from hubbub.protos.task.admission import OPEN
from hubbub.service.observability.incidents import Incidents
from hubbub.shuffler.admit.disk_reserve import LOOK_SECONDS, DiskReserve
from hubbub.shuffler.records import RETRIED

MOST = 25


@pytest.fixture
async def full(tmp_path: Path) -> AsyncIterator[World]:
    """A shuffler of an open task whose rounds take 25 submissions."""
    world = World(tmp_path, admission=OPEN, most=MOST)
    await world.start()
    yield world
    await world.stop()


async def sealed_noise(world: World, count: int) -> list[Submission]:
    """Submissions whose outer layer opens; the inner envelopes are random bytes, which only the analyzer could tell."""
    key_set = await world.admission.get_round(world.task.id, 0)
    parties = world.parties.shuffler.public, world.parties.analyzer.public
    records = key_set.read(world.task.id, 0, world.task.suite, *parties)
    sealer = Sealer(await world.destination(), *(record.public_key for record in records), world.task.hpke)
    ids = [os.urandom(16) for _ in range(count)]
    return [Submission(each, sealer.outer([os.urandom(size) for size in world.task.inner_bytes], each)) for each in ids]


async def test_a_round_that_is_filled_with_random_envelopes_ends_at_its_most(full: World) -> None:
    noise = await sealed_noise(full, 40)
    with capture_logs() as logs:
        # In one call that reaches the most, then in calls to a round that is full before them.
        destination = await full.destination()
        answers = await full.admission.submit(destination, noise[:MOST])
        answers += await full.send(noise[MOST:])
    taken = [isinstance(answer, Receipt) for answer in answers]
    assert taken == [True] * MOST + [False] * 15
    assert {reason(answer) for answer in answers[MOST:]} == {Reason.ROUND_FULL}
    assert "is full with 25 submissions, the task's maximum; answer the next" in str(answers[-1])
    # Once, however many are refused.
    assert [line["event"] for line in logs if line["event"] == "round full"] == ["round full"]
    status = await full.status()
    assert (status.submissions, status.refusals) == (MOST, {"round_full": 15})
    assert "it is full, with its maximum_reports = 25" in status.waiting_for


async def test_calls_at_once_share_what_is_left_of_a_round(full: World) -> None:
    """Each of them passes the check before any is opened; the store takes no more than there is room for."""
    submissions = await full.seal([(0, 0)] * 60)
    destination = await full.destination()
    calls = [full.admission.submit(destination, submissions[start : start + 10]) for start in range(0, 60, 10)]
    with capture_logs() as logs:
        answers = [answer for call in await asyncio.gather(*calls) for answer in call]
    assert [line["event"] for line in logs if line["event"] != "keys"] == ["round full"]
    assert sum(isinstance(answer, Receipt) for answer in answers) == MOST
    assert {reason(answer) for answer in answers if isinstance(answer, Refusal)} == {Reason.ROUND_FULL}


async def test_retries_and_conflicts_are_answered_when_a_round_is_full_and_nothing_acknowledged_is_lost(
    full: World,
) -> None:
    held = await full.fill(MOST)
    (late,) = await full.seal([(0, 0)])
    assert reason((await full.send([late]))[0]) is Reason.ROUND_FULL
    assert await full.send(held) == [Receipt(each.id, 0) for each in held]
    assert reason((await full.send([replace(late, id=held[0].id)]))[0]) is Reason.ID_CONFLICT
    assert (await full.store.tally(full.task.id, 0))[RETRIED] == MOST
    await full.kill()
    await full.start()
    assert await full.send(held) == [Receipt(each.id, 0) for each in held]
    assert reason((await full.send([late]))[0]) is Reason.ROUND_FULL
    await full.cut()
    await full.over(RoundState.ERASED)
    assert {record.reports for record in full.analyzer.records.values()} == {MOST}


async def test_below_the_reserve_of_the_disk_new_submissions_wait_and_retries_are_answered(world: World) -> None:
    held, (late,) = await world.fill(3), await world.seal([(0, 0)])
    world.free = RESERVE
    with capture_logs() as logs:
        answers = [(await world.send([late]))[0] for _ in range(3)]
    assert [reason(answer) for answer in answers] == [Reason.DISK_FULL] * 3
    assert isinstance(answers[0], Refusal)
    assert answers[0].retry_after == 30.0
    assert [line["event"] for line in logs] == ["disk full: new submissions are refused"]
    assert await world.send(held) == [Receipt(each.id, 0) for each in held]
    status = await world.status()
    assert status.refusals == {"disk_full": 3}
    assert "the store takes nothing now" in status.waiting_for
    (incident,) = (await world.control.get_incidents()).incidents
    assert f"no more than disk_reserve = {RESERVE} bytes free" in incident.text
    world.free = RESERVE + 1
    assert await world.send([late]) == [Receipt(late.id, 0)]
    assert (await world.control.get_incidents()).incidents == ()


async def test_a_round_takes_no_more_than_the_disk_has_room_to_mix(world: World) -> None:
    """Mixing writes all of it again: a round that held more than the reserve filled the disk, and was never mixed."""
    held, (late,) = await world.fill(3), await world.seal([(0, 0)])
    needed = 3 * sum(world.task.inner_bytes)
    seconds = itertools.count().__next__
    world.admission._disk_reserve = DiskReserve(
        world.folder, 1, world.rounds.incidents, lambda _folder: world.free, seconds
    )
    world.free = needed
    assert [reason(answer) for answer in await world.send([late])] == [Reason.DISK_FULL]
    assert await world.send(held) == [Receipt(each.id, 0) for each in held]
    (incident,) = (await world.control.get_incidents()).incidents
    assert f"has less free space than mixing a round of {world.task.name} needs; make room there" in incident.text
    world.free = needed + 1
    assert await world.send([late]) == [Receipt(late.id, 0)]
    assert (await world.control.get_incidents()).incidents == ()


def test_the_real_disk_is_asked_and_a_reserve_of_none_keeps_none(tmp_path: Path) -> None:
    """No disk has 2⁶² bytes free, and each has more than one."""
    incidents = Incidents()
    refusal = DiskReserve(tmp_path, 2**62, incidents).refusal()
    assert refusal is not None
    assert refusal.reason is Reason.DISK_FULL
    assert DiskReserve(tmp_path, 1, incidents).refusal() is None
    assert DiskReserve(tmp_path, 0, incidents, lambda _folder: 0).refusal() is None


def test_the_disk_is_asked_once_in_a_while_however_many_calls_come(tmp_path: Path) -> None:
    looks: list[Path] = []

    def free(folder: Path) -> int:
        looks.append(folder)
        return 0 if len(looks) > 1 else 10

    now = 0.0
    room = DiskReserve(tmp_path, 1, Incidents(), free, lambda: now)
    assert [room.refusal() for _ in range(100)] == [None] * 100
    assert len(looks) == 1
    now = LOOK_SECONDS
    assert reason(room.refusal()) is Reason.DISK_FULL
    assert len(looks) == 2
