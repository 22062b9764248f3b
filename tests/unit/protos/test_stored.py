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

from hubbub.analyzer import store as analyzer_store
from hubbub.analyzer.tables import VERSION as ANALYZER_VERSION
from hubbub.client.state import State
from hubbub.client.state_file import STATE_VERSION
from hubbub.protos.errors import HubbubError
from hubbub.protos.stored import check_version, version_of
from hubbub.shuffler.database import VERSION as SHUFFLER_VERSION
from hubbub.shuffler.hold import SqliteStore
from support.stores import analyzer_content, shuffler_content, state_content

VECTORS = sorted((Path(__file__).parents[2] / "vectors" / "stores").glob("*.db.gz"))
FILES = {"shuffler": "shuffler.db", "analyzer": "analyzer.db", "state": "state.db"}
VERSIONS = {"shuffler": SHUFFLER_VERSION, "analyzer": ANALYZER_VERSION, "state": STATE_VERSION}


def read_shuffler(folder: Path, _expected: dict[str, Any]) -> dict[str, Any]:
    with closing(SqliteStore(folder)) as store:
        return asyncio.run(shuffler_content(store))


def read_analyzer(folder: Path, _expected: dict[str, Any]) -> dict[str, Any]:
    with closing(analyzer_store.Store(folder)) as store:
        return asyncio.run(analyzer_content(store))


def read_state(folder: Path, expected: dict[str, Any]) -> dict[str, Any]:
    with closing(State(folder / "state.db")) as state:
        rounds = [round_["round"] for round_ in expected.get("rounds", [])]
        return state_content(state, bytes.fromhex(expected.get("task", "")), expected.get("device", ""), rounds)


READERS: dict[str, Callable[[Path, dict[str, Any]], dict[str, Any]]] = {
    "shuffler": read_shuffler,
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
def test_a_store_of_this_version_is_read_as_it_was_written(vector: Path, tmp_path: Path) -> None:
    name, version = named(vector)
    path = placed(vector, tmp_path)
    assert version_of(path) == version
    expected = json.loads((vector.parent / f"{name}-{version}.json").read_text())
    if version == VERSIONS[name]:
        assert READERS[name](tmp_path, expected) == expected
        assert expected["rounds"]
    else:
        before = path.read_bytes()
        with pytest.raises(HubbubError, match="nothing was touched"):
            opened(name, tmp_path)
        assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [(path.name, before)]


@pytest.mark.parametrize("name", FILES)
def test_a_changed_layout_has_a_version_of_its_own(name: str, tmp_path: Path) -> None:
    (vector,) = [vector for vector in VECTORS if named(vector) == (name, VERSIONS[name])]
    path = tmp_path / FILES[name]
    opened(name, tmp_path)
    new = schema(path)
    assert new
    assert new == schema(placed(vector, tmp_path)), "raise the version, then run tests/vectors/make_stores.py"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("step", "remedy"), [(1, "install the newer hubbub"), (-1, "the .* that wrote it until its")])
def test_another_version_is_refused_untouched_with_a_remedy(name: str, step: int, remedy: str, tmp_path: Path) -> None:
    path = tmp_path / FILES[name]
    if VERSIONS[name] + step == 0:
        pytest.skip("there is no older version yet")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("CREATE TABLE something (x)")
        connection.execute(f"PRAGMA user_version = {VERSIONS[name] + step}")
    before = path.read_bytes()
    with pytest.raises(HubbubError, match=f"of version {VERSIONS[name] + step}, .*nothing was touched: .*{remedy}"):
        opened(name, tmp_path)
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [(path.name, before)]


@pytest.mark.parametrize("content", [b"x", b"SQLite format 3\x00", b"no database at all" * 100])
def test_what_is_no_database_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(HubbubError, match="is no notebook"):
        check_version(path, 1, "notebook", HubbubError, "")
    assert path.read_bytes() == content


def test_new_files_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "a file?with=signs#and spaces.db"
    assert version_of(path) is None
    path.touch()
    assert version_of(path) is None
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
    assert version_of(path) == 0
    check_version(path, 1, "notebook", HubbubError, "")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE something (x)")
    with pytest.raises(HubbubError, match="is no notebook"):
        check_version(path, 1, "notebook", HubbubError, "")
