"""Permutes envelopes on Spark, in the order of 128-bit keys that follow from a fresh secret and a row's position.

Spark runs tasks again, and some twice at once. So no task draws anything: the key of row j of block b is a PRF of the
secret, ChaCha20's keystream at (b, j), and each try of a task computes the same. Given that no two keys are equal, each
order is equally likely. Equal keys fall into one part and are detected there; then all keys are drawn again under
another secret (with 10⁹ envelopes, once in 10²⁰ mixings). So the order is exactly uniform.

Envelopes go to tasks, and parts of the permuted list come back, in encrypted files (`service.spark.files`). They are
released block by block like any list, with one digest over all of it.
"""

from __future__ import annotations

import functools
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

from hubbub.service.settings import SparkSettings
from hubbub.service.spark.files import Files
from hubbub.service.spark.session import SparkApplication, begin_task, failures, session, workplace
from hubbub.shuffler.mix import mix
from hubbub.shuffler.mix.external_sort import Column, Keys
from hubbub.shuffler.mix.mix import Order, Random, Rows
from hubbub.shuffler.records import StoreError

KEY_BYTES = 16
"""Length of a row's key."""

BLOCK_BYTES = 2**22
"""Bytes of envelopes that one task distributes to the parts."""

PART_BYTES = 2**25
"""About the bytes of keys and envelopes of one part: a task sorts that much in memory."""

_KEYSTREAM_NONCE_BYTES = 12


class Numbered(Protocol):
    """Storage that tasks read and write: `Files`."""

    def read(self, number: int) -> bytes:
        """Return the content written under a number."""

    def write(self, number: int, content: bytes) -> None:
        """Write content under a number, as a whole; a task that runs again writes the same."""


MakeFiles = Callable[[Path, bytes], Files]
"""Makes files in a folder under a key."""

KeysAt = Callable[[bytes, int, int], Keys]
"""Returns the keys of that many rows of a block under a secret: `keys_at`."""


def order_by(settings: SparkSettings) -> Order:
    """Return the function that permutes a column: on Spark if the settings name it, else in this process."""
    return functools.partial(in_uniform_order, settings) if settings.master else mix.in_uniform_order


def in_uniform_order(
    settings: SparkSettings, rows: Rows, count: int, width: int, folder: Path, random: Random = os.urandom
) -> Iterator[Column]:
    """Yield a column of at most `count` envelopes of `width` bytes in a uniform order.

    Spark is used from `settings.minimum_envelopes` on; a session and its files are in `settings.folder`, or in `folder`
    if that is not set.

    Raises:
        SparkError: if Spark cannot be used or the job fails; then no envelope that was yielded may be used.
    """
    if count < settings.minimum_envelopes:
        yield from mix.in_uniform_order(rows, count, width, folder, random)
        return
    with workplace(settings, folder) as place:
        with session(settings, place) as begun:
            mixing = mixed_on(begun, place, rows, width, random)
        # After the session: the store may fail while it takes the list, and the cluster is free by then.
        yield from mixing.column()


def mixed_on(
    begun: SparkApplication,
    place: Path,
    rows: Rows,
    width: int,
    random: Random = os.urandom,
    make_files: MakeFiles = Files,
    keys: KeysAt | None = None,
) -> Mixing:
    """Put a column of envelopes of `width` bytes into a uniform order, in a running session, with files in `place`.

    Raises:
        SparkError: if the job fails.
        StoreError: if the job returned another number of envelopes.
    """
    with tempfile.TemporaryDirectory(dir=place) as came:
        arrived = make_files(Path(came), random(32))
        blocks, count = _written(rows, width, arrived)
        while True:
            # A new key for new contents: under one key each number has one content.
            secret, permuted = random(32), make_files(Path(tempfile.mkdtemp(dir=place)), random(32))
            mixing = Mixing(secret, _parts(count, width), width, arrived, permuted, keys or keys_at)
            if _mixed(begun, mixing, blocks, count):
                return mixing


