"""Permutes each query's inner envelopes uniformly, each query by itself, with the system's CSPRNG.

A permutation is the order of 64-bit keys drawn from a ChaCha20 keystream under a fresh 256-bit key. Given that all keys
differ, every order is equally likely; on any tie all keys are drawn again, so the result is exactly uniform.

A column too long for memory goes through buckets on disk: each envelope goes into the bucket of the first bits of its
key, and each bucket is sorted by itself. Read one after the other, the buckets give the column in the order of its
keys, as if it had been sorted at once. Two equal keys fall into one bucket, so no tie is missed. There a tie fails the
mixing, and nothing of it is kept; it is done again with other keys (with 10⁷ envelopes, once in 370,000 mixings).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Identity
from hubbub.protos.records.batch import BatchId, BatchRecord, released_digest
from hubbub.protos.records.release_chain import ChainPosition, Release
from hubbub.protos.task.task import FIRST_SHUFFLER, Task
from hubbub.shuffler.mix.external_sort import Buckets, Column, Keys
from hubbub.shuffler.mix.spool import Kept, chunks_of
from hubbub.shuffler.records import Round, StoreError

IN_MEMORY = 56 * 2**20
"""Bytes of envelopes that are permuted in memory at once, and as many again while they are stored: a million envelopes
of four-byte reports, or a tenth of that if unary encoding sends half a kilobyte."""

GATHERED = 2**16
"""Envelopes split into buckets at once, so that short blocks cost no more than long ones."""

RELEASED_BLOCK = 4096
"""Envelopes stored and sent together: 229 kB if a report has four bytes."""

Random = Callable[[int], bytes]
"""Returns that many random bytes."""

Draw = Callable[[int], Keys]
"""Returns that many uniform 64-bit keys, new at each call."""

Rows = Iterable[Column]
"""A column in chunks."""


class Order(Protocol):
    """Yields a column in a uniform order: `in_uniform_order`, or another function of its signature."""

    def __call__(self, rows: Rows, count: int, width: int, folder: Path, random: Random = ...) -> Iterator[Column]:
        """Yield a column of at most `count` envelopes of `width` bytes, read once, in a uniform order."""


_NONCE = bytes(16)
"""All zeros: a key makes only one keystream."""


class RoundContents(Protocol):
    """A cut round's store during mixing: the inner envelopes as they came, and the place of the permuted lists."""

    @property
    def folder(self) -> Path:
        """A folder for temporary buckets."""

    def arrived(self) -> Iterator[bytes]:
        """Blocks of submissions as they came; each submission is its inner envelopes in the order of the queries."""

    def put_released(self, query: int, block: int, envelopes: bytes) -> None:
        """Store one block of a permuted list."""

    def put_batch(self, query: int, digest: bytes, record: SignedDocument) -> None:
        """Store a permuted list's digest and signed record."""

    def position(self) -> ChainPosition:
        """Return the position of the round among the releases of its task."""

    def put_release(self, release: Release) -> None:
        """Store the round's release, at the position that `position` gave."""


def keystream(random: Random = os.urandom) -> Draw:
    """Return a source of keys: each call uses a ChaCha20 keystream under a fresh key of 32 bytes from `random`."""

    def draw(count: int) -> Keys:
        encryptor = Cipher(ChaCha20(random(32), _NONCE), mode=None).encryptor()
        return np.frombuffer(encryptor.update(bytes(8 * count)), dtype=np.uint64)

    return draw


def permutation(count: int, draw: Draw) -> npt.NDArray[np.intp]:
    """Return a uniform permutation of range(count): exactly uniform if `draw`'s keys are."""
    while True:
        keys = draw(count)
        order = np.argsort(keys)
        if not _has_tie(keys[order]):
            return order


def mix(
    inners: RoundContents,
    round_: Round,
    task: Task,
    identity: Identity,
    random: Random = os.urandom,
    dummies: Sequence[Kept] = (),
    order: Order | None = None,
) -> None:
    """Permute each query's envelopes, `dummies` among them; store the lists, their digests and their signed records.

    `order` permutes them; None means `in_uniform_order`.

    The records state the round's position among its task's releases; the release is stored too.

    Raises:
        StoreError: if the store does not have as many submissions as were acknowledged, or the number of dummies is not
            the task's.
    """
    position = inners.position()
    documents = []
    for query in range(len(task.queries)):
        none: Column = np.empty((0, task.inner_bytes[query]), dtype=np.uint8)
        added = dummies[query] if dummies else none
        differ = task.dummies_differ(query, len(added), FIRST_SHUFFLER)
        if differ is not None:
            raise StoreError(f"{differ}; mix again")
        rows = _rows(inners, query, task.inner_bytes, round_.submissions, added)
        count = round_.submissions + len(added)
        width = task.inner_bytes[query]
        mixed = (order or in_uniform_order)(rows, count, width, inners.folder, random)
        # The digest reads the blocks through `_stored`, so the list is stored and hashed in one pass.
        digest = released_digest(_stored(inners, query, mixed, width))
        documents.append(_record(task, round_, query, digest, len(added), position).signed_by(identity))
        inners.put_batch(query, digest, documents[-1])
    inners.put_release(Release.signed(round_.number, round_.submissions, task.privacy.dummies, documents))


