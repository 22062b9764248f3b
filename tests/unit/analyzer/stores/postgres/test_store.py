"""Who may use it, what its files show, and what it does where the keyring fails."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sqlite3
import time
from pathlib import Path

import psycopg
import pytest

from hubbub.analyzer.stores.postgres import AnalyzerPostgresStore
from hubbub.analyzer.stores.postgres.keyring import AnalyzerKeyring
from hubbub.analyzer.stores.postgres.sealing import DeliveryCipher
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId, BatchRecord, released_digest
from hubbub.protos.records.release_chain import position_after
from hubbub.protos.refusals import Reason, Refusal
from hubbub.service.errors import StoreError
from hubbub.service.ledger.ledgers import charges_for
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.postgres import sessions
from hubbub.service.receiving.round_keys import NewRoundKey, make_key
from hubbub.shuffler.stores.postgres.open_store import create_first, open_as_leader
from support import postgres
from support.messages import NOT_WHAT_WAS_STORED
from support.patience import when_ready
from support.postgres import ANALYZER
from support.samples import Parties, sample_task, signed

PARTIES = Parties.generate()
TASK = sample_task(PARTIES)
COUNTS = [os.urandom(64), os.urandom(64)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def address_in(folder: Path) -> str:
    return (folder / postgres.ADDRESS_FILE).read_text()


async def delivered(store: AnalyzerPostgresStore, query: int) -> list[bytes]:
    envelopes = [os.urandom(48) for _ in range(12)]
    batch = BatchId(TASK.id, 0, query)
    position = position_after(TASK.id, ())
    record = BatchRecord(
        batch, 12, released_digest(envelopes), bytes(32), "schedule", admission="open", position=position
    )
    await store.announce(record, record.signed_by(PARTIES.shuffler), bytes(32), lambda _stored: None)
    await store.append(Envelopes(batch, 0, tuple(envelopes[:10])))
    await store.append(Envelopes(batch, 5, tuple(envelopes[5:])))
    return envelopes


async def counted(store: AnalyzerPostgresStore) -> tuple[NewRoundKey, list[bytes]]:
    """A round that is counted and has no certificate: its key, and what arrived."""
    await store.add_tasks([signed(TASK, PARTIES)])
    key = make_key(Role.ANALYZER, TASK, 0, PARTIES.analyzer)
    await store.add_key(TASK.id, 0, key)
    arrived = []
    for query, counts in enumerate(COUNTS):
        arrived += await delivered(store, query)
        charges = charges_for(TASK, 0, await store.charges(TASK.id))
        await store.commit(BatchId(TASK.id, 0, query), counts, bytes(64), Committed(12, {}), charges)
    return key, arrived


async def test_neither_envelopes_nor_keys_nor_withheld_counts_are_in_the_server_s_files(folder: Path) -> None:
    began = time.time()
    store = ANALYZER.store_in(folder)
    key, arrived = await counted(store)
    keys = postgres.secrets_in(folder)
    assert len(keys) == 2
    assert key.private in keys
    await store.certify(TASK.id, 0, b"certificate", {1})
    assert not await store.erase_some(TASK.id, 0)
    assert [batch.counts for batch in await store.batches(TASK.id, 0)] == [COUNTS[0], None]
    store.close()
    secrets = [each[:16] for each in (*arrived, *keys, COUNTS[1])]
    released = False
    for content in postgres.kept_in_files(began):
        assert [secret for secret in secrets if secret in content] == []
        released |= COUNTS[0] in content
    assert released, "what is released is searched for as it would be found"


async def test_a_second_analyzer_is_refused_by_the_first_one_s_name(folder: Path, tmp_path: Path) -> None:
    with contextlib.closing(ANALYZER.store_in(folder)) as store:
        await store.add_tasks([signed(TASK, PARTIES)])
        shutil.copytree(folder, tmp_path / "copy")
        with pytest.raises(StoreError, match=f"in use: by hubbub analyzer {os.getpid()} on .* at a time"):
            ANALYZER.store_in(tmp_path / "copy")
        assert await store.task(TASK.id) == signed(TASK, PARTIES)
    ANALYZER.store_in(tmp_path / "copy").close()


async def test_whoever_lost_the_lock_changes_nothing_while_another_has_it(folder: Path, tmp_path: Path) -> None:
    incidents = Incidents()
    with contextlib.closing(ANALYZER.store_in(folder, incidents=incidents)) as store:
        shutil.copytree(folder, tmp_path / "copy")
        postgres.cut_off(folder)
        with contextlib.closing(ANALYZER.store_in(tmp_path / "copy")):
            with pytest.raises(Refusal, match="in use: by hubbub analyzer") as caught:
                await store.add_tasks([signed(TASK, PARTIES)])
            assert caught.value.reason is Reason.NOT_READY
            assert [incident.kind for incident in incidents.now()] == [IncidentKind.STORE]
        await store.add_tasks([signed(TASK, PARTIES)])
        assert incidents.now() == ()
        assert await store.task(TASK.id) == signed(TASK, PARTIES)


async def test_a_database_may_hold_both_services_stores_and_opens_with_its_own_keyring(
    folder: Path, tmp_path: Path
) -> None:
    with contextlib.closing(ANALYZER.store_in(folder)) as store:
        await store.add_tasks([signed(TASK, PARTIES)])
        create_first(tmp_path / "shuffler", address_in(folder))
        with contextlib.closing(open_as_leader(tmp_path / "shuffler", address_in(folder))) as shuffler:
            await shuffler.add_round(TASK.id, 0)
        assert await store.progress(None) == []
    with pytest.raises(StoreError, match="has an analyzer's store, so nothing was created"):
        AnalyzerPostgresStore.create(tmp_path / "other", address_in(folder))
    AnalyzerKeyring.create(tmp_path / "other")
    with pytest.raises(StoreError, match="of another keyring"):
        AnalyzerPostgresStore.open(tmp_path / "other", address_in(folder))
    with pytest.raises(StoreError, match="analyzer's keyring"):
        AnalyzerPostgresStore.open(tmp_path / "shuffler", address_in(folder))


def test_what_arrived_opens_in_its_own_place_alone() -> None:
    cipher, other = (DeliveryCipher(bytes(32), TASK.id, number) for number in (0, 1))
    sealed = cipher.seal_chunk(0, 5, b"envelopes")
    assert cipher.open_chunk(0, 5, sealed) == b"envelopes"
    for wrong in (
        lambda: other.open_chunk(0, 5, sealed),
        lambda: cipher.open_chunk(1, 5, sealed),
        lambda: cipher.open_chunk(0, 0, sealed),
        lambda: cipher.open_counts(0, sealed),
        lambda: cipher.open_chunk(0, 5, sealed[:-1]),
    ):
        with pytest.raises(StoreError, match=f"{NOT_WHAT_WAS_STORED} there"):
            wrong()


async def test_what_was_changed_in_the_database_is_not_counted(folder: Path) -> None:
    with contextlib.closing(ANALYZER.store_in(folder)) as store:
        await counted(store)
        with psycopg.connect(address_in(folder)) as connection:
            connection.execute("UPDATE hubbub_analyzer.arrived_1 SET first = first + 1 WHERE first = 0")
            connection.execute("UPDATE hubbub_analyzer.batch SET counts = 'x' WHERE query = 1")
        with pytest.raises(StoreError, match=f"a chunk of envelopes in the database is {NOT_WHAT_WAS_STORED}"):
            list(store.arrived(BatchId(TASK.id, 0, 0)))
        with pytest.raises(StoreError, match="what was counted of a batch in the database is not"):
            await store.batches(TASK.id, 0)


class Failing(sqlite3.Connection):
    """A keyring's connection whose disk is full while `full`."""

    full = False

    def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
        if self.full and sql.startswith("UPDATE"):
            raise sqlite3.OperationalError("database or disk is full")
        return super().execute(sql, *values)  # type: ignore[arg-type]


