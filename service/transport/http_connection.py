"""A request at a time, its head, its body and its answer, each bounded.

HTTP/1.1, parsed by `httptools` (llhttp). A request says how long its body is: one that comes in chunks is answered 411,
so there is one way to tell where it ends, and no second reading of it to smuggle anything past a proxy. Who sends
another request before the answer to the first gets that answer, and no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol, cast

import httptools

from hubbub.service.rpc.concurrency import PortLimit
from hubbub.service.rpc.connect import Begun, ConnectRouter, Header, Reply

MOST_HEAD_BYTES = 16 * 1024
"""Bytes of a request's head: its path and all its headers."""

MOST_HEADERS = 64
"""Headers of a request."""

AT_ONCE_BYTES = 4096
"""Bytes of a message that is answered without waiting for it, where all of it is there."""

FIRST_SECONDS = 10.0
"""How long a connection may be open before its first request begins."""

WRITE_SECONDS = 30.0
"""How long an answer may go untaken before its connection is closed."""

PIECE_BYTES = 64 * 1024
"""How much of an answer TLS is given at a time: it enciphers into memory that it keeps as long as the connection, so a
megabyte at once would be a megabyte for each connection that ever had such an answer."""

_PHRASES = {status.value: status.phrase for status in HTTPStatus} | {499: "Client Closed Request"}


class ConnectionOwner(Protocol):
    """What a connection needs of the port that it came by."""

    router: ConnectRouter
    date: str
    """The time now, as HTTP writes it."""
    unfinished_seconds: float
    idle_seconds: float
    age_seconds: float
    leaving: bool

    def cors(self, origin: bytes) -> tuple[Header, ...]:
        """Return what lets pages of that origin read answers."""

    def connected(self, connection: Connection) -> None:
        """Note that a connection agreed on TLS."""

    def gone(self, connection: Connection) -> None:
        """Note that a connection is over."""


