"""Makes the calls of devices over HTTPS, with the standard library's HTTP client in threads.

The bare install is enough: nothing is imported that a device does not have. A call is a POST of the message; see
`hubbub.service.rpc.connect` for what errors look like.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from hubbub.protos.errors import HubbubError, MessageError, Unreachable
from hubbub.protos.strict_json import read_json
from hubbub.protos.transport.addresses import HTTPS, bracketed, parted
from hubbub.protos.transport.channels import MAXIMUM_MESSAGE_BYTES, TLS, read_pem
from hubbub.protos.transport.connect_codes import PROTO, status_of
from hubbub.protos.transport.proxies import HTTP_PROXY, proxy_to, way_to
from hubbub.protos.transport.statuses import NOT_HTTPS, failure, unreachable

CONNECTIONS = 16
"""Calls at once; further ones wait for one of these to end."""

HTTP = "http/1.1"
"""What the shuffler's HTTPS port agrees on with a client that asks for it (RFC 7301)."""

_BY_STATUS = {401: "unauthenticated", 403: "permission_denied", 404: "unimplemented", 429: "unavailable"}
_GATEWAY = range(500, 600)

_CLOSED = "the connection was closed"

CALLS = "/hubbub.v1.SubmissionService/"
"""What the paths of calls begin with."""

TIMEOUT, TIMEOUT_DIGITS = "Connect-Timeout-Ms", 10
"""The header of a call's milliseconds, and how many digits it has at most."""

T = TypeVar("T", bound=Message)
HttpAnswer = tuple[int, Mapping[str, str], bytes]
"""Status, headers by lower-case name, and content."""


class HttpRequest(NamedTuple):
    """A request; `headers` returns its headers, given the seconds that are left for it."""

    verb: str
    path: str
    body: bytes | None
    headers: Callable[[float], dict[str, str]]


class NotHttps(ConnectionError):
    """A server that did not agree on HTTP ended the connection without an answer."""


class HTTPSChannel:
    """Connections to one https://host:port, each opened when a call needs it and kept for the next."""

    def __init__(self, address: str, tls: TLS, who: str = "the shuffler") -> None:
        """Open none yet; errors name the other side as `who`.

        Raises:
            HubbubError: if a TLS file is missing.
            CertificateError: if one cannot be used.
        """
        self._what = f"{who} at {way_to(address, tls.proxy)}"
        self._proxy = proxy_to(address, tls.proxy)
        host, self._port = parted(address.removeprefix(HTTPS))
        self._host = host.strip("[]")
        self._context = _context(tls)
        self._free = asyncio.Semaphore(CONNECTIONS)
        self._closed = False
        self._waiting: set[asyncio.Future[HttpAnswer]] = set()
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPSConnection] = []
        self._busy: set[http.client.HTTPSConnection] = set()

    async def __aenter__(self) -> HTTPSChannel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; calls in work fail."""
        self.shut()

    def shut(self) -> None:
        """Do what `close` does, outside an event loop."""
        with self._lock:
            closing, self._idle, self._closed = [*self._idle, *self._busy], [], True
        for connection in closing:
            _shut(connection)
        # A thread in its handshake with a silent server cannot be woken. Who waits for its answer can.
        for answer in list(self._waiting):
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
                answer.get_loop().call_soon_threadsafe(self._settle, answer, None, ConnectionError(_CLOSED))

    async def unary(self, method: str, request: Message, kind: type[T], seconds: float) -> T:
        """Make a call and return its answer.

        Raises:
            Refusal: as the shuffler raised it.
            Unreachable: if nobody answered in time; the call may be made again.
            MessageError: if the answer is not a message of this version.
            HubbubError: if the other side does not know the call.
        """
        until = time.monotonic() + seconds
        exchange = partial(self._called, method, request.SerializeToString(), until)
        try:
            async with asyncio.timeout(seconds):
                status, headers, body = await self._in_thread(exchange)
        except TimeoutError as error:
            raise unreachable(self._what, f"no answer within {seconds:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(self._what, _said(error)) from error
        if status != http.HTTPStatus.OK or headers.get("content-type") != PROTO:
            raise _failed(self._what, status, headers, body)
        try:
            return kind.FromString(body)
        except DecodeError as error:
            raise MessageError(f"{self._what} answered with bytes that are not a message of this version") from error

    async def _in_thread(self, exchange: Callable[[], HttpAnswer]) -> HttpAnswer:
        """Exchange in a thread that no program waits for when it ends; Python's own pools make it wait for theirs."""
        await self._free.acquire()
        if self._closed:
            self._free.release()
            raise ConnectionError(_CLOSED)
        answer: asyncio.Future[HttpAnswer] = (loop := asyncio.get_running_loop()).create_future()
        self._waiting.add(answer)

        def run() -> None:
            content, error = None, None
            try:
                content = exchange()
            except Exception as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
                loop.call_soon_threadsafe(self._settle, answer, content, error)

        try:
            threading.Thread(target=run, name="https", daemon=True).start()
        except RuntimeError:  # from Python 3.12 on none is started while the program ends; nothing else needs the loop
            run()
        return await answer

    def _settle(self, answer: asyncio.Future[HttpAnswer], content: HttpAnswer | None, error: Exception | None) -> None:
        """End a call, unless it has ended: it was cancelled, or the channel was closed."""
        self._free.release()
        self._waiting.discard(answer)
        if answer.done():
            return
        if content is not None:
            answer.set_result(content)
        else:
            answer.set_exception(error or ConnectionError(_CLOSED))

    # In threads

    def _called(self, method: str, body: bytes, until: float) -> HttpAnswer:
        """Make a call with a message, and return its answer."""
        return self._exchange(HttpRequest("POST", f"{CALLS}{method}", body, call_headers), until)

    def _exchange(self, request: HttpRequest, until: float) -> HttpAnswer:
        connection = self._idle_one()
        if connection is not None:
            try:
                return self._asked(connection, request, until)
            except (http.client.RemoteDisconnected, ConnectionError):
                # A server may close a connection between two calls; the call may be repeated.
                pass
        return self._asked(self._made(left(until)), request, until)

    def _made(self, timeout: float) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, self._port, context=self._context, timeout=timeout)

    def _connect(self, connection: http.client.HTTPSConnection) -> None:
        if self._proxy is None:
            connection.connect()
            return
        host, port = parted(self._proxy.removeprefix(HTTP_PROXY))
        way = http.client.HTTPConnection(host.strip("[]"), port, timeout=connection.timeout)
        # A proxy needs brackets around an IPv6 address, and its certificate is checked without them. The library's own
        # tunnel under TLS has one form for both.
        way.set_tunnel(bracketed(self._host), self._port)
        try:
            way.connect()
            connection.sock = self._context.wrap_socket(way.sock, server_hostname=self._host)
        except BaseException:
            way.close()
            raise

    def _idle_one(self) -> http.client.HTTPSConnection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _asked(self, connection: http.client.HTTPSConnection, request: HttpRequest, until: float) -> HttpAnswer:
        with self._lock:
            self._busy.add(connection)
        kept = False
        try:
            if connection.sock is None:
                self._connect(connection)
            else:
                connection.sock.settimeout(left(until))
            headers = request.headers(left(until))
            # A gRPC server ends a connection without its protocol at any time after the handshake, so in many ways.
            agreed = isinstance(connection.sock, ssl.SSLSocket) and connection.sock.selected_alpn_protocol() == HTTP
            try:
                connection.request(request.verb, request.path, request.body, headers)
                response = connection.getresponse()
            except (ssl.SSLError, ConnectionError) as error:
                if agreed:
                    raise
                raise NotHttps(str(error)) from error
            content = response.read(MAXIMUM_MESSAGE_BYTES + 1)
            if len(content) > MAXIMUM_MESSAGE_BYTES:
                # As by gRPC. It may be the page of a proxy or a relay, so it says nothing about the shuffler.
                raise Unreachable(f"{self._what} answered with more than {MAXIMUM_MESSAGE_BYTES} bytes")
            kept = not response.will_close
            return response.status, {name.lower(): value for name, value in response.getheaders()}, content
        finally:
            with self._lock:
                self._busy.discard(connection)
                if kept:
                    self._idle.append(connection)
            if not kept:
                connection.close()


