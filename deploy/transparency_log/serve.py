"""Serves a log's files over HTTPS, and nothing else, until it is stopped; any other web server can do the same.

Each connection has a thread. So that one client does not use all of them, an address has a share, and a connection
ends that sends its request slowly, takes its answer slowly, or is old.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from hubbub.protos.errors import HubbubError, remedy_of
from hubbub.protos.transparency_log.tiles import CHECKPOINT, TILE_HEIGHT, TILE_WIDTH, files_in, read_checkpoint
from hubbub.service.transport.client_addresses import OpenConnections, network_of

REQUEST_SECONDS = 10.0
"""Seconds within which a request must have arrived: from the connection's beginning, or since the last answer."""

ANSWER_SECONDS = 300.0
"""Seconds within which an answer must have been taken; readers give a file as long (`fetch.LONGEST`)."""

AGE_SECONDS = 1800.0
"""Seconds after which a connection ends with its next answer, as those of devices do."""

MOST_CONNECTIONS = 100
"""Connections at a time. Each has a thread; whoever comes beyond that is closed at once, and may try again."""

MOST_OF_ADDRESS = 10
"""Connections at a time from one address: a browser opens six, and a witness one."""

_NUMBER = r"((?:x\d{3}/){0,5}\d{3})"
_TILES = re.compile(rf"tile/(\d{{1,2}})/{_NUMBER}(?:\.p/(\d{{1,3}}))?")
_ENTRIES = re.compile(rf"entry/{_NUMBER}\.json")
_TYPES = {"c": "text/plain; charset=utf-8", "t": "application/octet-stream", "e": "application/json"}


@dataclass
class _LogConnection:
    """An open connection: where it comes from, when it began, and when it is cut, both by the monotonic clock."""

    network: str
    began: float
    until: float


