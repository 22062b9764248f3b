"""HPKE (RFC 9180, base mode) with an ephemeral key that is given: what vectors need, and no program may do.

Only for vectors: an ephemeral key that is used twice reveals what was sealed. The product's library draws its own, and
opens what this seals, which tests check.
"""

from __future__ import annotations

import hmac

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

KEM, SUITE = b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01\x00\x03"
"""X25519 with HKDF-SHA256; and with ChaCha20-Poly1305."""


def _extract(suite: bytes, salt: bytes, label: bytes, content: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + content, "sha256")


def _expand(suite: bytes, secret: bytes, label: bytes, info: bytes, length: int) -> bytes:
    labeled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return HKDFExpand(SHA256(), length, labeled).derive(secret)


def sealed(plain: bytes, public: bytes, info: bytes, ephemeral: bytes) -> bytes:
    """The envelope: the encapsulated key, then the ciphertext."""
    own = X25519PrivateKey.from_private_bytes(ephemeral)
    encapsulated = own.public_key().public_bytes_raw()
    agreed = _extract(KEM, b"", b"eae_prk", own.exchange(X25519PublicKey.from_public_bytes(public)))
    shared = _expand(KEM, agreed, b"shared_secret", encapsulated + public, 32)
    context = b"\0" + _extract(SUITE, b"", b"psk_id_hash", b"") + _extract(SUITE, b"", b"info_hash", info)
    secret = _extract(SUITE, shared, b"secret", b"")
    key, nonce = (
        _expand(SUITE, secret, label, context, length) for label, length in ((b"key", 32), (b"base_nonce", 12))
    )
    return encapsulated + ChaCha20Poly1305(key).encrypt(nonce, plain, None)


def public_of(private: bytes) -> bytes:
    """The raw public key of a raw private key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
