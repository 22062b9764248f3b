"""Maps the names under which a service announces its ports to the settings, and chooses ports for them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from hubbub.protos.identity.keys import Role
from hubbub.protos.transport.addresses import parted

SETTINGS: Mapping[Role, Mapping[str, str]] = {
    Role.ANALYZER: {"delivery": "delivery_listen", "results": "results_listen", "metrics": "metrics_listen"},
    Role.SHUFFLER: {"submission": "listen", "control": "control_listen", "metrics": "metrics_listen"},
    Role.HOP: {"delivery": "listen", "metrics": "metrics_listen"},
}
"""Those that every service of a kind has; the first is asked whether the service works."""

FREE = "127.0.0.1:0"
"""Port 0 lets the system choose a free port."""

_LOWEST, _FIRST_EPHEMERAL = 12_000, 32_768
"""Ports below the ones that the system gives to whoever asks for any (if Linux does not say, from 32768 on)."""

_FEWEST = 1_000


def kept_address() -> str:
    """Return an address of this machine for a service that ends and starts again at the same port.

    While such a service is down, the system may give its port to somebody else, if it chose it. So these ports are
    others, and they are given in turn, to all processes of this user: none is given twice for a long time.
    """
    last = _first_ephemeral() - 1
    if last - _LOWEST < _FEWEST:
        return FREE
    try:
        with _turns() as turns:
            for _ in range(_FEWEST):
                turn = turns.next()
                port = _LOWEST + turn % (last - _LOWEST)
                if _is_free(port):
                    return f"127.0.0.1:{port}"
    except OSError:  # such as: another user made the file
        return FREE
    return FREE


def known_address() -> str:
    """Return such an address for a service that others must know before it listens; its port is never 0."""
    if (kept := kept_address()) != FREE:
        return kept
    with socket.create_server(parted(FREE)) as found:
        return f"127.0.0.1:{found.getsockname()[1]}"


class _Turns:
    """A number in a file, which rises by one each time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def next(self) -> int:
        written = os.pread(self._descriptor, 32, 0)
        # Where this begins matters little; a number of a machine that was started again may be anywhere.
        turn = int(written) + 1 if written.isdigit() else int.from_bytes(os.urandom(2), "big")
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, str(turn).encode(), 0)
        return turn


@contextlib.contextmanager
def _turns() -> Iterator[_Turns]:
    path = Path(tempfile.gettempdir(), f"hubbub-ports-{os.getuid()}")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        # Not flock: a process that is forked meanwhile would keep such a lock.
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        yield _Turns(descriptor)
    finally:
        os.close(descriptor)


def _first_ephemeral() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("utf-8").split()[0])
    except (OSError, ValueError, IndexError):
        return _FIRST_EPHEMERAL


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
