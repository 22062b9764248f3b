"""What a round's signed records say is compared with what is stored, before anybody else has to refuse it."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest
from unit.shuffler.release.test_delivery import released_correctly
from unit.shuffler.world import MINIMUM, World, reason, unreachable

from hubbub.protos.errors import HubbubError, Unreachable
from hubbub.protos.messages import Receipt, RoundState
from hubbub.protos.refusals import Reason, Refusal
from hubbub.shuffler.admit.checks.keys import DAMAGED_SECONDS
from hubbub.shuffler.rounds.abandon import REASON, abandon_round
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore
from hubbub.shuffler.stores.sqlite.schema import FILE_NAME
from support.changed_stores import by_hand
from support.patience import CALL_SECONDS

FLIP = {"released": ("released", "envelopes"), "record": ("batch", "signature")}
"""Where a byte is changed: in the list of the last query, or in the signature of its record."""


async def mixed(world: World) -> None:
    """A round that is mixed and not delivered, of a shuffler that is stopped."""
    await world.fill()
    world.analyzer.incident = unreachable("begin")
    await world.cut()
    await world.until(lambda: world.pauses > 3)
    await world.kill()
    world.analyzer.incident = lambda _call: None


def flip(folder: Path, table: str, column: str) -> None:
    """Change one byte of a table's last row."""
    with closing(by_hand(folder / FILE_NAME)) as connection:
        row, content = connection.execute(f"SELECT rowid, {column} FROM {table} ORDER BY rowid DESC LIMIT 1").fetchone()  # noqa: S608
        changed = bytearray(content)
        changed[len(changed) // 2] ^= 0x10
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (bytes(changed), row))  # noqa: S608
        connection.commit()


def close_cleanly(world: World) -> None:
    """Have the log of the killed store carried over, so that files can be changed by hand."""
    ShufflerSqliteStore(world.folder).close()


@pytest.mark.parametrize("what", FLIP)
async def test_a_list_that_is_not_what_was_signed_is_not_sent_again_and_again(world: World, what: str) -> None:
    """The analyzer would refuse it with digest_differs for ever."""
    await mixed(world)
    close_cleanly(world)
    flip(world.folder, *FLIP[what])
    await world.start()
    round_ = world.found()
    assert round_ is not None
    async with asyncio.timeout(CALL_SECONDS):
        await world.rounds.settled(round_)
    calls = list(world.analyzer.calls)
    assert round_.state is RoundState.MIXED
    said = world.rounds.waiting_for(round_)
    assert "cannot be delivered" in said
    assert "damaged" in said
    assert f"--give-up {world.task.id.hex()[:16]}:0" in said
    assert world.rounds.has_incident(round_)
    world.rounds.timer.recheck()
    for _ in range(100):
        await asyncio.sleep(0)
    assert world.analyzer.calls == calls  # nothing is tried again
    assert not any(sent for batch, sent in world.analyzer.lists.items() if batch.query == 1)


@pytest.mark.parametrize("what", FLIP)
async def test_a_list_that_is_damaged_after_it_was_counted_is_not_said_to_be_undeliverable(
    world: World, what: str
) -> None:
    """The analyzer counted it, and the shuffler was killed before it noted that."""
    await world.fill()

    def incident(call: str) -> None:
        if call == "commit" and sum(map(len, world.analyzer.lists.values())) == 2 * MINIMUM:
            raise Unreachable("the analyzer did not answer: down")

    world.analyzer.incident = incident
    await world.cut()
    await world.until(lambda: world.pauses > 3)
    await world.kill()
    world.analyzer.incident = lambda _call: None
    (last,) = (batch for batch in world.analyzer.records if batch.query == 1)
    await world.analyzer.commit(last, world.analyzer.records[last].digest)
    close_cleanly(world)
    flip(world.folder, *FLIP[what])
    await world.start(ready=False)
    await world.over()
    assert world.state is RoundState.ERASED
    released_correctly(world)


async def test_a_list_that_is_damaged_while_the_analyzer_is_down_is_looked_at_again(world: World) -> None:
    """Sent again and again until the next start, it would be refused with digest_differs each time."""
    await mixed(world)
    paused = asyncio.Event()

    def incident(call: str) -> None:
        # The first chunk of the last list is taken; then the analyzer is down, until the list is damaged.
        if call == "commit" and len(world.analyzer.lists) == 2 and not paused.is_set():
            raise Unreachable("the analyzer did not answer: down")

    world.analyzer.incident = incident
    await world.start()
    await world.until(lambda: world.analyzer.calls.count("commit") > 2)
    for batch, sent in world.analyzer.lists.items():
        if batch.query == 1:
            sent[0] = bytes(len(sent[0]))  # what arrived is not what was signed, so it is to be sent again
    flip(world.folder, *FLIP["released"])
    paused.set()
    round_ = world.found()
    assert round_ is not None
    async with asyncio.timeout(CALL_SECONDS):
        await world.rounds.settled(round_)
    assert "cannot be delivered" in world.rounds.waiting_for(round_)


