"""Encapsulates requests for a shuffler, and its responses, as Oblivious HTTP does (RFC 9458, section 4).

A relay sees only what is written here. HPKE is pyhpke's, as the response's key is exported from its context: the HPKE
of `protos.sealing`, which seals reports, has no export.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from pyhpke import AEADId, CipherSuite, KDFId, KEMId
from pyhpke.exceptions import PyHPKEError
from pyhpke.kem_key import KEMKeyPair

from hubbub.protos.errors import MessageError

REQUEST, RESPONSE, KEYS = "message/ohttp-req", "message/ohttp-res", "application/ohttp-keys"
"""The media types."""

UNKNOWN_KEY = "https://iana.org/assignments/http-problem-types#ohttp-key"
"""The type of the problem that a shuffler answers if it has no key of the named id (RFC 9458, section 5.3)."""

PUBLIC_KEY_BYTES = 32
"""Length of an X25519 public key, and of the key that a request begins with."""

_KEM, _KDF = KEMId.DHKEM_X25519_HKDF_SHA256.value, KDFId.HKDF_SHA256.value
_HEADER = struct.Struct(">BHHH")
_HEAD = struct.Struct(f">BH{PUBLIC_KEY_BYTES}sH")
_ALGORITHM = struct.Struct(">HH")
_REQUEST_LABEL, _RESPONSE_LABEL = b"message/bhttp request", b"message/bhttp response"

TAG_BYTES = 16
OVERHEAD_BYTES = _HEADER.size + PUBLIC_KEY_BYTES + TAG_BYTES
"""Bytes that encapsulation adds to a request."""


class UnknownObliviousKey(MessageError):
    """A request names a key that the shuffler does not have: its sender must ask for the keys again."""


@dataclass(frozen=True)
class _Aead:
    key_bytes: int
    cipher: type[AESGCM | ChaCha20Poly1305]
    suite: CipherSuite

    @property
    def nonce_bytes(self) -> int:
        """The length of a response's nonce: Nn and Nk of the RFC, whichever is larger."""
        return max(12, self.key_bytes)


def _suite(aead: AEADId) -> CipherSuite:
    return CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, aead)


CHACHA20_POLY1305, AES_128_GCM = AEADId.CHACHA20_POLY1305.value, AEADId.AES128_GCM.value
_AEADS = {
    CHACHA20_POLY1305: _Aead(32, ChaCha20Poly1305, _suite(AEADId.CHACHA20_POLY1305)),
    # What browsers have without a library.
    AES_128_GCM: _Aead(16, AESGCM, _suite(AEADId.AES128_GCM)),
}
"""The AEADs that are known, the preferred one first; the KDF is always HKDF-SHA256."""


@dataclass(frozen=True)
class KeyConfiguration:
    """A shuffler's public key with its id, and the AEADs with which it opens (RFC 9458, section 3.1)."""

    key_id: int
    public_key: bytes
    aeads: tuple[int, ...] = tuple(_AEADS)

    def encode(self) -> bytes:
        """Return its bytes."""
        algorithms = b"".join(_ALGORITHM.pack(_KDF, aead) for aead in self.aeads)
        return _HEAD.pack(self.key_id, _KEM, self.public_key, len(algorithms)) + algorithms

    @classmethod
    def decode(cls, content: bytes) -> KeyConfiguration:
        """Return what `encode` wrote.

        Raises:
            MessageError: if it is of another KEM or form, or has no algorithms that are known here.
        """
        algorithms = content[_HEAD.size :]
        if len(content) < _HEAD.size or len(algorithms) % _ALGORITHM.size or not algorithms:
            raise MessageError("a key configuration of Oblivious HTTP has another length")
        key_id, kem, public_key, length = _HEAD.unpack(content[: _HEAD.size])
        if kem != _KEM or length != len(algorithms):
            raise MessageError("a key configuration of Oblivious HTTP has another KEM than X25519, or another length")
        pairs = _ALGORITHM.iter_unpack(algorithms)
        aeads = tuple(aead for kdf, aead in pairs if kdf == _KDF and aead in _AEADS)
        if not aeads:
            raise MessageError("a key configuration of Oblivious HTTP has no algorithms that are known here")
        return cls(key_id, public_key, aeads)


def write_configurations(configurations: Sequence[KeyConfiguration]) -> bytes:
    """Return key configurations as application/ohttp-keys, the preferred one first."""
    encoded = [each.encode() for each in configurations]
    return b"".join(len(each).to_bytes(2, "big") + each for each in encoded)


class _Exchange:
    """The keys of a response, which follow from the request's HPKE context."""

    def __init__(self, context: Any, sent_key: bytes, aead: _Aead) -> None:
        self._secret = context.export(_RESPONSE_LABEL, aead.nonce_bytes)
        self._sent_key, self._aead = sent_key, aead

    def cipher(self, nonce: bytes) -> tuple[Any, bytes]:
        """Return the cipher of a response with that nonce, and the nonce of the cipher."""
        extracted = HKDF.extract(SHA256(), self._sent_key + nonce, self._secret)
        key = HKDFExpand(SHA256(), self._aead.key_bytes, b"key").derive(extracted)
        return self._aead.cipher(key), HKDFExpand(SHA256(), 12, b"nonce").derive(extracted)


