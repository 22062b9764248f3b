"""Serves a service's calls over HTTP, as unary calls of the Connect protocol.

The same messages reach the same methods through the same `RequestPipeline`; only the form of calls and refusals
differs. A call is `POST /SERVICE/METHOD` with a message as its body, as protobuf, or as JSON if it is small. An error
is JSON, with an HTTP status and a Connect code.
Source: https://connectrpc.com/docs/protocol, "Unary".
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping

import grpc

from hubbub.protos import codec
from hubbub.protos.errors import MessageError
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.transport.connect_codes import JSON, PROTO, code_of
from hubbub.protos.transport.statuses import STATUS, metadata_of
from hubbub.service.rpc.concurrency import PortLimit
from hubbub.service.rpc.connect_json import LARGEST_JSON, answers_of, read_as_json, written_as_json
from hubbub.service.rpc.pipeline import IncomingCall, Method, RequestPipeline
from hubbub.service.rpc.size_limits import Call, TooLarge

VERSION = b"1"
"""The only version of the protocol."""

_HTTP = {
    "canceled": 499,
    "unknown": 500,
    "invalid_argument": 400,
    "deadline_exceeded": 504,
    "not_found": 404,
    "already_exists": 409,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "failed_precondition": 400,
    "aborted": 409,
    "out_of_range": 400,
    "unimplemented": 501,
    "internal": 500,
    "unavailable": 503,
    "data_loss": 500,
    "unauthenticated": 401,
}
"""The HTTP status of each Connect code."""

_JSON = JSON.encode()
_FORMS = (PROTO.encode(), _JSON)
_MILLISECONDS = re.compile(rb"[0-9]{1,10}")
_NUMBER = re.compile(rb"[0-9]{1,10}")
_LOG = logging.getLogger(__name__)

Header = tuple[str, str]
Read = Callable[[], Awaitable[bytes]] | bytes
"""A function that gives a call's message, or the message itself."""

AT_ONCE_BYTES = 4096
"""Largest message (bytes) that is passed on directly, if all of it has arrived."""

PAUSED = code_of(grpc.StatusCode.INVALID_ARGUMENT)
"""The code of a malformed call; `AdmissionControl.pause` explains why such an answer is delayed."""


class Reply:
    """An HTTP answer: a status, headers and a body. `sent` is to be called once the answer was read.

    `code` is the Connect code of an error, empty otherwise.
    """

    __slots__ = ("body", "code", "headers", "sent", "status")

    def __init__(
        self,
        status: int,
        headers: tuple[Header, ...] = (),
        body: bytes = b"",
        sent: Callable[[object], None] | None = None,
        code: str = "",
    ) -> None:
        self.status, self.headers, self.body, self.sent, self.code = status, headers, body, sent, code


def error(code: str, message: str, headers: tuple[Header, ...] = (), status: int | None = None) -> Reply:
    """Return an error in Connect's form; `status` replaces the HTTP status of the code."""
    body = json.dumps({"code": code, "message": message}, ensure_ascii=False).encode()
    return Reply(status or _HTTP[code], (("content-type", JSON), *headers), body, code=code)


def refused(refusal: Refusal) -> Reply:
    """Return a refusal as an error whose headers contain its reason and the time to retry."""
    return error(code_of(STATUS[refusal.reason]), codec.plain(refusal.message), metadata_of(refusal))


def uncoded(coding: bytes) -> Reply:
    """Return the refusal of a transfer coding that is not known."""
    named = codec.plain(coding.decode("latin-1")[:40])
    return error("unimplemented", f"the transfer-encoding is {named}; send content-length, or chunked alone")


class Begun:
    """A call whose headers were accepted: its method, the most bytes of its message, its form, and its timeout."""

    __slots__ = ("call", "in_json", "method", "most", "seconds")

    def __init__(self, call: Call, method: Method, most: int, in_json: bool, seconds: float | None) -> None:
        self.call, self.method, self.most, self.in_json, self.seconds = call, method, most, in_json, seconds


