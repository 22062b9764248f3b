"""Of byte-identical envelopes in a batch all but the first are left out.

Whoever receives a batch does this. Where envelopes are opened and passed on, a copy would give one device's report away
behind the permutation: it would be the one that is there twice.

Devices choose every byte of an inner envelope, so envelopes are told apart by digests under a key that is drawn for
each batch: envelopes that were made to begin alike cost no more time or memory than others.
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
"""Length of the digests that are kept of every envelope. Equal ones are rare among envelopes that are no copies."""

_FULL_BYTES = 16
"""Length of the digests by which copies are told: two of 10⁹ envelopes share one with probability below 2⁻⁶⁸."""

Digest = Callable[[bytes], bytes]

Chunks = Callable[[], Iterable[bytes]]
"""A batch, read from its beginning: envelopes one after the other, in chunks of any length."""


def distinct(
    chunks: Chunks,
    envelopes: int,
    width: int,
    left_out: Counter[str],
    random: Callable[[int], bytes] = os.urandom,
) -> Iterator[bytes]:
    """Give a batch of that many `envelopes` of `width` bytes without later copies, which `left_out` counts.

    Reads the batch twice and keeps 8 bytes of each envelope, so memory stays small where the batch is large.
    `random` gives the key (32 bytes) of the digests.
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
    """The short digests that more than one envelope has, rising."""
    shorts, filled = np.zeros(envelopes, dtype=np.uint64), 0
    for chunk in chunks:
        found = _short(_digests(chunk, width, digest))
        shorts[filled : filled + len(found)] = found
        filled += len(found)
    # Sorted, so that equal ones are neighbours.
    shorts.sort()
    return np.unique(shorts[1:][shorts[1:] == shorts[:-1]])


def _distinct(
    chunks: Chunks, repeated: npt.NDArray[np.uint64], width: int, digest: Digest, left_out: Counter[str]
) -> Iterator[bytes]:
    """The batch without later copies; only envelopes with a repeated short digest are compared, by their full ones."""
    # No two envelopes have one short digest, so none is a copy: nothing is compared, nothing remembered.
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
