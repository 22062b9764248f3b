"""Makes and checks tickets, by which an operator admits devices; a shuffler gives one credential for each.

A ticket is one of a list. The operator's identity signs the list, and a second authority countersigns it if a task
names one. They sign the root of a Merkle tree over the tickets, so that a list costs one signature, and each ticket
some hashes. A ticket has the list's signatures and the proof that it is in the tree. A single ticket is a list of one.

The two sign under different labels: otherwise nobody could see from a ticket who made it. A ticket is for one shuffler,
names a device by a random number, and states the end of the device's participation. The first to redeem it is that
device, so it must be handed over like a password. Its salt keeps it secret from the devices of the same list: their
proofs have its hash. Whoever knows a device's number as well could make its ticket if there was no salt.
"""

from __future__ import annotations

import os
import re
from binascii import unhexlify
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import (
    IDENTITY_BYTES,
    SIGNATURE_BYTES,
    check_signature,
    is_json,
    is_signed,
    parse_canonical,
    sign,
)
from hubbub.protos.identity.formats import TICKET, Label
from hubbub.protos.identity.keys import LATEST_TIME, Identity
from hubbub.protos.merkle import NODE_BYTES, InclusionProof, leaf_hash, tree_of

DEVICE_BYTES = 16
"""Length of the random number by which a ticket names its device."""

SALT_BYTES = 16
"""Length of a ticket's salt."""

LONGEST_TICKET = 1200
"""Bytes of a ticket at most: one of the longest list, with two signatures."""

LONGEST_LIST = 256
"""Tickets of a list at most. With more of them a signature costs each ticket less, but each further hash in its path
costs more than that."""

_DRAWN = DEVICE_BYTES + SALT_BYTES

MOST_SIGNATURES = 2
"""The operator's signature and a second authority's."""

# The only canonical form (RFC 8785) of a ticket is digits between fixed words. So it is written and read with a fixed
# pattern, in a fifth of the time of JSON: a shuffler reads thousands of tickets a second.

_FORMAT = TICKET.format.encode()
_BODY = b'{"device":"%b","expires":%d,"format":"' + _FORMAT + b'","salt":"%b","shuffler":"%b"}'
_HEAD = b'{"format":"' + _FORMAT + b'","root":"%b","size":%d}'


def _digits(length: int) -> bytes:
    return b'"([0-9a-f]{%d})"' % (2 * length)


_SIGNED = _digits(IDENTITY_BYTES) + b":" + _digits(SIGNATURE_BYTES)
_FORM = re.compile(
    rb'\{"body":\{"device":%b,"expires":(0|[1-9][0-9]{0,14}),"format":"%b","salt":%b,"shuffler":%b\},'
    rb'"inclusion":\{"index":(0|[1-9][0-9]{0,2}),"path":"((?:[0-9a-f]{%d})*)","size":([1-9][0-9]{0,2})\},'
    rb'"signatures":\{(?:%b(?:,%b)?)?\}\}'
    % (
        _digits(DEVICE_BYTES),
        re.escape(_FORMAT),
        _digits(SALT_BYTES),
        _digits(IDENTITY_BYTES),
        2 * NODE_BYTES,
        _SIGNED,
        _SIGNED,
    )
)

Signatures = tuple[tuple[bytes, bytes], ...]
"""Pairs of a signer (32 bytes) and its signature, in the order of the signers."""


@dataclass(frozen=True)
class TreeHead:
    """The root (32 bytes) and the size of a list of tickets, and the signatures that hold for all of them.

    The signatures are the maker's and a countersigner's; a signer here need not be one that the task requires.
    """

    root: bytes = field(repr=False)
    size: int
    signatures: Signatures = field(default=(), repr=False)

    @property
    def _body(self) -> bytes:
        """Return the signed bytes."""
        return _HEAD % (self.root.hex().encode(), self.size)

    def signed_by(self, identity: Identity) -> TreeHead:
        """Add the signature of the party that makes the tickets; one by the same identity is replaced.

        Raises:
            SignatureError: if there are two others already.
        """
        return self._with_signature(TICKET.format, identity)

    def countersigned_by(self, identity: Identity) -> TreeHead:
        """Add a second authority's signature; one by the same identity is replaced.

        Raises:
            SignatureError: if this identity made the tickets, or if there are two others already.
        """
        own = dict(self.signatures).get(identity.public)
        if own is not None and is_signed(TICKET.format, self._body, own, identity.public):
            raise SignatureError("this key made the ticket; the second authority countersigns with a key of its own")
        return self._with_signature(Label.COUNTERSIGNED, identity)

    def _with_signature(self, label: str, identity: Identity) -> TreeHead:
        others = [each for each in self.signatures if each[0] != identity.public]
        if len(others) >= MOST_SIGNATURES:
            raise SignatureError("two others have signed the ticket already; only the operator and one authority sign")
        signature = sign(label, self._body, identity.key)
        return replace(self, signatures=tuple(sorted([*others, (identity.public, signature)])))

    def check(self, signer: bytes) -> None:
        """Check that this identity (32 bytes) made the tickets; a countersignature is not enough.

        Raises:
            SignatureError: otherwise.
        """
        signature = self._signature_of(signer)
        try:
            check_signature(TICKET.format, self._body, signature, signer)
        except SignatureError:
            if is_signed(Label.COUNTERSIGNED, self._body, signature, signer):
                text = f"{signer.hex()[:16]} only countersigned the ticket, and another key made it"
                raise SignatureError(text) from None
            raise

    def check_countersigned(self, signer: bytes) -> None:
        """Check that this identity (32 bytes) countersigned the tickets.

        Raises:
            SignatureError: otherwise.
        """
        check_signature(Label.COUNTERSIGNED, self._body, self._signature_of(signer), signer)

    def _signature_of(self, signer: bytes) -> bytes:
        signature = dict(self.signatures).get(signer)
        if signature is None:
            raise SignatureError(f"the ticket is not signed by {signer.hex()[:16]}")
        return signature


