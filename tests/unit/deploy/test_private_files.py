"""What holds a secret is its owner's alone to read, whoever makes it, and without a umask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE

import pytest
from typer.testing import CliRunner

from hubbub.analyzer.stores.sqlite import AnalyzerSqliteStore as AnalyzerStore
from hubbub.cli.app import build
from hubbub.client.state.file import close_state, open_state
from hubbub.deploy.init.folders import Folder, initialize
from hubbub.protos.identity.keys import CORE_ROLES
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore as ShufflerStore
from support.planted_secrets import private_keys

OTHERS = 0o077


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return initialize(tmp_path / "deployment")


def mode(path: Path) -> int:
    return S_IMODE(path.stat().st_mode)


def ran(*words: str | Path) -> None:
    # Two, as the word that names one is left out where there is no other.
    done = CliRunner().invoke(build(["identity", "certificate"]), [str(word) for word in words])
    assert done.exit_code == 0, done.output


def test_parties_are_made_with_folders_and_keys_of_their_own(folder: Folder) -> None:
    parties = sorted(folder.root.iterdir())
    assert [path.name for path in parties] == ["analyzer", "client", "operator", "reader", "shuffler"]
    assert {mode(path) for path in parties} == {0o700}
    found = private_keys(folder.root)
    assert {folder.identity(role) for role in CORE_ROLES} < found
    assert len(found) == 8  # an identity and a TLS key for each of three parties, a reader's, and the authority's key
    assert {mode(path) for path in found} == {0o600}


def test_a_client_has_nothing_that_is_secret(folder: Folder) -> None:
    assert private_keys(folder.of("client")) == set()


def test_keys_that_are_made_later_are_private_too(folder: Folder, tmp_path: Path) -> None:
    before = private_keys(tmp_path)
    ran("identity", tmp_path / "mine.pem")
    (tmp_path / "certificates").mkdir(mode=0o700)
    authority = folder.of("operator")
    ran("certificate", "shuffler", "--authority", authority, "--out", tmp_path / "certificates")
    made = private_keys(tmp_path) - before
    assert len(made) == 2
    assert {mode(path) for path in made} == {0o600}


@pytest.mark.parametrize("store", [ShufflerStore, AnalyzerStore], ids=["shuffler", "analyzer"])
def test_stores_are_private_with_all_that_is_beside_them(
    store: type[ShufflerStore] | type[AnalyzerStore], tmp_path: Path
) -> None:
    store.create(tmp_path / "data")
    opened = store(tmp_path / "data")
    try:
        files = list((tmp_path / "data").iterdir())
        assert {path.suffix for path in files} >= {".db", ".db-wal", ".db-shm"}
        assert {mode(path) for path in files} == {0o600}
        assert mode(tmp_path / "data") == 0o700
    finally:
        opened.close()


def test_a_devices_state_file_is_private_with_all_that_is_beside_it(tmp_path: Path) -> None:
    connection = open_state(tmp_path / "state.db")
    try:
        connection.execute("INSERT INTO opted_out VALUES ('device')")
        files = list(tmp_path.iterdir())
        assert {path.name for path in files} == {"state.db", "state.db-wal", "state.db-shm"}
        assert {mode(path) & OTHERS for path in files} == {0}
    finally:
        close_state(connection)
