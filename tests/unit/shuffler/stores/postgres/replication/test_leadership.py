"""One leader acts, a silent one loses its turn, and one that was replaced changes nothing any more."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from hubbub.protos.messages import CredentialAction, RoundState
from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.shuffler.mix.mix import RoundContents
from hubbub.shuffler.records import InsertOutcome, Opened, RedeemedTicket
from hubbub.shuffler.stores.postgres import ShufflerPostgresStore
from hubbub.shuffler.stores.postgres.keyring import ShufflerKeyring
from hubbub.shuffler.stores.postgres.open_store import open_as_leader
from hubbub.shuffler.stores.postgres.replication import leadership
from hubbub.shuffler.stores.postgres.replication.leadership import FencedError, Lease
from hubbub.shuffler.stores.postgres.schema import SCHEMA
from support import postgres
from support.patience import CALL_SECONDS

TASK = bytes(range(32))


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(leadership, "LOOK_SECONDS", 0.3)
    return postgres.new_database()


def taken(address: str, incidents: Incidents | None = None) -> Lease:
    """Become the leader as soon as the lock is free."""
    found = None
    while found is None:
        found = Lease.take(address, incidents=incidents)
    return found


def taken_over(address: str) -> Lease:
    """Take over from a leader that lives, and does its best to keep its lock."""
    found = None
    while found is None:
        lose_lock(address)
        found = Lease.take(address)
    return found


def holders(address: str) -> list[int]:
    """The server's processes that hold the leader's lock."""
    with psycopg.connect(address) as connection:
        statement = (
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND ((classid::bigint << 32) | objid::bigint) = hashtextextended(%s, 0)"
        )
        return [pid for (pid,) in connection.execute(statement, (f"{SCHEMA.name} leader ",))]


def lose_lock(address: str) -> None:
    """End the session that holds the leader's lock, as a network or a server that was started again does."""
    with psycopg.connect(address, autocommit=True) as connection:
        for pid in holders(address):
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))


def test_one_acts_at_a_time_and_each_term_is_above_the_last(address: str) -> None:
    with contextlib.closing(taken(address)) as first:
        assert Lease.take(address) is None
    with contextlib.closing(taken(address)) as second:
        assert second.fencing_token > first.fencing_token
        second.close()  # closing twice does nothing


def test_a_leader_that_is_silent_loses_its_turn(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "LEASE_SECONDS", 1)
    monkeypatch.setattr(leadership, "LOOK_SECONDS", 3600.0)
    silent = Lease.take(address)
    assert silent is not None
    try:
        with contextlib.closing(taken(address)) as next_one, psycopg.connect(address) as connection:
            assert next_one.fencing_token == silent.fencing_token + 1
            connection.execute(f"SET search_path = {SCHEMA.name}")
            with pytest.raises(FencedError, match="another leader has taken over"):
                silent.check(connection)
    finally:
        silent._closing.set()
        silent.close()


def test_a_lost_lock_is_taken_again_in_the_same_term_where_nobody_took_over(address: str) -> None:
    incidents = Incidents()
    with contextlib.closing(taken(address, incidents)) as leader:
        before = holders(address)
        lose_lock(address)
        while holders(address) in ([], before):
            pass
        with psycopg.connect(address) as connection:
            connection.execute(f"SET search_path = {SCHEMA.name}")
            leader.check(connection)
        assert not leader.lost


def test_a_server_that_is_away_is_an_incident_and_whoever_was_replaced_is_told(address: str) -> None:
    incidents, told = Incidents(), threading.Event()
    leader = taken(address, incidents)
    leader.when_lost(told.set)
    with contextlib.closing(leader):
        name = address.partition("?")[0].rpartition("/")[2]
        with psycopg.connect(postgres.server(), autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", (name,)
            )
            while not incidents.now():
                pass
            assert [incident.kind for incident in incidents.now()] == [IncidentKind.STORE]
            assert not leader.lost
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        with psycopg.connect(address) as connection:
            connection.execute(f"SET search_path = {SCHEMA.name}")
            connection.execute("UPDATE leader SET term = term + 1")
        assert told.wait(CALL_SECONDS)
        assert leader.lost


