"""Connections between processes that can be cut for a while, as a network does that is parted.

What is sent meanwhile arrives afterwards, however much later: also what a process sent that has been replaced since.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Cable:
    """Passes connections on to where `reach` connects."""

    def __init__(self, reach: Callable[[], Awaitable[Streams]]) -> None:
        self._reach = reach
        self._whole = asyncio.Event()
        self._whole.set()
        self._connections: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """Let nothing through, in either direction, not even that a connection is over."""
        self._whole.clear()

    def heal(self) -> None:
        """Let everything through that waits."""
        self._whole.set()

    @contextlib.asynccontextmanager
    async def opened(self, server: asyncio.Server) -> AsyncIterator[Cable]:
        """Be there while `server`, which calls `take`, listens."""
        try:
            yield self
        finally:
            server.close()
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a connection on."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        await self._whole.wait()
        try:
            theirs, ours = await self._reach()
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._copy(reader, ours), self._copy(theirs, writer))

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while some := await source.read(65_536):
                await self._whole.wait()
                target.write(some)
                await target.drain()
        await self._whole.wait()
        with contextlib.suppress(OSError):
            target.close()


@contextlib.asynccontextmanager
async def to_socket(path: Path, at: Path) -> AsyncIterator[Cable]:
    """Give a cable from a Unix socket to another, which is there already."""
    cable = Cable(lambda: asyncio.open_unix_connection(path))
    async with cable.opened(await asyncio.start_unix_server(cable.take, at)):
        yield cable


@contextlib.asynccontextmanager
async def to_port(address: str) -> AsyncIterator[tuple[Cable, str]]:
    """Give a cable to host:port, where somebody may listen later, and the address where it begins."""
    host, _, port = address.rpartition(":")
    cable = Cable(lambda: asyncio.open_connection(host, int(port)))
    server = await asyncio.start_server(cable.take, "127.0.0.1", 0)
    async with cable.opened(server):
        yield cable, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
