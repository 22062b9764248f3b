"""The standard gRPC health protocol, without the package that serves it.

Who only asks has no services installed. A request holds one text and an answer one number, both in field 1, so that
protobuf's own wrappers are the same bytes as `grpc.health.v1`'s messages.
"""

from __future__ import annotations

import grpc
from google.protobuf.wrappers_pb2 import Int32Value, StringValue

from hubbub.protos.transport.statuses import call

PARTS = ("store", "rounds", "peer", "log", "ports")
"""The kinds of parts that a service can be asked about, beside whether it serves
(`service.observability.incidents.IncidentKind`)."""

_SERVING = 1


def part_name(kind: str) -> str:
    """Return the name by which health is asked about a kind of part."""
    return f"hubbub.{kind}"


class HealthCaller:
    """A service as its monitors see it. Deadlines are seconds."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=StringValue.SerializeToString,
            response_deserializer=Int32Value.FromString,
        )

    async def serves(self, name: str, deadline: float) -> bool:
        """Return whether what is asked by its name says SERVING; the service as a whole has the name "".

        Raises:
            Unreachable: if nobody answered.
            HubbubError: if it does not know the name.
        """
        answer = await call(self._check(StringValue(value=name), timeout=deadline), "it")
        return bool(answer.value == _SERVING)
