"""What a front end is told by the leader arrives as it was said; what has another length is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

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
from hubbub.protos.rpc import leader
from hubbub.protos.rpc.enrollment import MOST_REDEMPTIONS
from hubbub.protos.v1 import leader_pb2


def exactly(count: int) -> some.SearchStrategy[bytes]:
    return some.binary(min_size=count, max_size=count)


OPEN = some.builds(
    RoundSecrets, exactly(STORAGE_BYTES), exactly(PSEUDONYM_KEY_BYTES), some.binary(min_size=1, max_size=80)
)
CUT = some.builds(RoundSecrets, exactly(STORAGE_BYTES - BLOCK_KEY_BYTES), some.just(b"") | exactly(PSEUDONYM_KEY_BYTES))
TIMES = some.integers(0, 2**40)
MASTERS = some.builds(MasterSecret, some.integers(1, 1000), exactly(KEY_BYTES), some.sampled_from(KeyState), TIMES)
REVOKED = some.builds(Revoked, some.frozensets(exactly(DEVICE_BYTES)), some.frozensets(exactly(NUMBER_BYTES)))
ADMITTED = some.builds(Admitted, exactly(VERSION_BYTES), some.lists(MASTERS, max_size=3).map(tuple), REVOKED)
REDEEMED = some.builds(RedeemedTicket, exactly(DEVICE_BYTES), exactly(KEY_BYTES), exactly(NUMBER_BYTES), TIMES)


@given(OPEN | CUT)
def test_secrets_arrive_whole(secrets: RoundSecrets) -> None:
    sent = leader.write_secrets(secrets).SerializeToString()
    assert leader.read_secrets(leader_pb2.GetSecretsResponse.FromString(sent)) == secrets


@given(ADMITTED)
def test_who_is_admitted_arrives_whole(admitted: Admitted) -> None:
    sent = leader.write_admitted(admitted).SerializeToString()
    assert leader.read_admitted(leader_pb2.GetAdmittedResponse.FromString(sent)) == admitted


@given(some.lists(REDEEMED, max_size=5))
def test_tickets_arrive_whole_in_both_directions(tickets: list[RedeemedTicket]) -> None:
    asked = leader.write_tickets(tickets).SerializeToString()
    assert leader.read_tickets(leader_pb2.RedeemTicketsRequest.FromString(asked)) == tickets
    told = leader.write_redeemed(tickets).SerializeToString()
    assert leader.read_redeemed(leader_pb2.RedeemTicketsResponse.FromString(told)) == tickets


@given(some.just(b"") | exactly(VERSION_BYTES))
def test_a_version_arrives_and_none_is_empty(version: bytes) -> None:
    assert leader.read_version(leader.write_version(version)) == version


def test_no_secret_is_shown() -> None:
    secrets = RoundSecrets(b"s" * STORAGE_BYTES, b"p" * PSEUDONYM_KEY_BYTES, b"k" * 32)
    admitted = Admitted(bytes(VERSION_BYTES), (MasterSecret(1, b"m" * KEY_BYTES, KeyState.ACTIVE, 0),))
    redeemed = RedeemedTicket(b"d" * DEVICE_BYTES, b"b" * KEY_BYTES, b"n" * NUMBER_BYTES, 0)
    shown = repr((secrets, admitted, redeemed))
    assert not any(letter * 8 in shown for letter in "spkmdbn")


STORAGE, VERSION = bytes(STORAGE_BYTES), bytes(VERSION_BYTES)
TICKET = leader_pb2.RedeemedTicket(device=bytes(DEVICE_BYTES), redeemed_by=bytes(KEY_BYTES), number=bytes(NUMBER_BYTES))


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (leader.read_secrets, leader_pb2.GetSecretsResponse(storage=STORAGE)),
        (leader.read_secrets, leader_pb2.GetSecretsResponse(storage=STORAGE[BLOCK_KEY_BYTES:], private_key=b"k")),
        (leader.read_secrets, leader_pb2.GetSecretsResponse(storage=STORAGE, private_key=b"k", pseudonym_key=b"p")),
        (leader.read_version, leader_pb2.GetAdmittedRequest(version=b"v")),
        (leader.read_admitted, leader_pb2.GetAdmittedResponse()),
        (leader.read_admitted, leader_pb2.GetAdmittedResponse(version=VERSION, revoked_devices=[b"d"])),
        (leader.read_admitted, leader_pb2.GetAdmittedResponse(version=VERSION, revoked_numbers=[b"n"])),
        (
            leader.read_admitted,
            leader_pb2.GetAdmittedResponse(
                version=VERSION, masters=[leader_pb2.MasterSecret(secret=bytes(KEY_BYTES), state="lost")]
            ),
        ),
        (
            leader.read_admitted,
            leader_pb2.GetAdmittedResponse(version=VERSION, masters=[leader_pb2.MasterSecret(state="active")]),
        ),
        (leader.read_tickets, leader_pb2.RedeemTicketsRequest(tickets=[leader_pb2.RedeemedTicket(device=b"d")])),
        (leader.read_tickets, leader_pb2.RedeemTicketsRequest(tickets=[TICKET] * (MOST_REDEMPTIONS + 1))),
        (leader.read_redeemed, leader_pb2.RedeemTicketsResponse(tickets=[TICKET] * (MOST_REDEMPTIONS + 1))),
    ],
    ids=range(12),
)
def test_what_has_another_length_is_refused(read: Callable[[Any], object], message: object) -> None:
    with pytest.raises(MessageError):
        read(message)
