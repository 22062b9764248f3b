"""A store is made by saying so, once; where none is there, or something else, it is refused and nothing is touched."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import typer

from hubbub.analyzer.stores.sqlite import AnalyzerSqliteStore as AnalyzerStore
from hubbub.cli.terminal.output import failures
from hubbub.client.errors import StateError
from hubbub.client.state.store import State
from hubbub.protos.sqlite_layout import APPLICATIONS
from hubbub.service.errors import StoreError
from hubbub.service.sqlite.files import create, unusable
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore as ShufflerStore
from hubbub.shuffler.stores.sqlite.schema import LAYOUT
from support.changed_stores import by_hand

Kind = type[ShufflerStore] | type[AnalyzerStore]
FILES: dict[Kind, str] = {ShufflerStore: "shuffler.db", AnalyzerStore: "analyzer.db"}
both = pytest.mark.parametrize("kind", FILES, ids=FILES.values())


def everything(folder: Path) -> dict[str, Any]:
    """What is in and under a folder: contents, links, folders."""
    return {
        str(path.relative_to(folder)): path.readlink() if path.is_symlink() else path.is_dir() or path.read_bytes()
        for path in folder.rglob("*")
    }


def refused(work: Callable[[], Any], folder: Path, words: str) -> None:
    before = everything(folder)
    with pytest.raises(StoreError, match=words):
        work()
    assert everything(folder) == before


@both
def test_a_store_that_was_made_opens_empty_and_for_its_owner_alone(kind: Kind, tmp_path: Path) -> None:
    made = kind.create(tmp_path / "new" / "data")
    assert made == tmp_path / "new" / "data" / FILES[kind]
    assert sorted(path.name for path in made.parent.iterdir()) == sorted(["lock", FILES[kind]])
    assert stat.S_IMODE(made.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in made.parent.iterdir()} == {0o600}
    for _ in range(2):
        kind(made.parent).close()


@both
@pytest.mark.parametrize("by_link", [False, True])
def test_a_folder_that_everyone_can_write_is_refused_also_by_a_link(kind: Kind, tmp_path: Path, by_link: bool) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    folder.chmod(0o777)
    data = tmp_path / "data" if by_link else folder
    if by_link:
        data.symlink_to(folder)
    words = rf"can be written by everyone \(mode 0777\).*chmod 700 {folder}`"
    refused(lambda: kind.create(data), tmp_path, words)
    folder.chmod(0o755)
    kind.create(data)
    folder.chmod(0o757)
    refused(lambda: kind(data), tmp_path, "mode 0757")
    folder.chmod(0o770)
    kind(data).close()


@both
@pytest.mark.parametrize("there", ["nothing", "an empty folder", "the lock"])
def test_a_store_that_is_missing_is_refused_and_nothing_is_made(kind: Kind, tmp_path: Path, there: str) -> None:
    data = tmp_path / "data"
    if there != "nothing":
        data.mkdir()
    if there == "the lock":
        (data / "lock").touch()
    refused(lambda: kind(data), tmp_path, r"there is no .*'s store: .* is missing.*volume.*--create-store")


@both
@pytest.mark.parametrize(("content", "words"), [(b"", r"is empty \(0 bytes\)"), ("no tables", "has no tables")])
def test_an_empty_file_is_a_store_that_was_lost(kind: Kind, tmp_path: Path, content: Any, words: str) -> None:
    path = tmp_path / FILES[kind]
    if content:
        with closing(by_hand(path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
    else:
        path.touch()
    refused(lambda: kind(tmp_path), tmp_path, f"{words}.*was lost.*in another folder")
    refused(lambda: kind.create(tmp_path), tmp_path, "exists, so nothing was created")


@both
def test_a_log_without_its_store_says_that_something_was_lost(kind: Kind, tmp_path: Path) -> None:
    (tmp_path / f"{FILES[kind]}-wal").write_bytes(b"the last commits")
    refused(lambda: kind(tmp_path), tmp_path, r"is missing, but \w+\.db-wal of it is there")
    refused(lambda: kind.create(tmp_path), tmp_path, r"db-wal belongs to a store that is missing; restore the store")


@both
def test_a_folder_or_a_file_in_the_wrong_place_is_named(kind: Kind, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")
    refused(lambda: kind(tmp_path / "data"), tmp_path, "is a file, not a folder")
    refused(lambda: kind.create(tmp_path / "data"), tmp_path, "cannot use the store in .*data")
    (tmp_path / "folder" / FILES[kind]).mkdir(parents=True)
    refused(lambda: kind(tmp_path / "folder"), tmp_path, "is not a file")
    (tmp_path / FILES[kind]).write_text("a text that is long enough for a header " * 10)
    refused(lambda: kind(tmp_path), tmp_path, "is not a file of this kind")


@pytest.mark.parametrize(("kind", "other"), [(ShufflerStore, AnalyzerStore), (AnalyzerStore, ShufflerStore)])
def test_the_other_service_s_store_is_told_apart(kind: Kind, other: Kind, tmp_path: Path) -> None:
    made = other.create(tmp_path)
    made.rename(tmp_path / FILES[kind])
    name = FILES[other].removesuffix(".db")
    refused(lambda: kind(tmp_path), tmp_path, f"is not the .* but the {name}'s store; nothing was touched")


def test_a_device_tells_a_service_s_store_apart(tmp_path: Path) -> None:
    made = ShufflerStore.create(tmp_path)
    before = everything(tmp_path)
    with (
        pytest.raises(StateError, match="is not the state file but the shuffler's store"),
        closing(State(made)) as state,
    ):
        state.forget(0)
    assert everything(tmp_path) == before


def test_a_store_beside_another_one_is_not_made(tmp_path: Path) -> None:
    AnalyzerStore.create(tmp_path)
    refused(lambda: ShufflerStore.create(tmp_path), tmp_path, r"analyzer\.db exists already.*a separate folder")


@both
def test_a_store_is_made_once(kind: Kind, tmp_path: Path) -> None:
    kind.create(tmp_path)
    refused(lambda: kind.create(tmp_path), tmp_path, "exists, so nothing was created.*remove it from the command")


def test_making_that_fails_leaves_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("hubbub.service.sqlite.files.bring_forward", full)
    with pytest.raises(StoreError, match="disk is full"):
        create(tmp_path, "shuffler.db", LAYOUT)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_what_an_interrupted_making_left_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "shuffler.db.new").write_bytes(b"half a store")
    ShufflerStore.create(tmp_path)
    ShufflerStore(tmp_path).close()
    assert not (tmp_path / "shuffler.db.new").exists()


def test_a_store_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ShufflerStore.create(tmp_path)

    def denied(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("hubbub.service.sqlite.files.os.open", denied)
    with pytest.raises(StoreError, match="lock: Permission denied; check the disk, the folder's owner"):
        ShufflerStore(made.parent)


def test_each_kind_of_file_has_an_application_id_of_its_own() -> None:
    assert len(set(APPLICATIONS.values())) == len(APPLICATIONS)


def damage(path: Path, first: int, what: bytes = b"\xff") -> None:
    content = path.read_bytes()
    path.write_bytes(content[:first] + what * (len(content) - first))


@both
@pytest.mark.parametrize("first", [100, 4096], ids=["schema", "tables"])
def test_a_damaged_store_is_named_and_is_not_to_be_repaired(kind: Kind, tmp_path: Path, first: int) -> None:
    damage(kind.create(tmp_path), first)
    says = rf"{FILES[kind]} is damaged \(.+\): keep the folder, and do not repair it or restore an old copy"
    for _ in range(2):  # the file is let go, and refused alike
        with pytest.raises(StoreError, match=says) as refusal:
            kind(tmp_path)
        assert "disk," not in str(refusal.value)


def test_rows_that_no_version_writes_are_damage(tmp_path: Path) -> None:
    path = ShufflerStore.create(tmp_path)
    with closing(by_hand(path)) as connection:
        connection.execute("INSERT INTO round (task, number, state) VALUES (x'00', 0, 'nonsense')")
        connection.commit()
    with pytest.raises(StoreError, match=r"shuffler\.db is damaged \('nonsense' is not a valid RoundState\)"):
        ShufflerStore(tmp_path)


def test_damage_that_no_store_named_gets_the_same_advice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database" * 100)
    with pytest.raises(typer.Exit), failures(as_json=False), closing(by_hand(tmp_path / "text")) as connection:
        connection.execute("SELECT * FROM round")
    said = capsys.readouterr().err
    assert "the store is damaged (file is not a database): keep the folder" in said
    assert "has room" not in said


def test_a_file_of_another_program_is_told_by_its_application_id(tmp_path: Path) -> None:
    path = ShufflerStore.create(tmp_path)
    with closing(by_hand(path)) as connection:
        connection.execute("PRAGMA application_id = 252006674")
    refused(lambda: ShufflerStore(tmp_path), tmp_path, "is not the .* but the file of another program.*0x0f055112")


@pytest.mark.parametrize(
    ("free", "flags", "words"),
    [
        (0, 0, "disk I/O error; its disk is full; make room"),
        (2**30, os.ST_RDONLY, "disk I/O error; its disk is mounted read-only; mount it"),
        (2**30, 0, "disk I/O error; check the disk, the folder's owner and its permissions"),
    ],
)
def test_a_disk_that_lets_no_store_be_opened_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, flags: int, words: str
) -> None:
    """SQLite says the same of all three."""

    class Disk:
        f_bavail, f_frsize, f_flag = free, 1, flags

    monkeypatch.setattr(os, "statvfs", lambda _folder: Disk)
    assert words in str(unusable(tmp_path / "shuffler.db", sqlite3.OperationalError("disk I/O error")))
