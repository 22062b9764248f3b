"""A bit that flips in a row of a round in the database: the round is not mixed with it, and the cause is named."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from random import Random

import psycopg
import pytest
from psycopg import sql

from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import Incidents
from hubbub.service.postgres import sessions
from hubbub.service.postgres.sessions import Sessions
from hubbub.shuffler.records import InsertOutcome, Opened
from hubbub.shuffler.stores.postgres.schema import SCHEMA
from support import postgres
from support.messages import NOT_WHAT_WAS_STORED
from support.thoroughness import usually

TASK = bytes(range(32))
FLIPS = usually(8, 150)
COLUMNS = {
    "an id, whose retry counts once more": ("ids_1", "id"),
    "a digest, whose retry is a conflict": ("ids_1", "digest"),
    "a block's id": ("arrived_1", "block"),
    "submissions": ("arrived_1", "inners"),
}


@pytest.mark.parametrize("what", COLUMNS)
async def test_a_flipped_bit_of_what_is_stored_is_named_before_the_round_is_mixed(what: str, tmp_path: Path) -> None:
    table, column = COLUMNS[what]
    random = Random(29)
    ids = [os.urandom(16) for _ in range(20)]
    with contextlib.closing(postgres.store_in(tmp_path / "data", incidents=Incidents())) as store:
        address = (tmp_path / "data" / postgres.ADDRESS_FILE).read_text()
        round_ = await store.add_round(TASK, 0)
        outcomes = await store.insert(round_, [Opened(each, each, b"inner") for each in ids])
        assert outcomes == [InsertOutcome.STORED] * 20
        cut = await store.cut(round_, "schedule", 0)
        mixed: list[bytes] = []
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(SCHEMA.name)))
            names = {"table": sql.Identifier(table), "column": sql.Identifier(column)}
            change = sql.SQL("UPDATE {table} SET {column} = %s WHERE {column} = %s").format(**names)
            for _ in range(FLIPS):
                rows = connection.execute(sql.SQL("SELECT {column} FROM {table}").format(**names)).fetchall()
                (value,) = random.choice(rows)
                other = bytearray(value)
                other[random.randrange(len(other))] ^= 1 << random.randrange(8)
                connection.execute(change, (bytes(other), value))
                with pytest.raises(StoreError, match=rf"is {NOT_WHAT_WAS_STORED} there|it may be damaged"):
                    await store.mix(cut, lambda inners: mixed.extend(inners.arrived()))
                connection.execute(change, (value, bytes(other)))
            assert mixed == []
            # One that a page lost altogether is missed, too.
            connection.execute("DELETE FROM ids_1 WHERE id = (SELECT id FROM ids_1 LIMIT 1)")
        if table == "ids_1":
            with pytest.raises(StoreError, match="has 19 ids of 20 acknowledged submissions"):
                await store.mix(cut, lambda inners: mixed.extend(inners.arrived()))


def test_a_server_without_checksums_of_pages_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers beside signatures and ciphers, such as a round's count of submissions, are the server's to keep."""
    address = postgres.new_database()
    with psycopg.connect(address) as connection:
        ((setting,),) = connection.execute("SELECT current_setting('data_checksums')").fetchall()
    said: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(sessions._LOG, "warning", lambda event, **names: said.append((event, names)), raising=False)
    Sessions(address, SCHEMA.name).close()
    assert [event for event, _ in said] == ["the database has no checksums of its pages"] * (setting == "off")
    assert all("pg_checksums --enable" in names["remedy"] for _, names in said)
