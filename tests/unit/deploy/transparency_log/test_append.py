"""A log only grows, whole: killed at any step it is the old one or the new one, and signs no second view."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.deploy.errors import NotWritten
from hubbub.deploy.transparency_log.append import (
    PARTIAL,
    SIGNED,
    SIGNING,
    LogDisk,
    add_documents,
    add_signatures,
    make_log,
)
from hubbub.protos.errors import UsageError
from hubbub.protos.merkle import EMPTY_ROOT, is_consistent, leaf_hash, tree_of
from hubbub.protos.transparency_log.checkpoint import Checkpoint, SignedCheckpoint
from hubbub.protos.transparency_log.signed_notes import LONGEST_NOTE, MOST_SIGNATURES, LogError, NoteSignature
from hubbub.protos.transparency_log.tiles import CHECKPOINT, entry_path, files_in, read_checkpoint, tree_of_log
from support.messages import HAS_NOT_SIGNED_CHECKPOINT
from support.patience import PATIENCE
from support.transparency_logs import (
    LOG,
    LOG_KEY,
    NAME,
    NOW,
    OTHER,
    TRUSTED,
    WITNESS_KEYS,
    WITNESSES,
    MemoryDisk,
    contents,
    document,
    flipped,
    log_of,
)


class Killed(BaseException):
    """The process is gone."""


class DyingDisk(MemoryDisk):
    """Dies before a step, or in the midst of a write; nothing is done after that."""

    def __init__(self, steps: int, torn: bool = False) -> None:
        self.left = steps
        self.torn = torn

    def _step(self) -> bool:
        self.left -= 1
        return self.left < 0

    def write(self, path: Path, content: bytes) -> None:
        if self._step():
            if self.torn:
                path.write_bytes(content[: len(content) // 2])
            raise Killed
        super().write(path, content)

    def rename(self, partial: Path, path: Path) -> None:
        if self._step():
            raise Killed
        super().rename(partial, path)

    def sync(self, folder: Path) -> None:
        if self._step():
            raise Killed
        super().sync(folder)

    def make(self, folder: Path) -> None:
        if self._step():
            raise Killed
        super().make(folder)

    def remove(self, path: Path) -> None:
        if self._step():
            raise Killed
        super().remove(path)


def state(folder: Path) -> SignedCheckpoint:
    """The log's checkpoint; its files give it, and its entries are those of its tree."""
    files = files_in(folder)
    signed = read_checkpoint(files)
    signed.check(TRUSTED)
    tree = tree_of_log(files, signed)
    for index, leaf in enumerate(tree.leaf_hashes()):
        assert leaf_hash((folder / entry_path(index)).read_bytes()) == leaf
    return signed


def test_a_new_log_is_empty_and_signed(tmp_path: Path) -> None:
    assert make_log(tmp_path / "a" / "log", NAME, LOG) == LOG_KEY
    signed = state(tmp_path / "a" / "log")
    assert (signed.size, signed.checkpoint.root) == (0, EMPTY_ROOT)
    with pytest.raises(UsageError, match=r"log is not empty, and a log is made in an empty folder"):
        make_log(tmp_path / "a" / "log", NAME, LOG)
    with pytest.raises(LogError, match=r"is no name of a log"):
        make_log(tmp_path / "b", "two words", LOG)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("sizes", [(1,), (255, 256), (256, 257), (300, 513), (1, 2, 3, 260), (700,)])
def test_however_it_grew_it_has_the_tree_of_its_documents(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    folder = log_of(tmp_path / "log", *sizes)
    assert state(folder).checkpoint.root == tree_of([leaf_hash(document(n)) for n in range(sizes[-1])])[0]
    partial = [path for path in contents(folder) if ".p/" in path and path.startswith("tile/0/")]
    assert all(int(path.rpartition("/")[2]) <= sizes[-1] % 256 for path in partial if "000.p" not in path)


@settings(max_examples=25)
@given(st.lists(st.integers(1, 200), min_size=1, max_size=4))
def test_any_growth_is_consistent_with_every_earlier_checkpoint(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int]
) -> None:
    folder = make_folder(tmp_path_factory)
    signed, number = [state(folder)], 0
    for step in steps:
        added = add_documents(folder, LOG, [document(number + n) for n in range(step)], MemoryDisk())
        assert added.indices == tuple(range(number, number + step))
        number += step
        signed.append(added.signed)
    tree = tree_of_log(files_in(folder), signed[-1])
    for each in signed:
        point = each.checkpoint
        assert tree.root(each.size) == point.root
        path = tree.consistency(each.size)
        assert is_consistent(each.size, tree.size, path, point.root, signed[-1].checkpoint.root)
    shutil.rmtree(folder)


