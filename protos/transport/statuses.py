"""Maps refusals to gRPC statuses, and statuses back to errors on the calling side."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

import grpc

from hubbub.protos import codec
from hubbub.protos.errors import Distrusted, HubbubError, MessageError, Unreachable
from hubbub.protos.refusals import Reason, Refusal

STATUS = {
    Reason.MALFORMED: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.WRONG_SIZE: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.UNKNOWN_TASK: grpc.StatusCode.NOT_FOUND,
    Reason.UNKNOWN_ROUND: grpc.StatusCode.NOT_FOUND,
    Reason.TOO_EARLY: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.TOO_LATE: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.ERASED: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.TASK_ENDED: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.KEY_SET_DIFFERS: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.ID_CONFLICT: grpc.StatusCode.ALREADY_EXISTS,
    Reason.UNOPENABLE: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.OVERLOADED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.NOT_READY: grpc.StatusCode.UNAVAILABLE,
    Reason.NOT_ALLOWED: grpc.StatusCode.PERMISSION_DENIED,
    Reason.BELOW_MINIMUM: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.CLOSED_BY_SCHEDULE: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.BAD_RECORD: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.DIGEST_DIFFERS: grpc.StatusCode.ALREADY_EXISTS,
    Reason.FORKED: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.WRONG_OFFSET: grpc.StatusCode.OUT_OF_RANGE,
    Reason.INCOMPLETE: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.NO_RESULTS: grpc.StatusCode.NOT_FOUND,
    Reason.OVER_BUDGET: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.NOT_ENROLLED: grpc.StatusCode.UNAUTHENTICATED,
    Reason.CREDENTIAL_EXPIRED: grpc.StatusCode.UNAUTHENTICATED,
    Reason.REVOKED: grpc.StatusCode.PERMISSION_DENIED,
    Reason.NOT_COUNTERSIGNED: grpc.StatusCode.PERMISSION_DENIED,
    Reason.BAD_TICKET: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.TICKET_EXPIRED: grpc.StatusCode.UNAUTHENTICATED,
    Reason.TICKET_REDEEMED: grpc.StatusCode.ALREADY_EXISTS,
    Reason.TOO_LARGE: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.RESULTS_DIFFER: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.ROUND_FULL: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.DISK_FULL: grpc.StatusCode.RESOURCE_EXHAUSTED,
}
"""The gRPC status of every refusal."""

REASON_KEY = "hubbub-reason"
RETRY_KEY = "hubbub-retry-after-ms"
_MILLISECONDS = re.compile(r"[0-9]{1,15}")
# Statuses from gRPC or from a failing service, without a reason of ours: a retry may succeed.
_UNANSWERED = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.ABORTED,
    }
)

T = TypeVar("T")
Context = grpc.aio.ServicerContext[Any, Any]


_DISTRUSTED = (
    ("certificate has expired", "its TLS certificate, or the authority's, has expired; its operator must replace it"),
    ("certificate is not yet valid", "its TLS certificate is not valid yet; check the clocks of both machines"),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "its TLS certificate is not of the authority that is trusted here; check that authority's file and the address",
    ),
    (
        "Hostname Verification Check failed",
        "its TLS certificate is not for the name by which it was called; call it by one of the certificate's names",
    ),
)
_TOO_LATE = re.compile("Deadline Exceeded|DEADLINE_EXCEEDED|Stream removed")
"""What gRPC says if the deadline passed, sometimes with the state of its stream."""

NOT_HTTPS = "not HTTPS"
"""What the HTTPS client says of a server that ends the connection after TLS, as gRPC's does without its protocol."""

REFUSED_BY_PROXY = "the proxy does not connect to it; does it take CONNECT, and for this host and port?"

