"""A transparency log after a power cut at any write or sync, and after SIGKILL: the old log or the new one, whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from simulation import disk

from hubbub.deploy.transparency_log.append import SIGNED, add_documents
from hubbub.protos.merkle import leaf_hash, tree_of
from hubbub.protos.transparency_log.signed_notes import LogError
from hubbub.protos.transparency_log.tiles import CHECKPOINT, entry_path, files_in, read_checkpoint, tree_of_log
from support.patience import PATIENCE
from support.transparency_logs import LOG, TRUSTED, MemoryDisk, document, files_of

TESTS = Path(__file__).parents[1]
SIZES = (2, 255, 258)
"""The log grows to each: within a tile, up to a full one, and beyond."""

PROGRAM = f"""
import sys
from pathlib import Path
from hubbub.deploy.transparency_log.append import add_documents, make_log
from support.transparency_logs import LOG, NAME, document
base = Path(sys.argv[1])
make_log(base / "log", NAME, LOG)
before = 0
for size in {SIZES}:
    add_documents(base / "log", LOG, [document(number) for number in range(before, size)])
    before = size
    with (base / "marks").open("a") as marks:
        marks.write(f"{{size}} ")
"""

ROOTS = {size: tree_of([leaf_hash(document(number)) for number in range(size)])[0] for size in SIZES}


def run(library: Path, folder: Path, **more: str) -> int:
    """Run the program under the tracer; its exit status."""
    (folder / "data").mkdir()
    environment = {
        **disk.environment(library, folder / "data", folder / "log", **more),
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder / "data")], env=environment, check=False, timeout=PATIENCE
    )
    return done.returncode


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return disk.build(tmp_path_factory.mktemp("library"))


def size_of(files: dict[str, bytes]) -> int:
    """The size of the log in these files, which give its checkpoint and each entry; -1 if there is none yet."""
    if CHECKPOINT not in files:
        return -1
    signed = read_checkpoint(files_of(files))
    signed.check(TRUSTED)
    if signed.size:
        assert signed.checkpoint.root == ROOTS[signed.size]
    tree = tree_of_log(files_of(files), signed)
    for index, leaf in enumerate(tree.leaf_hashes()):
        assert leaf_hash(files[entry_path(index)]) == leaf
    return signed.size


def test_after_a_power_cut_at_any_moment_what_was_added_is_there(library: Path, tmp_path: Path) -> None:
    assert run(library, tmp_path) == 0
    platter, promised, seen, cuts = disk.Platter(), -1, set(), 0
    for event in disk.events(tmp_path / "log"):
        platter.take(event)
        if event.path == "marks":
            promised = int(event.data.split()[-1]) if event.kind == "W" else promised
        if event.kind not in "SR" or not event.path.startswith("log"):
            continue
        files = {
            name.removeprefix("log/"): file.synced
            for name, file in platter.synced_names.items()
            if name.startswith("log/")
        }
        size = size_of(files)
        assert size >= promised, cuts
        seen.add(size)
        cuts += 1
    assert seen == {-1, 0, *SIZES}
    assert cuts > 2 * SIZES[-1]


@pytest.mark.parametrize("moment", ["after sync 9", "before write 20"])
def test_killed_it_is_whole_and_grows_on(library: Path, tmp_path: Path, moment: str) -> None:
    assert run(library, tmp_path, DISK_KILL=moment) == -9
    folder = tmp_path / "data" / "log"
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    before = size_of(files)
    assert before >= 0
    try:
        waiting = read_checkpoint(lambda _path, _most: files[SIGNED]).size
    except (KeyError, LogError):
        waiting = before
    added = add_documents(folder, LOG, [b"another"], MemoryDisk())
    assert added.signed.size == max(before, waiting) + 1
    assert tree_of_log(files_in(folder), added.signed).size == added.signed.size
