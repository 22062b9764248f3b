"""Encodes messages that processes of one service send each other over their own socket."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from hubbub.protos import codec
from hubbub.protos.enrollment.admitted import Admitted, RedeemedTicket
from hubbub.protos.errors import MessageError
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.rpc import leader
from hubbub.protos.v1 import document_pb2, leader_pb2

T = TypeVar("T", bound=Message)


def write_key_set(key_set: KeySet) -> bytes:
    """Encode a round's key set."""
    return codec.write_key_set(key_set).SerializeToString()


def read_key_set(raw: bytes) -> KeySet:
    """Decode a round's key set.

    Raises:
        MessageError: if the bytes are no key set.
    """
    return codec.read_key_set(_message(document_pb2.KeySet, raw))


def write_admitted(admitted: Admitted) -> bytes:
    """Encode the admitted devices."""
    return leader.write_admitted(admitted).SerializeToString()


def read_admitted(raw: bytes) -> Admitted:
    """Decode the admitted devices.

    Raises:
        MessageError: if the bytes are no such message.
    """
    return leader.read_admitted(_message(leader_pb2.GetAdmittedResponse, raw))


def write_tickets(tickets: Iterable[RedeemedTicket]) -> bytes:
    """Encode tickets: those to redeem, or the resulting redemptions of their devices."""
    return leader.write_tickets(tickets).SerializeToString()


def read_tickets(raw: bytes) -> list[RedeemedTicket]:
    """Decode tickets.

    Raises:
        MessageError: if the bytes are no tickets, or there are too many.
    """
    return leader.read_tickets(_message(leader_pb2.RedeemTicketsRequest, raw))


def _message(kind: type[T], raw: bytes) -> T:
    try:
        return kind.FromString(raw)
    except DecodeError as error:
        raise MessageError(
            f"{len(raw)} bytes between two processes are not a {kind.DESCRIPTOR.name} of this version; restart the "
            "service"
        ) from error
