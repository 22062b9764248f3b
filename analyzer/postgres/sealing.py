"""How what a round was delivered with, and what was counted of it, is enciphered (`service.postgres.sealing`).

Counts are sealed like envelopes, as those of a query that is withheld must be erasable too.
"""

from __future__ import annotations

import struct

from hubbub.service.postgres.sealing import BlockCipher, derived

_ENVELOPES = 0
_COUNTS = 1


class DeliveryCipher:
    """Enciphers what belongs to one round, under a key that follows from its `secret`; shows nothing of it."""

    def __init__(self, secret: bytes, task_id: bytes, number: int) -> None:
        round_ = struct.pack(">32sq", task_id, number)
        self._blocks = BlockCipher(derived(secret, b"hubbub analyzer store 1" + round_, 32), round_)

    def seal_chunk(self, query: int, first: int, envelopes: bytes) -> bytes:
        """Return envelopes of a query's batch, joined, as they are stored; `first` is the offset of the first."""
        return self._blocks.seal(struct.pack(">BIQ", _ENVELOPES, query, first), envelopes)

    def open_chunk(self, query: int, first: int, sealed: bytes) -> bytes:
        """Return envelopes as they came.

        Raises:
            StoreError: if they are not what was stored there.
        """
        return self._blocks.open(struct.pack(">BIQ", _ENVELOPES, query, first), sealed, "a chunk of envelopes")

    def seal_counts(self, query: int, counts: bytes) -> bytes:
        """Return what was counted of a query's batch, as it is stored until the round is certified."""
        return self._blocks.seal(struct.pack(">BI", _COUNTS, query), counts)

    def open_counts(self, query: int, sealed: bytes) -> bytes:
        """Return what was counted.

        Raises:
            StoreError: if it is not what was stored there.
        """
        return self._blocks.open(struct.pack(">BI", _COUNTS, query), sealed, "what was counted of a batch")
