"""Readers are revoked in one list, which several people may write."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from hubbub.deploy.files import save
from hubbub.deploy.pki import readers
from hubbub.deploy.pki.readers import FILE, revoke_readers
from hubbub.protos.transport.revoked_readers import read_revoked


def test_who_revokes_at_once_waits_so_that_no_revocation_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two commands read the list together, and the later one wrote over what the first had added."""
    held = []

    def looking(path: Path, content: bytes) -> None:
        folder = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(folder)
        held.append(path)
        save(path, content)

    monkeypatch.setattr(readers, "save", looking)
    settings = tmp_path / "operator.toml"
    revoke_readers(settings, ["ana"], 1000.0)
    _, revoked = revoke_readers(settings, ["bea"], 2000.0)
    assert len(held) == 2
    assert len(revoked) == 2
    assert read_revoked((tmp_path / FILE).read_text()) == revoked


def test_the_lock_ends_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="of the block"), readers.changing(tmp_path / FILE):
        raise ValueError("of the block")
    with readers.changing(tmp_path / FILE):
        pass
