"""A ticket comes back as it was signed, or not at all."""

import hashlib
import json
from collections import Counter
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos.enrollment.tickets import (
    LONGEST_LIST,
    LONGEST_TICKET,
    Ticket,
    TreeHead,
    countersigned,
    new_tickets,
    signed,
    written_tickets,
)
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import canonical, check_signature
from hubbub.protos.identity.formats import TICKET as TICKET_KIND
from hubbub.protos.identity.keys import LATEST_TIME, Identity
from hubbub.protos.merkle import InclusionProof, leaf_hash, tree_of
from support.messages import NOT_SIGNED_BY
from support.tickets import alone, also_by, also_made_by
from vectors.make_signed import FOLDER, vector_ticket
from vectors.make_tickets import FILE, SIZES, written


def identity(number: int) -> Identity:
    return Identity(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32))


OPERATOR, SHUFFLER, SECOND = identity(11), identity(12), identity(14)
TICKET = alone(Ticket(bytes(range(16)), SHUFFLER.public, 1_800_000_000, salt=bytes(range(16, 32))), OPERATOR)
BOTH = also_by(TICKET, SECOND)

GOLDEN = (
    '{"body":{"device":"000102030405060708090a0b0c0d0e0f","expires":1800000000,"format":"hubbub-ticket/1",'
    f'"salt":"101112131415161718191a1b1c1d1e1f","shuffler":"{SHUFFLER.public.hex()}"}},'
    f'"inclusion":{{"index":0,"path":"","size":1}},"signatures":{{"{OPERATOR.public.hex()}":"'
)


def test_a_ticket_has_these_bytes_for_ever() -> None:
    """Ed25519 is deterministic, so the signature is part of the known answer."""
    document = TICKET.encode()
    assert document.decode().startswith(GOLDEN)
    signature = json.loads(document)["signatures"][OPERATOR.public.hex()]
    assert signature == SIGNATURE
    body = canonical(json.loads(document)["body"])
    root = hashlib.sha256(b"\0" + body).hexdigest()
    head = canonical({"format": "hubbub-ticket/1", "root": root, "size": 1})
    check_signature(TICKET_KIND.format, head, bytes.fromhex(signature), OPERATOR.public)
    assert document == (FOLDER / "hubbub-ticket-1.json").read_bytes() == vector_ticket().encode()


def list_of(size: int, *signers: Identity) -> list[Ticket]:
    return new_tickets(size, SHUFFLER.public, LATEST_TIME, signers or [OPERATOR])


LISTED = list_of(LONGEST_LIST, OPERATOR, SECOND)[0]


@pytest.mark.parametrize("ticket", [TICKET, BOTH, LISTED], ids=["one", "both", "listed"])
def test_a_ticket_comes_back_as_it_was(ticket: Ticket) -> None:
    assert Ticket.decode(ticket.encode()) == ticket
    assert len(ticket.encode()) <= LONGEST_TICKET
    ticket.check(OPERATOR.public)


PATHS = [[], *([proof.path for proof in tree_of([bytes(32)] * size)[1]] for size in range(1, LONGEST_LIST + 1))]
"""A path for each place in a list of each size."""

PAIRS = st.dictionaries(st.binary(min_size=32, max_size=32), st.binary(min_size=64, max_size=64), max_size=2)


@given(
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=32, max_size=32),
    st.integers(0, LATEST_TIME),
    PAIRS,
    st.integers(1, LONGEST_LIST).flatmap(lambda size: st.tuples(st.integers(0, size - 1), st.just(size))),
)
def test_a_ticket_is_the_canonical_json_of_its_members(
    device: bytes, salt: bytes, shuffler: bytes, expires: int, pairs: dict[bytes, bytes], place: tuple[int, int]
) -> None:
    index, size = place
    path = PATHS[size][index]
    ticket = Ticket(device, shuffler, expires, tuple(sorted(pairs.items())), salt, InclusionProof(index, size, path))
    named = {"device": device.hex(), "salt": salt.hex(), "shuffler": shuffler.hex()}
    body = {**named, "expires": expires, "format": "hubbub-ticket/1"}
    signatures = {signer.hex(): signature.hex() for signer, signature in pairs.items()}
    inclusion = {"index": index, "path": path.hex(), "size": size}
    assert ticket.encode() == canonical({"body": body, "inclusion": inclusion, "signatures": signatures})
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
        also_by(BOTH, identity(15))
    assert also_made_by(BOTH, OPERATOR) == BOTH
    assert also_by(BOTH, SECOND) == BOTH


