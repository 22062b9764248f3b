"""Revokes readers: the operator's list of them, which both services read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hubbub.deploy.files import changing, naming, save
from hubbub.deploy.pki.authority import BACKDATE
from hubbub.protos.errors import UsageError
from hubbub.protos.transport.revoked_readers import read_revoked, write_revoked
from hubbub.protos.transport.roles import reader_called

FILE = "revoked-readers.txt"
"""The list beside the operator's settings, and by default beside those of a service."""


def revoke_readers(settings: Path, names: Sequence[str], now: float) -> tuple[Path, dict[str, int]]:
    """Add readers to the list beside the operator's settings; return the list's file, and all that are in it.

    Every certificate that a reader of the name got up to `now` (seconds since 1970) is revoked; a later one is not. An
    empty name is that of the reader without one.

    Raises:
        UsageError: if no name is given, or a reader cannot be called so.
        HubbubError: if the list there is something else.
        OSError: if it cannot be read or written.
    """
    if not names:
        raise UsageError("no reader is named; name one to revoke, such as --reader ana")
    # A certificate begins before it is made, and in whole seconds: one of this second is revoked too.
    before = int(now - BACKDATE.total_seconds()) + 1
    path = settings.absolute().parent / FILE
    common = [reader_called(name) for name in names]
    revoked: dict[str, int] = {}
    with changing(path):
        if path.exists():
            with naming(path):
                revoked = read_revoked(path.read_text(encoding="utf-8"))
        revoked |= {each: max(before, revoked.get(each, before)) for each in common}
        save(path, write_revoked(revoked).encode())
    return path, revoked


def told(path: Path, names: Sequence[str]) -> str:
    """Return what to do with the list, so that the services refuse them."""
    who = "1 reader" if len(set(names)) == 1 else f"{len(set(names))} readers"
    return (
        f"{who} added to {path}; put it in the place of `revoked_readers` of the shuffler, of a standby and of the "
        "analyzer: they take it at the next call, without a restart. Until then these readers may look"
    )
