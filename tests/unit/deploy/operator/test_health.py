"""A service says at each of its ports whether it serves, and only the service itself can say it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from pathlib import Path

import pytest
import typer

from hubbub.cli.commands.health import STOPPING, WORKING, ServiceKind, _silent, command
from hubbub.deploy.init.cluster import STORES, Cluster
from hubbub.deploy.init.folders import Placement, initialize
from hubbub.deploy.init.hops import Hops
from hubbub.deploy.operator.health import ask, ask_parts, ask_why, ports_of, store_of
from hubbub.protos.errors import Distrusted, HubbubError
from hubbub.protos.identity.keys import Role
from hubbub.protos.rpc.health import PARTS, part_name
from hubbub.protos.transport.channels import TLS
from hubbub.service.transport import health
from hubbub.service.transport.grpc_server import listen
from hubbub.service.transport.health import Health
from support.ended_with_test import opened_server

WAIT = 5.0


def settings(folder: Path, role: Role, **replaced: str) -> Path:
    """A service's settings in a new deployment, some addresses replaced."""
    path = initialize(folder / "deployment").of(role.value) / f"{role.value}.toml"
    text = path.read_text()
    for old, new in replaced.items():
        text = text.replace(f'{old} = "127.0.0.1:', f'{old} = "{new}:')
    path.write_text(text)
    return path


def test_ports_are_those_of_the_settings(tmp_path: Path) -> None:
    assert ports_of("shuffler", settings(tmp_path / "a", Role.SHUFFLER))[0] == {
        "submission": "127.0.0.1:7301",
        "control": "127.0.0.1:7302",
    }
    assert ports_of("analyzer", settings(tmp_path / "b", Role.ANALYZER))[0] == {
        "delivery": "127.0.0.1:7401",
        "results": "127.0.0.1:7402",
    }
    hop = initialize(tmp_path / "c", Placement(hops=Hops(2))).of("hop-3") / "hop.toml"
    assert ports_of("hop", hop)[0] == {"delivery": "127.0.0.1:7511"}


def test_of_a_cluster_each_is_asked_at_the_ports_that_it_has(tmp_path: Path) -> None:
    root = initialize(tmp_path / "deployment", Placement(cluster=Cluster())).root
    leader, standby = (root / name / "shuffler.toml" for name in ("shuffler", "standby"))
    frontend = root / "frontend-2" / "frontend.toml"
    assert ports_of("shuffler", leader)[0] == {"control": "127.0.0.1:7302"}
    assert ports_of("shuffler", standby)[0] == {"control": "127.0.0.1:7312"}
    assert ports_of("shuffler", frontend)[0] == {"submission": "127.0.0.1:7611"}
    assert store_of("shuffler", frontend) == store_of("shuffler", leader) == STORES[Role.SHUFFLER]
    assert store_of("analyzer", root / "analyzer" / "analyzer.toml") == STORES[Role.ANALYZER]


@pytest.mark.parametrize(("listened", "asked"), [("0.0.0.0", "127.0.0.1"), ("[::]", "[::1]"), ("10.1.2.3", "10.1.2.3")])
def test_a_service_that_listens_everywhere_is_asked_on_loopback(tmp_path: Path, listened: str, asked: str) -> None:
    ports, _ = ports_of("shuffler", settings(tmp_path, Role.SHUFFLER, listen=listened))
    assert ports["submission"] == f"{asked}:7301"


def test_a_port_of_the_systems_choice_cannot_be_asked(tmp_path: Path) -> None:
    path = settings(tmp_path, Role.SHUFFLER)
    path.write_text(path.read_text().replace(":7301", ":0"))
    with pytest.raises(HubbubError, match=r"the submission port in .* is 0"):
        ports_of("shuffler", path)


def test_who_asks_without_the_services_knows_all_kinds_of_parts() -> None:
    assert {part_name(kind) for kind in PARTS} == set(health.PARTS.values())
    # The command says of each whether the service works meanwhile.
    assert sorted([*STOPPING, *WORKING]) == sorted(PARTS)


async def test_it_serves_once_the_service_says_so_and_not_before(tmp_path: Path) -> None:
    """The certificate is for a name that is no address of the port: the service is told by it all the same."""
    hosts = {Role.SHUFFLER: ["shuffler.example"]}
    folder = initialize(tmp_path / "deployment", Placement(hosts)).of("shuffler") / "tls"
    tls = TLS(folder / "authority.pem", folder / "shuffler.pem", folder / "shuffler.key")
    async with opened_server() as server:
        health = Health(server, ["hubbub.v1.Anything"])
        ports = {"submission": f"127.0.0.1:{listen(server, '127.0.0.1:0', tls.server(mutual=True))}"}
        await server.start()
        assert await ask(ports, tls, 0.3) == {"submission": False}
        assert "accepts no calls now" in str((await ask_why(ports, tls, WAIT))["submission"])
        await health.serving()
        assert await ask(ports, tls, WAIT) == {"submission": True}
        # However short the wait is, the service has the time to answer.
        assert await ask(ports, tls, 0) == {"submission": True}
        assert await ask_parts(ports, tls, 0) == frozenset()
        await health.parts(frozenset({"store"}))
        assert await ask_parts(ports, tls, 0) == frozenset({"store"})
        await health.leaving()
        assert await ask(ports, tls, 0.3) == {"submission": False}


