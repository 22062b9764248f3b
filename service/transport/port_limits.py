"""Turns a service's settings into the limits of its ports, for anonymous callers and for peers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hubbub.protos.transport.channels import MAXIMUM_MESSAGE_BYTES
from hubbub.service.rpc.concurrency import PortLimits
from hubbub.service.rpc.pipeline import RequestPipeline
from hubbub.service.runtime.memory import MemoryWatch
from hubbub.service.settings import DevicePortLimitSettings, PortLimitSettings
from hubbub.service.transport.file_limits import fitting
from hubbub.service.transport.grpc_server import Connections

MUTUAL_SECONDS = 60.0
"""How long a message may take to arrive on a port that requires certificates of the deployment's authority."""

MUTUAL_CALLS = 64
"""Calls in work at once for each kind of caller there: a shuffler needs one per query, an operator one at a time."""

_MEBIBYTE = 1024 * 1024


def _never() -> bool:
    return False


def connections_of(settings: PortLimitSettings, ports: int) -> Connections:
    """Return the connection limits of each of a service's ports, within the limit of open files."""
    return Connections(fitting(settings.connections, ports), settings.streams, settings.idle_seconds)


def connections_of_devices(settings: DevicePortLimitSettings, ports: int) -> Connections:
    """Return the connection limits of a port of devices: none is kept forever, so that others get room."""
    return replace(connections_of(settings, ports), age_seconds=settings.age_seconds)


def mutual_pipeline(settings: PortLimitSettings, connections: Connections) -> RequestPipeline:
    """Return the pipeline of a port that requires certificates of the deployment's authority."""
    return _pipeline(settings, connections, MUTUAL_CALLS, MUTUAL_SECONDS, MAXIMUM_MESSAGE_BYTES)


def operator_pipeline(settings: PortLimitSettings, connections: Connections) -> RequestPipeline:
    """Return the pipeline of the operator's port, without a memory limit: it answers even if devices use all memory."""
    return _pipeline(settings, connections, MUTUAL_CALLS, MUTUAL_SECONDS, MAXIMUM_MESSAGE_BYTES, bounded=False)


def device_pipeline(
    settings: DevicePortLimitSettings, connections: Connections, largest: int, full: Callable[[], bool] = _never
) -> RequestPipeline:
    """Return the pipeline of a port of devices, whose largest request has `largest` bytes.

    `full` returns whether another process of the service lacks memory for the calls.
    """
    found = _pipeline(settings, connections, settings.calls, settings.unfinished_seconds, largest)
    here = found.full
    found.full = lambda: here() or full()
    return found


def memory_of(settings: PortLimitSettings) -> MemoryWatch:
    """Return the watch of a process's memory, with the limit in its settings."""
    return MemoryWatch(settings.memory_mebibytes * _MEBIBYTE)


def _pipeline(
    settings: PortLimitSettings,
    connections: Connections,
    calls: int,
    seconds: float,
    largest: int,
    bounded: bool = True,
) -> RequestPipeline:
    limits = PortLimits(calls, settings.message_mebibytes * _MEBIBYTE, seconds, largest, connections.most)
    memory = memory_of(settings) if bounded else MemoryWatch(0)
    return RequestPipeline(limits, memory.full, memory.held)
