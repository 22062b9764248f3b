"""Reads, writes and checks what a log proves: that a document is in it, that it only grew, that it showed two views.

The first has the form of C2SP (c2sp.org/tlog-proof). The others have no form there, so they have one like it. Each has
everything that a check needs but the keys, so that it is checked without the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from hubbub.protos.errors import SignatureError
from hubbub.protos.merkle import NODE_BYTES, InclusionProof, is_consistent, leaf_hash
from hubbub.protos.transparency_log.checkpoint import SignedCheckpoint, TrustedLog
from hubbub.protos.transparency_log.signed_notes import LONGEST_NOTE, LogError, hash_in, hash_line

INCLUSION = "c2sp.org/tlog-proof@v1"
"""The first line of a proof that a document is in a log."""

CONSISTENCY = "hubbub-growth/1"
"""The first line of a proof that a log only grew between two checkpoints."""

VIEWS = "hubbub-views/1"
"""The first line of two checkpoints of a log that contradict each other."""

LONGEST_PROOF = 3 * LONGEST_NOTE
"""Bytes of a proof at most: two checkpoints and some hashes."""

_DIGITS = 20
_GIVE = "give the file as `hubbub log` wrote it"


@dataclass(frozen=True)
class LoggedProof:
    """That the document with the leaf at `index` is in the log of a checkpoint; `hashes` are beside its way, in one."""

    index: int
    hashes: bytes
    signed: SignedCheckpoint

    def encode(self) -> bytes:
        """Return its bytes."""
        return _head(INCLUSION, f"index {self.index}", *_lines(self.hashes)) + self.signed.encode()

    @classmethod
    def decode(cls, document: bytes) -> LoggedProof:
        """Read what `encode` wrote; nothing of it is checked yet.

        Raises:
            LogError: if it is none.
        """
        lines, rest = _parted(document, INCLUSION)
        digits = lines[0].removeprefix("index ") if lines else ""
        if not digits.isascii() or not digits.isdigit() or len(digits) > _DIGITS:
            raise LogError(f"not a proof: its second line names no entry; {_GIVE}")
        return _as_written(cls(int(digits), _path(lines[1:]), SignedCheckpoint.decode(rest)), document)

    def check(self, document: bytes, trusted: TrustedLog) -> Mapping[str, int]:
        """Check that a document is in the log, and who signed; return when each witness signed, by name.

        Raises:
            LogError: if it is not, or the proof is of another log, or too few witnesses signed.
        """
        times = self.signed.check(trusted)
        try:
            root = InclusionProof(self.index, self.signed.size, self.hashes).root(leaf_hash(document))
        except SignatureError as error:
            raise LogError(f"the proof is not one of its checkpoint: {error}") from error
        if root != self.signed.checkpoint.root:
            raise LogError(
                f"the document is not entry {self.index} of the log {trusted.log.name}: it was changed, or the proof "
                "is of another one; give the document that was logged, with its own proof"
            )
        return times


@dataclass(frozen=True)
class ConsistencyProof:
    """That the log of the `newer` checkpoint begins with all entries of the `older` one; `hashes` show it."""

    older: SignedCheckpoint
    newer: SignedCheckpoint
    hashes: bytes

    def encode(self) -> bytes:
        """Return its bytes."""
        return _head(CONSISTENCY, *_lines(self.hashes)) + self.older.encode() + b"\n" + self.newer.encode()

    @classmethod
    def decode(cls, document: bytes) -> ConsistencyProof:
        """Read what `encode` wrote; nothing of it is checked yet.

        Raises:
            LogError: if it is none.
        """
        lines, rest = _parted(document, CONSISTENCY)
        return _as_written(cls(*_two(rest), _path(lines)), document)

    def check(self, trusted: TrustedLog) -> Mapping[str, int]:
        """Check both checkpoints and the proof; return when each witness signed the newer one, by name.

        Raises:
            LogError: if one is not signed, or the newer one does not follow from the older one by the proof.
        """
        self.older.check(TrustedLog(trusted.log, trusted.witnesses))
        times = self.newer.check(trusted)
        older, newer = self.older.checkpoint, self.newer.checkpoint
        if not is_consistent(older.size, newer.size, self.hashes, older.root, newer.root):
            raise LogError(
                f"the proof does not show that the log's {newer.size} entries begin with the {older.size} of the other "
                "checkpoint: it was changed, or the log shows two views; have `hubbub log witness` look at the log"
            )
        return times


@dataclass(frozen=True)
class SplitViewProof:
    """Two signed checkpoints of a log, of which the newer one was not seen to follow from the older one.

    If `root` is given, `hashes` show that the newer tree begins with another tree of the older one's size, which has
    that root. Both checkpoints together with this prove that the log showed two views.
    """

    older: SignedCheckpoint
    newer: SignedCheckpoint
    root: bytes | None = None
    hashes: bytes = b""

    def encode(self) -> bytes:
        """Return its bytes."""
        roots = [] if self.root is None else [f"root {hash_line(self.root)}"]
        return _head(VIEWS, *roots, *_lines(self.hashes)) + self.older.encode() + b"\n" + self.newer.encode()

    @classmethod
    def decode(cls, document: bytes) -> SplitViewProof:
        """Read what `encode` wrote; nothing of it is checked yet.

        Raises:
            LogError: if it is none.
        """
        lines, rest = _parted(document, VIEWS)
        root = _path([lines.pop(0).removeprefix("root ")]) if lines and lines[0].startswith("root ") else None
        return _as_written(cls(*_two(rest), root, _path(lines)), document)

    @property
    def is_proven(self) -> bool:
        """Whether the two contradict each other, whatever the log says; their signatures are still to be checked."""
        older, newer = self.older.checkpoint, self.newer.checkpoint
        if self.root is None or self.root == older.root:
            return False
        return is_consistent(older.size, newer.size, self.hashes, self.root, newer.root)

    def check(self, trusted: TrustedLog) -> None:
        """Check that the log signed both.

        Raises:
            LogError: if it did not.
        """
        for each in (self.older, self.newer):
            each.check(TrustedLog(trusted.log))


AnyProof = LoggedProof | ConsistencyProof | SplitViewProof
_P = TypeVar("_P", LoggedProof, ConsistencyProof, SplitViewProof)
_FORMS: Mapping[str, type[AnyProof]] = {INCLUSION: LoggedProof, CONSISTENCY: ConsistencyProof, VIEWS: SplitViewProof}


def read_proof(document: bytes) -> AnyProof:
    """Return the proof in a file, by its first line; nothing of it is checked yet.

    Raises:
        LogError: if it is none.
    """
    first = document[:100].split(b"\n")[0].decode(errors="replace")
    if first not in _FORMS:
        raise LogError(f"not a proof of a log: its first line is none of {', '.join(_FORMS)}; {_GIVE}")
    return _FORMS[first].decode(document)


def _as_written(found: _P, document: bytes) -> _P:
    # Written again, it is the same: so nothing in it is ignored.
    if found.encode() != document:
        raise LogError(f"not a proof in its one form; {_GIVE}")
    return found


def _head(*lines: str) -> bytes:
    return ("\n".join(lines) + "\n\n").encode()


def _parted(document: bytes, form: str) -> tuple[list[str], bytes]:
    """Return the lines of a proof below its first one, and what follows them."""
    head, separator, rest = document[:LONGEST_PROOF].partition(b"\n\n")
    lines = head.decode(errors="replace").split("\n")
    if not separator or lines[0] != form or len(document) > LONGEST_PROOF:
        raise LogError(f"not a proof: it does not begin with {form}, or is not whole; {_GIVE}")
    return lines[1:], rest


def _two(notes: bytes) -> tuple[SignedCheckpoint, SignedCheckpoint]:
    """Return the two checkpoints in a text: each is two parts, as no part has an empty line within."""
    parts = notes.split(b"\n\n")
    if len(parts) != 4:
        raise LogError(f"not a proof: it does not have two signed checkpoints; {_GIVE}")
    older = b"\n\n".join(parts[:2]) + b"\n"
    return SignedCheckpoint.decode(older), SignedCheckpoint.decode(b"\n\n".join(parts[2:]))


def _lines(path: bytes) -> list[str]:
    return [hash_line(path[start : start + NODE_BYTES]) for start in range(0, len(path), NODE_BYTES)]


def _path(lines: list[str]) -> bytes:
    try:
        return b"".join(hash_in(line, NODE_BYTES) for line in lines)
    except ValueError as error:
        raise LogError(f"not a proof: {error!s:.200}; {_GIVE}") from error
