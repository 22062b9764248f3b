"""Converts messages to and from the generated protobuf types, which only this module and `rpc` use.

Every `read_*` checks lengths and enumerations against the contract, and raises `MessageError` if they do not fit.
Every `write_*` is its inverse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from hubbub.protos.errors import MessageError
from hubbub.protos.escaping import readable
from hubbub.protos.identity.documents import SIGNATURE_BYTES, SignedDocument
from hubbub.protos.identity.keys import HASH_BYTES, KeySet
from hubbub.protos.identity.successions import LONGEST_SUCCESSION, MOST_SUCCESSIONS
from hubbub.protos.messages import Answer, Committed, Envelopes, Receipt, RoundState, RoundStatus, Submission
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.results import RoundId
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import NUMBER_LIMIT, SUBMISSION_ID_BYTES, Destination
from hubbub.protos.v1 import control_pb2, delivery_pb2, document_pb2, results_pb2, submission_pb2
from hubbub.queries.errors import shown

# Found by name, so that a state without a number in the contract fails at import and not in some call.
_STATES = {state: control_pb2.RoundState.Value(f"ROUND_STATE_{state.name}") for state in RoundState}


LONGEST_MESSAGE = 500
"""Most characters of a refusal's message: it travels in a gRPC trailer, which is limited to 8 KB."""

LONGEST_RETRY = 366 * 86400.0
"""The longest wait, in seconds, that a refusal requests; longer ones are reduced to this."""

_ANY_ID = b"\xff" * SUBMISSION_ID_BYTES
"""A placeholder for a submission's id; it can be found in the bytes, since no tag or length before it has its byte."""

LONGEST_WAIT = 3600.0
"""The longest time, in seconds, that one call for results waits."""


def checked(value: bytes, length: int, what: str) -> bytes:
    """Return `value` if it has `length` bytes.

    Raises:
        MessageError: otherwise, naming `what` and both lengths.
    """
    if len(value) != length:
        raise MessageError(f"{what} has {len(value)} bytes, but {length} are expected")
    return value


# Documents


def write_document(document: SignedDocument) -> document_pb2.SignedDocument:
    """Encode a signed document."""
    return document_pb2.SignedDocument(body=document.body, signature=document.signature)


def read_document(message: document_pb2.SignedDocument) -> SignedDocument:
    """Decode a signed document; its signature is still to be checked."""
    return SignedDocument(message.body, checked(message.signature, SIGNATURE_BYTES, "a signature"))


def write_key_record(document: SignedDocument) -> document_pb2.KeyRecord:
    """Encode a signed key record."""
    return document_pb2.KeyRecord(document=write_document(document))


def read_key_record(message: document_pb2.KeyRecord) -> SignedDocument:
    """Decode a signed key record; its signature is still to be checked."""
    return read_document(message.document)


def write_batch_record(document: SignedDocument) -> document_pb2.BatchRecord:
    """Encode a signed batch record."""
    return document_pb2.BatchRecord(document=write_document(document))


def read_batch_record(message: document_pb2.BatchRecord) -> SignedDocument:
    """Decode a signed batch record; its signature is still to be checked."""
    return read_document(message.document)


def write_key_set(key_set: KeySet) -> document_pb2.KeySet:
    """Encode a key set."""
    records = write_key_record(key_set.shuffler), write_key_record(key_set.analyzer)
    return document_pb2.KeySet(shuffler=records[0], analyzer=records[1], successions=key_set.successions)


def read_key_set(message: document_pb2.KeySet) -> KeySet:
    """Decode a key set; its signatures, and its successions, are still to be checked.

    Raises:
        MessageError: if there are too many successions, or one is too long.
    """
    successions = tuple(message.successions)
    if len(successions) > MOST_SUCCESSIONS or any(len(each) > LONGEST_SUCCESSION for each in successions):
        raise MessageError(f"a key set has at most {MOST_SUCCESSIONS} successions of {LONGEST_SUCCESSION} bytes each")
    return KeySet(read_key_record(message.shuffler), read_key_record(message.analyzer), successions)


# Submissions


def write_destination(destination: Destination) -> submission_pb2.Destination:
    """Encode a destination."""
    return submission_pb2.Destination(
        task_id=destination.task_id, round=destination.round, key_set_hash=destination.key_set_hash
    )


def read_destination(message: submission_pb2.Destination) -> Destination:
    """Decode a destination."""
    return Destination(
        read_task_id(message.task_id), message.round, checked(message.key_set_hash, HASH_BYTES, "the key-set hash")
    )


def read_task_id(value: bytes) -> bytes:
    """Check a task id's length."""
    return checked(value, HASH_BYTES, "the task id")


