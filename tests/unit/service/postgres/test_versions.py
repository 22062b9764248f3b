"""Stores in PostgreSQL of every released version are read as they were written."""

from __future__ import annotations

import asyncio
import gzip
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support import postgres
from support.source_tree import ROOT
from support.store_contents import analyzer_content, shuffler_content

DUMPS = sorted((ROOT / "tests" / "vectors" / "stores" / "postgres").glob("*.sql.gz"))
READERS: dict[str, tuple[postgres.Kind[Any], Callable[[Any], Any]]] = {
    "shuffler": (postgres.SHUFFLER, shuffler_content),
    "analyzer": (postgres.ANALYZER, analyzer_content),
}


def placed(dump: Path, folder: Path) -> str:
    """Put a store where `Kind.store_in` opens it; return its database's address."""
    folder.mkdir()
    keyring = dump.with_name(dump.name.replace(".sql.", ".db."))
    (folder / "keyring.db").write_bytes(gzip.decompress(keyring.read_bytes()))
    address = postgres.restored(gzip.decompress(dump.read_bytes()).decode())
    (folder / postgres.ADDRESS_FILE).write_text(address)
    return address


def layout(folder: Path, schema: str) -> list[str]:
    """The tables of a store's database and keyring, but for those that rounds have of their own."""
    with psycopg.connect((folder / postgres.ADDRESS_FILE).read_text()) as connection:
        columns = connection.execute(
            "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns"
            " WHERE table_schema = %s AND table_name !~ '_[0-9]+$'",
            (schema,),
        ).fetchall()
        triggers = connection.execute(
            "SELECT tgname, pg_get_triggerdef(pg_trigger.oid) FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"
            " WHERE NOT tgisinternal AND relnamespace = %s::regnamespace",
            (schema,),
        ).fetchall()
    with closing(sqlite3.connect(folder / "keyring.db")) as keyring:
        tables = keyring.execute("SELECT name, sql FROM sqlite_schema WHERE sql NOT NULL").fetchall()
    return sorted((*map(repr, columns), *map(repr, triggers), *map(repr, tables)))


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: dump.name)
def test_a_store_of_any_version_is_read_as_it_was_written_and_looks_like_a_new_one(dump: Path, tmp_path: Path) -> None:
    kind, read = READERS[dump.name.split("-")[0]]
    expected = json.loads(dump.with_name(dump.name.replace(".sql.gz", ".json")).read_text())
    assert expected["rounds"]
    placed(dump, tmp_path / "golden")
    for _ in range(2):  # what was brought forward is a store like any other
        with closing(kind.store_in(tmp_path / "golden")) as store:
            assert asyncio.run(read(store)) == expected
    kind.store_in(tmp_path / "new").close()
    found, new = (layout(tmp_path / name, kind.schema.name) for name in ("golden", "new"))
    assert found == new, "raise the version, then run make_stores.py"


def test_every_store_has_a_vector() -> None:
    assert {dump.name.split("-")[0] for dump in DUMPS} == set(READERS), "run tests/vectors/make_stores.py"
