"""Dummies: uniform reports that the shuffler adds to a batch, sealed as devices seal theirs, so that nobody tells them.

They hide everybody a little better from the analyzer. They protect nothing from a shuffler that colludes with it: that
one knows which they are, and ε_local is what is left, as without them.
"""

from __future__ import annotations

import asyncio
import os

import numpy as np
import numpy.typing as npt

from hubbub.protos.envelope import INNER_BYTES, Destination, Sealer
from hubbub.protos.task import Task
from hubbub.shuffler.buckets import Column
from hubbub.shuffler.mix import Random
from hubbub.shuffler.records import Round, StoreError

CHUNK = 1000
"""Dummies sealed at once, about 0.1 s: a shuffler that is stopping waits no longer than that."""


def uniform_symbols(count: int, symbols: int, random: Random = os.urandom) -> npt.NDArray[np.uint32]:
    """Return `count` symbols from range(`symbols`): exactly uniform and independent if the bytes of `random` are.

    32-bit draws from the last, incomplete stretch of `symbols` numbers are rejected.
    """
    limit = 2**32 - 2**32 % symbols
    found = np.empty(0, dtype=np.uint64)
    while len(found) < count:
        draws = np.frombuffer(random(4 * (count - len(found))), dtype="<u4").astype(np.uint64)
        found = np.concatenate([found, draws[draws < limit] % symbols])
    return found.astype(np.uint32)


async def seal_dummies(task: Task, round_: Round, random: Random = os.urandom) -> tuple[Column, ...]:
    """Seal the task's dummies for each query of a round to the analyzer's key of the round.

    Raises:
        StoreError: where the round has no keys.
    """
    if not task.privacy.dummies:
        return tuple(np.empty((0, INNER_BYTES), dtype=np.uint8) for _ in task.queries)
    sealer = _sealer(task, round_)
    sealed = []
    for index, query in enumerate(task.queries):
        drawn = uniform_symbols(task.privacy.dummies, query.symbols, random)
        chunks = [drawn[start : start + CHUNK].tolist() for start in range(0, len(drawn), CHUNK)]
        sealed.append(np.concatenate([await asyncio.to_thread(_seal, sealer, chunk, index) for chunk in chunks]))
    return tuple(sealed)


def _sealer(task: Task, round_: Round) -> Sealer:
    if round_.keys is None:
        raise StoreError("a round without keys cannot be mixed; is the store damaged?")
    key_set, identities = round_.keys.key_set, task.identities
    records = key_set.read(task.id, round_.number, task.suite, identities.shuffler, identities.analyzer)
    destination = Destination(task.id, round_.number, key_set.hash)
    return Sealer(destination, *(record.public_key for record in records))


def _seal(sealer: Sealer, symbols: list[int], query: int) -> Column:
    joined = b"".join(sealer.inner(symbol, query) for symbol in symbols)
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, INNER_BYTES)
