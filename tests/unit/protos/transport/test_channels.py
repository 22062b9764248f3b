"""Servers listen where they say, with TLS or not at all, and say when they serve."""

from pathlib import Path

import grpc
import pytest

from hubbub.deploy.local.ports import kept_address
from hubbub.protos.errors import HubbubError, Unreachable
from hubbub.protos.transport.channels import POLLING, TLS, open_channel
from hubbub.protos.transport.tls_files import TlsCertificateError
from hubbub.service.transport.grpc_server import listen
from hubbub.service.transport.health import Health, is_serving
from support.ended_with_test import opened_server
from support.messages import NO_READABLE_CERTIFICATE, PORT_IN_USE
from support.patience import CALL_SECONDS
from support.samples import make_tls

LOOPBACK = "127.0.0.1:0"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TLS]:
    return make_tls(tmp_path_factory.mktemp("tls"), "shuffler", "analyzer")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> TLS:
    return make_tls(tmp_path_factory.mktemp("stranger"), "shuffler")["shuffler"]


@pytest.fixture
def paths(tls: dict[str, TLS]) -> TLS:
    return tls["shuffler"]


@pytest.mark.parametrize("missing", ["authority", "certificate", "key"])
def test_missing_file_is_named(paths: TLS, tmp_path: Path, missing: str) -> None:
    parts = {name: getattr(paths, name) for name in ("authority", "certificate", "key")}
    broken = TLS(**{**parts, missing: tmp_path / f"{missing}.pem"})
    for use in (lambda: broken.server(mutual=True), broken.client):
        with pytest.raises(
            HubbubError,
            match=rf"cannot read .*{missing}\.pem: No such file.*the operator has the authority.*hubbub certificate",
        ):
            use()


def test_server_without_certificate_or_key_is_refused(paths: TLS) -> None:
    for broken in (TLS(paths.authority), TLS(paths.authority, paths.certificate)):
        with pytest.raises(HubbubError, match="not named"):
            broken.server(mutual=False)


def test_client_with_certificate_needs_its_key(paths: TLS) -> None:
    with pytest.raises(HubbubError, match="not named"):
        TLS(paths.authority, paths.certificate).client()


def test_authority_may_be_given_as_bytes(paths: TLS) -> None:
    assert isinstance(paths.authority, Path)
    assert isinstance(TLS(paths.authority.read_bytes()).client(), grpc.ChannelCredentials)


async def test_taken_port_is_refused_not_shared(paths: TLS) -> None:
    async with opened_server() as first, opened_server() as second:
        port = listen(first, LOOPBACK, paths.server(mutual=False))
        assert port > 0
        with pytest.raises(HubbubError, match=f"cannot listen on 127.0.0.1:{port}: {PORT_IN_USE}"):
            listen(second, f"127.0.0.1:{port}", paths.server(mutual=False))


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("192.0.2.1:0", "it is not an address of this machine; name one of its addresses, or 0.0.0.0"),
        ("nowhere.invalid:7301", "nowhere.invalid has no address on this machine"),
        ("::1:7301", "an IPv6 address before a port in brackets"),
        ("https://x:1", "is a URL"),
    ],
)
async def test_what_is_in_the_way_of_a_port_is_said_before_grpc_is_asked(
    paths: TLS, address: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with opened_server() as server:
        with pytest.raises(HubbubError, match=f"cannot listen on .*{words}"):
            listen(server, address, paths.server(mutual=False))
    assert capfd.readouterr().err == ""


async def test_a_port_that_was_just_given_up_is_free(paths: TLS) -> None:
    """Its connections may still be in TIME_WAIT: a service that is started again must not wait for them."""
    async with opened_server() as first:
        # Of the ports that the system gives to nobody else meanwhile.
        port = listen(first, kept_address(), paths.server(mutual=False))
        await first.start()
        async with open_channel(f"127.0.0.1:{port}", TLS(paths.authority)) as channel:
            assert not await is_serving(channel, 1)
    async with opened_server() as second:
        assert listen(second, f"127.0.0.1:{port}", paths.server(mutual=False)) == port


@pytest.mark.parametrize(
    "address",
    ["nowhere.invalid:1", "127.0.0.1:65536", "127.0.0.1", ":80", "127.0.0.1:-1", "127.0.0.1:", "no address", ""],
)
async def test_address_that_is_none_is_refused(paths: TLS, address: str) -> None:
    async with opened_server() as server:
        with pytest.raises(HubbubError, match="cannot listen on"):
            listen(server, address, paths.server(mutual=False))


def test_malformed_certificate_is_refused(paths: TLS, tmp_path: Path) -> None:
    (tmp_path / "broken.pem").write_text("no certificate")
    with pytest.raises(TlsCertificateError, match=rf"broken\.pem {NO_READABLE_CERTIFICATE}: it is not PEM"):
        TLS(paths.authority, tmp_path / "broken.pem", paths.key).server(mutual=False)


async def test_health_follows_the_service(paths: TLS) -> None:
    async with opened_server() as server:
        health = Health(server, ["hubbub.v1.SubmissionService"])
        port = listen(server, LOOPBACK, paths.server(mutual=False))
        await server.start()
        async with open_channel(f"127.0.0.1:{port}", TLS(paths.authority)) as channel:
            assert not await is_serving(channel, 5)
            await health.serving()
            assert await is_serving(channel, CALL_SECONDS)
            await health.leaving()
            assert not await is_serving(channel, 5)


async def test_health_of_nobody_is_not_serving(paths: TLS) -> None:
    async with open_channel("127.0.0.1:1", TLS(paths.authority)) as channel:
        assert not await is_serving(channel, 0.3)


async def test_only_the_authority_s_certificates_are_trusted(paths: TLS, stranger: TLS) -> None:
    async with opened_server() as server:
        health = Health(server, [])
        port = listen(server, LOOPBACK, paths.server(mutual=True))
        await server.start()
        await health.serving()
        cases = [
            (paths, True),
            (TLS(paths.authority), False),
            (TLS(stranger.authority), False),
            (TLS(paths.authority, stranger.certificate, stranger.key), False),
            (TLS(stranger.authority, paths.certificate, paths.key), False),
        ]
        for tls, expected in cases:
            async with open_channel(f"127.0.0.1:{port}", tls) as channel:
                assert await is_serving(channel, CALL_SECONDS if expected else 0.4) == expected


@pytest.mark.parametrize("stated", ["nonsense", "", "epoll,x"])
async def test_a_way_to_wait_that_grpc_does_not_know_is_named_before_it_ends_the_process(
    stated: str, paths: TLS, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC itself aborts: no error, no tidying up, and an application that embeds a device ends with it."""
    monkeypatch.setenv(POLLING, stated)
    says = f"GRPC_POLL_STRATEGY is '{stated}' in the environment, and gRPC knows none of that; unset it, or"
    with pytest.raises(Unreachable, match=says):
        open_channel("127.0.0.1:1", TLS(paths.authority))
    with pytest.raises(Unreachable, match=says):
        async with opened_server():
            pass
    monkeypatch.setenv(POLLING, f"{stated},poll")
    async with open_channel("127.0.0.1:1", TLS(paths.authority)):
        pass
