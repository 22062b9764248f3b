"""Keeps a log in a folder of files: makes it, adds documents, and adds signatures of witnesses.

Whatever moment it is killed at, or the power fails, readers find the old log or the new one, whole. Everything that the
new checkpoint needs is on the disk before it is signed, and no file that the old one needs is changed. The new one is
written under another name, and then takes the old one's place.

A log must never sign two trees that contradict each other. So a checkpoint that was signed, and did not take its place
before a kill, does so at the next change: its signature may have been seen already. If it cannot be read, or
contradicts the log, nothing is signed until its keeper has decided what counts.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hubbub.deploy.files import writing
from hubbub.protos.durable_files import locked_folder, sync_folder, synced_file
from hubbub.protos.errors import UsageError
from hubbub.protos.identity.keys import Identity
from hubbub.protos.merkle import NODE_BYTES, leaf_hash, range_root
from hubbub.protos.transparency_log.checkpoint import Checkpoint, SignedCheckpoint, TrustedLog
from hubbub.protos.transparency_log.proving import find_leaves
from hubbub.protos.transparency_log.signed_notes import LONGEST_NOTE, LogError, NoteKey, NoteRole
from hubbub.protos.transparency_log.tiles import (
    CHECKPOINT,
    TILE_BYTES,
    TILE_HEIGHT,
    TILE_WIDTH,
    LogFiles,
    NoSuchFile,
    TileTree,
    check_tiles,
    entry_path,
    files_in,
    read_checkpoint,
    tile_path,
    tile_root,
    tree_of_log,
)

SIGNED = ".signed"
"""The file of a signed checkpoint that has still to take the place of the one before. It was whole when it got this
name, so one that cannot be read was damaged."""

SIGNING = ".signing"
"""The same file while it is written: a kill may have cut it short, and then its signature is nowhere."""

PARTIAL = ".hubbub-log-{}.partial"
"""The name of a file while it is written. Whoever writes one has locked its folder (`locked_folder`)."""


class LogDisk:
    """Writes files so that each is whole on the disk under its name, or not there; each step is a method."""

    def write(self, path: Path, content: bytes) -> None:
        """Write a file; its content is on the disk when this returns, and its name may not be."""
        path.unlink(missing_ok=True)
        with synced_file(path) as file:
            file.write(content)

    def rename(self, partial: Path, path: Path) -> None:
        """Give a file its name; it takes the place of an earlier one."""
        partial.replace(path)

    def sync(self, folder: Path) -> None:
        """Put the names in a folder on the disk."""
        sync_folder(folder)

    def make(self, folder: Path) -> None:
        """Make a folder whose parent exists, if it is not there, and put its name on the disk."""
        if not folder.is_dir():
            folder.mkdir(exist_ok=True)
            self.sync(folder.parent)

    def remove(self, path: Path) -> None:
        """Remove a file that may be gone already."""
        path.unlink(missing_ok=True)

    def put(self, path: Path, content: bytes, folder: Path | None = None) -> None:
        """Put a whole file in the place of an earlier one, if any; its name may not be on the disk yet.

        It is written in `folder`, its own if none is given. The caller has locked that one.
        """
        partial = (folder or path.parent) / PARTIAL.format(secrets.token_hex(8))
        self.write(partial, content)
        self.rename(partial, path)

    def save(self, path: Path, content: bytes) -> None:
        """Do the same, with the name on the disk."""
        self.put(path, content)
        self.sync(path.parent)

    def remove_partial(self, folder: Path) -> None:
        """Remove what killed processes were writing; the caller has locked the folder, so no living one is."""
        for left in folder.glob(PARTIAL.format("*")):
            self.remove(left)


@dataclass(frozen=True)
class Added:
    """What was added: the index of each document in the order given, how many are new, and the log's checkpoint."""

    indices: tuple[int, ...]
    new: int
    signed: SignedCheckpoint


def make_log(folder: Path, name: str, identity: Identity, disk: LogDisk | None = None) -> NoteKey:
    """Make a log without entries in a folder that is new or empty; return the log's key.

    Raises:
        UsageError: if there is something in the folder.
        LogError: if the name is none.
        NotWritten: if the folder cannot be written.
    """
    disk = disk or LogDisk()
    key = NoteKey(name, NoteRole.LOG, identity.public)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with locked_folder(folder):
            disk.remove_partial(folder)
            if any(folder.iterdir()):
                raise UsageError(f"{folder} is not empty, and a log is made in an empty folder; name a new one")
            disk.save(folder / CHECKPOINT, SignedCheckpoint.made(Checkpoint(name), identity).encode())
            disk.sync(folder.parent)
    return key


