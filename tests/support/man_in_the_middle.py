"""Somebody between devices and the shuffler, with a TLS certificate for its name, who reads and changes calls."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc

from hubbub.deploy.pki.authority import Authority
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.service.transport import grpc_server
from support.ended_with_test import opened_server
from support.patience import CALL_SECONDS

Change = Callable[[str, bytes], bytes]
"""What becomes of an answer: of the method's name and the bytes that the shuffler answered."""


def as_it_is(_method: str, answer: bytes) -> bytes:
    """Change nothing."""
    return answer


async def as_bytes(channel: grpc.aio.Channel, path: str, request: bytes) -> bytes:
    """Make a call of bytes and return the bytes that come back."""
    call: Any = channel.unary_unary(path)
    answer: bytes = await call(request, timeout=CALL_SECONDS)
    return answer


class Between(grpc.GenericRpcHandler):
    """Passes calls on. `asked` holds what came: each call's method and the bytes of its message."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.address = ""
        self.asked: list[tuple[str, bytes]] = []
        self.change: Change = as_it_is
        self._channel = channel

    @property
    def methods(self) -> list[str]:
        """What was called so far."""
        return [method for method, _ in self.asked]

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """What answers a call, whichever it is."""
        path = handler_call_details.method
        method = path.rpartition("/")[2]

        async def passed_on(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            self.asked.append((method, request))
            try:
                answer = await as_bytes(self._channel, path, request)
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata()))
            return self.change(method, answer)

        return grpc.unary_unary_rpc_method_handler(passed_on)


@contextlib.asynccontextmanager
async def between(service: str, trusted: TLS, authority: Authority, folder: Path) -> AsyncIterator[Between]:
    """Stand before the service at that address, with a certificate that `authority` issues, in a new `folder`."""
    await asyncio.to_thread(folder.mkdir)
    authority.issue("shuffler", ["localhost", "127.0.0.1"], folder / "between.pem", folder / "between.key")
    authority.save_certificate(folder / "authority.pem")
    shown = TLS(folder / "authority.pem", folder / "between.pem", folder / "between.key")
    async with open_channel(service, trusted) as channel:
        found = Between(channel)
        async with opened_server() as server:
            server.add_generic_rpc_handlers((found,))
            found.address = f"127.0.0.1:{grpc_server.listen(server, '127.0.0.1:0', shown.server(mutual=False))}"
            await server.start()
            yield found
