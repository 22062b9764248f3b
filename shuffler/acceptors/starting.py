"""Starting: what an acceptor is given before its line: the settings, with the ports that were reserved."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass

from hubbub.shuffler.settings import Settings

_LENGTH = 4


@dataclass(frozen=True)
class Start:
    """The shuffler's settings and identity (32 bytes, public), and which of its acceptors this one is, from 1 on."""

    settings: Settings
    shuffler: bytes
    number: int


def write_start(there: socket.socket, start: Start) -> None:
    """Send it, as the first that goes over the socket."""
    content = {
        "settings": start.settings.model_dump(mode="json"),
        "shuffler": start.shuffler.hex(),
        "number": start.number,
    }
    raw = json.dumps(content).encode()
    there.sendall(len(raw).to_bytes(_LENGTH, "big") + raw)


def read_start(here: socket.socket) -> Start:
    """Wait for it.

    Raises:
        EOFError: where the other end is gone.
    """
    content = json.loads(_exactly(here, int.from_bytes(_exactly(here, _LENGTH), "big")))
    settings = Settings.model_validate(content["settings"])
    return Start(settings, bytes.fromhex(content["shuffler"]), content["number"])


def _exactly(here: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = here.recv(count - len(found))
        if not part:
            raise EOFError("who started this process is gone")
        found += part
    return found
