"""The relay that a page makes of nginx: it carries keys and calls, and what it writes and passes on names nobody."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from unit.protos.test_rpc import Recorder

from hubbub.client import Device
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.task.admission import OPEN
from hubbub.protos.task.task import Draft, Privacy, Schedule
from hubbub.protos.transport.addresses import HTTPS
from hubbub.queries.questions.histogram import Histogram
from hubbub.service.rpc.connect import Begun, ConnectRouter, Reply
from support.deployment_files import HOWTO
from support.https_port import opened, status_of
from support.https_port import written as request
from support.nginx import nginx, nginx_with
from support.patience import CALL_SECONDS, PATIENCE, pause
from support.samples import make_tls

PAGE = HOWTO / "hide-addresses.md"
ATTACKER = "127.0.0.78"
"""From where a caller comes that must not be found anywhere."""

MOST = 64
DRAFT = Draft(
    "usage",
    Schedule(int(time.time()), length=3600, grace=86_400, rounds=1, close="operator"),
    2,
    Privacy(epsilon=20.0, delta=1e-2, epsilon_local=20.0, honest_share=1.0),
    (Histogram("theme", ("light", "dark")),),
    admission=OPEN,
)


def example(folder: Path, shuffler: str, authority: Path) -> tuple[str, Path]:
    """The page's example in front of a shuffler at host:port; and the authority of the relay's own certificate."""
    tls = make_tls(folder / "relay-tls", "service")["service"]
    assert isinstance(tls.authority, Path)
    (text,) = re.findall(r"```text\n((?:.*\n)*?)```", PAGE.read_text())[:1]
    for written, here in {
        "/etc/nginx/relay.pem": tls.certificate,
        "/etc/nginx/relay.key": tls.key,
        "/etc/nginx/authority.pem": authority,
        "shuffler.example.org:7308": shuffler,
        # The name that the shuffler's certificate has here.
        "shuffler.example.org": "localhost",
    }.items():
        assert written in text
        text = text.replace(written, str(here))
    return text, tls.authority


async def test_devices_behind_it_are_counted(tmp_path: Path) -> None:
    nginx()
    async with (
        asyncio.timeout(PATIENCE),
        LocalPipeline(DRAFT, tmp_path / "pipeline", https=True, behind_proxy=True) as pipeline,
    ):
        text, authority = example(tmp_path, pipeline.shuffler.removeprefix(HTTPS), pipeline.authority)
        with nginx_with(text, tmp_path) as relay:
            for name in ("one", "two"):
                device = Device(
                    pipeline.task.encode(),
                    operator_key=pipeline.operator_key,
                    shuffler_key=pipeline.shuffler_key,
                    state=tmp_path / f"{name}.db",
                    shuffler="https://127.0.0.1:1",
                    authority=authority,
                    relay=f"https://{relay}/ohttp",
                )
                async with device:
                    assert (await device.submit({"theme": "dark"})).used
        assert [status.submissions for status in await pipeline.status()] == [2]


@dataclass
class Caller:
    """Calls a relay from an address of its own."""

    relay: str
    context: ssl.SSLContext
    source: str = ATTACKER

    def plain(self) -> socket.socket:
        host, _, port = self.relay.rpartition(":")
        return socket.create_connection((host, int(port)), CALL_SECONDS, (self.source, 0))

    def connected(self) -> ssl.SSLSocket:
        return self.context.wrap_socket(self.plain(), server_hostname="localhost")

    def asked(self, method: str, path: str = "/ohttp", body: bytes = b"", **headers: str) -> int:
        """Return the status of the answer; 0 if the connection ends without one."""
        try:
            with self.connected() as connection:
                connection.sendall(request(method, path, body, content_type="message/ohttp-req", **headers))
                return status_of(connection.recv(4096))
        except (ssl.SSLError, ConnectionError):
            return 0

    def misbehave(self) -> None:
        """Do what a server has most reason to write down: no TLS, half a handshake, half a request."""
        for rubbish in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", bytes(500)):
            with self.plain() as connection, contextlib.suppress(OSError):
                connection.sendall(rubbish)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass
        for half in (b"POST /ohttp HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf", b"\xff\xff\r\n\r\n"):
            # The relay may still count connections that were closed just now, and refuse this one.
            with contextlib.suppress(ssl.SSLError, ConnectionError), self.connected() as connection:
                connection.sendall(half)


@dataclass
class Relayed:
    """A relay before a port that notes the headers of what reaches it; `shuffler` can be closed before its time."""

    caller: Caller
    shuffler: contextlib.AsyncExitStack
    reached: list[Mapping[bytes, bytes]]


@contextlib.asynccontextmanager
async def relayed(folder: Path, *, stream: bool = False) -> AsyncIterator[Relayed]:
    """Run the relay of Oblivious HTTP, or the one that passes TCP on."""
    reached: list[Mapping[bytes, bytes]] = []

    class Noting(ConnectRouter):
        def begin(self, verb: bytes, path: bytes, headers: Mapping[bytes, bytes]) -> Begun | Reply:
            reached.append({b":": verb + b" " + path, **headers})
            return super().begin(verb, path, headers)

    tls = make_tls(folder / "tls", "service")["service"]
    assert isinstance(tls.authority, Path)
    async with asyncio.timeout(PATIENCE), contextlib.AsyncExitStack() as shuffler:
        port = await shuffler.enter_async_context(opened(Recorder(), tls, make=Noting))
        if stream:
            text, authority = passing(f"127.0.0.1:{port}"), tls.authority
        else:
            text, authority = example(folder, f"127.0.0.1:{port}", tls.authority)
        with nginx_with(text, folder, stream=stream) as relay:
            yield Relayed(Caller(relay, ssl.create_default_context(cafile=str(authority))), shuffler, reached)


def passing(shuffler: str) -> str:
    """The other page's example, which passes TCP on."""
    (text,) = re.findall(r"```text\n(limit_conn_zone(?:.*\n)*?)```", (HOWTO / "public-port.md").read_text())
    assert "shuffler.example.org:7301" in text
    return str(text.replace("shuffler.example.org:7301", shuffler).replace("listen 7301", "listen 443"))


