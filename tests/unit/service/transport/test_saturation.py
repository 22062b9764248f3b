"""A full limit is said once, with what it is full of, while it refuses calls; every refused call is counted."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import grpc
import prometheus_client
import pytest
import structlog

from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.observability.rounding import CountRounding, RoundedRegistry
from hubbub.service.rpc.concurrency import PortLimit, PortLimits
from hubbub.service.rpc.pipeline import RequestPipeline
from hubbub.service.transport.ports import Ports
from hubbub.service.transport.saturation import QUIET_LOOKS, PortSaturation, SaturationCollector
from hubbub.shuffler.metrics import is_exact


def test_a_full_limit_is_logged_once_and_over_when_nothing_was_refused_for_a_while() -> None:
    pipeline, incidents = RequestPipeline(), Incidents()
    saturation = PortSaturation("submission", pipeline.admission)
    with structlog.testing.capture_logs() as logs:
        saturation.look(incidents)
        assert incidents.now() == ()
        for _ in range(3):
            pipeline.admission.refused[PortLimit.CALLS] += 100
            saturation.look(incidents)
        (incident,) = incidents.now()
        assert incident.kind == IncidentKind.PORTS
        assert incident.text.startswith(
            "the submission port refuses calls: 4096 calls are in work; check [limits] in the"
        )
        for _ in range(QUIET_LOOKS - 1):
            saturation.look(incidents)
        assert len(incidents.now()) == 1
        saturation.look(incidents)
        assert incidents.now() == ()
    assert [line["event"] for line in logs] == ["calls refused", "calls refused: over"]
    assert (logs[0]["port"], logs[0]["limit"]) == ("submission", "calls")


@pytest.mark.parametrize("limit", [PortLimit.EMPTY_RECORDS, PortLimit.SMALL_RECORDS, PortLimit.HANDSHAKE])
def test_tls_that_no_honest_program_sends_is_an_incident(limit: PortLimit) -> None:
    pipeline, incidents = RequestPipeline(), Incidents()
    saturation = PortSaturation("https", pipeline.admission)
    pipeline.admission.refused[limit] += 1
    saturation.look(incidents)
    (incident,) = incidents.now()
    assert (incident.kind, "TLS" in incident.text) == (IncidentKind.PORTS, True)
    assert saturation.full_seconds["https", limit] == 1


def test_single_faults_and_slow_callers_are_no_incident() -> None:
    pipeline, incidents = RequestPipeline(), Incidents()
    saturation = PortSaturation("submission", pipeline.admission)
    for limit in (PortLimit.SIZE, PortLimit.COUNT, PortLimit.COMPRESSED, PortLimit.PEER, PortLimit.UNFINISHED):
        pipeline.admission.refused[limit] += 1
    saturation.look(incidents)
    assert incidents.now() == ()


def test_calls_are_shown_by_port_and_limit() -> None:
    pipelines = {"submission": RequestPipeline(), "control": RequestPipeline()}
    pipelines["control"].admission.acquire("operator", 10)
    pipelines["submission"].admission.refused[PortLimit.EVICTED] = 7
    registry = prometheus_client.CollectorRegistry()
    registry.register(SaturationCollector("shuffler", pipelines, dict))
    value = registry.get_sample_value
    assert value("hubbub_shuffler_calls_in_work", {"port": "control"}) == 1
    assert value("hubbub_shuffler_calls_unfinished", {"port": "submission"}) == 0
    for port in pipelines:
        for limit in PortLimit:
            expected = 7 if (port, limit) == ("submission", PortLimit.EVICTED) else 0
            labels = {"port": port, "limit": limit.value}
            assert value("hubbub_shuffler_calls_refused_total", labels) == expected


def test_a_full_limit_is_shown_from_its_first_second_on_whatever_the_step() -> None:
    """A minute in which the connections were all taken counted 60 refusals, shown as 0: the documented alert slept."""
    pipelines = {"submission": RequestPipeline()}
    saturation = PortSaturation("submission", pipelines["submission"].admission)
    registry = RoundedRegistry(CountRounding(100), is_exact)
    registry.register(SaturationCollector("shuffler", pipelines, lambda: saturation.full_seconds))
    labels = {"port": "submission", "limit": "connections"}
    for second in range(1, 61):
        pipelines["submission"].admission.refused[PortLimit.CONNECTIONS] += 1
        saturation.look(Incidents())
        assert registry.get_sample_value("hubbub_shuffler_limit_full_seconds_total", labels) == second
    assert registry.get_sample_value("hubbub_shuffler_calls_refused_total", labels) == 0


async def test_the_calls_that_ask_how_a_port_is_are_looked_at_too() -> None:
    ports = Ports()
    await ports.open("submission", "127.0.0.1:0", "service", grpc.aio.server(), grpc.local_server_credentials())
    try:
        (health,) = ports._healths
        health.admission.refused[PortLimit.CALLS] += 1
        ports.look(Incidents())
        assert ports.full_seconds()["submission health", PortLimit.CALLS] == 1
    finally:
        await ports.drain()


def test_a_port_whose_connections_are_all_taken_says_so() -> None:
    if not Path("/proc/self/net/tcp").exists():
        pytest.skip("this system does not tell of connections")
    admission, incidents = RequestPipeline(PortLimits(connections=3)).admission, Incidents()
    with socket.create_server(("127.0.0.1", 0), backlog=10) as server, contextlib.ExitStack() as stack:
        saturation = PortSaturation("submission", admission, server.getsockname()[1])
        for count in range(4):
            saturation.look(incidents)
            assert (count, bool(incidents.now())) == (count, count >= 3)
            stack.enter_context(socket.create_connection(server.getsockname(), 10))
            stack.enter_context(server.accept()[0])
        assert "the submission port refuses calls: 3 connections are open, and further" in incidents.now()[0].text
    assert admission.refused == {PortLimit.CONNECTIONS: 1}
