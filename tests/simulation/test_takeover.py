"""A leader is killed at changes of its keyring or its database; whoever followed goes on, as if nothing had been."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import psycopg
import pytest
from contract.crashes import Step, Story
from contract.implementations import _watched
from contract.test_shuffler_store import a_life, an_enrollment
from unit.shuffler.stores.postgres.replication.test_replication import Party, until

from hubbub.protos.errors import HubbubError
from hubbub.service.errors import StoreError
from hubbub.shuffler.stores.postgres import ShufflerPostgresStore
from hubbub.shuffler.stores.postgres.keyring import ShufflerKeyring
from hubbub.shuffler.stores.postgres.open_store import create_replicated, take_lease
from hubbub.shuffler.stores.postgres.replication import leadership, replication
from hubbub.shuffler.stores.postgres.replication.replication import StandbysAwayError
from hubbub.shuffler.stores.protocol import ShufflerStore
from support import postgres
from support.thoroughness import usually


class _Dead(Exception):
    """Raised in a process that is killed: it changes nothing any more."""


class Leader:
    """A leader that dies at one of its changes, the first of which is 0."""

    def __init__(self, party: Party, dies_at: int) -> None:
        self.party, self.dies_at = party, dies_at
        self.seen, self.counting, self.point = 0, False, ""
        found = take_lease(party.folder, party.address, forward=False)
        assert found is not None
        self.lease = found
        keyring = ShufflerKeyring(party.folder, connection=_watched(self.watch))
        self.store = ShufflerPostgresStore(keyring, party.address, connection=postgres.watched(self.watch), lease=found)
        self.store.follow(1)
        party.store = self.store

    def watch(self, reached: str) -> None:
        if self.point:
            raise _Dead
        self.seen += self.counting
        if self.seen > self.dies_at:
            self.point = reached
            self.party.store = None
            self.lease._closing.set()  # nor does it try to have its lock back
            with psycopg.connect(postgres.server(), autocommit=True) as connection:
                name = self.party.address.partition("?")[0].rpartition("/")[2]
                statement = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s"
                connection.execute(statement, (name,))
            raise _Dead

    def let_go(self) -> None:
        """Free what a dead process does not hold."""
        self.store._keyring._database._accepted = False  # its log stays as it is
        for close in (self.store.close, self.store._keyring.close, self.lease.close):
            with contextlib.suppress(_Dead, HubbubError):
                close()
        self.party.store = None


async def told(story: Story[ShufflerStore], folder: Path) -> list[object]:
    """What a store holds before the first step and after each, where nobody is killed."""
    with contextlib.closing(postgres.store_in(folder)) as store:
        described = [await story.describe(store)]
        for step in story.steps:
            await step.do(store)
            described.append(await story.describe(store))
    return described


async def answered(step: Step[ShufflerStore], leader: Leader) -> None:
    """Do a step, and again while the standby is slower than a twentieth of a second, which is all the patience here."""
    while True:
        try:
            return await step.do(leader.store)
        except StandbysAwayError:
            if leader.point:
                raise


async def killed(story: Story[ShufflerStore], folder: Path, described: list[object], dies_at: int) -> bool:
    """Kill a leader at that change, and have its standby go on; return whether there is such a change."""
    address = postgres.new_database()
    one, other = Party(folder / "one", address), Party(folder / "other", address)
    for party, peer in ((one, other), (other, one)):
        create_replicated(party.folder, address)
        party.reaches = lambda peer=peer: peer.store  # type: ignore[misc]
    leader, done = Leader(one, dies_at), 0
    async with other.following():
        # It copies everything first.
        await until(lambda: asyncio.to_thread(leader.store._keyring._everywhere))
        leader.counting = True
        for step in story.steps:
            try:
                await answered(step, leader)
            except (_Dead, HubbubError):
                if not leader.point:
                    raise
                break
            done += 1
            if leader.point:
                break  # what was under way besides died with it, and the step was answered
    await asyncio.to_thread(leader.let_go)
    if done == len(story.steps):
        return bool(leader.point)
    store = await asyncio.to_thread(other.act)
    step = story.steps[done]
    found = await story.describe(store)
    assert not step.whole or found in described[done : done + 2], (step.name, leader.point)
    # The one that was killed comes back, and follows.
    async with one.following():
        for number, later in enumerate(story.steps[done:], done + 1):
            await until(lambda later=later: later.do(store))  # type: ignore[misc]
            assert await story.describe(store) == described[number], (later.name, leader.point)
        await until(lambda: asyncio.to_thread(has_everything, store))
    other.end()
    files = one.files() + other.files()
    assert [secret for secret in story.secrets if secret[:16] in files] == [], (step.name, leader.point)
    return True


def has_everything(store: ShufflerPostgresStore) -> None:
    followers = store.standbys
    assert followers is not None
    with followers._changed:
        if not followers._having(followers._position):
            raise StoreError("not yet")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "LOOK_SECONDS", 0.3)
    monkeypatch.setattr(replication, "AWAY_SECONDS", 0.05)
    monkeypatch.setattr(replication, "POLL_SECONDS", 0.01)


@pytest.mark.parametrize(("make", "each"), [(a_life, usually(35, 5)), (an_enrollment, usually(28, 4))])
async def test_whoever_followed_goes_on_wherever_the_leader_was_killed(tmp_path: Path, make, each: int) -> None:  # type: ignore[no-untyped-def]
    story = make()
    described = await told(story, tmp_path / "undisturbed")
    dies_at = 0
    while await killed(story, tmp_path / f"killed{dies_at}", described, dies_at):
        dies_at += each
    assert dies_at > 20
