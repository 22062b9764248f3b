"""Defines the HPKE suites (RFC 9180) that a task may name, each with its algorithms and the lengths of its keys.

All code that depends on sizes or forms of a suite asks the suite: round keys and their records, envelopes, openers.
HPKE binds an envelope to its suite, so an envelope of another suite does not open.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PrivateKey, MLKEM768X25519PublicKey

from hubbub.protos.errors import EnvelopeError, SuiteError
from hubbub.queries.errors import shown

TAG_BYTES = 16
"""Length of the tag of every AEAD that HPKE knows."""


class KeyKind(ABC):
    """Makes and reads the raw keys of a suite's KEM, and knows their lengths."""

    private_bytes: int
    public_bytes: int

    @abstractmethod
    def generate(self) -> tuple[bytes, bytes]:
        """Make a raw key pair from the operating system's randomness: (private, public)."""

    @abstractmethod
    def public_of(self, raw: bytes) -> bytes:
        """Return the raw public key of a raw private key; ValueError if it is not one."""

    @abstractmethod
    def private(self, raw: bytes) -> Any:
        """Return the library's private key of raw bytes; ValueError if they are not one."""

    @abstractmethod
    def public(self, raw: bytes) -> Any:
        """Return the library's public key of raw bytes; ValueError if they are not one."""


class _X25519(KeyKind):
    private_bytes = 32
    public_bytes = 32

    def generate(self) -> tuple[bytes, bytes]:
        made = X25519PrivateKey.generate()
        return made.private_bytes_raw(), made.public_key().public_bytes_raw()

    def public_of(self, raw: bytes) -> bytes:
        return self.private(raw).public_key().public_bytes_raw()

    def private(self, raw: bytes) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(raw)

    def public(self, raw: bytes) -> X25519PublicKey:
        return X25519PublicKey.from_public_bytes(raw)


class _MLKEM768X25519(KeyKind):
    """Two keys, one after the other: ML-KEM-768 (FIPS 203; private: its seed of 64 bytes, public: 1184), then X25519.

    The public key is written as draft-connolly-cfrg-xwing-kem (section 5) writes it. The private key is never shown to
    anybody, so it is kept as the library gives it and not as that draft's seed, which would have to be expanded here.
    """

    private_bytes = 64 + _X25519.private_bytes
    public_bytes = 1184 + _X25519.public_bytes

    def generate(self) -> tuple[bytes, bytes]:
        lattice, curve = MLKEM768PrivateKey.generate(), X25519PrivateKey.generate()
        private = lattice.private_bytes_raw() + curve.private_bytes_raw()
        return private, lattice.public_key().public_bytes_raw() + curve.public_key().public_bytes_raw()

    def public_of(self, raw: bytes) -> bytes:
        lattice = MLKEM768PrivateKey.from_seed_bytes(raw[:64])
        curve = X25519PrivateKey.from_private_bytes(raw[64:])
        return lattice.public_key().public_bytes_raw() + curve.public_key().public_bytes_raw()

    def private(self, raw: bytes) -> MLKEM768X25519PrivateKey:
        lattice, curve = raw[:64], raw[64:]
        return MLKEM768X25519PrivateKey(
            MLKEM768PrivateKey.from_seed_bytes(lattice), X25519PrivateKey.from_private_bytes(curve)
        )

    def public(self, raw: bytes) -> MLKEM768X25519PublicKey:
        lattice, curve = raw[:1184], raw[1184:]
        return MLKEM768X25519PublicKey(
            MLKEM768PublicKey.from_public_bytes(lattice), X25519PublicKey.from_public_bytes(curve)
        )


