"""Health: the standard health and reflection services, which tell a monitor whether a service serves."""

from __future__ import annotations

from collections.abc import Sequence

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection


class Health:
    """The standard health and reflection services of a server; a service says when it serves."""

    def __init__(self, server: grpc.aio.Server, services: Sequence[str]) -> None:
        self._servicer = HealthServicer()
        self._services = ("", *services)
        # The servicer begins with SERVING for "", before the service can answer; its setter needs a running loop.
        self._servicer._server_status.update(dict.fromkeys(self._services, health_pb2.HealthCheckResponse.NOT_SERVING))
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)
        names = (*services, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)

    async def serving(self) -> None:
        """Say SERVING for every service."""
        for service in self._services:
            await self._servicer.set(service, health_pb2.HealthCheckResponse.SERVING)

    async def leaving(self) -> None:
        """Say NOT_SERVING for good: the server drains."""
        await self._servicer.enter_graceful_shutdown()


async def is_serving(channel: grpc.aio.Channel, deadline: float) -> bool:
    """Return whether the server at the other end says SERVING, waiting up to `deadline` seconds for a connection."""
    stub = health_pb2_grpc.HealthStub(channel)
    try:
        answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=deadline, wait_for_ready=True)
    except grpc.aio.AioRpcError:
        return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
