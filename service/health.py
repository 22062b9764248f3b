"""Health: the standard health and reflection services, which tell a monitor whether a service serves."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from hubbub.protos.errors import HubbubError
from hubbub.protos.wire.health import part_name
from hubbub.protos.wire.statuses import call
from hubbub.service.troubles import Kind

PARTS = {kind: part_name(kind) for kind in Kind}
"""What can be asked beside a server's services: whether a part of the service works. It says NOT_SERVING in trouble."""


class Health:
    """The standard health and reflection services of a server; a service says when it serves."""

    def __init__(self, server: grpc.aio.Server, services: Sequence[str]) -> None:
        self._servicer = HealthServicer()
        self._services = ("", *services)
        self._in_trouble: frozenset[str] = frozenset()
        # The servicer begins with SERVING for "", before the service can answer; its setter needs a running loop.
        self._servicer._server_status.update(dict.fromkeys(self._services, health_pb2.HealthCheckResponse.NOT_SERVING))
        self._servicer._server_status.update(dict.fromkeys(PARTS.values(), health_pb2.HealthCheckResponse.SERVING))
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)
        names = (*services, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)

    async def serving(self) -> None:
        """Say SERVING for every service."""
        for service in self._services:
            await self._servicer.set(service, health_pb2.HealthCheckResponse.SERVING)

    async def parts(self, in_trouble: frozenset[str]) -> None:
        """Say which kinds of parts are in trouble; all others work."""
        if in_trouble == self._in_trouble:
            return
        self._in_trouble = in_trouble
        answers = health_pb2.HealthCheckResponse
        for kind, name in PARTS.items():
            await self._servicer.set(name, answers.NOT_SERVING if kind in in_trouble else answers.SERVING)

    async def leaving(self) -> None:
        """Say NOT_SERVING for good: the server drains."""
        await self._servicer.enter_graceful_shutdown()


async def is_serving(channel: grpc.aio.Channel, deadline: float) -> bool:
    """Return whether the server at the other end says SERVING, waiting up to `deadline` seconds for a connection."""
    return await _asked(channel, "", deadline) == int(health_pb2.HealthCheckResponse.SERVING)


async def why_silent(channel: grpc.aio.Channel, deadline: float) -> HubbubError:
    """Return why the server at the other end does not say SERVING: of a connection that failed, its own reason."""
    request = health_pb2.HealthCheckRequest(service="")
    try:
        await call(health_pb2_grpc.HealthStub(channel).Check(request, timeout=deadline), "it")
    except HubbubError as error:
        return error
    return HubbubError("it answers, but does not take calls now: it starts, or stops")


async def parts_in_trouble(channel: grpc.aio.Channel, deadline: float) -> frozenset[str]:
    """Return which kinds of parts of the service at the other end are in trouble; one that does not say is not."""
    answers = {kind: await _asked(channel, name, deadline) for kind, name in PARTS.items()}
    not_serving = int(health_pb2.HealthCheckResponse.NOT_SERVING)
    return frozenset(kind.value for kind, answer in answers.items() if answer == not_serving)


async def _asked(channel: grpc.aio.Channel, name: str, deadline: float) -> int | None:
    stub = health_pb2_grpc.HealthStub(channel)
    try:
        request = health_pb2.HealthCheckRequest(service=name)
        answer = await stub.Check(request, timeout=deadline, wait_for_ready=True)
    except grpc.aio.AioRpcError:
        return None
    return int(answer.status)
