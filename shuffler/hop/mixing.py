"""Removes a layer from every envelope of a batch that arrived, and permutes the contents uniformly, with noise added.

The hop's dummies are among the contents before they are permuted, so every order of the whole list is equally likely.

Envelopes that do not open, and duplicates, are left out and counted in the hop's record: none disappears silently.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hubbub.protos.records.batch import LeftOut
from hubbub.service.processes.opening_pool import Opened, OpeningJob
from hubbub.service.receiving.deduplication import Chunks, distinct
from hubbub.shuffler.mix.external_sort import Column
from hubbub.shuffler.mix.mix import Random, blocks, in_uniform_order
from hubbub.shuffler.mix.spool import Kept, chunks_of

Open = Callable[[OpeningJob, Iterable[bytes], int], Iterator[Opened]]
"""Opens envelopes: `OpeningPool.open`."""


@dataclass
class OpenedLayer:
    """An opened and permuted batch: its blocks, to be read once, and the counts of left-out envelopes by reason.

    The counts are complete once the first block is read, which is after the last envelope was opened.
    """

    blocks: Iterator[bytes]
    counted: Counter[str] = field(default_factory=Counter)

    @property
    def left_out(self) -> dict[str, int]:
        """The numbers of envelopes left out, by reason, without zeros."""
        return {reason.value: self.counted[reason] for reason in LeftOut if self.counted[reason]}


def opened(
    job: OpeningJob,
    parts: Chunks,
    envelopes: int,
    width: int,
    opener: Open,
    folder: Path,
    random: Random,
    dummies: Kept,
) -> OpenedLayer:
    """Open a batch of `envelopes` envelopes, and permute their contents and `dummies`, `width` bytes each.

    Blocks until the last envelope is opened, so call it in a thread. Contents too large for memory go through files
    without names in `folder`.
    """
    opening = OpenedLayer(iter(()))
    inside = _rows(opener(job, distinct(parts, envelopes, job.width, opening.counted), envelopes), width, opening)
    rows = itertools.chain(inside, chunks_of(dummies))
    mixed = blocks(in_uniform_order(rows, envelopes + len(dummies), width, folder, random), width)
    # The first block is known only when all envelopes are opened; later blocks are read while they are stored.
    first = list(itertools.islice(mixed, 1))
    opening.blocks = itertools.chain(first, mixed)
    return opening


def _rows(chunks: Iterable[Opened], width: int, opening: OpenedLayer) -> Iterator[Column]:
    for inside, unopenable in chunks:
        opening.counted[LeftOut.UNOPENABLE] += unopenable
        yield np.frombuffer(inside, dtype=np.uint8).reshape(-1, width)
