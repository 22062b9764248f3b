"""A request at a time, its head, its body and its answer, each bounded.

HTTP/1.1, parsed by `httptools` (llhttp). A request states the length of its body, or is chunked, and never both. So
there is one way to find its end, and a proxy cannot read it differently (request smuggling). A caller that sends
another request before the answer to the first gets that answer only; then the connection is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol

import httptools

from hubbub.service.rpc.concurrency import PortLimit
from hubbub.service.rpc.connect import AT_ONCE_BYTES, Begun, ConnectRouter, Header, Reply, error, uncoded

MOST_HEAD_BYTES = 16 * 1024
"""Bytes of a request's head: its path and all its headers."""

MOST_HEADERS = 64
"""Headers of a request."""

FREE_CHUNKS, CHUNK_BYTES = 64, 128
"""How small chunks may be: of a message, one for each `CHUNK_BYTES`, and `FREE_CHUNKS` beyond that."""

FRAME_BYTES = 32
"""Bytes of a chunk's frame, with its extensions, as a mean of the most chunks that a message may have."""

HEALTH_PATH = b"/health"
"""Where a load balancer asks whether the service takes calls."""

BLOCK_BYTES = 64 * 1024
"""A body is kept in blocks of about that size. One buffer would be copied again and again as it grows."""

FIRST_SECONDS = 10.0
"""How long a connection may be open before its first request begins."""

WRITE_SECONDS = 30.0
"""How long the caller may take no bytes of an answer; then its connection is closed."""

_PHRASES = {status.value: status.phrase for status in HTTPStatus} | {499: "Client Closed Request"}


class PlaintextStream(Protocol):
    """Where a connection's plaintext goes; it calls `pause_writing` as soon as bytes have to wait."""

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def pause_reading(self) -> None:
        """Receive nothing."""

    def resume_reading(self) -> None:
        """Receive again."""

    def close(self) -> None:
        """Close once everything was taken."""

    def abort(self) -> None:
        """Close without waiting for anything."""


class ConnectionOwner(Protocol):
    """What a connection needs of its port."""

    router: ConnectRouter
    date: str
    """The current time in HTTP's form."""
    unfinished_seconds: float
    idle_seconds: float
    age_seconds: float
    serving: bool
    leaving: bool

    def cors(self, origin: bytes) -> tuple[Header, ...]:
        """Return the headers that let pages of that origin read answers."""

    def connected(self, connection: Connection) -> None:
        """Note that a connection finished its TLS handshake."""

    def gone(self, connection: Connection) -> None:
        """Note that a connection ended."""


