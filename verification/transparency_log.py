"""Checks a whole transparency log from its files: every entry, every hash above it, and what the log signed.

Proofs show that one document is in a log. Only a reader of the whole log sees that it has nothing which should not be
there, such as two certificates of one round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.formats import CERTIFICATE
from hubbub.protos.transparency_log.checkpoint import SignedCheckpoint, TrustedLog
from hubbub.protos.transparency_log.entries import LogEntry
from hubbub.protos.transparency_log.signed_notes import LogError
from hubbub.protos.transparency_log.tiles import (
    LONGEST_LOGGED,
    LogFiles,
    TileTree,
    check_tiles,
    entry_path,
    read_checkpoint,
    tree_of_log,
)


@dataclass(frozen=True)
class CheckedLog:
    """A log whose files give what it signed; `witnessed` has when each witness signed (seconds since 1970).

    `contradictions` has what its entries say against each other, in words. The log itself is right all the same.
    """

    signed: SignedCheckpoint
    witnessed: Mapping[str, int]
    entries: tuple[LogEntry, ...]
    contradictions: tuple[str, ...]


def check_log(files: LogFiles, trusted: TrustedLog, now: Callable[[int], object] = int) -> CheckedLog:
    """Check a whole log; `now` is called with the index of each entry.

    Raises:
        LogError: naming the first file that is not as the log's checkpoint has it, or the signature that is missing.
    """
    signed = read_checkpoint(files)
    witnessed = signed.check(trusted)
    tree = tree_of_log(files, signed)
    check_tiles(tree)
    entries = []
    for index, entry in enumerate(_entries(files, tree)):
        now(index)
        entries.append(entry)
    return CheckedLog(signed, witnessed, tuple(entries), tuple(_contradictions(entries)))


def _entries(files: LogFiles, tree: TileTree) -> Iterator[LogEntry]:
    for index, leaf in enumerate(tree.leaf_hashes()):
        path = entry_path(index)
        try:
            entry = LogEntry.read(files(path, LONGEST_LOGGED))
        except HubbubError as error:
            raise LogError(f"{path}: {error}") from error
        if entry.leaf != leaf:
            raise LogError(
                f"{path} is not the document that was logged there: it was changed; restore it from the newest copy, "
                "or ask whoever keeps the log"
            )
        yield entry


def _contradictions(entries: list[LogEntry]) -> Iterator[str]:
    """Yield each round that has another certificate than its first one in the log."""
    first: dict[tuple[bytes | None, int | None], int] = {}
    for index, entry in enumerate(entries):
        if entry.kind is CERTIFICATE:
            known = first.setdefault((entry.task_id, entry.round), index)
            if known != index:
                yield f"entries {known} and {index} are two certificates of one round: {entry.words}"
