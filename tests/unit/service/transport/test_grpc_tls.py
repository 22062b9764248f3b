"""What callers send below HTTP/2 at gRPC's ports: its own TLS ends what is without end, and no service has to."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from unit.protos.test_rpc import HERE, Recorder, receipt, submission

from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.transport.channels import TLS, open_channel, renewed_server
from hubbub.service.rpc import serve_submissions
from hubbub.service.rpc.pipeline import RequestPipeline
from hubbub.service.transport import grpc_server
from support.ended_with_test import opened_server
from support.patience import CALL_SECONDS
from support.samples import make_tls
from support.tls_records import ALERT, HANDSHAKE, SECONDS, USER_CANCELED, Records, bare, fragments

TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3

MOST = 50
"""Records of one kind in a row that it takes."""


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TLS]:
    return make_tls(tmp_path_factory.mktemp("tls"), "service", "device")


@contextlib.asynccontextmanager
async def opened(tls: TLS, *, mutual: bool = False) -> AsyncIterator[int]:
    async with opened_server() as server:
        serve_submissions(server, Recorder(answer=[receipt(1)]), RequestPipeline(), 1000)
        port = grpc_server.listen(server, "127.0.0.1:0", renewed_server(tls.read, mutual=mutual))
        await server.start()
        yield port


def _authority(tls: TLS) -> Path:
    assert isinstance(tls.authority, Path)
    return tls.authority


@pytest.mark.parametrize(
    ("version", "make"),
    [
        (TLS_1_3, lambda attacker: attacker.key_update()),
        (TLS_1_3, lambda attacker: attacker.key_update(answer=True)),
        (TLS_1_3, lambda attacker: attacker.record(b"")),
        (TLS_1_2, lambda attacker: attacker.record(b"")),
        (TLS_1_3, lambda attacker: attacker.record(USER_CANCELED, ALERT)),
        (TLS_1_2, lambda attacker: attacker.record(USER_CANCELED, ALERT)),
        (TLS_1_2, lambda attacker: attacker.hello_again()),
        (TLS_1_3, lambda attacker: attacker.record(attacker.hello[5:], HANDSHAKE)),
    ],
    ids=["updates", "updates to answer", "empty", "empty 1.2", "alerts", "alerts 1.2", "renegotiation", "hello"],
)
async def test_records_without_plaintext_end_the_connection_and_no_other(
    tls: dict[str, TLS], version: ssl.TLSVersion, make: Callable[[Records], bytes]
) -> None:
    service = tls["service"]

    def attack(port: int) -> bool:
        with Records(("127.0.0.1", port), _authority(service), version, alpn=("h2",)) as attacker:
            attacker.send(b"".join(make(attacker) for _ in range(MOST)))
            return attacker.closed()

    async with opened(service) as port:
        assert await asyncio.to_thread(attack, port)
        async with open_channel(f"127.0.0.1:{port}", TLS(service.authority)) as channel:
            assert await SubmissionCaller(channel).submit(HERE, submission(1), CALL_SECONDS) == receipt(1)


async def test_a_handshake_message_that_is_too_long_ends_the_connection(tls: dict[str, TLS]) -> None:
    hello = b"\x01" + (131_000).to_bytes(3, "big") + b"\x03\x03" + bytes(40_000)

    def attack(port: int) -> bool:
        with bare(("127.0.0.1", port)) as attacker:
            attacker.settimeout(SECONDS)
            with contextlib.suppress(ConnectionError):
                attacker.sendall(fragments(hello, 16_384))
                while attacker.recv(65536):
                    pass
            return True

    async with opened(tls["service"]) as port:
        assert await asyncio.to_thread(attack, port)


async def test_certificates_of_a_caller_without_end_are_refused(tls: dict[str, TLS], tmp_path: Path) -> None:
    """A chain of 400 kB, at a port that asks for certificates. With its certificate alone the same caller connects."""
    service, device = tls["service"], tls["device"]
    assert isinstance(device.certificate, Path)
    assert isinstance(device.key, Path)
    own, key = device.certificate, device.key
    chain = tmp_path / "chain.pem"
    chain.write_text(own.read_text() + _authority(device).read_text() * 1000)
    assert len(ssl.PEM_cert_to_DER_cert(_authority(device).read_text())) * 1000 > 200_000

    def attack(port: int, shown: Path) -> bool:
        try:
            given = (shown, key)
            with Records(("127.0.0.1", port), _authority(service), alpn=("h2",), certificate=given) as caller:
                # In TLS 1.3 the client is done before the server has seen its certificate: settings come, or the end.
                return bool(caller.read())
        except OSError:
            return False

    async with opened(service, mutual=True) as port:
        assert not await asyncio.to_thread(attack, port, chain)
        assert await asyncio.to_thread(attack, port, own)
