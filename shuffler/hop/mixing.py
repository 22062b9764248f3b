"""A layer off every envelope of a batch that arrived, and what was inside in a uniform order.

What does not open and what is there twice is left out, and counted in the hop's record: nothing goes in silence.
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

Open = Callable[[OpeningJob, Iterable[bytes], int], Iterator[Opened]]
"""What opens them: `OpeningPool.open`."""


@dataclass
class OpenedLayer:
    """A batch that is opened and permuted: its blocks, to be read once, and what was left out by reason.

    What was left out is known once the first block was read, which is after the last envelope was opened.
    """

    blocks: Iterator[bytes]
    counted: Counter[str] = field(default_factory=Counter)

    @property
    def left_out(self) -> dict[str, int]:
        """How many envelopes were left out, by reason, where any was."""
        return {reason.value: self.counted[reason] for reason in LeftOut if self.counted[reason]}


def opened(
    job: OpeningJob, parts: Chunks, envelopes: int, width: int, opener: Open, folder: Path, random: Random
) -> OpenedLayer:
    """Open a batch of that many `envelopes`, and permute what was inside of them, `width` bytes each.

    Blocks until the last is opened, so it is called in a thread. More than memory holds goes through files without
    names in `folder`.
    """
    opening = OpenedLayer(iter(()))
    rows = _rows(opener(job, distinct(parts, envelopes, job.width, opening.counted), envelopes), width, opening)
    mixed = blocks(in_uniform_order(rows, envelopes, width, folder, random), width)
    # The order of the first is known only when all are there: what follows is read while it is stored.
    first = list(itertools.islice(mixed, 1))
    opening.blocks = itertools.chain(first, mixed)
    return opening


def _rows(chunks: Iterable[Opened], width: int, opening: OpenedLayer) -> Iterator[Column]:
    for inside, unopenable in chunks:
        opening.counted[LeftOut.UNOPENABLE] += unopenable
        yield np.frombuffer(inside, dtype=np.uint8).reshape(-1, width)
