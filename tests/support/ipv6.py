"""Whether this machine has IPv6: a container may have none, though its Python has."""

from __future__ import annotations

import contextlib
import socket


def _is_there() -> bool:
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


IPV6 = _is_there()
