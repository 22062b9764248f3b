"""What strangers and peers can take of a service at once, as its settings say."""

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
"""How long a message may take to be whole on a port that asks for certificates of the deployment's authority."""

MUTUAL_CALLS = 64
"""Calls in work at once of each kind of caller there: a shuffler needs one per query, an operator one at a time."""

_MEBIBYTE = 1024 * 1024


def _never() -> bool:
    return False


def connections_of(settings: PortLimitSettings, ports: int) -> Connections:
    """Return what each of a service's ports takes of connections, as far as the limit of open files goes."""
    return Connections(fitting(settings.connections, ports), settings.streams, settings.idle_seconds)


def connections_of_devices(settings: DevicePortLimitSettings, ports: int) -> Connections:
    """Return what a port of devices takes of connections: none for ever, as those that leave make room."""
    return replace(connections_of(settings, ports), age_seconds=settings.age_seconds)


def mutual_pipeline(settings: PortLimitSettings, connections: Connections) -> RequestPipeline:
    """Return what takes calls in at a port that asks for certificates of the deployment's authority."""
    return _pipeline(settings, connections, MUTUAL_CALLS, MUTUAL_SECONDS, MAXIMUM_MESSAGE_BYTES)


def operator_pipeline(settings: PortLimitSettings, connections: Connections) -> RequestPipeline:
    """Return the same of the operator's port beside one of strangers: whatever they take, it can still be asked."""
    return _pipeline(settings, connections, MUTUAL_CALLS, MUTUAL_SECONDS, MAXIMUM_MESSAGE_BYTES, bounded=False)


def device_pipeline(
    settings: DevicePortLimitSettings, connections: Connections, largest: int, full: Callable[[], bool] = _never
) -> RequestPipeline:
    """Return what takes calls in at a port of devices, whose largest request has so many bytes.

    `full` says whether there is no memory elsewhere for what it takes.
    """
    found = _pipeline(settings, connections, settings.calls, settings.unfinished_seconds, largest)
    here = found.full
    found.full = lambda: here() or full()
    return found


def memory_of(settings: PortLimitSettings) -> MemoryWatch:
    """Return what watches a process's memory, which may be as much as its settings say."""
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
