"""Opens a batch's envelopes and tallies its reports. Bad envelopes are counted and left out, and cause no error."""

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
    """The tally of a batch, and the numbers of envelopes left out by reason, without zeros."""

    tally: Tally
    left_out: dict[str, int]


Counted = Tally | bytes
"""The tally of a chunk's reports, or the reports themselves, one after the other."""

Open = Callable[[OpeningJob, Iterable[bytes], int, Callable[[bytes], Counted]], Iterator[tuple[Counted, int]]]
"""Opens envelopes: `OpeningPool.count`. Each chunk comes with its number of unopenable envelopes."""


def open_batch(job: OpeningJob, parts: Chunks, envelopes: int, randomizer: Randomizer, opener: Open) -> OpenedBatch:
    """Open a batch of `envelopes` envelopes, whose reports come from `randomizer`, and count.

    Of byte-identical envelopes the first is opened; the others are left out. Reads the batch twice and keeps 8 bytes of
    each envelope, so memory stays small for a large batch. Blocks, so call it in a thread.
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
        # An opener with a cluster must release it even if counting failed: the error would keep a reference to it.
        getattr(opened, "close", int)()
    left_out[LeftOut.OUT_OF_DOMAIN] += tally.invalid
    return OpenedBatch(tally, {reason.value: left_out[reason] for reason in LeftOut if left_out[reason]})


def counted(randomizer: Randomizer, reports: bytes) -> Counted:
    """Return the tally of a chunk's reports if it is shorter than the reports, and else the reports.

    A remote opener sends back whichever is shorter.
    """
    tally = randomizer.tally(reports)
    return tally if tally.counts.nbytes <= len(reports) else reports