def make_folder(factory: pytest.TempPathFactory) -> Path:
    return log_of(factory.mktemp("log"))


def test_a_document_is_added_once(tmp_path: Path) -> None:
    folder = log_of(tmp_path / "log", 3)
    before = contents(folder)
    again = add_documents(folder, LOG, [document(2), document(0)], MemoryDisk())
    assert (again.indices, again.new) == ((2, 0), 0)
    assert contents(folder) == before
    more = add_documents(folder, LOG, [document(1), document(9), document(9)], MemoryDisk())
    assert (more.indices, more.new, more.signed.size) == ((1, 3, 3), 1, 4)


def test_another_key_s_log_is_not_changed(tmp_path: Path) -> None:
    folder = log_of(tmp_path / "log", 3)
    before = contents(folder)
    with pytest.raises(LogError, match=HAS_NOT_SIGNED_CHECKPOINT):
        add_documents(folder, OTHER, [document(9)])
    assert contents(folder) == before


def test_a_log_whose_files_were_changed_does_not_grow(tmp_path: Path) -> None:
    folder = log_of(tmp_path / "log", 3)
    tile = folder / "tile/0/000.p/3"
    tile.write_bytes(bytes(96))
    with pytest.raises(LogError, match=r"the log's files do not give the root of its checkpoint"):
        add_documents(folder, LOG, [document(9)])
    assert read_checkpoint(files_in(folder)).size == 3


@pytest.mark.parametrize(("before", "after", "torn"), [(0, 2, False), (3, 5, False), (3, 5, True), (255, 258, False)])
def test_killed_at_any_step_it_is_the_old_or_the_new_log(tmp_path: Path, before: int, after: int, torn: bool) -> None:
    """What a reader sees, and what the next change makes of it: never a second tree of a size that was signed."""
    new = [document(number) for number in range(before, after)]
    start = log_of(tmp_path / "start", *((before,) if before else ()))
    roots = {before: state(start).checkpoint.root}
    roots[after] = tree_of([leaf_hash(document(n)) for n in range(after)])[0]
    steps = 0
    while True:
        # Links do: a log never writes into a file that it has.
        folder = shutil.copytree(start, tmp_path / "log", copy_function=os.link)
        disk = DyingDisk(steps, torn)
        with contextlib.suppress(Killed):
            add_documents(folder, LOG, new, disk)
        seen = state(folder)
        assert seen.checkpoint.root == roots[seen.size], steps
        signed_by_now = _signed_sizes(folder)
        # Something else is added next, by a process that knows nothing of the first.
        other = add_documents(folder, LOG, [b"another"], MemoryDisk()).signed
        if signed_by_now == {before}:
            assert other.size == before + 1
        else:
            assert other.size == after + 1, steps
        now = state(folder)
        tree = tree_of_log(files_in(folder), now)
        for size in signed_by_now:
            assert tree.root(size) == roots[size], steps
        assert not list(folder.rglob(".*"))
        shutil.rmtree(folder)
        if disk.left >= 0:
            break
        steps += 1
    assert steps > 8


def _signed_sizes(folder: Path) -> set[int]:
    """The sizes of all checkpoints in a folder that the log has signed, under whatever name."""
    sizes = set()
    for path in folder.iterdir():
        if path.is_file():
            try:
                signed = SignedCheckpoint.decode(path.read_bytes())
                signed.check(TRUSTED)
            except LogError:
                continue
            sizes.add(signed.size)
    return sizes


def _longer(folder: Path) -> bytes:
    """The checkpoint of 5 entries of the log that has 3 in `log_of(…, 3)`."""
    return (log_of(folder / "longer", 3, 5) / CHECKPOINT).read_bytes()


