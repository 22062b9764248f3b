"""What the leader tells them, what they hold and for how long, and what they do while no leader answers."""

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
from hubbub.protos.messages import CredentialAction, RoundState
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import LeaderCaller
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import Incidents
from hubbub.service.postgres.sessions import Connection, lock
from hubbub.service.rpc import serve_leader, serve_replication
from hubbub.service.transport.grpc_server import listen
from hubbub.shuffler.admit.checks.capacity import unavailable
from hubbub.shuffler.admit.credentials import Credentials
from hubbub.shuffler.cluster.failover import FRONTENDS, LEADERS, StandbyHandler
from hubbub.shuffler.keys import RoundKeyMaterial
from hubbub.shuffler.mix.mix import RoundContents
from hubbub.shuffler.records import InsertOutcome, Opened, RedeemedTicket, Round
from hubbub.shuffler.stores.factory import secret_server_of
from hubbub.shuffler.stores.postgres import ShufflerPostgresStore
from hubbub.shuffler.stores.postgres.inserts import ROUND_LOCK
from hubbub.shuffler.stores.postgres.replication import frontend_store as frontends
from hubbub.shuffler.stores.postgres.replication.frontend_store import (
    FRESH_SECONDS,
    LATE_SECONDS,
    OUTDATED_SECONDS,
    FrontendSessions,
    FrontendStore,
)
from hubbub.shuffler.stores.postgres.replication.leader_client import LeaderClient
from hubbub.shuffler.stores.postgres.replication.replication import StandbysAwayError
from hubbub.shuffler.stores.postgres.schema import SCHEMA
from support import postgres
from support.ended_with_test import opened_server
from support.messages import NEEDS_ROLE, OTHER_ROLE
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
    """A leader's store, its port, and a front end of it whose clocks stand still."""

    store: ShufflerPostgresStore
    port: int
    tls: dict[str, TLS]
    address: str
    incidents: Incidents
    wall: Clock
    monotonic: Clock

    def frontend(self, *addresses: str) -> FrontendStore:
        """Make a front end."""
        leader = LeaderClient(addresses or (f"127.0.0.1:{self.port}",), self.tls["frontend"], lambda: 0, self.incidents)
        sessions = FrontendSessions(self.address, SCHEMA.name)
        return FrontendStore(sessions, leader, lambda _: CUT, self.wall, self.monotonic)

    async def round(self) -> Round:
        """Begin a round, with keys."""
        keys = RoundKeyMaterial(os.urandom(32), KeySet(DOCUMENT, DOCUMENT), os.urandom(32))
        return await self.store.install(await self.store.add_round(TASK, 0), keys)

    async def later(self, seconds: float = FRESH_SECONDS) -> None:
        """Let time pass for front ends."""
        self.monotonic.now += seconds


@pytest.fixture
async def leader(tmp_path: Path) -> AsyncIterator[Setting]:
    store = postgres.store_in(tmp_path / "data")
    address = (tmp_path / "data" / postgres.ADDRESS_FILE).read_text()
    tls = make_tls(tmp_path / "tls", "shuffler", "frontend", "operator")
    with contextlib.closing(store):
        async with opened_server() as server:
            serve_leader(server, store.secret_server, FRONTENDS)
            port = listen(server, "127.0.0.1:0", tls["shuffler"].server(mutual=True))
            await server.start()
            yield Setting(store, port, tls, address, Incidents(), Clock(), Clock())


@contextlib.asynccontextmanager
async def closing(frontend: FrontendStore) -> AsyncIterator[FrontendStore]:
    try:
        yield frontend
    finally:
        frontend.close()
        await frontend._leader.close()


async def test_only_frontends_are_told_secrets(leader: Setting) -> None:
    await leader.round()
    for name in ("operator", "shuffler"):
        async with open_channel(f"127.0.0.1:{leader.port}", leader.tls[name]) as channel:
            caller = LeaderCaller(channel)
            for call in (
                caller.get_secrets(TASK, 0, 10.0),
                caller.get_admitted(b"", 10.0),
                caller.redeem([RedeemedTicket(bytes(16), bytes(32), bytes(16), 2**33)], 10.0),
            ):
                with pytest.raises(Refusal, match=f"{NEEDS_ROLE} frontend, {OTHER_ROLE}"):
                    await call