def checked_number(value: int, what: str) -> int:
    """Return the number of a round or a query if it fits into a message.

    Raises:
        MessageError: otherwise.
    """
    if not 0 <= value < NUMBER_LIMIT:
        raise MessageError(f"{what} is {shown(value)}; it must be a whole number from 0 to {NUMBER_LIMIT - 1}")
    return value


def read_digest(value: bytes) -> bytes:
    """Check a digest's length."""
    return checked(value, HASH_BYTES, "the digest")


def write_submission(submission: Submission) -> submission_pb2.Submission:
    """Encode a submission."""
    message = submission_pb2.Submission(id=submission.id, envelope=submission.envelope)
    if submission.credential:
        message.credential, message.proof = submission.credential, submission.proof
    return message


def read_submission(message: submission_pb2.Submission) -> Submission:
    """Decode a submission; the size of its envelope is the task's business."""
    submission_id = checked(message.id, SUBMISSION_ID_BYTES, "the submission id")
    # The check of the proof covers the lengths of credential and proof: with other lengths, nothing is proven.
    return Submission(submission_id, message.envelope, message.credential, message.proof)


def submissions_of(messages: Iterable[submission_pb2.Submission]) -> list[Submission | None]:
    """Decode the submissions of one call; None for each that `read_submission` refuses, with its reason."""
    return [
        Submission(submission_id, message.envelope, message.credential, message.proof)
        if len(submission_id := message.id) == SUBMISSION_ID_BYTES
        else None
        for message in messages
    ]


def write_receipt(receipt: Receipt) -> submission_pb2.Receipt:
    """Encode a receipt."""
    return submission_pb2.Receipt(submission_id=receipt.submission_id, round=receipt.round)


def read_receipt(message: submission_pb2.Receipt) -> Receipt:
    """Decode a receipt."""
    return Receipt(checked(message.submission_id, SUBMISSION_ID_BYTES, "the submission id"), message.round)


def write_answers(answers: Sequence[Answer]) -> submission_pb2.SubmitBatchResponse:
    """Encode the answers to the submissions of one call, in order."""
    if answers and isinstance(first := answers[0], Receipt):
        ids = [
            answer.submission_id
            for answer in answers
            if isinstance(answer, Receipt) and answer.round == first.round and len(answer.submission_id) == len(_ANY_ID)
        ]
        if len(ids) == len(answers):
            return _write_receipts(ids, first.round)
    message = submission_pb2.SubmitBatchResponse()
    add = message.answers.add
    refusal: Refusal | None = None
    for answer in answers:
        if isinstance(answer, Receipt):  # filled in place: four times as fast as copying a receipt in
            receipt = add().receipt
            receipt.submission_id, receipt.round = answer.submission_id, answer.round
            continue
        if answer is not refusal:  # a service that sheds load uses one refusal for all
            refusal, encoded = answer, write_answer(answer)
        add().CopyFrom(encoded)
    return message


def _write_receipts(ids: Sequence[bytes], round_: int) -> submission_pb2.SubmitBatchResponse:
    """Encode the receipts of a round, which differ only in their ids; takes a third of the time of single steps."""
    receipt = submission_pb2.Receipt(submission_id=_ANY_ID, round=round_)
    one = submission_pb2.SubmitBatchResponse(answers=[submission_pb2.Answer(receipt=receipt)]).SerializeToString()
    # Concatenated messages are one message with the elements of all (protobuf's encoding guide).
    before, _, behind = one.partition(_ANY_ID)
    return submission_pb2.SubmitBatchResponse.FromString(before + (behind + before).join(ids) + behind)


def read_answers(message: submission_pb2.SubmitBatchResponse) -> list[Answer]:
    """Decode the answers to the submissions of one call, in order."""
    return [read_answer(answer) for answer in message.answers]


def write_answer(answer: Answer) -> submission_pb2.Answer:
    """Encode the answer to one of many submissions."""
    if isinstance(answer, Receipt):
        return submission_pb2.Answer(receipt=write_receipt(answer))
    return submission_pb2.Answer(
        refusal=submission_pb2.Refusal(
            reason=answer.reason.value, message=plain(answer.message), retry_after_ms=retry_after_ms(answer) or 0
        )
    )


def retry_after_ms(refusal: Refusal) -> int | None:
    """Return a refusal's wait in whole milliseconds, rounded up and at least 1; None if it has no wait."""
    # At least 1, because 0 on the wire means no wait.
    if refusal.retry_after is None:
        return None
    # The inner rounding removes the noise of the product: 0.07 s are 70 ms, not 71.
    return math.ceil(round(min(max(0.001, refusal.retry_after), LONGEST_RETRY) * 1000, 3))


def plain(text: str) -> str:
    """Return a text from the other side as one readable line of at most `LONGEST_MESSAGE` characters."""
    # It goes to logs and terminals: a line break could forge a log line, an escape sequence could hide text. Also cut
    # before, since escaping makes up to ten characters of one.
    return readable(text[:LONGEST_MESSAGE])[:LONGEST_MESSAGE]


