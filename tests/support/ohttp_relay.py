"""A relay of Oblivious HTTP as a process of its own, as another party would run one: TLS to both sides.

It passes on GET and POST of one path to a shuffler, with the headers that RFC 9458 names and no others, and calls it
from an address of its own. Its first line says where it listens. It writes all requests that it sees into a file.
With FLIP above 0 it changes a byte of every FLIP-th exchange: of the request, or of the answer, by turns.

    python -m support.ohttp_relay OF_THE_RFC-HOST:PORT OF_THE_RFC-AUTHORITY CERTIFICATE KEY SEEN FLIP
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

from support.samples import make_tls

SEEN_FROM = "127.0.0.78"
"""Where the relay calls from, which nothing else on this machine does."""

PATH = "/ohttp"
SECONDS = 60.0


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    shuffler: ClassVar[str]
    context: ClassVar[ssl.SSLContext]
    seen: ClassVar[Path]
    flip: ClassVar[int]
    passed: ClassVar[int] = 0

    def do_GET(self) -> None:
        self._pass_on("GET", None)

    def do_POST(self) -> None:
        self._pass_on("POST", self.rfile.read(int(self.headers["content-length"])))

    def _pass_on(self, verb: str, body: bytes | None) -> None:
        _Passing.passed += 1
        if self.path != PATH:
            self.send_error(404)
            return
        host, _, port = self.shuffler.rpartition(":")
        onward = http.client.HTTPSConnection(
            host, int(port), context=self.context, timeout=SECONDS, source_address=(SEEN_FROM, 0)
        )
        with self.seen.open("ab") as file:
            file.write(b"%d bytes\n%b\n" % (len(body or b""), body or b""))
        changes = bool(self.flip) and self.passed % self.flip == 0
        spoils_answer = changes and self.passed % (2 * self.flip) == 0
        try:
            headers = {} if body is None else {"Content-Type": self.headers["content-type"]}
            onward.request(verb, PATH, flipped(body) if body and changes and not spoils_answer else body, headers)
            answer = onward.getresponse()
            content, form = answer.read(), answer.getheader("content-type", "")
        except OSError:
            self.send_error(502)
            return
        finally:
            onward.close()
        if body and spoils_answer:
            content = flipped(content)
        self.send_response(answer.status)
        self.send_header("content-type", form)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Write nothing about callers."""


def flipped(content: bytes) -> bytes:
    """The same with one bit of its last byte changed."""
    return content[:-1] + bytes([content[-1] ^ 1])


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Write nothing about callers: a handshake may break off."""


def main() -> None:
    """Relay until stdin ends."""
    shuffler, authority, certificate, key, seen, flip = sys.argv[1:]
    _Passing.shuffler, _Passing.seen, _Passing.flip = shuffler, Path(seen), int(flip)
    _Passing.context = ssl.create_default_context(cafile=authority)
    server = _Server(("127.0.0.1", 0), _Passing)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["http/1.1"])
    # Handshakes in the threads of their connections: a device that breaks one off must not keep the others waiting.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"https://127.0.0.1:{server.server_address[1]}{PATH}", flush=True)
    sys.stdin.read()


@dataclass
class RelayProcess:
    """A running relay: its URL, the authority of its certificate, and the file of what it saw."""

    url: str
    authority: Path
    seen: Path
    process: asyncio.subprocess.Process

    async def stop(self) -> None:
        """End it, and wait until it has."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()


@contextlib.asynccontextmanager
async def running_relay(
    shuffler: str, shuffler_authority: Path, folder: Path, flip: int = 0
) -> AsyncIterator[RelayProcess]:
    """A relay in front of a shuffler at host:port; its own certificate is of an authority of its own."""
    tls, seen = make_tls(folder / "relay-tls", "service")["service"], folder / "seen"
    assert isinstance(tls.authority, Path)
    files = (shuffler_authority, tls.certificate, tls.key, seen)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "support.ohttp_relay", shuffler, *map(str, files), str(flip)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # Another test may have forbidden that programs import from where they are started.
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert process.stdout is not None
    relay = RelayProcess((await process.stdout.readline()).decode().strip(), tls.authority, seen, process)
    try:
        yield relay
    finally:
        await relay.stop()


if __name__ == "__main__":
    main()