@dataclass(frozen=True)
class Mixing:
    """A permutation in progress: its secret (32 bytes), its number of parts, and the files that it reads and writes."""

    secret: bytes = field(repr=False)
    parts: int
    width: int
    arrived: Files
    permuted: Files
    keys: KeysAt

    def spread(self, block: int) -> Iterator[tuple[int, bytes]]:
        """Yield a block's records, each a key and an envelope, by their part."""
        begin_task()
        column = np.frombuffer(self.arrived.read(block), dtype=np.uint8).reshape(-1, self.width)
        keys = self.keys(self.secret, block, len(column))
        records = np.empty((len(column), KEY_BYTES + self.width), dtype=np.uint8)
        records[:, :KEY_BYTES] = keys.view(np.uint8).reshape(-1, KEY_BYTES)
        records[:, KEY_BYTES:] = column
        # By the first 32 bits, which rise with the key: so parts one after the other are in the order of the keys.
        places = ((keys[:, 0] >> np.uint64(32)) * np.uint64(self.parts)) >> np.uint64(32)
        records = records[np.argsort(places, kind="stable")]
        ends = np.cumsum(np.bincount(places.astype(np.intp), minlength=self.parts)).tolist()
        for part, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if start < end:
                yield part, records[start:end].tobytes()

    def gather(self, part: int, found: Iterable[tuple[int, bytes]]) -> Iterator[int]:
        """Write a part in the order of its keys; yield its number of envelopes, or -1 if two keys are equal."""
        begin_task()
        joined = b"".join(records for _, records in found)
        records = np.frombuffer(joined, dtype=np.uint8).reshape(-1, KEY_BYTES + self.width)
        keys = np.ascontiguousarray(records[:, :KEY_BYTES]).view(np.uint64)
        order = order_of(keys)
        if order is None:
            yield -1
            return
        # The order in which records come here does not affect their places, so a retry in another order writes the
        # same.
        self.permuted.write(part, records[order, KEY_BYTES:].tobytes())
        yield len(records)

    def column(self) -> Iterator[Column]:
        """Yield the parts one after the other; each is deleted once it is read."""
        for part in range(self.parts):
            yield np.frombuffer(self.permuted.read(part), dtype=np.uint8).reshape(-1, self.width)
            self.permuted.remove(part)


def keys_at(secret: bytes, block: int, count: int) -> Keys:
    """Return the keys of a block's rows, shape (count, 2): ChaCha20's keystream (RFC 8439) whose nonce is the block."""
    nonce = bytes(4) + block.to_bytes(_KEYSTREAM_NONCE_BYTES, "big")
    keystream = Cipher(ChaCha20(secret, nonce), mode=None).encryptor().update(bytes(KEY_BYTES * count))
    return np.frombuffer(keystream, dtype=np.uint64).reshape(-1, 2)


def order_of(keys: Keys) -> np.ndarray[tuple[int], np.dtype[np.intp]] | None:
    """Return the order of keys, shape (count, 2), by their first and then their second halves; None on a tie."""
    order = np.argsort(keys[:, 0])
    ordered = keys[order]
    if (ordered[1:, 0] == ordered[:-1, 0]).any():
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        ordered = keys[order]
    return None if (ordered[1:] == ordered[:-1]).all(axis=1).any() else order


def _written(rows: Rows, width: int, files: Numbered) -> tuple[int, int]:
    """Write a column as blocks of one length, the last one shorter; return the numbers of blocks and envelopes."""
    size, held, block, count = max(1, BLOCK_BYTES // width) * width, bytearray(), 0, 0
    for chunk in rows:
        held += chunk.tobytes()
        count += len(chunk)
        while len(held) >= size:
            files.write(block, bytes(held[:size]))
            del held[:size]
            block += 1
    if held:
        files.write(block, bytes(held))
        block += 1
    return block, count


def _parts(count: int, width: int) -> int:
    return max(1, math.ceil(count * (KEY_BYTES + width) / PART_BYTES))


def _mixed(begun: SparkApplication, mixing: Mixing, blocks: int, count: int) -> bool:
    """Make all parts; return False if two keys were equal, so that all are drawn again."""
    with failures():
        spread = begun.context.parallelize(range(blocks), max(1, blocks)).flatMap(mixing.spread)
        sizes = spread.partitionBy(mixing.parts, _itself).mapPartitionsWithIndex(mixing.gather).collect()
    if -1 in sizes:
        return False
    if len(sizes) != mixing.parts or sum(sizes) != count:
        raise StoreError(
            f"Spark permuted {sum(sizes)} of {count} envelopes; its result is discarded, and the mix is repeated"
        )
    return True


def _itself(part: int) -> int:
    return part
