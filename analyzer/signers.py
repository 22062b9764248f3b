"""Signers: what is stored of a round is signed by those who sign it by the successions that are here.

A succession that came too late says that somebody else signs a round than did: it was made after the round's keys were
given out, and begins before. The shuffler refuses it for the rounds that it holds, but it may reach the analyzer alone.
A certificate would then hold records of one signer and a succession that names another: it would not verify, and is
stored for good. So this is looked at before a round is certified. It holds up that round alone: whoever asked early for
keys of rounds that are far away keeps no analyzer from starting.
"""

from __future__ import annotations

from collections.abc import Iterable

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeyRecord
from hubbub.protos.records.batch import BatchRecord
from hubbub.protos.task.signers import signers
from hubbub.protos.task.task import Task


def check_signers(
    task: Task, round_number: int, records: Iterable[SignedDocument], key: SignedDocument | None = None
) -> None:
    """Return only if a round's batch records, and its key record, are signed by who signs the round.

    `task` has the identities that follow those it names. Each record takes the time of one signature's check, and of
    one more for each hop.

    Raises:
        SignatureError: where another identity has signed one; the message says what to do.
    """
    of_round, what = signers(task, round_number), "the key record"
    try:
        if key is not None:
            KeyRecord.read(key, of_round.analyzer)
        what = "a batch record"
        for record in records:
            BatchRecord.read(record, of_round.shuffler, of_round.hops)
    except SignatureError as error:
        raise SignatureError(
            f"{what} of round {round_number} of {task.name} was signed by another identity than the `successions` say. "
            "Where one of them came after the round's keys were given out and begins earlier, take it out, and have "
            "one signed that begins later; where one was taken out by which the round was signed, put it back. Then "
            "start the analyzer again"
        ) from error
