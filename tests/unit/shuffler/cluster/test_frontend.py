"""Replicas: what the keeper tells them, what they hold and for how long, and what they do while no keeper answers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import RoundState, Step
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import KeeperCaller
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.service.errors import StoreError
from hubbub.service.net.grpc_server import listen, new_server
from hubbub.service.observability.incidents import Troubles
from hubbub.service.postgres.sessions import Connection, lock
from hubbub.service.rpc import serve_keeper, serve_standbys
from hubbub.shuffler.cluster.failover import KEEPERS, REPLICAS, StandingBy
from hubbub.shuffler.keys import RoundKeys
from hubbub.shuffler.mix.mix import Inners
from hubbub.shuffler.records import Held, Opened, Round, Spent
from hubbub.shuffler.stores.factory import sharing_of
from hubbub.shuffler.stores.postgres import PostgresStore
from hubbub.shuffler.stores.postgres.inserts import ROUND_LOCK
from hubbub.shuffler.stores.postgres.replication import frontend_store as replicas
from hubbub.shuffler.stores.postgres.replication.frontend_store import (
    FRESH_SECONDS,
    LATE_SECONDS,
    OUTDATED_SECONDS,
    ReplicaSessions,
    ReplicaStore,
)
from hubbub.shuffler.stores.postgres.replication.leader_client import Asking
from hubbub.shuffler.stores.postgres.schema import SCHEMA
from support import postgres
from support.samples import make_tls

TASK = bytes(range(32))
CUT = 1_800_000_000.0
DOCUMENT = SignedDocument(b"{}", bytes(64))


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Setting:
    """A keeper's store, its port, and a replica of it whose clocks stand still."""

    store: PostgresStore
    port: int
    tls: dict[str, TLS]
    address: str
    troubles: Troubles
    wall: Clock
    monotonic: Clock

    def replica(self, *addresses: str) -> ReplicaStore:
        """Make a replica."""
        keeper = Asking(addresses or (f"127.0.0.1:{self.port}",), self.tls["replica"], lambda: 0, self.troubles)
        sessions = ReplicaSessions(self.address, SCHEMA.name)
        return ReplicaStore(sessions, keeper, lambda _: CUT, self.wall, self.monotonic)

    async def round(self) -> Round:
        """Begin a round, with keys."""
        keys = RoundKeys(os.urandom(32), KeySet(DOCUMENT, DOCUMENT), os.urandom(32))
        return await self.store.install(await self.store.add_round(TASK, 0), keys)

    async def later(self, seconds: float = FRESH_SECONDS) -> None:
        """Let time pass for replicas."""
        self.monotonic.now += seconds


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[Setting]:
    store = postgres.store_in(tmp_path / "data")
    address = (tmp_path / "data" / postgres.ADDRESS_FILE).read_text()
    tls = make_tls(tmp_path / "tls", "shuffler", "replica", "operator")
    server = new_server()
    serve_keeper(server, store.sharing, REPLICAS)
    port = listen(server, "127.0.0.1:0", tls["shuffler"].server(mutual=True))
    await server.start()
    with contextlib.closing(store):
        yield Setting(store, port, tls, address, Troubles(), Clock(), Clock())
        await server.stop(None)


@contextlib.asynccontextmanager
async def closing(replica: ReplicaStore) -> AsyncIterator[ReplicaStore]:
    try:
        yield replica
    finally:
        replica.close()
        await replica._keeper.close()


async def test_only_replicas_are_told_secrets(keeper: Setting) -> None:
    await keeper.round()
    for name in ("operator", "shuffler"):
        async with open_channel(f"127.0.0.1:{keeper.port}", keeper.tls[name]) as channel:
            caller = KeeperCaller(channel)
            for call in (
                caller.get_secrets(TASK, 0, 10.0),
                caller.get_admitted(b"", 10.0),
                caller.spend([Spent(bytes(16), bytes(32), bytes(16), 2**33)], 10.0),
            ):
                with pytest.raises(Refusal, match="this port answers replica only"):
                    await call


async def test_a_replica_forgets_what_it_needs_no_more(keeper: Setting) -> None:
    round_ = await keeper.round()
    assert round_.keys is not None
    one = Opened(os.urandom(16), os.urandom(16), b"inner")
    async with closing(keeper.replica()) as replica:
        found = await replica.find(TASK, 0)
        assert found is not None
        assert found.keys == round_.keys
        assert await replica.hold(found, [one]) == [Held.NEW]
        key = replica._secreted.of((TASK, 0)).cipher
        assert key is not None
        assert len(key.shared()) == 128
        cut = await keeper.store.cut(round_, "schedule", 0)
        # What was read is used for a while: whether something is held is the database's to say.
        assert await replica.find(TASK, 0) is found
        assert await replica.hold(found, [Opened(os.urandom(16), bytes(16), b"late")]) == [Held.CUT]
        await keeper.later()
        await replica.look()
        secrets = replica._secreted.of((TASK, 0))
        assert secrets.private_key == b""
        assert secrets.cipher is not None
        assert len(secrets.cipher.shared()) == 96
        # A retry is told by the rest, at any replica.
        found = await replica.find(TASK, 0)
        assert found is not None
        assert found.state is RoundState.CUT
        assert await replica.known(found, [one.id, os.urandom(16)]) == [one.digest, None]
        assert await replica.hold(found, [one]) == [Held.SAME]
        async with closing(keeper.replica()) as other:
            late = await other.find(TASK, 0)
            assert late is not None
            assert await other.known(late, [one.id]) == [one.digest]
            told = other._secreted.of((TASK, 0))
            assert (told.private_key, told.cipher and len(told.cipher.shared())) == (b"", 96)

        def work(inners: Inners) -> None:
            inners.put_released(0, 0, b"".join(inners.arrived()))

        mixed = await keeper.store.mix(cut, work)
        await keeper.store.erase(mixed, RoundState.ERASED)
        await keeper.later()
        await replica.look()
        assert replica._secreted.held == []
        assert await replica.known(mixed, [one.id]) == [None]
        with pytest.raises(Refusal) as refused:
            await keeper.store.sharing.get_secrets(TASK, 0)
        assert refused.value.reason is Reason.ERASED