def add_documents(folder: Path, identity: Identity, documents: Sequence[bytes], disk: LogDisk | None = None) -> Added:
    """Add documents to a log in their order, and sign its new checkpoint; one that is there already is not added again.

    What they are is checked by the caller (`protos.transparency_log.entries`).

    Raises:
        LogError: if the log is another key's, or its files do not give what it signed.
        NotWritten: if the folder cannot be written.
    """
    disk = disk or LogDisk()
    # Nothing is done without the lock: two that sign at once would sign what contradicts each other.
    with writing(folder), locked_folder(folder):
        signed = _settled(folder, identity, disk)
        tree = tree_of_log(files_in(folder), signed)
        leaves = [leaf_hash(document) for document in documents]
        places = find_leaves(tree, leaves)
        fresh = {leaf: document for leaf, document in zip(leaves, documents, strict=True) if leaf not in places}
        places |= {leaf: signed.size + number for number, leaf in enumerate(fresh)}
        if fresh:
            # A document whose hash was changed was not found, and would be added again.
            check_tiles(tree)
            _write_entries(folder, signed.size, list(fresh.values()), disk)
            made = grow(folder, tree, list(fresh), disk)
            signed = _replace_checkpoint(folder, Checkpoint(signed.checkpoint.origin, *made), identity, disk)
            _remove_partial(folder, tree.size, signed.size, disk)
    return Added(tuple(places[leaf] for leaf in leaves), len(fresh), signed)


def add_signatures(
    folder: Path, note: bytes, witnesses: Sequence[NoteKey], disk: LogDisk | None = None
) -> SignedCheckpoint:
    """Add the signatures of known witnesses to the log's checkpoint; others in the note are left out.

    Raises:
        LogError: if the note is of another checkpoint than the newest one, or no witness has signed it.
        NotWritten: if the folder cannot be written.
    """
    disk = disk or LogDisk()
    with writing(folder), locked_folder(folder):
        disk.remove_partial(folder)
        signed, given = read_checkpoint(files_in(folder)), SignedCheckpoint.decode(note)
        if given.checkpoint != signed.checkpoint:
            raise LogError(
                f"it is a checkpoint of {given.size} entries of log {given.checkpoint.origin}, and not the newest of "
                f"this log, {signed.checkpoint.origin}, which has {signed.size}; have the witness sign the newest one"
            )
        found = [(witness, given.signature_of(witness)) for witness in witnesses]
        if not any(signature for _, signature in found):
            raise LogError(
                "none of the witnesses given has signed it; give the key of the one that did, with --witness"
            )
        for witness, signature in found:
            if signature is not None:
                signature.check(witness, signed.checkpoint.text)
                signed = signed.with_signature(signature)
        disk.save(folder / CHECKPOINT, signed.encode())
    return signed


def _settled(folder: Path, identity: Identity, disk: LogDisk) -> SignedCheckpoint:
    """Return the log's checkpoint, after what a kill has left is finished or removed.

    Raises:
        LogError: if another checkpoint was signed that cannot be read, or contradicts this one.
    """
    disk.remove_partial(folder)
    files = files_in(folder)
    try:
        signed = read_checkpoint(files)
    except NoSuchFile:
        raise
    except LogError as error:
        raise LogError(
            f"{folder / CHECKPOINT} cannot be used: {error}. Restore the newest checkpoint, as a mirror or a witness "
            "has it, and never an older one: with that the log would show two views"
        ) from error
    trusted = TrustedLog(NoteKey(signed.checkpoint.origin, NoteRole.LOG, identity.public))
    signed.check(trusted)
    waiting = _waiting(folder, trusted, disk)
    if waiting is None:
        return signed
    older, newer = sorted((signed, waiting), key=lambda each: each.size)
    try:
        if tree_of_log(files, newer).root(older.size) != older.checkpoint.root:
            raise LogError(f"its {waiting.size} entries and the {signed.size} of {CHECKPOINT} are two views")
    except LogError as error:
        raise _unsettled(folder / SIGNED, error) from error
    if waiting.size <= signed.size:
        # Its place is taken already, by one that witnesses may have signed since.
        disk.remove(folder / SIGNED)
    else:
        disk.rename(folder / SIGNED, folder / CHECKPOINT)
    disk.sync(folder)
    return read_checkpoint(files)


