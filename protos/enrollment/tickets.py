"""Makes and checks tickets, by which an operator admits devices; a shuffler gives one credential for each.

A ticket is signed by the operator's identity, and countersigned by a second authority if a task names one. The two
sign under different labels: otherwise nobody could see from a ticket who made it. It is for one shuffler, names a
device by a random number, and states the end of the device's participation. The first to redeem it is that device, so
it must be handed over like a password.
"""

from __future__ import annotations

import os
import re
from binascii import unhexlify
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
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

DEVICE_BYTES = 16
"""Length of the random number by which a ticket names its device."""

LONGEST_TICKET = 1024
"""Bytes of a ticket at most; one with two signatures has about 600."""

MOST_SIGNATURES = 2
"""The operator's signature and a second authority's."""

TOGETHER = 1000
"""Tickets that one thread makes at a time."""

# The only canonical form (RFC 8785) of a ticket is digits between fixed words. So it is written and read with a fixed
# pattern, in a fifth of the time of JSON: a shuffler reads thousands of tickets a second.

_BODY = b'{"device":"%b","expires":%d,"format":"' + TICKET.format.encode() + b'","shuffler":"%b"}'


def _digits(length: int) -> bytes:
    return b'"([0-9a-f]{%d})"' % (2 * length)


_SIGNED = _digits(IDENTITY_BYTES) + b":" + _digits(SIGNATURE_BYTES)
_FORM = re.compile(
    rb'\{"body":\{"device":%b,"expires":(0|[1-9][0-9]{0,14}),"format":"%b","shuffler":%b\},"signatures":\{(?:%b(?:,%b)?)?\}\}'
    % (_digits(DEVICE_BYTES), re.escape(TICKET.format.encode()), _digits(IDENTITY_BYTES), _SIGNED, _SIGNED)
)


@dataclass(frozen=True)
class Ticket:
    """A device (16 random bytes), the shuffler (32 bytes) that it is for, and its expiry in seconds since 1970.

    `signatures` are by signer (32 bytes each), the maker's and a countersigner's; a signer here need not be one that
    the task requires. Neither they nor the device are ever printed: anybody with a ticket can redeem it.
    """

    device: bytes = field(repr=False)
    shuffler: bytes
    expires: int
    signatures: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)

    @property
    def _body(self) -> bytes:
        """Return the signed bytes."""
        return _BODY % (self.device.hex().encode(), self.expires, self.shuffler.hex().encode())

    def signed_by(self, identity: Identity) -> Ticket:
        """Add the signature of the party that makes the ticket; one by the same identity is replaced.

        Raises:
            SignatureError: if there are two others already.
        """
        return self._with_signature(TICKET.format, identity)

    def countersigned_by(self, identity: Identity) -> Ticket:
        """Add a second authority's signature; one by the same identity is replaced.

        Raises:
            SignatureError: if this identity made the ticket, or if there are two others already.
        """
        own = dict(self.signatures).get(identity.public)
        if own is not None and is_signed(TICKET.format, self._body, own, identity.public):
            raise SignatureError("this key made the ticket; the second authority countersigns with a key of its own")
        return self._with_signature(Label.COUNTERSIGNED, identity)

    def _with_signature(self, label: str, identity: Identity) -> Ticket:
        others = [each for each in self.signatures if each[0] != identity.public]
        if len(others) >= MOST_SIGNATURES:
            raise SignatureError("two others have signed the ticket already; only the operator and one authority sign")
        signature = sign(label, self._body, identity.key)
        return replace(self, signatures=tuple(sorted([*others, (identity.public, signature)])))

    def check(self, signer: bytes) -> None:
        """Check that this identity (32 bytes) made the ticket; a countersignature is not enough.

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
        """Check that this identity (32 bytes) countersigned the ticket.

        Raises:
            SignatureError: otherwise.
        """
        check_signature(Label.COUNTERSIGNED, self._body, self._signature_of(signer), signer)

    def _signature_of(self, signer: bytes) -> bytes:
        signature = dict(self.signatures).get(signer)
        if signature is None:
            raise SignatureError(f"the ticket is not signed by {signer.hex()[:16]}")
        return signature

    def encode(self) -> bytes:
        """Return the canonical bytes of the ticket, which are the content of its file."""
        pairs = [f'"{signer.hex()}":"{signature.hex()}"' for signer, signature in sorted(self.signatures)]
        return b'{"body":%b,"signatures":{%b}}' % (self._body, ",".join(pairs).encode())

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
        device, expires, shuffler, *signed = found.groups()
        parts = [unhexlify(each) for each in signed if each is not None]
        pairs = tuple(zip(parts[::2], parts[1::2], strict=True))
        if int(expires) > LATEST_TIME or not _in_order(pairs):
            raise SignatureError(f"not a ticket of {TICKET.format}: a time or its signers are not in canonical form")
        return cls(unhexlify(device), unhexlify(shuffler), int(expires), pairs)


def _in_order(pairs: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether each signer is named once, in canonical order."""
    return all(first < second for (first, _), (second, _) in pairwise(pairs))


def new_tickets(count: int, shuffler: bytes, expires: int, signers: Sequence[Identity]) -> list[Ticket]:
    """Make `count` tickets for devices of a shuffler (32 bytes) until `expires`.

    The first signer makes them, and the others countersign.
    """
    maker, *others = signers
    tickets = [Ticket(os.urandom(DEVICE_BYTES), shuffler, expires).signed_by(maker) for _ in range(count)]
    for other in others:
        tickets = [ticket.countersigned_by(other) for ticket in tickets]
    return tickets


def written_tickets(count: int, shuffler: bytes, expires: int, signers: Sequence[Identity]) -> list[bytes]:
    """Make tickets like `new_tickets`, on all cores, and return them in the form of their file.

    The tickets of a million devices would take a gigabyte as objects.
    """

    def made(some: int) -> list[bytes]:
        return [ticket.encode() for ticket in new_tickets(some, shuffler, expires, signers)]

    whole, rest = divmod(count, TOGETHER)
    # OpenSSL signs without the interpreter's lock, so threads do it at the same time.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [ticket for tickets in pool.map(made, [*[TOGETHER] * whole, rest]) for ticket in tickets]