async def test_such_a_round_is_given_up_by_its_operator(world: World) -> None:
    await mixed(world)
    close_cleanly(world)
    flip(world.folder, *FLIP["released"])
    for named, says in {
        "everything": "give TASK:ROUND",
        "cdcd:0": "at least the first 8 digits of the task.s id",
        f"{'0' * 16}:0": "there is no round",
        f"{world.task.id.hex()[:8]}:7": "there is no round",
    }.items():
        with pytest.raises(HubbubError, match=says):
            await abandon_round(lambda: ShufflerSqliteStore(world.folder), named, world.tasks)
    ended = await abandon_round(lambda: ShufflerSqliteStore(world.folder), f"{world.task.id.hex()[:16]}:0", world.tasks)
    assert (ended.state, ended.reason) == (RoundState.EXPIRED, REASON)
    with pytest.raises(HubbubError, match="is expired already"):
        await abandon_round(lambda: ShufflerSqliteStore(world.folder), f"{world.task.id.hex()}:0", world.tasks)
    await world.start(ready=False)
    round_ = world.found()
    assert round_ is not None
    assert REASON in world.rounds.waiting_for(round_)
    with pytest.raises(Refusal, match=REASON) as refused:
        await world.admission.get_round(world.task.id, 0)
    assert refused.value.reason is Reason.ERASED
    assert not world.analyzer.records
    assert len(await world.store.charges(world.task.id)) > 0  # what it was charged stays


@pytest.mark.parametrize("state", [RoundState.OPEN, RoundState.MIXED])
async def test_a_round_of_which_nothing_is_damaged_is_not_given_up_by_a_slip(world: World, state: RoundState) -> None:
    """A wrong number in TASK:ROUND would erase acknowledged answers."""
    if state is RoundState.OPEN:
        await world.fill()
        await world.kill()
    else:
        await mixed(world)
    named = f"{world.task.id.hex()[:16]}:0"
    for tasks in (world.tasks, {}):
        with pytest.raises(HubbubError, match=f"its {MINIMUM} submissions would be lost.*--though-whole"):
            await abandon_round(lambda: ShufflerSqliteStore(world.folder), named, tasks)
    with closing(ShufflerSqliteStore(world.folder)) as store:
        assert (await store.rounds())[0].state is state
    ended = await abandon_round(lambda: ShufflerSqliteStore(world.folder), named, {}, though_whole=True)
    assert ended.state is RoundState.EXPIRED
    await world.start(ready=False)


async def test_an_open_round_whose_key_is_gone_is_given_up(world: World) -> None:
    await stopped(world)
    change_key(world.folder)
    ended = await abandon_round(lambda: ShufflerSqliteStore(world.folder), f"{world.task.id.hex()[:16]}:0", world.tasks)
    assert (ended.state, ended.reason) == (RoundState.EXPIRED, REASON)
    await world.start(ready=False)


async def test_a_list_that_is_whole_is_delivered_after_the_look(world: World) -> None:
    await mixed(world)
    await world.start(ready=False)
    await world.over()
    released_correctly(world)


KEY = ("SELECT private_key FROM round WHERE number = 0", "UPDATE round SET private_key = ? WHERE number = 0")


def change_key(folder: Path) -> None:
    """Change a byte of the first round's private key."""
    with closing(by_hand(folder / FILE_NAME)) as connection:
        changed = bytearray(connection.execute(KEY[0]).fetchone()[0])
        changed[-10] ^= 0x10
        connection.execute(KEY[1], (bytes(changed),))
        connection.commit()


async def stopped(world: World) -> None:
    """Stop a shuffler that has an open round."""
    round_ = world.found()
    assert round_ is not None
    assert round_.keys is not None
    await world.kill()
    close_cleanly(world)


async def test_an_open_round_whose_key_is_gone_is_told_and_devices_wait(world: World) -> None:
    """With its keys they would randomize, be charged, and be refused as unopenable."""
    submissions = await world.fill()
    (late,) = await world.seal([(0, 0)])
    destination = await world.destination()
    await stopped(world)
    change_key(world.folder)
    await world.start()
    (incident,) = world.rounds.incidents.now()
    assert "round 0 of flights: its key is damaged, so devices are asked to wait" in incident.text
    with pytest.raises(Refusal, match="the key of round 0 is damaged at the shuffler") as refusal:
        await world.admission.get_round(world.task.id, 0)
    assert (refusal.value.reason, refusal.value.retry_after) == (Reason.NOT_READY, DAMAGED_SECONDS)
    answers = await world.send([submissions[0], late], destination)
    assert isinstance(answers[0], Receipt)  # it was opened before
    assert reason(answers[1]) is Reason.NOT_READY
    await world.until(lambda: world.has_keys_of(1))
    assert await world.admission.get_round(world.task.id, 1)
    await world.cut()
    await world.over()
    released_correctly(world)