async def test_secrets_of_a_round_that_cannot_be_looked_at_are_forgotten_some_time_after_its_cut(
    keeper: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keeper.round()
    async with closing(keeper.replica()) as replica:
        await replica.find(TASK, 0)

        async def away(_key: object) -> None:
            raise StoreError("the database is away")

        monkeypatch.setattr(replica, "_looked_at", away)
        for seconds, held in ((0.0, [(TASK, 0)]), (LATE_SECONDS, [(TASK, 0)]), (LATE_SECONDS + 1, [])):
            keeper.wall.now = CUT + seconds
            await replica.look()
            assert replica._secreted.held == held


async def test_a_round_whose_secrets_are_not_to_be_had_is_not_ready_until_the_keeper_answers(keeper: Setting) -> None:
    round_ = await keeper.round()
    async with closing(keeper.replica("127.0.0.1:1")) as replica:
        for _ in range(2):
            with pytest.raises(Refusal) as refused:
                await replica.find(TASK, 0)
            assert refused.value.reason is Reason.NOT_READY
        with pytest.raises(StoreError, match=r"none of the keepers answers: 127\.0\.0\.1:1"):
            await replica.learn()
        with pytest.raises(StoreError, match="none of the keepers answers"):
            await replica.spend([Spent(bytes(16), bytes(32), bytes(16), 2**33)])
        (trouble,) = keeper.troubles.now()
        assert (trouble.kind, trouble.text[:30]) == ("peer", "none of the keepers answers: 1")
        replica._keeper._addresses.append(f"127.0.0.1:{keeper.port}")
        await keeper.later()
        found = await replica.find(TASK, 0)
        assert found is not None
        assert found.keys == round_.keys
        assert keeper.troubles.now() == ()


async def test_one_that_stands_by_is_followed_by_the_next_address(keeper: Setting) -> None:
    standby = new_server()
    serve_standbys(standby, StandingBy(Troubles()), KEEPERS)
    first = listen(standby, "127.0.0.1:0", keeper.tls["shuffler"].server(mutual=True))
    await standby.start()
    async with closing(keeper.replica(f"127.0.0.1:{first}", f"127.0.0.1:{keeper.port}")) as replica:
        assert await replica.learn()
        assert replica._keeper._addresses[0] == f"127.0.0.1:{keeper.port}"
    await standby.stop(None)


async def test_who_is_admitted_is_told_once_and_again_when_it_changes(keeper: Setting) -> None:
    await keeper.store.step_masters(Step.STATUS, bytes(32), 1)
    async with closing(keeper.replica()) as replica:
        assert replica.outdated
        assert await replica.learn()
        assert not await replica.learn()
        assert not replica.outdated
        assert await replica.masters() == await keeper.store.masters()
        device = os.urandom(16)
        ticket = Spent(device, bytes(32), os.urandom(16), 2**33)
        assert await replica.spend([ticket]) == [ticket]
        # Another secret: who came first has the place.
        assert await replica.spend([Spent(device, bytes([1]) * 32, os.urandom(16), 2**33)]) == [ticket]
        await keeper.store.revoke([device])
        assert await replica.learn()
        revoked = await replica.revoked()
        assert (revoked.devices, revoked.numbers) == ({device}, {ticket.number})
        await keeper.later(OUTDATED_SECONDS + 1)
        assert replica.outdated


async def test_a_round_that_was_not_begun_or_has_no_keys_is_looked_for_again(keeper: Setting) -> None:
    async with closing(keeper.replica()) as replica:
        assert await replica.find(TASK, 0) is None
        await keeper.store.add_round(TASK, 0)
        with pytest.raises(Refusal) as refused:
            await keeper.store.sharing.get_secrets(TASK, 0)
        assert refused.value.reason is Reason.NOT_READY
        await keeper.later()
        found = await replica.find(TASK, 0)
        assert found is not None
        assert found.keys is None
        await keeper.round()
        await keeper.later()
        found = await replica.find(TASK, 0)
        assert found is not None
        assert found.keys is not None


async def test_replicas_are_told_why_a_keeper_cannot_and_it_is_no_failed_call(
    keeper: Setting, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lacking(*_: object) -> None:
        raise StoreError("0 of the 1 standbys have the keyring's last change")

    for call in ("spend", "find", "masters"):
        monkeypatch.setattr(keeper.store, call, lacking)
    async with closing(keeper.replica()) as replica:
        with pytest.raises(StoreError, match="0 of the 1 standbys have"):
            await replica.spend([Spent(bytes(16), bytes(32), bytes(16), 2**33)])
        for call in (keeper.store.sharing.get_secrets(TASK, 0), keeper.store.sharing.get_admitted(b"")):
            with pytest.raises(Refusal, match="standbys") as refused:
                await call
            assert refused.value.reason is Reason.OVERLOADED
    assert "a call failed" not in caplog.text


async def test_a_round_whose_key_is_damaged_is_told_to_nobody(keeper: Setting) -> None:
    round_ = await keeper.round()
    assert sharing_of(keeper.store, {round_.key}) is keeper.store.sharing
    async with closing(keeper.replica()) as replica:
        with pytest.raises(Refusal) as refused:
            await replica.find(TASK, 0)
        assert refused.value.reason is Reason.NOT_READY


async def test_nobody_is_told_that_it_came_too_late_by_one_that_cannot_know_who_came_before(keeper: Setting) -> None:
    round_ = await keeper.round()
    one = Opened(os.urandom(16), os.urandom(16), b"inner")
    await keeper.store.hold(round_, [one])
    await keeper.store.cut(round_, "schedule", 0)
    async with closing(keeper.replica("127.0.0.1:1")) as replica:
        with pytest.raises(Refusal) as refused:
            await replica.find(TASK, 0)
        assert refused.value.reason is Reason.NOT_READY
        replica._keeper._addresses.append(f"127.0.0.1:{keeper.port}")
        await keeper.later()
        found = await replica.find(TASK, 0)
        assert found is not None
        assert found.state is RoundState.CUT
        assert await replica.known(found, [one.id]) == [one.digest]


async def test_a_round_that_is_cut_before_its_secrets_are_told_opens_nothing_and_refuses_nothing_for_good(
    keeper: Setting,
) -> None:
    round_ = await keeper.round()
    async with closing(keeper.replica()) as replica:
        ask = replica._keeper.ask

        async def cut_first(call: object) -> object:
            await keeper.store.cut(round_, "schedule", 0)
            return await ask(call)  # type: ignore[arg-type]

        replica._keeper.ask = cut_first  # type: ignore[method-assign,assignment]
        with pytest.raises(Refusal) as refused:
            await replica.find(TASK, 0)
        assert refused.value.reason is Reason.NOT_READY
        await keeper.later()
        found = await replica.find(TASK, 0)
        assert found is not None
        assert found.state is RoundState.CUT


async def test_a_call_that_is_in_work_when_tls_files_are_renewed_is_answered(keeper: Setting) -> None:
    renewals = [0]
    asking = Asking([f"127.0.0.1:{keeper.port}"], keeper.tls["replica"], lambda: renewals[0], keeper.troubles)
    come, go_on = asyncio.Event(), asyncio.Event()
    sharing = keeper.store.sharing
    answer = sharing.get_admitted

    async def slow(version: bytes) -> object:
        come.set()
        await go_on.wait()
        return await answer(version)

    sharing.get_admitted = slow  # type: ignore[method-assign,assignment]
    first = asyncio.create_task(asking.ask(lambda caller, deadline: caller.get_admitted(b"", deadline)))
    await come.wait()
    renewals[0] += 1
    # Over a channel with the new files.
    second = asyncio.create_task(asking.ask(lambda caller, deadline: caller.get_admitted(b"", deadline)))
    await asyncio.sleep(0)
    go_on.set()
    assert await first == await second is not None
    await asking.close()


async def test_an_address_that_does_not_answer_replicas_is_followed_by_the_next(keeper: Setting) -> None:
    asking = Asking([f"127.0.0.1:{keeper.port}"], keeper.tls["operator"], lambda: 0, keeper.troubles)
    with pytest.raises(StoreError, match="this port answers replica only"):
        await asking.ask(lambda caller, deadline: caller.get_admitted(b"", deadline))
    await asking.close()


async def test_a_replica_that_is_stopped_in_the_middle_of_holding_does_not_hold_up_the_cut(
    keeper: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "IDLE_SECONDS", 1)
    round_ = await keeper.round()
    async with closing(keeper.replica()) as replica:
        held = threading.Event()

        def stand(connection: Connection) -> None:
            lock(connection, ROUND_LOCK, str(round_.key), shared=True)
            held.set()
            # As a process that is stopped: nothing more is said until the server has ended it.
            select.select([connection.fileno()], [], [])

        standing = asyncio.ensure_future(asyncio.to_thread(replica._sessions.change, stand))
        await asyncio.to_thread(held.wait)
        cut = await keeper.store.cut(round_, "schedule", 0)
        assert cut.state is RoundState.CUT
        with pytest.raises(StoreError):
            await standing
