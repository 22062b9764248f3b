"""Tickets: by them an operator says which devices belong to it; a shuffler gives one credential for each.

A ticket is signed by the operator's identity, and by a second authority too where a task names one. It is for one
shuffler, names a device by a random number, and says until when the device takes part. Whoever redeems it first has
the device's place, so it is handed over as a password is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hubbub.protos.errors import SignatureError
from hubbub.protos.keys import LATEST_TIME, Identity
from hubbub.protos.signed import (
    IDENTITY_BYTES,
    SIGNATURE_BYTES,
    Label,
    canonical,
    check_signature,
    from_hex,
    parse_canonical,
    sign,
)

TICKET_FORMAT = "hubbub-ticket/1"

DEVICE_BYTES = 16
"""Length of the random number by which a ticket names its device."""

LONGEST_TICKET = 1024
"""Bytes of a ticket at most; one with two signatures has about 600."""

MOST_SIGNATURES = 2
"""The operator's and a second authority's."""


@dataclass(frozen=True)
class Ticket:
    """A device (16 random bytes), the shuffler (32 bytes) that it is for, and its expiry in seconds since 1970.

    `signatures` are by signer (32 bytes each); a signer that is named need not be one that counts. Neither they nor the
    device are ever printed: who has a ticket can redeem it.
    """

    device: bytes = field(repr=False)
    shuffler: bytes
    expires: int
    signatures: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)

    @property
    def _body(self) -> dict[str, Any]:
        return {
            "device": self.device.hex(),
            "expires": self.expires,
            "format": TICKET_FORMAT,
            "shuffler": self.shuffler.hex(),
        }

    def signed_by(self, identity: Identity) -> Ticket:
        """Add a signature; one by the same identity is replaced.

        Raises:
            SignatureError: where there are two others already.
        """
        others = [each for each in self.signatures if each[0] != identity.public]
        if len(others) >= MOST_SIGNATURES:
            raise SignatureError("two others have signed the ticket already; the operator and one authority sign")
        signature = sign(Label.TICKET, canonical(self._body), identity.key)
        return replace(self, signatures=tuple(sorted([*others, (identity.public, signature)])))

    def check(self, signer: bytes) -> None:
        """Return only if that identity (32 bytes) signed the ticket.

        Raises:
            SignatureError: otherwise.
        """
        signature = dict(self.signatures).get(signer)
        if signature is None:
            raise SignatureError(f"the ticket is not signed by {signer.hex()[:16]}")
        check_signature(Label.TICKET, canonical(self._body), signature, signer)

    def encode(self) -> bytes:
        """Return the canonical bytes of the ticket: what its file holds."""
        signatures = {signer.hex(): signature.hex() for signer, signature in self.signatures}
        return canonical({"body": self._body, "signatures": signatures})

    @classmethod
    def decode(cls, document: bytes) -> Ticket:
        """Read what `encode` wrote; its signatures are still to be checked.

        Raises:
            SignatureError: where it is not a ticket in canonical form.
        """
        if len(document) > LONGEST_TICKET:
            raise SignatureError(f"not a ticket: it has {len(document)} bytes, a ticket at most {LONGEST_TICKET}")
        value = parse_canonical(document)
        try:
            ticket = cls._read(value["body"], value["signatures"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SignatureError(f"not a ticket of {TICKET_FORMAT}; `hubbub enroll` makes one") from error
        if ticket.encode() != document:
            raise SignatureError(f"not a ticket of {TICKET_FORMAT}: it has members of another version")
        return ticket

    @classmethod
    def _read(cls, body: Any, signatures: Any) -> Ticket:
        expires = body["expires"]
        if type(expires) is not int or not 0 <= expires <= LATEST_TIME or len(signatures) > MOST_SIGNATURES:
            raise ValueError("expires is not a time, or more have signed than do")
        pairs = [
            (from_hex(signer, IDENTITY_BYTES, "a signer"), from_hex(signature, SIGNATURE_BYTES, "a signature"))
            for signer, signature in signatures.items()
        ]
        device = from_hex(body["device"], DEVICE_BYTES, "device")
        return cls(device, from_hex(body["shuffler"], IDENTITY_BYTES, "shuffler"), expires, tuple(sorted(pairs)))


def new_tickets(count: int, shuffler: bytes, expires: int, signers: Sequence[Identity]) -> list[Ticket]:
    """Make tickets for so many devices of a shuffler (32 bytes) until `expires`, signed by all `signers`."""
    tickets = [Ticket(os.urandom(DEVICE_BYTES), shuffler, expires) for _ in range(count)]
    for signer in signers:
        tickets = [ticket.signed_by(signer) for ticket in tickets]
    return tickets
