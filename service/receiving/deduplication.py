"""Removes copies from a batch: of byte-identical envelopes, only the first is kept.

Every receiver of a batch does this. If envelopes are opened and passed on, a copy would reveal one device's report
after the permutation: the report that occurs twice.

Nothing else is done until all envelopes were compared, so that is done for all at once: each has a fingerprint, and
only those of equal ones are compared by digests. With secret random numbers aᵢ for each batch, the fingerprint of an
envelope of words xᵢ is Σ aᵢxᵢ mod 2⁶⁴. Devices choose every byte of an inner envelope, but no choice helps: different
envelopes x and y have one fingerprint with a probability of at most 2⁻³³. For they differ in some word, by d with
0 < |d| < 2³², so d is 2^v times an odd number, v ≤ 31. Whatever the other aⱼ are, aᵢ·d must be one number mod 2⁶⁴ then,
which none or 2^v of the 2⁶⁴ numbers aᵢ give.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from hubbub.protos.records.batch import LeftOut

_WORD_BYTES, _KEY_BYTES = 4, 8
"""Length of a word of an envelope, and of its secret number."""

_DIGEST_BYTES = 16
"""Length of the digests that identify copies: two of 10⁹ envelopes share one with probability below 2⁻⁶⁸."""

Fingerprints = npt.NDArray[np.uint64]

Chunks = Callable[[], Iterable[bytes]]
"""Reads a batch from its beginning: joined envelopes, in chunks of any length."""


def distinct(
    chunks: Chunks,
    envelopes: int,
    width: int,
    left_out: Counter[str],
    random: Callable[[int], bytes] = os.urandom,
) -> Iterator[bytes]:
    """Give a batch of that many `envelopes` of `width` bytes without later copies, which `left_out` counts.

    Reads the batch twice and keeps 8 bytes of each envelope, so memory stays small even if the batch is large. `random`
    gives the secret numbers.
    """
    finder = _CopyFinder(width, random)
    return finder.distinct(chunks, finder.repeated(chunks(), envelopes), left_out)


class _CopyFinder:
    """Finds copies among envelopes of `width` bytes, with secret numbers of its own."""

    def __init__(self, width: int, random: Callable[[int], bytes]) -> None:
        self._width = width
        words = -(-width // _WORD_BYTES)
        self._numbers = np.frombuffer(random(_KEY_BYTES * words), dtype=np.uint64)
        self._keyed = hashlib.blake2b(key=random(32), digest_size=_DIGEST_BYTES)

    def repeated(self, chunks: Iterable[bytes], envelopes: int) -> Fingerprints:
        """Return the fingerprints that more than one envelope has, in ascending order."""
        all_of_them, filled = np.zeros(envelopes, dtype=np.uint64), 0
        for chunk in chunks:
            found = self._fingerprints(chunk)
            all_of_them[filled : filled + len(found)] = found
            filled += len(found)
        # Sorted, so that equal ones are adjacent.
        all_of_them.sort()
        return np.unique(all_of_them[1:][all_of_them[1:] == all_of_them[:-1]])

    def distinct(self, chunks: Chunks, repeated: Fingerprints, left_out: Counter[str]) -> Iterator[bytes]:
        """Give the batch without later copies; only envelopes with a repeated fingerprint are compared by digests."""
        # All fingerprints differ, so no envelope is a copy: nothing needs to be compared.
        if not repeated.size:
            yield from chunks()
            return
        seen: set[bytes] = set()
        for chunk in chunks():
            suspects = np.flatnonzero(np.isin(self._fingerprints(chunk), repeated))
            copies = [index for index in suspects.tolist() if self._is_copy(chunk, index, seen)]
            left_out[LeftOut.DUPLICATE] += len(copies)
            yield self._without(chunk, copies)

    def _fingerprints(self, chunk: bytes) -> Fingerprints:
        rows = np.frombuffer(chunk, dtype=np.uint8).reshape(-1, self._width)
        missing = -self._width % _WORD_BYTES
        if missing:
            rows = np.pad(rows, ((0, 0), (0, missing)))
        found = np.zeros(len(rows), dtype=np.uint64)
        # Word by word: all products at once would take twice as much memory as the chunk.
        for words, number in zip(rows.view(np.uint32).T, self._numbers, strict=True):
            found += words * number
        return found

    def _is_copy(self, chunk: bytes, index: int, seen: set[bytes]) -> bool:
        copy = self._keyed.copy()
        copy.update(chunk[index * self._width : (index + 1) * self._width])
        digest = copy.digest()
        known = digest in seen
        seen.add(digest)
        return known

    def _without(self, chunk: bytes, indices: list[int]) -> bytes:
        if not indices:
            return chunk
        rows = np.frombuffer(chunk, dtype=np.uint8).reshape(-1, self._width)
        return bytes(np.delete(rows, indices, axis=0).tobytes())
