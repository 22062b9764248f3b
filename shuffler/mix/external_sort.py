"""Splits a column of envelopes too long for memory into buckets on disk, by the first bits of their keys.

A bucket contains envelopes in the order of arrival, with the keys that determine their places: the secret of the
permutation. So its file has no name, disappears with this process however the process ends, and is encrypted under a
key that exists only in this process's memory. Nobody can read the traces that the disk may keep.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

Keys = npt.NDArray[np.uint64]
Column = npt.NDArray[np.uint8]
"""Inner envelopes of one query, one a row: shape (count, width)."""

_KEY_BYTES = 8


class Buckets:
    """2**`bits` buckets in `folder` for envelopes of `width` bytes, filled first, then read once.

    `random` makes their encryption key.
    """

    def __init__(self, folder: Path, bits: int, width: int, random: Callable[[int], bytes]) -> None:
        self._record_bytes = _KEY_BYTES + width
        self._shift = np.uint64(64 - bits)
        self._stack = ExitStack()
        files = (tempfile.TemporaryFile(dir=folder) for _ in range(2**bits))  # noqa: SIM115 - the stack closes them
        self._files = [self._stack.enter_context(file) for file in files]
        key = random(32)
        self._ciphers = [Cipher(ChaCha20(key, _nonce(place)), mode=None) for place in range(2**bits)]
        self._enciphering = [cipher.encryptor() for cipher in self._ciphers]

    def __enter__(self) -> Buckets:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the files, which deletes them."""
        self._stack.close()

    def add(self, keys: Keys, rows: Column) -> None:
        """Put each envelope into the bucket named by the first bits of its key."""
        records = np.empty((len(keys), self._record_bytes), dtype=np.uint8)
        records[:, :_KEY_BYTES] = keys.view(np.uint8).reshape(-1, _KEY_BYTES)
        records[:, _KEY_BYTES:] = rows
        places = keys >> self._shift
        # Ordered by bucket, so that each file is written once.
        records = records[np.argsort(places, kind="stable")]
        ends = np.cumsum(np.bincount(places.astype(np.intp), minlength=len(self._files))).tolist()
        for place, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            self._files[place].write(self._enciphering[place].update(records[start:end].tobytes()))

    def __iter__(self) -> Iterator[tuple[Keys, Column]]:
        """Yield the buckets by rising keys, each with its envelopes as they came."""
        for file, cipher in zip(self._files, self._ciphers, strict=True):
            file.seek(0)
            read = cipher.decryptor().update(file.read())
            records = np.frombuffer(read, dtype=np.uint8).reshape(-1, self._record_bytes)
            keys = np.ascontiguousarray(records[:, :_KEY_BYTES]).view(np.uint64).ravel()
            yield keys, records[:, _KEY_BYTES:]


def _nonce(place: int) -> bytes:
    """Return the nonce of a bucket's stream: ChaCha20's nonce (RFC 8439) after a block counter of zero."""
    return bytes(4) + place.to_bytes(12, "big")
