"""Checks that a round's private key from a store still belongs to the signed public key.

With another key, no envelope of the round opens: every report would be left out as unopenable, and the round withheld.
"""

from __future__ import annotations

from typing import Protocol

from hubbub.protos.errors import EnvelopeError, HubbubError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Identity, KeyRecord, Role
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import FIRST_HOP
from hubbub.protos.sealing.suites import Suite
from hubbub.protos.strict_json import read_json
from hubbub.protos.task.task import Task, hop_name, signers
from hubbub.service.receiving.receiver import StoredKey, erased

RETRY_SECONDS = 60.0
"""How long a sender waits before it retries a batch with a damaged key: each try hashes the batch, and only an operator
can repair the key."""


class KeyDamaged(HubbubError):
    """A private key does not belong to its key record, or the record is not the signed one."""


class Keys(Protocol):
    """The store of a receiver's round keys."""

    async def key(self, task_id: bytes, round_number: int) -> StoredKey | None:
        """Return a round's key."""


def check_key(private: bytes, record: SignedDocument, suite: Suite) -> None:
    """Check that a private key belongs to a key record. The caller checks the record's signature.

    Raises:
        KeyDamaged: if it does not.
    """
    try:
        public = bytes.fromhex(read_json(record.body)["public_key"])
    except (ValueError, KeyError, TypeError) as error:
        raise KeyDamaged("the key's record cannot be read") from error
    try:
        found = suite.public_of(private)
    except EnvelopeError as error:
        raise KeyDamaged("the private key cannot be read") from error
    if found != public:
        raise KeyDamaged("the private key does not belong to the key's record")


async def usable_key(keys: Keys, task: Task, round_number: int, role: Role, identity: Identity) -> StoredKey:
    """Return a round's key, which opens its envelopes.

    `role` and `identity` are those of the service, which signed the key's record.

    Raises:
        Refusal: ERASED if it was destroyed, NOT_READY if it or its record is damaged.
    """
    stored = await keys.key(task.id, round_number)
    if stored is None or stored.private is None:
        raise erased(task, round_number)
    try:
        _check_record(stored.record, task, round_number, role, identity)
        check_key(stored.private, stored.record, task.hpke)
    except KeyDamaged as error:
        raise Refusal(
            Reason.NOT_READY,
            f"the key of round {round_number} of {task.name} in {_whose(task, role, identity)}'s store is damaged: "
            f"{error}. Nothing of the round can be opened; restore the store of that time if you have it, or give "
            "the round up at the shuffler (docs/howto/respond-to-incidents.md, A round is damaged)",
            RETRY_SECONDS,
        ) from error
    return stored


def _check_record(record: SignedDocument, task: Task, round_number: int, role: Role, identity: Identity) -> None:
    signer = identity.public if role is Role.HOP else signers(task, round_number).of(role)
    try:
        KeyRecord.read(record, signer)
    except HubbubError as error:
        raise KeyDamaged(f"its signed record is invalid: {error}") from error


def _whose(task: Task, role: Role, identity: Identity) -> str:
    if role is not Role.HOP:
        return f"the {role.value}"
    return hop_name(FIRST_HOP + task.identities.hops.index(identity.public))
