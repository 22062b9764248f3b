"""Signers: at the start, every round is signed by those who sign it by the successions that are here.

A succession that came too late says that somebody else signs a round than did: it was made after the round's keys were
given out, and begins before. The shuffler refuses it for the rounds that it holds, but it may reach the analyzer alone.
The certificate of a round whose batches are here would then hold records of one signer and a succession that names
another: it would not verify, and is stored for good. Nor would earlier certificates, for whoever has the succession. So
this is looked at before anything is taken or certified.
"""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.analyzer.records import RoundProgress
from hubbub.analyzer.store import Store
from hubbub.protos.batch import BatchRecord, round_named
from hubbub.protos.errors import SignatureError
from hubbub.protos.keys import KeyRecord
from hubbub.protos.signed import SignedDocument
from hubbub.protos.signers import connected, followed, signers
from hubbub.protos.successions import Succession
from hubbub.protos.task import Task


async def check_signers(store: Store, successions: Sequence[Succession]) -> None:
    """Return only if the keys and batch records that are stored are signed by who signs their round.

    Rounds that are certified and signed by the identities that their task names need no look; every other takes the
    time of two signatures' checks, and of one more for each hop.

    Raises:
        SignatureError: naming the first round that somebody else has signed.
    """
    # Of a round one record is enough: the shuffler signs those of all queries at once.
    records = {round_named(document): document for _task, _query, document in await store.records()}
    tasks: dict[bytes, Task] = {}
    for progress in await store.progress(None):
        of, number = progress.id.task_id, progress.id.round
        if of not in tasks:
            tasks[of] = await _followed(store, of, successions)
        if not _needs_no_look(tasks[of], progress):
            await _check_round(store, tasks[of], number, records.get((of, number)))


async def _followed(store: Store, task_id: bytes, successions: Sequence[Succession]) -> Task:
    """Return a stored task with the identities that follow those it names, also one that is not served any more."""
    signed = await store.task(task_id)
    if signed is None:
        raise SignatureError("the store holds a round without its task; it was damaged, put its newest copy back")
    return followed(signed.task, connected(signed.task, successions))


def _needs_no_look(task: Task, progress: RoundProgress) -> bool:
    over = not progress.has_key and not progress.batches  # nothing of it is here, nor will be
    return over or (progress.is_certified and signers(task, progress.id.round) == task.identities)


async def _check_round(store: Store, task: Task, number: int, record: SignedDocument | None) -> None:
    of_round, key = signers(task, number), await store.key(task.id, number)
    try:
        if key is not None:
            KeyRecord.read(key.record, of_round.analyzer)
        if record is not None:
            BatchRecord.read(record, of_round.shuffler, of_round.hops)
    except SignatureError as error:
        raise SignatureError(
            f"round {number} of {task.name} was signed by another identity than the `successions` say signs it. Where "
            "one of them came after the round's keys were given out and begins earlier, take it out, and have one "
            "signed that begins later; where one was taken out by which the round was signed, put it back"
        ) from error
