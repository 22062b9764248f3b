"""Open: from a batch's envelopes to the tally of its reports. What is bad is counted and left out, never fatal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from hubbub.analyzer.workers import Job, Opened
from hubbub.queries.randomizer import Randomizer, Tally

_PREFIX_BYTES = 8
"""Envelopes begin with a fresh public key, so equal first bytes are rare among those that are not copies."""


class LeftOut(StrEnum):
    """Why a delivered envelope is not counted."""

    DUPLICATE = "duplicate"
    UNOPENABLE = "unopenable"
    OUT_OF_DOMAIN = "out_of_domain"


@dataclass(frozen=True)
class Opening:
    """What a batch counted, and the number of envelopes left out by reason, where any was."""

    tally: Tally
    left_out: dict[str, int]


Stretches = Callable[[], Iterable[bytes]]
"""The batch, read from its beginning: envelopes one after the other, in stretches of any length."""

Open = Callable[[Job, Iterable[bytes], int], Iterator[Opened]]
"""What opens them: `Workers.open`."""


def open_batch(job: Job, stretches: Stretches, envelopes: int, randomizer: Randomizer, opener: Open) -> Opening:
    """Open a batch of that many `envelopes`, whose reports were made by `randomizer`, and count.

    Of byte-identical envelopes the first is opened; the others are left out. Reads the batch twice and keeps 8 bytes of
    each envelope, so memory stays small where the batch is large. Blocks, so it is called in a thread.
    """
    left_out: Counter[str] = Counter()
    tally = randomizer.tally(b"")
    distinct = _distinct(stretches, _repeated(stretches(), envelopes, job.width), job.width, left_out)
    for reports, unopenable in opener(job, distinct, envelopes):
        left_out[LeftOut.UNOPENABLE] += unopenable
        tally += randomizer.tally(reports)
    left_out[LeftOut.OUT_OF_DOMAIN] += tally.invalid
    return Opening(tally, {reason.value: left_out[reason] for reason in LeftOut if left_out[reason]})


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
