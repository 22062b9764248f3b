"""Sealing: how what belongs to a round is enciphered before it goes into the database (`service.postgres.sealing`).

Ids: their keyed BLAKE2b digest (RFC 7693). Digests of envelopes: AES-256-SIV (RFC 5297), bound to the id, which is the
same whenever it is asked, so that nothing has to be stored with it.
"""

from __future__ import annotations

import hashlib
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from hubbub.service.postgres.sealing import BlockCipher, changed, derived

ID_BYTES = 16
"""Length of an id as it is stored; two of 10⁹ ids of a round share one with probability below 2⁻⁶⁸."""

_ARRIVED = 0
_RELEASED = 1


class RoundCipher:
    """Enciphers what belongs to one round, under keys that follow from its `secret`; shows nothing of them."""

    def __init__(self, secret: bytes, task_id: bytes, number: int) -> None:
        round_ = struct.pack(">32sq", task_id, number)
        keys = derived(secret, b"hubbub store 1" + round_, 128)
        self._blocks = BlockCipher(keys[:32], round_)
        self._ids = hashlib.blake2b(key=keys[32:64], digest_size=ID_BYTES)
        self._digests = AESSIV(keys[64:])

    def id(self, submission_id: bytes) -> bytes:
        """Return a submission's id as it is stored."""
        keyed = self._ids.copy()
        keyed.update(submission_id)
        return keyed.digest()

    def seal_digest(self, stored_id: bytes, digest: bytes) -> bytes:
        """Return an envelope's digest as it is stored beside its id."""
        return self._digests.encrypt(digest, [stored_id])

    def open_digest(self, stored_id: bytes, sealed: bytes) -> bytes:
        """Return an envelope's digest.

        Raises:
            StoreError: where it is not what was stored there.
        """
        try:
            return self._digests.decrypt(sealed, [stored_id])
        except (InvalidTag, ValueError) as error:
            raise changed("an id's digest") from error

    def seal_arrived(self, block: bytes, inners: bytes) -> bytes:
        """Return submissions as they came, for the block of that id (16 random bytes)."""
        return self._blocks.seal(struct.pack(">B16s", _ARRIVED, block), inners)

    def open_arrived(self, block: bytes, sealed: bytes) -> bytes:
        """Return submissions as they came.

        Raises:
            StoreError: where the block is not what was stored there.
        """
        return self._blocks.open(struct.pack(">B16s", _ARRIVED, block), sealed, "a block of submissions")

    def seal_released(self, query: int, block: int, envelopes: bytes) -> bytes:
        """Return a block of a permuted list."""
        return self._blocks.seal(struct.pack(">BIQ", _RELEASED, query, block), envelopes)

    def open_released(self, query: int, block: int, sealed: bytes) -> bytes:
        """Return a block of a permuted list as it was.

        Raises:
            StoreError: where the block is not what was stored there.
        """
        return self._blocks.open(struct.pack(">BIQ", _RELEASED, query, block), sealed, "a block of a permuted list")