def test_who_made_a_ticket_and_who_countersigned_it_are_told_apart() -> None:
    """Otherwise a second authority renewed tickets that it had only countersigned, and the shuffler took none."""
    with pytest.raises(SignatureError, match="only countersigned the ticket, and another key made it"):
        BOTH.check(SECOND.public)
    with pytest.raises(SignatureError, match=f"{NOT_SIGNED_BY} {OPERATOR.public.hex()[:8]}"):
        BOTH.check_countersigned(OPERATOR.public)
    with pytest.raises(SignatureError, match="this key made the ticket; the second authority countersigns with"):
        also_by(BOTH, OPERATOR)


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
        {"body": {"salt": "00"}},
        {"inclusion": {}},
        {"inclusion": {"index": 1}},
        {"inclusion": {"index": -1}},
        {"inclusion": {"size": 0}},
        {"inclusion": {"size": LONGEST_LIST + 1, "path": "00" * 32 * 9}},
        {"inclusion": {"path": "00" * 32}},
        {"inclusion": {"path": "00"}},
        {"inclusion": {"path": []}},
        {"signatures": []},
        {"signatures": {"00": "00"}},
        {"signatures": {identity(each).public.hex(): "00" * 64 for each in range(3)}},
        {"more": 1},
    ],
    ids=range(20),
)
def test_another_form_is_refused_with_a_remedy(change: dict[str, object]) -> None:
    value = json.loads(TICKET.encode())
    for name, content in change.items():
        value[name] = {**value[name], **content} if name in ("body", "inclusion") and content else content
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
    assert len({ticket.device for ticket in tickets}) == len({ticket.salt for ticket in tickets}) == 50
    for ticket in tickets:
        ticket.check(OPERATOR.public)
        ticket.check_countersigned(SECOND.public)


@pytest.mark.parametrize("count", [0, 1, LONGEST_LIST, 2 * LONGEST_LIST + 7])
def test_written_tickets_are_as_many_and_each_of_another_device(count: int) -> None:
    tickets = [Ticket.decode(each) for each in written_tickets(count, SHUFFLER.public, 5, [OPERATOR, SECOND])]
    assert len({ticket.device for ticket in tickets}) == len(tickets) == count
    for ticket in tickets[-3:]:
        ticket.check(OPERATOR.public)
        ticket.check_countersigned(SECOND.public)


# Lists


