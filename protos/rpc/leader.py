"""Calls the leader of rounds for a front end, and encodes and decodes these messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import grpc

from hubbub.protos import codec
from hubbub.protos.enrollment.admitted import (
    BLOCK_KEY_BYTES,
    STORAGE_BYTES,
    VERSION_BYTES,
    Admitted,
    MasterSecret,
    RedeemedTicket,
    Revoked,
    RoundSecrets,
)
from hubbub.protos.enrollment.credentials import KEY_BYTES, NUMBER_BYTES, PSEUDONYM_KEY_BYTES
from hubbub.protos.enrollment.tickets import DEVICE_BYTES
from hubbub.protos.errors import MessageError
from hubbub.protos.messages import KeyState
from hubbub.protos.rpc.enrollment import MOST_REDEMPTIONS
from hubbub.protos.transport.statuses import call
from hubbub.protos.v1 import leader_pb2, leader_pb2_grpc

_LEADER = "the leader"
_PORT = "leader port (7309)"


class LeaderCaller:
    """The leader as a front end sees it. Deadlines are seconds."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = leader_pb2_grpc.LeaderServiceStub(channel)

    async def get_secrets(self, task_id: bytes, round_number: int, deadline: float) -> RoundSecrets:
        """Return the secrets of a round."""
        request = leader_pb2.GetSecretsRequest(task_id=task_id, round=round_number)
        return read_secrets(await call(self._stub.GetSecrets(request, timeout=deadline), _LEADER, _PORT))

    async def get_admitted(self, version: bytes, deadline: float) -> Admitted | None:
        """Return the credentials that admit devices, or None if the caller already has this version."""
        found = read_admitted(
            await call(self._stub.GetAdmitted(write_version(version), timeout=deadline), _LEADER, _PORT)
        )
        return None if found.version == version else found

    async def redeem(self, tickets: Sequence[RedeemedTicket], deadline: float) -> list[RedeemedTicket]:
        """Mark tickets as redeemed, and return the resulting redemption of each device, in order."""
        found = read_redeemed(
            await call(self._stub.RedeemTickets(write_tickets(tickets), timeout=deadline), _LEADER, _PORT)
        )
        if [each.device for each in found] != [each.device for each in tickets]:
            raise MessageError(
                "the leader answered for other tickets than it was asked about; install the same hubbub on both"
            )
        return found


def write_secrets(secrets: RoundSecrets) -> leader_pb2.GetSecretsResponse:
    """Encode a round's secrets."""
    return leader_pb2.GetSecretsResponse(
        storage=secrets.storage, pseudonym_key=secrets.pseudonym_key, private_key=secrets.private_key
    )


def read_secrets(message: leader_pb2.GetSecretsResponse) -> RoundSecrets:
    """Decode a round's secrets.

    Raises:
        MessageError: if one has another length.
    """
    whole = STORAGE_BYTES if message.private_key else STORAGE_BYTES - BLOCK_KEY_BYTES
    pseudonym_key = (
        codec.checked(message.pseudonym_key, PSEUDONYM_KEY_BYTES, "a key of pseudonyms")
        if message.pseudonym_key
        else b""
    )
    return RoundSecrets(
        codec.checked(message.storage, whole, "what is stored under"), pseudonym_key, message.private_key
    )


def write_admitted(admitted: Admitted) -> leader_pb2.GetAdmittedResponse:
    """Encode the credentials that admit devices; only the version if the front end already has it."""
    masters = [
        leader_pb2.MasterSecret(
            generation=each.generation, secret=each.secret, state=each.state.value, since=each.since
        )
        for each in admitted.masters
    ]
    revoked = admitted.revoked
    return leader_pb2.GetAdmittedResponse(
        version=admitted.version,
        masters=masters,
        revoked_devices=sorted(revoked.devices),
        revoked_numbers=sorted(revoked.numbers),
        oblivious_records=admitted.oblivious_records,
    )


def write_version(version: bytes) -> leader_pb2.GetAdmittedRequest:
    """Encode the version that a front end knows; empty for none."""
    return leader_pb2.GetAdmittedRequest(version=version)


def read_version(message: leader_pb2.GetAdmittedRequest) -> bytes:
    """Decode the version that a front end knows; empty for none.

    Raises:
        MessageError: if it has another length.
    """
    return codec.checked(message.version, VERSION_BYTES, "a version") if message.version else b""


def read_admitted(message: leader_pb2.GetAdmittedResponse) -> Admitted:
    """Decode the credentials that admit devices.

    Raises:
        MessageError: if a part has another length, or a key has an unknown state.
    """
    states = {state.value: state for state in KeyState}
    masters = []
    for each in message.masters:
        if each.state not in states:
            raise MessageError(f"a master key is {each.state!r}; it is one of {', '.join(states)}")
        secret = codec.checked(each.secret, KEY_BYTES, "a master key")
        masters.append(MasterSecret(each.generation, secret, states[each.state], each.since))
    devices = frozenset(codec.checked(each, DEVICE_BYTES, "a device") for each in message.revoked_devices)
    numbers = frozenset(codec.checked(each, NUMBER_BYTES, "a device's number") for each in message.revoked_numbers)
    version = codec.checked(message.version, VERSION_BYTES, "a version")
    return Admitted(version, tuple(masters), Revoked(devices, numbers), message.oblivious_records)


def write_tickets(tickets: Iterable[RedeemedTicket]) -> leader_pb2.RedeemTicketsRequest:
    """Encode tickets to redeem."""
    return leader_pb2.RedeemTicketsRequest(tickets=map(_write_ticket, tickets))


def read_tickets(message: leader_pb2.RedeemTicketsRequest) -> list[RedeemedTicket]:
    """Decode tickets to redeem.

    Raises:
        MessageError: if there are too many, or a part of one has another length.
    """
    return _read_tickets(message.tickets)


def write_redeemed(tickets: Iterable[RedeemedTicket]) -> leader_pb2.RedeemTicketsResponse:
    """Encode the redemptions of tickets' devices, in order."""
    return leader_pb2.RedeemTicketsResponse(tickets=map(_write_ticket, tickets))


def read_redeemed(message: leader_pb2.RedeemTicketsResponse) -> list[RedeemedTicket]:
    """Decode the redemptions of tickets' devices, in order.

    Raises:
        MessageError: if there are too many, or a part of one has another length.
    """
    return _read_tickets(message.tickets)


def _write_ticket(ticket: RedeemedTicket) -> leader_pb2.RedeemedTicket:
    return leader_pb2.RedeemedTicket(
        device=ticket.device, redeemed_by=ticket.redeemed_by, number=ticket.number, expires=ticket.expires
    )


def _read_tickets(messages: Sequence[leader_pb2.RedeemedTicket]) -> list[RedeemedTicket]:
    if len(messages) > MOST_REDEMPTIONS:
        raise MessageError(f"{len(messages)} tickets in one call; send at most {MOST_REDEMPTIONS}")
    return [
        RedeemedTicket(
            codec.checked(each.device, DEVICE_BYTES, "a device"),
            codec.checked(each.redeemed_by, KEY_BYTES, "what a ticket is redeemed by"),
            codec.checked(each.number, NUMBER_BYTES, "a device's number"),
            each.expires,
        )
        for each in messages
    ]
