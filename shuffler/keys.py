"""Makes one HPKE key pair for each round, once the analyzer's key is known; it is destroyed with the round."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from hubbub.protos.enrollment.credentials import PSEUDONYM_KEY_BYTES
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Identity, KeySet, Role
from hubbub.protos.task.task import Task, signers
from hubbub.service.receiving.round_keys import make_key


@dataclass(frozen=True)
class RoundKeyMaterial:
    """A round's two signed key records and the shuffler's raw private key (never printed).

    `pseudonym_key` (32 bytes; never printed) makes the pseudonyms of enrolled devices in the round. It lasts until the
    round is erased. It is empty in rounds that began before hubbub had pseudonyms.
    """

    private_key: bytes = field(repr=False)
    key_set: KeySet
    pseudonym_key: bytes = field(default=b"", repr=False)


def make_keys(task: Task, round_number: int, identity: Identity, analyzer: SignedDocument) -> RoundKeyMaterial:
    """Make the shuffler's key for a round and join it with the analyzer's record.

    Raises:
        SignatureError: if the analyzer's record is not signed by the task's analyzer.
        KeyRecordError: if the record is for another task, round or suite.
    """
    made = make_key(Role.SHUFFLER, task, round_number, identity)
    key_set = KeySet(made.record, analyzer)
    of_round = signers(task, round_number)
    key_set.read(*(task.id, round_number, task.suite), of_round.shuffler, of_round.analyzer, of_round.hops)
    return RoundKeyMaterial(made.private, key_set, os.urandom(PSEUDONYM_KEY_BYTES))


def check_signers(task: Task, round_number: int, key_set: KeySet) -> None:
    """Return only if a round's keys, which devices may have already, are signed by the signers of the round.

    Raises:
        SignatureError: if a succession that came too late names another signer for the round, or one is missing.
    """
    of_round = signers(task, round_number)
    try:
        key_set.read(*(task.id, round_number, task.suite), of_round.shuffler, of_round.analyzer, of_round.hops)
    except SignatureError as error:
        raise SignatureError(
            f"the keys of round {round_number} of {task.name} were given out before a succession arrived that begins "
            "earlier, or under one that is missing here; remove the late one from `successions`, and have one signed "
            "that begins later; or add the missing one"
        ) from error
