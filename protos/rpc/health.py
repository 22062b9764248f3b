"""Calls the standard gRPC health protocol, without the package that serves it.

A client need not install services. A request has one text and an answer one number, both in field 1, so protobuf's own
wrappers have the same bytes as the messages of `grpc.health.v1`.
"""

from __future__ import annotations

import grpc
from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from hubbub.protos.transport.statuses import call

PARTS = ("store", "rounds", "peer", "log", "ports", "standbys", "tickets", "feed")
"""The kinds of parts that can be checked, in addition to the service as a whole
(`service.observability.incidents.IncidentKind`)."""

_SERVING = 1


def part_name(kind: str) -> str:
    """Return the name of a kind of part in a health check."""
    return f"hubbub.{kind}"


class HealthCaller:
    """A service as its monitors see it. Deadlines are seconds."""

    def __init__(self, channel: grpc.aio.Channel, what: str = "it") -> None:
        """Call over gRPC; errors name the service as `what`."""
        self._what = what
        self._check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=StringValue.SerializeToString,
            response_deserializer=Int32Value.FromString,
        )

    async def serves(self, name: str, deadline: float) -> bool:
        """Return whether the part of this name is SERVING; the service as a whole has the name "".

        Raises:
            Unreachable: if nobody answered.
            HubbubError: if it does not know the name.
        """
        answer = await call(self._check(StringValue(value=name), timeout=deadline), self._what)
        return bool(answer.value == _SERVING)
