"""Makes dummies: reports of no person, which the shuffler adds to a batch and seals as devices seal theirs.

They improve everybody's privacy against the analyzer a little. They do not help against a shuffler that colludes with
it: such a shuffler knows which reports are dummies, and everybody is left with ε_local, as without dummies.
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
    """Seal the task's dummies for each query of a round to the round's key of the analyzer, and to those of hops.

    If a query's dummies are too many for memory and `folder` is given, they are written to disk there; the caller
    closes those files (`let_go`).

    Raises:
        StoreError: if the round has no keys.
    """
    if not task.privacy.dummies:
        return tuple(np.empty((0, width), dtype=np.uint8) for width in task.inner_bytes)
    sealer = _sealer(task, round_)
    sealed: list[Column | Spool] = []
    try:
        for index, width in enumerate(task.inner_bytes):
            fits = folder is None or task.privacy.dummies * width <= IN_MEMORY
            column = _MemoryColumn() if fits or folder is None else Spool(folder, width, random)
            if isinstance(column, Spool):
                sealed.append(column)
            for count in range(task.privacy.dummies, 0, -CHUNK):
                some = min(CHUNK, count)
                column.add(await asyncio.to_thread(_chunk, sealer, task, index, some, random))
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

    def __init__(self) -> None:
        self._chunks: list[Column] = []

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


def _chunk(sealer: Sealer, task: Task, index: int, count: int, random: Random) -> Column:
    query = task.queries[index]
    # The randomizer's bound defines its dummies: blanket reports, or reports of a uniform answer.
    drawn, width = query.randomizer.dummies(count, random), query.report_bytes
    joined = b"".join(sealer.inner(drawn[start : start + width], index) for start in range(0, len(drawn), width))
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, task.inner_bytes[index])
