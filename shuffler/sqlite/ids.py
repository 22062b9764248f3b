"""Ids: the submissions of a round that are held, by id, each with the digest of its envelope, for millions of them.

A dictionary takes 200 bytes an entry. So what came last is in dictionaries and the rest in sorted arrays, 32 bytes
an entry. Whoever submits to an open task chooses ids. So no id is looked up by its own bytes, which many could share,
but by its keyed BLAKE2b digest (RFC 7693): the key is drawn when a table is made and never leaves it, so chosen ids
lie as random ones do. Of a digest the first byte names the part, so that joining what came last with the rest takes a
moment and little memory; the first 8 bytes find the entry, and all 16 tell ids apart. Two of 10⁹ ids share a digest
with probability below 2⁻⁶⁸.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from hubbub.shuffler.records import DIGEST_BYTES

RECENT = 2**16
"""Entries of a part that are in a dictionary, 13 MB, before they join the sorted ones."""

_PARTS = 16
_HASH_BYTES = 16
_KEY_BYTES = 8
_REST_BYTES = _HASH_BYTES - _KEY_BYTES
_ENTRY_BYTES = _HASH_BYTES + DIGEST_BYTES


class Ids:
    """Digests of envelopes by id. One thread adds; others may look up meanwhile, and find what was added before.

    `random` gives the 32 bytes of the key that ids are hashed with.
    """

    def __init__(self, recent: int = RECENT, random: Callable[[int], bytes] = os.urandom) -> None:
        self._parts = [_Part(recent) for _ in range(_PARTS)]
        self._keyed = hashlib.blake2b(key=random(32), digest_size=_HASH_BYTES)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def get(self, submission_id: bytes) -> bytes | None:
        """Return the digest that is stored under an id."""
        hashed = self._hash(submission_id)
        return self._parts[hashed[0] % _PARTS].get(hashed)

    def update(self, fresh: Mapping[bytes, bytes]) -> None:
        """Add entries whose ids are not here yet."""
        for submission_id, digest in fresh.items():
            hashed = self._hash(submission_id)
            self._parts[hashed[0] % _PARTS].recent[hashed] = digest
        self._count += len(fresh)
        for part in self._parts:
            part.pack()

    def _hash(self, submission_id: bytes) -> bytes:
        # A copy of the keyed state: hashing the key anew for each id would take half as long again.
        keyed = self._keyed.copy()
        keyed.update(submission_id)
        return keyed.digest()


class _Part:
    """The hashed ids of this part: `recent` ones, and sorted ones, their first 8 bytes apart from the rest."""

    def __init__(self, limit: int) -> None:
        self.recent: dict[bytes, bytes] = {}
        self._limit = limit
        self.sorted = _arrays(b"")

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
        # Hashes with the same first 8 bytes lie side by side; the rest tells them apart.
        alike = rests[first : int(keys.searchsorted(key, "right"))]
        rest = np.frombuffer(hashed[_KEY_BYTES:], dtype=np.uint8)
        (places,) = np.nonzero((alike[:, :_REST_BYTES] == rest).all(axis=1))
        return alike[places[0], _REST_BYTES:].tobytes() if len(places) else None

    def pack(self) -> None:
        """Join what came last with the rest, once there is enough of it."""
        if len(self.recent) < self._limit:
            return
        entries = b"".join([part for entry in self.recent.items() for part in entry])
        (keys, rests), (more_keys, more_rests) = self.sorted, _arrays(entries)
        keys, rests = np.concatenate([keys, more_keys]), np.concatenate([rests, more_rests])
        order = np.argsort(keys, kind="stable")
        # In this order: whoever looks up meanwhile finds an entry in one of them, or in both.
        self.sorted = keys[order], rests[order]
        self.recent = {}


def _arrays(entries: bytes) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
    rows = np.frombuffer(entries, dtype=np.uint8).reshape(-1, _ENTRY_BYTES)
    keys = np.ascontiguousarray(rows[:, :_KEY_BYTES]).view(np.uint64).ravel()
    return keys, rows[:, _KEY_BYTES:]
