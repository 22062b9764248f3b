"""A folder of entries is read in order: an older copy, a gap and a changed entry are refused, and nothing is lost."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hubbub.protos.task.feed.entry import LONGEST_ENTRY, FeedEntry, FeedError, FeedParties
from hubbub.protos.task.feed.feed import Feed
from hubbub.protos.task.feed.files import add_entry, feed_in, file_of, read_entries, stamp_of
from support.ended_with_test import started_program
from support.messages import NOT_A_FEED_ENTRY
from support.patience import PATIENCE, pause
from support.samples import Parties, sample_task, signed

PARTIES = Parties.generate()
TRUSTED = FeedParties(PARTIES.operator.public, PARTIES.shuffler.public)
TASKS = [signed(sample_task(PARTIES, name=name), PARTIES) for name in ("first", "second", "third")]


def both(entry: FeedEntry) -> FeedEntry:
    return entry.signed_by(PARTIES.operator).signed_by(PARTIES.shuffler)


def feed_of(count: int) -> Feed:
    feed = Feed()
    for task in TASKS[:count]:
        feed = feed.with_entry(both(feed.publishing(task)))
    return feed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for entry in feed_of(3).entries:
        add_entry(tmp_path, entry)
    return tmp_path


def numbers(folder: Path, taken: Feed) -> list[int]:
    return [entry.number for entry in read_entries(folder, taken)]


def test_what_is_new_is_read_in_order(folder: Path) -> None:
    assert feed_in(folder, TRUSTED) == feed_of(3)
    assert numbers(folder, Feed()) == [1, 2, 3]
    assert numbers(folder, feed_of(2)) == [3]
    assert numbers(folder, feed_of(3)) == []


def test_an_older_copy_is_refused(folder: Path) -> None:
    file_of(folder, 3).unlink()
    with pytest.raises(FeedError, match=r"000003.json is missing, but entries up to 3 were taken: .* older copy"):
        numbers(folder, feed_of(3))


@pytest.mark.parametrize("missing", [1, 2])
def test_a_gap_is_refused(folder: Path, missing: int) -> None:
    file_of(folder, missing).unlink()
    with pytest.raises(FeedError, match=rf"00000{missing}.json is missing, but .* is there: the feed has a gap"):
        numbers(folder, feed_of(missing - 1))


def test_another_entry_with_a_number_that_was_taken_is_refused(folder: Path) -> None:
    first, _ = feed_of(2).entries
    file_of(folder, 2).write_bytes(both(Feed((first,)).publishing(TASKS[2])).encode())
    with pytest.raises(FeedError, match=r"000002.json has another entry 2 than the one that was taken"):
        numbers(folder, feed_of(3))
    with pytest.raises(FeedError, match=r"000003.json: entry 3 of the feed does not follow the entry 2"):
        feed_in(folder, TRUSTED)


def test_swapped_files_are_refused(folder: Path) -> None:
    second, third = (file_of(folder, number).read_bytes() for number in (2, 3))
    file_of(folder, 2).write_bytes(third)
    file_of(folder, 3).write_bytes(second)
    with pytest.raises(FeedError, match=r"000002.json has entry 3 of the feed; name the file by the number"):
        numbers(folder, feed_of(1))


def test_one_signature_alone_is_refused_where_signatures_are_checked(folder: Path) -> None:
    entry = feed_of(3).ending(TASKS[0].task.id, 1).signed_by(PARTIES.operator)
    add_entry(folder, entry)
    assert feed_in(folder).position.number == 4
    with pytest.raises(FeedError, match=r"000004.json: entry 4 of the feed: the shuffler has not signed"):
        feed_in(folder, TRUSTED)


def test_a_truncated_file_a_huge_one_and_a_foreign_one_are_named(folder: Path) -> None:
    whole = file_of(folder, 3).read_bytes()
    for content, says in ((whole[:900], "not a feed entry"), (b"", "not a feed entry"), (b"task", "not a feed entry")):
        file_of(folder, 3).write_bytes(content)
        with pytest.raises(FeedError, match=rf"000003.json: {says}"):
            numbers(folder, feed_of(2))
    with file_of(folder, 3).open("wb") as file:
        file.truncate(LONGEST_ENTRY * 1000)  # no disk holds it
    with pytest.raises(FeedError, match=rf"000003.json: {NOT_A_FEED_ENTRY}: .* more than {LONGEST_ENTRY}"):
        numbers(folder, feed_of(2))
    file_of(folder, 3).write_bytes(whole)
    (folder / "copy.json").write_bytes(whole)
    with pytest.raises(FeedError, match=r"copy.json is not named .* 000001.json; move it elsewhere, or name"):
        numbers(folder, Feed())


PROGRAM = """
import os, signal, sys
from pathlib import Path
from hubbub.protos.task.feed import files

