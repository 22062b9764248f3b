"""Envelopes that wait on the disk come back as they were put there, and nothing of them can be read in the file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hubbub.shuffler.mix import spool
from hubbub.shuffler.mix.spool import Spool


@pytest.mark.parametrize("sizes", [(), (1,), (3, 0, 5), (7, 8)])
def test_envelopes_come_back_in_order_and_twice(
    sizes: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "CHUNK", 4)
    held, random = Spool(tmp_path, 5), np.random.default_rng(1)
    columns = [random.integers(0, 256, (size, 5), dtype=np.uint8) for size in sizes]
    for column in columns:
        held.add(column)
    whole = np.concatenate([np.empty((0, 5), dtype=np.uint8), *columns])
    for _ in range(2):
        read = [np.empty((0, 5), dtype=np.uint8), *held.chunks()]
        assert np.array_equal(np.concatenate(read), whole)
        assert all(len(chunk) <= 4 for chunk in read)
    assert len(held) == len(whole)
    assert not list(tmp_path.iterdir())
    held.close()


def test_the_file_does_not_hold_what_was_put_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[Any] = []
    made = tempfile.TemporaryFile

    def noted(**given: Any) -> Any:
        files.append(made(**given))
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    held = Spool(tmp_path, 64)
    held.add(np.full((100, 64), 7, dtype=np.uint8))
    files[0].seek(0)
    written = files[0].read()
    assert len(written) == 6400
    assert bytes([7]) * 8 not in written
    held.close()


def test_what_a_full_disk_did_not_take_keeps_no_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last bytes of a file are written as it is closed: an error there must not keep others from being closed."""
    full = Path("/dev/full").open("w+b")  # noqa: SIM115 - the spool closes it
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: full)
    held = Spool(tmp_path, 64)
    held.add(np.zeros((3, 64), dtype=np.uint8))
    with pytest.raises(OSError, match="No space left"):
        list(held.chunks())
    held.close()
    assert full.closed
