"""Answers calls that come through a relay: the HTTPS port as what RFC 9458 calls a gateway.

A relay posts an encapsulated request to `PATH`. The shuffler opens it, and answers the call inside as if it had come by
itself: by the same router, with the same limits, checks and counts. The answer is encapsulated, so the relay sees none
of it. What fails before a request is open is answered in the open, as nobody could read it otherwise (RFC 9458, section
5.2); what fails afterwards is answered inside.

Nothing is kept of a request. A request that a relay repeats is answered again, which is harmless: each call of a device
may be repeated, and changes nothing the second time. The answer is for the sender of the first request alone, and does
not open twice to the same bytes, as each has a nonce of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from hubbub.protos.errors import MessageError
from hubbub.protos.oblivious.binary_http import (
    MOST_FIELD_BYTES,
    PAD_BYTES,
    BinaryRequest,
    BinaryResponse,
    only_once,
    read_request,
    write_response,
)
from hubbub.protos.oblivious.encapsulation import (
    KEYS,
    OVERHEAD_BYTES,
    REQUEST,
    RESPONSE,
    UNKNOWN_KEY,
    ObliviousKeys,
    ResponseSealer,
    UnknownObliviousKey,
)
from hubbub.protos.oblivious.key_records import RECORDS
from hubbub.protos.refusals import Refusal
from hubbub.service.rpc.concurrency import PortLimit
from hubbub.service.rpc.connect import AT_ONCE_BYTES, PAUSED, Begun, ConnectRouter, Read, Reply, error, refused

PATH = b"/ohttp"
"""Where relays post encapsulated requests; a GET there gives the signed oblivious key, which a relay passes on too."""

WELL_KNOWN = b"/.well-known/ohttp-gateway"
"""The same by RFC 9540. A GET there gives the key as application/ohttp-keys, unsigned: for clients that trust TLS."""

CACHE_SECONDS = 600
"""How long a relay may keep the key."""

_CACHED = ("cache-control", f"max-age={CACHE_SECONDS}")
_MORE_BYTES = OVERHEAD_BYTES + 2 * MOST_FIELD_BYTES + PAD_BYTES
"""Most bytes of an encapsulated request beyond the message of its call."""


class ObliviousKeySource(Protocol):
    """The oblivious keys, and their signed records, as they are at the moment."""

    @property
    def oblivious_keys(self) -> ObliviousKeys:
        """The private keys."""

    @property
    def oblivious_records(self) -> bytes:
        """The signed key; empty if there is none."""


class _Encapsulated(Begun):
    """An encapsulated request whose headers were accepted; which call it is shows when it is open."""

    __slots__ = ()

    def __init__(self, most: int) -> None:
        self.most = most


class ObliviousRouter(ConnectRouter):
    """Routes the calls of one service, bare and encapsulated."""

    def __init__(self, *parts: Any, source: ObliviousKeySource) -> None:
        """See `ConnectRouter` for the other parts."""
        super().__init__(*parts)
        self._source = source
        self._most = self.pipeline.admission.limits.largest + _MORE_BYTES
        self._gets: Mapping[bytes, Callable[[], tuple[str, bytes]]] = {
            PATH: lambda: (RECORDS, source.oblivious_records),
            WELL_KNOWN: lambda: (KEYS, source.oblivious_keys.configurations),
        }

    def begin(self, verb: bytes, path: bytes, headers: Mapping[bytes, bytes]) -> Begun | Reply:
        """Return the call that a request's head begins, or what answers it at once."""
        if path not in self._gets:
            return super().begin(verb, path, headers)
        if verb == b"GET":
            return self._keys(path, headers)
        if verb != b"POST":
            return self._no_call(
                error("unimplemented", "post a request, or GET the key", (("allow", "GET, POST"),), 405)
            )
        if headers.get(b"content-type", b"").lower().strip() != REQUEST.encode():
            told = f"content-type is not {REQUEST}; send an encapsulated request (RFC 9458)"
            return self._no_call(error("unimplemented", told, (("accept-post", REQUEST),), 415))
        if headers.get(b"content-encoding", b"identity") != b"identity":
            self.pipeline.admission.refused[PortLimit.COMPRESSED] += 1
            return error("unimplemented", "the request is compressed; send it uncompressed (identity)")
        length = headers.get(b"content-length")
        if length is None and b"transfer-encoding" not in headers:
            told = "there is no content-length; state it, or send the request chunked"
            return self._no_call(error("unimplemented", told, status=411))
        begun = _Encapsulated(self._most)
        if length is not None and (not length.isdigit() or len(length) > 10 or int(length) > self._most):
            return self.too_large(begun, length.decode("ascii", "replace")[:20])
        return begun

    def _keys(self, path: bytes, headers: Mapping[bytes, bytes]) -> Reply:
        if headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers:
            return self._no_call(error("invalid_argument", "a GET has no content; send none"))
        form, content = self._gets[path]()
        if not content:
            return error("unavailable", "the shuffler has no key yet; try again shortly")
        return Reply(200, (("content-type", form), _CACHED), content)

    def too_large(self, begun: Begun, size: str) -> Reply:
        """Count and return the refusal of a message that has `size` bytes, in words."""
        if not isinstance(begun, _Encapsulated):
            return super().too_large(begun, size)
        self.pipeline.admission.refused[PortLimit.SIZE] += 1
        told = f"{size} bytes in an encapsulated request; send at most {begun.most}"
        return error("resource_exhausted", told, status=413)

    async def answer(self, begun: Begun, connection: str, read: Read) -> Reply:
        """Answer a call whose message `read` gives, or is; every failure is answered, too."""
        if not isinstance(begun, _Encapsulated):
            return await super().answer(begun, connection, read)
        opened = await self._opened(connection, read)
        del read
        if isinstance(opened, Reply):
            return await self._paused(opened, connection)
        inner, content, sealer = opened
        if isinstance(inner, Reply):
            inside = await self._paused(inner, connection)
        else:
            inside = await super().answer(inner, connection, content)
        # A name and a length are all that the relay sees of any answer, whatever it says.
        fields = tuple((name.encode(), value.encode("latin-1", "replace")) for name, value in inside.headers)
        sealed = sealer.seal(write_response(BinaryResponse(inside.status, fields, inside.body)))
        return Reply(200, (("content-type", RESPONSE),), sealed, inside.sent)

    async def _paused(self, reply: Reply, connection: str) -> Reply:
        """Return a reply that no call had; if the request was malformed, with the delay of a malformed message."""
        # The request is freed by now, so that a waiting answer uses no memory for it.
        if reply.code == PAUSED:
            await self.pipeline.admission.pause(connection)
        return reply

    async def _opened(self, connection: str, read: Read) -> Reply | tuple[Begun | Reply, Read, ResponseSealer]:
        """Return the call inside with its message, or what answers it inside; or what answers it in the open."""
        try:
            raw = await self._received(connection, read)
            del read
            message, sealer = self._source.oblivious_keys.open(raw)
            del raw
        except Refusal as refusal:
            return refused(refusal)
        except MessageError as fault:
            self.pipeline.admission.refused[PortLimit.ENCAPSULATION] += 1
            return _not_open(fault)
        try:
            request = read_request(message)
            del message
            headers = only_once(request.fields)
        except MessageError as fault:
            self.pipeline.admission.refused[PortLimit.HTTP] += 1
            return error("invalid_argument", str(fault)), b"", sealer
        inner = self._begun_inside(request, headers)
        return inner, b"" if isinstance(inner, Reply) else _held(request.content), sealer

    async def _received(self, connection: str, read: Read) -> bytes:
        admission = self.pipeline.admission
        # Before it is opened, which costs as much as the call: this process may have no memory for any call.
        if self.pipeline.full():
            raise admission.refusal(PortLimit.MEMORY, "the service has reached its limit of memory")
        return read if isinstance(read, bytes) else await admission.read_message(connection, read)

    def _begun_inside(self, request: BinaryRequest, headers: dict[bytes, bytes]) -> Begun | Reply:
        # By the router of bare calls: an encapsulated request inside another is no call. The authority may be any: a
        # request goes no further than this service.
        if headers.setdefault(b"content-length", b"%d" % len(request.content)) != b"%d" % len(request.content):
            return self._no_call(error("invalid_argument", "content-length is not the length of the content"))
        return super().begin(request.method, request.path, headers)


def _held(content: bytes) -> Read:
    """Return a message for `ConnectRouter.answer`: a large one as a function that gives it up when it is called.

    Passed as bytes, each function on the way would keep it in memory until the answer.
    """
    if len(content) <= AT_ONCE_BYTES:
        return content
    held = [content]

    async def given_up() -> bytes:
        return held.pop()

    return given_up


def _not_open(fault: MessageError) -> Reply:
    """Return the answer, in the open, to a request that does not open."""
    if not isinstance(fault, UnknownObliviousKey):
        return error("invalid_argument", str(fault))
    problem = {"type": UNKNOWN_KEY, "title": "key identifier unknown"}
    return Reply(400, (("content-type", "application/problem+json"),), json.dumps(problem).encode(), code=PAUSED)
