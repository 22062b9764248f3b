"""Limits the request of each call: its size, from the needs of the tasks, and the elements of its repeated fields.

A larger request is refused before it is parsed. A request larger than any call of the port is refused before it is
received.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from hubbub.protos.enrollment.credentials import KEY_BYTES, NUMBER_BYTES
from hubbub.protos.enrollment.tickets import DEVICE_BYTES, LONGEST_TICKET
from hubbub.protos.errors import MessageError
from hubbub.protos.identity.keys import HASH_BYTES
from hubbub.protos.identity.successions import MOST_SUCCESSIONS
from hubbub.protos.rpc.enrollment import MOST_DEVICES, MOST_REDEMPTIONS
from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES
from hubbub.protos.task.draft import MAXIMUM_QUERIES
from hubbub.protos.transport.channels import MAXIMUM_MESSAGE_BYTES, MAXIMUM_SUBMISSIONS, SUBMISSION_OVERHEAD
from hubbub.protos.v1 import control_pb2, delivery_pb2, leader_pb2, replication_pb2, results_pb2, submission_pb2
from hubbub.service.rpc.field_counts import Elements, check_counts

FEW_BYTES = 4096
"""Limit of a request that names a task, a round or a batch: far more than it needs, for future fields."""

FEW_SUBMISSIONS_BYTES = 64 * 1024
"""Least limit of a request with submissions: one for an unknown task must be read, so that the refusal names it."""

MOST_RELEASES = 100_000
"""Most releases in a batch's announcement: a round an hour for eleven years."""

MOST_ENVELOPES = 500_000
"""Most envelopes in one chunk of a batch; every envelope is longer than the largest message divided by this."""

FEW_SHORT = 16
"""Too short submissions that a call may have; with more, the whole call is refused."""

_WAITING = {"GetResults": "wait_seconds"}
"""Calls that may wait, with the field that contains the longest wait."""

_FRAMES = 16
_GZIP = b"\x1f\x8b"
"""Beginning of a gzip stream; no message begins so, as its first field would be of an invalid kind."""


class TooLarge(MessageError):
    """A request has more bytes than its call needs."""


class Compressed(MessageError):
    """A request is compressed."""


@dataclass(frozen=True)
class Call:
    """The limits of the request of a call."""

    name: str
    request: type[Message]
    largest: int = FEW_BYTES
    most: Mapping[int, Elements] = field(default_factory=dict)

    def waits(self, request: Message) -> bool:
        """Whether a request asks to wait for results that do not exist yet."""
        return self.name in _WAITING and getattr(request, _WAITING[self.name]) > 0

    def decode(self, raw: bytes) -> Message:
        """Return the request; its size and its counts are checked in the bytes, before they are parsed.

        Raises:
            MessageError: if the bytes are too large (`TooLarge`), have too many elements (`TooMany`), are compressed,
                or are no request.
        """
        if raw[: len(_GZIP)] == _GZIP:
            raise Compressed("the request is compressed; send it uncompressed")
        if len(raw) > self.largest:
            raise TooLarge(f"{len(raw)} bytes in a call of {self.name}; send at most {self.largest}")
        if self.most:
            check_counts(raw, self.most)
        try:
            return self.request.FromString(raw)
        except DecodeError:
            pass
        raise MessageError(f"the bytes are not a request of {self.name} of this version")


_SERVICES = {
    "SubmissionService": submission_pb2,
    "RoundControlService": control_pb2,
    "DeliveryService": delivery_pb2,
    "ResultsService": results_pb2,
    "ReplicationService": replication_pb2,
    "LeaderService": leader_pb2,
}
_FIELD_FRAME = 2
"""Bytes around a short field: its tag, and its length."""


class _Most(NamedTuple):
    """`Elements` by the names of fields."""

    most: int
    fewest_bytes: int = 0
    shorter: int = 0
    inner: Mapping[str, _Most] = {}

    def of(self, described: FieldDescriptor) -> Elements:
        fields = {} if described.message_type is None else described.message_type.fields_by_name
        inner = {fields[name].number: each.of(fields[name]) for name, each in self.inner.items()}
        return Elements(self.most, self.fewest_bytes, self.shorter, inner)


_COUNTED: dict[str, dict[str, _Most]] = {
    # A submission has at least an id. A malformed one is refused by itself, but not thousands of empty ones: each has
    # two bytes, its answer sixty, and refusing it costs more work than sending it.
    "SubmitBatch": {"submissions": _Most(MAXIMUM_SUBMISSIONS, SUBMISSION_ID_BYTES + _FIELD_FRAME, FEW_SHORT)},
    "Enroll": {"redemptions": _Most(MOST_REDEMPTIONS)},
    "ManageCredentials": {"devices": _Most(MOST_DEVICES)},
    "BeginDelivery": {
        "key_set": _Most(1, inner={"successions": _Most(MOST_SUCCESSIONS)}),
        "releases": _Most(MOST_RELEASES, inner={"records": _Most(MOST_RELEASES * MAXIMUM_QUERIES, HASH_BYTES)}),
    },
    "PutEnvelopes": {"envelopes": _Most(MOST_ENVELOPES)},
    "RedeemTickets": {"tickets": _Most(MOST_REDEMPTIONS)},
}
"""Limits of the repeated fields of requests: most elements, fewest bytes of each, and the fields within; a test fails
if one is missing."""


def calls_of(service: str, envelope_bytes: int | None = None) -> dict[str, Call]:
    """Return the calls of one of the contract's services, by name.

    `envelope_bytes` is the length of the longest envelope that devices send, if it is known.
    """
    largest = _largest(envelope_bytes)
    found = {}
    for method in _SERVICES[service].DESCRIPTOR.services_by_name[service].methods:
        fields = method.input_type.fields_by_name
        most = {fields[name].number: each.of(fields[name]) for name, each in _COUNTED.get(method.name, {}).items()}
        size = largest.get(method.name, FEW_BYTES)
        found[method.name] = Call(method.name, GetMessageClass(method.input_type), size, most)
    return found


def _largest(envelope_bytes: int | None) -> dict[str, int]:
    one = MAXIMUM_MESSAGE_BYTES if envelope_bytes is None else envelope_bytes + SUBMISSION_OVERHEAD + FEW_BYTES
    many = MAXIMUM_MESSAGE_BYTES
    if envelope_bytes is not None:
        many = min(many, MAXIMUM_SUBMISSIONS * (envelope_bytes + SUBMISSION_OVERHEAD) + FEW_BYTES)
    return {
        "Submit": min(MAXIMUM_MESSAGE_BYTES, max(FEW_SUBMISSIONS_BYTES, one)),
        "SubmitBatch": max(FEW_SUBMISSIONS_BYTES, many),
        "Enroll": MOST_REDEMPTIONS * (LONGEST_TICKET + KEY_BYTES + _FRAMES),
        "ManageCredentials": MOST_DEVICES * (DEVICE_BYTES + _FRAMES) + FEW_BYTES,
        "BeginDelivery": MAXIMUM_MESSAGE_BYTES,
        "PutEnvelopes": MAXIMUM_MESSAGE_BYTES,
        "RedeemTickets": MOST_REDEMPTIONS * (DEVICE_BYTES + KEY_BYTES + NUMBER_BYTES + _FRAMES),
    }


def largest_submissions(envelope_bytes: int) -> int:
    """Return the size in bytes of the largest request of devices whose longest envelope has `envelope_bytes`."""
    return max(call.largest for call in calls_of("SubmissionService", envelope_bytes).values())
