"""A ticket comes back as it was signed, or not at all."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos.enrollment.tickets import LONGEST_TICKET, TOGETHER, Ticket, new_tickets, written_tickets
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import canonical, check_signature
from hubbub.protos.identity.formats import TICKET as TICKET_KIND
from hubbub.protos.identity.keys import LATEST_TIME, Identity


def identity(number: int) -> Identity:
    return Identity(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32))


OPERATOR, SHUFFLER, SECOND = identity(11), identity(12), identity(14)
TICKET = Ticket(bytes(range(16)), SHUFFLER.public, 1_800_000_000).signed_by(OPERATOR)
BOTH = TICKET.countersigned_by(SECOND)

GOLDEN = (
    '{"body":{"device":"000102030405060708090a0b0c0d0e0f","expires":1800000000,"format":"hubbub-ticket/1",'
    f'"shuffler":"{SHUFFLER.public.hex()}"}},"signatures":{{"{OPERATOR.public.hex()}":"'
)


def test_a_ticket_has_these_bytes_for_ever() -> None:
    """Ed25519 is deterministic, so the signature is part of the known answer."""
    document = TICKET.encode()
    assert document.decode().startswith(GOLDEN)
    signature = json.loads(document)["signatures"][OPERATOR.public.hex()]
    assert signature == SIGNATURE
    body = canonical(json.loads(document)["body"])
    check_signature(TICKET_KIND.format, body, bytes.fromhex(signature), OPERATOR.public)


@pytest.mark.parametrize("ticket", [TICKET, BOTH], ids=["one", "both"])
def test_a_ticket_comes_back_as_it_was(ticket: Ticket) -> None:
    assert Ticket.decode(ticket.encode()) == ticket
    assert len(ticket.encode()) <= LONGEST_TICKET
    ticket.check(OPERATOR.public)


PAIRS = st.dictionaries(st.binary(min_size=32, max_size=32), st.binary(min_size=64, max_size=64), max_size=2)


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=32, max_size=32), st.integers(0, LATEST_TIME), PAIRS)
def test_a_ticket_is_the_canonical_json_of_its_members(
    device: bytes, shuffler: bytes, expires: int, pairs: dict[bytes, bytes]
) -> None:
    ticket = Ticket(device, shuffler, expires, tuple(sorted(pairs.items())))
    body = {"device": device.hex(), "expires": expires, "format": "hubbub-ticket/1", "shuffler": shuffler.hex()}
    signatures = {signer.hex(): signature.hex() for signer, signature in pairs.items()}
    assert ticket.encode() == canonical({"body": body, "signatures": signatures})
    assert Ticket.decode(ticket.encode()) == ticket


def test_signers_in_another_order_or_twice_are_refused() -> None:
    pairs = sorted(BOTH.signatures)
    for wrong in ([pairs[1], pairs[0]], [pairs[0], pairs[0]]):
        members = ",".join(f'"{signer.hex()}":"{signature.hex()}"' for signer, signature in wrong)
        document = TICKET.encode().partition(b'"signatures"')[0] + b'"signatures":{' + members.encode() + b"}}"
        with pytest.raises(SignatureError, match="its signers are not in canonical form"):
            Ticket.decode(document)


def test_who_has_not_signed_does_not_count() -> None:
    BOTH.check_countersigned(SECOND.public)
    with pytest.raises(SignatureError, match="not signed by"):
        TICKET.check_countersigned(SECOND.public)
    with pytest.raises(SignatureError, match="two others have signed"):
        BOTH.countersigned_by(identity(15))
    assert BOTH.signed_by(OPERATOR) == BOTH
    assert BOTH.countersigned_by(SECOND) == BOTH


def test_who_made_a_ticket_and_who_countersigned_it_are_told_apart() -> None:
    """Otherwise a second authority renewed tickets that it had only countersigned, and the shuffler took none."""
    with pytest.raises(SignatureError, match="only countersigned the ticket, and another key made it"):
        BOTH.check(SECOND.public)
    with pytest.raises(SignatureError, match=f"signature is not by {OPERATOR.public.hex()[:8]}"):
        BOTH.check_countersigned(OPERATOR.public)
    with pytest.raises(SignatureError, match="this key made the ticket; the second authority countersigns with"):
        BOTH.countersigned_by(OPERATOR)


def check_both(document: bytes) -> None:
    ticket = Ticket.decode(document)
    ticket.check(OPERATOR.public)
    ticket.check_countersigned(SECOND.public)


def test_every_changed_character_is_refused() -> None:
    document = BOTH.encode()
    for place in range(len(document)):
        changed = bytearray(document)
        changed[place] ^= 0x01
        with pytest.raises(SignatureError):
            check_both(bytes(changed))


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_only_signature_errors_come_out_of_any_bytes(document: bytes) -> None:
    with pytest.raises(SignatureError):
        Ticket.decode(document)


@pytest.mark.parametrize(
    "change",
    [
        {"body": {}},
        {"body": {"expires": -1}},
        {"body": {"expires": 10**15}},
        {"body": {"expires": True}},
        {"body": {"device": "00"}},
        {"body": {"format": "hubbub-ticket/2"}},
        {"body": {"more": 1}},
        {"signatures": []},
        {"signatures": {"00": "00"}},
        {"signatures": {identity(each).public.hex(): "00" * 64 for each in range(3)}},
        {"more": 1},
    ],
    ids=range(11),
)
def test_another_form_is_refused_with_a_remedy(change: dict[str, object]) -> None:
    value = json.loads(TICKET.encode())
    for name, content in change.items():
        value[name] = {**value[name], **content} if name == "body" and content else content
    with pytest.raises(SignatureError):
        Ticket.decode(canonical(value))


def test_a_ticket_that_is_too_long_is_not_parsed() -> None:
    with pytest.raises(SignatureError, match=f"but a ticket has at most {LONGEST_TICKET}"):
        Ticket.decode(b"[" * (LONGEST_TICKET + 1))


def test_a_file_of_several_tickets_is_refused_with_how_many_it_has() -> None:
    one, other = (ticket.encode() for ticket in new_tickets(2, SHUFFLER.public, 2_000_000_000, [OPERATOR]))
    with pytest.raises(SignatureError, match="it has 2 lines; give one of them"):
        Ticket.decode(one + b"\n" + other)


def test_new_tickets_name_devices_of_their_own() -> None:
    tickets = new_tickets(50, SHUFFLER.public, 5, [OPERATOR, SECOND])
    assert len({ticket.device for ticket in tickets}) == 50
    for ticket in tickets:
        ticket.check(OPERATOR.public)
        ticket.check_countersigned(SECOND.public)


@pytest.mark.parametrize("count", [0, 1, TOGETHER, 2 * TOGETHER + 7])
def test_written_tickets_are_as_many_and_each_of_another_device(count: int) -> None:
    tickets = [Ticket.decode(each) for each in written_tickets(count, SHUFFLER.public, 5, [OPERATOR, SECOND])]
    assert len({ticket.device for ticket in tickets}) == len(tickets) == count
    for ticket in tickets[-3:]:
        ticket.check(OPERATOR.public)
        ticket.check_countersigned(SECOND.public)


SIGNATURE = (
    "def6bc99d9b3578aef06110b34256586d861e88fcd2950ec250e07cf14e8adc4"
    "1fab1a8e6423ff21a5714f6a0c0ee6f2065a8ba2b19250ed8a884dc1053f300b"
)
"""Made by this version, November 2026."""


@pytest.mark.parametrize("document", [b"kiosk-1", b"", b"\x00\xff", b'{"body":{"device":'])
def test_what_is_no_ticket_at_all_is_said_to_be_none(document: bytes) -> None:
    with pytest.raises(SignatureError, match=r"^not a ticket, or a part of one; `hubbub enroll` makes one$"):
        Ticket.decode(document)