class ResponseSealer(_Exchange):
    """Seals the response to one request."""

    def seal(self, message: bytes, random: Callable[[int], bytes] = os.urandom) -> bytes:
        """Return the encapsulated response.

        Each has a nonce of its own, so also the second response to a request that somebody repeats.
        """
        nonce = random(self._aead.nonce_bytes)
        cipher, own = self.cipher(nonce)
        return nonce + bytes(cipher.encrypt(own, message, None))


class ResponseOpener(_Exchange):
    """Opens the response to one request."""

    def open(self, encapsulated: bytes) -> bytes:
        """Return the response.

        Raises:
            MessageError: if it does not open.
        """
        length = self._aead.nonce_bytes
        if len(encapsulated) < length + TAG_BYTES:
            raise MessageError("an encapsulated response is too short")
        cipher, own = self.cipher(encapsulated[:length])
        try:
            return bytes(cipher.decrypt(own, encapsulated[length:], None))
        except InvalidTag as error:
            raise MessageError("an encapsulated response does not open; it was changed on its way") from error


def seal_request(
    configuration: KeyConfiguration, message: bytes, ephemeral: KEMKeyPair | None = None
) -> tuple[bytes, ResponseOpener]:
    """Return a request that only the shuffler opens, and what opens its response.

    `ephemeral` is drawn unless a test gives it.

    Raises:
        MessageError: if nothing can be sealed to the key.
    """
    number = configuration.aeads[0]
    aead = _AEADS[number]
    header = _HEADER.pack(configuration.key_id, _KEM, _KDF, number)
    try:
        key = aead.suite.kem.deserialize_public_key(configuration.public_key)
        sent_key, context = aead.suite.create_sender_context(key, _info(header), eks=ephemeral)
    except (PyHPKEError, ValueError) as error:
        raise MessageError("nothing can be sealed to the oblivious key; do not trust whoever published it") from error
    return header + sent_key + context.seal(message), ResponseOpener(context, sent_key, aead)


def _info(header: bytes) -> bytes:
    return _REQUEST_LABEL + b"\0" + header


class ObliviousKey:
    """A shuffler's private key; it is never printed."""

    def __init__(self, key_id: int, pair: KEMKeyPair) -> None:
        self.key_id = key_id
        self._private = pair.private_key
        self.configuration = KeyConfiguration(key_id, pair.public_key.to_public_bytes())

    def __repr__(self) -> str:
        return f"ObliviousKey({self.key_id})"

    @classmethod
    def derived(cls, key_id: int, seed: bytes) -> ObliviousKey:
        """Return the key that follows from a secret of 32 bytes (RFC 9180, section 7.1.3)."""
        return cls(key_id, _AEADS[CHACHA20_POLY1305].suite.kem.derive_key_pair(seed))

    def open(self, encapsulated: bytes) -> tuple[bytes, ResponseSealer]:
        """Return the request, and what seals its response; see `ObliviousKeys.open`."""
        _, kem, kdf, number = _HEADER.unpack_from(encapsulated)
        aead = _AEADS.get(number)
        if aead is None or (kem, kdf) != (_KEM, _KDF):
            raise MessageError("an encapsulated request names algorithms that its key's configuration does not have")
        header, begin = encapsulated[: _HEADER.size], _HEADER.size + PUBLIC_KEY_BYTES
        sent_key = encapsulated[_HEADER.size : begin]
        try:
            context = aead.suite.create_recipient_context(sent_key, self._private, _info(header))
            message = context.open(encapsulated[begin:])
        except (PyHPKEError, ValueError) as error:
            raise MessageError("an encapsulated request does not open; it was changed on its way") from error
        return message, ResponseSealer(context, sent_key, aead)


class ObliviousKeys:
    """The oblivious keys, the one that new requests use first."""

    def __init__(self, keys: Iterable[ObliviousKey] = ()) -> None:
        found = list(keys)
        self._by_id = {key.key_id: key for key in reversed(found)}
        self.preferred = found[0].configuration if found else None
        self.configurations = b"" if self.preferred is None else write_configurations([self.preferred])

    def open(self, encapsulated: bytes) -> tuple[bytes, ResponseSealer]:
        """Return the request, and what seals its response.

        Raises:
            UnknownObliviousKey: if it names another key.
            MessageError: if it is malformed, or does not open.
        """
        if len(encapsulated) < OVERHEAD_BYTES:
            raise MessageError(f"an encapsulated request has {len(encapsulated)} bytes and is too short")
        key = self._by_id.get(encapsulated[0])
        if key is None:
            raise UnknownObliviousKey("an encapsulated request names a key that is not here; ask for the keys again")
        return key.open(encapsulated)
