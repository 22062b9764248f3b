"""A full limit is said once, with what it is full of, while it refuses calls; every refused call is counted."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import grpc
import prometheus_client
import pytest
import structlog

from hubbub.service.net.ports import Ports
from hubbub.service.net.saturation import QUIET_LOOKS, Crowd, Crowds
from hubbub.service.observability.incidents import Kind, Troubles
from hubbub.service.observability.rounding import CoarseRegistry, Counts
from hubbub.service.rpc.concurrency import Limit, Limits
from hubbub.service.rpc.pipeline import Intake
from hubbub.shuffler.metrics import is_exact


def test_a_full_limit_is_logged_once_and_over_when_nothing_was_refused_for_a_while() -> None:
    intake, troubles = Intake(), Troubles()
    crowd = Crowd("submission", intake.places)
    with structlog.testing.capture_logs() as logs:
        crowd.look(troubles)
        assert troubles.now() == ()
        for _ in range(3):
            intake.places.refused[Limit.CALLS] += 100
            crowd.look(troubles)
        (trouble,) = troubles.now()
        assert trouble.kind == Kind.PORTS
        assert trouble.text.startswith("the submission port refuses calls: 4096 calls are in work; see [limits] in the")
        for _ in range(QUIET_LOOKS - 1):
            crowd.look(troubles)
        assert len(troubles.now()) == 1
        crowd.look(troubles)
        assert troubles.now() == ()
    assert [line["event"] for line in logs] == ["calls refused", "calls refused: over"]
    assert (logs[0]["port"], logs[0]["limit"]) == ("submission", "calls")


def test_single_faults_and_slow_callers_are_no_trouble() -> None:
    intake, troubles = Intake(), Troubles()
    crowd = Crowd("submission", intake.places)
    for limit in (Limit.SIZE, Limit.COUNT, Limit.COMPRESSED, Limit.PEER, Limit.UNFINISHED):
        intake.places.refused[limit] += 1
    crowd.look(troubles)
    assert troubles.now() == ()


def test_calls_are_shown_by_port_and_limit() -> None:
    intakes = {"submission": Intake(), "control": Intake()}
    intakes["control"].places.enter("operator", 10)
    intakes["submission"].places.refused[Limit.CROWDED] = 7
    registry = prometheus_client.CollectorRegistry()
    registry.register(Crowds("shuffler", intakes, dict))
    value = registry.get_sample_value
    assert value("hubbub_shuffler_calls_in_work", {"port": "control"}) == 1
    assert value("hubbub_shuffler_calls_unfinished", {"port": "submission"}) == 0
    for port in intakes:
        for limit in Limit:
            expected = 7 if (port, limit) == ("submission", Limit.CROWDED) else 0
            labels = {"port": port, "limit": limit.value}
            assert value("hubbub_shuffler_calls_refused_total", labels) == expected


def test_a_full_limit_is_shown_from_its_first_second_on_whatever_the_step() -> None:
    """A minute in which the connections were all taken counted 60 refusals, shown as 0: the documented alert slept."""
    intakes = {"submission": Intake()}
    crowd = Crowd("submission", intakes["submission"].places)
    registry = CoarseRegistry(Counts(100), is_exact)
    registry.register(Crowds("shuffler", intakes, lambda: crowd.full_seconds))
    labels = {"port": "submission", "limit": "connections"}
    for second in range(1, 61):
        intakes["submission"].places.refused[Limit.CONNECTIONS] += 1
        crowd.look(Troubles())
        assert registry.get_sample_value("hubbub_shuffler_limit_full_seconds_total", labels) == second
    assert registry.get_sample_value("hubbub_shuffler_calls_refused_total", labels) == 0


async def test_the_calls_that_ask_how_a_port_is_are_looked_at_too() -> None:
    ports = Ports()
    await ports.open("submission", "127.0.0.1:0", "service", grpc.aio.server(), grpc.local_server_credentials())
    try:
        (health,) = ports._healths
        health.places.refused[Limit.CALLS] += 1
        ports.look(Troubles())
        assert ports.full_seconds()["submission health", Limit.CALLS] == 1
    finally:
        await ports.drain()


def test_a_port_whose_connections_are_all_taken_says_so() -> None:
    if not Path("/proc/self/net/tcp").exists():
        pytest.skip("this system does not tell of connections")
    places, troubles = Intake(Limits(connections=3)).places, Troubles()
    with socket.create_server(("127.0.0.1", 0), backlog=10) as server, contextlib.ExitStack() as stack:
        crowd = Crowd("submission", places, server.getsockname()[1])
        for count in range(4):
            crowd.look(troubles)
            assert (count, bool(troubles.now())) == (count, count >= 3)
            stack.enter_context(socket.create_connection(server.getsockname(), 10))
            stack.enter_context(server.accept()[0])
        assert "the submission port refuses calls: 3 connections are open, and further" in troubles.now()[0].text
    assert places.refused == {Limit.CONNECTIONS: 1}
