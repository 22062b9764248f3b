"""What goes over a channel arrives as it was; what has another width than it says is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hubbub.protos.enrollment.admitted import VERSION_BYTES, Admitted, MasterSecret, RedeemedTicket, Revoked
from hubbub.protos.errors import MessageError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import KeyState, RoundState
from hubbub.service.rpc import ipc_messages
from hubbub.shuffler.keys import RoundKeyMaterial
from hubbub.shuffler.records import InsertOutcome, Opened, Round
from hubbub.shuffler.workers import codec
from hubbub.shuffler.workers.codec import FoundRound


def exactly(count: int) -> some.SearchStrategy[bytes]:
    return some.binary(min_size=count, max_size=count)


DOCUMENTS = some.builds(SignedDocument, some.binary(max_size=50), exactly(64))
KEY_SETS = some.builds(KeySet, DOCUMENTS, DOCUMENTS, some.lists(some.binary(max_size=20), max_size=2).map(tuple))
KEYS = some.builds(RoundKeyMaterial, some.binary(max_size=70), KEY_SETS, some.just(b"") | exactly(32))
NUMBERS = some.integers(0, 10**6)


@given(exactly(32), NUMBERS, some.none() | KEYS, some.sampled_from(RoundState), some.text(max_size=40), some.booleans())
def test_a_round_arrives_with_its_secrets(
    task_id: bytes, number: int, keys: RoundKeyMaterial | None, state: RoundState, reason: str, damaged: bool
) -> None:
    looked = FoundRound(Round(7, task_id, number, state, keys, 2**40, reason=reason), 2**40, damaged)
    which = codec.read_which(codec.write_which(task_id, number))
    assert codec.read_found(which, codec.write_found(looked)) == looked
    assert codec.read_found(which, codec.write_found(None)) is None


@given(some.lists(exactly(16)), some.lists(some.none() | exactly(16)))
def test_ids_and_digests_arrive_in_order(ids: list[bytes], digests: list[bytes | None]) -> None:
    assert codec.read_ids(codec.write_ids(bytes(32), 3, ids)) == ids
    assert codec.read_digests(codec.write_digests(digests)) == digests


@given(some.data(), some.integers(1, 300), NUMBERS, some.none() | some.integers(1, 10**9))
def test_submissions_arrive_in_order(data: some.DataObject, width: int, unopenable: int, most: int | None) -> None:
    one = some.builds(Opened, exactly(16), exactly(16), exactly(width))
    found = data.draw(some.lists(one, max_size=5))
    round_ = Round(1, bytes(32), 9, RoundState.OPEN)
    payload = codec.write_opened(round_, found, unopenable, most)
    assert codec.read_which(payload) == (bytes(32), 9)
    assert codec.read_opened(payload) == (found, unopenable, most)


def test_submissions_of_two_lengths_are_not_sent() -> None:
    two = [Opened(bytes(16), bytes(16), bytes(width)) for width in (100, 101)]
    with pytest.raises(ValueError, match="100 bytes"):
        codec.write_opened(Round(1, bytes(32), 9, RoundState.OPEN), two, 0, None)


def test_what_is_cut_short_is_refused() -> None:
    round_ = Round(1, bytes(32), 9, RoundState.OPEN)
    payload = codec.write_opened(round_, [Opened(bytes(16), bytes(16), bytes(100))], 0, None)
    with pytest.raises(ValueError, match="no multiple of 132"):
        codec.read_opened(payload[:-1])


def test_every_outcome_has_a_number_of_its_own() -> None:
    assert codec.read_outcomes(codec.write_outcomes(list(InsertOutcome))) == list(InsertOutcome)


def test_counts_arrive() -> None:
    assert codec.read_counts(codec.write_counts(b"", -1, {"malformed": 3})) == (b"", -1, {"malformed": 3})


def test_who_is_admitted_and_tickets_arrive() -> None:
    masters = (MasterSecret(1, bytes(32), KeyState.ACTIVE, 5),)
    admitted = Admitted(bytes(VERSION_BYTES), masters, Revoked(frozenset({bytes(16)}), frozenset({bytes(16)})), b"r")
    assert ipc_messages.read_admitted(ipc_messages.write_admitted(admitted)) == admitted
    tickets = [RedeemedTicket(bytes([number]) * 16, bytes(32), bytes(16), 9) for number in range(3)]
    assert ipc_messages.read_tickets(ipc_messages.write_tickets(tickets)) == tickets
    with pytest.raises(MessageError, match="are no"):
        ipc_messages.read_tickets(b"\xff\xff\xff")