async def test_a_keyring_that_cannot_be_written_is_read_no_more_and_written_with_the_next_change(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    incidents = Incidents()
    with contextlib.closing(ANALYZER.store_in(folder, sqlite=Failing, incidents=incidents)) as store:
        await counted(store)
        monkeypatch.setattr(Failing, "full", True)
        await store.certify(TASK.id, 0, b"certificate", ())
        key = await store.key(TASK.id, 0)
        assert key is not None
        assert key.private is None
        assert list(store.arrived(BatchId(TASK.id, 0, 0))) == []
        assert len(postgres.secrets_in(folder)) == 2
        assert [incident.kind for incident in incidents.now()] == [IncidentKind.STORE]
        with pytest.raises(Refusal, match=r"keyring\.db could not be used"):
            await store.erase_some(TASK.id, 0)
        assert await store.unerased() == [(TASK.id, 0)]
        monkeypatch.setattr(Failing, "full", False)
        assert not await store.erase_some(TASK.id, 0)
        assert await store.unerased() == []
        assert postgres.secrets_in(folder) == []
        assert incidents.now() == ()


async def test_a_server_that_is_away_refuses_all_that_waits_at_once_and_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "WAIT_SECONDS", 1.0)
    incidents = Incidents()
    with contextlib.closing(ANALYZER.store_in(folder, incidents=incidents)) as store:
        name = address_in(folder).partition("?")[0].rpartition("/")[2]
        with psycopg.connect(postgres.server(), autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
            postgres.cut_off(folder)
            asked = (store.add_tasks([signed(TASK, PARTIES)]) for _ in range(5))
            for outcome in await asyncio.gather(*asked, return_exceptions=True):
                assert isinstance(outcome, Refusal)
                assert (outcome.reason, "continues by itself" in outcome.message) == (Reason.NOT_READY, True)
            assert [incident.kind for incident in incidents.now()] == [IncidentKind.STORE]
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        await when_ready(lambda: store.add_tasks([signed(TASK, PARTIES)]))
        assert incidents.now() == ()
        assert await store.task(TASK.id) == signed(TASK, PARTIES)
