"""What comes at the HTTPS port once TLS is agreed on, from the bytes of requests to the bytes of answers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, cast

from fuzz.calls import Willing

from hubbub.protos.errors import MessageError
from hubbub.service.rpc import submission_router
from hubbub.service.rpc.connect import ConnectRouter, Header
from hubbub.service.rpc.pipeline import RequestPipeline
from hubbub.service.transport.http_connection import Connection

_END = b"\r\n\r\n"


class Taken:
    """A transport whose other end takes all that is written."""

    def __init__(self) -> None:
        self.written = bytearray()

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        """Be closed."""

    abort = pause_reading = resume_reading = close


class FakeOwner:
    """What a connection needs of its server."""

    date = "Thu, 01 Jan 2026 00:00:00 GMT"
    unfinished_seconds = idle_seconds = age_seconds = math.inf
    leaving, serving = False, True

    def __init__(self, router: ConnectRouter) -> None:
        self.router = router

    def cors(self, _origin: bytes) -> tuple[Header, ...]:
        return ()

    def connected(self, _connection: Connection) -> None:
        """Count none."""

    gone = connected


def requester(samples: dict[str, Any]) -> Callable[[bytes], None]:
    """Return what brings bytes to a connection, all at once and then in pieces.

    Raises:
        MessageError: where the first request is refused, or is not whole, as it may be.
    """

    def accept(data: bytes) -> None:
        at_once = asyncio.run(_answered(samples, [data]))
        middle = len(data) // 2
        apart = asyncio.run(_answered(samples, [data[:middle], data[middle : middle + 1], data[middle + 1 :]]))
        for answers in (at_once, apart):
            _check(answers)
        if not at_once.startswith(b"HTTP/1.1 200 "):
            raise MessageError(f"answered {bytes(at_once[:60])!r}")
        # What is taken at once is taken in pieces, or a proxy in front and the port would read a call in two ways.
        if not apart.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"in pieces it is answered {bytes(apart[:60])!r}")

    return accept


async def _answered(samples: dict[str, Any], pieces: list[bytes]) -> bytes:
    pipeline = RequestPipeline()
    pipeline.admission.pause = _at_once  # type: ignore[method-assign]
    transport = Taken()
    connection = Connection(FakeOwner(submission_router(Willing(samples), pipeline)), "127.0.0.1", "one")
    connection.connection_made(cast(asyncio.Transport, transport))
    for piece in pieces:
        connection.data_received(piece)
        # A handler that never waits is done after some turns; who still waits does so for bytes that never come.
        for _ in range(5):
            await asyncio.sleep(0)
    connection.connection_lost(None)
    await asyncio.sleep(0)
    if (
        pipeline.admission.in_work
        or pipeline.admission.waiting
        or pipeline.admission._bytes
        or pipeline.admission._received
    ):
        raise RuntimeError("something of a connection that is over is still held")
    return bytes(transport.written)


async def _at_once(connection: str) -> None:
    """Do not wait."""


def _check(answers: bytes) -> None:
    """Return only if these are whole answers of HTTP, none of which says that the service failed."""
    while answers:
        head, end, rest = answers.partition(_END)
        status, *lines = head.decode("latin-1").split("\r\n")
        fields = dict(line.split(": ", 1) for line in lines)
        if not end or not status.startswith("HTTP/1.1 ") or status.startswith("HTTP/1.1 500"):
            raise RuntimeError(f"answered {head[:100]!r}")
        answers = rest[int(fields.get("content-length", 0)) :]