def in_uniform_order(rows: Rows, count: int, width: int, folder: Path, random: Random = os.urandom) -> Iterator[Column]:
    """Yield a column of at most `count` envelopes in a uniform order, in memory or through buckets in `folder`.

    Raises:
        StoreError: if two keys of buckets are equal; then no envelope that was yielded may be used.
    """
    if count * width <= IN_MEMORY:
        return permuted(rows, count, keystream(random), width)
    limit = max(1, IN_MEMORY // width)
    return permuted_by_buckets(rows, count, keystream(random), folder, width, limit, random)


def permuted(rows: Rows, count: int, draw: Draw, width: int) -> Iterator[Column]:
    """Yield a column of at most `count` envelopes of `width` bytes in a uniform order."""
    column = np.empty((count, width), dtype=np.uint8)
    filled = 0
    for chunk in rows:
        column[filled : filled + len(chunk)] = chunk
        filled += len(chunk)
    order = permutation(filled, draw)
    for start in range(0, filled, RELEASED_BLOCK):
        yield column[order[start : start + RELEASED_BLOCK]]


def permuted_by_buckets(
    rows: Rows, count: int, draw: Draw, folder: Path, width: int, limit: int, random: Random = os.urandom
) -> Iterator[Column]:
    """Yield a column of `count` envelopes in a uniform order, with about `limit` of them in memory at a time.

    Raises:
        StoreError: if two keys are equal; then no envelope that was yielded may be used.
    """
    bits = max(1, math.ceil(math.log2(count / limit * 4 / 3)))  # so that hardly any bucket is above the limit
    with Buckets(folder, bits, width, random) as buckets:
        for chunk in _gathered(rows):
            buckets.add(draw(len(chunk)), chunk)
        for keys, column in buckets:
            order = np.argsort(keys)
            if _has_tie(keys[order]):
                raise StoreError("two of the permutation's keys are equal; they are drawn again")
            yield column[order]


def _has_tie(ordered: Keys) -> bool:
    return bool((ordered[1:] == ordered[:-1]).any())


def _gathered(rows: Rows) -> Iterator[Column]:
    gathered: list[Column] = []
    for chunk in rows:
        gathered.append(chunk)
        if sum(map(len, gathered)) >= GATHERED:
            yield np.concatenate(gathered)
            gathered = []
    if gathered:
        yield np.concatenate(gathered)


def _rows(inners: RoundContents, query: int, widths: Sequence[int], count: int, added: Kept) -> Iterator[Column]:
    """Yield one query's envelopes as they came, then those added; fail unless `count` of the former came."""
    # The count is checked while blocks are already being stored: the error rolls back the store's transaction.
    found, start, end = 0, sum(widths[:query]), sum(widths[: query + 1])
    for block in inners.arrived():
        rows = np.frombuffer(block, dtype=np.uint8).reshape(-1, sum(widths))[:, start:end]
        found += len(rows)
        if found > count:
            raise StoreError(
                f"the store has more than the {count} acknowledged submissions; it may be damaged "
                "(docs/howto/respond-to-incidents.md, A store was damaged or lost)"
            )
        yield rows
    if found != count:
        raise StoreError(
            f"the store has {found} of {count} acknowledged submissions; it may be damaged "
            "(docs/howto/respond-to-incidents.md, A store was damaged or lost)"
        )
    yield from chunks_of(added)


def _stored(inners: RoundContents, query: int, mixed: Rows, width: int) -> Iterator[bytes]:
    """Store the permuted list block by block, and yield each block for the digest."""
    for block, envelopes in enumerate(blocks(mixed, width)):
        inners.put_released(query, block, envelopes)
        yield envelopes


def blocks(mixed: Rows, width: int) -> Iterator[bytes]:
    """Yield a list in blocks of `RELEASED_BLOCK` envelopes, the last one shorter."""
    rest: Column = np.empty((0, width), dtype=np.uint8)
    for chunk in mixed:
        # Only the rest of the last chunk is joined to this one, so that no long chunk is copied as a whole.
        start = min((RELEASED_BLOCK - len(rest)) % RELEASED_BLOCK, len(chunk))
        rest = np.concatenate([rest, chunk[:start]])
        if len(rest) < RELEASED_BLOCK and start == len(chunk):
            continue
        if len(rest):
            yield rest.tobytes()
        end = start + (len(chunk) - start) // RELEASED_BLOCK * RELEASED_BLOCK
        yield from (chunk[at : at + RELEASED_BLOCK].tobytes() for at in range(start, end, RELEASED_BLOCK))
        rest = chunk[end:]
    if len(rest):
        yield rest.tobytes()


def _record(task: Task, round_: Round, query: int, digest: bytes, dummies: int, position: ChainPosition) -> BatchRecord:
    if round_.keys is None or round_.closed_by is None:
        raise StoreError(
            "a round without keys or without a cut cannot be mixed; the store may be damaged "
            "(docs/howto/respond-to-incidents.md, A store was damaged or lost)"
        )
    return BatchRecord(
        batch=BatchId(round_.task_id, round_.number, query),
        reports=round_.submissions,
        digest=digest,
        key_set_hash=round_.keys.key_set.hash,
        closed_by=round_.closed_by,
        refusals=round_.refusals_at_cut,
        dummies=dummies,
        admission=task.admission.mode.value,
        position=position,
    )