async def test_a_frontend_forgets_what_it_needs_no_more(leader: Setting) -> None:
    round_ = await leader.round()
    assert round_.keys is not None
    one = Opened(os.urandom(16), os.urandom(16), b"inner")
    async with closing(leader.frontend()) as frontend:
        found = await frontend.find(TASK, 0)
        assert found is not None
        assert found.keys == round_.keys
        assert await frontend.insert(found, [one]) == [InsertOutcome.STORED]
        key = frontend._secret_cache.of((TASK, 0)).cipher
        assert key is not None
        assert len(key.shared()) == 128
        cut = await leader.store.cut(round_, "schedule", 0)
        # What was read is used for a while: whether something is held is the database's to say.
        assert await frontend.find(TASK, 0) is found
        assert await frontend.insert(found, [Opened(os.urandom(16), bytes(16), b"late")]) == [InsertOutcome.CUT]
        await leader.later()
        await frontend.look()
        secrets = frontend._secret_cache.of((TASK, 0))
        assert secrets.private_key == b""
        assert secrets.cipher is not None
        assert len(secrets.cipher.shared()) == 96
        # A retry is told by the rest, at any front end.
        found = await frontend.find(TASK, 0)
        assert found is not None
        assert found.state is RoundState.CUT
        assert await frontend.known(found, [one.id, os.urandom(16)]) == [one.digest, None]
        assert await frontend.insert(found, [one]) == [InsertOutcome.DUPLICATE]
        async with closing(leader.frontend()) as other:
            late = await other.find(TASK, 0)
            assert late is not None
            assert await other.known(late, [one.id]) == [one.digest]
            told = other._secret_cache.of((TASK, 0))
            assert (told.private_key, told.cipher and len(told.cipher.shared())) == (b"", 96)

        def work(inners: RoundContents) -> None:
            inners.put_released(0, 0, b"".join(inners.arrived()))

        mixed = await leader.store.mix(cut, work)
        await leader.store.erase(mixed, RoundState.ERASED)
        await leader.later()
        await frontend.look()
        assert frontend._secret_cache.held == []
        assert await frontend.known(mixed, [one.id]) == [None]
        with pytest.raises(Refusal) as refused:
            await leader.store.secret_server.get_secrets(TASK, 0)
        assert refused.value.reason is Reason.ERASED