def plain_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts by names from the other side, with the names as `plain` returns them."""
    return {plain(name): count for name, count in counts.items()}


def read_answer(message: submission_pb2.Answer) -> Answer:
    """Decode the answer to one of many submissions."""
    match message.WhichOneof("answer"):
        case "receipt":
            return read_receipt(message.receipt)
        case "refusal":
            return read_refusal(message.refusal.reason, message.refusal.message, message.refusal.retry_after_ms or None)
        case _:
            raise MessageError("an answer has neither a receipt nor a refusal; install the same hubbub on both sides")


def read_refusal(reason: str, message: str, retry_after_ms: int | None) -> Refusal:
    """Build a refusal from its parts on the wire."""
    try:
        known = Reason(reason)
    except ValueError as error:
        raise MessageError(
            f"refused for a reason unknown to this version: {reason!r:.80}; install a newer one"
        ) from error
    retry_after = None if retry_after_ms is None else min(retry_after_ms / 1000, LONGEST_RETRY)
    return Refusal(known, plain(message), retry_after)


# Rounds


def write_status(status: RoundStatus) -> control_pb2.RoundStatus:
    """Encode a round's status."""
    return control_pb2.RoundStatus(
        task_id=status.task_id,
        round=status.round,
        state=_STATES[status.state],
        submissions=status.submissions,
        minimum_reports=status.minimum_reports,
        refusals=status.refusals,
        waiting_for=status.waiting_for,
        prepared=status.prepared,
        step=status.step,
    )


def read_status(message: control_pb2.RoundStatus) -> RoundStatus:
    """Decode a round's status."""
    states = {number: state for state, number in _STATES.items()}
    if message.state not in states:
        raise MessageError(f"a round's state {message.state} is unknown to this version; install a newer one")
    return RoundStatus(
        task_id=read_task_id(message.task_id),
        round=message.round,
        state=states[message.state],
        submissions=message.submissions,
        minimum_reports=message.minimum_reports,
        refusals=plain_counts(message.refusals),
        waiting_for=plain(message.waiting_for),
        prepared=message.prepared,
        step=max(1, message.step),
    )


# Delivery


def write_batch_id(batch: BatchId) -> delivery_pb2.BatchId:
    """Encode a batch's id."""
    return delivery_pb2.BatchId(
        task_id=batch.task_id,
        round=checked_number(batch.round, "the round"),
        query=checked_number(batch.query, "the query"),
    )


def read_batch_id(message: delivery_pb2.BatchId) -> BatchId:
    """Decode a batch's id."""
    return BatchId(read_task_id(message.task_id), message.round, message.query)


def write_envelopes(chunk: Envelopes) -> delivery_pb2.PutEnvelopesRequest:
    """Encode a chunk of a batch."""
    return delivery_pb2.PutEnvelopesRequest(
        batch=write_batch_id(chunk.batch), offset=chunk.offset, envelopes=chunk.envelopes
    )


def read_envelopes(message: delivery_pb2.PutEnvelopesRequest) -> Envelopes:
    """Decode a chunk of a batch; its envelopes must have one length, which only the task fixes."""
    envelopes = tuple(message.envelopes)
    if len({len(envelope) for envelope in envelopes}) > 1:
        raise MessageError("the envelopes of a chunk differ in length, but all of a query must have one length")
    return Envelopes(read_batch_id(message.batch), message.offset, envelopes)


def write_committed(committed: Committed) -> delivery_pb2.CommitDeliveryResponse:
    """Encode the acknowledgement of a batch."""
    return delivery_pb2.CommitDeliveryResponse(counted=committed.counted, left_out=committed.left_out)


def read_committed(message: delivery_pb2.CommitDeliveryResponse) -> Committed:
    """Decode the acknowledgement of a batch."""
    return Committed(message.counted, dict(message.left_out))


# Results


def read_wait(seconds: float) -> float:
    """Return how many seconds a call for results waits, at most `LONGEST_WAIT`.

    Raises:
        MessageError: if the wait is negative or not a number.
    """
    # Not `seconds < 0`, which is false for NaN.
    if not seconds >= 0:
        raise MessageError(f"wait_seconds is {seconds}; it must be a number from 0")
    return min(seconds, LONGEST_WAIT)


def write_round_id(round_id: RoundId) -> results_pb2.RoundId:
    """Encode a round's id."""
    return results_pb2.RoundId(task_id=round_id.task_id, task_name=round_id.task_name, round=round_id.round)


def read_round_id(message: results_pb2.RoundId) -> RoundId:
    """Decode a round's id."""
    return RoundId(read_task_id(message.task_id), plain(message.task_name), message.round)
