"""Encrypts the delivered envelopes and the counts of a round (`service.postgres.sealing`).

Counts are encrypted like envelopes, since those of a withheld query must be erasable too.
"""

from __future__ import annotations

import struct

from hubbub.service.postgres.sealing import BlockCipher, derived

_ENVELOPES = 0
_COUNTS = 1


class DeliveryCipher:
    """Encrypts the data of one round, under a key derived from its `secret`; never shows the key."""

    def __init__(self, secret: bytes, task_id: bytes, number: int) -> None:
        round_ = struct.pack(">32sq", task_id, number)
        self._blocks = BlockCipher(derived(secret, b"hubbub analyzer store 1" + round_, 32), round_)

    def seal_chunk(self, query: int, first: int, envelopes: bytes) -> bytes:
        """Encrypt envelopes of a query's batch, joined; `first` is the offset of the first."""
        return self._blocks.seal(struct.pack(">BIQ", _ENVELOPES, query, first), envelopes)

    def open_chunk(self, query: int, first: int, sealed: bytes) -> bytes:
        """Decrypt envelopes as they came.

        Raises:
            StoreError: if they were changed in the database.
        """
        return self._blocks.open(struct.pack(">BIQ", _ENVELOPES, query, first), sealed, "a chunk of envelopes")

    def seal_counts(self, query: int, counts: bytes) -> bytes:
        """Encrypt the counts of a query's batch, as they are stored until the round is certified."""
        return self._blocks.seal(struct.pack(">BI", _COUNTS, query), counts)

    def open_counts(self, query: int, sealed: bytes) -> bytes:
        """Decrypt the counts.

        Raises:
            StoreError: if they were changed in the database.
        """
        return self._blocks.open(struct.pack(">BI", _COUNTS, query), sealed, "what was counted of a batch")