def test_a_checkpoint_that_a_kill_cut_short_while_it_was_written_is_removed(tmp_path: Path) -> None:
    folder = log_of(tmp_path / "log", 3)
    (folder / SIGNING).write_bytes(_longer(tmp_path)[:-10])
    assert add_documents(folder, LOG, [document(9)], MemoryDisk()).signed.size == 4
    assert not (folder / SIGNING).exists()


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _note: b"",
    "cut": lambda note: note[:-10],
    "zeros": lambda note: bytes(len(note)),
    "too long": lambda _note: bytes(LONGEST_NOTE + 1),
    "text flipped": lambda note: flipped(note, 20),
    "signature flipped": lambda note: flipped(note, len(note) - 20),
    "another log's": lambda _note: SignedCheckpoint.made(Checkpoint("other.example", 5, bytes(32)), LOG).encode(),
    "another key's": lambda note: SignedCheckpoint.made(SignedCheckpoint.decode(note).checkpoint, OTHER).encode(),
    "another view": lambda _note: SignedCheckpoint.made(Checkpoint(NAME, 3, bytes(32)), LOG).encode(),
    "an older view": lambda _note: SignedCheckpoint.made(Checkpoint(NAME, 2, bytes(32)), LOG).encode(),
    "without its files": lambda note: note,
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_what_was_signed_and_cannot_be_used_is_never_passed_over(tmp_path: Path, damage: str) -> None:
    """Somebody may have seen it: with another tree of its size, the log would have shown two views."""
    folder = log_of(tmp_path / "log", 3)
    (folder / SIGNED).write_bytes(DAMAGED[damage](_longer(tmp_path)))
    before = contents(folder)
    for _ in range(2):
        with pytest.raises(LogError, match=r"\.signed cannot be used: .*until you restore it .* ask mirrors and"):
            add_documents(folder, LOG, [document(9)], MemoryDisk())
        assert contents(folder) == before
    # As the message says, if nobody has seen a newer one.
    (folder / SIGNED).unlink()
    assert add_documents(folder, LOG, [document(9)], MemoryDisk()).signed.size == 4


@pytest.mark.parametrize("size", [2, 3])
def test_what_was_signed_and_has_been_followed_already_is_removed(tmp_path: Path, size: int) -> None:
    folder = log_of(tmp_path / "log", 3)
    (folder / SIGNED).write_bytes((log_of(tmp_path / "older", size) / CHECKPOINT).read_bytes())
    assert add_documents(folder, LOG, [document(9)], MemoryDisk()).signed.size == 4
    assert not (folder / SIGNED).exists()


@pytest.mark.parametrize("damage", ["empty", "cut", "zeros", "too long", "text flipped", "signature flipped"])
def test_a_log_whose_checkpoint_was_damaged_does_not_grow(tmp_path: Path, damage: str) -> None:
    folder = log_of(tmp_path / "log", 3)
    (folder / CHECKPOINT).write_bytes(DAMAGED[damage]((folder / CHECKPOINT).read_bytes()))
    before = contents(folder)
    with pytest.raises(LogError, match=r"checkpoint cannot be used.*never an older|of log stats.example/log is wrong"):
        add_documents(folder, LOG, [document(9)])
    assert contents(folder) == before


