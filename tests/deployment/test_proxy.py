"""HAProxy takes what `hubbub init --proxy` writes; unit and compose file run it."""

from __future__ import annotations

import contextlib
import itertools
import re
import signal
import socket
import ssl
import subprocess
import time
import tomllib
from pathlib import Path

import pytest
from cryptography import x509

from hubbub.deploy.init.folders import LOOPBACK, Folder, Placement, initialize
from hubbub.deploy.init.proxy import (
    HTTPS_SHUFFLER_PORT,
    METRICS_PORT,
    MTLS_SHUFFLER_PORT,
    PUBLIC_PORT,
    SHUFFLER_PORT,
    Proxy,
    make_proxy,
)
from hubbub.deploy.local.ports import kept_address
from hubbub.deploy.pki.authority import Authority
from hubbub.protos.errors import Unreachable
from hubbub.protos.identity.keys import Role
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.protos.transport.tls_files import TlsCertificate, certificates_in
from hubbub.shuffler import settings as shuffler_settings
from support.cli import hubbub
from support.deployment_files import HOWTO, SYSTEMD, Unit, compose
from support.haproxy import Running, checked, haproxy, with_parts
from support.ipv6 import IPV6
from support.metrics_scrape import Scraped, fetch
from support.patience import CALL_SECONDS
from support.source_tree import ROOT

