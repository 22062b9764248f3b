"""The other port to a service's calls, by the Connect protocol's unary calls over HTTP.

The same messages reach the same methods through the same `RequestPipeline`; only how a call and a refusal look differs.
A call is `POST /SERVICE/METHOD` with a message as its body; an error is JSON, with a status of HTTP and a code of
Connect.
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
from hubbub.service.rpc.pipeline import IncomingCall, Method, RequestPipeline
from hubbub.service.rpc.size_limits import Call, TooLarge

VERSION = b"1"
"""The one version of the protocol."""

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
"""Connect's codes, with the status of HTTP that each has."""

_MILLISECONDS = re.compile(rb"[0-9]{1,10}")
_NUMBER = re.compile(rb"[0-9]{1,10}")
_LOG = logging.getLogger(__name__)

Header = tuple[str, str]
Read = Callable[[], Awaitable[bytes]] | bytes
"""Gives a call's message, or is the message."""


_PAUSED = code_of(grpc.StatusCode.INVALID_ARGUMENT)
"""The code of what is refused for what it is; `AdmissionControl.pause` says why such an answer waits."""


class Reply:
    """What is answered over HTTP: a status, headers and a body. `sent` is to be called once it was taken.

    `code` is Connect's of an error, empty for what is none.
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
    """Return an error as Connect has it; `status` replaces the code's own status of HTTP."""
    body = json.dumps({"code": code, "message": message}, ensure_ascii=False).encode()
    return Reply(status or _HTTP[code], (("content-type", JSON), *headers), body, code=code)


def refused(refusal: Refusal) -> Reply:
    """Return a refusal as an error whose headers tell its reason, and when the call may be made again."""
    return error(code_of(STATUS[refusal.reason]), codec.plain(refusal.message), metadata_of(refusal))


class Begun:
    """A call whose headers were taken: what answers it, how long its message is, and how long it may take."""

    __slots__ = ("call", "length", "method", "seconds")

    def __init__(self, call: Call, method: Method, length: int, seconds: float | None) -> None:
        self.call, self.method, self.length, self.seconds = call, method, length, seconds


class ConnectRouter:
    """The calls of one service, by their paths, as HTTP brings them."""

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

    def begin(self, verb: bytes, path: bytes, headers: Mapping[bytes, bytes]) -> Begun | Reply:
        """Return the call that a request's head begins, or what it is refused with.

        Header names are lower case. Nothing of the message is needed yet: what is too long is never received.
        """
        found = self._methods.get(path)
        if found is None:
            return self._no_call(error("unimplemented", "there is no such call here", status=404))
        if verb != b"POST":
            return self._no_call(Reply(405, (("allow", "POST"),)))
        if headers.get(b"content-type") != PROTO.encode():
            return self._no_call(Reply(415, (("accept-post", PROTO),)))
        if b"content-length" not in headers:
            return self._no_call(Reply(411))
        call, method = found
        seconds, length = headers.get(b"connect-timeout-ms"), headers[b"content-length"]
        if headers.get(b"connect-protocol-version", VERSION) != VERSION:
            return self._no_call(error("invalid_argument", "connect-protocol-version is not 1, the one there is"))
        if seconds is not None and not _MILLISECONDS.fullmatch(seconds):
            return self._no_call(error("invalid_argument", "connect-timeout-ms is not a number of at most 10 digits"))
        if headers.get(b"content-encoding", b"identity") != b"identity":
            self._count(call, PortLimit.COMPRESSED)
            return error("unimplemented", "messages are not taken compressed; send it as it is (identity)")
        if not _NUMBER.fullmatch(length) or int(length) > call.largest:
            self._count(call, PortLimit.SIZE)
            fault = TooLarge(f"{length.decode('ascii', 'replace')} bytes in {call.name}; send at most {call.largest}")
            return refused(Refusal(Reason.MALFORMED, str(fault)))
        return Begun(call, method, int(length), None if seconds is None else int(seconds) / 1000)

    def _no_call(self, reply: Reply) -> Reply:
        self.pipeline.admission.refused[PortLimit.HTTP] += 1
        return reply

    def _count(self, call: Call, limit: PortLimit) -> None:
        self.pipeline.admission.refused[limit] += 1
        self._malformed(call.name, 1)

    async def answer(self, begun: Begun, connection: str, read: Read) -> Reply:
        """Answer a call whose message `read` gives, or is; whatever goes wrong is answered, too.

        Who sends what no device would send waits for that answer, as at the gRPC ports.
        """
        reply = await self._answered(begun, connection, read)
        # Here, where nothing holds on to what was sent any more.
        if reply.code == _PAUSED:
            await self.pipeline.admission.pause(connection)
        return reply

    async def _answered(self, begun: Begun, connection: str, read: Read) -> Reply:
        asked = IncomingCall(begun.call, begun.method, self._malformed, connection, connection)
        try:
            if begun.seconds is None:
                return await self._taken(asked, read)
            async with asyncio.timeout(begun.seconds) as clock:
                return await self._taken(asked, read)
        except Refusal as refusal:
            return refused(refusal)
        except MessageError as fault:
            return refused(Refusal(Reason.MALFORMED, str(fault)))
        except Exception as fault:
            if isinstance(fault, TimeoutError) and begun.seconds is not None and clock.expired():
                return error("deadline_exceeded", "the call took longer than connect-timeout-ms; it may be made again")
            # The exception's text stays in the log: it may tell a caller more about the service than it should know.
            _LOG.exception("a call failed")
            return error("internal", "the service failed at this call; its log says why")

    async def _taken(self, asked: IncomingCall, read: Read) -> Reply:
        body, sent = await self.pipeline.handle(asked, read)
        return Reply(200, (("content-type", PROTO),), body, sent)