def test_a_term_never_falls(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in ("UPDATE {}.leader SET term = 0", "DELETE FROM {}.leader"):
            with pytest.raises(psycopg.errors.RaiseException, match="the term only rises"):
                connection.execute(statement.format(SCHEMA.name))


def test_who_is_not_entitled_leaves_the_term_as_it_is(address: str) -> None:
    def entitled(_connection: object) -> None:
        raise StoreError("its keyring missed changes")

    with contextlib.closing(taken(address)) as leader:
        lose_lock(address)
        with contextlib.suppress(StoreError):
            assert Lease.take(address, entitled) is None
        with psycopg.connect(address) as connection:
            connection.execute(f"SET search_path = {SCHEMA.name}")
            leader.check(connection)


@dataclass
class Leader:
    """A leader in a schedule, on the keyring that all of them share."""

    lease: Lease
    store: ShufflerPostgresStore

    def close(self) -> None:
        self.store.close()


@contextlib.contextmanager
def keyring_in(folder: Path) -> Iterator[ShufflerKeyring]:
    ShufflerKeyring.create(folder)
    with contextlib.closing(ShufflerKeyring(folder)) as keyring:
        yield keyring


def leader_on(keyring: ShufflerKeyring, address: str) -> Leader:
    mine = taken_over(address)
    return Leader(mine, ShufflerPostgresStore(keyring, address, keeps=False, lease=mine))


async def test_a_leader_that_was_replaced_changes_nothing_whatever_it_tries(address: str, tmp_path: Path) -> None:
    redeemed = RedeemedTicket(bytes(32), bytes(32), bytes(16), 2**40)
    with keyring_in(tmp_path / "data") as keyring, contextlib.closing(leader_on(keyring, address)) as old:
        open_, cut = [await old.store.add_round(TASK, number) for number in (0, 1)]
        one = Opened(os.urandom(16), os.urandom(16), b"inner")
        assert await old.store.insert(cut, [one]) == [InsertOutcome.STORED]
        cut = await old.store.cut(cut, "schedule", 0)
        with contextlib.closing(leader_on(keyring, address)) as new:
            before = await described(new.store)
            for change in (
                lambda: old.store.add_round(TASK, 2),
                lambda: old.store.insert(open_, [Opened(os.urandom(16), os.urandom(16), b"inner")]),
                lambda: old.store.cut(open_, "schedule", 0),
                lambda: old.store.mix(cut, lambda _inners: None),
                lambda: old.store.commit_batch(cut, 0),
                lambda: old.store.erase(cut, RoundState.EXPIRED),
                lambda: old.store.redeem([redeemed]),
                lambda: old.store.revoke([bytes(32)]),
                lambda: old.store.step_masters(CredentialAction.PREPARE, bytes(32), 0),
            ):
                with pytest.raises(FencedError):
                    await change()
            assert await described(new.store) == before
            assert old.lease.lost


async def described(store: ShufflerPostgresStore) -> object:
    rounds = await store.rounds()
    held = [await store.submissions(each) for each in rounds]
    return rounds, held, await store.masters(), await store.redeemed(), await store.revoked()


async def test_a_transaction_that_is_stopped_in_the_middle_is_ended_by_who_takes_over(
    address: str, tmp_path: Path
) -> None:
    with keyring_in(tmp_path / "data") as keyring, contextlib.closing(leader_on(keyring, address)) as old:
        round_ = await old.store.add_round(TASK, 0)
        assert await old.store.insert(round_, [Opened(bytes(16), bytes(16), b"inner")]) == [InsertOutcome.STORED]
        cut = await old.store.cut(round_, "schedule", 0)
        mixing, go_on = threading.Event(), threading.Event()

        def stopped(inners: RoundContents) -> None:
            mixing.set()
            go_on.wait()
            inners.put_released(0, 0, b"of the earlier leader")

        work = asyncio.create_task(old.store.mix(cut, stopped))
        await asyncio.to_thread(mixing.wait)
        with contextlib.closing(await asyncio.to_thread(leader_on, keyring, address)) as new:
            go_on.set()
            with pytest.raises(StoreError):
                await work
            (found,) = await new.store.rounds()
            assert found.state is RoundState.CUT
            mixed = await new.store.mix(found, lambda inners: inners.put_released(0, 0, b"".join(inners.arrived())))
            assert await new.store.envelopes(mixed, 0, 0, 5) == [b"inner"]


async def test_two_shufflers_do_not_open_one_database(address: str, tmp_path: Path) -> None:
    ShufflerKeyring.create(tmp_path / "data")
    with (
        contextlib.closing(open_as_leader(tmp_path / "data", address)),
        pytest.raises(StoreError, match="another shuffler leads the rounds of"),
    ):
        open_as_leader(tmp_path / "data", address)


class Schedule:
    """Leaders that take over, lose locks, and go on unaware; beside a model of what must hold."""

    def __init__(self, seed: int, keyring: ShufflerKeyring, address: str) -> None:
        self.random = random.Random(seed)
        self.keyring, self.address = keyring, address
        self.leaders: list[Leader] = []
        self.held: dict[int, set[bytes]] = {}
        self.cut: set[int] = set()
        self.erased: set[int] = set()

    async def run(self, steps: int) -> None:
        try:
            await self.take_over()
            for _ in range(steps):
                await self.random.choice(
                    (self.begin, self.insert, self.insert, self.close, self.erase, self.take_over)
                )()
            await self.check()
        finally:
            for leader in self.leaders:
                leader.close()

    async def take_over(self) -> None:
        found = await asyncio.to_thread(taken_over, self.address)
        self.leaders.append(Leader(found, ShufflerPostgresStore(self.keyring, self.address, keeps=False, lease=found)))

    async def begin(self) -> None:
        number = len(self.held)
        if await self.tried(lambda store: store.add_round(TASK, number)) is not None:
            self.held[number] = set()

    async def insert(self) -> None:
        number = self.random.randrange(len(self.held) + 1)
        submission = Opened(self.random.randbytes(16), bytes(16), self.random.randbytes(8))
        if number not in self.held:
            return
        round_ = await self.leaders[-1].store.find(TASK, number)
        assert round_ is not None
        found = await self.tried(lambda store: store.insert(round_, [submission]))
        if found is not None:
            assert found == [InsertOutcome.CUT if number in self.cut | self.erased else InsertOutcome.STORED]
            if found == [InsertOutcome.STORED]:
                self.held[number].add(submission.inners)

    async def close(self) -> None:
        await self._of_round(lambda store, round_: store.cut(round_, "schedule", 0), self.cut)

    async def erase(self) -> None:
        await self._of_round(lambda store, round_: store.erase(round_, RoundState.EXPIRED), self.erased)

    async def _of_round(self, change, done: set[int]) -> None:  # type: ignore[no-untyped-def]
        number = self.random.randrange(len(self.held) + 1)
        if number not in self.held or (done is self.cut and number in self.erased):
            return
        round_ = await self.leaders[-1].store.find(TASK, number)
        if await self.tried(lambda store: change(store, round_)) is not None:
            done.add(number)

    async def tried(self, change):  # type: ignore[no-untyped-def]
        """Have any leader try, often one that was replaced: it must fail, and the last must not."""
        which = self.random.randrange(len(self.leaders))
        try:
            found = await change(self.leaders[which].store)
        except FencedError:
            assert which != len(self.leaders) - 1
            return None
        assert which == len(self.leaders) - 1
        return found

    async def check(self) -> None:
        store = self.leaders[-1].store
        for number, held in self.held.items():
            round_ = await store.find(TASK, number)
            assert round_ is not None
            assert await store.submissions(round_) == len(held)
            if number in self.erased:
                assert self.keyring.of((TASK, number)).cipher is None
                continue
            cut = await store.cut(round_, "schedule", 0)
            arrived: list[bytes] = []
            await store.mix(cut, lambda inners, into=arrived: into.extend(inners.arrived()))  # type: ignore[misc]
            content = b"".join(arrived)
            assert {content[at : at + 8] for at in range(0, len(content), 8)} == held


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(6))
async def test_in_generated_schedules_only_the_last_leader_changes_anything(
    address: str, tmp_path: Path, seed: int
) -> None:
    with keyring_in(tmp_path / "data") as keyring:
        await Schedule(seed, keyring, address).run(25)
