"""Serves the dashboard on a port until Ctrl-C or SIGTERM."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from urllib.parse import quote

import uvicorn
from starlette.types import ASGIApp

from hubbub.pages.dashboard.access import LOOPBACK, TOKEN, Access
from hubbub.protos.errors import HubbubError, UsageError

BACKLOG = 64
"""Connections that wait to be taken: one person's browser opens six."""

ENDING_SECONDS = 1
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


class _ServerBeside(uvicorn.Server):
    """A server that ends on a signal, and does not raise the signal again: what runs beside it goes on."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


async def serve_beside(app: ASGIApp, listener: socket.socket, tell: Callable[[], None]) -> None:
    """Serve in this event loop until Ctrl-C or SIGTERM, which then have ended this alone.

    `tell` is called once whoever opens the address is answered. It runs in the main thread, as signals need.
    """
    server = _ServerBeside(_config(app))
    # From before anybody is told, so that a signal at once is not lost.
    with server.capture_signals():
        tell()
        await server.serve(sockets=[listener])


def serve(app: ASGIApp, listener: socket.socket, tell: Callable[[], None]) -> None:
    """Serve until Ctrl-C or SIGTERM; call `tell` once whoever opens the address is answered.

    Pages that still compute after `ENDING_SECONDS` are not waited for: `leave` ends their threads.
    """
    server = server_of(app)
    # In a thread of its own: a loop waits for every page that computes, and this thread must not.
    pages = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="pages", daemon=True)
    # Connections wait in the listener's backlog from here on.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            pages.start()
            tell()
            pages.join()
        server.should_exit = True
        with contextlib.suppress(KeyboardInterrupt):
            pages.join(2 * ENDING_SECONDS)
    finally:
        signal.signal(signal.SIGTERM, before)


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        # It logs that it starts and ends. The command says that itself, also where other work set a log up before.
        log_level="warning",
        # The address of a request may have the token.
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=ENDING_SECONDS,
    )


def server_of(app: ASGIApp) -> uvicorn.Server:
    """Return what answers requests for `app`."""
    return uvicorn.Server(_config(app))


def leave() -> None:
    """End the process at once if a page or a check still computes; return otherwise.

    Python cannot end a thread, and compiled code that finds the interpreter gone aborts the process.
    """
    if threading.active_count() == 1:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
