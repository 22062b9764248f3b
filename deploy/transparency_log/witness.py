"""Witnesses a log: signs its newest checkpoint if the log only grew since the last one that this witness signed.

What it signed last is its state, and is on the disk before anybody has a signature. A witness without its state would
sign anything, so the state is only missing if its operator says that this is the first look.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hubbub.deploy.files import writing
from hubbub.deploy.transparency_log.append import LogDisk
from hubbub.protos.durable_files import locked_folder
from hubbub.protos.errors import HubbubError, UsageError, remedy_of
from hubbub.protos.identity.keys import Identity
from hubbub.protos.merkle import is_consistent
from hubbub.protos.transparency_log.checkpoint import SignedCheckpoint, TrustedLog
from hubbub.protos.transparency_log.proofs import SplitViewProof
from hubbub.protos.transparency_log.signed_notes import LONGEST_NOTE, LogError, NoteKey, NoteRole
from hubbub.protos.transparency_log.tiles import LogFiles, read_checkpoint, tree_of_log


class SplitView(LogError):
    """A log showed two checkpoints of which one does not follow from the other; `proof` has both."""

    def __init__(self, message: str, proof: SplitViewProof) -> None:
        super().__init__(message)
        self.proof = proof


@dataclass(frozen=True)
class Witness:
    """A witness of one log: the log's key, its own name and key, and the file of its state."""

    log: NoteKey
    name: str
    identity: Identity
    state: Path
    disk: LogDisk

    @property
    def key(self) -> NoteKey:
        """The key by which others know the witness."""
        return NoteKey(self.name, NoteRole.WITNESS, self.identity.public)

    def look(self, files: LogFiles, now: int, first: bool = False) -> tuple[SignedCheckpoint, int | None]:
        """Check what a log shows, sign it, and store it; return it, and the size that was signed last, if any.

        `first` says that there is no state yet. `now` is in seconds since 1970.

        Raises:
            SplitView: if what the log shows does not follow from what was signed last.
            UsageError: if the state is missing, or is there although this is the first look.
            LogError: if the log has not signed what it shows, or its files do not give it.
        """
        while True:
            last = self._last(first)
            shown = read_checkpoint(files)
            shown.check(TrustedLog(self.log))
            if last is None:
                tree_of_log(files, shown)
            else:
                follow(last, shown, files)
            # A log may show as many signatures as can be read. With one more, nobody could read the state again.
            signed = shown.without_strangers(self.log).witnessed(self.key, self.identity, now)
            # Not held while files are read: a slow log would hold up the witnesses of others in the same folder.
            with self._locked():
                self.disk.remove_partial(self.state.parent)
                if self._last(first) == last:
                    self.disk.save(self.state, signed.encode())
                    return signed, None if last is None else last.size
            # Another look has signed meanwhile: what is shown now must follow from that.

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        # The folder, as the state is replaced by a new file.
        with writing(self.state), locked_folder(self.state.parent):
            yield

    def _last(self, first: bool) -> SignedCheckpoint | None:
        try:
            with self.state.open("rb") as file:
                note = file.read(LONGEST_NOTE + 1)
        except FileNotFoundError:
            if first:
                return None
            raise UsageError(
                f"there is no {self.state}, so what was signed last is not known; restore it, or say that this is the "
                "first look at the log with --first"
            ) from None
        except OSError as error:
            raise HubbubError(f"cannot read {self.state}: {error.strerror}; {remedy_of(error)}") from error
        if first:
            raise UsageError(f"{self.state} is there, so this is not the first look; leave out --first")
        try:
            found = SignedCheckpoint.decode(note)
            found.check(TrustedLog(self.log, (self.key,), needed=1))
        except LogError as error:
            raise LogError(
                f"{self.state} is not what this witness signed last of log {self.log.name}: {error}. Name the state of "
                "this log and this key; if it was damaged, compare the log with a checkpoint that somebody kept "
                "(`hubbub log prove --since`), remove the state, and begin anew with --first"
            ) from error
        return found


def follow(last: SignedCheckpoint, shown: SignedCheckpoint, files: LogFiles) -> None:
    """Check that a log's checkpoint follows from an earlier one, by the log's files; both are signed by the log.

    Raises:
        SplitView: if it does not, if the log shows an older one, or if its files do not give what it shows.
    """
    older, newer = last.checkpoint, shown.checkpoint
    if newer.size < older.size:
        raise SplitView(
            f"log {older.origin} shows {newer.size} entries, but {older.size} were seen before: an older copy, or "
            "another view; nothing was signed. Ask whoever keeps the log for a proof with `hubbub log prove --since`",
            SplitViewProof(shown, last),
        )
    if newer.size == older.size:
        if newer.root != older.root:
            raise _contradicted(SplitViewProof(last, shown, newer.root))
        return
    try:
        tree = tree_of_log(files, shown)
        path, root = tree.consistency(older.size), tree.root(older.size)
    except LogError as error:
        raise _not_shown(SplitViewProof(last, shown), str(error)) from error
    if is_consistent(older.size, newer.size, path, older.root, newer.root):
        return
    proof = SplitViewProof(last, shown, root, path)
    if proof.is_proven:
        raise _contradicted(proof)
    # The root follows from the hashes at the tree's edge. Below them, files may have been changed by anybody.
    raise _not_shown(SplitViewProof(last, shown), "tiles do not give the hashes above them")


def _not_shown(proof: SplitViewProof, why: str) -> SplitView:
    older, newer = proof.older.checkpoint, proof.newer.checkpoint
    return SplitView(
        f"log {older.origin} shows {newer.size} entries, and its files do not show that they begin with the "
        f"{older.size} that were seen before; nothing was signed: {why}",
        proof,
    )


def _contradicted(proof: SplitViewProof) -> SplitView:
    older, newer = proof.older.checkpoint, proof.newer.checkpoint
    return SplitView(
        f"log {older.origin} shows two views: its {newer.size} entries do not begin with the {older.size} that were "
        "seen before; nothing was signed. The log signed both checkpoints: show them to everybody who trusts it",
        proof,
    )


def evidence_path(state: Path, proof: SplitViewProof) -> Path:
    """Return where the evidence of two views is stored, beside a witness's state; another one has another name."""
    digest = hashlib.sha256(proof.encode()).hexdigest()[:8]
    return state.with_name(f"{state.name}.views-{proof.older.size}-{proof.newer.size}-{digest}")
