"""Whom it answers, with what, and what it withstands."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import prometheus_client
import pytest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hubbub.protos.errors import HubbubError
from hubbub.protos.transport.channels import TLS
from hubbub.service.observability.collectors import Ages
from hubbub.service.observability.shared_metrics import Disk, Metrics
from hubbub.service.transport import metrics_port
from hubbub.service.transport.metrics_port import CONNECTIONS, MetricsPort
from support.ipv6 import IPV6
from support.metrics_scrape import Scraped, fetch
from support.patience import CALL_SECONDS, PATIENCE
from support.samples import make_tls


@contextlib.contextmanager
def port(
    address: str, tls: TLS | None = None, registry: prometheus_client.CollectorRegistry | None = None
) -> Iterator[str]:
    opened = MetricsPort(address, registry or Metrics("shuffler", ["admit"]).registry, tls or TLS(b""))
    try:
        yield opened.address
    finally:
        opened.close()


def context(tls: TLS) -> ssl.SSLContext:
    assert isinstance(tls.authority, Path)
    made = ssl.create_default_context(cafile=str(tls.authority))
    if tls.certificate is not None:
        made.load_cert_chain(tls.certificate, tls.key)
    return made


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:0", "[::1]:0"])
def test_on_loopback_it_answers_whoever_is_on_the_machine(address: str) -> None:
    if "::1" in address and not IPV6:
        pytest.skip("this machine has no IPv6")
    with port(address) as opened:
        status, text = fetch(opened)
    scraped = Scraped(text)
    assert status == 200
    assert scraped.value("process_open_fds") > 0
    assert scraped.value("hubbub_shuffler_build_info") == 1
    assert scraped.value("hubbub_shuffler_stage_duration_seconds_count", stage="admit") == 0


def test_only_the_documented_path_and_method_are_answered() -> None:
    with port("127.0.0.1:0") as opened:
        assert fetch(opened, "/")[0] == 404
        assert fetch(opened, "/metrics/../secrets")[0] == 404
        connection = http.client.HTTPConnection(opened, timeout=PATIENCE)
        connection.request("POST", "/metrics", body=b"x")
        assert connection.getresponse().status == 405
        connection.close()


@pytest.mark.parametrize(("role", "status"), [("operator", 200), ("monitor", 200), ("analyzer", 403), ("reader", 403)])
def test_beyond_loopback_it_answers_monitors_only(tmp_path: Path, role: str, status: int) -> None:
    tls = make_tls(tmp_path, "shuffler", role)
    with port("0.0.0.0:0", tls["shuffler"]) as opened:
        local = f"127.0.0.1:{opened.rpartition(':')[2]}"
        assert fetch(local, context=context(tls[role]))[0] == status


def test_beyond_loopback_nobody_reads_without_a_certificate_of_the_authority(tmp_path: Path) -> None:
    tls = make_tls(tmp_path / "own", "shuffler")["shuffler"]
    foreign = make_tls(tmp_path / "foreign", "operator")["operator"]
    with port("0.0.0.0:0", tls) as opened:
        local = f"127.0.0.1:{opened.rpartition(':')[2]}"
        for shown in (TLS(tls.authority), TLS(tls.authority, foreign.certificate, foreign.key)):
            with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
                fetch(local, context=context(shown))
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            fetch(local)


@contextlib.contextmanager
def dripping(opened: str, count: int) -> Iterator[list[socket.socket]]:
    """Connections that send a request little by little, and never end it."""
    host, _, number = opened.rpartition(":")
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(socket.create_connection((host, int(number)), timeout=10)) for _ in range(count)]
        for each in made:
            each.sendall(b"GET /metrics HTTP/1.0\r\nx: ")
        yield made


def test_dripping_connections_make_room_for_whoever_asks() -> None:
    with port("127.0.0.1:0") as opened, dripping(opened, CONNECTIONS) as slow:
        assert fetch(opened)[0] == 200
        # The one that took longest made room; all others may still end their request.
        assert slow[0].recv(1) == b""
        slow[1].sendall(b"y\r\n\r\n")
        assert slow[1].recv(12) == b"HTTP/1.0 200"


def test_a_request_that_is_not_whole_in_time_is_closed_however_often_it_sends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics_port, "READ_SECONDS", 0.3)
    with port("127.0.0.1:0") as opened, dripping(opened, 1) as (slow,):
        slow.settimeout(0.02)
        until = time.monotonic() + CALL_SECONDS
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < until:
                slow.sendall(b"y")
                with contextlib.suppress(TimeoutError):
                    assert slow.recv(1) == b""
                    return
        assert time.monotonic() < until


class Held(Collector):
    """Collects nothing until it is let."""

    def __init__(self) -> None:
        self.entered, self.let = threading.Semaphore(0), threading.Event()

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield from ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        self.entered.release()
        assert self.let.wait(CALL_SECONDS)
        yield from ()


def test_who_has_asked_is_answered_whoever_comes_after() -> None:
    held, registry = Held(), prometheus_client.CollectorRegistry()
    registry.register(held)
    with port("127.0.0.1:0", registry=registry) as opened, dripping(opened, CONNECTIONS) as asking:
        for each in asking:
            each.sendall(b"y\r\n\r\n")
        assert all(held.entered.acquire(timeout=PATIENCE) for _ in asking)
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            fetch(opened)
        held.let.set()
        assert [each.recv(12) for each in asking] == [b"HTTP/1.0 200"] * CONNECTIONS


class Failing(Collector):
    def collect(self) -> Iterator[GaugeMetricFamily]:
        raise RuntimeError("a secret in a message")
        yield


def test_a_failing_collector_is_an_error_without_details(capfd: pytest.CaptureFixture[str]) -> None:
    registry = prometheus_client.CollectorRegistry(auto_describe=False)
    registry.register(Failing())
    with port("127.0.0.1:0", registry=registry) as opened:
        status, text = fetch(opened)
    assert status == 503
    output = capfd.readouterr()
    assert "secret" not in text + output.out + output.err


@pytest.mark.parametrize("address", ["127.0.0.1:70000", "no.such.host.invalid:1", "192.0.2.1:0"])
def test_addresses_that_cannot_be_used_are_named(tmp_path: Path, address: str) -> None:
    with pytest.raises(HubbubError, match=address.replace(".", r"\.")):
        MetricsPort(address, Metrics("shuffler", []).registry, make_tls(tmp_path, "shuffler")["shuffler"])


def test_a_port_in_use_is_refused() -> None:
    with port("127.0.0.1:0") as opened, pytest.raises(HubbubError, match=opened):
        MetricsPort(opened, Metrics("shuffler", []).registry, TLS(b""))


def test_disk_shows_the_size_of_the_store_and_the_room_there_is(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(bytes(5000))
    size, free = Disk("analyzer", tmp_path).collect()
    assert (size.name, size.samples[0].value) == ("hubbub_analyzer_store_size_bytes", 5000)
    assert free.samples[0].value > 0


def test_ages_begin_when_something_is_first_seen_and_end_when_it_is_gone() -> None:
    now = [100.0]
    ages = Ages(lambda: now[0])
    assert ages.of(["a"]) == {"a": 0.0}
    now[0] = 130.0
    assert ages.of(["a", "b"]) == {"a": 30.0, "b": 0.0}
    now[0] = 90.0
    assert ages.of(["b"]) == {"b": 0.0}
    assert ages.of(["a"]) == {"a": 0.0}


def test_new_tls_files_are_shown_once_they_are_taken(tmp_path: Path) -> None:
    files, renewals = make_tls(tmp_path / "old", "shuffler", "monitor"), [0]
    registry = Metrics("shuffler", ["admit"]).registry
    opened = MetricsPort("0.0.0.0:0", registry, files["shuffler"], lambda: renewals[0])
    try:
        address = f"127.0.0.1:{opened.address.rpartition(':')[2]}"
        old = context(files["monitor"])
        assert fetch(address, context=old)[0] == 200
        made = make_tls(tmp_path / "new", "shuffler", "monitor")
        for name in ("authority.pem", "shuffler.pem", "shuffler.key"):
            (tmp_path / "new" / name).replace(tmp_path / "old" / name)
        assert fetch(address, context=old)[0] == 200
        renewals[0] = 1
        with pytest.raises(ssl.SSLError):
            fetch(address, context=old)
        made_context = context(replace(made["monitor"], authority=tmp_path / "old" / "authority.pem"))
        assert fetch(address, context=made_context)[0] == 200
    finally:
        opened.close()
