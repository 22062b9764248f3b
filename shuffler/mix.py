"""Mix: a uniform permutation of each query's inner envelopes, each query by itself, from the system's CSPRNG.

A permutation is the order of 64-bit keys drawn from a ChaCha20 keystream under a fresh 256-bit key. Given that all keys
differ, every order is equally likely; on any tie all keys are drawn again, so the result is exactly uniform.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from hubbub.protos.batch import BatchId, BatchRecord, released_digest
from hubbub.protos.envelope import INNER_BYTES
from hubbub.protos.keys import Identity
from hubbub.protos.signed import SignedDocument
from hubbub.protos.task import Task
from hubbub.shuffler.records import Round, StoreError

RELEASED_BLOCK = 4096
"""Envelopes stored and sent together: 213 kB."""

Random = Callable[[int], bytes]
"""Gives that many random bytes."""

Draw = Callable[[int], npt.NDArray[np.uint64]]
"""Gives that many uniform 64-bit keys, anew at each call."""

Column = npt.NDArray[np.uint8]
"""Inner envelopes, one a row: shape (count, INNER_BYTES)."""

_NONCE = bytes(16)
"""All zeros: a key is used for one keystream only."""


class Inners(Protocol):
    """A cut round's store during mixing: the inner envelopes as they came, and where the permuted lists go."""

    def arrived(self) -> Iterator[bytes]:
        """Blocks of submissions as they came; each submission is its inner envelopes in the order of the queries."""

    def put_released(self, query: int, block: int, envelopes: bytes) -> None:
        """Store one block of a permuted list."""

    def put_batch(self, query: int, digest: bytes, record: SignedDocument) -> None:
        """Store a permuted list's digest and signed record."""


def keystream(random: Random = os.urandom) -> Draw:
    """Return a source of keys: each call a ChaCha20 keystream under a fresh key of 32 bytes from `random`."""

    def draw(count: int) -> npt.NDArray[np.uint64]:
        encryptor = Cipher(ChaCha20(random(32), _NONCE), mode=None).encryptor()
        return np.frombuffer(encryptor.update(bytes(8 * count)), dtype=np.uint64)

    return draw


def permutation(count: int, draw: Draw) -> npt.NDArray[np.intp]:
    """Return a uniform permutation of range(count): exactly uniform if `draw`'s keys are."""
    while True:
        keys = draw(count)
        order = np.argsort(keys)
        ordered = keys[order]
        if not (ordered[1:] == ordered[:-1]).any():
            return order


def mix(
    inners: Inners,
    round_: Round,
    task: Task,
    identity: Identity,
    random: Random = os.urandom,
    dummies: Sequence[Column] = (),
) -> None:
    """Permute each query's envelopes, `dummies` among them; store the lists, their digests and their signed records.

    Raises:
        StoreError: where the store does not hold as many submissions as were acknowledged, or there are not as many
            dummies as the task wants.
    """
    for query in range(len(task.queries)):
        added = dummies[query] if dummies else np.empty((0, INNER_BYTES), dtype=np.uint8)
        if len(added) != task.privacy.dummies:
            raise StoreError(f"{len(added)} dummies were made, the task wants {task.privacy.dummies}; mix again")
        column = _column(inners, query, len(task.queries), round_.submissions, added)
        order = permutation(len(column), keystream(random))
        digest = released_digest(_stored(inners, query, column, order))
        inners.put_batch(query, digest, _record(round_, query, digest, len(added)).signed_by(identity))


def _column(inners: Inners, query: int, queries: int, count: int, added: Column) -> Column:
    """Return one query's envelopes as they came, one a row, and then those added."""
    column = np.empty((count + len(added), INNER_BYTES), dtype=np.uint8)
    column[count:] = added
    filled = 0
    for block in inners.arrived():
        rows = np.frombuffer(block, dtype=np.uint8).reshape(-1, queries, INNER_BYTES)[:, query]
        if filled + len(rows) > count:
            raise StoreError(f"the store holds more than the {count} acknowledged submissions; is it damaged?")
        column[filled : filled + len(rows)] = rows
        filled += len(rows)
    if filled != count:
        raise StoreError(f"the store holds {filled} of {count} acknowledged submissions; is it damaged?")
    return column


def _stored(inners: Inners, query: int, column: Column, order: npt.NDArray[np.intp]) -> Iterator[bytes]:
    """Store the permuted list block by block, giving each block on for the digest."""
    for block, start in enumerate(range(0, len(order), RELEASED_BLOCK)):
        envelopes = column[order[start : start + RELEASED_BLOCK]].tobytes()
        inners.put_released(query, block, envelopes)
        yield envelopes


def _record(round_: Round, query: int, digest: bytes, dummies: int) -> BatchRecord:
    if round_.keys is None or round_.closed_by is None:
        raise StoreError("a round without keys or without a cut cannot be mixed; is the store damaged?")
    return BatchRecord(
        batch=BatchId(round_.task_id, round_.number, query),
        reports=round_.submissions,
        digest=digest,
        key_set_hash=round_.keys.key_set.hash,
        closed_by=round_.closed_by,
        refusals=round_.refusals_at_cut,
        dummies=dummies,
    )
