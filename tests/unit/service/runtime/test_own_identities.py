"""A party's identities are read from the files beside its own; one that cannot be read is logged."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.identity.successions import Succession
from hubbub.service.runtime.own_identities import own_identity


def made(folder: Path) -> tuple[Identity, Identity, Succession]:
    """The shuffler's identity, the next one beside it, and the succession between them."""
    old, new, witness = (Identity.generate() for _ in range(3))
    old.save(folder / "identity.pem")
    new.save(folder / "identity-1a2b3c4d.pem")
    new.save_public(folder / "identity-1a2b3c4d.pub.pem")
    return old, new, Succession(Role.SHUFFLER, old.public, new.public, witness.public, 1)


def test_the_identity_beside_it_signs_too(tmp_path: Path) -> None:
    old, new, succession = made(tmp_path)
    with capture_logs() as logged:
        own = own_identity(tmp_path / "identity.pem", Role.SHUFFLER, [succession])
    assert (own.public, own.named(new.public).public) == (old.public, new.public)
    assert logged == []


def test_a_key_file_that_cannot_be_read_is_logged_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, _, succession = made(tmp_path)
    path, read = tmp_path / "identity-1a2b3c4d.pem", Path.read_bytes

    def refused(self: Path) -> bytes:
        """As the system refuses the file of another account; root may read every file."""
        if self == path:
            raise PermissionError(13, "Permission denied")
        return read(self)

    monkeypatch.setattr(Path, "read_bytes", refused)
    with capture_logs() as logged:
        own = own_identity(tmp_path / "identity.pem", Role.SHUFFLER, [succession])
    assert own.public == old.public
    (line,) = logged
    assert (line["event"], line["log_level"]) == ("a key file cannot be read", "warning")
    assert (line["file"], line["error"]) == (str(path), "Permission denied")
