"""Sealing: how what belongs to a round is enciphered before it goes into the database.

A server's write-ahead log, dead rows, replicas and backups keep what was deleted. So nothing of a round that must be
erased is ever there in the clear: each round has a secret of 32 bytes that never enters the database, and from it
(HKDF-SHA256, RFC 5869) a key for each use. When the secret is destroyed, all that was written under it means nothing.

Blocks of envelopes: AES-256-GCM, a fresh random nonce in front, with what the block is as associated data, so that
none opens in another's place. Ids: their keyed BLAKE2b digest (RFC 7693). Digests of envelopes: AES-256-SIV (RFC 5297),
bound to the id, which is the same whenever it is asked, so that nothing has to be stored with it.
"""

from __future__ import annotations

import hashlib
import os
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hubbub.service.errors import StoreError

SECRET_BYTES = 32
"""Length of a round's secret."""

ID_BYTES = 16
"""Length of an id as it is stored; two of 10⁹ ids of a round share one with probability below 2⁻⁶⁸."""

_NONCE_BYTES = 12
_ARRIVED = 0
_RELEASED = 1


class RoundCipher:
    """Enciphers what belongs to one round, under keys that follow from its `secret`; shows nothing of them."""

    def __init__(self, secret: bytes, task_id: bytes, number: int) -> None:
        self._round = struct.pack(">32sq", task_id, number)
        keys = HKDF(SHA256(), 128, salt=None, info=b"hubbub store 1" + self._round).derive(secret)
        self._blocks = AESGCM(keys[:32])
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
            raise _changed("an id's digest") from error

    def seal_arrived(self, block: bytes, inners: bytes) -> bytes:
        """Return submissions as they came, for the block of that id (16 random bytes)."""
        return self._seal(struct.pack(">B16s", _ARRIVED, block), inners)

    def open_arrived(self, block: bytes, sealed: bytes) -> bytes:
        """Return submissions as they came.

        Raises:
            StoreError: where the block is not what was stored there.
        """
        return self._open(struct.pack(">B16s", _ARRIVED, block), sealed, "a block of submissions")

    def seal_released(self, query: int, block: int, envelopes: bytes) -> bytes:
        """Return a block of a permuted list."""
        return self._seal(struct.pack(">BIQ", _RELEASED, query, block), envelopes)

    def open_released(self, query: int, block: int, sealed: bytes) -> bytes:
        """Return a block of a permuted list as it was.

        Raises:
            StoreError: where the block is not what was stored there.
        """
        return self._open(struct.pack(">BIQ", _RELEASED, query, block), sealed, "a block of a permuted list")

    def _seal(self, place: bytes, content: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._blocks.encrypt(nonce, content, self._round + place)

    def _open(self, place: bytes, sealed: bytes, what: str) -> bytes:
        try:
            return self._blocks.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], self._round + place)
        except (InvalidTag, ValueError) as error:
            raise _changed(what) from error


def _changed(what: str) -> StoreError:
    return StoreError(
        f"{what} in the database is not what was stored there: it was changed or moved, or the keyring is of another "
        "store; put the newest copy of both back, or end the store's tasks"
    )