def call_headers(seconds: float) -> dict[str, str]:
    """Return the headers of a call that may take so many seconds."""
    return {
        "Content-Type": PROTO,
        "Connect-Protocol-Version": "1",
        TIMEOUT: str(max(1, min(round(1000 * seconds), 10**TIMEOUT_DIGITS - 1))),
    }


def left(until: float) -> float:
    """Return the seconds until a time of `time.monotonic`, and a moment if it has passed."""
    return max(until - time.monotonic(), 0.001)


def _shut(connection: http.client.HTTPSConnection) -> None:
    # This wakes the reading thread; under TLS, `close` alone would not.
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()


def _context(tls: TLS) -> ssl.SSLContext:
    tls.check(time.time())
    context = ssl.create_default_context(cadata=read_pem(tls.authority).decode("ascii"))
    context.set_alpn_protocols([HTTP])
    if tls.certificate is not None:
        context.load_cert_chain(tls.certificate, tls.key)
    return context


def _said(error: Exception) -> str:
    """Return a failed connection in words that `unreachable` knows."""
    if isinstance(error, ssl.SSLCertVerificationError) and "match" in error.verify_message.lower():
        return f"Hostname Verification Check failed: {error.verify_message}"
    if isinstance(error, NotHttps | ssl.SSLEOFError) or "NO_APPLICATION_PROTOCOL" in str(error).upper():
        return f"{NOT_HTTPS}: {error}"
    if isinstance(error, socket.gaierror):
        return f"hostname lookup error: {error}"
    if isinstance(error, http.client.RemoteDisconnected):
        return f"Socket closed: {error}"
    return str(error) or type(error).__name__


def _failed(what: str, status: int, headers: Mapping[str, str], body: bytes) -> HubbubError:
    """Return the error in an answer; if it is not in Connect's form, the error of its HTTP status."""
    try:
        document = read_json(body)
        code, message = str(document["code"]), str(document.get("message", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        # Perhaps from a proxy in front of the shuffler: temporary failures are retried.
        code, message = _BY_STATUS.get(status, ""), f"HTTP status {status}"
        if status in _GATEWAY or status == http.HTTPStatus.REQUEST_TIMEOUT:
            code = "unavailable"
        if not code:
            return failure(what, grpc.StatusCode.UNIMPLEMENTED, message, headers)
    return failure(what, status_of(code), message, headers)