_, folder, *rest = sys.argv
if rest:
    step, entry = rest
    owner = {"fsync": os, "hardlink_to": Path, "unlink": Path, "sync_folder": files}[step]
    setattr(owner, step, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    files.add_entry(Path(folder), files.FeedEntry.decode(Path(entry).read_bytes()))
else:
    files.feed_in(Path(folder))
"""
"""Reads the feed of a folder, or adds an entry to it and is killed just before a step of that.

No fork of the tests' own process does: gRPC may abort there.
"""


def test_a_pipe_in_the_place_of_an_entry_is_refused_at_once(folder: Path) -> None:
    os.mkfifo(file_of(folder, 4))
    # In a process of its own, which is ended if it waits for somebody to write.
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert f"000004.json: {NOT_A_FEED_ENTRY}" in done.stderr


def test_a_folder_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match=r"cannot read .*none: No such file"):
        stamp_of(tmp_path / "none")
    file_of(tmp_path, 1).mkdir()
    with pytest.raises(FeedError, match=r"cannot read .*000001.json: Is a directory"):
        numbers(tmp_path, Feed())


def test_the_second_of_two_who_add_an_entry_changes_nothing(folder: Path) -> None:
    before = file_of(folder, 3).read_bytes()
    with pytest.raises(FeedError, match=r"000003.json is there already: somebody else added an entry"):
        add_entry(folder, both(feed_of(2).ending(TASKS[0].task.id, 1)))
    assert file_of(folder, 3).read_bytes() == before
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize(
    ("failure", "remedy"),
    [
        (errno.ENOSPC, "free space on its disk"),
        (errno.EROFS, "on a disk that can be written"),
        (errno.EACCES, "let this account write"),
    ],
)
def test_a_folder_that_cannot_be_written_is_left_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch, failure: int, remedy: str
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(failure, os.strerror(failure))

    before = stamp_of(folder)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(FeedError, match=f"cannot write .*000004.json: .*; .*{remedy}"):
        add_entry(folder, both(feed_of(3).ending(TASKS[0].task.id, 1)))
    assert (stamp_of(folder), len(list(folder.iterdir()))) == (before, 3)


def test_a_stamp_shows_every_change(folder: Path) -> None:
    stamps = [stamp_of(folder)]
    (folder / "notes.txt").write_text("not an entry")
    assert stamp_of(folder) == stamps[0]
    file_of(folder, 3).write_bytes(b"")
    stamps.append(stamp_of(folder))
    file_of(folder, 3).unlink()
    stamps.append(stamp_of(folder))
    assert len(set(stamps)) == 3


@pytest.mark.parametrize(("step", "is_there"), [("fsync", 0), ("hardlink_to", 0), ("unlink", 1), ("sync_folder", 1)])
def test_an_entry_is_there_whole_or_not_at_all_after_a_kill(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, step: str, is_there: int
) -> None:
    entry = tmp_path_factory.mktemp("entry") / "entry"
    entry.write_bytes(both(feed_of(3).ending(TASKS[0].task.id, 1)).encode())
    command = [sys.executable, "-c", PROGRAM, str(folder), step, str(entry)]
    assert subprocess.run(command, timeout=PATIENCE, check=False).returncode == -signal.SIGKILL
    found = feed_in(folder, TRUSTED)
    assert found.position.number == 3 + is_there
    # The next one who adds an entry is not in the way of what was left.
    if not is_there:
        add_entry(folder, both(found.ending(TASKS[0].task.id, 1)))
        assert feed_in(folder, TRUSTED).position.number == 4


def _has_no_links(_path: Path, _target: Path) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def test_a_file_system_without_links_has_each_entry_once_and_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "hardlink_to", _has_no_links)
    entry = both(feed_of(3).ending(TASKS[0].task.id, 1))
    for _ in range(2):  # it may be repeated
        add_entry(folder, entry)
    assert feed_in(folder, TRUSTED) == feed_of(3).with_entry(entry)
    before = file_of(folder, 4).read_bytes()
    with pytest.raises(FeedError, match=r"000004.json is there already: somebody else added an entry"):
        add_entry(folder, both(feed_of(3).ending(TASKS[1].task.id, 1)))
    assert (file_of(folder, 4).read_bytes(), len(list(folder.iterdir()))) == (before, 4)


def test_a_folder_that_has_neither_links_nor_locks_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def has_no_locks(_folder: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(Path, "hardlink_to", _has_no_links)
    monkeypatch.setattr(fcntl, "flock", has_no_locks)
    with pytest.raises(FeedError, match=r"000004.json: No locks available; this file system has neither links nor"):
        add_entry(folder, both(feed_of(3).ending(TASKS[0].task.id, 1)))
    assert files_in(folder) == 3


@pytest.mark.parametrize(("number", "is_refused"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_only_a_folder_that_can_be_synced_need_be(
    folder: Path, number: int, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def syncs_files(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", syncs_files)
    with pytest.raises(FeedError, match="cannot write") if is_refused else contextlib.nullcontext():
        add_entry(folder, both(feed_of(3).ending(TASKS[0].task.id, 1)))
    assert feed_in(folder, TRUSTED).position.number == 4


ADDING = """
import errno, sys
from pathlib import Path
from hubbub.protos.task.feed import files

def has_no_links(*_):
    raise OSError(errno.EPERM, "not permitted")

Path.hardlink_to = has_no_links
_, folder, entry = sys.argv
try:
    files.add_entry(Path(folder), files.FeedEntry.decode(Path(entry).read_bytes()))
except files.FeedError:
    sys.exit(3)
"""
"""Adds an entry where the file system has no links; it ends with 3 if that is refused."""


def files_in(folder: Path, ending: str = "") -> int:
    return sum(each.name.endswith(ending) for each in folder.iterdir())


async def test_of_two_who_add_an_entry_without_links_one_waits_and_changes_nothing(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    written = tmp_path_factory.mktemp("entries")
    for name, task in zip("ab", TASKS, strict=False):
        (written / name).write_bytes(both(feed_of(3).ending(task.task.id, 1)).encode())
    # Both are at the lock, as this process has it.
    held = os.open(folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with contextlib.ExitStack() as ended:
        adding = [
            ended.enter_context(started_program([sys.executable, "-c", ADDING, str(folder), str(written / name)]))
            for name in "ab"
        ]
        while files_in(folder, ".partial") < 2:
            await pause()
        assert not file_of(folder, 4).exists()
        os.close(held)
        assert sorted(each.wait(PATIENCE) for each in adding) == [0, 3]
    assert feed_in(folder, TRUSTED).position.number == files_in(folder) == 4
