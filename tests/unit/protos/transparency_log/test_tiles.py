"""A log's files are read as the tree that they are, in the layout that other logs have."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.protos.errors import HubbubError
from hubbub.protos.merkle import is_consistent, leaf_hash, tree_of
from hubbub.protos.transparency_log.checkpoint import SignedCheckpoint
from hubbub.protos.transparency_log.proving import find_leaves
from hubbub.protos.transparency_log.signed_notes import LogError
from hubbub.protos.transparency_log.tiles import (
    CHECKPOINT,
    NoSuchFile,
    TileTree,
    entry_path,
    files_in,
    read_checkpoint,
    tile_path,
    tree_of_log,
)
from support.transparency_logs import contents, document, files_of, flipped, log_of

SIZES = (1, 2, 255, 256, 257, 511, 513, 700)


def tiles_of(size: int) -> dict[str, bytes]:
    """The tiles of a log, made another way than logs make them: from the definition of C2SP's page."""
    files, row, level = {}, [leaf_hash(document(number)) for number in range(size)], 0
    while row:
        for number in range(-(-len(row) // 256)):
            tile = row[number * 256 : number * 256 + 256]
            files[tile_path(level, number, len(tile))] = b"".join(tile)
        row = [tree_of(row[start : start + 256])[0] for start in range(0, len(row) - 255, 256)]
        level += 1
    return files


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (tile_path(0, 0), "tile/0/000"),
        (tile_path(1, 5, 3), "tile/1/005.p/3"),
        (tile_path(0, 1234067), "tile/0/x001/x234/067"),
        (tile_path(0, 1000, 255), "tile/0/x001/000.p/255"),
        (entry_path(1234067), "entry/x001/x234/067.json"),
        (entry_path(999), "entry/999.json"),
    ],
)
def test_paths_are_those_of_other_logs(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize("size", SIZES)
def test_a_tree_has_the_root_and_the_paths_of_its_leaves(size: int) -> None:
    tree = TileTree(files_of(tiles_of(size)), size)
    root, proofs = tree_of([leaf_hash(document(number)) for number in range(size)])
    assert tree.root() == root
    assert list(tree.leaf_hashes()) == [leaf_hash(document(number)) for number in range(size)]
    for index in {0, 1 % size, size // 2, max(0, size - 2), size - 1}:
        assert tree.inclusion(index) == proofs[index].path
    for older in sorted({1, 255, 256, 257, size // 2, size - 1, size} - {0}):
        if older <= size:
            assert is_consistent(older, size, tree.consistency(older), tree.root(older), root)


def test_a_reader_of_an_older_checkpoint_finds_the_full_tile_where_the_partial_one_was() -> None:
    older, files = TileTree(files_of(tiles_of(200)), 200).root(), tiles_of(300)
    assert tile_path(0, 0, 200) not in files
    assert TileTree(files_of(files), 200).root() == older


def test_a_file_that_is_missing_or_has_another_length_is_named() -> None:
    files = tiles_of(300)
    path = tile_path(0, 1, 44)
    with pytest.raises(NoSuchFile, match=r"tile/0/001"):
        TileTree(files_of({name: each for name, each in files.items() if name != path}), 300).root()
    with pytest.raises(LogError, match=r"tile/0/001.p/44 has 1407 bytes, not 1408: it was cut or changed"):
        TileTree(files_of(files | {path: files[path][:-1]}), 300).root()


def test_a_folder_s_files_are_read_up_to_their_length(tmp_path: Path) -> None:
    read = files_in(tmp_path)
    (tmp_path / "a").write_bytes(b"1234")
    assert read("a", 4) == b"1234"
    with pytest.raises(LogError, match=r"the log's file a has more than 3 bytes: it was changed"):
        read("a", 3)
    with pytest.raises(NoSuchFile, match=r"the log has no file .*/b; name the whole folder of the log"):
        read("b", 3)
    with pytest.raises(NoSuchFile):
        read("a/b", 3)
    (tmp_path / "folder").mkdir()
    with pytest.raises(HubbubError, match=r"cannot read .*folder: Is a directory; name the folder of a log"):
        read("folder", 3)


def test_files_that_do_not_give_the_signed_root_are_refused(tmp_path: Path) -> None:
    files = contents(log_of(tmp_path / "log", 300))
    signed = read_checkpoint(files_of(files))
    assert tree_of_log(files_of(files), signed).size == 300
    for path in ("tile/1/000.p/1", "tile/0/001.p/44"):
        with pytest.raises(LogError, match=r"the log's files do not give the root of its checkpoint of 300 entries"):
            tree_of_log(files_of(files | {path: flipped(files[path], 7)}), signed)
    assert SignedCheckpoint.decode(files[CHECKPOINT]) == signed


def test_leaves_are_found_at_their_first_place() -> None:
    tree = TileTree(files_of(tiles_of(300)), 300)
    leaves = [leaf_hash(document(number)) for number in (299, 0, 256, 999)]
    assert find_leaves(tree, leaves) == {leaves[0]: 299, leaves[1]: 0, leaves[2]: 256}
