"""No round beyond the task's budget leaves it, whoever asks."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from unit.shuffler.world import MINIMUM, World

from hubbub.protos.messages import RoundState
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.task import Privacy
from hubbub.shuffler.records import StoreError
from hubbub.shuffler.stores.sqlite.schema import FILE_NAME
from support.changed_stores import by_hand
from support.messages import NOT_EVEN_THE_FIRST
from support.samples import Parties, sample_task

ONE_ROUND = Privacy(epsilon=10.0, delta=1e-2, epsilon_local=20.0, epsilon_total=2.0)
"""One round of the sample task costs ε = 1.56, two 2.53."""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path, privacy=ONE_ROUND)
    await world.start()
    yield world
    await world.stop()


def delivered(world: World) -> set[int]:
    return {batch.round for batch in world.analyzer.records}


async def test_round_beyond_the_budget_is_erased_and_says_which_rounds_spent_what(world: World) -> None:
    await spend(world, then=MINIMUM)
    status = await world.status(1)
    assert (status.state, status.submissions) == (RoundState.EXPIRED, MINIMUM)
    assert delivered(world) == {0}
    for part in ("charging round 1", "the budget is 2;", "would bring epsilon to 2.5"):
        assert part in status.waiting_for
    counts = "SELECT (SELECT count(*) FROM known), (SELECT count(*) FROM arrived), (SELECT count(*) FROM released)"
    assert world.store._database.reader.execute(counts).fetchone() == (0, 0, 0)
    assert len(await world.store.charges(world.task.id)) == 2


async def spend(world: World, then: int = 0) -> None:
    """Have round 0 spend the budget while round 1 is open already, and took that many submissions."""
    await world.fill()
    world.clock.now = float(world.task.schedule.opens(1) - 1)
    await world.until(lambda: world.has_keys_of(1))
    await world.fill(then, 1)
    await world.cut(0)
    for number in range(2):
        round_ = world.found(number)
        assert round_ is not None
        await world.rounds.settled(round_)


async def test_nobody_is_asked_for_answers_once_the_budget_is_spent(world: World) -> None:
    await spend(world)
    assert world.clock.now < world.task.schedule.cut(1)
    with pytest.raises(Refusal, match=r"it cannot be released: .*the budget is 2;") as refused:
        await world.admission.get_round(world.task.id, 1)
    assert refused.value.reason is Reason.ERASED


async def test_why_a_round_was_erased_is_known_after_a_restart(world: World) -> None:
    await spend(world)
    before = (await world.status(1)).waiting_for
    await world.kill()
    await world.start(ready=False)
    assert (await world.status(1)).waiting_for == before
    assert "budget is 2" in before
    assert (await world.status(0)).waiting_for == "nothing"


async def test_round_under_the_minimum_costs_nothing(world: World) -> None:
    assert (await world.live(0, MINIMUM - 1)).state is RoundState.EXPIRED
    assert await world.store.charges(world.task.id) == []
    assert (await world.live(1)).state is RoundState.ERASED


async def test_without_a_budget_rounds_are_charged_and_none_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.start()
    assert [(await world.live(number)).state for number in range(3)] == [RoundState.ERASED] * 3
    assert [charge.position for charge in await world.store.charges(world.task.id)] == list(range(6))
    await world.stop()


async def test_a_kill_before_the_mix_is_on_disk_charges_nothing_and_after_it_once(world: World) -> None:
    await world.fill()

    async def fail(*_arguments: object) -> None:
        raise StoreError("broken by the test")

    world.store.mix = fail  # type: ignore[assignment,method-assign]  # a disk that fails
    await world.cut()
    await world.until(lambda: world.pauses > 1)
    await world.kill()
    assert await world.store.charges(world.task.id) == []
    await world.start()
    await world.over()
    await world.kill()
    await world.start(ready=False)
    assert len(await world.store.charges(world.task.id)) == 2


async def test_refusal_by_the_analyzers_ledger_is_final_and_told(world: World) -> None:
    def incident(call: str) -> None:
        if call == "begin":
            raise Refusal(Reason.OVER_BUDGET, "rounds 5 to 9 spent it all")

    world.analyzer.incident = incident
    status = await world.live(0)
    assert status.state is RoundState.EXPIRED
    assert "the analyzer refused it: rounds 5 to 9 spent it all" in status.waiting_for
    assert world.analyzer.calls.count("begin") == 1
    assert not world.analyzer.lists


def changed_entry(connection: sqlite3.Connection) -> None:
    connection.execute("DROP TRIGGER ledger_is_not_changed")
    connection.execute("""UPDATE ledger SET entry = replace(entry, '"reports":20', '"reports":2000')""")


def missing_tail(connection: sqlite3.Connection) -> None:
    connection.execute("DROP TRIGGER ledger_is_not_shortened")
    connection.execute("DELETE FROM ledger WHERE position = (SELECT max(position) FROM ledger)")


def emptied(connection: sqlite3.Connection) -> None:
    connection.execute("DROP TRIGGER ledger_is_not_shortened")
    connection.execute("DELETE FROM ledger")


def another_task(connection: sqlite3.Connection) -> None:
    connection.execute("DROP TRIGGER ledger_is_not_changed")
    connection.execute("UPDATE ledger SET task = zeroblob(32)")


@pytest.mark.parametrize("change", [changed_entry, missing_tail, emptied, another_task])
async def test_store_whose_ledger_was_changed_is_refused_at_the_start(
    tmp_path: Path, change: Callable[[sqlite3.Connection], None]
) -> None:
    world = World(tmp_path)
    await world.start()
    await world.live(0)
    await world.kill()
    connection = by_hand(world.folder / FILE_NAME)
    change(connection)
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="ledger"):
        await world.start()


@pytest.mark.parametrize("statement", ["DELETE FROM ledger", "UPDATE ledger SET digest = ''"])
async def test_ledger_only_grows(world: World, statement: str) -> None:
    await world.live(0)
    with pytest.raises(sqlite3.IntegrityError, match="only grows"):
        world.store._database.writer.execute(statement)


def test_task_whose_budget_is_below_one_round_is_not_run() -> None:
    from hubbub.accountant.errors import AccountingError
    from hubbub.shuffler.tasks import check_promise

    little = Privacy(epsilon=10.0, delta=1e-2, epsilon_local=20.0, epsilon_total=1.5)
    with pytest.raises(AccountingError, match=rf"epsilon_total is 1\.5: {NOT_EVEN_THE_FIRST}"):
        check_promise(sample_task(Parties.generate(), privacy=little))
