"""Requests are as large as tasks need, and no larger; every repeated field of the contract has a most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from hubbub.protos.errors import MessageError
from hubbub.protos.transport.channels import MAXIMUM_MESSAGE_BYTES, MAXIMUM_SUBMISSIONS, SUBMISSION_OVERHEAD
from hubbub.protos.v1 import delivery_pb2, submission_pb2
from hubbub.service.rpc.field_counts import Elements, TooMany, TooShort
from hubbub.service.rpc.size_limits import (
    FEW_BYTES,
    FEW_SHORT,
    Call,
    Compressed,
    TooLarge,
    calls_of,
    largest_submissions,
)
from support.http2_frames import empty_submissions, gzip_message

SERVICES = (
    "SubmissionService",
    "RoundControlService",
    "DeliveryService",
    "ResultsService",
    "ReplicationService",
    "LeaderService",
)
ENVELOPE = 152


@pytest.mark.parametrize("service", SERVICES)
def test_every_repeated_field_of_a_request_has_a_most(service: str) -> None:
    for name, call in calls_of(service).items():
        missing = list(uncounted(call.request.DESCRIPTOR, call.most))
        assert missing == [], f"{name}: its line in `_COUNTED`"


def uncounted(message: Descriptor, most: Mapping[int, Elements]) -> Iterator[str]:
    """The repeated fields without a most, of a message and of those in it."""
    for each in message.fields:
        counted = most.get(each.number)
        if each.is_repeated and counted is None:
            yield each.full_name
        if each.message_type is not None:
            yield from uncounted(each.message_type, {} if counted is None else counted.inner)


def test_empty_elements_are_refused_before_they_are_parsed() -> None:
    """Each would take two bytes on the wire, and hundreds of memory."""
    few = delivery_pb2.BeginDeliveryRequest()
    begin = calls_of("DeliveryService")["BeginDelivery"]
    few.key_set.successions.extend([b""] * 65)
    with pytest.raises(TooMany, match="send at most 64"):
        begin.decode(few.SerializeToString())
    few = delivery_pb2.BeginDeliveryRequest(releases=[delivery_pb2.Release(records=[b""])])
    with pytest.raises(TooShort, match="send elements of at least 32"):
        begin.decode(few.SerializeToString())
    honest = delivery_pb2.BeginDeliveryRequest(releases=[delivery_pb2.Release(round=1, records=[b"r" * 32] * 3)] * 2)
    honest.key_set.successions.extend([b"s"] * 64)
    assert begin.decode(honest.SerializeToString()) == honest
    submit = calls_of("SubmissionService", ENVELOPE)["SubmitBatch"]
    submit.decode(batch(2, 1) + empty_submissions(FEW_SHORT))
    with pytest.raises(TooShort, match=f"element {FEW_SHORT + 3} of a call has 0 bytes"):
        submit.decode(batch(2, 1) + empty_submissions(10_000))


@pytest.mark.parametrize("service", SERVICES)
def test_no_call_takes_more_than_a_message_may_have(service: str) -> None:
    assert all(call.largest <= MAXIMUM_MESSAGE_BYTES for call in calls_of(service).values())


def batch(count: int, envelope_bytes: int) -> bytes:
    one = submission_pb2.Submission(id=b"i" * 16, envelope=bytes(envelope_bytes), credential=b"c" * 32, proof=b"p" * 16)
    here = submission_pb2.Destination(task_id=b"t" * 32, round=2**31, key_set_hash=b"k" * 32)
    return submission_pb2.SubmitBatchRequest(destination=here, submissions=[one] * count).SerializeToString()


@pytest.mark.parametrize("envelope_bytes", [1, ENVELOPE, 600])
def test_a_full_batch_of_the_longest_envelopes_fits_and_little_more(envelope_bytes: int) -> None:
    call = calls_of("SubmissionService", envelope_bytes)["SubmitBatch"]
    full = batch(MAXIMUM_SUBMISSIONS, envelope_bytes)
    assert len(full) <= call.largest <= MAXIMUM_SUBMISSIONS * (envelope_bytes + SUBMISSION_OVERHEAD) + FEW_BYTES
    assert call.decode(full).ByteSize() == len(full)
    with pytest.raises(TooLarge, match=rf"\d+ bytes in a call of SubmitBatch; send at most {call.largest}"):
        call.decode(bytes(call.largest + 1))


def test_one_submission_is_not_the_size_of_many() -> None:
    calls = calls_of("SubmissionService", ENVELOPE)
    assert calls["Submit"].largest < calls["SubmitBatch"].largest / 20
    assert largest_submissions(ENVELOPE) == calls["SubmitBatch"].largest
    assert calls["GetRound"].largest == FEW_BYTES


def test_what_is_compressed_is_refused_as_it_came() -> None:
    call = calls_of("SubmissionService", ENVELOPE)["SubmitBatch"]
    with pytest.raises(Compressed, match="send it uncompressed"):
        call.decode(gzip_message(b"x" * 1000)[5:])


@pytest.mark.parametrize("raw", [b"\xff", b"\x0a\x05abc", b"\x00"])
def test_what_is_no_request_is_said_so(raw: bytes) -> None:
    call: Call = calls_of("SubmissionService")["GetRound"]
    with pytest.raises(MessageError, match="not a request of GetRound") as caught:
        call.decode(raw)
    # What a parser said of the bytes may quote them.
    assert caught.value.__context__ is None


def test_numbers_of_fields_are_the_contracts() -> None:
    (field,) = calls_of("SubmissionService")["SubmitBatch"].most
    assert isinstance(submission_pb2.SubmitBatchRequest.DESCRIPTOR.fields_by_name["submissions"], FieldDescriptor)
    assert submission_pb2.SubmitBatchRequest.DESCRIPTOR.fields_by_name["submissions"].number == field
