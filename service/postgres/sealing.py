"""Encrypts blocks of envelopes before they are stored in a database.

A server's write-ahead log, dead rows, replicas and backups keep deleted data. So data of a round that must be erasable
is never there in the clear. Each round has a secret of 32 bytes that never enters the database, and a key for each use
is derived from it (HKDF-SHA256, RFC 5869). Once the secret is destroyed, everything written under it is unreadable.

Blocks are sealed by AES-256-GCM, after a fresh random nonce. The block's identity is the associated data, so that no
block opens in another's place.
"""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hubbub.service.errors import StoreError

SECRET_BYTES = 32
"""Length of a round's secret."""

_NONCE_BYTES = 12


def derived(secret: bytes, info: bytes, length: int) -> bytes:
    """Return `length` bytes of keys in total, for the use that `info` names."""
    return HKDF(SHA256(), length, salt=None, info=info).derive(secret)


class BlockCipher:
    """Seals blocks under a key of 32 bytes, each bound to `context` and its own place; never shows the key."""

    def __init__(self, key: bytes, context: bytes) -> None:
        self._cipher = AESGCM(key)
        self._context = context

    def seal(self, place: bytes, content: bytes) -> bytes:
        """Return the sealed form of a block."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, self._context + place)

    def open(self, place: bytes, sealed: bytes, what: str) -> bytes:
        """Return the content of a sealed block; `what` names it in the error.

        Raises:
            StoreError: if the block is not the one that was stored there.
        """
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], self._context + place)
        except (InvalidTag, ValueError) as error:
            raise changed(what) from error


def changed(what: str) -> StoreError:
    """Return the error for data in the database that does not open in its place."""
    return StoreError(
        f"{what} in the database is not what was stored there: it was changed or moved, or the keyring belongs to "
        "another store. Restore the newest copy of both, or end the store's tasks"
    )
