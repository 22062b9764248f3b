"""Stores of every released version are read as they were written; others are refused by name."""

from __future__ import annotations

import asyncio
import gzip
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hubbub.analyzer.stores.sqlite import AnalyzerSqliteStore as AnalyzerStore
from hubbub.analyzer.stores.sqlite.schema import LAYOUT as ANALYZER
from hubbub.client.state.file import STATE
from hubbub.client.state.store import State
from hubbub.protos.errors import HubbubError
from hubbub.protos.sqlite_layout import bring_forward, check_version, statements, version_of
from hubbub.shuffler.hop.sqlite import LAYOUT as HOP
from hubbub.shuffler.hop.sqlite import HopSqliteStore as HopStore
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore as ShufflerStore
from hubbub.shuffler.stores.sqlite.schema import LAYOUT as SHUFFLER
from support.messages import LAYOUT_THAT_IS_KNOWN, OTHER_KIND_OF_FILE
from support.source_tree import ROOT
from support.store_contents import analyzer_content, hop_content, shuffler_content, state_content, store_in

VECTORS = sorted((ROOT / "tests" / "vectors" / "stores").glob("*.db.gz"))
FILES = {"shuffler": "shuffler.db", "hop": "hop.db", "analyzer": "analyzer.db", "state": "state.db"}
LAYOUTS = {"shuffler": SHUFFLER, "hop": HOP, "analyzer": ANALYZER, "state": STATE}
VERSIONS = {name: layout.version for name, layout in LAYOUTS.items()}


def read_shuffler(folder: Path, _expected: dict[str, Any]) -> dict[str, Any]:
    with closing(store_in(ShufflerStore, folder)) as store:
        return asyncio.run(shuffler_content(store))


def read_analyzer(folder: Path, _expected: dict[str, Any]) -> dict[str, Any]:
    with closing(store_in(AnalyzerStore, folder)) as store:
        return asyncio.run(analyzer_content(store))


def read_hop(folder: Path, _expected: dict[str, Any]) -> dict[str, Any]:
    with closing(store_in(HopStore, folder)) as store:
        return asyncio.run(hop_content(store))


def read_state(folder: Path, expected: dict[str, Any]) -> dict[str, Any]:
    with closing(State(folder / "state.db")) as state:
        rounds = [round_["round"] for round_ in expected.get("rounds", [])]
        return state_content(state, bytes.fromhex(expected.get("task", "")), expected.get("device", ""), rounds)


READERS: dict[str, Callable[[Path, dict[str, Any]], dict[str, Any]]] = {
    "shuffler": read_shuffler,
    "hop": read_hop,
    "analyzer": read_analyzer,
    "state": read_state,
}


def named(vector: Path) -> tuple[str, int]:
    name, _, version = vector.name.removesuffix(".db.gz").rpartition("-")
    return name, int(version)


def placed(vector: Path, folder: Path) -> Path:
    path = folder / FILES[named(vector)[0]]
    path.write_bytes(gzip.decompress(vector.read_bytes()))
    return path


def opened(name: str, folder: Path) -> None:
    if name == "state":
        with closing(State(folder / FILES[name])) as state:
            state.forget(0)
    else:
        READERS[name](folder, {})


