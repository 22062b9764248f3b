"""Several stores that hold at once, what the server's files show, and what a store refuses to open."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import psycopg
import pytest

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import RoundState
from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.postgres import sessions
from hubbub.service.postgres.schema import Schema, bring_forward
from hubbub.service.settings import SettingsError
from hubbub.shuffler.keys import RoundKeyMaterial
from hubbub.shuffler.mix.mix import RoundContents
from hubbub.shuffler.records import InsertOutcome, Opened
from hubbub.shuffler.settings import load
from hubbub.shuffler.stores.postgres import ShufflerPostgresStore, inserts
from hubbub.shuffler.stores.postgres.inserts import NearlyFullError, PendingInsert
from hubbub.shuffler.stores.postgres.keyring import ShufflerKeyring
from hubbub.shuffler.stores.postgres.open_store import create_first, open_as_leader
from hubbub.shuffler.stores.postgres.schema import SCHEMA
from hubbub.shuffler.stores.postgres.sealing import RoundCipher
from support import postgres
from support.messages import LAYOUT_THAT_IS_KNOWN, NOT_WHAT_WAS_STORED

TASK = bytes(range(32))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@contextlib.contextmanager
def two_on_one_database(folder: Path) -> Iterator[tuple[ShufflerPostgresStore, ShufflerPostgresStore]]:
    ShufflerKeyring.create(folder)
    address = postgres.new_database()
    keyring = ShufflerKeyring(folder)
    with (
        contextlib.closing(ShufflerPostgresStore(keyring, address)) as one,
        contextlib.closing(ShufflerPostgresStore(keyring, address, keeps=False)) as other,
    ):
        yield one, other


async def test_two_stores_that_hold_the_same_ids_at_once_hold_each_once(folder: Path) -> None:
    ids = [os.urandom(16) for _ in range(300)]
    with two_on_one_database(folder) as stores:
        round_ = await stores[0].add_round(TASK, 0)
        # The second with its ids the other way round, and other bytes under each.
        calls = [
            stores[each].insert(round_, [Opened(id_, bytes([each]) * 16, bytes(8)) for id_ in part], most=10_000)
            for start in range(0, 300, 20)
            for each, part in ((0, ids[start : start + 20]), (1, ids[::-1][start : start + 20]))
        ]
        found = [outcome for outcomes in await asyncio.gather(*calls) for outcome in outcomes]
        assert (found.count(InsertOutcome.STORED), found.count(InsertOutcome.CONFLICT)) == (300, 300)
        cut = await stores[1].cut(round_, "schedule", 0)
        assert cut.submissions == await stores[0].submissions(round_) == 300
        arrived: list[bytes] = []
        await stores[0].mix(cut, lambda inners: arrived.extend(inners.arrived()))
        assert sum(map(len, arrived)) == 300 * 8


async def test_two_stores_together_hold_no_more_than_the_most_and_nothing_after_the_cut(folder: Path) -> None:
    with two_on_one_database(folder) as stores:
        round_ = await stores[0].add_round(TASK, 0)
        calls = [
            asyncio.ensure_future(store.insert(round_, [Opened(os.urandom(16), bytes(16), b"x")], most=50))
            for _ in range(60)
            for store in stores
        ]
        found = [outcome for outcomes in await asyncio.gather(*calls) for outcome in outcomes]
        assert (found.count(InsertOutcome.STORED), found.count(InsertOutcome.FULL)) == (50, 70)
        more = await stores[0].add_round(TASK, 1)
        calls = [
            asyncio.ensure_future(store.insert(more, [Opened(os.urandom(16), bytes(16), b"x")]))
            for _ in range(40)
            for store in stores
        ]
        cut = await stores[0].cut(more, "schedule", 0)
        found = [outcome for outcomes in await asyncio.gather(*calls) for outcome in outcomes]
        assert cut.submissions == found.count(InsertOutcome.STORED) == await stores[1].submissions(more)


async def test_who_finds_a_round_full_only_when_the_other_committed_takes_all_back(folder: Path) -> None:
    with two_on_one_database(folder) as stores, contextlib.ExitStack() as open_:
        keyring, address = stores[0]._keyring, stores[0]._sessions.address
        round_ = await stores[0].add_round(TASK, 0)
        one, other, watch = (open_.enter_context(psycopg.connect(address, autocommit=True)) for _ in range(3))
        for connection in (one, other):
            connection.execute(f"SET search_path = {SCHEMA.name}")
            connection.execute("BEGIN")
        calls = [
            [PendingInsert(round_, [Opened(os.urandom(16), bytes(16), b"x") for _ in range(10)], most=15)] for _ in "ab"
        ]
        assert inserts.insert(one, keyring, calls[0]) == [[InsertOutcome.STORED] * 10]
        second = asyncio.ensure_future(asyncio.to_thread(inserts.insert, other, keyring, calls[1]))
        waits = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"
        pid = (other.info.backend_pid,)
        while await asyncio.to_thread(lambda: watch.execute(waits, pid).fetchone()) != (True,):
            pass
        one.execute("COMMIT")
        with pytest.raises(NearlyFullError):
            await second
        other.execute("ROLLBACK")
        assert await stores[0].submissions(round_) == 10
        found = await stores[1].insert(round_, calls[1][0].submissions, most=15)
        assert (found.count(InsertOutcome.STORED), found.count(InsertOutcome.FULL)) == (5, 5)


async def test_nothing_that_must_be_erased_is_ever_in_the_clear_in_the_server_s_files(folder: Path) -> None:
    began = time.time()
    opened = [Opened(os.urandom(16), os.urandom(16), os.urandom(48)) for _ in range(20)]
    store = postgres.store_in(folder)
    round_ = await store.add_round(TASK, 0)
    key_set = KeySet(SignedDocument(b"{}", bytes(64)), SignedDocument(b"{}", bytes(64)))
    private, pseudonym_key = os.urandom(32), os.urandom(32)
    round_ = await store.install(round_, RoundKeyMaterial(private, key_set, pseudonym_key))
    await store.insert(round_, opened)
    keys = postgres.secrets_in(folder)
    assert len(keys) == 3
    assert {private, pseudonym_key} <= set(keys)

    def work(inners: RoundContents) -> None:
        inners.put_released(0, 0, b"".join(inners.arrived()))

    mixed = await store.mix(await store.cut(round_, "schedule", 0), work)
    assert await store.envelopes(mixed, 0, 0, 48) == [each.inners for each in opened]
    erased = await store.erase(mixed, RoundState.ERASED)
    assert erased.state is RoundState.ERASED
    store.close()
    secrets = [part for each in opened for part in (each.id, each.digest, each.inners[:16])]
    known = False
    for content in postgres.kept_in_files(began):
        assert [secret for secret in (*secrets, *keys) if secret in content] == []
        known |= TASK in content
    assert known, "what is no secret is searched for as it would be found"


def test_a_block_opens_in_its_own_place_alone() -> None:
    cipher, other = (RoundCipher.of_secret(bytes(32), TASK, number) for number in (0, 1))
    sealed = cipher.seal_released(0, 1, b"envelopes")
    assert cipher.open_released(0, 1, sealed) == b"envelopes"
    for wrong in (
        lambda: other.open_released(0, 1, sealed),
        lambda: cipher.open_released(1, 1, sealed),
        lambda: cipher.open_released(0, 0, sealed),
        lambda: cipher.open_arrived(bytes(16), sealed),
        lambda: cipher.open_released(0, 1, sealed[:-1]),
        lambda: cipher.open_released(0, 1, b""),
    ):
        with pytest.raises(StoreError, match=f"{NOT_WHAT_WAS_STORED} there"):
            wrong()


async def test_a_database_opens_with_its_own_keyring_alone(folder: Path, tmp_path: Path) -> None:
    postgres.store_in(folder).close()
    address = (folder / postgres.ADDRESS_FILE).read_text()
    ShufflerKeyring.create(tmp_path / "new")
    with pytest.raises(StoreError, match="is new, and has nothing of the leader's yet"):
        open_as_leader(tmp_path / "new", address)
    with contextlib.closing(postgres.store_in(tmp_path / "other")) as other:
        await other.add_round(TASK, 0)
    with pytest.raises(StoreError, match="to another keyring"):
        open_as_leader(tmp_path / "other", address)
    with pytest.raises(StoreError, match="has a shuffler's store, so nothing was created"):
        create_first(tmp_path / "third", address)
    assert not (tmp_path / "third").exists()


async def test_a_keyring_whose_database_was_lost_does_not_begin_another(folder: Path) -> None:
    with contextlib.closing(postgres.store_in(folder)) as store:
        await store.add_round(TASK, 0)
    with pytest.raises(StoreError, match="has no store"):
        open_as_leader(folder, postgres.new_database())


def second_version(folder: Path, monkeypatch: pytest.MonkeyPatch, *statements: str) -> Schema:
    """The shuffler's schema with a migration to a version 2, which runs these statements, in a package of that name."""
    versions = folder / "second" / "migrations" / "versions"
    versions.mkdir(parents=True)
    (folder / "second" / "__init__.py").touch()
    shutil.copy(Path(str(resources.files(SCHEMA.package))) / "migrations" / "versions" / "shuffler_1.py", versions)
    steps = "".join(f"    op.execute({statement!r})\n" for statement in statements)
    (versions / "shuffler_2.py").write_text(
        f"from alembic import op\n\nrevision = 'shuffler_2'\ndown_revision = 'shuffler_1'\n\ndef upgrade():\n{steps}"
    )
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "second", raising=False)
    return Schema(SCHEMA.name, "second")


