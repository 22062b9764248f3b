"""Encrypts the data of a round before it goes into the database (`service.postgres.sealing`).

Ids: keyed BLAKE2b digest (RFC 7693). Digests of envelopes: AES-256-SIV (RFC 5297), bound to the id; it is
deterministic, so nothing has to be stored with it.
"""

from __future__ import annotations

import hashlib
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from hubbub.protos.enrollment.admitted import BLOCK_KEY_BYTES, STORAGE_BYTES
from hubbub.service.errors import StoreError
from hubbub.service.postgres.sealing import BlockCipher, changed, derived

ID_BYTES = 16
"""Length of a stored id; two of 10⁹ ids of a round share one with probability below 2⁻⁶⁸."""

_REST_BYTES = STORAGE_BYTES - BLOCK_KEY_BYTES
_ARRIVED = 0
_RELEASED = 1


def storage_keys(secret: bytes, task_id: bytes, number: int) -> bytes:
    """Return the keys derived from a secret: `BLOCK_KEY_BYTES` for blocks, then those of ids and digests."""
    return derived(secret, b"hubbub store 1" + _named(task_id, number), STORAGE_BYTES)


def _named(task_id: bytes, number: int) -> bytes:
    return struct.pack(">32sq", task_id, number)


class RoundCipher:
    """Encrypts the data of one round under its `storage_keys`; never shows the keys.

    Without the key of blocks (`without_blocks`) it works for ids and digests alone.
    """

    def __init__(self, keys: bytes, task_id: bytes, number: int) -> None:
        self._of = (task_id, number)
        self._keys = keys
        blocks, rest = keys[:-_REST_BYTES], keys[-_REST_BYTES:]
        self._blocks = BlockCipher(blocks, _named(task_id, number)) if blocks else None
        self._ids = hashlib.blake2b(key=rest[:32], digest_size=ID_BYTES)
        self._digests = AESSIV(rest[32:])

    @classmethod
    def of_secret(cls, secret: bytes, task_id: bytes, number: int) -> RoundCipher:
        """Return the cipher of the round that has this secret."""
        return cls(storage_keys(secret, task_id, number), task_id, number)

    def without_blocks(self) -> RoundCipher:
        """Return the cipher for a round that stores no more: it still recognizes retries."""
        return RoundCipher(self._keys[-_REST_BYTES:], *self._of)

    def shared(self) -> bytes:
        """Return the keys, only for a front end of the leader."""
        return self._keys

    def _of_blocks(self) -> BlockCipher:
        if self._blocks is None:
            raise StoreError("the round was cut, so the key for its submissions was destroyed; it takes no more")
        return self._blocks

    def id(self, submission_id: bytes) -> bytes:
        """Return a submission's id as it is stored."""
        keyed = self._ids.copy()
        keyed.update(submission_id)
        return keyed.digest()

    def seal_digest(self, stored_id: bytes, digest: bytes) -> bytes:
        """Return an envelope's digest as it is stored with its id."""
        return self._digests.encrypt(digest, [stored_id])

    def open_digest(self, stored_id: bytes, sealed: bytes) -> bytes:
        """Return an envelope's digest.

        Raises:
            StoreError: if it was changed in the database.
        """
        try:
            return self._digests.decrypt(sealed, [stored_id])
        except (InvalidTag, ValueError) as error:
            raise changed("an id's digest") from error

    def seal_arrived(self, block: bytes, inners: bytes) -> bytes:
        """Encrypt submissions as they came, for the block of that id (16 random bytes)."""
        return self._of_blocks().seal(struct.pack(">B16s", _ARRIVED, block), inners)

    def open_arrived(self, block: bytes, sealed: bytes) -> bytes:
        """Decrypt submissions as they came.

        Raises:
            StoreError: if the block was changed in the database.
        """
        return self._of_blocks().open(struct.pack(">B16s", _ARRIVED, block), sealed, "a block of submissions")

    def seal_released(self, query: int, block: int, envelopes: bytes) -> bytes:
        """Encrypt a block of a permuted list."""
        return self._of_blocks().seal(struct.pack(">BIQ", _RELEASED, query, block), envelopes)

    def open_released(self, query: int, block: int, sealed: bytes) -> bytes:
        """Decrypt a block of a permuted list.

        Raises:
            StoreError: if the block was changed in the database.
        """
        return self._of_blocks().open(
            struct.pack(">BIQ", _RELEASED, query, block), sealed, "a block of a permuted list"
        )
