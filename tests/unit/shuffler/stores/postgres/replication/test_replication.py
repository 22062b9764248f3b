"""A keyring that follows has everything that was answered, or it does not take over."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import psycopg
import pytest

from hubbub.protos.cluster import FollowerPosition, KeyringChanges, KeyringRow
from hubbub.protos.errors import Unreachable
from hubbub.protos.messages import CredentialAction, RoundState
from hubbub.protos.refusals import Refusal
from hubbub.protos.rpc import ReplicationCaller
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import Incidents
from hubbub.service.rpc import serve_replication
from hubbub.service.transport.grpc_server import listen
from hubbub.shuffler.cluster.failover import LEADERS, StandbyHandler
from hubbub.shuffler.mix.mix import RoundContents
from hubbub.shuffler.records import InsertOutcome, Opened, RedeemedTicket
from hubbub.shuffler.stores.postgres import ShufflerPostgresStore
from hubbub.shuffler.stores.postgres.keyring import ShufflerKeyring
from hubbub.shuffler.stores.postgres.open_store import create_replicated, open_as_leader, take_lease
from hubbub.shuffler.stores.postgres.replication import leadership, replication
from hubbub.shuffler.stores.postgres.replication.changes import checked
from hubbub.shuffler.stores.postgres.replication.follower import Follower
from hubbub.shuffler.stores.postgres.replication.replication import KeyringLeader, NotCopiedError, StandbysAwayError
from support import postgres
from support.ended_with_test import opened_server
from support.messages import NEEDS_ROLE, OTHER_ROLE
from support.patience import CALL_SECONDS, pause
from support.samples import make_tls

TASK = bytes(range(32))


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(leadership, "LOOK_SECONDS", 0.3)
    monkeypatch.setattr(replication, "AWAY_SECONDS", 0.25)
    monkeypatch.setattr(replication, "WAIT_SECONDS", 1.0)
    monkeypatch.setattr(replication, "POLL_SECONDS", 0.01)
    return postgres.new_database()


@contextlib.contextmanager
def patient() -> Iterator[None]:
    """Have no standby count as away, however long a busy machine keeps it from following."""
    with pytest.MonkeyPatch.context() as patched:
        for limit in ("AWAY_SECONDS", "WAIT_SECONDS"):
            patched.setattr(replication, limit, CALL_SECONDS)
        yield


@dataclass
class Party:
    """One of those that keep the same rounds: its keyring's folder, and what it does now."""

    folder: Path
    address: str
    store: ShufflerPostgresStore | None = None
    keyring: ShufflerKeyring | None = field(default=None, repr=False)
    reaches: Callable[[], ShufflerPostgresStore | None] = lambda: None

    async def follow(self, asked: FollowerPosition, _deadline: float) -> KeyringChanges:
        """Ask the leader, where it is reached."""
        leader = self.reaches()
        if leader is None or leader.standbys is None:
            raise Unreachable("nobody there")
        return await leader.standbys.follow(asked)

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Follow meanwhile, as the process of a standby does."""
        self.keyring = ShufflerKeyring(self.folder)
        self.keyring.accept()
        following = Follower(self.keyring, (), TLS(Path()), Incidents())

        async def run() -> None:
            while True:
                with contextlib.suppress(Unreachable, StoreError, Refusal):
                    await following._follow(self)  # type: ignore[arg-type]
                await asyncio.sleep(0)

        task = asyncio.create_task(run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.to_thread(self.keyring.close)
            self.keyring = None

    def act(self, needed: int = 0) -> ShufflerPostgresStore:
        """Become the leader; the keyring must not be followed with then."""
        found = None
        while found is None:
            found = take_lease(self.folder, self.address, forward=False)
        self.store = open_as_leader(self.folder, self.address, lease=found, standbys=needed)
        return self.store

    def end(self) -> None:
        """End what was acting."""
        if self.store is not None:
            self.store.close()
            self.store = None

    def files(self) -> bytes:
        """Everything in its folder."""
        return b"".join(path.read_bytes() for path in self.folder.iterdir())


@pytest.fixture
def parties(address: str, tmp_path: Path) -> Iterator[tuple[Party, Party]]:
    made = Party(tmp_path / "one", address), Party(tmp_path / "other", address)
    for party, other in (made, made[::-1]):
        create_replicated(party.folder, address)
        party.reaches = lambda other=other: other.store  # type: ignore[misc]
    yield made
    for party in made:
        party.end()


async def until(work: Callable[[], Awaitable[object]]) -> object:
    """Do work until it is done, as rounds do."""
    while True:
        with contextlib.suppress(StoreError):
            return await work()


async def test_whoever_follows_takes_over_with_everything_that_was_answered(parties: tuple[Party, Party]) -> None:
    one, other = parties
    leader = one.act(needed=1)
    submission = Opened(os.urandom(16), os.urandom(16), b"inner")
    redeemed = RedeemedTicket(bytes(32), b"\1" * 32, b"\2" * 16, 2**40)
    async with other.following():
        await until(lambda: leader.step_masters(CredentialAction.PREPARE, b"\3" * 32, 7))
        with patient():
            round_ = await leader.add_round(TASK, 0)
            assert await leader.insert(round_, [submission]) == [InsertOutcome.STORED]
            assert await leader.redeem([redeemed]) == [redeemed]
            await leader.revoke([b"\4" * 32])
        masters, revoked = await leader.masters(), await leader.revoked()
    one.end()
    new = other.act()
    assert (await new.masters(), await new.revoked(), await new.redeemed()) == (masters, revoked, 1)
    (found,) = await new.rounds()
    arrived: list[bytes] = []
    await new.mix(await new.cut(found, "schedule", 0), lambda inners: arrived.extend(inners.arrived()))
    assert arrived == [b"inner"]


async def test_nothing_is_answered_while_a_standby_that_counts_is_away_and_rounds_under_way_go_on(
    parties: tuple[Party, Party],
) -> None:
    one, other = parties
    leader = one.act(needed=1)
    for change in (lambda: leader.add_round(TASK, 0), lambda: leader.revoke([bytes(32)])):
        with pytest.raises(StoreError, match="0 of the 1 standbys that `standbys` requires"):
            await change()
    assert await leader.rounds() == []
    # Refused before anything is written: no ticket is redeemed in vain, and a front end's question says so too.
    ticket = RedeemedTicket(bytes(32), b"\1" * 32, b"\2" * 16, 2**40)
    for tickets in ([ticket], []):
        with pytest.raises(StandbysAwayError):
            await leader.redeem(tickets)
    assert (await leader.redeemed(), (await leader.revoked()).devices) == (0, frozenset())
    await leader.step_masters(
        CredentialAction.STATUS, bytes(32), 0
    )  # a new store's first key: a leader starts before its standbys
    async with other.following():
        await until(lambda: leader.add_round(TASK, 0))
    (round_,) = await leader.rounds()
    assert await leader.insert(round_, [Opened(bytes(16), bytes(16), b"inner")]) == [InsertOutcome.STORED]
    mixed = await leader.mix(await leader.cut(round_, "schedule", 0), lambda _inners: None)
    with pytest.raises(StoreError, match="lower `standbys`"):
        await leader.erase(mixed, RoundState.ERASED)
    assert (await leader.rounds())[0].state is RoundState.MIXED
    async with other.following():
        await until(lambda: leader.erase(mixed, RoundState.ERASED))
    assert (await leader.rounds())[0].state is RoundState.ERASED


async def test_what_was_erased_is_in_no_file_of_the_leader_or_the_standby(parties: tuple[Party, Party]) -> None:
    one, other = parties
    leader = one.act(needed=1)
    async with other.following():
        await until(lambda: leader.add_round(TASK, 0))
        rows, _ = leader._keyring.whole(lambda: None)
        (secret,) = [row.values[2] for row in rows if row.table == "secret"]
        assert isinstance(secret, bytes)
        held = secret[-32:]
        assert held in other.files()
        (round_,) = await leader.rounds()
        with patient():
            await leader.erase(round_, RoundState.EXPIRED)
        assert held not in one.files()
        assert held not in other.files()
    one.end()
    assert held not in one.files() + other.files()


async def test_a_keyring_that_missed_changes_does_not_take_over_until_it_has_copied_everything(
    parties: tuple[Party, Party],
) -> None:
    one, other = parties
    leader = one.act()
    async with other.following():
        await leader.add_round(TASK, 0)
        await until(lambda: asyncio.to_thread(other_has, other, 1))
    await leader.add_round(TASK, 1)  # without the other one, which is away
    one.end()
    with pytest.raises(StoreError, match="does not have every change, so it does not take over"):
        other.act()
    leader = one.act()
    async with other.following():
        await until(lambda: asyncio.to_thread(other_has, other, 2))
    one.end()
    assert [each.number for each in await other.act().rounds()] == [0, 1]


async def test_an_old_copy_of_the_folder_of_a_leader_or_a_standby_does_not_take_over(
    parties: tuple[Party, Party], tmp_path: Path
) -> None:
    """It has the name of one that has everything; and it would let in again who was revoked since."""
    one, other = parties
    leader = one.act()
    async with other.following():
        await leader.add_round(TASK, 0)
        await until(lambda: asyncio.to_thread(other_has, other, 1))
    one.end()
    for party in parties:
        shutil.copytree(party.folder, tmp_path / f"old {party.folder.name}")
    leader = one.act()
    async with other.following():
        await leader.revoke([bytes(16)])
        await until(lambda: asyncio.to_thread(has_all_of, other, one))
    one.end()
    for party in parties:
        with pytest.raises(StoreError, match=r"is an old copy: it has \d+ of the \d+ changes that were answered"):
            Party(tmp_path / f"old {party.folder.name}", one.address).act()
    assert (await other.act().revoked()).devices


def has_all_of(party: Party, other: Party) -> None:
    assert party.keyring is not None
    assert other.store is not None
    if party.keyring.changes < other.store._keyring.changes:
        raise StoreError("not yet")


def other_has(party: Party, rounds: int) -> None:
    assert party.keyring is not None
    if len(party.keyring.rounds) != rounds or not is_member(party):
        raise StoreError("not yet")


def is_member(party: Party) -> bool:
    assert party.keyring is not None
    with psycopg.connect(party.address) as connection:
        found = connection.execute("SELECT copy FROM hubbub_shuffler.member").fetchall()
    return (party.keyring.copy,) in found


async def test_a_keyring_that_was_never_copied_does_not_take_over(parties: tuple[Party, Party]) -> None:
    with pytest.raises(NotCopiedError, match="is new, and has nothing of the leader's yet"):
        parties[1].act()


async def test_a_keyring_of_other_rounds_does_not_take_over(parties: tuple[Party, Party]) -> None:
    with contextlib.closing(ShufflerKeyring(parties[1].folder)) as keyring:
        keyring.begin((TASK, 0))
    with pytest.raises(StoreError, match="belongs to another keyring than"):
        parties[1].act()


async def test_a_leader_knows_how_many_follow_now(parties: tuple[Party, Party]) -> None:
    one, other = parties
    leader = one.act(needed=1).standbys
    assert leader is not None
    assert leader.following() == (1, 0)
    async with other.following():
        await until(lambda: asyncio.to_thread(followed, leader))
    while leader.following() != (1, 0):
        await pause()


def followed(leader: KeyringLeader) -> None:
    if leader.following() != (1, 1):
        raise StoreError("not yet")


@pytest.fixture
async def servers() -> AsyncIterator[tuple[grpc.aio.Server, grpc.aio.Server]]:
    async with opened_server() as one, opened_server() as other:
        yield one, other


async def test_only_shufflers_may_follow(
    parties: tuple[Party, Party], servers: tuple[grpc.aio.Server, grpc.aio.Server], tmp_path: Path
) -> None:
    server, refusing = servers
    one, other = parties
    leader = one.act(needed=1)
    tls = make_tls(tmp_path / "tls", "shuffler", "operator")
    assert leader.standbys is not None
    serve_replication(server, leader.standbys, LEADERS)
    port = listen(server, "127.0.0.1:0", tls["shuffler"].server(mutual=True))
    await server.start()
    async with open_channel(f"127.0.0.1:{port}", tls["operator"]) as channel:
        with pytest.raises(Refusal, match=f"{NEEDS_ROLE} shuffler, {OTHER_ROLE}"):
            await ReplicationCaller(channel).follow(FollowerPosition(bytes(16)), CALL_SECONDS)
    with contextlib.closing(ShufflerKeyring(other.folder)) as keyring:
        incidents = Incidents()
        # The first address is a standby's, who is not the leader.
        serve_replication(refusing, StandbyHandler(incidents), LEADERS)
        first = listen(refusing, "127.0.0.1:0", tls["shuffler"].server(mutual=True))
        await refusing.start()
        addresses = [f"127.0.0.1:{each}" for each in (first, port)]
        task = asyncio.create_task(Follower(keyring, addresses, tls["shuffler"], incidents).run())
        for number in range(3):
            await until(lambda number=number: leader.add_round(TASK, number))  # type: ignore[misc]
        assert set(keyring.rounds) == {(TASK, number) for number in range(3)}
        assert incidents.now() == ()
        with patient():
            await leader.revoke([os.urandom(32) for _ in range(150)])  # more rows than one answer has
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        task = asyncio.create_task(Follower(keyring, addresses, tls["shuffler"], incidents).run())
        await until(lambda: leader.add_round(TASK, 3))
        assert (TASK, 3) in keyring.rounds
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_rows_of_tables_that_there_are_not_are_refused() -> None:
    for row in (KeyringRow("sqlite_schema", (1,)), KeyringRow("secret", (1,)), KeyringRow("revoked", ())):
        with pytest.raises(StoreError, match="does not know"):
            checked(row)


class Schedule:
    """Two that keep the same rounds in turn, killed and cut off from each other; beside what must hold."""

    def __init__(self, seed: int, parties: tuple[Party, Party]) -> None:
        self.random = random.Random(seed)
        self.parties = parties
        self.connected = True
        for party, other in (parties, parties[::-1]):
            party.reaches = lambda other=other: other.store if self.connected else None  # type: ignore[misc]
        self.held: dict[int, set[bytes]] = {}
        self.erased: dict[int, bytes] = {}
        self.secrets: dict[int, bytes] = {}
        self.revoked: set[bytes] = set()

    async def run(self, turns: int) -> None:
        leader, standby = self.parties
        for _ in range(turns):
            try:
                leader.act(self.random.randrange(2))
            except StoreError:
                # Only what missed a change may be refused, and then the other one has them all.
                leader, standby = standby, leader
                leader.act(self.random.randrange(2))
            async with standby.following():
                for _ in range(self.random.randrange(3, 12)):
                    await self.random.choice(
                        (self.begin, self.insert, self.insert, self.erase, self.revoke, self.cut_off)
                    )(leader)
                leader.end()
            self.check_erased()
            if self.random.randrange(2):
                leader, standby = standby, leader
        self.connected = True
        try:
            store = leader.act()
        except StoreError:
            store = standby.act()
        await self.check(store)

    async def cut_off(self, _leader: Party) -> None:
        self.connected = not self.connected

    async def begin(self, leader: Party) -> None:
        number = len(self.held)
        assert leader.store is not None
        with contextlib.suppress(StoreError):
            await leader.store.add_round(TASK, number)
            self.held[number] = set()
            rows, _ = leader.store._keyring.whole(lambda: None)
            (secret,) = [row.values[2] for row in rows if row.table == "secret" and row.values[1] == number]
            assert isinstance(secret, bytes)
            self.secrets[number] = secret[-32:]

    async def insert(self, leader: Party) -> None:
        assert leader.store is not None
        for number in self.held.keys() - self.erased.keys():
            submission = Opened(self.random.randbytes(16), bytes(16), self.random.randbytes(8))
            round_ = await leader.store.find(TASK, number)
            assert round_ is not None
            if await leader.store.insert(round_, [submission]) == [InsertOutcome.STORED]:
                self.held[number].add(submission.inners)

    async def erase(self, leader: Party) -> None:
        assert leader.store is not None
        left = sorted(self.held.keys() - self.erased.keys())
        if len(left) > 1:
            round_ = await leader.store.find(TASK, left[0])
            assert round_ is not None
            with contextlib.suppress(StoreError):
                await leader.store.erase(round_, RoundState.EXPIRED)
                self.erased[left[0]] = self.secrets[left[0]]

    async def revoke(self, leader: Party) -> None:
        assert leader.store is not None
        device = self.random.randbytes(32)
        with contextlib.suppress(StoreError):
            await leader.store.revoke([device])
            self.revoked.add(device)

    def check_erased(self) -> None:
        files = [party.files() for party in self.parties if self.has_everything(party)]
        assert files
        assert [secret for secret in self.erased.values() for content in files if secret in content] == []

    def has_everything(self, party: Party) -> bool:
        with contextlib.closing(ShufflerKeyring(party.folder)) as keyring, psycopg.connect(party.address) as connection:
            found = connection.execute("SELECT copy FROM hubbub_shuffler.member").fetchall()
            return (keyring.copy,) in found

    async def check(self, store: ShufflerPostgresStore) -> None:
        assert (await store.revoked()).devices >= self.revoked
        for number in self.held.keys() - self.erased.keys():
            round_ = await store.find(TASK, number)
            assert round_ is not None
            if round_.state is RoundState.EXPIRED:  # erased, and not told
                continue
            arrived: list[bytes] = []

            def work(inners: RoundContents, into: list[bytes] = arrived) -> None:
                into.clear()
                into.extend(inners.arrived())

            if store._keyring.of((TASK, number)).cipher is None:
                # Erasing had begun, and is gone on with.
                continue
            await store.mix(await store.cut(round_, "schedule", 0), work)
            content = b"".join(arrived)
            assert {content[at : at + 8] for at in range(0, len(content), 8)} == self.held[number]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(6))
async def test_in_generated_schedules_whoever_takes_over_has_everything(
    parties: tuple[Party, Party], seed: int
) -> None:
    await Schedule(seed, parties).run(5)