@pytest.mark.parametrize("live", [False, True])
async def test_a_service_that_waits_says_for_what_and_is_not_to_be_started_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], live: bool
) -> None:
    path = settings(tmp_path, Role.SHUFFLER)
    _, tls = ports_of("shuffler", path)
    async with contextlib.AsyncExitStack() as stack:
        for number in (7301, 7302):
            server = await stack.enter_async_context(opened_server())
            health = Health(server, [])
            port = listen(server, "127.0.0.1:0", tls.server(mutual=True))
            await server.start()
            await health.waiting("there is no task yet; publish one")
            path.write_text(path.read_text().replace(f":{number}", f":{port}"))
        if live:
            await asyncio.to_thread(command, ServiceKind.SHUFFLER, path, 0, live, as_json=False)
            assert "is well, and does not serve yet submission at" in "".join(capsys.readouterr())
        else:
            with pytest.raises(typer.Exit):
                await asyncio.to_thread(command, ServiceKind.SHUFFLER, path, 0, live, as_json=False)
            said = "".join(capsys.readouterr())
            assert "there is no task yet; publish one" in said
            assert "its log may have the cause" not in said


async def test_another_partys_server_does_not_pass_for_the_service(tmp_path: Path) -> None:
    hosts = {Role.SHUFFLER: ["shuffler.example"], Role.ANALYZER: ["analyzer.example"]}
    folder = initialize(tmp_path / "deployment", Placement(hosts))
    own, other = (
        TLS(tls / "authority.pem", tls / f"{tls.parent.name}.pem", tls / f"{tls.parent.name}.key")
        for tls in (folder.of("shuffler") / "tls", folder.of("analyzer") / "tls")
    )
    async with opened_server() as server:
        health = Health(server, [])
        ports = {"submission": f"127.0.0.1:{listen(server, '127.0.0.1:0', other.server(mutual=True))}"}
        await server.start()
        await health.serving()
        assert await ask(ports, other, WAIT) == {"submission": True}
        assert await ask(ports, own, 0.5) == {"submission": False}
        (why,) = (await ask_why(ports, own, WAIT)).values()
        assert isinstance(why, Distrusted)
        assert "it is not trusted: its TLS certificate is " in str(why)


async def test_nobody_there_is_not_waited_for_without_an_end(tmp_path: Path) -> None:
    _, tls = ports_of("analyzer", settings(tmp_path, Role.ANALYZER))
    assert await asyncio.wait_for(ask({"delivery": "127.0.0.1:1"}, tls, 0.3), 60) == {"delivery": False}


@pytest.mark.parametrize("as_json", [False, True])
def test_why_a_port_does_not_serve_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    path = settings(tmp_path, Role.SHUFFLER)
    path.write_text(path.read_text().replace(":7301", ":1").replace(":7302", ":2"))
    with pytest.raises(typer.Exit):
        command(ServiceKind.SHUFFLER, path, wait=0.2, live=False, as_json=as_json)
    said = capsys.readouterr()
    if as_json:
        assert "connection refused" in json.loads(said.out)["reasons"]["control"]
    else:
        assert "control at 127.0.0.1:2: it did not answer: no server listens there" in said.err
        assert said.err.count("no server listens") == 1


async def test_a_certificate_without_a_name_is_refused(tmp_path: Path) -> None:
    folder = initialize(tmp_path / "deployment")
    tls = folder.of("shuffler") / "tls"
    shutil.copy(folder.of("operator") / "tls" / "operator.pem", tls / "shuffler.pem")
    ports, files = ports_of("shuffler", tls.parent / "shuffler.toml")
    with pytest.raises(HubbubError, match="not a certificate for a host name"):
        await ask(ports, files, 0)


def test_ports_that_do_not_serve_for_different_reasons_have_each_its_own() -> None:
    silent = {"submission": "h:1", "control": "h:2"}
    refused, distrusted = HubbubError("no server listens there"), HubbubError("it is not trusted")
    told = _silent(silent, {"submission": refused, "control": distrusted})
    assert told.startswith("submission at h:1: no server listens there; control at h:2: it is not trusted;")
    assert _silent(silent, {"submission": refused, "control": refused}).startswith(
        "submission at h:1, control at h:2: no server listens there;"
    )
