"""Terms: one keeper acts, a silent one loses its turn, and one that was replaced changes nothing any more."""

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

from hubbub.protos.messages import RoundState, Step
from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import Kind, Troubles
from hubbub.shuffler.mix.mix import Inners
from hubbub.shuffler.records import Held, Opened, Spent
from hubbub.shuffler.stores.postgres import PostgresStore
from hubbub.shuffler.stores.postgres.keyring import Keyring
from hubbub.shuffler.stores.postgres.opening import open_kept
from hubbub.shuffler.stores.postgres.replication import leadership
from hubbub.shuffler.stores.postgres.replication.leadership import FencedError, Term
from hubbub.shuffler.stores.postgres.schema import SCHEMA
from support import postgres

TASK = bytes(range(32))


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(leadership, "LOOK_SECONDS", 0.3)
    return postgres.new_database()


def taken(address: str, troubles: Troubles | None = None) -> Term:
    """Become the keeper as soon as the lock is free."""
    found = None
    while found is None:
        found = Term.take(address, troubles=troubles)
    return found


def taken_over(address: str) -> Term:
    """Take over from a keeper that lives, and does its best to keep its lock."""
    found = None
    while found is None:
        lose_lock(address)
        found = Term.take(address)
    return found


def holders(address: str) -> list[int]:
    """The server's processes that hold the keeper's lock."""
    with psycopg.connect(address) as connection:
        statement = (
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND ((classid::bigint << 32) | objid::bigint) = hashtextextended(%s, 0)"
        )
        return [pid for (pid,) in connection.execute(statement, (f"{SCHEMA.name} keeper ",))]


def lose_lock(address: str) -> None:
    """End the session that holds the keeper's lock, as a network or a server that was started again does."""
    with psycopg.connect(address, autocommit=True) as connection:
        for pid in holders(address):
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))


def test_one_acts_at_a_time_and_each_term_is_above_the_last(address: str) -> None:
    with contextlib.closing(taken(address)) as first:
        assert Term.take(address) is None
    with contextlib.closing(taken(address)) as second:
        assert second.number > first.number
        second.close()  # closing twice does nothing


def test_a_keeper_that_is_silent_loses_its_turn(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "LEASE_SECONDS", 1)
    monkeypatch.setattr(leadership, "LOOK_SECONDS", 3600.0)
    silent = Term.take(address)
    assert silent is not None
    try:
        with contextlib.closing(taken(address)) as next_one, psycopg.connect(address) as connection:
            assert next_one.number == silent.number + 1
            connection.execute(f"SET search_path = {SCHEMA.name}")
            with pytest.raises(FencedError, match="another keeper has taken over"):
                silent.check(connection)
    finally:
        silent._closing.set()
        silent.close()


def test_a_lost_lock_is_taken_again_in_the_same_term_where_nobody_took_over(address: str) -> None:
    troubles = Troubles()
    with contextlib.closing(taken(address, troubles)) as keeper:
        before = holders(address)
        lose_lock(address)
        while holders(address) in ([], before):
            pass
        with psycopg.connect(address) as connection:
            connection.execute(f"SET search_path = {SCHEMA.name}")
            keeper.check(connection)
        assert not keeper.over


def test_a_server_that_is_away_is_a_trouble_and_whoever_was_replaced_is_told(address: str) -> None:
    troubles, told = Troubles(), threading.Event()
    keeper = taken(address, troubles)
    keeper.when_over(told.set)
    with contextlib.closing(keeper):
        name = address.partition("?")[0].rpartition("/")[2]
        with psycopg.connect(postgres.server(), autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", (name,)
            )
            while not troubles.now():
                pass
            assert [trouble.kind for trouble in troubles.now()] == [Kind.STORE]
            assert not keeper.over
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        with psycopg.connect(address) as connection:
            connection.execute(f"SET search_path = {SCHEMA.name}")
            connection.execute("UPDATE keeper SET term = term + 1")
        assert told.wait(60)
        assert keeper.over


