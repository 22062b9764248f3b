"""Counts a message's repeated fields in its bytes, before it is parsed.

A parser makes an object of every element, and an empty element takes two bytes on the wire: eight megabytes of them
would become two hundred. So elements are counted first, in the raw bytes. Wire format: protobuf's encoding guide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hubbub.protos.errors import MessageError

_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5

_LONGEST_VARINT = 10

_AT_ONCE = 256
"""Elements that are compared together; with more, a vain look ahead would cost more than single steps."""

MOST_OTHERS = 8
"""Other fields that a message may have, for present and future versions; Python steps over each of them."""


@dataclass(frozen=True)
class Elements:
    """The limits of a repeated field."""

    most: int
    """Most elements, in all messages of the request together."""
    fewest_bytes: int = 0
    """Fewest bytes of an element: a shorter one is malformed, and its answer would be longer than the element."""
    shorter: int = 0
    """How many elements may be shorter nevertheless: each is refused by itself, and the others are accepted."""
    inner: Mapping[int, Elements] = field(default_factory=dict)
    """The limits of fields within the elements, by field number; if empty, the elements are not inspected."""


class TooMany(MessageError):
    """A message has more elements of a repeated field than allowed; counting stopped there."""

    def __init__(self, count: int, most: int) -> None:
        super().__init__(f"{count} elements or more in one call; send at most {most}")
        self.count = count


class TooShort(MessageError):
    """A message has more elements below the shortest valid length than allowed; counting stopped there."""

    def __init__(self, count: int, size: int, fewest: int) -> None:
        super().__init__(f"element {count} of a call has {size} bytes; send elements of at least {fewest}")
        self.count = count


class _FieldCount:
    """The counts so far of a field, and of the fields within it."""

    __slots__ = ("count", "inner", "of", "shorter")

    def __init__(self, of: Elements) -> None:
        self.of = of
        self.count = self.shorter = 0
        self.inner = {number: _FieldCount(each) for number, each in of.inner.items()}

    def add(self, size: int, count: int = 1) -> None:
        """Count one element of a size, or `count` elements of a sufficient size."""
        self.count += count
        if self.count > self.of.most:
            raise TooMany(self.of.most + 1, self.of.most)
        if size < self.of.fewest_bytes:
            self.shorter += 1
            if self.shorter > self.of.shorter:
                raise TooShort(self.count, size, self.of.fewest_bytes)


def check_counts(raw: bytes, most: Mapping[int, Elements]) -> int:
    """Return how many fields a message has, after checking the elements of each field in `most`, by field number.

    The time is proportional to the count: at most the allowed elements, plus `MOST_OTHERS` other fields in each
    message that is inspected.

    Raises:
        TooMany: if a field has more elements.
        TooShort: if too many elements are shorter than a valid one.
        MessageError: if the bytes are no message, or have too many other fields.
    """
    return _walk(raw, 0, len(raw), {number: _FieldCount(each) for number, each in most.items()})


def _walk(raw: bytes, at: int, end: int, counted: Mapping[int, _FieldCount]) -> int:
    others = walked = 0
    while at < end:
        first = at
        tag, at = _varint(raw, at)
        kind, begin = tag & 7, at
        if kind == _LENGTH:
            length, begin = _varint(raw, at)
            at = begin + length
        else:
            at = _behind(raw, at, kind)
        walked += 1
        found = counted.get(tag >> 3)
        if found is None:
            others += 1
            if others > MOST_OTHERS:
                raise MessageError(
                    f"a message has more than {MOST_OTHERS} fields besides the repeated ones; send a message of this "
                    "version"
                )
            continue
        size = at - begin
        found.add(size)
        if kind != _LENGTH:
            continue
        if found.inner:
            if at > end:
                break  # it ends beyond the message, which is reported below
            walked += _walk(raw, begin, at, found.inner)
        elif size >= found.of.fewest_bytes:
            # Submissions have one length: comparing many frames at once is far faster than a step for each.
            alike = _alike(raw, first, begin, at, end)
            found.add(size, alike)
            walked += alike
            at += alike * (at - first)
    if at != end:
        raise MessageError("the request ends within a field; it is not a message of this version")
    return walked


def _alike(raw: bytes, first: int, begin: int, at: int, end: int) -> int:
    """Return how many elements of the same tag and length directly follow an element, `_AT_ONCE` at most.

    The element's tag and length are between `first` and `begin`, and it ends at `at`. Submissions of many devices have
    one length, so their frames have equal distances: a slice and a comparison for each frame byte find a hundred.
    """
    width = at - first
    count = min((end - at) // width, _AT_ONCE)
    for place in range(first, begin):
        if count <= 0:
            return 0
        column = raw[place + width : place + (count + 1) * width : width]
        count -= len(column.lstrip(raw[place : place + 1]))
    return count


def _behind(raw: bytes, at: int, kind: int) -> int:
    """Return the end of a field of fixed or varint kind, whose value begins at `at`."""
    if kind == _VARINT:
        return _varint(raw, at)[1]
    if kind == _EIGHT:
        return at + 8
    if kind == _FOUR:
        return at + 4
    raise MessageError("the request has a field of an unknown kind; it is not a message of this version")


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at `at`, and the position of its end."""
    try:
        first = raw[at]
        if first < 128:
            return first, at + 1
        value = 0
        for place in range(_LONGEST_VARINT):
            byte = raw[at + place]
            value |= (byte & 127) << (7 * place)
            if byte < 128:
                return value, at + place + 1
    except IndexError:
        pass
    raise MessageError("the request ends within a number; it is not a message of this version")
