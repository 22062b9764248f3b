"""Serves a service's metrics to Prometheus at an HTTP port of its own.

On loopback the port answers everybody on this machine. At any other address it answers over mutual TLS only, to
certificates whose common name is among `MONITORS`: metrics show when submissions arrive, which the network must not
learn.

`prometheus_client.start_http_server` is not used: it does the TLS handshake in the loop that accepts connections, so
one silent client blocks all others. Nor does it limit connections and their time, check common names, or reload TLS
files.
"""

from __future__ import annotations

import contextlib
import errno
import io
import ipaddress
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TextIO
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import prometheus_client
import structlog

from hubbub.protos.errors import HubbubError
from hubbub.protos.transport.channels import TLS
from hubbub.service.transport.grpc_server import at_both_families, cannot_listen, listening_address, resolved
from hubbub.service.transport.tls_reload import ReloadingContext, server_context

MONITORS = frozenset({"monitor", "operator"})
"""Common names that may read metrics at an address that is not loopback."""

CONNECTIONS = 8
"""Connections at once. If there is one more, the one whose request is incomplete for the longest time is closed."""

READ_SECONDS = 5.0
"""How long a whole request may take to arrive, with its TLS handshake."""

WRITE_SECONDS = 30.0
"""How long an answer may take to be collected and sent."""

Renewals = Callable[[], int]
"""Returns how often a service's TLS files were reloaded since its start."""

Contexts = Callable[[], ssl.SSLContext]
"""Returns the TLS context of a new connection."""

_PATH = "/metrics"
_PEER = "hubbub.peer"
_LOG = structlog.get_logger(__name__)


class _Handler(WSGIRequestHandler):
    timeout = READ_SECONDS
    server: _Server

    def handle(self) -> None:
        if isinstance(self.connection, ssl.SSLSocket):
            # Here, in the connection's own thread and under its timeout; see `_Server.get_request`.
            self.connection.do_handshake()
        super().handle()

    def get_stderr(self) -> TextIO:
        # Otherwise an error while an answer is sent would be printed to stderr with its traceback, outside the log.
        return io.StringIO()

    def get_environ(self) -> dict[str, Any]:
        # The request is complete.
        self.server.has_asked(self.connection)
        environ: dict[str, Any] = super().get_environ()
        if isinstance(self.connection, ssl.SSLSocket):
            environ[_PEER] = _common_names(self.connection)
        return environ

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Log nothing: the text comes from the caller."""


def _common_names(connection: ssl.SSLSocket) -> set[str]:
    subject: Any = (connection.getpeercert() or {}).get("subject", ())
    return {value for part in subject for name, value in part if name == "commonName"}


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    # The default is five; a sixth connection at the same moment would wait for a second.
    request_queue_size = 128

    def __init__(self, family: socket.AddressFamily, address: Any, context: Contexts | None) -> None:
        self.address_family = family
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        self._lock = threading.Lock()
        self._asking: dict[socket.socket, float] = {}
        self._asked: dict[socket.socket, float] = {}
        super().__init__(address, _Handler)
        self._context = context

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = self.socket.accept()
        if self._context is None:
            return connection, address
        # The handshake is done in the connection's own thread: a silent client must not block others.
        wrapped = self._context().wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return wrapped, address

    def server_bind(self) -> None:
        at_both_families(self.socket)
        socketserver.TCPServer.server_bind(self)  # HTTPServer's would look up this host's name in the DNS
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def verify_request(self, request: Any, _client_address: Any) -> bool:
        # Without a free slot the connection is closed, so the number of threads is bounded.
        if not self._slots.acquire(blocking=False) and not self._made_room():
            return False
        with self._lock:
            self._asking[request] = time.monotonic()
        return True

    def _made_room(self) -> bool:
        """Close the oldest connection without a complete request; return whether its slot became free."""
        with self._lock:
            # A dict keeps the order of insertion, so the first is the oldest.
            oldest = next(iter(self._asking), None)
            if oldest is None:
                return False
            _shut(oldest)
        return self._slots.acquire(timeout=1.0)

    def has_asked(self, request: Any) -> None:
        """Note that a connection's request is complete; it is no longer closed to make room."""
        with self._lock:
            self._asking.pop(request, None)
            self._asked[request] = time.monotonic()

    def service_actions(self) -> None:
        """Close connections whose time is over; called by the server's loop, several times a second."""
        now = time.monotonic()
        with self._lock:
            for connections, seconds in ((self._asking, READ_SECONDS), (self._asked, WRITE_SECONDS)):
                for request in [each for each, since in connections.items() if now - since > seconds]:
                    _shut(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._asking.pop(request, None)
                self._asked.pop(request, None)
            self._slots.release()

    def handle_error(self, _request: Any, _client_address: Any) -> None:
        _LOG.debug("a connection to the metrics port failed")


def _listening(address: str, context: Contexts | None) -> _Server:
    """Return a server at the first address of host:port that this machine has."""
    failures = []
    for family, where in resolved(address):
        try:
            return _Server(family, where, context)
        except OSError as error:
            failures.append(error)
            if error.errno == errno.EADDRINUSE:
                break
    raise cannot_listen(f"{address} for metrics", failures[-1]) from failures[-1]


def _shut(connection: socket.socket) -> None:
    # This wakes the connection's thread, which then closes it. The plain socket's method, as TLS's would first unwrap.
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class MetricsPort:
    """The HTTP port, which answers GET /metrics from a thread of its own until it is closed."""

    def __init__(
        self, address: str, registry: prometheus_client.CollectorRegistry, tls: TLS, renewals: Renewals = lambda: 0
    ) -> None:
        """Listen at host:port (port 0 takes a free one); TLS files are read again when `renewals` returns a new number.

        Raises:
            HubbubError: if the address or, beyond loopback, a TLS file cannot be used.
        """
        address = listening_address(address)
        # All of them: it listens at the first that this machine has.
        loopback = all(ipaddress.ip_address(where[0]).is_loopback for _, where in resolved(address))
        context = None if loopback else ReloadingContext(lambda: _context(tls), renewals).current
        self._server = _listening(address, context)
        self._server.set_app(_app(registry, None if loopback else MONITORS))
        self.address = f"{address.rpartition(':')[0]}:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering; blocks for up to 0.1 s."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _context(tls: TLS) -> ssl.SSLContext:
    context = server_context(tls, "the metrics port beyond loopback")
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        if isinstance(tls.authority, bytes):
            context.load_verify_locations(cadata=tls.authority.decode())
        else:
            context.load_verify_locations(tls.authority)
    except ssl.SSLError as error:
        raise HubbubError(
            f"cannot use {tls.authority!s} for metrics: {error.reason or error}; name the authority's certificate (PEM)"
        ) from error
    return context


def _app(registry: prometheus_client.CollectorRegistry, allowed: frozenset[str] | None) -> Any:
    exposition = prometheus_client.make_wsgi_app(registry)

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if allowed is not None and not environ.get(_PEER, set()) & allowed:
            wanted = " or ".join(sorted(allowed))
            return _plain(start_response, "403 Forbidden", f"metrics are shown to {wanted} only")
        if environ.get("PATH_INFO") != _PATH:
            return _plain(start_response, "404 Not Found", f"metrics are at {_PATH}")
        started = time.monotonic()
        try:
            return list(exposition(environ, start_response))
        except Exception as error:
            _LOG.warning("metrics not collected", error=type(error).__name__, seconds=time.monotonic() - started)
            return _plain(start_response, "503 Service Unavailable", "not collected; see the service's log")

    return app


def _plain(start_response: Any, status: str, text: str) -> list[bytes]:
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]