class Connection:
    """Answers the requests of one connection from `address`; `name` is unique among connections."""

    def __init__(self, host: ConnectionOwner, address: str, name: str) -> None:
        self.address, self.name = address, name
        self._host, self._loop = host, asyncio.get_running_loop()
        self._transport: PlaintextStream | None = None
        # The parser refers to this connection: a cycle, which `connection_lost` breaks.
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._born = self._since = self._loop.time()
        self._stalled: float | None = None
        self._unsent: list[Callable[[object], None]] = []
        self._work: asyncio.Task[None] | None = None
        self._last = False
        """The connection ends with the next answer."""
        self._deaf = False
        """Nothing more is read."""
        self._body: list[bytearray] = []
        self._body_bytes = 0
        self._reset()
        self._fresh = True

    def _reset(self) -> None:
        """Prepare for the next request."""
        self._path = b""
        self._headers: dict[bytes, bytes] = {}
        self._drop_body()
        self._head_bytes = self._frame_bytes = self._chunks = 0
        self._headed = self._chunked = self._whole = self._fresh = False
        self._fault: Reply | None = None
        self._begun: Begun | None = None
        self._passed_on = False
        """The call got its message."""
        self._arrived: asyncio.Future[bytes] | None = None

    # The transport's calls

    def connection_made(self, transport: PlaintextStream) -> None:
        """Begin, after the TLS handshake."""
        self._transport = transport
        self._born = self._since = self._loop.time()
        self._host.connected(self)

    def connection_lost(self, _error: Exception | None) -> None:
        """Release everything; a call in work is cancelled, as gRPC does."""
        self._last = self._deaf = True
        self._drop_body()
        if self._work is not None:
            self._work.cancel()
        self._all_sent()
        self._transport = self._parser = None
        self._host.gone(self)

    def pause_writing(self) -> None:
        """Note that the caller does not take the answer yet."""
        # Reading is not paused here: TLS also sends bytes of its own, and continues with them while it reads.
        self._stalled = self._loop.time()

    def resume_writing(self) -> None:
        """Note that the whole answer was taken."""
        self._stalled = None
        if self._transport is not None and not self._deaf:
            self._transport.resume_reading()
        self._all_sent()

    def _all_sent(self) -> None:
        unsent, self._unsent = self._unsent, []
        for sent in unsent:
            sent(None)

    def finish(self) -> bool:
        """Note that the caller sends nothing more; return whether a whole request of it is still to be answered."""
        if self._work is None or not self._whole:
            return False
        self._last = self._deaf = True
        return True

    def data_received(self, data: bytes) -> None:
        """Parse received bytes."""
        if self._deaf or self._transport is None or self._parser is None:
            return
        if self._whole:
            # A second request before the first is answered: only the first is answered, and nothing more is read.
            self._last = self._deaf = True
            self._transport.pause_reading()
            return
        if not self._headed:
            if self._head_bytes == 0:
                self._since = self._loop.time()
            self._head_bytes += len(data)
        self._frame_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._last = self._deaf = True
            # What came with the rest of its message is no request, so the call is none either.
            self._give_up()
            if self._work is None:
                self._refuse(self._fault or Reply(400))
            return
        self._go_on()

    def _give_up(self) -> None:
        """End a call that did not get its message."""
        if self._work is not None and not self._passed_on:
            self._work.cancel()
            self._work = None

    def _go_on(self) -> None:
        """Refuse, answer, or pass the body on, depending on what was parsed."""
        if self._chunked and self._frame_bytes > self._most_frame_bytes():
            self._framed_too_much()
        if self._fault is not None:
            self._give_up()
            self._refuse(self._fault)
        elif not self._headed and self._head_bytes > MOST_HEAD_BYTES:
            self._refuse(Reply(431))
        elif self._begun is not None and self._work is None:
            self._work = self._loop.create_task(self._answer(self._begun))
        elif self._whole and self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(self._taken_message())

    # The parser's calls

    def on_message_begin(self) -> None:
        """Begin a request; a second one in the same bytes is not read."""
        if self._whole:
            self._last = self._deaf = True

    def on_url(self, url: bytes) -> None:
        """Take (a piece of) the path."""
        if not self._whole:
            self._path += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; a repeated header is refused, since none that is needed repeats. Trailers are not read."""
        if self._whole or self._headed:
            return
        name = name.lower()
        if name in self._headers or len(self._headers) >= MOST_HEADERS:
            self._headers[b""] = name  # a marker that no header can set: `_checked_head` refuses it
            return
        self._headers[name] = value

    def on_headers_complete(self) -> None:
        """Decide what to do with the request before any of its body is kept."""
        if self._whole:
            return
        self._headed = True
        self._fault = self._checked_head()
        if self._fault is None and self._expects_continue():
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _expects_continue(self) -> bool:
        # HTTP/1.0 has no 1xx answers: such a caller would take this one for the answer (RFC 9110, 10.1.1).
        version = "1.0" if self._parser is None else self._parser.get_http_version()
        return version != "1.0" and self._headers.get(b"expect", b"").lower() == b"100-continue"

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body. A length that was stated was checked before; a chunked body is checked here."""
        if not self._whole and self._fault is None:
            if self._begun is not None and self._body_bytes + len(body) > self._begun.most:
                self._fault = self._host.router.too_large(self._begun, f"more than {self._begun.most}")
                return
            if self._body and len(self._body[-1]) < BLOCK_BYTES:
                self._body[-1] += body
            else:
                self._body.append(bytearray(body))
            self._body_bytes += len(body)
            self._frame_bytes -= len(body)
            self._host.router.pipeline.admission.receive(len(body))

    def on_chunk_header(self) -> None:
        """Count a chunk: each costs as much to read as `CHUNK_BYTES` of a message."""
        self._chunks += 1
        if self._chunks > FREE_CHUNKS + self._body_bytes // CHUNK_BYTES:
            self._framed_too_much()

    def on_message_complete(self) -> None:
        """Note that the request is complete."""
        self._whole = True

    def _checked_head(self) -> Reply | None:
        """Return the refusal of a request for its head, or None; then `_begun` is the call that it begins."""
        if self._parser is None:
            return Reply(400)
        headers, verb = self._headers, self._parser.get_method()
        version = self._parser.get_http_version()
        # `_head_bytes` includes a body that arrived with the head, so the headers themselves are added up.
        if self._head_bytes > MOST_HEAD_BYTES and sum(map(len, (*headers, *headers.values()))) > MOST_HEAD_BYTES:
            return self._no_http(431)
        if b"" in headers or (b"host" not in headers and version != "1.0"):
            return self._no_http(431 if len(headers) >= MOST_HEADERS else 400)
        coding = headers.get(b"transfer-encoding")
        if coding is not None and (b"content-length" in headers or version == "1.0"):
            return self._no_http(400)
        if coding is not None and coding.lower() != b"chunked":
            self._no_http(501)
            return uncoded(coding)
        self._chunked = coding is not None
        if not self._parser.should_keep_alive():
            self._last = True
        if coding is None and headers.get(b"content-length", b"0") == b"0":
            if verb == b"OPTIONS" and b"origin" in headers:
                return Reply(204)
            if verb in (b"GET", b"HEAD") and self._path == HEALTH_PATH:
                return Reply(200 if self._host.serving and not self._host.leaving else 503)
        begun = self._host.router.begin(verb, self._path, headers)
        if isinstance(begun, Reply):
            return begun
        self._begun = begun
        return None

    def _no_http(self, status: int) -> Reply:
        self._host.router.pipeline.admission.refused[PortLimit.HTTP] += 1
        return Reply(status)

    # Answers

    def _most_frame_bytes(self) -> int:
        # The same from beginning to end: then it does not matter in which pieces a request arrives.
        most = 0 if self._begun is None else self._begun.most
        return 2 * MOST_HEAD_BYTES + FRAME_BYTES * (FREE_CHUNKS + most // CHUNK_BYTES)

    def _framed_too_much(self) -> None:
        if self._fault is None:
            self._no_http(400)
            told = "the message has many chunks, or much beside them; send fewer and larger ones, or content-length"
            self._fault = error("invalid_argument", told)

    def _taken_message(self) -> bytes:
        self._passed_on = True
        message = b"".join(self._body)
        self._drop_body()
        return message

    def _drop_body(self) -> None:
        self._host.router.pipeline.admission.receive(-self._body_bytes)
        self._body, self._body_bytes = [], 0

    async def _read(self) -> bytes:
        if self._whole:
            return self._taken_message()
        self._arrived = self._loop.create_future()
        return await self._arrived

    async def _answer(self, begun: Begun) -> None:
        # Most messages of one device arrive with their head, and need no deadline to be complete. Larger ones are read
        # by `_read`: passed directly, each function on the way would keep them in memory until the answer.
        at_once = self._whole and self._body_bytes <= AT_ONCE_BYTES
        read = self._taken_message() if at_once else self._read
        reply = await self._host.router.answer(begun, self.name, read)
        self._work = None
        # The rest of a refused message is not read, and could not be distinguished from the next request.
        self._last |= not self._whole
        self._send(reply)

    def _refuse(self, reply: Reply) -> None:
        """Answer a request that is not a call; then close the connection, unless it was a good one."""
        if reply.status not in (HTTPStatus.OK, HTTPStatus.NO_CONTENT):
            self._last = True
            if self._fault is None:
                self._no_http(reply.status)
        self._send(reply)

    def _send(self, reply: Reply) -> None:
        headers = reply.headers
        self._last |= self._host.leaving
        if b"origin" in self._headers:
            headers += self._host.cors(self._headers[b"origin"])
        if self._last:
            headers += (("connection", "close"),)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        length = "" if reply.status == HTTPStatus.NO_CONTENT else f"content-length: {len(reply.body)}\r\n"
        head = f"HTTP/1.1 {reply.status} {_PHRASES[reply.status]}\r\ndate: {self._host.date}\r\n{lines}{length}\r\n"
        self._since = self._loop.time()
        self._write(head.encode("latin-1", "replace") + reply.body)
        if reply.sent is not None:
            self._unsent.append(reply.sent)
            if self._stalled is None:
                # The transport did not ask to pause, so the system has taken the whole answer.
                self._all_sent()
        if self._last:
            self.close()
        else:
            self._reset()
            if self._stalled is not None and self._transport is not None:
                # The next request is not read before the caller has taken this answer.
                self._transport.pause_reading()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    # What the port asks for

    def look(self, now: float) -> None:
        """Close the connection if its time is over."""
        waited = now - self._since
        if self._stalled is not None:
            if now - self._stalled > WRITE_SECONDS:
                self.abort()
        elif self._work is not None or self._deaf:
            # A call has deadlines of its own. A closing connection has `WRITE_SECONDS` to take its answer.
            if self._work is None and waited > WRITE_SECONDS:
                self.abort()
        elif self._head_bytes and waited > self._host.unfinished_seconds:
            self._host.router.pipeline.admission.refused[PortLimit.UNFINISHED] += 1
            self._last = True
            self._send(Reply(408))
        elif not self._head_bytes and self._is_over(now, waited):
            self.close()

    def _is_over(self, now: float, waited: float) -> bool:
        host = self._host
        return waited > (FIRST_SECONDS if self._fresh else host.idle_seconds) or now - self._born > host.age_seconds

    def leave(self) -> None:
        """Close now, or after the answer to the request in work."""
        if self._work is None and not self._head_bytes:
            self.close()

    def close(self) -> None:
        """Close once the caller has taken all that was written."""
        self._last = self._deaf = True
        # The other end may close late, and its incomplete message would occupy memory until then.
        self._drop_body()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()
