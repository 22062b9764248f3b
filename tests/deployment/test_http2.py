"""HTTP/2 in front of the HTTPS port: HAProxy and Caddy, as the examples configure them, change no answer.

The port is a real one, and its handler records what reaches it. Devices that are counted: tests/web/test_foreign.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import re
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio
from google.protobuf import json_format
from pyqwest import Client, FullResponse, HTTPTransport, HTTPVersion
from unit.protos.test_rpc import HERE, Recorder, receipt, submission

from hubbub.deploy.init.folders import LOOPBACK
from hubbub.deploy.pki.authority import Authority
from hubbub.protos import codec
from hubbub.protos.transport.channels import TLS
from hubbub.protos.v1 import submission_pb2
from hubbub.service.rpc.connect import Begun, ConnectRouter, Reply
from support.caddy import CADDYFILE, caddy, caddy_before
from support.haproxy import running_proxy
from support.https_port import SUBMIT, opened
from support.patience import CALL_SECONDS, PATIENCE, pause
from support.samples import make_tls
from support.source_tree import ROOT

CONFIGURATION = (ROOT / "deploy" / "proxy" / "haproxy.cfg").read_text()
FORM = {"content-type": "application/proto"}
GOOD = submission_pb2.SubmitRequest(
    destination=codec.write_destination(HERE), submission=codec.write_submission(submission(1))
).SerializeToString()
GOOD_JSON = json_format.MessageToJson(submission_pb2.SubmitRequest.FromString(GOOD)).encode()
SHORT = submission_pb2.SubmitRequest(destination={"task_id": b"short"}).SerializeToString()
CLAIMED = {
    "forwarded": "for=192.0.2.7",
    "true-client-ip": "192.0.2.7",
    "via": "1.1 192.0.2.7",
    "x-forwarded-for": "192.0.2.7",
    "x-forwarded-host": "elsewhere.example.org",
    "x-forwarded-port": "1",
    "x-forwarded-proto": "http",
    "x-real-ip": "192.0.2.7",
}


@dataclass
class Ports:
    """The port itself and each proxy before it, what calls they are asked by, and what reached the port."""

    direct: str
    proxies: dict[str, str]
    folder: Path
    client: Client
    one: Client
    reached: list[Mapping[bytes, bytes]] = field(default_factory=list)

    async def asked(
        self, address: str, method: str = "POST", path: str = SUBMIT, body: bytes = b"", **headers: str
    ) -> FullResponse:
        named = {**FORM, **{name.replace("_", "-"): value for name, value in headers.items()}}
        client = self.one if address == self.direct else self.client
        return await client.execute(method, f"https://{address}{path}", named, body)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ports(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ports]:
    folder = tmp_path_factory.mktemp("http2")
    authority = Authority.generate()
    tls = TLS(folder / "authority.pem", folder / "service.pem", folder / "service.key")
    assert isinstance(tls.authority, Path)
    authority.save_certificate(tls.authority)
    authority.issue("service", LOOPBACK, folder / "service.pem", folder / "service.key")
    reached: list[Mapping[bytes, bytes]] = []

    class Noting(ConnectRouter):
        def begin(self, verb: bytes, path: bytes, headers: Mapping[bytes, bytes]) -> Begun | Reply:
            reached.append(dict(headers))
            return super().begin(verb, path, headers)

    async with asyncio.timeout(PATIENCE), contextlib.AsyncExitStack() as held:
        # The client would call this machine through them.
        environment = held.enter_context(pytest.MonkeyPatch.context())
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            environment.delenv(name)
        port = await held.enter_async_context(opened(Recorder(answer=[receipt(1)]), tls, make=Noting, serving=True))
        direct = f"127.0.0.1:{port}"
        behind = {"submission": "127.0.0.1:1", "https": direct}
        haproxy = held.enter_context(running_proxy(behind, authority, folder / "haproxy", http2=True))
        caddy = held.enter_context(caddy_before(direct, authority, folder / "caddy"))
        root = tls.authority.read_bytes()
        two, one = (
            HTTPTransport(tls_ca_cert=root, http_version=each) for each in (HTTPVersion.HTTP2, HTTPVersion.HTTP1)
        )
        proxies = {"haproxy": haproxy.https, "caddy": caddy}
        found = Ports(direct, proxies, folder, Client(two), Client(one), reached)
        for address in proxies.values():
            while (await found.asked(address, "GET", "/health")).status != 200:
                await pause()
        yield found


ONE_LOOP = pytest.mark.asyncio(loop_scope="module")
PROXIES = pytest.mark.parametrize("proxy", ["haproxy", "caddy"])

Call = tuple[str, str, bytes, dict[str, str]]
CALLS: dict[str, Call] = {
    "a submission": ("POST", SUBMIT, GOOD, {}),
    "a submission in JSON": ("POST", SUBMIT, GOOD_JSON, {"content_type": "application/json"}),
    "no message": ("POST", SUBMIT, b"rubbish", {}),
    "a wrong task": ("POST", SUBMIT, SHORT, {}),
    "too large": ("POST", SUBMIT, bytes(300_000), {}),
    "compressed": ("POST", SUBMIT, GOOD, {"content_encoding": "gzip"}),
    "another type": ("POST", SUBMIT, GOOD, {"content_type": "text/plain"}),
    "another version": ("POST", SUBMIT, GOOD, {"connect_protocol_version": "2"}),
    "no time": ("POST", SUBMIT, GOOD, {"connect_timeout_ms": "soon"}),
    "no call of the service": ("POST", f"{SUBMIT}Never", GOOD, {}),
    "not a POST": ("PUT", SUBMIT, GOOD, {}),
    "too many headers": ("POST", SUBMIT, GOOD, {f"x_{number}": "1" for number in range(70)}),
    "oblivious, where it is off": ("GET", "/ohttp", b"", {}),
    "health": ("GET", "/health", b"", {}),
    "health, its head": ("HEAD", "/health", b"", {}),
    "a preflight": ("OPTIONS", SUBMIT, b"", {"origin": "https://app.example.org"}),
}


def told(answer: FullResponse) -> tuple[object, ...]:
    """What a client reads of an answer."""
    named = ("content-type", "hubbub-reason", "hubbub-retry-after-ms", "allow", "accept-post")
    return answer.status, answer.content, *(answer.headers.get(name) for name in named)


@ONE_LOOP
@PROXIES
@pytest.mark.parametrize("name", CALLS)
async def test_an_answer_is_that_of_the_port_itself(ports: Ports, proxy: str, name: str) -> None:
    method, path, body, headers = CALLS[name]
    directly = await ports.asked(ports.direct, method, path, body, **headers)
    assert told(await ports.asked(ports.proxies[proxy], method, path, body, **headers)) == told(directly)


@ONE_LOOP
@PROXIES
async def test_a_message_of_unknown_length_and_a_long_one_arrive(ports: Ports, proxy: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield GOOD[:100]
        yield GOOD[100:]

    url = f"https://{ports.proxies[proxy]}"
    answer = await ports.client.execute("POST", f"{url}{SUBMIT}", FORM, pieces())
    assert (answer.status, "content-length" in ports.reached[-1]) == (200, False)
    # As much as a batch may have.
    many = submission_pb2.SubmitBatchRequest(destination=codec.write_destination(HERE))
    many.submissions.extend([codec.write_submission(submission(1))] * 10_000)
    answer = await ports.client.execute("POST", f"{url}{SUBMIT}Batch", FORM, many.SerializeToString())
    # The handler knows one submission.
    assert (answer.status, answer.headers.get("hubbub-reason")) == (500, None)


@ONE_LOOP
@PROXIES
async def test_what_is_no_call_of_devices_does_not_reach_the_port(ports: Ports, proxy: str) -> None:
    before = len(ports.reached)
    for path in ("/", "/metrics", "/hubbub.v1.RoundControlService/GetStatus", "/health/", "/ohttp/other"):
        assert (await ports.asked(ports.proxies[proxy], path=path)).status == 404
    assert len(ports.reached) == before


@ONE_LOOP
@PROXIES
async def test_nothing_about_the_caller_reaches_the_port_whatever_it_claims(ports: Ports, proxy: str) -> None:
    await ports.asked(ports.direct, body=GOOD)
    directly = set(ports.reached[-1])
    answer = await ports.asked(ports.proxies[proxy], body=GOOD, **{k.replace("-", "_"): v for k, v in CLAIMED.items()})
    assert answer.status == 200
    assert set(ports.reached[-1]) == directly


@ONE_LOOP
@PROXIES
async def test_curl_agrees_on_http2_and_an_older_client_on_http1(ports: Ports, proxy: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not on this machine")
    for option, version in (("--http2", b"2"), ("--http1.1", b"1.1")):
        command = ["curl", "--silent", "--noproxy", "*", "--cacert", str(ports.folder / "authority.pem"), option]
        command += ["--write-out", "%{http_version}", f"https://{ports.proxies[proxy]}/health"]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=CALL_SECONDS)
        assert (done.returncode, done.stdout) == (0, version)


@ONE_LOOP
@PROXIES
async def test_a_port_of_another_authority_gets_no_call_and_no_callers_address_is_written(
    tmp_path: Path, proxy: str
) -> None:
    handler, ours = Recorder(answer=[receipt(1)]), Authority.generate()
    async with opened(handler, make_tls(tmp_path / "theirs", "service")["service"], serving=True) as port:
        direct = f"127.0.0.1:{port}"
        with (
            caddy_before(direct, ours, tmp_path / "proxy")
            if proxy == "caddy"
            else running_proxy({"submission": direct, "https": direct}, ours, tmp_path / "proxy", http2=True)
        ) as running:
            address = running if isinstance(running, str) else running.https
            context = ssl.create_default_context(cafile=str(tmp_path / "proxy" / "tls" / "authority.pem"))
            host, _, own = address.rpartition(":")
            caller = http.client.HTTPSConnection(
                host, int(own), context=context, timeout=CALL_SECONDS, source_address=("127.0.0.78", 0)
            )
            await asyncio.to_thread(caller.request, "POST", SUBMIT, GOOD, FORM)
            answer = await asyncio.to_thread(caller.getresponse)
            assert answer.status in (502, 503)
            caller.close()
    assert handler.calls == []
    assert written(tmp_path, b"127.0.0.78") == []


def written(folder: Path, needle: bytes) -> list[Path]:
    """The files of a folder that have this in them."""
    return [file for file in folder.rglob("*") if file.is_file() and needle in file.read_bytes()]


def limits(name: str) -> list[str]:
    """The lines of a frontend about its limits."""
    (part,) = re.findall(rf"(?m)^#?frontend {name}\n((?:#?    .*\n)*)", CONFIGURATION)
    lines = [line.lstrip("# ") for line in part.splitlines()]
    words = ("option http-buffer", "timeout ", "stick-table ", "tcp-request ", "http-request deny deny_status 429")
    return [line for line in lines if line.startswith(words)]


def test_haproxy_limits_addresses_as_it_does_at_the_port_of_grpc() -> None:
    assert len(limits("devices")) == 12
    assert limits("http2") == limits("devices")


def test_caddys_example_is_written_as_caddy_writes_it() -> None:
    done = subprocess.run([caddy(), "fmt", "--diff", CADDYFILE], capture_output=True, text=True, check=False)
    changed = [line for line in done.stdout.splitlines() if line.startswith(("+", "-"))]
    assert (done.returncode, changed) == (0, [])
