"""Proofs of a transparency log with a million entries: made from its files, each from the checkpoint on, and checked.

A run's figure is the 95th percentile of its proofs, in time of the processor: of a client that asks, not of the mean.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from row import Outcome, Row

from hubbub.deploy.transparency_log.append import grow, make_log
from hubbub.protos.merkle import is_consistent, leaf_hash
from hubbub.protos.transparency_log.checkpoint import Checkpoint, SignedCheckpoint
from hubbub.protos.transparency_log.proofs import LoggedProof
from hubbub.protos.transparency_log.tiles import CHECKPOINT, LogFiles, TileTree, files_in, read_checkpoint, tree_of_log
from support.transparency_logs import LOG, WITNESSED, MemoryDisk, with_witnesses

ENTRIES = 10**6
PROOFS = 200
"""Proofs of each kind in a run, at places that differ."""

RUNS = 5
LIMIT_MS = 1.0


def proofs() -> Iterator[Outcome]:
    """Inclusion, consistency, and the check of an inclusion with the signatures of a log and two witnesses."""
    with tempfile.TemporaryDirectory() as folder:
        files = _log_in(Path(folder) / "log")
        for name, work in (("log_inclusion", _inclusion), ("log_consistency", _consistency), ("log_check", _check)):
            chosen = random.Random(1)
            values = [_run(lambda: work(files, chosen.randrange(1, ENTRIES))) for _ in range(RUNS)]  # noqa: B023
            yield Row.of(name, "ms", values, LIMIT_MS)


def _log_in(folder: Path) -> LogFiles:
    """Make a log's tiles and its checkpoint; no proof reads an entry."""
    name = make_log(folder, "stats.example/log", LOG, MemoryDisk()).name
    files = files_in(folder)
    tree = tree_of_log(files, read_checkpoint(files))
    made = grow(folder, tree, [leaf_hash(_document(number)) for number in range(ENTRIES)], MemoryDisk())
    signed = with_witnesses(SignedCheckpoint.made(Checkpoint(name, *made), LOG))
    (folder / CHECKPOINT).write_bytes(signed.encode())
    return files


def _document(number: int) -> bytes:
    return b"document %d" % number


def _run(timed: Callable[[], float]) -> float:
    """Return the 95th percentile of a run, in milliseconds."""
    return 1000 * statistics.quantiles([timed() for _ in range(PROOFS)], n=20, method="inclusive")[-1]


def _opened(files: LogFiles) -> tuple[SignedCheckpoint, TileTree]:
    """Begin as a command does, with nothing that an earlier proof has read."""
    signed = read_checkpoint(files)
    return signed, tree_of_log(files, signed)


def _inclusion(files: LogFiles, index: int) -> float:
    started = time.process_time()
    _signed, tree = _opened(files)
    tree.inclusion(index)
    return time.process_time() - started


def _consistency(files: LogFiles, older: int) -> float:
    started = time.process_time()
    signed, tree = _opened(files)
    path = tree.consistency(older)
    seconds = time.process_time() - started
    if not is_consistent(older, signed.size, path, tree.root(older), signed.checkpoint.root):
        raise ValueError(f"the proof since {older} entries is wrong")
    return seconds


def _check(files: LogFiles, index: int) -> float:
    signed, tree = _opened(files)
    proof, document = LoggedProof(index, tree.inclusion(index), signed).encode(), _document(index)
    started = time.process_time()
    LoggedProof.decode(proof).check(document, WITNESSED)
    return time.process_time() - started


ROWS = (proofs,)
