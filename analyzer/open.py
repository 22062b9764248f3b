"""Open: from a batch's envelopes to the counts of its symbols. What is bad is counted and left out, never fatal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from hubbub.analyzer.workers import Job, Opened
from hubbub.protos.envelope import INNER_BYTES

_PREFIX_BYTES = 8
"""Envelopes begin with a fresh public key, so equal first bytes are rare among those that are not copies."""


class LeftOut(StrEnum):
    """Why a delivered envelope is not counted."""

    DUPLICATE = "duplicate"
    UNOPENABLE = "unopenable"
    OUT_OF_DOMAIN = "out_of_domain"


@dataclass(frozen=True)
class Opening:
    """A batch's reports by symbol, shape (symbols,), and the number left out by reason, where any was."""

    counts: npt.NDArray[np.int64]
    left_out: dict[str, int]

    @property
    def valid(self) -> int:
        """How many reports are counted."""
        return int(self.counts.sum())


Stretches = Callable[[], Iterable[bytes]]
"""The batch, read from its beginning: envelopes one after the other, in stretches of any length."""

Open = Callable[[Job, Iterable[bytes], int], Iterator[Opened]]
"""What opens them: `Workers.open`."""


def open_batch(job: Job, stretches: Stretches, reports: int, symbols: int, opener: Open) -> Opening:
    """Open a batch of `reports` envelopes of a query with that many symbols, and count.

    Of byte-identical envelopes the first is opened; the others are left out. Reads the batch twice and keeps 8 bytes of
    each envelope, so memory stays small where the batch is large. Blocks, so it is called in a thread.
    """
    left_out: Counter[str] = Counter()
    counts = np.zeros(symbols, dtype=np.int64)
    distinct = _distinct(stretches, _repeated(stretches(), reports), left_out)
    for packed, unopenable in opener(job, distinct, reports):
        left_out[LeftOut.UNOPENABLE] += unopenable
        found = np.frombuffer(packed, dtype=np.uintc)
        inside = found[found < symbols]
        left_out[LeftOut.OUT_OF_DOMAIN] += len(found) - len(inside)
        counts += np.bincount(inside, minlength=symbols)
    return Opening(counts, {reason.value: left_out[reason] for reason in LeftOut if left_out[reason]})


def _prefixes(stretch: bytes) -> npt.NDArray[np.uint64]:
    rows = np.frombuffer(stretch, dtype=np.uint8).reshape(-1, INNER_BYTES)
    return np.ascontiguousarray(rows[:, :_PREFIX_BYTES]).view(np.uint64).ravel()


def _repeated(stretches: Iterable[bytes], reports: int) -> npt.NDArray[np.uint64]:
    """The first bytes that more than one envelope has, rising."""
    prefixes, filled = np.zeros(reports, dtype=np.uint64), 0
    for stretch in stretches:
        found = _prefixes(stretch)
        prefixes[filled : filled + len(found)] = found
        filled += len(found)
    prefixes.sort()
    return np.unique(prefixes[1:][prefixes[1:] == prefixes[:-1]])


def _distinct(stretches: Stretches, repeated: npt.NDArray[np.uint64], left_out: Counter[str]) -> Iterator[bytes]:
    """The batch without later copies; only envelopes with a repeated beginning are compared, and in full."""
    if not repeated.size:
        yield from stretches()
        return
    seen: set[bytes] = set()
    for stretch in stretches():
        suspects = np.flatnonzero(np.isin(_prefixes(stretch), repeated))
        copies = [index for index in suspects.tolist() if _is_copy(_envelope(stretch, index), seen)]
        left_out[LeftOut.DUPLICATE] += len(copies)
        yield _without(stretch, copies)


def _envelope(stretch: bytes, index: int) -> bytes:
    return stretch[index * INNER_BYTES : (index + 1) * INNER_BYTES]


def _is_copy(envelope: bytes, seen: set[bytes]) -> bool:
    known = envelope in seen
    seen.add(envelope)
    return known


def _without(stretch: bytes, indices: list[int]) -> bytes:
    if not indices:
        return stretch
    rows = np.frombuffer(stretch, dtype=np.uint8).reshape(-1, INNER_BYTES)
    return bytes(np.delete(rows, indices, axis=0).tobytes())
