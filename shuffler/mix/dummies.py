"""Makes dummies: reports of no person, which a shuffler adds to a batch and seals as devices seal theirs.

A task has a fixed number of uniform dummies, or noise: a random number of each symbol, drawn from the law in the task.
The first shuffler adds uniform dummies, and every shuffler of a chain adds noise of its own. Uniform dummies improve
everybody's privacy against the analyzer a little. Noise hides each person even if everybody else's report is known.
Neither helps against a shuffler that colludes with the analyzer: such a shuffler knows which reports are dummies. The
noise of one other, honest shuffler is enough; without any, everybody is left with ε_local.

What is drawn is kept in memory only until it is sealed, here or in the processes that open envelopes. It is not used
if mixing fails: then it is drawn again, and nobody has seen a batch with the first draw.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from hubbub.protos.identity.keys import KeySet
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.task import FIRST_SHUFFLER, Task, signers
from hubbub.queries.randomizers.randomizer import Imitable
from hubbub.shuffler.mix.external_sort import Column
from hubbub.shuffler.mix.mix import IN_MEMORY, Random
from hubbub.shuffler.mix.sealing_job import SealingJob, SealReports
from hubbub.shuffler.mix.spool import Kept, Spool
from hubbub.shuffler.records import Round, StoreError

CHUNK = 1000
"""Dummies drawn and sealed at once: about 0.1 s of a core, and twice that if each has thousands of bits.

A shuffler that stops waits no longer than that, and no device waits at all.
"""


async def seal_in_a_thread(job: SealingJob, reports: bytes) -> bytes:
    """Seal reports in one thread, which no process has to be started for."""
    return await asyncio.to_thread(job.seal, reports)


async def seal_dummies(
    task: Task,
    round_: Round,
    random: Random = os.urandom,
    folder: Path | None = None,
    seal: SealReports = seal_in_a_thread,
) -> tuple[Kept, ...]:
    """Seal the first shuffler's dummies or noise of each query of a round to those behind it, by `seal`.

    If a query's dummies are too many for memory and `folder` is given, they are written to disk there; the caller
    closes those files (`let_go`).

    Raises:
        StoreError: if the round has no keys.
    """
    if not task.privacy.dummies and not any(query.noise for query in task.queries):
        return tuple(np.empty((0, width), dtype=np.uint8) for width in task.inner_bytes)
    if round_.keys is None:
        raise StoreError(
            "a round without keys cannot be mixed; the store may be damaged (docs/howto/respond-to-incidents.md, A "
            "store was damaged or lost)"
        )
    sealing = DummySealer(task, round_.number, round_.keys.key_set, FIRST_SHUFFLER, seal)
    sealed: list[Kept] = []
    try:
        for query in range(len(task.queries)):
            column = await sealing.of_query(query, random, folder)
            sealed.append(column)
    except BaseException:
        let_go(sealed)
        raise
    return tuple(sealed)


def let_go(sealed: Iterable[Kept]) -> None:
    """Close the files of dummies that are on disk."""
    for column in sealed:
        if isinstance(column, Spool):
            column.close()


class DummySealer:
    """Draws what the shuffler in a `position` of the chain adds to a round's batches, and seals it to those behind it.

    `seal` does the latter. `key_set` is the round's. Its signatures are checked again here.

    Raises:
        SignatureError, KeyRecordError: if the key set is not that of the round.
    """

    def __init__(
        self, task: Task, number: int, key_set: KeySet, position: int, seal: SealReports = seal_in_a_thread
    ) -> None:
        identities = signers(task, number)
        shuffler, analyzer, *hops = key_set.read(
            *(task.id, number, task.suite), identities.shuffler, identities.analyzer, identities.hops
        )
        behind = (hop.public_key for hop in hops[position - FIRST_SHUFFLER :])
        self._destination = Destination(task.id, number, key_set.hash)
        self._keys = (shuffler.public_key, analyzer.public_key, *behind)
        self._task, self._position, self._seal = task, position, seal

    async def of_query(self, query: int, random: Random, folder: Path | None = None) -> Kept:
        """Return the sealed dummies of a query; on disk if they are too many for memory and `folder` is given."""
        job = self._job(query)
        width = job.envelope_bytes
        drawn = await asyncio.to_thread(_noise, self._task, query, random)
        number = self._uniform if drawn is None else len(drawn) // job.report_bytes
        fits = folder is None or number * width <= IN_MEMORY
        column = _MemoryColumn(width) if fits or folder is None else Spool(folder, width, random)
        try:
            for start in range(0, number, CHUNK):
                some = slice(start, min(start + CHUNK, number))
                reports = await asyncio.to_thread(self._reports, query, some, drawn, random)
                column.add(np.frombuffer(await self._seal(job, reports), dtype=np.uint8).reshape(-1, width))
        except BaseException:
            if isinstance(column, Spool):
                column.close()
            raise
        return column.whole() if isinstance(column, _MemoryColumn) else column

    @property
    def _uniform(self) -> int:
        """How many dummies the shuffler adds to a query without noise: only the first one adds any."""
        return self._task.privacy.dummies if self._position == FIRST_SHUFFLER else 0

    def _job(self, query: int) -> SealingJob:
        suite, size = self._task.suite, self._task.queries[query].report_bytes
        return SealingJob(self._destination, self._keys, suite, self._position + 1, query, size)

    def _reports(self, query: int, some: slice, drawn: bytes | None, random: Random) -> bytes:
        """Return some of a query's dummies: of the noise that was `drawn`, or else uniform ones."""
        asked = self._task.queries[query]
        if drawn is None:
            # The randomizer's bound defines its dummies: blanket reports, or reports of a uniform answer.
            return asked.randomizer.dummies(some.stop - some.start, random)
        size = asked.report_bytes
        return drawn[some.start * size : some.stop * size]


class _MemoryColumn:
    """A column that is filled in memory."""

    def __init__(self, width: int) -> None:
        self._chunks: list[Column] = [np.empty((0, width), dtype=np.uint8)]

    def add(self, column: Column) -> None:
        self._chunks.append(column)

    def whole(self) -> Column:
        return np.concatenate(self._chunks)


def _noise(task: Task, index: int, random: Random) -> bytes | None:
    """Draw a query's noise: reports joined without separators, by symbol; None if the query has no noise."""
    query = task.queries[index]
    if query.noise is None or not isinstance(query.randomizer, Imitable):
        return None
    return query.randomizer.reports_of(query.draw_noise(random))
