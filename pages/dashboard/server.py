"""Serves the dashboard on a port until Ctrl-C or SIGTERM."""

from __future__ import annotations

import contextlib
import ipaddress
import signal
import socket
from collections.abc import Callable, Iterator
from urllib.parse import quote

import uvicorn
from starlette.types import ASGIApp

from hubbub.pages.dashboard.access import LOOPBACK, TOKEN, Access
from hubbub.protos.errors import HubbubError, UsageError

BACKLOG = 64
"""Connections that wait to be taken: one person's browser opens six."""

ENDING_SECONDS = 5
"""How long requests may still take after Ctrl-C."""


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Listen at a host and a port, 0 for any that is free.

    Raises:
        UsageError: if `host` means every address of the machine.
        HubbubError: if nobody can listen there, such as because the port is taken.
    """
    with contextlib.ExitStack() as kept:
        try:
            family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            _check_one(host, str(place[0]))
            made = kept.enter_context(socket.socket(family, kind))
            # A port of a dashboard that just ended can be taken at once.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(place)
            made.listen(BACKLOG)
        except (OSError, OverflowError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise HubbubError(f"cannot listen at {host}, port {port}: {why}; choose another with --port") from error
        yield made


def _check_one(host: str, address: str) -> None:
    """Return only if the address that a host stands for is one: "0" stands for 0.0.0.0, which is all of them."""
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found
    if found.is_unspecified:
        raise UsageError(
            f"--host {host} means every address of this machine, and requests must name one; give that one"
        )


def address_of(listener: socket.socket, host: str, access: Access) -> str:
    """Return the address to open, with the token."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}/?{TOKEN}={quote(access.token)}"


def is_private(host: str) -> bool:
    """Return whether only this machine can reach the host."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host in LOOPBACK


def server_of(app: ASGIApp) -> uvicorn.Server:
    """Return what answers requests for `app`."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        # The address of a request may have the token.
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=ENDING_SECONDS,
    )
    return uvicorn.Server(config)


def serve(app: ASGIApp, listener: socket.socket, tell: Callable[[], None]) -> None:
    """Serve until Ctrl-C or SIGTERM; call `tell` once whoever opens the address is answered."""
    # Connections wait in the listener's backlog from here on.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        # uvicorn ends its requests, then raises the signal again.
        with contextlib.suppress(KeyboardInterrupt):
            tell()
            server_of(app).run(sockets=[listener])
    finally:
        signal.signal(signal.SIGTERM, before)
