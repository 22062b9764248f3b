"""Serves the standard gRPC health service, by which a monitor checks a service.

It has only `Check`: a `Watch` would keep a call open for as long as its caller wants.
"""

from __future__ import annotations

from collections.abc import Sequence

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hubbub.protos import codec
from hubbub.protos.errors import HubbubError
from hubbub.protos.rpc.health import part_name
from hubbub.protos.transport.statuses import Context, call
from hubbub.service.observability.incidents import IncidentKind
from hubbub.service.rpc.concurrency import PortLimits
from hubbub.service.rpc.pipeline import RequestPipeline
from hubbub.service.rpc.size_limits import Call

PARTS = {kind: part_name(kind) for kind in IncidentKind}
"""Names that can be checked besides a server's services: parts of the service. A part with an open incident is
NOT_SERVING."""

WHY_KEY = "hubbub-why-bin"
"""The trailing metadata of an answer NOT_SERVING that says in words (UTF-8) what the service waits for."""

_LONGEST_WHY = 1000

_LIMITS = PortLimits(calls=64, message_bytes=1024 * 1024)
"""The health service has its own limits, so that a full port can still be checked."""

_CHECK = Call("Check", health_pb2.HealthCheckRequest, largest=1024)
_SERVING, _NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


class Waits(HubbubError):
    """A service is well, but accepts no calls until something comes; the message says what."""


class Health:
    """The standard health service of a server; the service sets its status."""

    def __init__(self, server: grpc.aio.Server, services: Sequence[str]) -> None:
        self._services = ("", *services)
        self._statuses = dict.fromkeys(self._services, _NOT_SERVING) | dict.fromkeys(PARTS.values(), _SERVING)
        self._left, self._why = False, ""
        pipeline = RequestPipeline(_LIMITS)
        self.admission = pipeline.admission
        """The admission of health checks."""
        pipeline.serve(server, "grpc.health.v1.Health", {"Check": (_CHECK, self._check)})

    async def _check(self, request: health_pb2.HealthCheckRequest, context: Context) -> health_pb2.HealthCheckResponse:
        status = self._statuses.get(request.service)
        if status is None:
            # As the protocol requires; then the answer is not sent.
            context.set_code(grpc.StatusCode.NOT_FOUND)
        if self._why and request.service in self._services:
            context.set_trailing_metadata(((WHY_KEY, self._why.encode()),))
        return health_pb2.HealthCheckResponse(status=status)

    async def serving(self) -> None:
        """Report SERVING for every service."""
        self._why = ""
        self._statuses.update(dict.fromkeys(self._services, _SERVING))

    async def waiting(self, why: str) -> None:
        """Report NOT_SERVING for every service, and in words what the service waits for."""
        self._why = why

    async def parts(self, with_incidents: frozenset[str]) -> None:
        """Report NOT_SERVING for these kinds of parts, and SERVING for all others."""
        if not self._left:
            self._statuses.update(
                (name, _NOT_SERVING if kind in with_incidents else _SERVING) for kind, name in PARTS.items()
            )

    async def leaving(self) -> None:
        """Report NOT_SERVING from now on: the server drains."""
        self._left, self._why = True, ""
        self._statuses = dict.fromkeys(self._statuses, _NOT_SERVING)


async def is_serving(channel: grpc.aio.Channel, deadline: float) -> bool:
    """Return whether the server at the other end reports SERVING, waiting up to `deadline` seconds for a connection."""
    return await _asked(channel, "", deadline) == int(health_pb2.HealthCheckResponse.SERVING)


async def why_silent(channel: grpc.aio.Channel, deadline: float) -> HubbubError:
    """Return why the server at the other end does not report SERVING; for a failed connection, its cause."""
    request = health_pb2.HealthCheckRequest(service="")
    asked = health_pb2_grpc.HealthStub(channel).Check(request, timeout=deadline)
    try:
        await call(asked, "it")
    except HubbubError as error:
        return error
    metadata = dict(await asked.trailing_metadata() or ())
    if isinstance(why := metadata.get(WHY_KEY), bytes):
        return Waits(f"it waits: {codec.plain(why.decode(errors='replace'))[:_LONGEST_WHY]}")
    return HubbubError(
        "it answers, but accepts no calls now, because it is starting, stopping, or a standby; ask again later"
    )


async def parts_with_incidents(channel: grpc.aio.Channel, deadline: float) -> frozenset[str]:
    """Return which kinds of parts of the service at the other end have incidents; unanswered checks do not count."""
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
