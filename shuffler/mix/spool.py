"""Stores envelopes on disk until the mix, if they are too many for memory.

The file has no name and is encrypted under a key that only this process has. A later reader of the disk learns nothing
from it, not even which envelopes of a released batch are dummies.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from hubbub.shuffler.mix.external_sort import Column

CHUNK = 2**16
"""Envelopes read at once."""


class Spool:
    """A column of envelopes of `width` bytes in `folder`, filled first, then read any number of times."""

    def __init__(self, folder: Path, width: int, random: Callable[[int], bytes] = os.urandom) -> None:
        self._width, self._count = width, 0
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - `close` closes it
        # One key encrypts one stream, so the nonce of zeros is used once.
        self._cipher = Cipher(ChaCha20(random(32), bytes(16)), mode=None)
        self._enciphering = self._cipher.encryptor()

    def __len__(self) -> int:
        return self._count

    def add(self, column: Column) -> None:
        """Append envelopes."""
        self._file.write(self._enciphering.update(np.ascontiguousarray(column).tobytes()))
        self._count += len(column)

    def chunks(self) -> Iterator[Column]:
        """Yield the envelopes in the order in which they were added, in chunks."""
        self._file.seek(0)
        deciphering = self._cipher.decryptor()
        while block := self._file.read(CHUNK * self._width):
            yield np.frombuffer(deciphering.update(block), dtype=np.uint8).reshape(-1, self._width)

    def close(self) -> None:
        """Close the file, which deletes it. What a full disk did not take is lost with it, as it is needed no more."""
        with contextlib.suppress(OSError):
            self._file.close()


Kept = Column | Spool
"""Envelopes until the mix: in memory, or on disk if they are too many."""


def chunks_of(kept: Kept) -> Iterator[Column]:
    """Yield the envelopes, in memory or on disk, in chunks."""
    yield from kept.chunks() if isinstance(kept, Spool) else (kept,)
