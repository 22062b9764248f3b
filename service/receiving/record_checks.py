"""Checks, for every receiver, that a batch's record, key set and envelopes match its task.

`before` are the identities of the hops that a batch passed before its receiver, in order; most batches pass none.
"""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.errors import KeyRecordError, SignatureError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Envelopes
from hubbub.protos.records.batch import BatchRecord, round_named
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.task import Task, signers


def task_of(document: SignedDocument) -> bytes:
    """Return the id of the task that a batch record names; its signature is checked once the task's signers are known.

    Raises:
        Refusal: BAD_RECORD.
    """
    try:
        return round_named(document)[0]
    except SignatureError as error:
        raise Refusal(Reason.BAD_RECORD, str(error)) from error


def read_record(document: SignedDocument, task: Task, before: Sequence[bytes] = ()) -> BatchRecord:
    """Return a batch record, signed by the shuffler of its round and then by the hops `before`.

    Raises:
        Refusal: BAD_RECORD.
    """
    try:
        # The round is in the signed body: with another round's signer, the signature is invalid.
        _, number = round_named(document)
        return BatchRecord.read(document, signers(task, number).shuffler, before)
    except SignatureError as error:
        raise Refusal(Reason.BAD_RECORD, str(error)) from error


def check_record(task: Task, record: BatchRecord) -> None:
    """Check that a record is of one of the task's queries, and that its statements about the round fit the task.

    Raises:
        Refusal: BAD_RECORD, BELOW_MINIMUM.
    """
    if record.batch.query >= len(task.queries):
        last = len(task.queries) - 1
        raise Refusal(
            Reason.BAD_RECORD,
            f"task {task.name} has queries 0 to {last}, but the batch is of query {record.batch.query}; install the "
            "same hubbub on both sides",
        )
    if record.closed_by == "operator" and task.schedule.close != "operator":
        raise Refusal(
            Reason.BAD_RECORD,
            "the record says that the operator closed the round, but the schedule closes rounds of task "
            f"{task.name}; install the same hubbub on both sides",
        )
    if record.reports < task.minimum_reports:
        limits = (
            f"the batch has {record.reports} reports, but the minimum of task {task.name} is {task.minimum_reports}"
        )
        raise Refusal(Reason.BELOW_MINIMUM, f"{limits}; such a round expires and is not released")
    differ = record.dummies_differ(task)
    if differ is not None:
        raise Refusal(Reason.BAD_RECORD, f"{differ}; it is counted with exactly that number")
    if record.admission != task.admission.mode.value:
        stated = (
            f"the record's admission is {record.admission}, but that of task {task.name} is {task.admission.mode.value}"
        )
        raise Refusal(Reason.BAD_RECORD, f"{stated}; submissions were not admitted as the task requires")


def check_key_set(task: Task, record: BatchRecord, key_set: KeySet) -> None:
    """Check that the task's services signed a key set for the record's round, and that the record names this key set.

    Raises:
        Refusal: BAD_RECORD, KEY_SET_DIFFERS.
    """
    identities = signers(task, record.batch.round)
    try:
        key_set.read(
            *(task.id, record.batch.round, task.suite), identities.shuffler, identities.analyzer, identities.hops
        )
    except (SignatureError, KeyRecordError) as error:
        raise Refusal(Reason.BAD_RECORD, f"the key set is invalid: {error}") from error
    if record.key_set_hash != key_set.hash:
        raise Refusal(Reason.KEY_SET_DIFFERS, "the batch record names another key set than the one that came with it")


def check_width(task: Task, chunk: Envelopes, widths: Sequence[int]) -> None:
    """Check that the envelopes of a chunk have the length of their query; `widths` gives it by query.

    Raises:
        Refusal: MALFORMED.
    """
    if chunk.batch.query >= len(task.queries):
        message = (
            f"task {task.name} has queries 0 to {len(task.queries) - 1}, but the envelopes are of query "
            f"{chunk.batch.query}; install the same hubbub on both sides"
        )
        raise Refusal(Reason.MALFORMED, message)
    width = widths[chunk.batch.query]
    if any(len(envelope) != width for envelope in chunk.envelopes):
        raise Refusal(
            Reason.MALFORMED,
            f"an inner envelope of this query has {width} bytes, but others were sent; install the same hubbub on "
            "both sides",
        )
