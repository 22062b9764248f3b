"""Removes copies from a batch: of byte-identical envelopes, only the first is kept.

Every receiver of a batch does this. If envelopes are opened and passed on, a copy would reveal one device's report
after the permutation: the report that occurs twice.

Devices choose every byte of an inner envelope. So envelopes are compared by digests under a random key for each batch:
envelopes with crafted common beginnings cost no more time or memory than others.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from hubbub.protos.records.batch import LeftOut
from hubbub.service.fixed_width import split_records

_SHORT_BYTES = 8
"""Length of the digests that are kept for every envelope. Equal digests are rare among different envelopes."""

_FULL_BYTES = 16
"""Length of the digests that identify copies: two of 10⁹ envelopes share one with probability below 2⁻⁶⁸."""

Digest = Callable[[bytes], bytes]

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
    gives the key (32 bytes) of the digests.
    """
    digest = _keyed(random(32))
    return _distinct(chunks, _repeated(chunks(), envelopes, width, digest), width, digest, left_out)


def _keyed(key: bytes) -> Digest:
    """Return keyed BLAKE2b (RFC 7693) with digests of `_FULL_BYTES`, whose first `_SHORT_BYTES` are the short ones."""
    keyed = hashlib.blake2b(key=key, digest_size=_FULL_BYTES)

    def digest(envelope: bytes) -> bytes:
        copy = keyed.copy()
        copy.update(envelope)
        return copy.digest()

    return digest


def _digests(chunk: bytes, width: int, digest: Digest) -> list[bytes]:
    return list(map(digest, split_records(chunk, width)))


def _short(digests: list[bytes]) -> npt.NDArray[np.uint64]:
    rows = np.frombuffer(b"".join(digests), dtype=np.uint64)
    return rows[:: _FULL_BYTES // _SHORT_BYTES]


def _repeated(chunks: Iterable[bytes], envelopes: int, width: int, digest: Digest) -> npt.NDArray[np.uint64]:
    """Return the short digests that more than one envelope has, in ascending order."""
    shorts, filled = np.zeros(envelopes, dtype=np.uint64), 0
    for chunk in chunks:
        found = _short(_digests(chunk, width, digest))
        shorts[filled : filled + len(found)] = found
        filled += len(found)
    # Sorted, so that equal digests are adjacent.
    shorts.sort()
    return np.unique(shorts[1:][shorts[1:] == shorts[:-1]])


def _distinct(
    chunks: Chunks, repeated: npt.NDArray[np.uint64], width: int, digest: Digest, left_out: Counter[str]
) -> Iterator[bytes]:
    """Give the batch without later copies; only envelopes with a repeated short digest are compared by full digests."""
    # All short digests differ, so no envelope is a copy: nothing needs to be compared.
    if not repeated.size:
        yield from chunks()
        return
    seen: set[bytes] = set()
    for chunk in chunks():
        digests = _digests(chunk, width, digest)
        suspects = np.flatnonzero(np.isin(_short(digests), repeated))
        copies = [index for index in suspects.tolist() if _is_copy(digests[index], seen)]
        left_out[LeftOut.DUPLICATE] += len(copies)
        yield _without(chunk, copies, width)


def _is_copy(digest: bytes, seen: set[bytes]) -> bool:
    known = digest in seen
    seen.add(digest)
    return known


def _without(chunk: bytes, indices: list[int], width: int) -> bytes:
    if not indices:
        return chunk
    rows = np.frombuffer(chunk, dtype=np.uint8).reshape(-1, width)
    return bytes(np.delete(rows, indices, axis=0).tobytes())
