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
from hubbub.shuffler.buckets import Column
from hubbub.shuffler.mix import Random
from hubbub.shuffler.records import Round, StoreError

CHUNK = 1000
"""Dummies sealed at once, about 0.1 s: a shuffler that is stopping waits no longer than that."""


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
        # What a dummy of a randomizer is, its bound says: a blanket report, or the report of a uniform answer.
        drawn, width = query.randomizer.dummies(task.privacy.dummies, random), query.report_bytes
        reports = [drawn[start : start + width] for start in range(0, len(drawn), width)]
        chunks = [reports[start : start + CHUNK] for start in range(0, len(reports), CHUNK)]
        sealed.append(np.concatenate([await asyncio.to_thread(_seal, sealer, chunk, index) for chunk in chunks]))
    return tuple(sealed)


def _sealer(task: Task, round_: Round) -> Sealer:
    if round_.keys is None:
        raise StoreError("a round without keys cannot be mixed; is the store damaged?")
    key_set, identities = round_.keys.key_set, task.identities
    records = key_set.read(task.id, round_.number, task.suite, identities.shuffler, identities.analyzer)
    destination = Destination(task.id, round_.number, key_set.hash)
    return Sealer(destination, *(record.public_key for record in records))


def _seal(sealer: Sealer, reports: list[bytes], query: int) -> Column:
    joined = b"".join(sealer.inner(report, query) for report in reports)
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, inner_bytes(len(reports[0])))
