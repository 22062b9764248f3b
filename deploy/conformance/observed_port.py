"""An HTTPS port that says which requests it refused for their form, and which connections never agreed on TLS.

A client's first call mostly fails there, before anything of a submission can be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hubbub.protos.refusals import Reason
from hubbub.protos.strict_json import read_json
from hubbub.service.rpc.connect import Begun, ConnectRouter, Read, Reply
from hubbub.service.transport.http_connection import Connection
from hubbub.service.transport.https_server import HttpsServer
from hubbub.service.transport.tls_connection import TlsConnection

Tell = Callable[[str], None]
"""Takes a request and the answer that refused it, in words."""

JUDGED = "it is wrong; the findings say what"
"""What a submission is answered in which the judge found something wrong."""

LONGEST_PATH = 100
"""Characters of a path that are shown."""


class ReportingRouter(ConnectRouter):
    """Routes as the router of a service does, and tells each request that is refused for its form."""

    def __init__(self, tell: Tell, *of_router: Any) -> None:
        super().__init__(*of_router)
        self._tell = tell

    def begin(self, verb: bytes, path: bytes, headers: Mapping[bytes, bytes]) -> Begun | Reply:
        """Return the call that a request's head begins, or the refusal, which is told."""
        begun = super().begin(verb, path, headers)
        # `too_large` has told its own, which has a reason.
        if isinstance(begun, Reply) and not _reasons(begun):
            self._told(f"{_shown(verb)} {_shown(path)}", begun)
        return begun

    def too_large(self, begun: Begun, size: str) -> Reply:
        """Return the refusal of a message of that size, and tell it."""
        reply = super().too_large(begun, size)
        self._told(begun.call.name, reply)
        return reply

    async def answer(self, begun: Begun, connection: str, read: Read) -> Reply:
        """Answer a call; what is no message of that call is told."""
        reply = await super().answer(begun, connection, read)
        # What the judge refused has another reason or these words, and the judge has told it.
        if reply.code and _reasons(reply) in ([], [Reason.MALFORMED.value]) and _message(reply) != JUDGED:
            self._told(begun.call.name, reply)
        return reply

    def _told(self, request: str, reply: Reply) -> None:
        self._tell(f"{request} is answered {reply.status}: {_message(reply)}")


def _message(reply: Reply) -> str:
    return str(read_json(reply.body)["message"])


def _reasons(reply: Reply) -> list[str]:
    return [value for name, value in reply.headers if name == "hubbub-reason"]


def _shown(text: bytes) -> str:
    return ascii(text[:LONGEST_PATH].decode("latin-1"))[1:-1]


class CountingServer(HttpsServer):
    """Serves HTTPS as a service does, and counts connections that ended before TLS was agreed on."""

    def __init__(self, *of_server: Any) -> None:
        super().__init__(*of_server)
        self._agreed = set[TlsConnection]()
        self.never_agreed = 0

    def agreed(self, connection: TlsConnection) -> Connection:
        """Return what reads the connection, whose handshake is done."""
        self._agreed.add(connection)
        return super().agreed(connection)

    def lost(self, connection: TlsConnection) -> None:
        """Count a connection that ends without TLS."""
        if connection in self._agreed:
            self._agreed.remove(connection)
        else:
            self.never_agreed += 1
        super().lost(connection)
