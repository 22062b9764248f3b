"""Conditions: what holds a service up, to and from protobuf messages."""

from __future__ import annotations

from hubbub.protos import codec
from hubbub.protos.errors import MessageError
from hubbub.protos.messages import Condition, Trouble
from hubbub.protos.v1 import condition_pb2

LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: dates end there."""


def write_condition(condition: Condition) -> condition_pb2.GetConditionResponse:
    """Encode what holds a service up."""
    troubles = [_write_trouble(trouble) for trouble in condition.troubles]
    return condition_pb2.GetConditionResponse(troubles=troubles, log_lines_lost=condition.log_lines_lost)


def read_condition(message: condition_pb2.GetConditionResponse) -> Condition:
    """Decode what holds a service up.

    Raises:
        MessageError: where a time is beyond all dates.
    """
    return Condition(tuple(_read_trouble(trouble) for trouble in message.troubles), message.log_lines_lost)


def _write_trouble(trouble: Trouble) -> condition_pb2.Trouble:
    since_ms = min(max(0, round(trouble.since * 1000)), LATEST_MS)
    return condition_pb2.Trouble(
        kind=codec.plain(trouble.kind), text=codec.plain(trouble.text), since_ms=since_ms, count=trouble.count
    )


def _read_trouble(message: condition_pb2.Trouble) -> Trouble:
    if message.since_ms > LATEST_MS:
        raise MessageError(f"a trouble's time is {message.since_ms} ms since 1970, it may be at most {LATEST_MS}")
    return Trouble(codec.plain(message.kind), codec.plain(message.text), message.since_ms / 1000, message.count)
