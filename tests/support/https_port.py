"""An HTTPS port on loopback, and what comes through it as bytes: no client that would put them right."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hubbub.protos.transport.channels import TLS
from hubbub.service.rpc import submission_router
from hubbub.service.rpc.connect import ConnectRouter
from hubbub.service.rpc.pipeline import RequestPipeline
from hubbub.service.transport.grpc_server import Connections
from hubbub.service.transport.https_server import ConnectionLimits, HttpsServer
from support.patience import CALL_SECONDS

SUBMIT = "/hubbub.v1.SubmissionService/Submit"
HEADERS = {"host": "localhost", "content-type": "application/proto"}


@contextlib.asynccontextmanager
async def opened(
    handler: Any,
    tls: TLS,
    pipeline: RequestPipeline | None = None,
    connection_limits: ConnectionLimits | None = None,
    make: Callable[..., ConnectRouter] = ConnectRouter,
    *,
    serving: bool = False,
    **limits: Any,
) -> AsyncIterator[int]:
    """A port for that handler; gives its port. `limits` are of its connections, `make` makes its router.

    A balancer is told that it takes calls if it is `serving`.
    """
    connection_limits = connection_limits or ConnectionLimits(replace(Connections(), **limits))
    https = HttpsServer(
        submission_router(handler, pipeline or RequestPipeline(), None, make), connection_limits, tls, lambda: 0
    )
    port = https.listen("127.0.0.1:0")
    https.serving = serving
    try:
        yield port
    finally:
        await https.close(None)


def written(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of a request; `content_length` and others replace what would be sent."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    fields = HEADERS | {"content-length": str(len(body))} | named
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


@contextlib.contextmanager
def raw(port: int, tls: TLS) -> Iterator[ssl.SSLSocket]:
    """A connection that sends what it is told to."""
    assert isinstance(tls.authority, Path)
    context = ssl.create_default_context(cafile=str(tls.authority))
    with (
        socket.create_connection(("127.0.0.1", port), CALL_SECONDS) as bare,
        context.wrap_socket(bare, server_hostname="localhost") as found,
    ):
        yield found


def answers(connection: ssl.SSLSocket) -> bytes:
    """All that comes until the other end closes."""
    found = b""
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        while piece := connection.recv(65536):
            found += piece
    return found


def asked(port: int, tls: TLS, *pieces: bytes) -> bytes:
    """What is answered to these bytes, until the other end closes."""
    with raw(port, tls) as connection:
        for piece in pieces:
            connection.sendall(piece)
        return answers(connection)


def status_of(answer: bytes) -> int:
    """The status of the first answer among these bytes; 0 where there is none."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0
