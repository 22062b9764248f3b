"""Key check: whether a round's private key, as a store gives it back, is still that of the public key that was signed.

With another key nothing of the round opens: every report would be left out as unopenable, and the round be withheld.
A key that differs by one byte is found by trying: some ten thousand candidates, each compared with the signed public
key, so that a wrong one is never taken.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from typing import Protocol

from hubbub.protos.errors import EnvelopeError, HubbubError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Identity, KeyRecord, Role
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import FIRST_HOP
from hubbub.protos.sealing.suites import Suite
from hubbub.protos.task.signers import signers
from hubbub.protos.task.task import Task, hop_name
from hubbub.service.receiving.receiver import StoredKey, erased
from hubbub.service.receiving.round_keys import make_key

RETRY_SECONDS = 60.0
"""When to ask again for what a damaged key would have to open: each time the batch is hashed, and only an operator can
change anything."""

_IN_VAIN: set[bytes] = set()
"""Hashes of keys that could not be mended: who waits for one asks every few seconds, and the search takes that long."""

_LOG = logging.getLogger(__name__)


class KeyDamaged(HubbubError):
    """A private key does not belong to its signed record, nor would it with one byte changed, or that is false."""


class Keys(Protocol):
    """Where a receiver's round keys are stored."""

    async def key(self, task_id: bytes, round_number: int) -> StoredKey | None:
        """Return a round's key."""

    async def mend_key(self, task_id: bytes, round_number: int, private: bytes, record: SignedDocument) -> None:
        """Store a round's private key and its record as they were."""


def checked_key(private: bytes, record: SignedDocument, suite: Suite) -> bytes:
    """Return the private key of a key record: as it is stored, or with one byte as it was.

    Tries for some seconds where more is damaged (3.5 s for MLKEM768-X25519, once): call it in a thread. Whether the
    record holds is the caller's to look at.

    Raises:
        KeyDamaged: where neither is the record's.
    """
    try:
        public = bytes.fromhex(json.loads(record.body)["public_key"])
    except (ValueError, KeyError, TypeError) as error:
        raise KeyDamaged("the key's record cannot be read") from error
    if _public_of(private, suite) == public:
        return private
    mended = _mended(private, public, suite)
    if mended is None:
        raise KeyDamaged("the private key is not that of the key's record, nor is any that differs from it by one byte")
    return mended


def _mended(private: bytes, public: bytes, suite: Suite) -> bytes | None:
    tried_before = hashlib.sha256(private + public).digest()
    if tried_before in _IN_VAIN:
        return None
    for place in range(len(private)):
        for byte in range(256):
            tried = private[:place] + bytes([byte]) + private[place + 1 :]
            if _public_of(tried, suite) == public:
                return tried
    _IN_VAIN.add(tried_before)
    return None


def _public_of(private: bytes, suite: Suite) -> bytes | None:
    try:
        return suite.public_of(private)
    except EnvelopeError:
        return None


async def usable_key(keys: Keys, task: Task, round_number: int, role: Role, identity: Identity) -> StoredKey:
    """Return a round's key, which opens its envelopes; one that was mended is stored again.

    `role` and `identity` are the service's, who signed the key's record.

    Raises:
        Refusal: ERASED where it was destroyed, NOT_READY where it is damaged.
    """
    stored = await keys.key(task.id, round_number)
    if stored is None or stored.private is None:
        raise erased(task, round_number)
    try:
        record = _held_record(stored.private, stored.record, task, round_number, role, identity)
        private = await asyncio.to_thread(checked_key, stored.private, record, task.hpke)
    except KeyDamaged as error:
        raise Refusal(
            Reason.NOT_READY,
            f"the key of round {round_number} of {task.name} in {_whose(task, role, identity)}'s store is damaged: "
            f"{error}. Nothing of the round can be opened; put the store of that moment back if there is one, else "
            "give the round up at the shuffler (docs/operations.md, A round is damaged)",
            RETRY_SECONDS,
        ) from error
    if (private, record) != (stored.private, stored.record):
        _LOG.warning("the key was damaged, and is mended: %s", f"round {round_number} of {task.name}")
        await keys.mend_key(task.id, round_number, private, record)
    return StoredKey(private, record, stored.key_set_hash)


def _held_record(
    private: bytes, record: SignedDocument, task: Task, round_number: int, role: Role, identity: Identity
) -> SignedDocument:
    """Return a key's record: as it is stored where it holds, or as the service made it of that private key.

    One made again is taken only where the stored one agrees with it in its signature, or in all that is signed.

    Raises:
        KeyDamaged: where neither holds.
    """
    try:
        signer = identity.public if role is Role.HOP else signers(task, round_number).of(role)
        KeyRecord.read(record, signer)
        return record
    except HubbubError:
        damaged = KeyDamaged("the signature of the key's record does not hold, and it cannot be made again")
    try:
        behind = SignedDocument.from_json(json.loads(record.body)["behind"]) if role is Role.HOP else None
        pair = (private, task.hpke.public_of(private))
        again = make_key(role, task, round_number, identity, lambda _suite: pair, behind).record
    except (HubbubError, ValueError, KeyError, TypeError):
        raise damaged from None
    # Who comes after a hop is known from this record alone: changed there, only the signature tells.
    if again.signature == record.signature or (role is not Role.HOP and again.body == record.body):
        return again
    raise damaged


def _whose(task: Task, role: Role, identity: Identity) -> str:
    if role is not Role.HOP:
        return f"the {role.value}"
    return hop_name(FIRST_HOP + task.identities.hops.index(identity.public))
