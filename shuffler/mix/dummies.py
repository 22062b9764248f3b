"""Makes dummies: reports of no person, which the shuffler adds to a batch and seals as devices seal theirs.

A task has a fixed number of uniform dummies, or noise: a random number of each symbol, drawn from the law in the task.
Uniform dummies improve everybody's privacy against the analyzer a little. Noise hides each person even if everybody
else's report is known. Neither helps against a shuffler that colludes with the analyzer: such a shuffler knows which
reports are dummies, and everybody is left with ε_local.

What is drawn is kept in memory only until it is sealed, and it is not used if mixing fails: then it is drawn again, and
nobody has seen a batch with the first draw.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hubbub.protos.sealing.envelope import Destination, Sealer
from hubbub.protos.task.signers import signers
from hubbub.protos.task.task import Task
from hubbub.queries.randomizers.randomizer import Imitable
from hubbub.shuffler.mix.external_sort import Column
from hubbub.shuffler.mix.mix import IN_MEMORY, Random
from hubbub.shuffler.mix.spool import Spool
from hubbub.shuffler.records import Round, StoreError

CHUNK = 1000
"""Dummies drawn and sealed at once, in a thread: about 0.1 s, and twice that if each has thousands of bits.

A shuffler that stops waits no longer than that, and no device waits at all.
"""


async def seal_dummies(
    task: Task, round_: Round, random: Random = os.urandom, folder: Path | None = None
) -> tuple[Column | Spool, ...]:
    """Seal the dummies or noise of each query of a round to the round's key of the analyzer, and to those of hops.

    If a query's dummies are too many for memory and `folder` is given, they are written to disk there; the caller
    closes those files (`let_go`).

    Raises:
        StoreError: if the round has no keys.
    """
    if not task.privacy.dummies and not any(query.noise for query in task.queries):
        return tuple(np.empty((0, width), dtype=np.uint8) for width in task.inner_bytes)
    sealer = _sealer(task, round_)
    sealed: list[Column | Spool] = []
    try:
        for index, width in enumerate(task.inner_bytes):
            drawn = await asyncio.to_thread(_noise, task, index, random)
            number = task.privacy.dummies if drawn is None else len(drawn) // task.queries[index].report_bytes
            fits = folder is None or number * width <= IN_MEMORY
            column = _MemoryColumn(width) if fits or folder is None else Spool(folder, width, random)
            if isinstance(column, Spool):
                sealed.append(column)
            for start in range(0, number, CHUNK):
                some = slice(start, min(start + CHUNK, number))
                column.add(await asyncio.to_thread(_chunk, sealer, task, index, some, drawn, random))
            if isinstance(column, _MemoryColumn):
                sealed.append(column.whole())
    except BaseException:
        let_go(sealed)
        raise
    return tuple(sealed)


def let_go(sealed: Sequence[Column | Spool]) -> None:
    """Close the files of dummies that are on disk."""
    for column in sealed:
        if isinstance(column, Spool):
            column.close()


class _MemoryColumn:
    """A column that is filled in memory."""

    def __init__(self, width: int) -> None:
        self._chunks: list[Column] = [np.empty((0, width), dtype=np.uint8)]

    def add(self, column: Column) -> None:
        self._chunks.append(column)

    def whole(self) -> Column:
        return np.concatenate(self._chunks)


def _sealer(task: Task, round_: Round) -> Sealer:
    if round_.keys is None:
        raise StoreError(
            "a round without keys cannot be mixed; the store may be damaged (docs/howto/respond-to-incidents.md, A "
            "store was damaged or lost)"
        )
    key_set, identities = round_.keys.key_set, signers(task, round_.number)
    shuffler, analyzer, *hops = key_set.read(
        *(task.id, round_.number, task.suite), identities.shuffler, identities.analyzer, identities.hops
    )
    destination = Destination(task.id, round_.number, key_set.hash)
    return Sealer(destination, shuffler.public_key, analyzer.public_key, task.hpke, [hop.public_key for hop in hops])


def _noise(task: Task, index: int, random: Random) -> bytes | None:
    """Draw a query's noise: reports joined without separators, by symbol; None if the query has no noise."""
    query = task.queries[index]
    if query.noise is None or not isinstance(query.randomizer, Imitable):
        return None
    return query.randomizer.reports_of(query.draw_noise(random))


def _chunk(sealer: Sealer, task: Task, index: int, some: slice, drawn: bytes | None, random: Random) -> Column:
    """Seal some of a query's dummies: of the noise that was `drawn`, or else uniform ones."""
    query = task.queries[index]
    width = query.report_bytes
    if drawn is None:
        # The randomizer's bound defines its dummies: blanket reports, or reports of a uniform answer.
        reports = query.randomizer.dummies(some.stop - some.start, random)
    else:
        reports = drawn[some.start * width : some.stop * width]
    joined = b"".join(sealer.inner(reports[start : start + width], index) for start in range(0, len(reports), width))
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, task.inner_bytes[index])