def naming(folder: Path) -> list[Path]:
    """The files of a folder that have the caller's address in them; nginx's log is one of all that are looked at."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert folder / "error.log" in files
    return [file for file in files if ATTACKER.encode() in file.read_bytes()]


async def test_what_it_passes_on_and_writes_does_not_name_a_caller(tmp_path: Path) -> None:
    async with relayed(tmp_path) as found:
        claimed = {"x_forwarded_for": ATTACKER, "forwarded": f"for={ATTACKER}", "cookie": "a=b", "user_agent": "me"}
        for method in ("GET", "POST"):
            # The port behind it is none for relays.
            assert await asyncio.to_thread(found.caller.asked, method, body=b"sealed", **claimed) == 404
        assert [each[b":"] for each in found.reached] == [b"GET /ohttp", b"POST /ohttp"]
        for each in found.reached:
            assert set(each) == {b":", b"host", b"content-type", b"content-length"}
        for words, status in ((("PUT",), 403), (("GET", "/"), 404), (("GET", "/ohttp/x"), 404)):
            assert await asyncio.to_thread(found.caller.asked, *words) == status
        assert len(found.reached) == 2
        await asyncio.to_thread(found.caller.misbehave)
        await found.shuffler.aclose()
        assert await asyncio.to_thread(found.caller.asked, "GET") == 502
    assert naming(tmp_path) == []


async def test_an_address_has_so_many_calls_at_once_and_another_is_served(tmp_path: Path) -> None:
    async with relayed(tmp_path) as found:
        with contextlib.ExitStack() as held:
            for _ in range(MOST):
                connection = held.enter_context(await asyncio.to_thread(found.caller.connected))
                connection.sendall(b"POST /ohttp HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf")
            # They may not have been read yet.
            while await asyncio.to_thread(found.caller.asked, "GET") != 503:
                await pause()
            assert await asyncio.to_thread(replace(found.caller, source="127.0.0.79").asked, "GET") == 404
    assert naming(tmp_path) == []


async def test_the_relay_that_passes_tcp_on_limits_addresses_and_writes_none(tmp_path: Path) -> None:
    async with relayed(tmp_path, stream=True) as found:
        with contextlib.ExitStack() as held:
            for _ in range(MOST):
                held.enter_context(await asyncio.to_thread(found.caller.connected))
            assert await asyncio.to_thread(found.caller.asked, "GET") == 0
            assert await asyncio.to_thread(replace(found.caller, source="127.0.0.79").asked, "GET") == 404
        await asyncio.to_thread(found.caller.misbehave)
        await found.shuffler.aclose()
        assert await asyncio.to_thread(found.caller.asked, "GET") == 0
    assert naming(tmp_path) == []