class LogServer(ThreadingHTTPServer):
    """Serves the files of a log's folder at an address of this machine."""

    daemon_threads = True
    # Connections that wait in the system until they are accepted.
    request_queue_size = 128

    def __init__(self, folder: Path, address: tuple[str, int], context: ssl.SSLContext) -> None:
        self.folder = folder
        self._context = context
        self._lock = threading.Lock()
        self._counted = OpenConnections(MOST_CONNECTIONS, MOST_OF_ADDRESS)
        self._open: dict[object, _LogConnection] = {}
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        try:
            super().__init__(address, _LogHandler)
        except (OSError, OverflowError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise HubbubError(
                f"cannot listen at {address[0]}, port {address[1]}: {why}; choose another with --host and --port"
            ) from error

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        """Begin a connection in a thread, unless there are too many, in all or of its address."""
        network, now = network_of(client_address[0]), time.monotonic()
        with self._lock:
            has_room = self._counted.has_room(network)
            if has_room:
                self._counted.add(network)
                self._open[request] = _LogConnection(network, now, now + REQUEST_SECONDS)
        if not has_room:
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._forget(request)
            raise

    def process_request_thread(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        """Do a connection's handshake in its own thread, where it holds up nobody, and then what it asks for."""
        try:
            if isinstance(request, socket.socket):
                secured = self._context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
                with self._lock:
                    self._open[secured] = self._open.pop(request)
                request = secured
                secured.do_handshake()
            super().process_request_thread(request, client_address)
        except OSError:
            self.shutdown_request(request)
        finally:
            self._forget(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and not while it is cut: its number in the system may then be another's."""
        with self._lock:
            super().shutdown_request(request)

    def service_actions(self) -> None:
        """Cut connections that are slow; this is called after each new one, and twice a second.

        Their threads cannot see it themselves: a client that sends a byte now and then is never idle.
        """
        now = time.monotonic()
        with self._lock:
            for connection in [each for each, opened in self._open.items() if opened.until < now]:
                if isinstance(connection, socket.socket):
                    with contextlib.suppress(OSError):
                        # Below TLS, which its thread reads or writes.
                        socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def allow(self, connection: socket.socket, seconds: float) -> bool:
        """Let a connection stay open for so many seconds from now; return whether it is old."""
        now = time.monotonic()
        with self._lock:
            opened = self._open[connection]
            opened.until = now + seconds
            return now > opened.began + AGE_SECONDS

    def _forget(self, connection: object) -> None:
        with self._lock:
            self._counted.remove(self._open.pop(connection).network)

    def handle_error(self, request: object, client_address: Any) -> None:
        """Say nothing of a client that left."""


def _is_covered(path: str, size: int) -> bool:
    """Whether a tree of so many entries has this tile, with so many hashes at least, or this entry.

    What a killed addition has left is none of the log's. Other files will come in its place.
    """
    if (entry := _ENTRIES.fullmatch(path)) is not None:
        return _number(entry[1]) < size
    if (tile := _TILES.fullmatch(path)) is None:
        return False
    hashes = (size >> int(tile[1]) * TILE_HEIGHT) - _number(tile[2]) * TILE_WIDTH
    return hashes >= (TILE_WIDTH if tile[3] is None else int(tile[3]))


def _number(path: str) -> int:
    return int(path.replace("x", "").replace("/", ""))


class _LogHandler(BaseHTTPRequestHandler):
    server: LogServer
    protocol_version = "HTTP/1.1"

    def handle_one_request(self) -> None:
        self.server.allow(self.connection, REQUEST_SECONDS)
        super().handle_one_request()

    def do_GET(self) -> None:
        self._answer(with_content=True)

    def do_HEAD(self) -> None:
        self._answer(with_content=False)

    def _answer(self, with_content: bool) -> None:
        self.close_connection |= self.server.allow(self.connection, ANSWER_SECONDS)
        if self.headers.defects:
            # The lines below one that is no header are not read: one of them may say that there is more to the request.
            self.send_error(HTTPStatus.BAD_REQUEST, "a line of the request is no header")
            return
        path = self.path.removeprefix("/")
        content = self._file(path)
        # What a request has besides would be read as the next one. A proxy would give that answer to somebody else.
        if self.headers.get("Content-Length") is not None or self.headers.get("Transfer-Encoding") is not None:
            self.close_connection = True
        status = HTTPStatus.NOT_FOUND if content is None else HTTPStatus.OK
        content = b"no such file of the log\n" if content is None else content
        self.send_response(status)
        self.send_header("Content-Type", _TYPES[path[0]] if status is HTTPStatus.OK else _TYPES["c"])
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if self.close_connection:
            self.send_header("Connection", "close")
        # Only the checkpoint changes. A file that is not there may be there soon.
        lasts = status is HTTPStatus.OK and path != CHECKPOINT
        self.send_header("Cache-Control", "public, max-age=31536000, immutable" if lasts else "no-cache")
        self.end_headers()
        if with_content:
            self.wfile.write(content)

    def _file(self, path: str) -> bytes | None:
        folder = self.server.folder
        try:
            # The checkpoint is read first: whatever it covers is there, and stays as it is.
            if path != CHECKPOINT and not _is_covered(path, read_checkpoint(files_in(folder)).size):
                return None
            return (folder / path).read_bytes()
        except (OSError, HubbubError):
            return None

    def version_string(self) -> str:
        return "hubbub"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: who reads a log is nobody's business."""


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return what a server needs for TLS, from PEM files.

    Raises:
        HubbubError: if they cannot be read, or do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        for path in (certificate, key):
            path.open("rb").close()
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise HubbubError(
            f"{certificate} and {key} are no certificate and its private key; give both as `hubbub certificate` made "
            "them"
        ) from error
    except OSError as error:
        raise HubbubError(f"cannot read {error.filename}: {error.strerror}; {remedy_of(error)}") from error
    return context


def serve_log(server: LogServer, ready: Callable[[str], None]) -> None:
    """Serve until KeyboardInterrupt; `ready` is called with the log's address."""
    host, port = server.server_address[0], server.server_address[1]
    host = host.decode() if isinstance(host, bytes | bytearray) else str(host)
    ready(f"https://{f'[{host}]' if ':' in host else host}:{port}")
    try:
        server.serve_forever()
    finally:
        server.server_close()
