"""Calls the leader for a standby, and encodes and decodes these messages."""

from __future__ import annotations

import grpc

from hubbub.protos import codec
from hubbub.protos.cluster import COPY_BYTES, FollowerPosition, KeyringChanges, KeyringRow, Value
from hubbub.protos.transport.statuses import call
from hubbub.protos.v1 import replication_pb2, replication_pb2_grpc


class ReplicationCaller:
    """The leader as a standby sees it. Deadlines are seconds."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = replication_pb2_grpc.ReplicationServiceStub(channel)

    async def follow(self, asked: FollowerPosition, deadline: float) -> KeyringChanges:
        """Report the state of the disk, and return the next changes."""
        request = write_replication_request(asked)
        return read_replication_reply(
            await call(self._stub.Follow(request, timeout=deadline), "the leader", "leader port (7309)")
        )


def write_replication_request(asked: FollowerPosition) -> replication_pb2.FollowRequest:
    """Encode the state of a copy."""
    return replication_pb2.FollowRequest(
        copy=asked.copy, stream=asked.stream, position=asked.position, offset=asked.offset
    )


def read_replication_request(message: replication_pb2.FollowRequest) -> FollowerPosition:
    """Decode the state of a copy.

    Raises:
        MessageError: if a name has another length.
    """
    stream = codec.checked(message.stream, COPY_BYTES, "a stream") if message.stream else b""
    return FollowerPosition(codec.checked(message.copy, COPY_BYTES, "a copy"), stream, message.position, message.offset)


def write_replication_reply(told: KeyringChanges) -> replication_pb2.FollowResponse:
    """Encode the next changes."""
    rows = [replication_pb2.CopiedRow(table=row.table, values=map(_write_value, row.values)) for row in told.rows]
    return replication_pb2.FollowResponse(
        stream=told.stream, position=told.position, rows=rows, keyring=told.keyring, total=told.total
    )


def read_replication_reply(message: replication_pb2.FollowResponse) -> KeyringChanges:
    """Decode the next changes; the tables of the rows are still to be checked.

    Raises:
        MessageError: if a name has another length.
    """
    rows = tuple(KeyringRow(row.table, tuple(map(_read_value, row.values))) for row in message.rows)
    keyring = codec.checked(message.keyring, COPY_BYTES, "a keyring") if message.keyring else b""
    stream = codec.checked(message.stream, COPY_BYTES, "a stream")
    return KeyringChanges(stream, message.position, rows, keyring, message.total)


def _write_value(value: Value) -> replication_pb2.CopiedValue:
    if isinstance(value, bytes):
        return replication_pb2.CopiedValue(content=value)
    if isinstance(value, int):
        return replication_pb2.CopiedValue(number=value)
    return replication_pb2.CopiedValue() if value is None else replication_pb2.CopiedValue(text=value)


def _read_value(message: replication_pb2.CopiedValue) -> Value:
    match message.WhichOneof("value"):
        case "content":
            return message.content
        case "number":
            return message.number
        case "text":
            return message.text
        case _:
            return None
