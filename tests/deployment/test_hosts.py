"""Hosts with their own addresses run the whole pipeline with what the units start, as the guide walks it."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hubbub.protos.identity.keys import Identity, load_public
from support.cli import hubbub
from support.deployment_files import SERVICES, Unit, command_of
from support.virtual_hosts import Host, NoNamespaces, in_namespaces, on_loopback

CHAIN = ("shuffler", "hop-2", "analyzer")
NAMES = (*CHAIN, "outside")
DEVICES = 120
WAIT = "60"

TASK = """
[task]
name = "usage"
start = {start}
length = "1d"
grace = "1h"
minimum_reports = 100
close = "operator"

[privacy]
epsilon = 4.0
delta = 1e-3
epsilon_local = 16
honest_share = 1.0

[admission]
mode = "open"

[[query]]
name = "theme"
kind = "histogram"
categories = ["light", "dark"]
"""

PLAY = """
import asyncio, sys
from pathlib import Path
from hubbub.client import Fleet

async def play(address):
    files = Path("client")
    keys = {f"{role}_key": (files / f"trust/{role}.pub.pem").read_bytes() for role in ("operator", "shuffler")}
    task, authority = (files / "task.json").read_bytes(), files / "tls/authority.pem"
    fleet = Fleet(task, **keys, state=files / "fleet.db", shuffler=address, authority=authority)
    async with fleet:
        devices = [(str(number), {"theme": "dark"}) for number in range(int(sys.argv[2]))]
        print((await fleet.submit_many(devices, 0)).accepted)

asyncio.run(play(sys.argv[1]))
"""


# Hosts in namespaces do the same, where these can be made: addresses of their own are the harder case.
@pytest.fixture(params=["namespaces", pytest.param("loopback", marks=pytest.mark.exhaustive)])
def hosts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Host]]:
    """The hosts; the test's name says of which kind."""
    with contextlib.ExitStack() as held:
        if request.param == "loopback":
            yield held.enter_context(on_loopback(tmp_path, NAMES))
            return
        try:
            found = held.enter_context(in_namespaces(tmp_path, NAMES, CHAIN))
        except NoNamespaces as error:
            pytest.skip(f"no network namespaces here: {error}")
        yield found


@dataclass
class Fleet:
    """The hosts with what runs on them: `services`."""

    hosts: dict[str, Host]
    running: dict[str, subprocess.Popen[bytes]]
    services: tuple[str, ...] = SERVICES

    @property
    def outside(self) -> Host:
        return self.hosts["outside"]

    def called(self, service: str) -> str:
        """What a service is called: a name where hosts know names, else its address."""
        host = self.hosts[service]
        return f"{service}.example.org" if host.enter else host.address

    def settings(self, service: str) -> Path:
        return self.hosts[service].root / "etc" / "hubbub" / service / f"{command_of(service)}.toml"

    def start(self, service: str) -> None:
        self.running[service] = self.hosts[service].start(Unit.of(service))

    def healthy(self, service: str, wait: str = WAIT) -> bool:
        words = ("health", command_of(service), self.settings(service), "--wait", wait)
        ran = self.hosts[service].hubbub(*words, check=False)
        return ran.returncode == 0

    def stop(self, service: str) -> int:
        """Stop a service as its unit does, and return its exit status; it ends in the unit's time."""
        unit = Unit.of(service)
        assert unit.one("KillMode") == "mixed"  # the main process alone
        process = self.running.pop(service)
        process.send_signal(signal.Signals[unit.one("KillSignal")])
        return process.wait(timeout=int(unit.one("TimeoutStopSec")))

    def log(self, service: str) -> str:
        return (self.hosts[service].files / f"{service}.log").read_text()


@pytest.fixture
def fleet(hosts: dict[str, Host]) -> Iterator[Fleet]:
    fleet = Fleet(hosts, {})
    yield fleet
    for process in fleet.running.values():
        process.kill()
        process.wait()


def set_up(fleet: Fleet) -> None:
    """Steps 2 to 4 of the guide: identities where they are used, one `init`, the folders carried to their hosts."""
    outside = fleet.outside
    for service in fleet.services:
        host = fleet.hosts[service]
        made = host.files / "made"
        made.mkdir(exist_ok=True)
        assert hubbub("identity", f"{service}.pem", folder=made).status == 0
        shutil.copy(made / f"{service}.pub.pem", outside.files / f"{service}.pub.pem")
    initialize(fleet)
    for service in fleet.services:
        host = fleet.hosts[service]
        shutil.copytree(outside.files / "deployment" / service, host.files / "etc" / "hubbub" / service)
        identity = host.files / "etc" / "hubbub" / service / "identity.pem"
        assert not identity.exists()
        if not host.enter:  # metrics stay on 127.0.0.1, which hosts on loopback share with whatever else runs here
            settings = identity.with_name(f"{command_of(service)}.toml")
            settings.write_text(
                settings.read_text().replace('metrics_listen = "127.0.0.1:', f'metrics_listen = "{host.address}:')
            )
        shutil.move(host.files / "made" / f"{service}.pem", identity)
        trusted = outside.files / "deployment" / "operator" / "trust" / f"{service}.pub.pem"
        assert Identity.load(identity).public == load_public(trusted)
    shutil.copytree(outside.files / "deployment" / "client", outside.files / "client")
    agree(fleet)


def initialize(fleet: Fleet) -> None:
    words: list[str | Path] = ["init", "deployment", "--data", fleet.outside.root / "var" / "lib" / "hubbub"]
    for service in fleet.services:
        host, name = fleet.hosts[service], command_of(service)
        listen = "0.0.0.0" if host.enter else host.address
        words += [f"--{name}-key", f"{service}.pub.pem", f"--{name}-host", fleet.called(service)]
        words += [f"--{name}-listen", listen]
    words += ["--hops", str(len(fleet.services) - 1)]
    fleet.outside.hubbub(*words)


