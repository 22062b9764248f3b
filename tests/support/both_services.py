"""Both services of a deployment with stubs behind their ports, and settings that name these ports."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from unit.service.rpc.test_caller_access import Everything

from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.roles import READERS
from hubbub.service.rpc import serve_control, serve_results
from hubbub.service.transport.grpc_server import listen
from support.ended_with_test import opened_server


@contextlib.asynccontextmanager
async def served(root: Path, answers: Everything | None = None, analyzer: Any = None) -> AsyncIterator[dict[str, str]]:
    """Both services of that deployment; the reader's and the operator's settings name their ports.

    `answers` are both services', but for the `analyzer`'s if it is given.
    """
    addresses, stub = {}, answers or Everything()
    async with contextlib.AsyncExitStack() as stack:
        for party, port in (("shuffler", 7302), ("analyzer", 7402)):
            server, tls = await stack.enter_async_context(opened_server()), root / party / "tls"
            if party == "shuffler":
                serve_control(server, stub)
            else:
                serve_results(server, analyzer or stub, READERS)
            files = TLS(tls / "authority.pem", tls / f"{party}.pem", tls / f"{party}.key")
            addresses[party] = f"127.0.0.1:{listen(server, '127.0.0.1:0', files.server(mutual=True))}"
            await server.start()
            for who in ("reader", "operator"):
                settings = root / who / f"{who}.toml"
                settings.write_text(settings.read_text().replace(f"127.0.0.1:{port}", addresses[party]))
        yield addresses