_ALONE = InclusionProof()


@dataclass(frozen=True, init=False)
class Ticket:
    """A device (16 random bytes), the shuffler (32 bytes) that it is for, and its expiry in seconds since 1970.

    `signatures` are those of the ticket's list, and `inclusion` proves that it is in it. Neither they nor the device
    and the salt (16 random bytes, drawn if it is not given) are ever printed: anybody with a ticket can redeem it.
    """

    device: bytes = field(repr=False)
    shuffler: bytes
    expires: int
    signatures: Signatures = field(default=(), repr=False)
    salt: bytes = field(default=b"", repr=False)
    inclusion: InclusionProof = _ALONE

    def __init__(
        self,
        device: bytes,
        shuffler: bytes,
        expires: int,
        signatures: Signatures = (),
        salt: bytes | None = None,
        inclusion: InclusionProof = _ALONE,
    ) -> None:
        # Thousands are made a second; the `__init__` of a frozen `dataclass` takes three times as long.
        fields = self.__dict__
        fields["device"], fields["shuffler"], fields["expires"] = device, shuffler, expires
        fields["signatures"], fields["inclusion"] = signatures, inclusion
        fields["salt"] = os.urandom(SALT_BYTES) if salt is None else salt

    @property
    def body(self) -> bytes:
        """The canonical bytes of what is signed of this ticket: a leaf of its list's tree."""
        shuffler = self.shuffler.hex().encode()
        return _BODY % (self.device.hex().encode(), self.expires, self.salt.hex().encode(), shuffler)

    @property
    def head(self) -> TreeHead:
        """The list that the ticket claims to be in; its signatures are still to be checked."""
        return TreeHead(self.inclusion.root(leaf_hash(self.body)), self.inclusion.size, self.signatures)

    def check(self, signer: bytes) -> None:
        """Check that this identity (32 bytes) made the ticket, as `TreeHead.check` does."""
        self.head.check(signer)

    def check_countersigned(self, signer: bytes) -> None:
        """Check that this identity (32 bytes) countersigned the ticket, as `TreeHead.check_countersigned` does."""
        self.head.check_countersigned(signer)

    def encode(self) -> bytes:
        """Return the canonical bytes of the ticket, which are the content of its file."""
        proof = self.inclusion
        pairs = ",".join([f'"{signer.hex()}":"{signature.hex()}"' for signer, signature in sorted(self.signatures)])
        return b'{"body":%b,"inclusion":{"index":%d,"path":"%b","size":%d},"signatures":{%b}}' % (
            *(self.body, proof.index, proof.path.hex().encode(), proof.size, pairs.encode()),
        )

    @classmethod
    def decode(cls, document: bytes) -> Ticket:
        """Read what `encode` wrote; its signatures are still to be checked.

        Raises:
            SignatureError: if it is not a ticket in canonical form.
        """
        if lines := document.count(b"\n"):
            raise SignatureError(f"not a ticket: it has {lines + 1} lines; give one of them, that of this device")
        if len(document) > LONGEST_TICKET:
            raise SignatureError(
                f"not a ticket: it has {len(document)} bytes, but a ticket has at most {LONGEST_TICKET}"
            )
        found = _FORM.fullmatch(document)
        if found is None:
            # Raises a specific error if it is not canonical JSON at all, or of another version.
            try:
                value = parse_canonical(document)
            except SignatureError as error:
                if is_json(document):
                    raise
                raise SignatureError("not a ticket, or a part of one; `hubbub enroll` makes one") from error
            TICKET.check_named(value.get("body") if isinstance(value, dict) else None)
            raise SignatureError(f"not a ticket of {TICKET.format}; `hubbub enroll` makes one")
        device, expires, salt, shuffler, index, path, size, *signed = found.groups()
        parts = [unhexlify(each) for each in signed if each is not None]
        pairs = tuple(zip(parts[::2], parts[1::2], strict=True))
        if int(expires) > LATEST_TIME or int(size) > LONGEST_LIST or not _in_order(pairs):
            raise SignatureError(
                f"not a ticket of {TICKET.format}: a time, a size or its signers are not in canonical form; `hubbub "
                "enroll` makes one"
            )
        inclusion = InclusionProof(int(index), int(size), unhexlify(path))
        return cls(unhexlify(device), unhexlify(shuffler), int(expires), pairs, unhexlify(salt), inclusion)


