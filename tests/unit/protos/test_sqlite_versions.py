"""Stores of every version that was ever written: what this version makes of them."""

from __future__ import annotations

import asyncio
import gzip
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hubbub.analyzer.sqlite import SqliteStore as AnalyzerStore
from hubbub.analyzer.sqlite.schema import LAYOUT as ANALYZER
from hubbub.client.state.file import STATE
from hubbub.client.state.store import State
from hubbub.protos.errors import HubbubError
from hubbub.protos.sqlite_versions import Layout, bring_forward, check_version, statements, version_of
from hubbub.shuffler.hop.sqlite import LAYOUT as HOP
from hubbub.shuffler.hop.sqlite import SqliteStore as HopStore
from hubbub.shuffler.stores.sqlite import SqliteStore as ShufflerStore
from hubbub.shuffler.stores.sqlite.schema import LAYOUT as SHUFFLER
from support.stores import analyzer_content, hop_content, shuffler_content, state_content, store_in

VECTORS = sorted((Path(__file__).parents[2] / "vectors" / "stores").glob("*.db.gz"))
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
def test_a_store_that_was_brought_forward_looks_like_a_new_one(vector: Path, tmp_path: Path) -> None:
    name, _ = named(vector)
    path = placed(vector, tmp_path)
    opened(name, tmp_path)
    (tmp_path / "new").mkdir()
    opened(name, tmp_path / "new")
    assert schema(path) == schema(tmp_path / "new" / FILES[name])


OLD = [vector for vector in VECTORS if named(vector)[1] != VERSIONS[named(vector)[0]]]


@pytest.mark.parametrize("vector", OLD, ids=lambda vector: vector.name)
def test_a_migration_that_is_stopped_at_any_statement_leaves_the_old_version_whole(
    vector: Path, tmp_path: Path
) -> None:
    """At each statement once with an error, and once by a kill: a copy of the files is what that leaves behind."""
    name, version = named(vector)
    places = 0
    while True:
        folder = tmp_path / f"failed{places}"
        folder.mkdir()
        path = placed(vector, folder)
        copies = tmp_path / f"killed{places}"
        copies.mkdir()
        if not _migrate(path, LAYOUTS[name], places, copies):
            break
        for left in (path, copies / path.name):
            assert committed_version(left) == version
            opened(name, left.parent)
            assert committed_version(left) == VERSIONS[name]
        places += 1
    assert places > 2


def _migrate(path: Path, layout: Layout, failing: int, copies: Path) -> bool:
    """Bring a file forward, but for a statement of that place, which fails; return whether one did."""
    done = 0

    class Failing(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            nonlocal done
            if self.in_transaction:
                done += 1
                if done == failing + 1:
                    for each in path.parent.iterdir():
                        if not each.name.endswith("-shm"):
                            (copies / each.name).write_bytes(each.read_bytes())
                    raise sqlite3.OperationalError("database or disk is full")
            return super().execute(sql, *values)

    with closing(sqlite3.connect(path, isolation_level=None, factory=Failing)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        try:
            bring_forward(connection, path, layout, HubbubError)
        except sqlite3.OperationalError:
            return True
    return False


def committed_version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


@pytest.mark.parametrize("name", FILES)
def test_a_changed_layout_has_a_version_of_its_own(name: str, tmp_path: Path) -> None:
    (vector,) = [vector for vector in VECTORS if named(vector) == (name, VERSIONS[name])]
    path = tmp_path / FILES[name]
    opened(name, tmp_path)
    new = schema(path)
    assert new
    assert new == schema(placed(vector, tmp_path)), "raise the version, then run tests/vectors/make_stores.py"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("newer", [True, False])
def test_a_version_that_is_not_known_is_refused_untouched_with_a_remedy(name: str, newer: bool, tmp_path: Path) -> None:
    path, layout = tmp_path / FILES[name], LAYOUTS[name]
    unknown = [version for version in range(1, layout.version) if not layout.leads_from(version)]
    if not newer and not unknown:
        return  # every older version of this one can be brought forward
    version, remedy = (layout.version + 1, "install the newer hubbub") if newer else (unknown[-1], layout.older)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("CREATE TABLE something (x)")
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(HubbubError, match=f"of version {version}, .*nothing was touched: .*{remedy}"):
        opened(name, tmp_path)
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [(path.name, before)]


def _more_paper(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE page ADD COLUMN colour TEXT NOT NULL DEFAULT 'white'")


def _with_a_cover(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE cover (title TEXT)")


NOTEBOOK = Layout(
    what="notebook",
    version=4,
    older="copy it by hand",
    script="CREATE TABLE page (text TEXT, colour TEXT NOT NULL DEFAULT 'white');\nCREATE TABLE cover (title TEXT);\n",
    migrations={2: _more_paper, 3: _with_a_cover},
)


@pytest.mark.parametrize(("version", "columns"), [(2, "text TEXT"), (3, "text TEXT, colour TEXT")])
def test_migrations_are_run_one_after_the_other(version: int, columns: str, tmp_path: Path) -> None:
    path = tmp_path / "notebook"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"CREATE TABLE page ({columns})")
        connection.execute("INSERT INTO page (text) VALUES ('kept')")
        connection.execute(f"PRAGMA user_version = {version}")
        check_version(path, NOTEBOOK, HubbubError)
        assert bring_forward(connection, path, NOTEBOOK, HubbubError) == version
        assert connection.execute("SELECT text FROM page").fetchall() == [("kept",)]
        assert connection.execute("SELECT count(*) FROM cover").fetchone() == (0,)
        assert bring_forward(connection, path, NOTEBOOK, HubbubError) == 4
    assert version_of(path) == 4


def test_a_gap_in_the_migrations_is_refused_by_name(tmp_path: Path) -> None:
    assert [NOTEBOOK.leads_from(version) for version in range(1, 6)] == [False, True, True, True, False]
    path = tmp_path / "notebook"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 1")
    with pytest.raises(HubbubError, match=r"\(notebook\) is of version 1, .* nothing was touched: copy it by hand"):
        check_version(path, NOTEBOOK, HubbubError)


def test_a_version_that_is_in_the_log_alone_is_refused_too(tmp_path: Path) -> None:
    """The file's header, which is read first, does not show what a killed process left in the log."""
    path = tmp_path / "notebook"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 9")
        with pytest.raises(HubbubError, match="of version 9, this hubbub knows 4"):
            bring_forward(connection, path, NOTEBOOK, HubbubError)
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
    with pytest.raises(HubbubError, match=r"is not a file of this kind \(notebook\)"):
        check_version(path, NOTEBOOK, HubbubError)
    assert path.read_bytes() == content


def test_new_files_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "a file?with=signs#and spaces.db"
    assert version_of(path) is None
    path.touch()
    assert version_of(path) is None
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
    assert version_of(path) == 0
    check_version(path, NOTEBOOK, HubbubError)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE something (x)")
    with pytest.raises(HubbubError, match=r"is not a file of this kind \(notebook\)"):
        check_version(path, NOTEBOOK, HubbubError)


def test_operations_tell_which_versions_are_read() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    for name, layout in LAYOUTS.items():
        row = next(line for line in page.splitlines() if line.startswith(("| " + name, f"| device's {name}")))
        _, _, version, reads, *_ = (cell.strip() for cell in row.split("|"))
        assert int(version) == layout.version
        known = [each for each in range(1, layout.version + 1) if layout.leads_from(each)]
        assert reads == ", ".join(map(str, known))
