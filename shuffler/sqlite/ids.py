"""Ids: the submissions of a round that are held, by id, each with the digest of its envelope, for millions of them.

A dictionary takes 200 bytes an entry. So what came last is in dictionaries and the rest in sorted arrays, 32 bytes
an entry: an id is found there by its first 8 bytes. Both are parted by an id's first bits, so that joining what came
last with the rest takes a moment and little memory. Ids are random; who chooses his own only slows himself down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from hubbub.protos.envelope import SUBMISSION_ID_BYTES
from hubbub.shuffler.records import DIGEST_BYTES

RECENT = 2**16
"""Entries of a part that are in a dictionary, 13 MB, before they join the sorted ones."""

_PARTS = 16
_KEY_BYTES = 8
_REST_BYTES = SUBMISSION_ID_BYTES - _KEY_BYTES
_ENTRY_BYTES = SUBMISSION_ID_BYTES + DIGEST_BYTES


class Ids:
    """Digests by id. One thread adds; others may look up meanwhile, and find what was added before."""

    def __init__(self, recent: int = RECENT) -> None:
        self._parts = [_Part(recent) for _ in range(_PARTS)]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def get(self, submission_id: bytes) -> bytes | None:
        """Return the digest that is stored under an id."""
        return self._parts[submission_id[0] % _PARTS].get(submission_id)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Give every id with its digest, in no order."""
        for part in self._parts:
            yield from part.recent.items()
            keys, rests = part.sorted
            for key, rest in zip(keys, rests, strict=True):
                entry = key.tobytes() + rest.tobytes()
                yield entry[:SUBMISSION_ID_BYTES], entry[SUBMISSION_ID_BYTES:]

    def update(self, fresh: Mapping[bytes, bytes]) -> None:
        """Add entries whose ids are not here yet."""
        for submission_id, digest in fresh.items():
            self._parts[submission_id[0] % _PARTS].recent[submission_id] = digest
        self._count += len(fresh)
        for part in self._parts:
            part.pack()


class _Part:
    """The ids with the same first bits: `recent` ones, and sorted ones, their first bytes apart from the rest."""

    def __init__(self, limit: int) -> None:
        self.recent: dict[bytes, bytes] = {}
        self._limit = limit
        self.sorted = _arrays(b"")

    def get(self, submission_id: bytes) -> bytes | None:
        found = self.recent.get(submission_id)
        if found is not None:
            return found
        keys, rests = self.sorted
        if not len(keys):
            return None
        key = np.frombuffer(submission_id, dtype=np.uint64, count=1)[0]
        first = int(keys.searchsorted(key))
        if first == len(keys) or keys[first] != key:
            return None
        # Ids with the same first 8 bytes lie side by side; the rest tells them apart.
        alike = rests[first : int(keys.searchsorted(key, "right"))]
        rest = np.frombuffer(submission_id[_KEY_BYTES:], dtype=np.uint8)
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