def _waiting(folder: Path, trusted: TrustedLog, disk: LogDisk) -> SignedCheckpoint | None:
    """Return the checkpoint that was signed and has not taken its place; None if there is none."""
    files = files_in(folder)
    if (folder / SIGNING).exists() and not (folder / SIGNED).exists():
        try:
            SignedCheckpoint.decode(files(SIGNING, LONGEST_NOTE)).check(trusted)
        except LogError:
            disk.remove(folder / SIGNING)
        else:
            disk.rename(folder / SIGNING, folder / SIGNED)
            disk.sync(folder)
    try:
        waiting = SignedCheckpoint.decode(files(SIGNED, LONGEST_NOTE))
        waiting.check(trusted)
    except NoSuchFile:
        return None
    except LogError as error:
        raise _unsettled(folder / SIGNED, error) from error
    return waiting


def _unsettled(path: Path, error: LogError) -> LogError:
    return LogError(
        f"{path} cannot be used: {error}. The log has signed it, so nothing else is signed until you restore it and "
        "the log's other files from a copy; if there is none, ask mirrors and witnesses for their newest checkpoint, "
        f"put it in the place of {CHECKPOINT} if it has more entries, and remove {path}"
    )


def _write_entries(folder: Path, first: int, documents: Sequence[bytes], disk: LogDisk) -> None:
    _write_all(folder, {entry_path(first + number): each for number, each in enumerate(documents)}, disk)


def _write_all(folder: Path, files: Mapping[str, bytes], disk: LogDisk) -> None:
    """Write files under their paths; a file that a kill has left is replaced."""
    folders = dict.fromkeys(parent for path in files for parent in reversed((folder / path).parents))
    for each in folders:
        if each.is_relative_to(folder):
            disk.make(each)
    for path, content in files.items():
        # In the log's own folder: the next change finds there what a kill has left, however many folders there are.
        disk.put(folder / path, content, folder)
    for parent in dict.fromkeys((folder / path).parent for path in files):
        disk.sync(parent)


def grow(folder: Path, tree: TileTree, leaves: Sequence[bytes], disk: LogDisk) -> tuple[int, bytes]:
    """Write the tiles of a tree with more leaves; return its size and its root. No tile of the old tree is changed."""
    size, new = tree.size + len(leaves), dict[str, bytes]()
    level, hashes = 0, b"".join(leaves)
    while hashes:
        before = tree.size >> level * TILE_HEIGHT
        number, width = divmod(before, TILE_WIDTH)
        row = (tree.tile(level, number) if width else b"") + hashes
        roots = []
        for start in range(0, len(row), TILE_BYTES):
            tile = row[start : start + TILE_BYTES]
            new[tile_path(level, number + start // TILE_BYTES, len(tile) // NODE_BYTES)] = tile
            if len(tile) == TILE_BYTES:
                roots.append(tile_root(tile))
        level, hashes = level + 1, b"".join(roots)
    _write_all(folder, new, disk)
    return size, _root_with(files_in(folder), new, tree, size)


def _root_with(files: LogFiles, new: Mapping[str, bytes], tree: TileTree, size: int) -> bytes:
    """Return the root of the grown tree, from what was written and what was there."""

    def read(path: str, most: int) -> bytes:
        return new[path] if path in new else files(path, most)

    grown = TileTree(read, size)
    if range_root(grown.node, 0, tree.size) != tree.root():
        raise LogError("the log's files changed while it was written; see that nothing else writes there")
    return grown.root()


def _replace_checkpoint(folder: Path, checkpoint: Checkpoint, identity: Identity, disk: LogDisk) -> SignedCheckpoint:
    signed = SignedCheckpoint.made(checkpoint, identity)
    # Not under a name that the next change removes: whatever is signed, and is whole, takes its place.
    disk.write(folder / SIGNING, signed.encode())
    disk.rename(folder / SIGNING, folder / SIGNED)
    disk.sync(folder)
    disk.rename(folder / SIGNED, folder / CHECKPOINT)
    disk.sync(folder)
    return signed


def _remove_partial(folder: Path, before: int, size: int, disk: LogDisk) -> None:
    """Remove the tiles that were not full before, and are now: whoever asks for one finds the full one."""
    level = 0
    while before >> level * TILE_HEIGHT:
        number, width = divmod(before >> level * TILE_HEIGHT, TILE_WIDTH)
        if width and (size >> level * TILE_HEIGHT) >= (number + 1) * TILE_WIDTH:
            partial = (folder / tile_path(level, number, width)).parent
            for each in partial.iterdir():
                disk.remove(each)
            partial.rmdir()
        level += 1
