"""Proves in each submission that its device is enrolled.

A credential's id contains everything that the shuffler needs: the master key's generation, the expiry, the ticket's
second signer besides the operator, and the device's number. Its key follows from the master key and all of the id. So
the shuffler checks a proof without a lookup, and nobody else can change an id and have a key for it.

    key       = BLAKE2b-256 keyed with the master key, over the label and the id
    proof     = BLAKE2b-128 keyed with that key, over the label, destination, submission id and envelope
    pseudonym = BLAKE2b-128 keyed with a key of the round, over the device's number

BLAKE2's keyed mode is a MAC (RFC 7693, section 2.9); HMAC-SHA256 takes three times as long for messages of this size.

A submission is stored under a pseudonym: a device has one in each round, the same for all its credentials. The round's
key is destroyed with the round. From then on, nobody can link a pseudonym to its device.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field

from hubbub.protos.errors import MessageError
from hubbub.protos.messages import Submission
from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES, Destination

NUMBER_BYTES = 16
"""Length of a device's number, which the shuffler draws when the ticket is redeemed."""

AUTHORITY_BYTES = 16
"""Length of the tag of a second authority in an id: the beginning of a hash of its key, zeros for none."""

KEY_BYTES = 32
"""Length of a master key, of a credential's key, and of the secret with which a device redeems its ticket."""

PROOF_BYTES = 16
"""Length of a proof: as hard to guess as an envelope's tag."""

PSEUDONYM_KEY_BYTES = 32
"""Length of the key that pseudonyms in a round are computed with."""

_ID = struct.Struct(f">IQ{AUTHORITY_BYTES}s{NUMBER_BYTES}s")
CREDENTIAL_BYTES = _ID.size
"""Length of a credential's id."""

_KEY_LABEL = b"hubbub/v1 credential key\x00"
_PROOF_LABEL = b"hubbub/v1 submission proof\x00"
_AUTHORITY_LABEL = b"hubbub/v1 second authority\x00"
_DEVICE_KEY_LABEL = b"hubbub/v1 device key\x00"
_OBLIVIOUS_LABEL = b"hubbub/v1 oblivious key\x00"
_FINGERPRINT_LABEL = b"hubbub/v1 master key fingerprint\x00"

NO_AUTHORITY = bytes(AUTHORITY_BYTES)
"""The tag for no second authority."""


@dataclass(frozen=True)
class CredentialId:
    """A credential's master key (by generation), expiry (seconds since 1970), second authority and device number."""

    generation: int
    expires: int
    authority: bytes
    number: bytes = field(repr=False)

    def encode(self) -> bytes:
        """Return its bytes, which have a fixed length."""
        return _ID.pack(self.generation, self.expires, self.authority, self.number)

    @classmethod
    def decode(cls, content: bytes) -> CredentialId:
        """Return what `encode` wrote.

        Raises:
            MessageError: if it has another length.
        """
        if len(content) != CREDENTIAL_BYTES:
            raise MessageError(f"a credential has {len(content)} bytes, but {CREDENTIAL_BYTES} are expected")
        return cls(*_ID.unpack(content))


@dataclass(frozen=True)
class Credential:
    """A device's credential: its id, which names the device, and its key; neither is ever printed."""

    id: bytes = field(repr=False)
    key: bytes = field(repr=False)

    def proven(self, to: Destination, submission: Submission) -> Submission:
        """Return the submission with the proof of this device."""
        return self.proven_within(bound_to(to), submission)

    def proven_within(self, prefix: bytes, submission: Submission) -> Submission:
        """Return the same as `proven`, for a destination with this prefix (`bound_to`)."""
        return Submission(submission.id, submission.envelope, self.id, proof_of(self.key, prefix, submission))


def parted(credential: bytes) -> tuple[int, int, bytes, bytes]:
    """Return the parts of an id of the right length, in order; `CredentialId` also checks it, and takes longer."""
    parts: tuple[int, int, bytes, bytes] = _ID.unpack(credential)
    return parts


def authority_tag(key: bytes | None) -> bytes:
    """Return the tag of a second authority's public key in a credential's id; zeros for none."""
    return NO_AUTHORITY if key is None else hashlib.sha256(_AUTHORITY_LABEL + key).digest()[:AUTHORITY_BYTES]


class Keyed:
    """BLAKE2b under one key and after one label, for many messages.

    The key is hashed once, and each message into a copy, which takes half as long as beginning with the key.
    """

    def __init__(self, key: bytes, digest_bytes: int, label: bytes = b"") -> None:
        self._begun = hashlib.blake2b(label, key=key, digest_size=digest_bytes)

    def of(self, message: bytes) -> bytes:
        """Return the digest of a message."""
        hashing = self._begun.copy()
        hashing.update(message)
        return hashing.digest()


def credential_keys(master: bytes) -> Keyed:
    """Return the hash that gives the keys (32 bytes) of credentials from their ids, under a master key (32 bytes)."""
    return Keyed(master, KEY_BYTES, _KEY_LABEL)


def credential_key(master: bytes, credential: bytes) -> bytes:
    """Return the key (32 bytes) of the credential of that id under a master key (32 bytes)."""
    return credential_keys(master).of(credential)


def oblivious_seed(master: bytes) -> bytes:
    """Return the secret (32 bytes) that the oblivious key for Oblivious HTTP follows from, under a master key."""
    return Keyed(master, KEY_BYTES, _OBLIVIOUS_LABEL).of(b"")


def master_fingerprint(master: bytes) -> str:
    """Return 16 hex digits that identify a master key (32 bytes) and reveal nothing else about it."""
    return hashlib.blake2b(_FINGERPRINT_LABEL, key=master, digest_size=8).hexdigest()


def bound_to(to: Destination) -> bytes:
    """Return what proofs of submissions to a destination begin with; it is made once a call."""
    # Every part has one width, so no two destinations and submissions agree.
    return _PROOF_LABEL + to.task_id + to.round.to_bytes(4, "big") + to.key_set_hash


def proof_of(key: bytes, prefix: bytes, submission: Submission) -> bytes:
    """Return the proof (16 bytes) for a submission whose destination has that prefix (`bound_to`)."""
    message = prefix + submission.id + submission.envelope
    return hashlib.blake2b(message, key=key, digest_size=PROOF_BYTES).digest()


def is_proven(key: bytes, prefix: bytes, submission: Submission) -> bool:
    """Whether a submission carries the proof for that key and destination; takes the same time in either case."""
    return hmac.compare_digest(proof_of(key, prefix, submission), submission.proof)


def pseudonyms_of(pseudonym_key: bytes) -> Keyed:
    """Return the hash that gives the pseudonyms of devices from their numbers, in the round of that key.

    A pseudonym is the id (16 bytes) under which the submission of a device is stored.
    """
    return Keyed(pseudonym_key, SUBMISSION_ID_BYTES)


def redeemed_by(device_key: bytes) -> bytes:
    """Return the stored form of the secret (32 bytes) that redeems a ticket: a hash, which does not reveal it."""
    return hashlib.sha256(_DEVICE_KEY_LABEL + device_key).digest()
