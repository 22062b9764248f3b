"""The life of a round."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from unit.shuffler.world import MINIMUM, World, unreachable

from hubbub.protos.errors import HubbubError, Unreachable
from hubbub.protos.messages import RoundState
from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import IncidentKind
from hubbub.shuffler.records import Round
from hubbub.shuffler.rounds.abandon import abandon_round
from hubbub.shuffler.stores.postgres.replication.replication import StandbysAwayError
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore
from support.store_contents import store_in


async def test_round_at_its_minimum_is_released_whole_and_erased(world: World) -> None:
    await world.fill(MINIMUM)
    await world.cut()
    await world.over()
    assert world.state is RoundState.ERASED
    assert sorted(world.analyzer.symbols(0)) == sorted(i % 3 for i in range(MINIMUM))
    assert sorted(world.analyzer.symbols(1)) == sorted(i % 9 for i in range(MINIMUM))
    assert (await world.status()).submissions == MINIMUM


async def test_round_under_its_minimum_expires_and_nothing_is_sent(world: World) -> None:
    submissions = await world.fill(MINIMUM - 1)
    await world.cut()
    await world.over()
    assert world.state is RoundState.EXPIRED
    assert not {"begin", "put", "commit"} & set(world.analyzer.calls)
    assert (await world.status()).submissions == MINIMUM - 1
    assert not any(submission.id in world.bytes_on_disk() for submission in submissions)


# What is raised in the background


def failing_once(monkeypatch: pytest.MonkeyPatch, world: World, name: str, error: Exception) -> asyncio.Event:
    """Have the store's method raise until the event is set."""
    real, repaired = getattr(world.store, name), asyncio.Event()

    async def fail(*parts: Any, **named: Any) -> Any:
        if not repaired.is_set():
            raise error
        return await real(*parts, **named)

    monkeypatch.setattr(world.store, name, fail)
    return repaired


@pytest.mark.sampled(4)
@pytest.mark.parametrize("error", [StoreError("no room"), RuntimeError("a bug"), OSError(28, "no room")], ids=repr)
@pytest.mark.parametrize("name", ["cut", "mix", "commit_batch", "erase"])
async def test_a_step_that_fails_has_an_incident_at_once_and_goes_on_by_itself(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str, error: Exception
) -> None:
    await world.fill(MINIMUM)
    repaired = failing_once(monkeypatch, world, name, error)
    await world.cut()
    await world.until(lambda: world.rounds.incidents.now() != ())
    round_ = world.found()
    assert round_ is not None
    assert world.rounds.has_incident(round_)
    (incident,) = world.rounds.incidents.now()
    assert (incident.kind, incident.text) == ("rounds", f"round 0 of flights: another try: {error}")
    assert world.rounds.waiting_for(round_).startswith(f"another try: {error} (since 2026-01-01T")
    repaired.set()
    await world.over(RoundState.ERASED)
    await world.until(lambda: world.rounds.incidents.now() == ())


async def test_a_store_that_cannot_even_be_read_after_a_failure_ends_no_round(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.fill(MINIMUM)
    error = StoreError("the disk is gone")
    repaired = [failing_once(monkeypatch, world, name, error) for name in ("find", "mix", "charges")]
    await world.cut()
    tries = world.pauses
    await world.until(lambda: world.pauses > tries + 3)
    for each in repaired:
        each.set()
    await world.over(RoundState.ERASED)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (StoreError("no room"), IncidentKind.ROUNDS),
        (RuntimeError("a bug"), IncidentKind.ROUNDS),
        # The standby is what is missing: `hubbub health` waits for it, as for one that has yet to start.
        (StandbysAwayError("no standby"), IncidentKind.STANDBYS),
    ],
    ids=repr,
)
async def test_rounds_begin_once_what_was_in_the_way_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: IncidentKind
) -> None:
    world = World(tmp_path)
    real, repaired = ShufflerSqliteStore.add_round, asyncio.Event()

    async def fail(store: ShufflerSqliteStore, task_id: bytes, number: int) -> Round:
        if not repaired.is_set():
            raise error
        return await real(store, task_id, number)

    monkeypatch.setattr(ShufflerSqliteStore, "add_round", fail)
    await world.start(ready=False)
    await world.until(lambda: world.pauses > 3)
    (incident,) = world.rounds.incidents.now()
    assert (incident.kind, incident.text) == (kind, f"round 0 of {world.task.name} cannot begin: {error}")
    assert world.rounds.cannot_begin(world.task)
    repaired.set()
    await world.until(lambda: world.has_keys)
    assert not world.rounds.cannot_begin(world.task)
    await world.stop()


async def test_keys_are_fetched_again_whatever_was_raised(tmp_path: Path) -> None:
    world = World(tmp_path)

    def bug(_call: str) -> None:
        raise RuntimeError("a bug")

    world.analyzer.incident = bug
    await world.start(ready=False)
    await world.until(lambda: world.pauses > 3)
    assert {each.kind for each in world.rounds.incidents.now()} == {"rounds"}
    world.analyzer.incident = unreachable()
    await world.until(lambda: world.has_keys)
    await world.stop()


async def test_an_open_round_that_never_had_keys_goes_on_after_a_restart(tmp_path: Path) -> None:
    world = World(tmp_path)
    answers = asyncio.Event()

    def away(_call: str) -> None:
        if not answers.is_set():
            raise Unreachable("the analyzer did not answer")

    world.analyzer.incident = away
    await world.start(ready=False)
    await world.until(lambda: world.pauses > 1)
    await world.kill()
    await world.start(ready=False)
    await world.until(lambda: world.state is RoundState.OPEN)
    assert (world.has_keys, world.rounds.damaged_keys) == (False, set())
    # Nothing of it is damaged, so it is not given up either.
    await world.stop()
    with pytest.raises(HubbubError, match="round 0 was not given up: it has no known damage"):
        await abandon_round(
            lambda: store_in(ShufflerSqliteStore, world.folder), f"{world.task.id.hex()}:0", world.tasks
        )
    answers.set()
    await world.start()
    assert world.has_keys
    await world.stop()


async def test_a_store_with_incidents_holds_up_every_round_that_is_not_over(world: World) -> None:
    round_ = world.found()
    assert round_ is not None
    told = world.rounds.incidents.of_store(world.folder / "shuffler.db")
    told(OSError(28, "No space left on device"))
    assert world.rounds.has_incident(round_)
    assert world.rounds.waiting_for(round_).endswith("; the store takes nothing now")
    told(None)
    assert not world.rounds.has_incident(round_)
