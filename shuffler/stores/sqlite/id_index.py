"""Keeps the ids of a round's submissions, each with the digest of its envelope, for millions of them.

A dictionary takes 200 bytes an entry. So the latest entries are in dictionaries and the rest in sorted arrays, 32 bytes
an entry. Callers of an open task choose ids. So an id is not looked up by its own bytes, which many ids could share,
but by its image under AES-256 (FIPS 197); an id is one block. The key is drawn when an index is made and never leaves
it, so chosen ids are distributed as random ones are. AES maps no two blocks to one, so ids are distinguished with
certainty. One call maps all ids of an index: a restart maps 10⁷ of them in seconds. The first byte of a mapped id names
its part, so that merging the latest entries takes a moment and little memory; the first 8 bytes find the entry.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import ECB

from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES
from hubbub.shuffler.records import DIGEST_BYTES

RECENT = 2**16
"""Entries of a part that are in a dictionary, 13 MB, before they are merged into the sorted ones."""

ENTRY_BYTES = SUBMISSION_ID_BYTES + DIGEST_BYTES
"""The bytes of an entry: an id, and the digest that is stored under it."""

_GATHERED = 2**18
"""Entries that are mapped at once while an index is made of stored ones: 8 MB."""

_PARTS = 16
_HASH_BYTES = SUBMISSION_ID_BYTES
_KEY_BYTES = 8
_REST_BYTES = _HASH_BYTES - _KEY_BYTES


class IdIndex:
    """Digests of envelopes by id. One thread adds; others may look up meanwhile, and find all earlier entries.

    `random` makes the 32 bytes of the key that maps ids.
    """

    def __init__(self, recent: int = RECENT, random: Callable[[int], bytes] = os.urandom) -> None:
        self._parts = [_IndexPart(recent) for _ in range(_PARTS)]
        # ECB shows which blocks are equal; that is harmless here: ids differ, and no mapped id leaves this object.
        self._mapping = Cipher(AES256(random(32)), ECB()).encryptor()  # noqa: S305
        self._alone = threading.Lock()
        self._count = 0

    @classmethod
    def stored(cls, blocks: Iterable[bytes]) -> IdIndex:
        """Return an index of stored entries, in blocks of `ENTRY_BYTES` each; no id may be in them twice."""
        ids = cls()
        parted: list[list[npt.NDArray[np.uint8]]] = [[] for _ in range(_PARTS)]
        for entries in _gathered(blocks):
            for held, rows in zip(parted, ids._parted(entries), strict=True):
                held.append(rows)
            ids._count += len(entries) // ENTRY_BYTES
        for part, held in zip(ids._parts, parted, strict=True):
            part.join(held)
            held.clear()  # while it is sorted, one part is in memory twice, and never all of them
        return ids

    def __len__(self) -> int:
        return self._count

    def get(self, submission_id: bytes) -> bytes | None:
        """Return the digest that is stored under an id."""
        return self._find(self._hash(submission_id))

    def find(self, ids: Sequence[bytes]) -> list[bytes | None]:
        """Return the result of `get` for each id, in order, in a fourth of the time."""
        if not self._count:
            return [None] * len(ids)
        parts = self._parts
        return [parts[hashed[0] % _PARTS].get(hashed) for hashed in self._hashes(ids)]

    def update(self, fresh: Mapping[bytes, bytes]) -> None:
        """Add entries whose ids are not in the index yet."""
        for hashed, digest in zip(self._hashes(fresh), fresh.values(), strict=True):
            self._parts[hashed[0] % _PARTS].recent[hashed] = digest
        self._count += len(fresh)
        for part in self._parts:
            part.pack()

    def _find(self, hashed: bytes) -> bytes | None:
        return self._parts[hashed[0] % _PARTS].get(hashed)

    def _hash(self, ids: bytes) -> bytes:
        """Map concatenated ids."""
        if len(ids) % _HASH_BYTES:
            raise ValueError(f"ids of {_HASH_BYTES} bytes each are {len(ids)} bytes together; one is of another length")
        with self._alone:
            return self._mapping.update(ids)

    def _hashes(self, ids: Iterable[bytes]) -> list[bytes]:
        mapped = self._hash(b"".join(ids))
        return [mapped[start : start + _HASH_BYTES] for start in range(0, len(mapped), _HASH_BYTES)]

    def _parted(self, entries: bytes) -> list[npt.NDArray[np.uint8]]:
        """Return entries by part, with mapped ids."""
        rows = np.frombuffer(bytearray(entries), dtype=np.uint8).reshape(-1, ENTRY_BYTES)
        mapped = self._hash(rows[:, :_HASH_BYTES].tobytes())
        rows[:, :_HASH_BYTES] = np.frombuffer(mapped, dtype=np.uint8).reshape(-1, _HASH_BYTES)
        places = rows[:, 0] % _PARTS
        ends = np.cumsum(np.bincount(places, minlength=_PARTS))[:-1]
        return np.split(rows[np.argsort(places, kind="stable")], ends)


def _gathered(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Join short blocks, so that they cost no more than long ones."""
    gathered: list[bytes] = []
    held = 0
    for block in blocks:
        gathered.append(block)
        held += len(block)
        if held >= _GATHERED * ENTRY_BYTES:
            yield b"".join(gathered)
            gathered, held = [], 0
    yield b"".join(gathered)


class _IndexPart:
    """The mapped ids of one part: `recent` ones, and sorted ones, their first 8 bytes separate from the rest."""

    def __init__(self, limit: int) -> None:
        self.recent: dict[bytes, bytes] = {}
        self._limit = limit
        self.sorted = _arrays(np.empty((0, ENTRY_BYTES), dtype=np.uint8))

    def get(self, hashed: bytes) -> bytes | None:
        found = self.recent.get(hashed)
        if found is not None:
            return found
        keys, rests = self.sorted
        if not len(keys):
            return None
        key = np.frombuffer(hashed, dtype=np.uint64, count=1)[0]
        first = int(keys.searchsorted(key))
        if first == len(keys) or keys[first] != key:
            return None
        # Ids with the same first 8 bytes are next to each other; the rest distinguishes them.
        alike = rests[first : int(keys.searchsorted(key, "right"))]
        rest = np.frombuffer(hashed[_KEY_BYTES:], dtype=np.uint8)
        (places,) = np.nonzero((alike[:, :_REST_BYTES] == rest).all(axis=1))
        return alike[places[0], _REST_BYTES:].tobytes() if len(places) else None

    def pack(self) -> None:
        """Merge the recent entries into the sorted ones, once there are enough."""
        if len(self.recent) < self._limit:
            return
        entries = b"".join([part for entry in self.recent.items() for part in entry])
        # In this order: a concurrent lookup finds an entry in one of the two, or in both.
        self.join([np.frombuffer(entries, dtype=np.uint8).reshape(-1, ENTRY_BYTES)])
        self.recent = {}

    def join(self, more: Sequence[npt.NDArray[np.uint8]]) -> None:
        """Merge entries, shape (count, `ENTRY_BYTES`) each, into the sorted ones."""
        (keys, rests), arrays = self.sorted, [_arrays(rows) for rows in more]
        keys = np.concatenate([keys, *(more_keys for more_keys, _ in arrays)])
        rests = np.concatenate([rests, *(more_rests for _, more_rests in arrays)])
        order = np.argsort(keys, kind="stable")
        self.sorted = keys[order], rests[order]


def _arrays(rows: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
    keys = np.ascontiguousarray(rows[:, :_KEY_BYTES]).view(np.uint64).ravel()
    return keys, rows[:, _KEY_BYTES:]
