"""Duplicates: of byte-identical envelopes in a batch all but the first are left out.

Whoever receives a batch does this. Where envelopes are opened and passed on, a copy would give one device's report away
behind the permutation: it would be the one that is there twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from hubbub.protos.batch import LeftOut

_PREFIX_BYTES = 8
"""Envelopes begin with a fresh public key, so equal first bytes are rare among those that are not copies."""

Stretches = Callable[[], Iterable[bytes]]
"""A batch, read from its beginning: envelopes one after the other, in stretches of any length."""


def distinct(stretches: Stretches, envelopes: int, width: int, left_out: Counter[str]) -> Iterator[bytes]:
    """Give a batch of that many `envelopes` of `width` bytes without later copies, which `left_out` counts.

    Reads the batch twice and keeps 8 bytes of each envelope, so memory stays small where the batch is large.
    """
    return _distinct(stretches, _repeated(stretches(), envelopes, width), width, left_out)


def _prefixes(stretch: bytes, width: int) -> npt.NDArray[np.uint64]:
    rows = np.frombuffer(stretch, dtype=np.uint8).reshape(-1, width)
    return np.ascontiguousarray(rows[:, :_PREFIX_BYTES]).view(np.uint64).ravel()


def _repeated(stretches: Iterable[bytes], envelopes: int, width: int) -> npt.NDArray[np.uint64]:
    """The first bytes that more than one envelope has, rising."""
    prefixes, filled = np.zeros(envelopes, dtype=np.uint64), 0
    for stretch in stretches:
        found = _prefixes(stretch, width)
        prefixes[filled : filled + len(found)] = found
        filled += len(found)
    # Sorted, so that equal beginnings are neighbours.
    prefixes.sort()
    return np.unique(prefixes[1:][prefixes[1:] == prefixes[:-1]])


def _distinct(
    stretches: Stretches, repeated: npt.NDArray[np.uint64], width: int, left_out: Counter[str]
) -> Iterator[bytes]:
    """The batch without later copies; only envelopes with a repeated beginning are compared, and in full."""
    # No two envelopes begin alike, so none is a copy: nothing is compared, nothing remembered.
    if not repeated.size:
        yield from stretches()
        return
    seen: set[bytes] = set()
    for stretch in stretches():
        suspects = np.flatnonzero(np.isin(_prefixes(stretch, width), repeated))
        copies = [index for index in suspects.tolist() if _is_copy(_envelope(stretch, index, width), seen)]
        left_out[LeftOut.DUPLICATE] += len(copies)
        yield _without(stretch, copies, width)


def _envelope(stretch: bytes, index: int, width: int) -> bytes:
    return stretch[index * width : (index + 1) * width]


def _is_copy(envelope: bytes, seen: set[bytes]) -> bool:
    known = envelope in seen
    seen.add(envelope)
    return known


def _without(stretch: bytes, indices: list[int], width: int) -> bytes:
    if not indices:
        return stretch
    rows = np.frombuffer(stretch, dtype=np.uint8).reshape(-1, width)
    return bytes(np.delete(rows, indices, axis=0).tobytes())
