"""Keys: one HPKE key pair for each round, made when the analyzer's key for it is known, destroyed with the round."""

from __future__ import annotations

from dataclasses import dataclass, field

from hubbub.protos.envelope import generate_key
from hubbub.protos.keys import Identity, KeyRecord, KeySet, Role
from hubbub.protos.signed import SignedDocument
from hubbub.protos.task import Schedule, Task

EARLY_SECONDS = 86_400
"""A key record is valid from a day before its round opens: devices fetch early, and their clocks differ."""

LATE_SECONDS = 30 * 86_400
"""A key record stays valid for 30 days after the cut, so that a delayed batch can still be checked."""


@dataclass(frozen=True)
class RoundKeys:
    """A round's two signed key records and the shuffler's raw private key (32 bytes; never printed)."""

    private_key: bytes = field(repr=False)
    key_set: KeySet


def at_hand(schedule: Schedule, round_number: int) -> int:
    """Return from when on (seconds since 1970) a round's keys are made and given out.

    A day before it opens, or one length of a shorter round, so that not too many are prepared at once; ten minutes at
    least.
    """
    lead = min(EARLY_SECONDS, max(600, schedule.length))
    return schedule.opens(round_number) - schedule.grace - lead


def make_keys(task: Task, round_number: int, identity: Identity, analyzer: SignedDocument) -> RoundKeys:
    """Make the shuffler's key for a round and join it with the analyzer's record.

    Raises:
        SignatureError: where the analyzer's record is not signed by the task's analyzer.
        KeyRecordError: where it is for something else.
    """
    private, public = generate_key()
    record = KeyRecord(
        role=Role.SHUFFLER,
        task_id=task.id,
        round=round_number,
        suite=task.suite,
        public_key=public,
        not_before=max(0, task.schedule.opens(round_number) - task.schedule.grace - EARLY_SECONDS),
        not_after=task.schedule.cut(round_number) + LATE_SECONDS,
    )
    key_set = KeySet(record.signed_by(identity), analyzer)
    key_set.read(task.id, round_number, task.suite, identity.public, task.identities.analyzer)
    return RoundKeys(private, key_set)
