"""Servers and programs that end with their test, however it ends.

One that a failed test leaves keeps the process from ending, or warns when it is collected, and fails another test.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc

from hubbub.service.transport.grpc_server import new_server


@contextlib.asynccontextmanager
async def opened_server(**options: Any) -> AsyncIterator[grpc.aio.Server]:
    """Give a server, for the test to start, and stop it."""
    server = new_server(**options)
    try:
        yield server
    finally:
        # One that never ran must run first: gRPC's own clean-up would start after the loop is closed.
        with contextlib.suppress(grpc.aio.UsageError):
            await server.start()
        await server.stop(None)


@contextlib.contextmanager
def started_program(command: Any, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a program, and kill it if it still runs: `Popen` itself waits for it, for ever if the test failed."""
    with subprocess.Popen(command, **options) as program:
        try:
            yield program
        finally:
            program.kill()