@pytest.mark.parametrize("size", [1, 2, 3, 100, LONGEST_LIST, LONGEST_LIST + 1, 2 * LONGEST_LIST + 3])
def test_tickets_that_are_made_together_have_one_signature_a_list(size: int) -> None:
    heads = Counter(ticket.head for ticket in list_of(size))
    assert heads == {head: head.size for head in heads}
    assert len(heads) == -(-size // LONGEST_LIST)
    for head in heads:
        head.check(OPERATOR.public)


def test_a_place_in_a_list_shows_nothing_of_the_place_in_a_file() -> None:
    """A shuffler that knows a list of names in their order would know who has which ticket."""
    tickets = list_of(2 * LONGEST_LIST)
    first = tickets[:LONGEST_LIST]
    assert len({ticket.head for ticket in first}) == 2
    by_hash = sorted(tickets, key=lambda ticket: leaf_hash(ticket.body))
    assert [ticket.inclusion.index for ticket in by_hash] == 2 * list(range(LONGEST_LIST))


def test_a_ticket_is_not_twice_in_a_list() -> None:
    with pytest.raises(SignatureError, match="a ticket is there twice"):
        signed([TICKET, BOTH], [OPERATOR])


def test_who_knows_a_device_of_the_same_list_by_its_number_cannot_make_its_ticket() -> None:
    """All else is known from a ticket of one's own: beside it is the hash of the other."""
    own, other = list_of(2)
    made = replace(own, device=other.device, inclusion=InclusionProof(1 - own.inclusion.index, 2, leaf_hash(own.body)))
    assert leaf_hash(other.body) == own.inclusion.path
    with pytest.raises(SignatureError):
        made.check(OPERATOR.public)
    replace(made, salt=other.salt).check(OPERATOR.public)


def test_a_list_is_countersigned_in_whole_or_not_at_all() -> None:
    """One signature admits all of a list: an operator could show the second authority a part of it."""
    tickets = list_of(5)
    for part in (tickets[:4], tickets[:1], [*tickets[1:], tickets[1]], [*tickets[:4], TICKET]):
        with pytest.raises(SignatureError, match=r"[14] of the 5 tickets of a list are here, and a signature is for"):
            countersigned(part, SECOND)
    made = countersigned([*reversed(tickets), TICKET, tickets[0]], SECOND)
    assert [replace(each, signatures=()) for each in made] == [
        replace(each, signatures=()) for each in (*reversed(tickets), TICKET, tickets[0])
    ]
    for each in made:
        check_both(each.encode())
    # Again, or beside one that another authority has countersigned: each list by itself.
    assert countersigned(made, SECOND) == made


def test_a_countersignature_is_for_one_list_alone() -> None:
    (mine, *_), (other, *_) = list_of(3, OPERATOR, SECOND), list_of(3, OPERATOR)
    moved = replace(other, signatures=mine.signatures)
    for check in (moved.check, moved.check_countersigned):
        with pytest.raises(SignatureError):
            check(OPERATOR.public if check == moved.check else SECOND.public)


def test_a_head_is_signed_with_its_size() -> None:
    """A leaf has one place in a tree of one size; the path of another size may be as long."""
    head = list_of(5)[0].head
    with pytest.raises(SignatureError):
        replace(head, size=6).check(OPERATOR.public)
    assert "signatures" not in repr(TreeHead(bytes(32), 1, ((bytes(32), bytes(64)),)))


# Vectors

VECTORS = json.loads(FILE.read_text())


def test_the_vectors_are_what_the_program_writes() -> None:
    assert FILE.read_text() == written()
    assert [made["size"] for made in VECTORS["lists"]] == list(SIZES)
    assert VECTORS["lists"][2]["root"] == "c3cae76d25f355a5772d3e5d2fb3215e228118595019cfb7ea6757cda51bd25c"


def test_the_vectors_follow_from_the_page_alone() -> None:
    """As a shuffler in another language checks them: with SHA-256 and Ed25519, and nothing of hubbub."""

    def hashed(*parts: bytes) -> bytes:
        return hashlib.sha256(b"".join(parts)).digest()

    def root(hashes: list[bytes]) -> bytes:
        if len(hashes) == 1:
            return hashes[0]
        middle = 1 << (len(hashes) - 1).bit_length() - 1
        return hashed(b"\1", root(hashes[:middle]), root(hashes[middle:]))

    labels = {"operator": "hubbub-ticket/1", "second_authority": "hubbub/v1 countersigned ticket"}
    for made in VECTORS["lists"]:
        leaves = [bytes.fromhex(each) for each in made["leaves"]]
        assert (len(leaves), root(leaves).hex()) == (made["size"], made["root"])
        head = f'{{"format":"hubbub-ticket/1","root":"{made["root"]}","size":{made["size"]}}}'.encode()
        for place, ticket in enumerate(map(json.loads, made["tickets"])):
            body = json.dumps(ticket["body"], separators=(",", ":"), sort_keys=True).encode()
            assert hashed(b"\0", body) == leaves[place]
            assert (ticket["inclusion"]["index"], ticket["inclusion"]["size"]) == (place, made["size"])
            for party, label in labels.items():
                key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(VECTORS[party]))
                key.verify(bytes.fromhex(ticket["signatures"][VECTORS[party]]), label.encode() + b"\0" + head)


def test_the_tickets_of_the_vectors_hold_and_the_changed_ones_are_refused() -> None:
    for made in VECTORS["lists"]:
        for ticket in made["tickets"]:
            check_both(ticket.encode())
    assert len(VECTORS["refused"]) == 13
    for changed in VECTORS["refused"]:
        with pytest.raises(SignatureError):
            Ticket.decode(changed["ticket"].encode()).check(OPERATOR.public)


SIGNATURE = (
    "1e9f13ea6efdd61fc57fad53b4ec90df65abd441ddf172847d4b68091251d00b"
    "b1fb1f339f648647d0c9be12e9f1541df5cddacfc92291aa2c9e9ee54abbc10f"
)
"""Made by this version, November 2026."""


@pytest.mark.parametrize("document", [b"kiosk-1", b"", b"\x00\xff", b'{"body":{"device":'])
def test_what_is_no_ticket_at_all_is_said_to_be_none(document: bytes) -> None:
    with pytest.raises(SignatureError, match=r"^not a ticket, or a part of one; `hubbub enroll` makes one$"):
        Ticket.decode(document)