ADD_COLOR = "ALTER TABLE round ADD COLUMN color text NOT NULL DEFAULT 'white'"


async def test_a_database_is_brought_to_a_second_version_and_refused_by_name_by_the_first(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(postgres.store_in(folder)) as store:
        await store.add_round(TASK, 0)
    address = (folder / postgres.ADDRESS_FILE).read_text()
    second = second_version(tmp_path, monkeypatch, ADD_COLOR)
    for _ in range(2):  # nothing is left to do the second time
        bring_forward(address, second)
        with psycopg.connect(address) as connection:
            found = connection.execute("SELECT number, color FROM hubbub_shuffler.round").fetchall()
        assert found == [(0, "white")]
    with pytest.raises(
        StoreError, match=f"of version shuffler_2, {LAYOUT_THAT_IS_KNOWN} shuffler_1; nothing was touched"
    ):
        bring_forward(address, SCHEMA)


async def test_a_migration_that_fails_leaves_the_first_version_as_it_was(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(postgres.store_in(folder)) as store:
        round_ = await store.add_round(TASK, 0)
    address = (folder / postgres.ADDRESS_FILE).read_text()
    with pytest.raises(StoreError, match="division by zero"):
        bring_forward(address, second_version(tmp_path, monkeypatch, ADD_COLOR, "SELECT 1 / 0"))
    with contextlib.closing(postgres.store_in(folder)) as store:
        assert await store.rounds() == [round_]


async def test_a_server_that_cuts_off_its_connections_is_an_incident_until_it_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "WAIT_SECONDS", 1.0)
    incidents = Incidents()
    with contextlib.closing(postgres.store_in(folder, incidents=incidents)) as store:
        round_ = await store.add_round(TASK, 0)
        address = (folder / postgres.ADDRESS_FILE).read_text()
        name = address.partition("?")[0].rpartition("/")[2]
        with psycopg.connect(postgres.server(), autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
            postgres.cut_off(folder)
            with pytest.raises(StoreError, match="continues by itself"):
                await store.insert(round_, [Opened(bytes(16), bytes(16), b"x")])
            assert [incident.kind for incident in incidents.now()] == [IncidentKind.STORE]
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        outcomes = None
        while outcomes is None:
            with contextlib.suppress(StoreError):
                outcomes = await store.insert(round_, [Opened(bytes(16), bytes(16), b"x")])
        assert outcomes == [InsertOutcome.STORED]
        assert incidents.now() == ()


def test_a_password_in_the_address_is_refused_and_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "shuffler.toml"
    for address in ("postgresql://u:hunter2@h/db", "postgresql://u@h/db?password=hunter2", "mysql://h/hunter2"):
        path.write_text(f'store = "{address}"')
        with pytest.raises(SettingsError) as caught:
            load(path)
        assert "hunter2" not in str(caught.value)
