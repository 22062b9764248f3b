"""The beginnings of texts that a device reports if a question is asked by prefixes over rounds.

A text's beginning is its first bytes in UTF-8, of Unicode's composed form (NFC). It is measured in bytes, not
characters: in every script a byte has about two hundred continuations, and all of them can be looked up without knowing
what people write. So a beginning may end within a character.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hubbub.queries.errors import FieldError, shown

MOST_PREFIXES = 64
"""Most rounds that ask for beginnings."""

LONGEST_PREFIX = 1024
"""Most bytes of a beginning."""

_END = b"\xff"
"""The end mark: UTF-8 has no such byte, so no beginning of another text is a text with its end."""


@dataclass(frozen=True)
class Prefix:
    """The beginning of a text in UTF-8; the whole text if `ended` is true."""

    content: bytes = field(repr=False)
    ended: bool

    @classmethod
    def of(cls, text: str, length: int | None) -> Prefix:
        """Return a text's first `length` bytes, or all of it if it has no more, or `length` is None.

        Raises:
            UnicodeEncodeError: if it cannot be written in UTF-8.
        """
        written = unicodedata.normalize("NFC", text).encode()
        ended = length is None or len(written) <= length
        return cls(written if ended else written[:length], ended)

    @property
    def label(self) -> str:
        """The text, or its beginning and `…`, to show; bytes of an incomplete character are shown as numbers."""
        return self.content.decode("utf-8", "backslashreplace") + ("" if self.ended else "…")


@dataclass(frozen=True)
class Digests:
    """The digests of one round, eight bytes each: of a `head`, the beginning, and an `end` if the text has ended."""

    head: bytes
    person: bytes
    end: bytes

    @classmethod
    def at(cls, name: str, length: int | None) -> Digests:
        """Return the digests of a round that asks for beginnings of `length` bytes, or for whole texts if it is None.

        The length is part of the hashed bytes. So a text that is reported in several rounds collides with other texts
        independently in each: a text that stood out of one table by a collision does not stand out of the next one too.
        """
        if length is None:
            return cls(f"{name}\0".encode(), b"hubbub-text-1", b"")
        return cls(f"{name}\0{length}\0".encode(), b"hubbub-prefix-1", _END)

    def joined(self, beginning: bytes, continuations: Iterable[bytes], ended: bool) -> bytes:
        """Return the digests of a beginning with each of its continuations, without separators."""
        head, end, person = self.head + beginning, self.end if ended else b"", self.person
        blake2b = hashlib.blake2b
        return b"".join([blake2b(head + each + end, digest_size=8, person=person).digest() for each in continuations])


def read_prefixes(table: str, value: Any) -> tuple[int, ...]:
    """Return the lengths in a draft's or a task's `prefixes`.

    Raises:
        FieldError: if it is not a list of rising whole numbers from 1.
    """
    limit = f"from 1 to {LONGEST_PREFIX}, each above the one before, such as [2, 4, 6]; or leave it out"
    if not isinstance(value, list) or not 0 < len(value) <= MOST_PREFIXES:
        raise FieldError(table, "prefixes", f"is {shown(value)}; give 1 to {MOST_PREFIXES} lengths in bytes, {limit}")
    if any(type(length) is not int or not 1 <= length <= LONGEST_PREFIX for length in value):
        raise FieldError(table, "prefixes", f"is {shown(value)}; its lengths are whole numbers of bytes, {limit}")
    if any(later <= length for length, later in pairwise(value)):
        raise FieldError(table, "prefixes", f"is {shown(value)}; its lengths must rise, {limit}")
    return tuple(value)
