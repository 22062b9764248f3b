"""How blocks of envelopes are enciphered before they go into a database.

A server's write-ahead log, dead rows, replicas and backups keep what was deleted. So nothing of a round that must be
erased is ever there in the clear: each round has a secret of 32 bytes that never enters the database, and from it
(HKDF-SHA256, RFC 5869) a key for each use. When the secret is destroyed, all that was written under it means nothing.

Blocks are sealed by AES-256-GCM, a fresh random nonce in front, with what the block is as associated data, so that none
opens in another's place.
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
    """Return keys of that many bytes together, for the use that `info` names."""
    return HKDF(SHA256(), length, salt=None, info=info).derive(secret)


class BlockCipher:
    """Seals blocks under a key of 32 bytes, each bound to `context` and its own place; shows nothing of the key."""

    def __init__(self, key: bytes, context: bytes) -> None:
        self._cipher = AESGCM(key)
        self._context = context

    def seal(self, place: bytes, content: bytes) -> bytes:
        """Return a block as it is stored."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, self._context + place)

    def open(self, place: bytes, sealed: bytes, what: str) -> bytes:
        """Return a block as it was; `what` it is, for the error.

        Raises:
            StoreError: if the block is not what was stored there.
        """
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], self._context + place)
        except (InvalidTag, ValueError) as error:
            raise changed(what) from error


def changed(what: str) -> StoreError:
    """Return the error for something in the database that does not open where it is."""
    return StoreError(
        f"{what} in the database is not what was stored there: it was changed or moved, or the keyring is of another "
        "store; put the newest copy of both back, or end the store's tasks"
    )