def test_a_term_never_falls(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in ("UPDATE {}.keeper SET term = 0", "DELETE FROM {}.keeper"):
            with pytest.raises(psycopg.errors.RaiseException, match="the term only rises"):
                connection.execute(statement.format(SCHEMA.name))


def test_who_is_not_entitled_leaves_the_term_as_it_is(address: str) -> None:
    def entitled(_connection: object) -> None:
        raise StoreError("its keyring missed changes")

    with contextlib.closing(taken(address)) as keeper:
        lose_lock(address)
        with contextlib.suppress(StoreError):
            assert Term.take(address, entitled) is None
        with psycopg.connect(address) as connection:
            connection.execute(f"SET search_path = {SCHEMA.name}")
            keeper.check(connection)


@dataclass
class Keeper:
    """A keeper in a schedule, on the keyring that all of them share."""

    leadership: Term
    store: PostgresStore

    def close(self) -> None:
        self.store.close()


@contextlib.contextmanager
def keyring_in(folder: Path) -> Iterator[Keyring]:
    Keyring.create(folder)
    with contextlib.closing(Keyring(folder)) as keyring:
        yield keyring


def keeper_on(keyring: Keyring, address: str) -> Keeper:
    mine = taken_over(address)
    return Keeper(mine, PostgresStore(keyring, address, keeps=False, term=mine))


async def test_a_keeper_that_was_replaced_changes_nothing_whatever_it_tries(address: str, tmp_path: Path) -> None:
    spent = Spent(bytes(32), bytes(32), bytes(16), 2**40)
    with keyring_in(tmp_path / "data") as keyring, contextlib.closing(keeper_on(keyring, address)) as old:
        open_, cut = [await old.store.add_round(TASK, number) for number in (0, 1)]
        one = Opened(os.urandom(16), os.urandom(16), b"inner")
        assert await old.store.hold(cut, [one]) == [Held.NEW]
        cut = await old.store.cut(cut, "schedule", 0)
        with contextlib.closing(keeper_on(keyring, address)) as new:
            before = await described(new.store)
            for change in (
                lambda: old.store.add_round(TASK, 2),
                lambda: old.store.hold(open_, [Opened(os.urandom(16), os.urandom(16), b"inner")]),
                lambda: old.store.cut(open_, "schedule", 0),
                lambda: old.store.mix(cut, lambda _inners: None),
                lambda: old.store.commit_batch(cut, 0),
                lambda: old.store.erase(cut, RoundState.EXPIRED),
                lambda: old.store.spend([spent]),
                lambda: old.store.revoke([bytes(32)]),
                lambda: old.store.step_masters(Step.PREPARE, bytes(32), 0),
            ):
                with pytest.raises(FencedError, match="nothing was done here"):
                    await change()
            assert await described(new.store) == before
            assert old.term.over


async def described(store: PostgresStore) -> object:
    rounds = await store.rounds()
    held = [await store.submissions(each) for each in rounds]
    return rounds, held, await store.masters(), await store.spent(), await store.revoked()


async def test_a_transaction_that_is_stopped_in_the_middle_is_ended_by_who_takes_over(
    address: str, tmp_path: Path
) -> None:
    with keyring_in(tmp_path / "data") as keyring, contextlib.closing(keeper_on(keyring, address)) as old:
        round_ = await old.store.add_round(TASK, 0)
        assert await old.store.hold(round_, [Opened(bytes(16), bytes(16), b"inner")]) == [Held.NEW]
        cut = await old.store.cut(round_, "schedule", 0)
        mixing, go_on = threading.Event(), threading.Event()

        def stopped(inners: Inners) -> None:
            mixing.set()
            go_on.wait()
            inners.put_released(0, 0, b"of the earlier keeper")

        work = asyncio.create_task(old.store.mix(cut, stopped))
        await asyncio.to_thread(mixing.wait)
        with contextlib.closing(await asyncio.to_thread(keeper_on, keyring, address)) as new:
            go_on.set()
            with pytest.raises(StoreError):
                await work
            (found,) = await new.store.rounds()
            assert found.state is RoundState.CUT
            mixed = await new.store.mix(found, lambda inners: inners.put_released(0, 0, b"".join(inners.arrived())))
            assert await new.store.envelopes(mixed, 0, 0, 5) == [b"inner"]


async def test_two_shufflers_do_not_open_one_database(address: str, tmp_path: Path) -> None:
    Keyring.create(tmp_path / "data")
    with (
        contextlib.closing(open_kept(tmp_path / "data", address)),
        pytest.raises(StoreError, match="another shuffler keeps the rounds of"),
    ):
        open_kept(tmp_path / "data", address)


class Schedule:
    """Keepers that take over, lose locks, and go on unaware; beside a model of what must hold."""

    def __init__(self, seed: int, keyring: Keyring, address: str) -> None:
        self.random = random.Random(seed)
        self.keyring, self.address = keyring, address
        self.keepers: list[Keeper] = []
        self.held: dict[int, set[bytes]] = {}
        self.cut: set[int] = set()
        self.erased: set[int] = set()

    async def run(self, steps: int) -> None:
        try:
            await self.take_over()
            for _ in range(steps):
                await self.random.choice((self.begin, self.hold, self.hold, self.close, self.erase, self.take_over))()
            await self.check()
        finally:
            for keeper in self.keepers:
                keeper.close()

    async def take_over(self) -> None:
        found = await asyncio.to_thread(taken_over, self.address)
        self.keepers.append(Keeper(found, PostgresStore(self.keyring, self.address, keeps=False, term=found)))

    async def begin(self) -> None:
        number = len(self.held)
        if await self.tried(lambda store: store.add_round(TASK, number)) is not None:
            self.held[number] = set()

    async def hold(self) -> None:
        number = self.random.randrange(len(self.held) + 1)
        submission = Opened(self.random.randbytes(16), bytes(16), self.random.randbytes(8))
        if number not in self.held:
            return
        round_ = await self.keepers[-1].store.find(TASK, number)
        assert round_ is not None
        found = await self.tried(lambda store: store.hold(round_, [submission]))
        if found is not None:
            assert found == [Held.CUT if number in self.cut | self.erased else Held.NEW]
            if found == [Held.NEW]:
                self.held[number].add(submission.inners)

    async def close(self) -> None:
        await self._of_round(lambda store, round_: store.cut(round_, "schedule", 0), self.cut)

    async def erase(self) -> None:
        await self._of_round(lambda store, round_: store.erase(round_, RoundState.EXPIRED), self.erased)

    async def _of_round(self, change, done: set[int]) -> None:  # type: ignore[no-untyped-def]
        number = self.random.randrange(len(self.held) + 1)
        if number not in self.held or (done is self.cut and number in self.erased):
            return
        round_ = await self.keepers[-1].store.find(TASK, number)
        if await self.tried(lambda store: change(store, round_)) is not None:
            done.add(number)

    async def tried(self, change):  # type: ignore[no-untyped-def]
        """Have any keeper try, often one that was replaced: it must fail, and the last must not."""
        which = self.random.randrange(len(self.keepers))
        try:
            found = await change(self.keepers[which].store)
        except FencedError:
            assert which != len(self.keepers) - 1
            return None
        assert which == len(self.keepers) - 1
        return found

    async def check(self) -> None:
        store = self.keepers[-1].store
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


@pytest.mark.parametrize("seed", range(6))
async def test_in_generated_schedules_only_the_last_keeper_changes_anything(
    address: str, tmp_path: Path, seed: int
) -> None:
    with keyring_in(tmp_path / "data") as keyring:
        await Schedule(seed, keyring, address).run(25)