class ConnectRouter:
    """Routes HTTP requests to the calls of one service, by their paths."""

    def __init__(
        self,
        service: str,
        methods: Mapping[str, tuple[Call, Method]],
        pipeline: RequestPipeline,
        malformed: Callable[[str, int], None],
    ) -> None:
        self.pipeline = pipeline
        self._malformed = malformed
        self._methods = {f"/{service}/{name}".encode(): answering for name, answering in methods.items()}
        self._answers = answers_of(service)

    def begin(self, verb: bytes, path: bytes, headers: Mapping[bytes, bytes]) -> Begun | Reply:
        """Return the call that a request's head begins, or the refusal.

        Header names are lower case. No byte of the message is needed yet, so a message that is too long is never
        received.
        """
        found = self._methods.get(path)
        if found is None:
            return self._no_call(error("unimplemented", "this service has no such call", status=404))
        if verb != b"POST":
            return self._no_call(error("unimplemented", "a call is a POST", (("allow", "POST"),), 405))
        form = headers.get(b"content-type", b"").lower().partition(b";")[0].rstrip()
        if form not in _FORMS:
            told = f"content-type is neither {PROTO} nor {JSON}; send the message as one of them"
            return self._no_call(error("unimplemented", told, (("accept-post", f"{PROTO}, {JSON}"),), 415))
        length = headers.get(b"content-length")
        if length is None and b"transfer-encoding" not in headers:
            told = "there is no content-length; state it, or send the message chunked"
            return self._no_call(error("unimplemented", told, status=411))
        call, method = found
        seconds = headers.get(b"connect-timeout-ms")
        if headers.get(b"connect-protocol-version", VERSION) != VERSION:
            return self._no_call(error("invalid_argument", "connect-protocol-version is not 1, the only version"))
        if seconds is not None and not _MILLISECONDS.fullmatch(seconds):
            return self._no_call(error("invalid_argument", "connect-timeout-ms is not a number of at most 10 digits"))
        if headers.get(b"content-encoding", b"identity") != b"identity":
            self._count(call, PortLimit.COMPRESSED)
            return error("unimplemented", "the message is compressed; send it uncompressed (identity)")
        in_json = form == _JSON
        most = min(call.largest, LARGEST_JSON) if in_json else call.largest
        begun = Begun(call, method, most, in_json, None if seconds is None else int(seconds) / 1000)
        if length is not None and (not _NUMBER.fullmatch(length) or int(length) > most):
            return self.too_large(begun, length.decode("ascii", "replace"))
        return begun

    def too_large(self, begun: Begun, size: str) -> Reply:
        """Count and return the refusal of a message that has `size` bytes, in words."""
        self._count(begun.call, PortLimit.SIZE)
        form = " as JSON" if begun.in_json else ""
        fault = TooLarge(f"{size} bytes in {begun.call.name}{form}; send at most {begun.most}")
        return refused(Refusal(Reason.MALFORMED, str(fault)))

    def _no_call(self, reply: Reply) -> Reply:
        self.pipeline.admission.refused[PortLimit.HTTP] += 1
        return reply

    def _count(self, call: Call, limit: PortLimit) -> None:
        self.pipeline.admission.refused[limit] += 1
        self._malformed(call.name, 1)

    async def answer(self, begun: Begun, connection: str, read: Read) -> Reply:
        """Answer a call whose message `read` gives, or is; every failure is answered, too.

        The answer to a message that no device would send is delayed, as at the gRPC ports.
        """
        reply = await self._answered(begun, connection, read)
        # Pause only after the request is freed, so that a waiting call uses no memory for it.
        if reply.code == PAUSED:
            await self.pipeline.admission.pause(connection)
        return reply

    async def _answered(self, begun: Begun, connection: str, read: Read) -> Reply:
        asked = IncomingCall(begun.call, begun.method, self._malformed, connection, connection)
        try:
            if begun.seconds is None:
                return await self._taken(begun, asked, read)
            async with asyncio.timeout(begun.seconds) as clock:
                return await self._taken(begun, asked, read)
        except Refusal as refusal:
            return refused(refusal)
        except MessageError as fault:
            return refused(Refusal(Reason.MALFORMED, str(fault)))
        except Exception as fault:
            if isinstance(fault, TimeoutError) and begun.seconds is not None and clock.expired():
                return error("deadline_exceeded", "the call took longer than connect-timeout-ms; it may be repeated")
            # The exception's text stays in the log: it may reveal more about the service than a caller should know.
            _LOG.exception("a call failed")
            return error("internal", "the service failed in this call; its log names the cause")

    async def _taken(self, begun: Begun, asked: IncomingCall, read: Read) -> Reply:
        if not begun.in_json:
            body, sent = await self.pipeline.handle(asked, read)
            return Reply(200, (("content-type", PROTO),), body, sent)
        read = self._of_json(begun.call, read) if isinstance(read, bytes) else self._reading_json(begun.call, read)
        body, sent = await self.pipeline.handle(asked, read)
        return Reply(200, (("content-type", JSON),), written_as_json(self._answers[begun.call.name], body), sent)

    def _reading_json(self, call: Call, read: Callable[[], Awaitable[bytes]]) -> Callable[[], Awaitable[bytes]]:
        async def message() -> bytes:
            return self._of_json(call, await read())

        return message

    def _of_json(self, call: Call, written: bytes) -> bytes:
        try:
            return read_as_json(call.request, written)
        except MessageError:
            self._malformed(call.name, 1)
            raise