def _in_order(pairs: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether each signer is named once, in canonical order."""
    return all(first < second for (first, _), (second, _) in pairwise(pairs))


def signed(tickets: Sequence[Ticket], signers: Sequence[Identity]) -> list[Ticket]:
    """Put tickets into lists, and sign each list: the first signer makes the tickets, and the others countersign.

    Return them in the same order; what they had of lists and signatures is gone.

    Raises:
        SignatureError: if a ticket is there twice.
    """
    hashes = [leaf_hash(ticket.body) for ticket in tickets]
    # By their hashes, so at random: a place in a list shows nothing of a place in a file of names.
    order = sorted(range(len(tickets)), key=hashes.__getitem__)
    if any(hashes[first] == hashes[second] for first, second in pairwise(order)):
        raise SignatureError("a ticket is there twice; give each ticket once")
    placed: dict[int, Ticket] = {}
    for start in range(0, len(order), LONGEST_LIST):
        places = order[start : start + LONGEST_LIST]
        placed.update(zip(places, _signed_list([tickets[place] for place in places], signers), strict=True))
    return [placed[place] for place in range(len(tickets))]


def _signed_list(tickets: Sequence[Ticket], signers: Sequence[Identity]) -> list[Ticket]:
    root, proofs = tree_of([leaf_hash(ticket.body) for ticket in tickets])
    maker, *others = signers
    head = TreeHead(root, len(tickets)).signed_by(maker)
    for other in others:
        head = head.countersigned_by(other)
    return [
        Ticket(ticket.device, ticket.shuffler, ticket.expires, head.signatures, ticket.salt, proof)
        for ticket, proof in zip(tickets, proofs, strict=True)
    ]


def countersigned(tickets: Sequence[Ticket], identity: Identity) -> list[Ticket]:
    """Return tickets with a second authority's signature; one by the same identity is replaced.

    Raises:
        SignatureError: if a list is not there in whole, if this identity made a ticket, or if there are two others
            already.
    """
    heads = [ticket.head for ticket in tickets]
    found: dict[tuple[bytes, int], set[int]] = {}
    for ticket, head in zip(tickets, heads, strict=True):
        found.setdefault((head.root, head.size), set()).add(ticket.inclusion.index)
    for (_root, size), places in found.items():
        # The signature admits every ticket of the list. So the signer must have seen them all: a list of so many leaves
        # has one at each place, and no other leaf leads from there to the same root.
        if len(places) < size:
            raise SignatureError(
                f"{len(places)} of the {size} tickets of a list are here, and a signature is for all of them; give all "
                "tickets that were made together"
            )
    made = {head: head.countersigned_by(identity).signatures for head in dict.fromkeys(heads)}
    return [replace(ticket, signatures=made[head]) for ticket, head in zip(tickets, heads, strict=True)]


def new_tickets(count: int, shuffler: bytes, expires: int, signers: Sequence[Identity]) -> list[Ticket]:
    """Make `count` tickets for devices of a shuffler (32 bytes) until `expires`.

    The first signer makes them, and the others countersign.
    """
    # One call of the system for all of them, which takes a tenth of one for each.
    drawn = os.urandom(_DRAWN * count)
    bare = [
        Ticket(drawn[start : start + DEVICE_BYTES], shuffler, expires, (), drawn[start + DEVICE_BYTES : start + _DRAWN])
        for start in range(0, len(drawn), _DRAWN)
    ]
    return signed(bare, signers)


def written_tickets(count: int, shuffler: bytes, expires: int, signers: Sequence[Identity]) -> list[bytes]:
    """Make tickets like `new_tickets`, list by list, and return them in the form of their file.

    The tickets of a million devices would take a gigabyte as objects.
    """
    sizes = [min(LONGEST_LIST, count - start) for start in range(0, count, LONGEST_LIST)]
    return [ticket.encode() for size in sizes for ticket in new_tickets(size, shuffler, expires, signers)]
