"""Logs of tests: keys that never change, documents that are only bytes, and a disk that syncs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from hubbub.deploy.transparency_log.append import LogDisk, add_documents, make_log
from hubbub.protos.identity.keys import Identity
from hubbub.protos.merkle import consistency_path, inclusion_path, leaf_hash, range_root, tree_of
from hubbub.protos.transparency_log.checkpoint import Checkpoint, SignedCheckpoint, TrustedLog
from hubbub.protos.transparency_log.proofs import ConsistencyProof, LoggedProof, SplitViewProof
from hubbub.protos.transparency_log.signed_notes import NoteKey, NoteRole
from hubbub.protos.transparency_log.tiles import LogFiles, NoSuchFile
from vectors.make_signed import identity

NAME = "stats.example/log"
LOG, OTHER = identity(21), identity(22)
WITNESSES = tuple(map(identity, (23, 24, 25)))
LOG_KEY = NoteKey(NAME, NoteRole.LOG, LOG.public)
WITNESS_KEYS = tuple(NoteKey(f"w{n}.example", NoteRole.WITNESS, each.public) for n, each in enumerate(WITNESSES))
TRUSTED = TrustedLog(LOG_KEY)
WITNESSED = TrustedLog(LOG_KEY, WITNESS_KEYS[:2], 2)
NOW = 1_700_000_000
_EIGHT = "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03"
_EIGHT_TOO = "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc"
WEAK_KEYS: Mapping[str, str] = {
    "the neutral point": "01" + "00" * 31,
    "the point of order 2": "ec" + "ff" * 30 + "7f",
    "a point of order 4": "00" * 32,
    "the other point of order 4": "00" * 31 + "80",
    "a point of order 8": _EIGHT + "7a",
    "a second point of order 8": _EIGHT + "fa",
    "a third point of order 8": _EIGHT_TOO + "05",
    "a fourth point of order 8": _EIGHT_TOO + "85",
    "the neutral point with the sign bit": "01" + "00" * 30 + "80",
    "the neutral point as y = p + 1": "ee" + "ff" * 30 + "7f",
    "the neutral point as y = p + 1, with the sign bit": "ee" + "ff" * 31,
    "the point of order 2 with the sign bit": "ec" + "ff" * 31,
    "a point of order 4 as y = p": "ed" + "ff" * 30 + "7f",
    "the other point of order 4 as y = p": "ed" + "ff" * 31,
}
"""Keys that anybody can sign with: each point whose order divides 8, in each of its forms (RFC 8032)."""


class MemoryDisk(LogDisk):
    """Syncs nothing, which takes most of the time."""

    def write(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)

    def sync(self, folder: Path) -> None:
        pass


def document(number: int) -> bytes:
    return b"document %d" % number


def log_of(folder: Path, *sizes: int, made: Callable[[int], bytes] = document, name: str = NAME) -> Path:
    """A log that grew to each of these sizes."""
    make_log(folder, name, LOG, MemoryDisk())
    before = 0
    for size in sizes:
        add_documents(folder, LOG, [made(number) for number in range(before, size)], MemoryDisk())
        before = size
    return folder


def with_witnesses(signed: SignedCheckpoint, many: int = 2) -> SignedCheckpoint:
    for key, each in list(zip(WITNESS_KEYS, WITNESSES, strict=True))[:many]:
        signed = signed.witnessed(key, each, NOW)
    return signed


def files_of(files: Mapping[str, bytes]) -> LogFiles:
    """A log's files in memory."""

    def read(path: str, most: int) -> bytes:
        if path not in files:
            raise NoSuchFile(f"the log has no file {path}")
        assert len(files[path]) <= most
        return files[path]

    return read


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder, by path."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def flipped(content: bytes, place: int, mask: int = 1) -> bytes:
    return content[:place] + bytes([content[place] ^ mask]) + content[place + 1 :]


def saved(identity: Identity, path: Path) -> Path:
    identity.save(path)
    return path


def vector_checkpoints() -> tuple[SignedCheckpoint, SignedCheckpoint, SignedCheckpoint]:
    """A log of 3 entries, the same with 5, and another one with 5; each signed by two witnesses."""
    found = []
    for documents in (range(3), range(5), range(1, 6)):
        root, _proofs = tree_of([leaf_hash(document(number)) for number in documents])
        checkpoint = Checkpoint(NAME, len(documents), root)
        found.append(with_witnesses(SignedCheckpoint.made(checkpoint, LOG)))
    return found[0], found[1], found[2]


def vector_proofs() -> tuple[LoggedProof, ConsistencyProof, SplitViewProof]:
    """A proof of each kind."""
    first, second, other = vector_checkpoints()

    def node(height: int, number: int, begins: int = 0) -> bytes:
        numbers = range(begins + (number << height), begins + ((number + 1) << height))
        return tree_of([leaf_hash(document(each)) for each in numbers])[0]

    def another(height: int, number: int) -> bytes:
        return node(height, number, 1)

    views = SplitViewProof(first, other, range_root(another, 0, 3), consistency_path(another, 3, 5))
    return (
        LoggedProof(3, inclusion_path(node, 3, 5), second),
        ConsistencyProof(first, second, consistency_path(node, 3, 5)),
        views,
    )
