"""Records chain what a shuffler released, and an analyzer that was put back is noticed."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from unit.shuffler.world import World, unreachable

from hubbub.protos.messages import RoundState
from hubbub.protos.records.release_chain import Release, ReleaseChunk, position_after
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.admission import OPEN
from hubbub.service.errors import StoreError
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore
from support.changed_stores import by_hand


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path, admission=OPEN)
    await world.start()
    yield world
    await world.stop()


async def until_incident(world: World, number: int) -> str:
    await world.until(lambda: world.pauses > 3)
    return (await world.status(number)).waiting_for


async def mixed(world: World, number: int) -> None:
    """Have a round come to its delivery, and no further."""
    world.clock.now = float(world.task.schedule.opens(number))
    world.rounds.timer.recheck()
    await world.until(lambda: world.has_keys_of(number))
    await world.fill(round_number=number)
    world.pauses = 0
    await world.cut(number)
    await world.until(lambda: getattr(world.found(number), "state", None) is RoundState.MIXED)


async def test_records_state_the_position_behind_all_that_was_released(world: World) -> None:
    await world.live(0)
    await world.live(1)
    releases = await world.store.releases(world.task.id)
    assert [release.round for release in releases] == [0, 1]
    positions = {batch.round: record.position for batch, record in world.analyzer.records.items()}
    assert positions == {number: position_after(world.task.id, releases[:number]) for number in range(2)}
    assert list(releases) == world.analyzer.releases


async def test_the_analyzer_is_sent_what_it_lacks_up_to_the_round(world: World) -> None:
    await world.live(0)
    await world.live(1)
    first, second = await world.store.releases(world.task.id)
    assert world.analyzer.sent == [ReleaseChunk(0, (first,))] * 2 + [ReleaseChunk(1, (second,))] * 2


async def test_a_hop_that_lacks_releases_gets_all_of_them_with_the_next_try(world: World) -> None:
    """Its store is new, and the analyzer's is not: the analyzer's number alone would leave a gap at the hop."""
    await world.live(0)
    refused: list[str] = []

    def lacking(call: str) -> None:
        if call == "begin" and not refused:
            refused.append(call)
            raise Refusal(Reason.INCOMPLETE, "0 releases are known here; send those from position 0")

    world.analyzer.incident = lacking
    assert (await world.live(1)).state is RoundState.ERASED
    releases = tuple(await world.store.releases(world.task.id))
    assert refused == ["begin"]
    # The try that was refused is not among them; the batch after it is announced as ever.
    assert world.analyzer.sent[2:] == [ReleaseChunk(0, releases), ReleaseChunk(1, releases[1:])]


async def test_a_round_under_the_minimum_was_never_released(world: World) -> None:
    await world.live(0, count=3)
    assert list(await world.store.releases(world.task.id)) == []
    await world.live(1)
    assert [(each.round, each.reports) for each in await world.store.releases(world.task.id)] == [(1, 20)]


async def test_a_round_that_the_analyzer_gave_up_was_released_all_the_same(world: World) -> None:
    def erased(call: str) -> None:
        if call == "begin":
            raise Refusal(Reason.ERASED, "its key was destroyed")

    world.analyzer.incident = erased
    assert (await world.live(0)).state is RoundState.EXPIRED
    world.analyzer.incident = lambda _call: None
    await world.live(1)
    releases = tuple(await world.store.releases(world.task.id))
    assert [release.round for release in releases] == [0, 1]
    # The analyzer, which lacks round 0, and never acknowledged it, gets its release with that of round 1.
    assert world.analyzer.sent == [ReleaseChunk(0, releases), ReleaseChunk(1, releases[1:])]


async def test_an_analyzer_that_lost_a_round_it_had_counted_gets_nothing_and_is_named(world: World) -> None:
    await world.live(0)
    kept = list(world.analyzer.releases)
    world.analyzer.releases.clear()  # its store is put back to before round 0
    with capture_logs() as logged:
        await mixed(world, 1)
        waiting = await until_incident(world, 1)
    lost = "its store is an old copy: round 0, which it had counted, is missing there"
    assert waiting.startswith(f"the analyzer at analyzer:1: {lost}; restore its newest store, or end the task")
    assert any(lost in str(line.get("error", "")) for line in logged)
    assert any(lost in incident.text for incident in world.rounds.incidents.report().incidents)
    assert 1 not in {batch.round for batch in world.analyzer.records}
    # Once the newest store is there again, the round goes on by itself.
    world.analyzer.releases = kept
    await world.until(lambda: getattr(world.found(1), "state", None) is RoundState.ERASED)
    assert world.rounds.incidents.report().incidents == ()


async def test_an_analyzer_that_knows_a_round_and_lost_its_counts_is_named(world: World) -> None:
    await world.live(0)
    world.analyzer.uncounted = (0,)
    await mixed(world, 1)
    assert "round 0, which it had counted, is missing there" in await until_incident(world, 1)


async def test_an_analyzer_that_knows_another_chain_is_sent_all_and_says_for_itself_what_is_wrong(world: World) -> None:
    await world.live(0)
    (first,) = await world.store.releases(world.task.id)
    # It counted a round that this store knows nothing of any more.
    world.analyzer.releases = [first, Release(2, 20, 0, (bytes(32),) * 2)]

    def forked(call: str) -> None:
        if call == "put":
            raise Refusal(Reason.FORKED, "its release at position 1 is of round 1 now")

    world.analyzer.incident = forked
    await mixed(world, 1)
    assert "refused, forked: its release at position 1 is of round 1 now" in await until_incident(world, 1)
    releases = tuple(await world.store.releases(world.task.id))
    assert world.analyzer.sent[2] == ReleaseChunk(0, releases)


async def test_a_kill_anywhere_in_delivery_is_no_fork(world: World) -> None:
    world.analyzer.incident = unreachable("commit")
    await world.fill()
    await world.cut()
    await world.until(lambda: "commit" in world.analyzer.calls)
    await world.kill()
    world.analyzer.incident = lambda _call: None
    await world.start()
    await world.over()
    assert world.state is RoundState.ERASED
    assert len(await world.store.releases(world.task.id)) == 1


CHANGES = {
    "an entry": ("UPDATE chain SET entry = replace(entry, '20', '21')", "the release at position 0 was changed"),
    "a head": (
        "UPDATE chain SET head = CASE substr(head, 1, 1) WHEN 'f' THEN '0' ELSE 'f' END || substr(head, 2)",
        "the release at position 0 was changed",
    ),
    "the last left off": ("DELETE FROM chain WHERE position = 1", "round 1 was signed, and is not among them"),
    "the first left out": ("DELETE FROM chain WHERE position = 0", "the release at position 0 was changed"),
    "all": ("DELETE FROM chain", "round 0 was signed, and is not among them"),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_store_whose_releases_were_changed_is_refused(world: World, change: str) -> None:
    statement, named = CHANGES[change]
    await world.live(0)
    await world.live(1)
    await world.kill()
    with closing(by_hand(world.folder / "shuffler.db")) as connection:
        with pytest.raises(sqlite3.IntegrityError, match="the chain only grows"):
            connection.execute(statement)
        connection.execute("DROP TRIGGER chain_is_not_changed")
        connection.execute("DROP TRIGGER chain_is_not_shortened")
        connection.execute(statement)
        connection.commit()
    with pytest.raises(StoreError, match=named):
        ShufflerSqliteStore(world.folder)
    # The fixture stops a world that runs.
    world.folder = world.folder.parent / "new"
    await world.start(ready=False)