def agree(fleet: Fleet) -> None:
    """The operator plans and signs, the shuffler signs where its key is, and everyone gets the task."""
    outside, shuffler = fleet.outside, fleet.hosts["shuffler"]
    operator = outside.files / "deployment" / "operator"
    start = time.strftime("%Y-%m-%dT%H:00:00Z", time.gmtime())
    (operator / "task.toml").write_text(TASK.format(start=start))
    outside.hubbub("plan", "deployment/operator/task.toml", "--out", "deployment/operator/task.json")
    outside.hubbub("sign", "deployment/operator/task.json", "--key", "deployment/operator/identity.pem")
    task = shuffler.files / "made" / "task.json"
    shutil.copy(operator / "task.json", task)
    identity = shuffler.files / "etc" / "hubbub" / "shuffler" / "identity.pem"
    assert hubbub("sign", task, "--key", identity).status == 0
    for service in fleet.services:
        shutil.copy(task, fleet.hosts[service].files / "etc" / "hubbub" / service / "tasks")
    shutil.copy(task, operator / "task.json")
    shutil.copy(task, outside.files / "client" / "task.json")


# The tests below have what the units allow, test_files.py what they start, simulation/test_pipeline.py rounds.
@pytest.mark.exhaustive
def test_two_hosts_run_the_pipeline_with_what_the_units_start(fleet: Fleet) -> None:
    run_the_pipeline(fleet)


# simulation/test_chain.py runs hops, and the test above the units.
@pytest.mark.exhaustive
@pytest.mark.parametrize("hosts", ["loopback"], indirect=True)
def test_a_hop_on_a_host_of_its_own_is_one_more_unit(fleet: Fleet) -> None:
    fleet.services = CHAIN
    verified = run_the_pipeline(fleet)
    assert "theme: hop-2 received 120 envelopes, passed on 120" in verified
    assert " if one of the 2 shufflers, the analyzer and everyone who answers are honest" in verified


def run_the_pipeline(fleet: Fleet) -> str:
    """Walk the guide, the services restarted in the middle of a round; return what `hubbub verify` says."""
    set_up(fleet)
    for service in fleet.services:
        fleet.hosts[service].hubbub(command_of(service), fleet.settings(service), "--create-store")
        fleet.start(service)
    for service in fleet.services:
        assert fleet.healthy(service), fleet.log(service)
    outside, operator = fleet.outside, "deployment/operator/operator.toml"

    played = outside.run(sys.executable, "-c", PLAY, f"{fleet.called('shuffler')}:7301", str(DEVICES - 1))
    assert int(played.stdout) == DEVICES - 1
    (outside.files / "answers.txt").write_text("theme=light\n")
    outside.hubbub("submit", "client/client.toml", "--answers", "answers.txt")
    (status,) = json.loads(outside.hubbub("status", operator, "--json").stdout)["rounds"]
    # Nobody is told of a single one before the cut.
    assert (status["state"], status["submissions"]) == ("open", DEVICES // 100 * 100)
    assert status["waiting_for"].endswith("; its minimum is reached") is (status["minimum_reports"] <= DEVICES)

    # All are restarted as systemd does it, in the middle of the round: nothing that was acknowledged is lost.
    for service in fleet.services:
        assert fleet.stop(service) == 0, fleet.log(service)
        assert not fleet.healthy(service, "0.2")
        fleet.start(service)
    for service in fleet.services:
        assert fleet.healthy(service), fleet.log(service)

    outside.hubbub("close", operator, "deployment/operator/task.json", "--round", "0")
    results = ("results", operator, "--task", status["task_id"], "--round", "0", "--wait", WAIT)
    found = json.loads(outside.hubbub(*results, "--certificate", "certificate.json", "--json").stdout)
    (query,) = found["queries"]
    assert (query["reports"], query["valid"]) == (DEVICES, DEVICES)
    pins = [f"--{role}-key=deployment/operator/trust/{role}.pub.pem" for role in ("operator", *SERVICES)]
    verified = outside.hubbub("verify", "certificate.json", *pins).stdout
    assert "the certificate is valid" in verified
    for service in fleet.services:
        assert fleet.stop(service) == 0, fleet.log(service)
    return verified


def test_a_host_reaches_the_others_and_nothing_else(hosts: dict[str, Host]) -> None:
    """The test's own promise: no packet leaves the machine. 192.0.2.1 is an address that documents use."""
    script = "import socket, sys; socket.create_connection((sys.argv[1], 7301), timeout=5)"
    if not hosts["outside"].enter:
        assert all(host.address.startswith("127.") for host in hosts.values())
        return
    refused = hosts["outside"].run(sys.executable, "-c", script, hosts["shuffler"].address, check=False)
    assert "ConnectionRefusedError" in refused.stderr
    nowhere = hosts["outside"].run(sys.executable, "-c", script, "192.0.2.1", check=False)
    assert "Network is unreachable" in nowhere.stderr


def test_in_a_namespace_a_service_can_write_to_its_store_only(hosts: dict[str, Host]) -> None:
    """As ProtectSystem=strict has it: the pipeline above runs without a place for anything else."""
    shuffler = hosts["shuffler"]
    if not shuffler.enter:
        pytest.skip("loopback hosts share this machine's files")
    store = shuffler.root / "var" / "lib" / "hubbub" / "shuffler"
    assert shuffler.run("touch", store / "file").returncode == 0
    for folder in (shuffler.root, Path("/usr"), Path("/etc")):
        refused = shuffler.run("touch", folder / "hubbub-was-here", check=False)
        assert "Read-only file system" in refused.stderr
