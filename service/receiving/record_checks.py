"""What must hold between a batch's record, its key set, its envelopes and its task, for every receiver.

`before` are the identities of the hops that a batch came through before its receiver, in their order; most batches come
through none.
"""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.errors import KeyRecordError, SignatureError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Envelopes
from hubbub.protos.records.batch import BatchRecord, round_named
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.signers import signers
from hubbub.protos.task.task import Task


def task_of(document: SignedDocument) -> bytes:
    """Return the id of the task that a batch record says it is of: it is read once the task's signers are known.

    Raises:
        Refusal: BAD_RECORD.
    """
    try:
        return round_named(document)[0]
    except SignatureError as error:
        raise Refusal(Reason.BAD_RECORD, str(error)) from error


def read_record(document: SignedDocument, task: Task, before: Sequence[bytes] = ()) -> BatchRecord:
    """Return a batch record that the shuffler of its round signed, and the hops `before` after it.

    Raises:
        Refusal: BAD_RECORD.
    """
    try:
        # The round is in what is signed: under another round's signer the signature does not hold.
        _, number = round_named(document)
        return BatchRecord.read(document, signers(task, number).shuffler, before)
    except SignatureError as error:
        raise Refusal(Reason.BAD_RECORD, str(error)) from error


def check_record(task: Task, record: BatchRecord) -> None:
    """Return only if a record is of one of the task's queries, and says of its round what the task allows.

    Raises:
        Refusal: BAD_RECORD, BELOW_MINIMUM.
    """
    if record.batch.query >= len(task.queries):
        last = len(task.queries) - 1
        raise Refusal(Reason.BAD_RECORD, f"task {task.name} has queries 0 to {last}, not {record.batch.query}")
    if record.closed_by == "operator" and task.schedule.close != "operator":
        raise Refusal(Reason.BAD_RECORD, f"rounds of task {task.name} are closed by the schedule, not by the operator")
    if record.reports < task.minimum_reports:
        limits = f"{record.reports} reports, the minimum of task {task.name} is {task.minimum_reports}"
        raise Refusal(Reason.BELOW_MINIMUM, f"{limits}; such a round expires and is not released")
    if record.dummies != task.privacy.dummies:
        wanted = f"{record.dummies} dummies, task {task.name} has {task.privacy.dummies} in every batch"
        raise Refusal(Reason.BAD_RECORD, f"{wanted}; a batch is counted with exactly those")
    if record.admission != task.admission.mode.value:
        stated = f"admission is {record.admission}, that of task {task.name} is {task.admission.mode.value}"
        raise Refusal(Reason.BAD_RECORD, f"{stated}; submissions were let in otherwise than the task says")


def check_key_set(task: Task, record: BatchRecord, key_set: KeySet) -> None:
    """Return only if a key set is signed by the task's services for the record's round, and is the one that it names.

    Raises:
        Refusal: BAD_RECORD, KEY_SET_DIFFERS.
    """
    identities = signers(task, record.batch.round)
    try:
        key_set.read(
            *(task.id, record.batch.round, task.suite), identities.shuffler, identities.analyzer, identities.hops
        )
    except (SignatureError, KeyRecordError) as error:
        raise Refusal(Reason.BAD_RECORD, f"the key set does not hold: {error}") from error
    if record.key_set_hash != key_set.hash:
        raise Refusal(Reason.KEY_SET_DIFFERS, "the batch record names another key set than the one that came with it")


def check_width(task: Task, chunk: Envelopes, widths: Sequence[int]) -> None:
    """Return only if the envelopes of a chunk are as long as all of their query are: `widths`, by query.

    Raises:
        Refusal: MALFORMED.
    """
    if chunk.batch.query >= len(task.queries):
        message = f"task {task.name} has queries 0 to {len(task.queries) - 1}, not {chunk.batch.query}"
        raise Refusal(Reason.MALFORMED, message)
    width = widths[chunk.batch.query]
    if any(len(envelope) != width for envelope in chunk.envelopes):
        raise Refusal(Reason.MALFORMED, f"an inner envelope of this query has {width} bytes; others were sent")