@dataclass(frozen=True)
class Suite:
    """An HPKE suite, with its name in tasks and key records; `words` describes its algorithms to people."""

    name: str
    words: str
    kem: KEM
    kdf: KDF
    aead: AEAD
    keys: KeyKind

    @property
    def public_key_bytes(self) -> int:
        """Length of a raw public key."""
        return self.keys.public_bytes

    @property
    def private_key_bytes(self) -> int:
        """Length of a raw private key."""
        return self.keys.private_bytes

    @property
    def overhead_bytes(self) -> int:
        """Bytes that a layer adds to its content: the encapsulated key and the tag."""
        return self.kem.enc_length() + TAG_BYTES

    def generate_key(self) -> tuple[bytes, bytes]:
        """Make a raw key pair from the operating system's randomness: (private, public).

        Raises:
            EnvelopeError: if this machine's library was built without the suite's algorithms.
        """
        try:
            return self.keys.generate()
        except UnsupportedAlgorithm as error:
            raise self._unsupported() from error

    def public_of(self, raw: bytes) -> bytes:
        """Return the raw public key of a raw private key.

        Raises:
            EnvelopeError: if it is none of this suite.
        """
        public: bytes = self._read(self.keys.public_of, raw, self.private_key_bytes, "private")
        return public

    def private_key(self, raw: bytes) -> Any:
        """Return the library's form of a raw private key.

        Raises:
            EnvelopeError: if it is none of this suite.
        """
        return self._read(self.keys.private, raw, self.private_key_bytes, "private")

    def public_key(self, raw: bytes) -> Any:
        """Return the library's form of a raw public key.

        Raises:
            EnvelopeError: if it is none of this suite.
        """
        return self._read(self.keys.public, raw, self.public_key_bytes, "public")

    def encrypt(self, plain: bytes, key: Any, info: bytes) -> bytes:
        """Seal to a public key; a layer adds `overhead_bytes`.

        Raises:
            EnvelopeError: if nothing can be sealed to it.
        """
        try:
            return self._hpke.encrypt(plain, key, info=info)
        except ValueError as error:
            # With a point of low order, the shared secret is the same for everyone: anybody could open the envelope.
            raise EnvelopeError(
                "a public key of the round is a point of low order; do not trust the party that published it"
            ) from error

    def decrypt(self, envelope: bytes, key: Any, info: bytes) -> bytes:
        """Open with a private key.

        Raises:
            EnvelopeError: if it does not open.
        """
        try:
            return self._hpke.decrypt(envelope, key, info=info)
        except (InvalidTag, ValueError) as error:
            raise EnvelopeError(
                "the envelope does not open with this round's key; it was changed, or sealed for another round or task"
            ) from error

    @cached_property
    def _hpke(self) -> hpke.Suite:
        return hpke.Suite(self.kem, self.kdf, self.aead)

    def _read(self, read: Any, raw: bytes, length: int, half: str) -> Any:
        # Never the bytes themselves, since private keys are secret.
        wrong = f"a {half} key of the round has {len(raw)} bytes and is not a key of {self.name}, which has {length}"
        if len(raw) != length:
            raise EnvelopeError(wrong)
        try:
            return read(raw)
        except ValueError as error:
            raise EnvelopeError(wrong) from error
        except UnsupportedAlgorithm as error:
            raise self._unsupported() from error

    def _unsupported(self) -> EnvelopeError:
        return EnvelopeError(
            f"this machine's cryptography package was built without {self.name}; install its wheel, or one built with "
            "OpenSSL 3.5 or newer"
        )


X25519 = Suite(
    name="X25519-HKDF-SHA256-CHACHA20POLY1305",
    words="X25519, HKDF-SHA256, ChaCha20-Poly1305",
    kem=KEM.X25519,
    kdf=KDF.HKDF_SHA256,
    aead=AEAD.CHACHA20_POLY1305,
    keys=_X25519(),
)
"""RFC 9180. A quantum computer can open its envelopes."""

MLKEM768_X25519 = Suite(
    name="MLKEM768-X25519",
    words="ML-KEM-768 and X25519 together, HKDF-SHA256, ChaCha20-Poly1305",
    kem=KEM.MLKEM768_X25519,
    kdf=KDF.HKDF_SHA256,
    aead=AEAD.CHACHA20_POLY1305,
    keys=_MLKEM768X25519(),
)
"""The hybrid of draft-ietf-hpke-pq (KEM 0x647a, X-Wing): it is secure as long as one of its two halves is."""

DEFAULT = X25519
"""The suite of a task that names none."""

SUITES = {suite.name: suite for suite in (X25519, MLKEM768_X25519)}
"""Every suite that this version knows, by name. A new suite is defined above, and listed here."""


def suite_named(name: object) -> Suite:
    """Return the suite of that name.

    Raises:
        SuiteError: if this version does not know it.
    """
    found = SUITES.get(name) if isinstance(name, str) else None
    if found is None:
        raise SuiteError(f"suite {shown(name)} is unknown to this version, which knows {' and '.join(SUITES)}")
    return found