_CAUSES = (
    (
        NOT_HTTPS,
        "it does not speak HTTPS; if that is the shuffler's gRPC port, give its address as host:port, without https://",
    ),
    (
        "missing selected ALPN property",
        "it does not speak gRPC; if that is the shuffler's HTTPS port, give its address as https://host:port",
    ),
    ("WRONG_VERSION_NUMBER", "the server there does not speak TLS; check host and port"),
    ("hostname lookup error", "its host name cannot be resolved; check the host and the name service"),
    ("Connection refused", "no server listens there (connection refused)"),
    ("HTTP proxy returned response code", REFUSED_BY_PROXY),
    ("Tunnel connection failed", REFUSED_BY_PROXY),
    ("http2 header with status: 502", "the proxy in front of it got no answer from it (502)"),
    ("http2 header with status: 503", "the proxy in front of it does not reach it (503)"),
    ("http2 header with status: 504", "the proxy in front of it got no answer from it in time (504)"),
    ("http2 header with status: 429", "the proxy in front of it takes no more calls of this address now (429)"),
    (
        "Socket closed",
        "it closed the connection: it is stopping, it does not accept the caller's certificate, or the port is wrong",
    ),
)
"""Fragments of gRPC's errors for failed connections, with their meaning; the first match counts."""


def unreachable(what: str, details: str) -> Unreachable:
    """Return the error for a failed connection to `what`, in plain words if gRPC's error is known.

    `details` may quote the other side, such as the line that it sent for an HTTP status: no escape of it gets further.
    """
    details = codec.plain(details)
    for said, cause in _DISTRUSTED:
        if said in details:
            return Distrusted(f"{what} is not trusted: {cause}")
    for said, cause in _CAUSES:
        if said in details:
            return Unreachable(f"{what} did not answer: {cause}")
    if _TOO_LATE.search(details):
        return Unreachable(f"{what} did not answer in time")
    return Unreachable(f"{what} did not answer: {details}")


def metadata_of(refusal: Refusal) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a refusal in addition to its status: its reason, and when to retry; for both servers."""
    reason = (REASON_KEY, refusal.reason.value)
    retry_after_ms = codec.retry_after_ms(refusal)
    return (reason,) if retry_after_ms is None else (reason, (RETRY_KEY, str(retry_after_ms)))


async def call(pending: Awaitable[T], what: str, port: str = "") -> T:
    """Await a call and return its answer; `what` names the other side in errors, `port` the port that has the call.

    Raises:
        Refusal: as the other side raised it.
        Unreachable: if there was no answer; the call may be repeated.
        MessageError: if the answer is not one that the contract allows.
        HubbubError: if the other side does not know the call.
    """
    try:
        answer = await pending
        if answer is None:  # gRPC returns None for bytes that it cannot parse
            raise MessageError(f"{what} answered with bytes that are not a message of this version")
        return answer
    except grpc.aio.AioRpcError as error:
        metadata = {key: str(value) for key, value in error.trailing_metadata() or ()}
        raise failure(what, error.code(), error.details() or "", metadata, port) from error


def failure(what: str, code: grpc.StatusCode, details: str, metadata: Mapping[str, str], port: str = "") -> HubbubError:
    """Return the error for a failed call to `what`: `Refusal`, `Unreachable`, or that the call does not exist.

    `port` names the port that has the call, as in "delivery port (7401)".
    """
    details = codec.plain(details or code.name)
    # The reason first: several reasons share a status, and gRPC itself also sends some statuses.
    if REASON_KEY in metadata:
        retry = metadata.get(RETRY_KEY, "")
        retry_after_ms = int(retry) if _MILLISECONDS.fullmatch(retry) else None
        return codec.read_refusal(metadata[REASON_KEY], details, retry_after_ms)
    if code in _UNANSWERED:
        return unreachable(what, details)
    # Each port has calls of its own, so a wrong port is likelier than another version.
    wrong_port = f"that the address has its {port or 'right port'}, and " * (code is grpc.StatusCode.UNIMPLEMENTED)
    return HubbubError(f"{what} answered {code.name}: {details}; check {wrong_port}that it has the same version")
