"""Makes a service's HPKE key pair for one round of a task, and its signed record; all services use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Identity, KeyRecord, Role
from hubbub.protos.sealing.suites import Suite
from hubbub.protos.task.schedule import key_validity
from hubbub.protos.task.task import Task, signers

NewKey = Callable[[Suite], tuple[bytes, bytes]]
"""Generates a raw key pair of a suite: (private, public)."""


@dataclass(frozen=True)
class NewRoundKey:
    """A new key: the raw private half (never printed), the signed record, and the end of the record's validity."""

    private: bytes = field(repr=False)
    record: SignedDocument
    not_after: int


def make_key(
    role: Role,
    task: Task,
    round_number: int,
    identity: Identity,
    new_key: NewKey = Suite.generate_key,
    behind: SignedDocument | None = None,
) -> NewRoundKey:
    """Make the key of `role` for a round, of the task's suite, with a record signed by the round's signer of that role.

    A hop's record contains the record of the party `behind` it, and is signed by the hop's only identity.

    Raises:
        SignatureError: if the signer is not among the identities of `identity`.
    """
    private, public = new_key(task.hpke)
    valid = key_validity(task.schedule, round_number)
    record = KeyRecord(role, task.id, round_number, task.suite, public, valid.not_before, valid.not_after, behind)
    signer = identity if role is Role.HOP else identity.named(signers(task, round_number).of(role))
    return NewRoundKey(private, record.signed_by(signer), valid.not_after)
