"""Reads and writes the list of readers whose certificates are refused: a line for each, a name and a time.

    reader:ana 2026-12-01T00:00:00Z   # left the team

A certificate of that common name is refused if its validity begins before that time. So a reader of the same name gets
a new certificate later, and the operator need not have kept the old one. What follows a `#` is a comment.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from hubbub.protos.errors import HubbubError
from hubbub.protos.task.schedule import at
from hubbub.protos.transport.roles import READER, role_of

_FORM = "%Y-%m-%dT%H:%M:%SZ"

HEADER = "# Readers whose certificates are refused if they begin before a time; by `hubbub keys revoke --reader`.\n"


class NotAList(HubbubError):
    """A file is no list of revoked readers; the message names the line."""


def read_revoked(text: str) -> dict[str, int]:
    """Return by common name the time (seconds since 1970) before which a refused certificate begins.

    Of a name that is there twice, the later time counts.

    Raises:
        NotAList: naming the line that is something else.
    """
    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            name, moment = _entry(words, number)
            found[name] = max(moment, found.get(name, moment))
    return found


def _entry(words: list[str], number: int) -> tuple[str, int]:
    try:
        name, text = words
        moment = datetime.strptime(text, _FORM).replace(tzinfo=UTC)
    except ValueError:
        shown = " ".join(words)
        raise NotAList(
            f"line {number} is {shown!r:.80}; it must be a reader and a time, such as reader:ana 2026-12-01T00:00:00Z"
        ) from None
    if role_of(name) != READER:
        raise NotAList(f"line {number} is of {name!r:.80}, which is no reader; name one, such as reader:ana")
    return name, int(moment.timestamp())


def write_revoked(revoked: Mapping[str, int]) -> str:
    """Return the list, in the order of the names."""
    return HEADER + "".join(f"{name} {at(moment)}\n" for name, moment in sorted(revoked.items()))
