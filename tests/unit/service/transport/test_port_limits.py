"""The `[limits]` of settings reach gRPC and the request pipeline of each port."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hubbub.service.runtime import memory
from hubbub.service.settings import DevicePortLimitSettings, PortLimitSettings
from hubbub.service.transport.port_limits import (
    connections_of,
    connections_of_devices,
    device_pipeline,
    operator_pipeline,
)

MEBIBYTE = 1024 * 1024


def test_every_limit_arrives_where_it_holds() -> None:
    settings = DevicePortLimitSettings(
        connections=100,
        streams=7,
        idle_seconds=11,
        message_mebibytes=9,
        memory_mebibytes=1,
        calls=5,
        unfinished_seconds=2.5,
        age_seconds=60,
    )
    options = dict(connections_of_devices(settings, 2).options(1234))
    assert options["grpc.max_allowed_incoming_connections"] == 100
    assert options["grpc.max_concurrent_streams"] == 7
    assert options["grpc.max_connection_idle_ms"] == 11_000
    assert options["grpc.max_connection_age_ms"] == 60_000
    assert options["grpc.max_receive_message_length"] == 1234
    # A caller may wait for an hour for results: only connections of devices are ended by their age.
    assert "grpc.max_connection_age_ms" not in dict(connections_of(settings, 2).options(1234))
    limits = device_pipeline(settings, connections_of(settings, 2), 1234).admission.limits
    assert (limits.calls, limits.message_bytes, limits.unfinished_seconds, limits.largest) == (
        5,
        9 * MEBIBYTE,
        2.5,
        1234,
    )


@pytest.mark.parametrize("wrong", [{"connections": 0}, {"streams": 0}, {"message_mebibytes": 7}, {"calls": 5}])
def test_limits_that_would_stop_a_service_or_are_not_its_own_are_refused(wrong: dict[str, int]) -> None:
    """The smallest number of mebibytes is one message of the largest size."""
    with pytest.raises(ValidationError):
        PortLimitSettings(**wrong)


def test_an_operator_is_answered_whatever_memory_strangers_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the operator can close the rounds that hold it."""
    monkeypatch.setattr(memory, "resident", lambda: 10**12)
    settings = DevicePortLimitSettings()
    connections = connections_of(settings, 2)
    assert device_pipeline(settings, connections, 1234).full()
    assert not operator_pipeline(settings, connections).full()
