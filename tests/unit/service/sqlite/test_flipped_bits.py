"""A bit that flips in a file is named when the file is opened, or changes nothing of what is read."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import sqlite3
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hubbub.analyzer.server import check_store
from hubbub.analyzer.stores.postgres.keyring import AnalyzerKeyring
from hubbub.analyzer.stores.sqlite import AnalyzerSqliteStore
from hubbub.client.state.store import State
from hubbub.protos.errors import HubbubError
from hubbub.service.errors import StoreError
from hubbub.service.sqlite.maintenance import check_store_file
from hubbub.shuffler.hop.sqlite import HopSqliteStore
from hubbub.shuffler.stores.postgres.keyring import ShufflerKeyring
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore
from hubbub.shuffler.stores.sqlite.schema import FILE_NAME, LAYOUT
from support.source_tree import ROOT
from support.thoroughness import usually

VECTORS = ROOT / "tests" / "vectors" / "stores"
FLIPS = usually(60, 1500)


def open_state(folder: Path) -> None:
    with closing(State(folder / "state.db")) as state:
        state.opted_out(["kiosk"])


def open_analyzer(folder: Path) -> None:
    with closing(AnalyzerSqliteStore(folder)) as store:
        asyncio.run(check_store(store))


@dataclass(frozen=True)
class File:
    """A file of a store: how it is opened, and the columns whose damage something else names when it is used."""

    vector: str
    name: str
    open: Callable[[Path], object]
    guarded: Collection[str] = ()


ENVELOPES = ("arrived", "released")
"""Lists are compared with the digests in signed records: tests/unit/shuffler/stores/test_damaged_rounds.py,
tests/unit/shuffler/hop/test_damage.py, tests/unit/analyzer/test_receiver.py."""

SIGNED = ("shuffler_body", "shuffler_signature", "analyzer_body", "analyzer_signature", "body", "signature", "record")
"""Records are signed: the same tests, and tests/unit/analyzer/test_damaged_keys.py."""

PRIVATE = ("private_key",)
"""A private key is compared with its record: the same tests."""

CERTIFIED = ("document", "counts", "attestation")
"""Certificates are signed, and bind counts: tests/unit/analyzer/test_results_differ.py."""

MIXED = ("mixed_record", "mixed_signature")
"""Records that a hop signed: tests/unit/shuffler/hop/test_damage.py."""

FILES = {
    "shuffler": File(
        "shuffler", "shuffler.db", lambda folder: ShufflerSqliteStore(folder).close(), ("released", *SIGNED, *PRIVATE)
    ),
    "analyzer": File("analyzer", "analyzer.db", open_analyzer, ("arrived", *SIGNED, *PRIVATE, *CERTIFIED)),
    "hop": File(
        "hop", "hop.db", lambda folder: HopSqliteStore(folder).close(), (*ENVELOPES, *SIGNED, *PRIVATE, *MIXED)
    ),
    "state": File("state", "state.db", open_state),
    "shuffler's keyring": File(
        "postgres/shuffler", "keyring.db", lambda folder: ShufflerKeyring(folder).close(), PRIVATE
    ),
    "analyzer's keyring": File(
        "postgres/analyzer", "keyring.db", lambda folder: AnalyzerKeyring(folder).close(), PRIVATE
    ),
}


def content_of(file: File) -> bytes:
    return gzip.decompress((VECTORS / f"{file.vector}-1.db.gz").read_bytes())


def rows(path: Path, guarded: Collection[str]) -> dict[str, list[Any]]:
    """All rows of a file, without what is guarded otherwise: whole tables, or columns of any table."""
    found = {}
    with closing(sqlite3.connect(path)) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            if table in guarded and table in ENVELOPES:
                continue
            names = [name for (name,) in connection.execute("SELECT name FROM pragma_table_xinfo(?)", (table,))]
            columns = ", ".join(f"quote({name})" for name in names if name not in guarded)
            found[table] = sorted(connection.execute(f"SELECT {columns} FROM {table}").fetchall())  # noqa: S608
    return found


def flipped(content: bytes, random: Random) -> bytes:
    """The content with one other bit, somewhere that is not zeros among zeros."""
    while True:
        place = random.randrange(len(content))
        if any(content[max(0, place - 4) : place + 4]):
            changed = bytearray(content)
            changed[place] ^= 1 << random.randrange(8)
            return bytes(changed)


@pytest.mark.parametrize("kind", FILES)
def test_a_flipped_bit_is_named_or_changes_nothing(kind: str, tmp_path: Path) -> None:
    file = FILES[kind]
    content, random = content_of(file), Random(29)
    (tmp_path / file.name).write_bytes(content)
    right = rows(tmp_path / file.name, file.guarded)
    said: list[str] = []
    for number in range(FLIPS):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / file.name).write_bytes(flipped(content, random))
        try:
            file.open(folder)
        except HubbubError as error:
            said.append(str(error))
        else:
            assert rows(folder / file.name, file.guarded) == right, number
        shutil.rmtree(folder)
    assert len(said) > FLIPS // 10
    assert [text for text in said if file.name not in text and "store" not in text and "'s " not in text] == []


TOLD_BY_ITS_ROW = {
    "a device's number, by which it would count twice": ("ticket", "number"),
    "a revoked device, which would be let in": ("revoked", "device"),
    "a key of pseudonyms, by which all would count twice": ("round", "pseudonym_key"),
    "an id that is stored, so that its retry would count": ("known", "entries"),
    "a submission": ("arrived", "inners"),
    "a batch that would not be delivered": ("batch", "committed"),
    "a number of refusals, which is signed": ("tally", "count"),
}


@pytest.mark.parametrize("what", TOLD_BY_ITS_ROW)
def test_a_value_that_no_signature_covers_is_told_by_its_row(what: str, tmp_path: Path) -> None:
    """The start names the table; so does the look at all of a store."""
    table, column = TOLD_BY_ITS_ROW[what]
    path = tmp_path / FILE_NAME
    path.write_bytes(content_of(FILES["shuffler"]))
    with closing(sqlite3.connect(path)) as connection:
        checksum, value = connection.execute(
            f"SELECT row_checksum, {column} FROM {table} WHERE {column} NOT NULL"  # noqa: S608
        ).fetchone()
        # What happens below SQLite computes no checksum: it stays as it was.
        connection.create_function("checksum_of_row", -1, lambda *_values: checksum, deterministic=True)
        other = value ^ 1 if isinstance(value, int) else bytes([*value[:-1], value[-1] ^ 1])
        change = f"UPDATE {table} SET {column} = ? WHERE row_checksum = ?"  # noqa: S608
        assert connection.execute(change, (other, checksum)).rowcount == 1
        connection.commit()
    says = rf"shuffler\.db is damaged \(a row of {table} is not as it was written\)"
    with pytest.raises(StoreError, match=says):
        ShufflerSqliteStore(tmp_path)
    with pytest.raises(StoreError, match=says):
        check_store_file(tmp_path, FILE_NAME, LAYOUT)


def test_an_index_that_lost_a_row_is_named(tmp_path: Path) -> None:
    """Otherwise a round would not be found by its number, and begin once more."""
    file = FILES["analyzer"]
    path = tmp_path / file.name
    path.write_bytes(content_of(file))
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_round_1'"
        ).fetchone()
    content = bytearray(path.read_bytes())
    begin = (root - 1) * 4096
    first_cell = begin + int.from_bytes(content[begin + 8 : begin + 10], "big")
    content[first_cell + 1 + content[first_cell + 1] - 1] ^= 1  # the last byte of the record's header: the row's key
    content[first_cell + content[first_cell]] ^= 2
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"analyzer\.db is damaged"):
        open_analyzer(tmp_path)
