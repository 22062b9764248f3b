"""Writes tests/vectors/wire/tickets.json: lists of tickets as an operator makes them, and changed ones to refuse.

    python tests/vectors/make_tickets.py

Who makes tickets, or checks them, in another language has written it correctly if it comes to the same.
`tests/unit/protos/enrollment` checks that the file is what this program writes.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from hubbub.protos.enrollment.tickets import LONGEST_LIST, Ticket, signed  # noqa: E402
from hubbub.protos.merkle import leaf_hash  # noqa: E402
from vectors.make_signed import PARTIES, identity  # noqa: E402

FILE = Path(__file__).parent / "wire" / "tickets.json"

SECOND = identity(14)
EXPIRES = 1_800_000_000
SIZES = (1, 2, 3, 5, 7, LONGEST_LIST)
"""Tickets of the lists of the file; the longest is there in part."""

SHOWN = 7
"""Most tickets of a list that the file has, the first of its leaves."""


def list_of(size: int) -> list[Ticket]:
    """A list that the operator made and a second authority countersigned, in the order of its leaves."""
    bare = [
        Ticket(number.to_bytes(16, "big"), PARTIES.shuffler.public, EXPIRES, salt=bytes(14) + number.to_bytes(2, "big"))
        for number in range(size)
    ]
    return sorted(signed(bare, [PARTIES.operator, SECOND]), key=lambda ticket: ticket.inclusion.index)


def refused() -> dict[str, bytes]:
    """Tickets that do not hold, each a ticket of a list of five changed in one thing."""
    made = list_of(5)
    third, fourth, last = made[2], made[3], made[4]
    path = third.inclusion.path

    def placed(index: int, size: int, path: bytes) -> bytes:
        # Written by hand: what has no such place, or another length of path, is not even made.
        text = third.encode().decode()
        head, _, rest = text.partition('"inclusion":{')
        _, _, signatures = rest.partition("},")
        inclusion = f'"inclusion":{{"index":{index},"path":"{path.hex()}","size":{size}}}'
        return f"{head}{inclusion},{signatures}".encode()

    return {
        "another place": placed(3, 5, path),
        "a place outside of the tree": placed(5, 5, path),
        "another size with a path as long": placed(2, 6, path),
        "a list of one": placed(0, 1, b""),
        "a path that is cut": placed(2, 5, path[:-32]),
        "a path that is too long": placed(2, 5, path + bytes(32)),
        "a path in another order": placed(2, 5, path[32:] + path[:32]),
        "the path of another ticket": placed(2, 5, fourth.inclusion.path),
        "another device": replace(third, device=last.device).encode(),
        "another salt": replace(third, salt=last.salt).encode(),
        "another end": replace(third, expires=EXPIRES + 1).encode(),
        "another shuffler": replace(third, shuffler=PARTIES.analyzer.public).encode(),
        "signatures of another list": replace(third, signatures=list_of(7)[0].signatures).encode(),
    }


def document() -> dict[str, Any]:
    """The content of the file; all bytes are hex digits, and a ticket is the text of its file."""
    return {
        "origin": "November 2026: lists of tickets as hubbub makes them. The keys were made for this file and protect "
        "nothing. docs/reference/formats.md (Tickets and credentials) has the forms.",
        "operator": PARTIES.operator.public.hex(),
        "second_authority": SECOND.public.hex(),
        "lists": [
            {
                "size": size,
                "root": made[0].head.root.hex(),
                "leaves": [leaf_hash(ticket.body).hex() for ticket in made],
                "tickets": [ticket.encode().decode() for ticket in made[:SHOWN]],
            }
            for size, made in ((size, list_of(size)) for size in SIZES)
        ],
        "refused": [{"why": why, "ticket": ticket.decode()} for why, ticket in refused().items()],
    }


def written() -> str:
    """The file's text."""
    return json.dumps(document(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(written())
    sys.stdout.write(f"wrote {FILE}\n")
