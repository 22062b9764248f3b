"""A proxy on loopback that takes CONNECT: it knows names that no resolver does, and keeps what it was asked for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field


@dataclass
class ConnectProxy:
    """Its address; what it passes on, by host:port as callers name it; and what it was asked for."""

    address: str
    known: Mapping[str, int]
    asked: list[str] = field(default_factory=list)


@contextlib.asynccontextmanager
async def opened_proxy(known: Mapping[str, int]) -> AsyncIterator[ConnectProxy]:
    """A proxy that passes on to ports of this machine, and answers 403 to all else."""
    found = ConnectProxy("", known)
    tasks, opened = set[asyncio.Task[None]](), list[asyncio.StreamWriter]()

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii")
        method, target, _ = head.split(" ", 2)
        found.asked.append(target)
        if method != "CONNECT" or target not in known:
            writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
            writer.close()
            return
        there, onward = await asyncio.open_connection("127.0.0.1", known[target])
        opened.append(onward)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_copied(reader, onward), _copied(there, writer))

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        task = asyncio.create_task(answered(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    found.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield found
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in opened:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in opened), return_exceptions=True)


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
    writer.close()
