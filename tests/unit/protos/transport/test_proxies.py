"""Calls go through the proxy that is named for them, never through one that the environment names."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hubbub.client.gateway import Gateway
from hubbub.client.submit import ShufflerLink
from hubbub.deploy.pki.authority import Authority
from hubbub.protos.errors import Unreachable, UsageError
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.proxies import ProxyError, checked_proxy, proxy_to, way_to
from hubbub.service.rpc.servicers import serve_submissions
from hubbub.service.transport.grpc_server import listen
from support.connect_proxy import opened_proxy
from support.ended_with_test import opened_server
from support.https_port import opened

NAME = "shuffler.hubbub.invalid"
"""A name that no resolver knows (RFC 6761): who calls it reaches nobody but through the proxy."""

BY_NUMBER = "2001:db8::7"
"""An address for documentation (RFC 3849), which is nobody's."""

NOBODY = "http://127.0.0.1:9"
VARIABLES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class Refusing:
    """A shuffler that knows no task: its refusal shows that a call arrived."""

    async def get_round(self, *_: Any) -> Any:
        raise Refusal(Reason.UNKNOWN_TASK, "no such task")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TLS:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority.generate()
    authority.save_certificate(folder / "authority.pem")
    authority.issue("shuffler", [NAME, BY_NUMBER, "localhost", "127.0.0.1"], folder / "own.pem", folder / "own.key")
    return TLS(folder / "authority.pem", folder / "own.pem", folder / "own.key")


@pytest.fixture(params=["grpc", "https"])
async def shuffler(request: pytest.FixtureRequest, tls: TLS) -> AsyncIterator[tuple[str, int]]:
    """What addresses of its port begin with, and the port."""
    async with contextlib.AsyncExitStack() as stack:
        if request.param == "https":
            yield "https://", await stack.enter_async_context(opened(Refusing(), tls))
            return
        server = await stack.enter_async_context(opened_server())
        serve_submissions(server, Refusing())  # type: ignore[arg-type] # one call of it is made
        port = listen(server, "127.0.0.1:0", tls.server(mutual=False))
        await server.start()
        yield "", port


async def called(address: str, tls: TLS, proxy: str | None = None, seconds: float = 20.0) -> Refusal:
    """Call for a round; return the refusal."""
    assert isinstance(tls.authority, Path)
    async with ShufflerLink(address, TLS(tls.authority, proxy=proxy)) as link:
        with pytest.raises(Refusal) as raised:
            await link.caller.get_round(bytes(32), 0, seconds)
    return raised.value


async def test_variables_of_the_environment_decide_nothing(
    shuffler: tuple[str, int], tls: TLS, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, port = shuffler
    for name in VARIABLES:
        monkeypatch.setenv(name, NOBODY)
    for host in ("127.0.0.1", "localhost"):
        assert (await called(f"{begin}{host}:{port}", tls)).reason is Reason.UNKNOWN_TASK
    async with opened_proxy({f"{NAME}:{port}": port}) as proxy:
        for name in VARIABLES:
            monkeypatch.setenv(name, proxy.address)
        with pytest.raises(Unreachable, match="its host name cannot be resolved"):
            await called(f"{begin}{NAME}:{port}", tls)
    assert proxy.asked == []


async def test_another_machine_is_called_through_the_named_proxy_and_this_one_directly(
    shuffler: tuple[str, int], tls: TLS, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, port = shuffler
    for name in VARIABLES:
        monkeypatch.setenv(name, NOBODY)
    async with opened_proxy({f"{NAME}:{port}": port}) as proxy:
        assert (await called(f"{begin}{NAME}:{port}", tls, proxy.address)).reason is Reason.UNKNOWN_TASK
        assert proxy.asked == [f"{NAME}:{port}"]
        assert (await called(f"{begin}localhost:{port}", tls, proxy.address)).reason is Reason.UNKNOWN_TASK
        assert proxy.asked == [f"{NAME}:{port}"]


async def test_a_proxy_is_asked_for_an_ipv6_address_in_brackets_and_the_certificate_without(
    shuffler: tuple[str, int], tls: TLS
) -> None:
    begin, port = shuffler
    async with opened_proxy({f"[{BY_NUMBER}]:{port}": port}) as proxy:
        assert (await called(f"{begin}[{BY_NUMBER}]:{port}", tls, proxy.address)).reason is Reason.UNKNOWN_TASK
        assert proxy.asked == [f"[{BY_NUMBER}]:{port}"]
        with pytest.raises(Unreachable, match="its TLS certificate is not for the name"):
            async with opened_proxy({f"[2001:db8::8]:{port}": port}) as other:
                await called(f"{begin}[2001:db8::8]:{port}", tls, other.address, 5.0)


async def test_an_error_names_the_proxy(shuffler: tuple[str, int], tls: TLS) -> None:
    begin, port = shuffler
    async with opened_proxy({}) as proxy:
        way = rf"the shuffler at {begin}{NAME}:{port}, through the proxy {proxy.address}, did not answer"
        with pytest.raises(Unreachable, match=f"{way}: the proxy does not connect to it"):
            await called(f"{begin}{NAME}:{port}", tls, proxy.address, 5.0)
    with pytest.raises(Unreachable, match=rf"the proxy {proxy.address}, did not answer: no server listens there"):
        await called(f"{begin}{NAME}:{port}", tls, proxy.address, 5.0)


@pytest.mark.parametrize(
    ("proxy", "said"),
    [
        ("proxy.example.org:3128", "give http://host:port"),
        ("https://proxy.example.org:3128", "give http://host:port"),
        ("http://proxy.example.org", "is not host:port"),
        ("http://proxy.example.org:3128/path", "give http://host:port"),
        ("http://who:secret@proxy.example.org:3128", "a name and a password"),
        (3128, "give http://host:port"),
        ("http://[2001:db8::7:3128", "give http://host:port"),
        ("http://[proxy]:3128", "give http://host:port"),
    ],
)
def test_what_is_no_proxy_is_refused_and_no_password_is_shown(proxy: object, said: str, tls: TLS) -> None:
    with pytest.raises(ProxyError, match=said) as raised:
        checked_proxy(proxy)
    assert "secret" not in str(raised.value)
    assert isinstance(tls.authority, Path)
    with pytest.raises(UsageError, match=said):
        Gateway(shuffler="localhost:1", authority=tls.authority, proxy=proxy)  # type: ignore[arg-type] # it is wrong


def test_this_machine_has_many_names() -> None:
    proxy = checked_proxy("http://[2001:db8::7]:3128/")
    assert proxy == "http://[2001:db8::7]:3128"
    for here in ("localhost:1", "a.localhost:1", "127.8.8.8:1", "[::1]:1", "https://[::1]:1", "https://localhost:1"):
        assert proxy_to(here, proxy) is None
        assert way_to(here, proxy) == here
    for there in ("192.0.2.1:1", "localhost.example.org:1", "https://[2001:db8::1]:1"):
        assert proxy_to(there, proxy) == proxy
        assert proxy_to(there, None) is None