@pytest.mark.parametrize("change", [lambda _tile: b"", lambda tile: tile[:-1], lambda tile: flipped(tile, 40)])
def test_a_document_is_not_added_again_because_a_tile_below_the_edge_was_damaged(
    tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    """The checkpoint's root does not cover a full tile's own hashes, and document 1 would not be found in it."""
    folder = log_of(tmp_path / "log", 300)
    tile = folder / "tile/0/000"
    tile.write_bytes(change(tile.read_bytes()))
    before = contents(folder)
    with pytest.raises(LogError, match=r"tile/0/000 (has \d+ bytes, not 8192|does not give the hash above it)"):
        add_documents(folder, LOG, [document(1)], MemoryDisk())
    assert contents(folder) == before


def test_what_killed_processes_were_writing_is_removed_by_the_next_change(tmp_path: Path) -> None:
    """Whatever the next change is; nothing else that is hidden is removed, such as what another program writes."""
    folder = log_of(tmp_path / "log", 3)
    other = folder / ".hubbub-0123456789abcdef.partial"
    other.write_bytes(b"of `hubbub log prove --out`")
    signed = state(folder).witnessed(WITNESS_KEYS[0], WITNESSES[0], NOW).encode()
    changes: tuple[Callable[[], object], ...] = (
        lambda: add_documents(folder, LOG, [document(0)], MemoryDisk()),
        lambda: add_signatures(folder, signed, WITNESS_KEYS, MemoryDisk()),
    )
    for change in changes:
        (folder / PARTIAL.format("00")).write_bytes(b"half")
        change()
        assert [path.name for path in folder.glob(".*")] == [other.name]
    (made := tmp_path / "new").mkdir()
    (made / PARTIAL.format("00")).write_bytes(b"half")
    make_log(made, NAME, LOG, MemoryDisk())
    assert [path.name for path in made.iterdir()] == [CHECKPOINT]


def test_what_a_living_process_is_writing_stays(tmp_path: Path) -> None:
    """It has locked the folder, and others wait."""
    folder, writing, end = log_of(tmp_path / "log", 3), threading.Event(), threading.Event()

    class Slow(MemoryDisk):
        def rename(self, partial: Path, path: Path) -> None:
            writing.set()
            assert end.wait(PATIENCE)
            super().rename(partial, path)

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(add_documents, folder, LOG, [document(3)], Slow())
        assert writing.wait(PATIENCE)
        assert len(list(folder.glob(PARTIAL.format("*")))) == 1
        descriptor = os.open(folder, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
        second = threads.submit(add_documents, folder, LOG, [document(4)], MemoryDisk())
        end.set()
        assert (first.result(PATIENCE).indices, second.result(PATIENCE).indices) == ((3,), (4,))


def test_a_full_disk_leaves_the_old_log_and_nothing_else(tmp_path: Path) -> None:
    class Full(MemoryDisk):
        writes = 0

        def write(self, path: Path, content: bytes) -> None:
            Full.writes += 1
            if Full.writes == 3:
                raise OSError(errno.ENOSPC, "No space left on device")
            super().write(path, content)

    folder = log_of(tmp_path / "log", 3)
    with pytest.raises(NotWritten, match=r"log cannot be written: No space left on device; free space"):
        add_documents(folder, LOG, [document(9)], Full())
    assert state(folder).size == 3
    assert add_documents(folder, LOG, [document(9)], LogDisk()).signed.size == 4


def test_more_signatures_than_anybody_reads_are_not_added(tmp_path: Path) -> None:
    folder = log_of(tmp_path / "log", 2)
    signed = read_checkpoint(files_in(folder))
    for number in range(MOST_SIGNATURES - 1):
        signed = signed.with_signature(NoteSignature(f"stranger{number}", b"1234", bytes(64)))
    (folder / CHECKPOINT).write_bytes(signed.encode())
    note = SignedCheckpoint.made(signed.checkpoint, LOG).witnessed(WITNESS_KEYS[0], WITNESSES[0], NOW).encode()
    with pytest.raises(LogError, match=r"at most 64 signatures and 65536 bytes, and this would have 65 and \d+"):
        add_signatures(folder, note, WITNESS_KEYS, MemoryDisk())
    assert read_checkpoint(files_in(folder)) == signed


def test_signatures_of_known_witnesses_go_into_the_newest_checkpoint(tmp_path: Path) -> None:
    folder = log_of(tmp_path / "log", 3)
    signed = state(folder)
    notes = [signed.witnessed(key, each, NOW).encode() for key, each in zip(WITNESS_KEYS, WITNESSES, strict=True)]
    for note in notes[:2]:
        add_signatures(folder, note, WITNESS_KEYS)
    assert state(folder).check(TRUSTED) == {}
    names = [each.name for each in state(folder).signatures]
    assert names == [NAME, "w0.example", "w1.example"]
    with pytest.raises(LogError, match=r"none of the witnesses given has signed it; give the key of the one that did"):
        add_signatures(folder, notes[2], WITNESS_KEYS[:1])
    wrong = signed.witnessed(WITNESS_KEYS[0], OTHER, NOW).encode()
    with pytest.raises(LogError, match=r"the signature of witness w0.example is wrong"):
        add_signatures(folder, wrong, WITNESS_KEYS)
    add_documents(folder, LOG, [document(3)], MemoryDisk())
    with pytest.raises(LogError, match=r"a checkpoint of 3 entries of log stats.example/log, and not the newest"):
        add_signatures(folder, notes[0], WITNESS_KEYS)
    assert [each.name for each in state(folder).signatures] == [NAME]