def schema(path: Path) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return sorted(connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql NOT NULL"))


def test_every_store_has_a_vector_of_its_current_version() -> None:
    assert set(VERSIONS.items()) <= {named(vector) for vector in VECTORS}, "run tests/vectors/make_stores.py"


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_a_store_of_any_version_is_read_as_it_was_written(vector: Path, tmp_path: Path) -> None:
    """Of this version as it is, of an older one after it was brought forward."""
    name, version = named(vector)
    path = placed(vector, tmp_path)
    assert version_of(path) == version
    expected = json.loads((vector.parent / f"{name}-{version}.json").read_text())
    assert READERS[name](tmp_path, expected) == expected
    assert expected["rounds"]
    assert version_of(path) == VERSIONS[name]
    # Once more: what was brought forward is a store like any other.
    assert READERS[name](tmp_path, expected) == expected


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_a_store_of_any_version_comes_to_look_like_a_new_one(vector: Path, tmp_path: Path) -> None:
    """So a layout cannot change under a version that was released."""
    name, _ = named(vector)
    path = placed(vector, tmp_path)
    (tmp_path / "new").mkdir()
    opened(name, tmp_path / "new")
    opened(name, tmp_path)
    assert schema(path) == schema(tmp_path / "new" / FILES[name]), "raise the version, then run make_stores.py"


# A second version


def _with_colors(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE round ADD COLUMN color TEXT NOT NULL DEFAULT 'white'")
    connection.execute("CREATE TABLE palette (color TEXT) STRICT")
    connection.execute("INSERT INTO palette SELECT DISTINCT color FROM round")


SECOND = replace(SHUFFLER, version=2, migrations={1: _with_colors})
GOLDEN = VECTORS[0].parent / "shuffler-1.db.gz"


def test_a_store_is_brought_to_a_second_version_whole_or_not_at_all(tmp_path: Path) -> None:
    """It is stopped at each statement once with an error, and once by a kill, which leaves a copy of the files."""
    stops = 0
    while True:
        folder, killed = tmp_path / f"failed{stops}", tmp_path / f"killed{stops}"
        folder.mkdir()
        killed.mkdir()
        path = placed(GOLDEN, folder)
        if not _stopped(path, stops, killed):
            break
        for left in (path, killed / path.name):
            with closing(sqlite3.connect(left, isolation_level=None)) as connection:
                assert connection.execute("PRAGMA user_version").fetchone() == (1,)
                assert bring_forward(connection, left, SECOND, HubbubError) == 1
        stops += 1
    assert stops > 4
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert bring_forward(connection, path, SECOND, HubbubError) == 2  # nothing is left to do
        assert connection.execute("SELECT number, color FROM round ORDER BY number").fetchall() == [
            (number, "white") for number in range(4)
        ]
        assert connection.execute("SELECT color FROM palette").fetchall() == [("white",)]
    check_version(path, SECOND, HubbubError)
    with pytest.raises(
        HubbubError, match=f"of version 2, {LAYOUT_THAT_IS_KNOWN} 1; nothing was touched: install the hubbub"
    ):
        check_version(path, SHUFFLER, HubbubError)


def _stopped(path: Path, stop: int, killed: Path) -> bool:
    """Bring a file forward, but for its statement of that number, which fails; return whether one did."""
    done = 0

    class Failing(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            nonlocal done
            if self.in_transaction:
                done += 1
                if done == stop + 1:
                    for each in path.parent.iterdir():
                        if not each.name.endswith("-shm"):
                            (killed / each.name).write_bytes(each.read_bytes())
                    raise sqlite3.OperationalError("database or disk is full")
            return super().execute(sql, *values)

    with closing(sqlite3.connect(path, isolation_level=None, factory=Failing)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        try:
            bring_forward(connection, path, SECOND, HubbubError)
        except sqlite3.OperationalError:
            return True
    return False


def test_a_layout_has_a_migration_from_every_version_before_it() -> None:
    for version, migrations in ((2, {}), (3, {2: _with_colors}), (1, {1: _with_colors})):
        with pytest.raises(ValueError, match="one migration from each version below"):
            replace(SHUFFLER, version=version, migrations=migrations)


# What is refused


@pytest.mark.parametrize("name", FILES)
def test_a_version_that_is_not_known_is_refused_untouched_with_a_remedy(name: str, tmp_path: Path) -> None:
    vector = GOLDEN.with_name(f"{name}-{VERSIONS[name]}.db.gz")
    path, version = placed(vector, tmp_path), VERSIONS[name] + 1
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    with pytest.raises(HubbubError, match=f"of version {version}, .*nothing was touched: .*install the hubbub"):
        opened(name, tmp_path)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_a_version_that_is_in_the_log_alone_is_refused_too(tmp_path: Path) -> None:
    """The file's header, which is read first, does not show what a killed process left in the log."""
    path = tmp_path / "shuffler.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 9")
        with pytest.raises(HubbubError, match=f"of version 9, {LAYOUT_THAT_IS_KNOWN} 1"):
            bring_forward(connection, path, SHUFFLER, HubbubError)
        assert not connection.in_transaction


def test_a_script_is_parted_into_statements_with_their_triggers() -> None:
    found = list(statements(SHUFFLER.script))
    assert len(found) == 15
    assert sum("RAISE(ABORT" in each for each in found) == 4
    assert all(sqlite3.complete_statement(each) for each in found)


@pytest.mark.parametrize("content", [b"x", b"SQLite format 3\x00", b"no database at all" * 100])
def test_what_is_no_database_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(HubbubError, match=rf"{OTHER_KIND_OF_FILE} \(shuffler's store\)"):
        check_version(path, SHUFFLER, HubbubError)
    assert path.read_bytes() == content


def test_new_files_are_taken_and_those_of_other_programs_are_not(tmp_path: Path) -> None:
    path = tmp_path / "a file?with=signs#and spaces.db"
    assert version_of(path) is None
    path.touch()
    assert version_of(path) is None
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
    assert version_of(path) == 0
    check_version(path, SHUFFLER, HubbubError)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE something (x)")
    for version in (0, 1):
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(HubbubError, match=rf"{OTHER_KIND_OF_FILE} \(shuffler's store\)"):
            check_version(path, SHUFFLER, HubbubError)


def test_the_page_on_upgrading_has_the_of_each_store() -> None:
    page = (ROOT / "docs" / "howto" / "upgrade.md").read_text()
    for name, layout in LAYOUTS.items():
        row = next(line for line in page.splitlines() if line.startswith(("| " + name, f"| device's {name}")))
        _, _, version, *_ = (cell.strip() for cell in row.split("|"))
        assert int(version) == layout.version
