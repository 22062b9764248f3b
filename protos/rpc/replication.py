"""Following: what a shuffler that stands by asks of the keeper, to and from protobuf messages, and the calls."""

from __future__ import annotations

import grpc

from hubbub.protos import codec
from hubbub.protos.cluster import COPY_BYTES, Asked, Row, Told, Value
from hubbub.protos.rpc.statuses import call
from hubbub.protos.v1 import standby_pb2, standby_pb2_grpc


class FollowCaller:
    """The keeper as whoever stands by sees it. Deadlines are seconds."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = standby_pb2_grpc.StandbyServiceStub(channel)

    async def follow(self, asked: Asked, deadline: float) -> Told:
        """Say what is on disk, and return what comes next."""
        request = write_asked(asked)
        return read_told(await call(self._stub.Follow(request, timeout=deadline), "the keeper"))


def write_asked(asked: Asked) -> standby_pb2.FollowRequest:
    """Encode what a copy has."""
    return standby_pb2.FollowRequest(copy=asked.copy, stream=asked.stream, position=asked.position, offset=asked.offset)


def read_asked(message: standby_pb2.FollowRequest) -> Asked:
    """Decode what a copy has.

    Raises:
        MessageError: where a name has another length.
    """
    stream = codec.checked(message.stream, COPY_BYTES, "a stream") if message.stream else b""
    return Asked(codec.checked(message.copy, COPY_BYTES, "a copy"), stream, message.position, message.offset)


def write_told(told: Told) -> standby_pb2.FollowResponse:
    """Encode what comes next."""
    rows = [standby_pb2.CopiedRow(table=row.table, values=map(_write_value, row.values)) for row in told.rows]
    return standby_pb2.FollowResponse(
        stream=told.stream, position=told.position, rows=rows, keyring=told.keyring, total=told.total
    )


def read_told(message: standby_pb2.FollowResponse) -> Told:
    """Decode what comes next; whether the rows are of tables that there are is still to be checked.

    Raises:
        MessageError: where a name has another length.
    """
    rows = tuple(Row(row.table, tuple(map(_read_value, row.values))) for row in message.rows)
    keyring = codec.checked(message.keyring, COPY_BYTES, "a keyring") if message.keyring else b""
    stream = codec.checked(message.stream, COPY_BYTES, "a stream")
    return Told(stream, message.position, rows, keyring, message.total)


def _write_value(value: Value) -> standby_pb2.CopiedValue:
    if isinstance(value, bytes):
        return standby_pb2.CopiedValue(content=value)
    if isinstance(value, int):
        return standby_pb2.CopiedValue(number=value)
    return standby_pb2.CopiedValue() if value is None else standby_pb2.CopiedValue(text=value)


def _read_value(message: standby_pb2.CopiedValue) -> Value:
    match message.WhichOneof("value"):
        case "content":
            return message.content
        case "number":
            return message.number
        case "text":
            return message.text
        case _:
            return None