class Connection(asyncio.Protocol):
    """Answers what comes on one connection from `address`; `name` tells it from all others."""

    def __init__(self, host: ConnectionOwner, address: str, name: str) -> None:
        self.address, self.name = address, name
        self._host, self._loop = host, asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        # It holds this connection; both are let go when the connection is over.
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._born = self._since = self._loop.time()
        self._stalled: float | None = None
        self._unsent: list[Callable[[object], None]] = []
        self._work: asyncio.Task[None] | None = None
        self._last = False
        """The connection ends with the next answer."""
        self._deaf = False
        """Nothing more is read."""
        self._body = bytearray()
        self._reset()
        self._fresh = True

    def _reset(self) -> None:
        """Be ready for the next request."""
        self._path = b""
        self._headers: dict[bytes, bytes] = {}
        self._taken_body()
        self._head_bytes = 0
        self._headed = self._whole = self._fresh = False
        self._fault: Reply | None = None
        self._begun: Begun | None = None
        self._arrived: asyncio.Future[bytes] | None = None

    # The transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; TLS is agreed on."""
        # Of whichever event loop it is: uvloop's have the methods of `asyncio.Transport` and are no subclass of it.
        self._transport = cast(asyncio.Transport, transport)
        # Told at once of anything that the transport cannot hand on, and again when all of it was.
        self._transport.set_write_buffer_limits(high=1, low=0)
        self._born = self._since = self._loop.time()
        self._host.connected(self)

    def connection_lost(self, _error: Exception | None) -> None:
        """Give everything back; a call in work hears of it as gRPC's do."""
        self._last = self._deaf = True
        self._taken_body()
        if self._work is not None:
            self._work.cancel()
        self._all_sent()
        self._transport = self._parser = None
        self._host.gone(self)

    def pause_writing(self) -> None:
        """Note that the answer is not taken yet."""
        # Reading is not paused here: TLS has bytes of its own to send first, and goes on with them while it reads.
        self._stalled = self._loop.time()

    def resume_writing(self) -> None:
        """Note that all of it was."""
        self._stalled = None
        if self._transport is not None and not self._deaf:
            self._transport.resume_reading()
        self._all_sent()

    def _all_sent(self) -> None:
        unsent, self._unsent = self._unsent, []
        for sent in unsent:
            sent(None)

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        if self._deaf or self._transport is None or self._parser is None:
            return
        if self._whole:
            # Before the answer to what came first: that one is answered, and nothing behind it is read.
            self._last = self._deaf = True
            self._transport.pause_reading()
            return
        if not self._headed:
            if self._head_bytes == 0:
                self._since = self._loop.time()
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._last = self._deaf = True
            if self._work is None:
                self._refuse(self._fault or Reply(400))
            return
        self._go_on()

    def _go_on(self) -> None:
        """Do what follows from what was parsed."""
        if self._fault is not None:
            self._refuse(self._fault)
        elif not self._headed and self._head_bytes > MOST_HEAD_BYTES:
            self._refuse(Reply(431))
        elif self._begun is not None and self._work is None:
            self._work = self._loop.create_task(self._answer(self._begun))
        elif self._whole and self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(self._taken_body())

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
        """Take a header; twice the same is not one of the headers that are needed."""
        if self._whole:
            return
        name = name.lower()
        if name in self._headers or len(self._headers) >= MOST_HEADERS:
            self._headers[b""] = name  # no header's name: the head is refused
            return
        self._headers[name] = value

    def on_headers_complete(self) -> None:
        """Decide what to do with the request, before anything of its body is kept."""
        if self._whole:
            return
        self._headed = True
        self._fault = self._checked_head()
        if self._fault is None and self._headers.get(b"expect", b"").lower() == b"100-continue":
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body; its length was checked beforehand."""
        if not self._whole and self._fault is None:
            self._body += body
            self._host.router.pipeline.admission.receive(len(body))

    def on_message_complete(self) -> None:
        """Note that the request is whole."""
        self._whole = True

    def _checked_head(self) -> Reply | None:
        """Return what a request is refused with for its head; without a fault, the call that it begins is noted."""
        if self._parser is None:
            return Reply(400)
        headers, verb = self._headers, self._parser.get_method()
        version = self._parser.get_http_version()
        if self._head_bytes > MOST_HEAD_BYTES and sum(map(len, (*headers, *headers.values()))) > MOST_HEAD_BYTES:
            return self._no_http(431)
        if b"" in headers or (b"host" not in headers and version != "1.0"):
            return self._no_http(431 if len(headers) >= MOST_HEADERS else 400)
        if b"transfer-encoding" in headers:
            return self._no_http(411)
        if not self._parser.should_keep_alive():
            self._last = True
        if verb == b"OPTIONS" and b"origin" in headers and headers.get(b"content-length", b"0") == b"0":
            return Reply(204)
        begun = self._host.router.begin(verb, self._path, headers)
        if isinstance(begun, Reply):
            return begun
        self._begun = begun
        return None

    def _no_http(self, status: int) -> Reply:
        self._host.router.pipeline.admission.refused[PortLimit.HTTP] += 1
        return Reply(status)

    # Answers

    def _taken_body(self) -> bytes:
        body, self._body = self._body, bytearray()
        self._host.router.pipeline.admission.receive(-len(body))
        return bytes(body)

    async def _read(self) -> bytes:
        if self._whole:
            return self._taken_body()
        self._arrived = self._loop.create_future()
        return await self._arrived

    async def _answer(self, begun: Begun) -> None:
        # Most messages of one device come in one piece with their head: they need no deadline to be whole. Larger ones
        # are not handed over as they are, as each caller on the way would hold them until the answer.
        at_once = self._whole and len(self._body) <= AT_ONCE_BYTES
        read = self._taken_body() if at_once else self._read
        reply = await self._host.router.answer(begun, self.name, read)
        self._work = None
        # What is still on its way of a message that was refused is not read, and cannot be told from the next request.
        self._last |= not self._whole
        self._send(reply)

    def _refuse(self, reply: Reply) -> None:
        """Answer what is no call; but for a question of a browser, the connection ends with it."""
        if reply.status != HTTPStatus.NO_CONTENT:
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
                self._all_sent()
        if self._last:
            self.close()
        else:
            self._reset()
            if self._stalled is not None and self._transport is not None:
                # The next request is not read before this answer was taken.
                self._transport.pause_reading()

    def _write(self, data: bytes) -> None:
        for begin in range(0, len(data), PIECE_BYTES):
            if self._transport is not None:
                self._transport.write(data[begin : begin + PIECE_BYTES])

    # What the port asks for

    def look(self, now: float) -> None:
        """Close what has had its time."""
        waited = now - self._since
        if self._stalled is not None:
            if now - self._stalled > WRITE_SECONDS:
                self.abort()
        elif self._work is not None or self._deaf:
            # A call has deadlines of its own; and what is closed is given as long to take its answer.
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
        """Close now, or after the answer to what is in work."""
        if self._work is None and not self._head_bytes:
            self.close()

    def close(self) -> None:
        """Close once what was written is taken."""
        self._last = self._deaf = True
        # The other end may take its time to close as well, and what came of its message is of no use any more.
        self._taken_body()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()