CONFIGURATION = "/etc/hubbub/proxy/haproxy.cfg"
PAGE = HOWTO / "public-port.md"
KEPT_AT_HOME = (
    "log ",
    "log-format",
    "httplog",
    "tcplog",
    "forwardfor",
    "send-proxy",
    "set-header",
    "add-header",
    "peers",
)
"""Words of configurations that would write an address down or hand it on."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    hosts = {Role.SHUFFLER: ["shuffler.example.org"]}
    placement = Placement(hosts, {Role.SHUFFLER: "0.0.0.0"}, proxy=True)
    return initialize(tmp_path_factory.mktemp("proxy") / "deployment", placement)


def configuration(made: Folder) -> Path:
    return made.of("proxy") / "haproxy.cfg"


def directives(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text().splitlines() if line.strip() and not line.strip().startswith("#")]


def test_haproxy_takes_the_configuration_without_a_warning(made: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked(configuration(made)) == ""
    # As the compose file runs it.
    for name, value in compose()["services"]["proxy"]["environment"].items():
        monkeypatch.setenv(name, value)
    assert checked(configuration(made)) == ""


@pytest.mark.parametrize("parts", [["mtls"], ["https"], ["mtls", "https"], ["http2"], ["mtls", "http2"]])
def test_haproxy_takes_it_with_the_parts_for_other_ports(made: Folder, parts: list[str]) -> None:
    text = configuration(made).read_text()
    taken = with_parts(text, *parts)
    assert taken.count("\nfrontend ") == text.count("\nfrontend ") + len(parts)
    path = made.of("proxy") / "parts.cfg"
    path.write_text(taken)
    try:
        assert checked(path) == ""
    finally:
        path.unlink()


def test_the_check_itself_sees_what_haproxy_does_not_take(made: Folder, tmp_path: Path) -> None:
    path = made.of("proxy") / "wrong.cfg"
    path.write_text(configuration(made).read_text().replace("max-total-streams", "max-total-dreams"))
    try:
        assert checked(path).startswith("status 1")
    finally:
        path.unlink()


def test_no_address_is_logged_or_handed_on(made: Folder) -> None:
    lines = directives(configuration(made))
    assert [
        line for line in lines if any(f" {word}" in f" {line} " for word in KEPT_AT_HOME) and line != "no log"
    ] == []
    assert "no log" in lines
    tables = [line for line in lines if line.startswith("stick-table")]
    assert tables
    assert all("expire 1m" in table for table in tables)


def test_devices_reach_the_proxy_and_the_proxy_the_shuffler(made: Folder) -> None:
    lines = directives(configuration(made))
    assert any(line.startswith(f"bind 0.0.0.0:{PUBLIC_PORT} ssl ") for line in lines)
    assert f"bind 127.0.0.1:{METRICS_PORT}" in lines
    settings = shuffler_settings.load(made.of("shuffler") / "shuffler.toml")
    assert settings.behind_proxy
    assert settings.listen == f"127.0.0.1:{SHUFFLER_PORT}"
    assert any(f'server shuffler "${{SHUFFLER-{settings.listen}}}"' in line for line in lines)
    assert f'`devices_listen = "127.0.0.1:{MTLS_SHUFFLER_PORT}"`' in configuration(made).read_text()
    assert f'`https_listen = "127.0.0.1:{HTTPS_SHUFFLER_PORT}"`' in configuration(made).read_text()
    # Devices call it by the shuffler's name, on the port that they would call without it.
    client = tomllib.loads((made.of("client") / "client.toml").read_text())
    assert client["shuffler"] == f"shuffler.example.org:{PUBLIC_PORT}"
    path = made.of("proxy") / "tls" / "proxy.pem"
    certificate = TlsCertificate.of(certificates_in(path.read_bytes(), str(path))[0], str(path))
    assert certificate.party == "proxy"
    assert "shuffler.example.org" in certificate.hosts


def test_the_proxys_folder_holds_no_secret_but_its_own_key(made: Folder) -> None:
    files = {str(path.relative_to(made.of("proxy"))): path for path in made.of("proxy").rglob("*") if path.is_file()}
    assert set(files) == {"haproxy.cfg", "tls/authority.pem", "tls/proxy.pem", "tls/proxy.pem.key"}
    assert [name for name, path in files.items() if b"PRIVATE" in path.read_bytes()] == ["tls/proxy.pem.key"]
    assert files["tls/proxy.pem.key"].stat().st_mode & 0o777 == 0o600


def test_a_new_certificate_is_for_the_hosts_of_the_old_one(made: Folder, tmp_path: Path) -> None:
    ran = hubbub("certificate", "proxy", "--authority", made.of("operator"), "--out", tmp_path / "new", "--json")
    assert ran.json["hosts"][0] == "shuffler.example.org"


def test_init_says_how_the_proxy_is_run(tmp_path: Path) -> None:
    assert f"haproxy -W -f {tmp_path}/new/proxy/haproxy.cfg" in hubbub("init", tmp_path / "new", "--proxy").out
    assert "haproxy" not in hubbub("init", tmp_path / "other").out
    assert not (tmp_path / "other" / "proxy").exists()


def test_unit_and_compose_file_run_the_configuration_that_was_made() -> None:
    unit = Unit.of("proxy")
    assert unit.command == ["/usr/sbin/haproxy", "-W", "-f", CONFIGURATION]
    reload = unit.all("ExecReload")
    assert reload == [f"/usr/sbin/haproxy -c -q -f {CONFIGURATION}", "kill -USR2 $MAINPID"]
    container = compose()["services"]["proxy"]
    assert container["command"] == ["haproxy", "-f", CONFIGURATION]
    assert container["ports"] == [f"{PUBLIC_PORT}:{PUBLIC_PORT}"]
    assert container["environment"] == {"SHUFFLER": f"shuffler:{SHUFFLER_PORT}"}
    mounted = {
        each["target"]: compose()[kind][each["source"]]["file"]
        for kind in ("configs", "secrets")
        for each in container[kind]
    }
    assert mounted == {f"/etc/hubbub/{name[2:]}": name for name in mounted.values()}
    assert {name.removeprefix("./proxy/") for name in mounted.values()} == {
        "haproxy.cfg",
        "tls/authority.pem",
        "tls/proxy.pem",
        "tls/proxy.pem.key",
    }
    assert [each["source"] for each in container["secrets"]] == ["proxy-tls-key"]


def test_the_image_is_pinned_to_the_version_that_tests_run() -> None:
    version = subprocess.run([haproxy(), "-v"], capture_output=True, text=True, check=True).stdout
    assert compose()["services"]["proxy"]["image"] == f"haproxy:{version.split()[2].partition('-')[0]}"


def test_the_proxy_is_as_hardened_as_the_shuffler() -> None:
    own = {
        "Description",
        "User",
        "Group",
        "ExecStart",
        "ExecReload",
        "KillSignal",
        "StateDirectory",
        "StateDirectoryMode",
    }
    units = [[each for each in Unit.of(service).entries if each[1] not in own] for service in ("shuffler", "proxy")]
    assert units[0] == units[1]
    assert Unit.of("proxy").one("KillSignal") == compose()["services"]["proxy"]["stop_signal"] == "SIGUSR1"
    accounts = (SYSTEMD / "hubbub.sysusers.conf").read_text().splitlines()
    assert Unit.of("proxy").one("User") in {line.split()[1] for line in accounts if line[:1] == "u"}
    hardened = (
        "user",
        "read_only",
        "cap_drop",
        "security_opt",
        "tmpfs",
        "ulimits",
        "pids_limit",
        "stop_grace_period",
        "restart",
    )
    services = compose()["services"]
    assert all(services["proxy"][key] == services["shuffler"][key] for key in hardened)


def test_every_limit_is_in_the_documentation_with_its_number(made: Folder) -> None:
    rows = dict(re.findall(r"(?m)^\| `([^`]+)` \| ([0-9]+) ?[a-z]* \|", PAGE.read_text()))
    text = "\n".join(directives(configuration(made)))
    ports = ("devices", "mtls", "https")
    # The last takes the place of the one before it, with the same limits.
    every_part = with_parts(configuration(made).read_text(), *ports, "http2")
    for name in (
        "maxconn",
        "tune.h2.fe.max-concurrent-streams",
        "tune.h2.fe.max-total-streams",
        "tune.h2.fe.glitches-threshold",
    ):
        assert rows[name] == re.search(rf"(?m)^{re.escape(name)} ([0-9]+)$", text)[1]  # type: ignore[index]
    for name in ("timeout http-request", "timeout client", "timeout http-keep-alive", "timeout server"):
        assert rows[name] == re.search(rf"(?m)^{name} ([0-9]+)s$", text)[1]  # type: ignore[index]
    for name in ("sc0_conn_cur", "sc0_conn_rate", "sc1_conn_cur", "sc1_conn_rate"):
        assert {rows[name]} == set(re.findall(rf"{name} gt ([0-9]+)", text))
        assert every_part.count(f"{{ {name} gt {rows[name]} }}") == 4
    *all_ports, in_place = re.findall(r"(?m)^ *maxconn ([0-9]+)$", every_part)
    assert in_place == all_ports[-1]
    assert all_ports == [rows[name] for name in ("maxconn", *(f"{port}: maxconn" for port in ports))]
    # Whoever takes all connections of devices leaves some for the numbers that tell of it.
    assert int(all_ports[0]) > sum(map(int, all_ports[1:]))
    assert [rows["deny: sc0_http_req_rate"], rows["reject: sc0_http_req_rate"]] == sorted(
        re.findall(r"sc0_http_req_rate gt ([0-9]+)", text)
    )


def test_many_addresses_of_one_network_together_are_refused(tmp_path: Path) -> None:
    """With 64 connections for each /64, 32 of the networks that one customer has took all there are.

    Loopback has one IPv6 address, so the table of networks is asked by the first 24 bits of IPv4 ones here.
    """
    with contextlib.ExitStack() as held:
        bound = [held.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024)) for _ in range(2)]
        addresses = [f"fd@{each.fileno()}" for each in bound]
        make_proxy(tmp_path, Proxy(addresses[0], "127.0.0.1:1", metrics=addresses[1]), Authority.generate(), LOOPBACK)
        path = tmp_path / "haproxy.cfg"
        text = path.read_text()
        assert "ipmask(32,48) table networks" in text
        path.write_text(text.replace("ipmask(32,48)", "ipmask(24,48)"))
        descriptors = [each.fileno() for each in bound]
        process = subprocess.Popen([haproxy(), "-db", "-f", str(path)], pass_fds=descriptors)
        try:
            running = Running("", "", "", tmp_path, process.pid, "{}:{}".format(*bound[1].getsockname()))
            for number in range(260):
                source = f"127.0.2.{number % 5 + 1}"
                held.enter_context(socket.create_connection(bound[0].getsockname(), 5.0, (source, 0)))
            held.enter_context(socket.create_connection(bound[0].getsockname(), 5.0, ("127.0.3.1", 0)))
            until = time.monotonic() + 20
            while running.total("connections_total") < 261 and time.monotonic() < until:
                assert process.poll() is None
            assert (running.total("connections_total"), running.total("denied_connections_total")) == (261, 4)
        finally:
            process.kill()
            process.wait()


@pytest.mark.skipif(not IPV6, reason="this machine has no IPv6")
def test_behind_a_port_of_both_families_an_address_of_ipv4_counts_by_itself_and_all_of_a_64_together(
    tmp_path: Path,
) -> None:
    """Callers by IPv4 come as ::ffff:… there: by the first 64 bits of that all of them would be one."""
    with contextlib.ExitStack() as held:
        ports = [kept_address().rpartition(":")[2] for _ in range(2)]
        listen, metrics = f"[::]:{ports[0]}", f"[::1]:{ports[1]}"
        assert Proxy.at("::").listen.startswith("[::]:")
        make_proxy(tmp_path / "proxy", Proxy(listen, "[::1]:1", metrics=metrics), Authority.generate(), LOOPBACK)
        path = tmp_path / "proxy" / "haproxy.cfg"
        process = subprocess.Popen([haproxy(), "-db", "-f", str(path)])
        held.callback(process.wait)
        held.callback(process.kill)
        running = Running("", "", "", tmp_path, process.pid, metrics)

        def denied(count: int) -> float:
            """How many are refused once so many have come."""
            while process.poll() is None and running.total("connections_total") < count:
                pass
            return running.total("denied_connections_total")

        def come(host: str, source: str) -> None:
            held.enter_context(socket.create_connection((host, ports[0]), 5.0, (source, 0)))

        connected = False
        while not connected:  # it is about to listen
            assert process.poll() is None
            with contextlib.suppress(ConnectionRefusedError):
                come("127.0.0.1", "127.0.2.1")
                connected = True
        for number in range(1, 80):
            come("127.0.0.1", f"127.0.{2 + number % 2}.1")
        assert denied(80) == 0
        for _ in range(70):
            come("::1", "::1")
        assert denied(150) == 70 - 64


def test_a_relays_devices_are_not_refused_where_the_page_exempts_it(tmp_path: Path) -> None:
    """All of them come from one address."""
    ((line,),) = [re.findall(r"(?m)^ +(tcp-request connection accept .*)$", PAGE.read_text())]
    with contextlib.ExitStack() as held:
        bound = [held.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024)) for _ in range(2)]
        addresses = [f"fd@{each.fileno()}" for each in bound]
        make_proxy(tmp_path, Proxy(addresses[0], "127.0.0.1:1", metrics=addresses[1]), Authority.generate(), LOOPBACK)
        path = tmp_path / "haproxy.cfg"
        first = "    tcp-request connection track-sc0"
        exempt = line.replace("192.0.2.9", "127.0.2.1")
        path.write_text(path.read_text().replace(first, f"    {exempt}\n{first}", 1))
        process = subprocess.Popen([haproxy(), "-db", "-f", str(path)], pass_fds=[each.fileno() for each in bound])
        try:
            running = Running("", "", "", tmp_path, process.pid, "{}:{}".format(*bound[1].getsockname()))
            for source in ["127.0.2.1"] * 100 + ["127.0.3.1"] * 70:
                held.enter_context(socket.create_connection(bound[0].getsockname(), 5.0, (source, 0)))
            until = time.monotonic() + 20
            while running.total("connections_total") < 170 and time.monotonic() < until:
                assert process.poll() is None
            # Those beyond 64 of the other address.
            assert (running.total("connections_total"), running.total("denied_connections_total")) == (170, 6)
        finally:
            process.kill()
            process.wait()


def test_the_page_names_every_limit_by_address_to_the_party_behind_a_relay(made: Folder) -> None:
    limits = set(re.findall(r"\{ (sc\d_\w+) gt", (made.of("proxy") / "haproxy.cfg").read_text()))
    relay = PAGE.read_text().partition("## A relay of another party")[2]
    assert limits == set(re.findall(r"`(sc\d_\w+)`", relay))


async def test_a_device_and_an_alert_say_that_the_proxy_does_not_reach_the_shuffler(tmp_path: Path) -> None:
    """As after a change of the TLS authority that the proxy was not given: it answers every call with 503."""
    rules = (ROOT / "deploy" / "alerts" / "hubbub.yaml").read_text()
    (name,) = re.findall(r'expr: increase\(haproxy_(\w+)\{proxy="shuffler"\}', rules)
    with contextlib.ExitStack() as held:
        bound = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        addresses = [f"fd@{each.fileno()}" for each in bound]
        make_proxy(tmp_path, Proxy(addresses[0], "127.0.0.1:1", metrics=addresses[1]), Authority.generate(), LOOPBACK)
        words = [haproxy(), "-db", "-f", str(tmp_path / "haproxy.cfg")]
        process = subprocess.Popen(words, pass_fds=[each.fileno() for each in bound])  # noqa: ASYNC220
        held.callback(process.wait)
        held.callback(process.kill)
        devices, numbers = ("{}:{}".format(*each.getsockname()) for each in bound)
        async with open_channel(devices, TLS(tmp_path / "tls" / "authority.pem")) as channel:
            says = r"the shuffler did not answer: the proxy in front of it does not reach it \(503\)$"
            with pytest.raises(Unreachable, match=says):
                await SubmissionCaller(channel).get_round(bytes(32), 0, CALL_SECONDS)
        assert Scraped(fetch(numbers)[1]).total(f"haproxy_{name}", proxy="shuffler") >= 1


def test_containers_need_one_line_of_the_shufflers_settings_changed_as_the_guide_says(made: Folder) -> None:
    (old, new) = re.findall(r"s/\^(listen = [^/]+)/(listen = [^/]+)/", (HOWTO / "containers.md").read_text())[0]
    text = (made.of("shuffler") / "shuffler.toml").read_text()
    assert len(re.findall(rf"(?m)^{old}", text)) == 1
    assert tomllib.loads(re.sub(rf"(?m)^{old}", new, text))["listen"] == f"0.0.0.0:{SHUFFLER_PORT}"


def serial(address: tuple[str, int], authority: Path, number: int) -> int:
    """The serial number of the certificate that is shown there to the caller of that number, by its own address."""
    context = ssl.create_default_context(cafile=str(authority))
    source = (f"127.0.1.{number % 250 + 1}", 0)
    with (
        socket.create_connection(address, 5.0, source) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as shown,
    ):
        certificate = shown.getpeercert(binary_form=True)
    assert certificate is not None
    return x509.load_der_x509_certificate(certificate).serial_number


def test_as_its_unit_runs_it_a_new_certificate_is_taken_by_reloading_and_sigusr1_ends_it(tmp_path: Path) -> None:
    authority, unit = Authority.generate(), Unit.of("proxy")
    with socket.create_server(("127.0.0.1", 0)) as devices, socket.create_server(("127.0.0.1", 0)) as metrics:
        bound = [each.fileno() for each in (devices, metrics)]
        proxy = Proxy(f"fd@{bound[0]}", "127.0.0.1:1", metrics=f"fd@{bound[1]}")
        make_proxy(tmp_path / "proxy", proxy, authority, LOOPBACK)
        tls = tmp_path / "proxy" / "tls"
        command = [haproxy(), *unit.command[1:-1], str(tmp_path / "proxy" / "haproxy.cfg")]
        process = subprocess.Popen(command, pass_fds=bound, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            place = devices.getsockname()
            before = serial(place, tls / "authority.pem", 0)
            for name in ("proxy.pem", "proxy.pem.key"):
                (tls / name).unlink()
            authority.issue("proxy", LOOPBACK, tls / "proxy.pem", tls / "proxy.pem.key")
            assert "-USR2 $MAINPID" in unit.all("ExecReload")[-1]
            until, callers, now = time.monotonic() + 20, itertools.count(1), before
            # One that comes while it is starting is lost. Every call is answered, by the process before or the next.
            while now == before and time.monotonic() < until:
                process.send_signal(signal.SIGUSR2)
                again = time.monotonic() + 1
                while now == before and time.monotonic() < again:
                    now = serial(place, tls / "authority.pem", next(callers))
            assert now == x509.load_pem_x509_certificate((tls / "proxy.pem").read_bytes()).serial_number
            while process.poll() is None and time.monotonic() < until:
                process.send_signal(signal.Signals[unit.one("KillSignal")])
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1)
            assert process.poll() == 0
        finally:
            process.kill()
            process.wait()
