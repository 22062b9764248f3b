"""Dummies: reports of no one that the shuffler adds to a batch. Sealed as devices seal theirs, they look no different.

They hide everybody a little better from the analyzer. They do not help against a shuffler that colludes with it: such a
shuffler knows which reports are dummies, and everyone is left with ε_local, as without them.
"""

from __future__ import annotations

import asyncio
import os

import numpy as np

from hubbub.protos.envelope import Destination, Sealer, inner_bytes
from hubbub.protos.task import Task
from hubbub.queries.query import Query
from hubbub.shuffler.buckets import Column
from hubbub.shuffler.mix import Random
from hubbub.shuffler.records import Round, StoreError

CHUNK = 1000
"""Dummies drawn and sealed at once, in a thread: about 0.1 s, and as much again where each has thousands of bits.

A shuffler that is stopping waits no longer than that, and no device waits at all.
"""


async def seal_dummies(task: Task, round_: Round, random: Random = os.urandom) -> tuple[Column, ...]:
    """Seal the task's dummies for each query of a round to the analyzer's key of the round.

    Raises:
        StoreError: where the round has no keys.
    """
    if not task.privacy.dummies:
        return tuple(np.empty((0, width), dtype=np.uint8) for width in task.inner_bytes)
    sealer = _sealer(task, round_)
    sealed = []
    for index, query in enumerate(task.queries):
        left = range(task.privacy.dummies, 0, -CHUNK)
        chunks = [await asyncio.to_thread(_chunk, sealer, query, index, min(CHUNK, count), random) for count in left]
        sealed.append(np.concatenate(chunks))
    return tuple(sealed)


def _sealer(task: Task, round_: Round) -> Sealer:
    if round_.keys is None:
        raise StoreError("a round without keys cannot be mixed; is the store damaged?")
    key_set, identities = round_.keys.key_set, task.identities
    records = key_set.read(task.id, round_.number, task.suite, identities.shuffler, identities.analyzer)
    destination = Destination(task.id, round_.number, key_set.hash)
    return Sealer(destination, *(record.public_key for record in records))


def _chunk(sealer: Sealer, query: Query, index: int, count: int, random: Random) -> Column:
    # What a dummy of a randomizer is, its bound says: a blanket report, or the report of a uniform answer.
    drawn, width = query.randomizer.dummies(count, random), query.report_bytes
    joined = b"".join(sealer.inner(drawn[start : start + width], index) for start in range(0, len(drawn), width))
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, inner_bytes(width))
