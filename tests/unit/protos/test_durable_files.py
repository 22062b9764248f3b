"""What is written reaches the disk in the right order, and a failure leaves what was there."""

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

import pytest

from hubbub.deploy.files import save
from hubbub.protos.durable_files import (
    NoFolderLock,
    locked_folder,
    removed_if_failed,
    replacing,
    sync_folder,
    synced_file,
)
from hubbub.protos.identity.keys import write_private


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is synced and renamed, in order."""
    found: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        found.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "content")
        sync(descriptor)

    def renamed(path: Path, target: Path) -> Path:
        found.append("name")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    return found


def test_a_file_has_its_name_once_its_content_is_on_the_disk_and_then_the_name_is(
    tmp_path: Path, steps: list[str]
) -> None:
    save(tmp_path / "task.json", b"content")
    assert steps == ["content", "name", "folder"]
    steps.clear()
    save(tmp_path / "task.json", b"again")
    assert steps == ["content", "name", "folder"]
    assert (tmp_path / "task.json").read_bytes() == b"again"


def test_a_private_key_and_its_name_are_on_the_disk(tmp_path: Path, steps: list[str]) -> None:
    write_private(tmp_path / "key.pem", b"key")
    assert steps == ["content", "folder"]


def test_a_new_file_replaces_none_and_has_the_mode_given(tmp_path: Path) -> None:
    with synced_file(tmp_path / "new", 0o600) as file:
        file.write(b"first")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    with pytest.raises(FileExistsError), synced_file(tmp_path / "new"):
        pass
    assert (tmp_path / "new").read_bytes() == b"first"


def test_whatever_fails_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "earlier").write_bytes(b"earlier")
    for writing in (replacing(tmp_path / "earlier"), synced_file(tmp_path / "new")):
        with pytest.raises(TypeError), writing as file:
            file.write("no bytes")  # type: ignore[arg-type]
    # A folder in its place: the new file is whole by then, and cannot have the name.
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError), replacing(tmp_path / "folder") as file:
        file.write(b"whole")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["earlier", "folder"]
    assert (tmp_path / "earlier").read_bytes() == b"earlier"


def test_a_file_that_cannot_be_removed_is_named_beside_what_failed(tmp_path: Path) -> None:
    (tmp_path / "left").mkdir()
    with pytest.raises(ValueError, match="first") as failed, removed_if_failed(tmp_path / "left"):
        raise ValueError("first")
    assert [note for note in failed.value.__notes__ if "left, as it could not be removed" in note]


@pytest.mark.parametrize(
    ("number", "passes"), [(errno.EINVAL, True), (errno.ENOTSUP, True), (errno.EIO, False), (errno.ENOSPC, False)]
)
def test_a_folder_that_cannot_be_synced_is_passed_over_only_if_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, passes: bool
) -> None:
    def fails(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match=os.strerror(number)):
        sync_folder(tmp_path)
    with contextlib.nullcontext() if passes else pytest.raises(OSError, match=os.strerror(number)):
        sync_folder(tmp_path, required=False)


def test_one_at_a_time_works_in_a_folder(tmp_path: Path) -> None:
    for required in (True, False):
        second = locked_folder(tmp_path, wait=False, required=required)
        with locked_folder(tmp_path), pytest.raises(BlockingIOError), second:
            pass
    with pytest.raises(FileNotFoundError), locked_folder(tmp_path / "none", required=False):
        pass
    # Whatever ended, no lock is left.
    with pytest.raises(KeyboardInterrupt), locked_folder(tmp_path):
        raise KeyboardInterrupt
    with locked_folder(tmp_path, wait=False):
        pass


def test_where_no_folder_can_be_locked_only_what_requires_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def has_no_locks(_folder: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", has_no_locks)
    with pytest.raises(NoFolderLock, match="No locks available"), locked_folder(tmp_path):
        pass
    with locked_folder(tmp_path, required=False) as descriptor:
        assert os.path.samestat(os.fstat(descriptor), tmp_path.stat())
