"""From a batch's envelopes to the tally of its reports. What is bad is counted and left out, never fatal."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from hubbub.protos.records.batch import LeftOut as LeftOut
from hubbub.queries.randomizers.randomizer import Randomizer, Tally
from hubbub.service.processes.opening_pool import OpeningJob
from hubbub.service.receiving.deduplication import Chunks, distinct


@dataclass(frozen=True)
class OpenedBatch:
    """What a batch counted, and the number of envelopes left out by reason, where any was."""

    tally: Tally
    left_out: dict[str, int]


Counted = Tally | bytes
"""The tally of a chunk's reports, or the reports, one after the other."""

Open = Callable[[OpeningJob, Iterable[bytes], int, Callable[[bytes], Counted]], Iterator[tuple[Counted, int]]]
"""What opens them: `OpeningPool.count`. With each chunk comes how many of its envelopes did not open."""


def open_batch(job: OpeningJob, parts: Chunks, envelopes: int, randomizer: Randomizer, opener: Open) -> OpenedBatch:
    """Open a batch of that many `envelopes`, whose reports were made by `randomizer`, and count.

    Of byte-identical envelopes the first is opened; the others are left out. Reads the batch twice and keeps 8 bytes of
    each envelope, so memory stays small where the batch is large. Blocks, so it is called in a thread.
    """
    left_out: Counter[str] = Counter()
    tally = randomizer.tally(b"")
    use = functools.partial(counted, randomizer)
    opened = opener(job, distinct(parts, envelopes, job.width, left_out), envelopes, use)
    try:
        for found, unopenable in opened:
            left_out[LeftOut.UNOPENABLE] += unopenable
            tally += randomizer.tally(found) if isinstance(found, bytes) else found
    finally:
        # An opener that holds a cluster lets it go, also where counting failed: the error would keep it.
        getattr(opened, "close", int)()
    left_out[LeftOut.OUT_OF_DOMAIN] += tally.invalid
    return OpenedBatch(tally, {reason.value: left_out[reason] for reason in LeftOut if left_out[reason]})


def counted(randomizer: Randomizer, reports: bytes) -> Counted:
    """Return the tally of a chunk's reports where it is shorter than they are, and else themselves.

    What opens a chunk far from here sends the one or the other back.
    """
    tally = randomizer.tally(reports)
    return tally if tally.counts.nbytes <= len(reports) else reports
