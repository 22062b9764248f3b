"""Writes tests/vectors/wire/calls.json: messages as protobuf, as JSON and in chunks; refusals, each with its duty.

    python tests/vectors/make_calls.py

The messages are those of session.json, and a batch. `tests/unit/service/transport/test_call_vectors.py` sends them to
a server, and compares the duties with docs/wire-calls.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from google.protobuf.json_format import MessageToDict  # noqa: E402
from google.protobuf.message import Message  # noqa: E402

from hubbub.protos import codec  # noqa: E402
from hubbub.protos.messages import Receipt  # noqa: E402
from hubbub.protos.refusals import EXPLANATIONS, TRANSIENT, Reason, Refusal  # noqa: E402
from hubbub.protos.v1 import submission_pb2 as pb  # noqa: E402
from hubbub.service.rpc.connect import refused  # noqa: E402
from vectors import make_session  # noqa: E402

FILE = Path(__file__).parent / "wire" / "calls.json"

DUTIES: Mapping[str, tuple[Reason, ...]] = {
    "again": (Reason.OVERLOADED, Reason.NOT_READY, Reason.DISK_FULL),
    "wait": (Reason.TOO_EARLY,),
    "discard": (Reason.TOO_LATE, Reason.ERASED, Reason.ROUND_FULL, Reason.TASK_ENDED),
    "redeem": (Reason.NOT_ENROLLED,),
    "ticket": (
        Reason.CREDENTIAL_EXPIRED,
        Reason.REVOKED,
        Reason.NOT_COUNTERSIGNED,
        Reason.BAD_TICKET,
        Reason.TICKET_EXPIRED,
        Reason.TICKET_REDEEMED,
    ),
}
"""What each reason obliges a client to; all others oblige it to stop."""

WITHOUT_REASON: Mapping[int, str] = {
    400: "stop",
    404: "stop",
    408: "again",
    411: "stop",
    413: "stop",
    415: "stop",
    429: "again",
    500: "again",
    501: "stop",
    502: "again",
    503: "again",
    504: "again",
}
"""The duty of an error that names no reason, by its status; that of no answer at all is "again"."""


def duty_of(reason: Reason) -> str:
    """Return the duty of a reason."""
    return next((duty for duty, reasons in DUTIES.items() if reason in reasons), "stop")


def to_devices() -> list[Reason]:
    """Return the reasons that a device may get."""
    return [reason for reason, each in EXPLANATIONS.items() if "device" in each.who or each.who == "anyone"]


def messages() -> list[tuple[str, str, Message]]:
    """Return the messages of the file: the call, what it is, and the message."""
    of = make_session.content()["exchanges"]
    keys, enroll, _, submit = of
    found: list[tuple[str, str, Message]] = []
    for each, name in ((keys, "GetRound"), (enroll, "Enroll"), (submit, "Submit")):
        found.append((name, "request", getattr(pb, f"{name}Request").FromString(bytes.fromhex(each["request"]))))
        found.append((name, "response", getattr(pb, f"{name}Response").FromString(bytes.fromhex(each["body"]))))
    one = pb.SubmitRequest.FromString(bytes.fromhex(submit["request"]))
    second = pb.Submission(id=bytes(16), envelope=one.submission.envelope)
    found.append(
        (
            "SubmitBatch",
            "request",
            pb.SubmitBatchRequest(destination=one.destination, submissions=[one.submission, second]),
        )
    )
    answers = codec.write_answers([Receipt(one.submission.id, one.destination.round), _refusal(Reason.NOT_ENROLLED)])
    found.append(("SubmitBatch", "response", answers))
    busy = codec.write_answers([_refusal(Reason.OVERLOADED)])
    found.append(("SubmitBatch", "response", busy))
    refusal = pb.Refusal(reason=Reason.TICKET_REDEEMED, message="another device redeemed it")
    found.append(("Enroll", "response", pb.EnrollResponse(answers=[pb.Enrolled(refusal=refusal)])))
    found.append(("GetFeed", "request", pb.GetFeedRequest(first=1)))
    found.append(("GetFeed", "response", pb.GetFeedResponse(entries=[b"{}"], successions=[])))
    return found


def chunked(body: bytes, size: int) -> bytes:
    """The body in chunks of that size (RFC 9112, section 7.1)."""
    pieces = [body[begin : begin + size] for begin in range(0, len(body), size)]
    return b"".join([*(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n"])


def malformed() -> list[tuple[str, str, bytes]]:
    """Messages that are refused as `malformed`: what is wrong, the call, and the message."""
    of = {(call, what): message for call, what, message in reversed(messages())}
    submit = of["Submit", "request"].SerializeToString()
    shorter, no_destination = pb.SubmitRequest.FromString(submit), pb.SubmitRequest.FromString(submit)
    shorter.submission.id = bytes(15)
    no_destination.ClearField("destination")
    hashed = pb.SubmitRequest.FromString(submit)
    hashed.destination.key_set_hash = bytes(31)
    return [
        ("an id of 15 bytes", "Submit", shorter.SerializeToString()),
        ("no destination", "Submit", no_destination.SerializeToString()),
        ("a hash of 31 bytes", "Submit", hashed.SerializeToString()),
        ("a task id of 31 bytes", "GetRound", pb.GetRoundRequest(task_id=bytes(31)).SerializeToString()),
        ("a message that is cut", "Submit", submit[:-1]),
    ]


def content() -> dict[str, Any]:
    """Return what the file has."""
    submit = next(message for call, what, message in messages() if (call, what) == ("Submit", "request"))
    whole = submit.SerializeToString()
    return {
        "origin": "November 2026: messages and refusals as hubbub's HTTPS port takes and makes them.",
        "messages": [
            {
                "call": call,
                "is": what,
                "proto": message.SerializeToString().hex(),
                "json": MessageToDict(message),
            }
            for call, what, message in messages()
        ],
        "chunked": [
            {"call": "Submit", "size": size, "proto": whole.hex(), "body": chunked(whole, size).hex(), "taken": taken}
            for size, taken in ((len(whole), True), (100, True), (1, False))
        ],
        "malformed": [{"what": what, "call": call, "proto": message.hex()} for what, call, message in malformed()],
        "refusals": [_refused(reason) for reason in to_devices()],
        "without_reason": [{"status": status, "duty": duty} for status, duty in WITHOUT_REASON.items()],
    }


def _refusal(reason: Reason) -> Refusal:
    return Refusal(reason, f"it is refused as {reason.value}", 1.5 if reason in TRANSIENT else None)


def _refused(reason: Reason) -> dict[str, Any]:
    reply, part = refused(_refusal(reason)), codec.write_answer(_refusal(reason))
    return {
        "reason": reason.value,
        "duty": duty_of(reason),
        "status": reply.status,
        "headers": dict(reply.headers),
        "body": reply.body.decode(),
        "part": part.SerializeToString().hex(),
    }


def encoded() -> bytes:
    """Return the file."""
    return (json.dumps(content(), indent=1) + "\n").encode()


if __name__ == "__main__":
    FILE.write_bytes(encoded())