async def test_secrets_of_a_round_that_cannot_be_looked_at_are_forgotten_some_time_after_its_cut(
    leader: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await leader.round()
    async with closing(leader.frontend()) as frontend:
        await frontend.find(TASK, 0)

        async def away(_key: object) -> None:
            raise StoreError("the database is away")

        monkeypatch.setattr(frontend, "_looked_at", away)
        for seconds, held in ((0.0, [(TASK, 0)]), (LATE_SECONDS, [(TASK, 0)]), (LATE_SECONDS + 1, [])):
            leader.wall.now = CUT + seconds
            await frontend.look()
            assert frontend._secret_cache.held == held


async def test_a_round_whose_secrets_are_not_to_be_had_is_not_ready_until_the_leader_answers(leader: Setting) -> None:
    round_ = await leader.round()
    async with closing(leader.frontend("127.0.0.1:1")) as frontend:
        for _ in range(2):
            with pytest.raises(Refusal) as refused:
                await frontend.find(TASK, 0)
            assert refused.value.reason is Reason.NOT_READY
        with pytest.raises(StoreError, match=r"none of the leaders answers: 127\.0\.0\.1:1"):
            await frontend.learn()
        with pytest.raises(StoreError, match="none of the leaders answers"):
            await frontend.redeem([RedeemedTicket(bytes(16), bytes(32), bytes(16), 2**33)])
        (incident,) = leader.incidents.now()
        assert (incident.kind, incident.text[:30]) == ("tickets", "none of the leaders answers: 1")
        frontend._leader._addresses.append(f"127.0.0.1:{leader.port}")
        await leader.later()
        found = await frontend.find(TASK, 0)
        assert found is not None
        assert found.keys == round_.keys
        assert leader.incidents.now() == ()


async def test_one_that_stands_by_is_followed_by_the_next_address(leader: Setting) -> None:
    async with opened_server() as standby:
        serve_replication(standby, StandbyHandler(Incidents()), LEADERS)
        first = listen(standby, "127.0.0.1:0", leader.tls["shuffler"].server(mutual=True))
        await standby.start()
        async with closing(leader.frontend(f"127.0.0.1:{first}", f"127.0.0.1:{leader.port}")) as frontend:
            assert await frontend.learn()
            assert frontend._leader._addresses[0] == f"127.0.0.1:{leader.port}"


async def test_the_signed_oblivious_key_is_told_with_who_is_admitted(leader: Setting) -> None:
    await leader.store.step_masters(CredentialAction.STATUS, bytes(32), 1)
    source, server = Credentials(), leader.store.secret_server
    assert secret_server_of(leader.store, frozenset(), source) is server
    async with closing(leader.frontend()) as frontend:
        for records in (b"", b"signed today", b"signed tomorrow"):
            source.oblivious_records = records
            assert await frontend.learn()
            assert not await frontend.learn()
            assert frontend.oblivious_records == records


async def test_who_is_admitted_is_told_once_and_again_when_it_changes(leader: Setting) -> None:
    await leader.store.step_masters(CredentialAction.STATUS, bytes(32), 1)
    async with closing(leader.frontend()) as frontend:
        assert frontend.outdated
        assert await frontend.learn()
        assert not await frontend.learn()
        assert not frontend.outdated
        assert await frontend.masters() == await leader.store.masters()
        device = os.urandom(16)
        ticket = RedeemedTicket(device, bytes(32), os.urandom(16), 2**33)
        assert await frontend.redeem([ticket]) == [ticket]
        # Another secret: who came first is that device.
        assert await frontend.redeem([RedeemedTicket(device, bytes([1]) * 32, os.urandom(16), 2**33)]) == [ticket]
        await leader.store.revoke([device])
        assert await frontend.learn()
        revoked = await frontend.revoked()
        assert (revoked.devices, revoked.numbers) == ({device}, {ticket.number})
        await leader.later(OUTDATED_SECONDS + 1)
        assert frontend.outdated


async def test_a_round_that_was_not_begun_or_has_no_keys_is_looked_for_again(leader: Setting) -> None:
    async with closing(leader.frontend()) as frontend:
        assert await frontend.find(TASK, 0) is None
        await leader.store.add_round(TASK, 0)
        with pytest.raises(Refusal) as refused:
            await leader.store.secret_server.get_secrets(TASK, 0)
        assert refused.value.reason is Reason.NOT_READY
        await leader.later()
        found = await frontend.find(TASK, 0)
        assert found is not None
        assert found.keys is None
        await leader.round()
        await leader.later()
        found = await frontend.find(TASK, 0)
        assert found is not None
        assert found.keys is not None


async def test_frontends_are_told_why_a_leader_cannot_and_it_is_no_failed_call(
    leader: Setting, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lacking(*_: object) -> None:
        raise StandbysAwayError("0 of the 1 standbys have the keyring's last change")

    for call in ("redeem", "find", "masters"):
        monkeypatch.setattr(leader.store, call, lacking)
    async with closing(leader.frontend()) as frontend:
        with pytest.raises(StoreError, match="0 of the 1 standbys have") as lacks:
            await frontend.redeem([RedeemedTicket(bytes(16), bytes(32), bytes(16), 2**33)])
        # A device is told what it would be told by the leader itself.
        assert unavailable(lacks.value).message == unavailable(StandbysAwayError("")).message
        (incident,) = leader.incidents.now()
        assert (incident.kind, "standbys have" in incident.text) == ("tickets", True)
        for call in (leader.store.secret_server.get_secrets(TASK, 0), leader.store.secret_server.get_admitted(b"")):
            with pytest.raises(Refusal, match="standbys") as refused:
                await call
            assert refused.value.reason is Reason.NOT_READY
        monkeypatch.undo()
        # No device brings a ticket: the front end's own look sees that tickets are redeemed again.
        await frontend.learn()
        assert leader.incidents.now() == ()
    assert "a call failed" not in caplog.text


async def test_a_round_whose_key_is_damaged_is_told_to_nobody(leader: Setting) -> None:
    round_ = await leader.round()
    assert secret_server_of(leader.store, {round_.key}, Credentials()) is leader.store.secret_server
    async with closing(leader.frontend()) as frontend:
        with pytest.raises(Refusal) as refused:
            await frontend.find(TASK, 0)
        assert refused.value.reason is Reason.NOT_READY


async def test_nobody_is_told_that_it_came_too_late_by_one_that_cannot_know_who_came_before(leader: Setting) -> None:
    round_ = await leader.round()
    one = Opened(os.urandom(16), os.urandom(16), b"inner")
    await leader.store.insert(round_, [one])
    await leader.store.cut(round_, "schedule", 0)
    async with closing(leader.frontend("127.0.0.1:1")) as frontend:
        with pytest.raises(Refusal) as refused:
            await frontend.find(TASK, 0)
        assert refused.value.reason is Reason.NOT_READY
        frontend._leader._addresses.append(f"127.0.0.1:{leader.port}")
        await leader.later()
        found = await frontend.find(TASK, 0)
        assert found is not None
        assert found.state is RoundState.CUT
        assert await frontend.known(found, [one.id]) == [one.digest]


async def test_a_round_that_is_cut_before_its_secrets_are_told_opens_nothing_and_refuses_nothing_for_good(
    leader: Setting,
) -> None:
    round_ = await leader.round()
    async with closing(leader.frontend()) as frontend:
        ask = frontend._leader.ask

        async def cut_first(call: object) -> object:
            await leader.store.cut(round_, "schedule", 0)
            return await ask(call)  # type: ignore[arg-type]

        frontend._leader.ask = cut_first  # type: ignore[method-assign,assignment]
        with pytest.raises(Refusal) as refused:
            await frontend.find(TASK, 0)
        assert refused.value.reason is Reason.NOT_READY
        await leader.later()
        found = await frontend.find(TASK, 0)
        assert found is not None
        assert found.state is RoundState.CUT


async def test_a_call_that_is_in_work_when_tls_files_are_renewed_is_answered(leader: Setting) -> None:
    renewals = [0]
    leader_client = LeaderClient(
        [f"127.0.0.1:{leader.port}"], leader.tls["frontend"], lambda: renewals[0], leader.incidents
    )
    come, go_on = asyncio.Event(), asyncio.Event()
    secret_server = leader.store.secret_server
    answer = secret_server.get_admitted

    async def slow(version: bytes) -> object:
        come.set()
        await go_on.wait()
        return await answer(version)

    secret_server.get_admitted = slow  # type: ignore[method-assign,assignment]
    first = asyncio.create_task(leader_client.ask(lambda caller, deadline: caller.get_admitted(b"", deadline)))
    await come.wait()
    renewals[0] += 1
    # Over a channel with the new files.
    second = asyncio.create_task(leader_client.ask(lambda caller, deadline: caller.get_admitted(b"", deadline)))
    await asyncio.sleep(0)
    go_on.set()
    assert await first == await second is not None
    await leader_client.close()


async def test_an_address_that_does_not_answer_frontends_is_followed_by_the_next(leader: Setting) -> None:
    leader_client = LeaderClient([f"127.0.0.1:{leader.port}"], leader.tls["operator"], lambda: 0, leader.incidents)
    with pytest.raises(StoreError, match=f"{NEEDS_ROLE} frontend, {OTHER_ROLE}"):
        await leader_client.ask(lambda caller, deadline: caller.get_admitted(b"", deadline))
    await leader_client.close()


async def test_a_frontend_that_is_stopped_in_the_middle_of_holding_does_not_hold_up_the_cut(
    leader: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontends, "IDLE_SECONDS", 1)
    round_ = await leader.round()
    async with closing(leader.frontend()) as frontend:
        held = threading.Event()

        def stand(connection: Connection) -> None:
            lock(connection, ROUND_LOCK, str(round_.key), shared=True)
            held.set()
            # As a process that is stopped: nothing more is said until the server has ended it.
            select.select([connection.fileno()], [], [])

        standing = asyncio.ensure_future(asyncio.to_thread(frontend._sessions.change, stand))
        await asyncio.to_thread(held.wait)
        cut = await leader.store.cut(round_, "schedule", 0)
        assert cut.state is RoundState.CUT
        with pytest.raises(StoreError):
            await standing
