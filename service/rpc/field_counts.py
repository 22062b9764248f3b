"""Counts a message's repeated fields in its bytes, before it is parsed.

A parser makes an object of every element, and one that is empty takes two bytes on the wire: eight megabytes of them
would become two hundred. So they are counted first, on the bytes as they came. Wire format: protobuf's encoding guide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hubbub.protos.errors import MessageError

_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5

_LONGEST_VARINT = 10

_AT_ONCE = 256
"""Elements that are looked at together: were it more, looking far ahead in vain would cost more than one by one."""

MOST_OTHERS = 8
"""Fields of a message that are not counted by themselves, known and to come: each is walked over, in Python."""


@dataclass(frozen=True)
class Elements:
    """What a message may hold of a field."""

    most: int
    """Elements, in all messages of the request together."""
    fewest_bytes: int = 0
    """Bytes of each at least: what is shorter is none, and would be answered by more than it takes to send."""
    shorter: int = 0
    """As many may be shorter all the same: they are refused by themselves, and the others are taken."""
    inner: Mapping[int, Elements] = field(default_factory=dict)
    """The same of the messages that they are, by the field's number; nothing of them is looked at where it is empty."""


class TooMany(MessageError):
    """A message holds more elements of a repeated field than it may; counting ended there."""

    def __init__(self, count: int, most: int) -> None:
        super().__init__(f"{count} elements or more in one call; send at most {most}")
        self.count = count


class TooShort(MessageError):
    """A message holds more elements than it may that are shorter than any can be; counting ended there."""

    def __init__(self, count: int, size: int, fewest: int) -> None:
        super().__init__(f"element {count} of a call has {size} bytes; none has fewer than {fewest}, send whole ones")
        self.count = count


class _FieldCount:
    """What was counted so far of a field, and of those in it."""

    __slots__ = ("count", "inner", "of", "shorter")

    def __init__(self, of: Elements) -> None:
        self.of = of
        self.count = self.shorter = 0
        self.inner = {number: _FieldCount(each) for number, each in of.inner.items()}

    def add(self, size: int, count: int = 1) -> None:
        """Count one element of a size, or several that are long enough."""
        self.count += count
        if self.count > self.of.most:
            raise TooMany(self.of.most + 1, self.of.most)
        if size < self.of.fewest_bytes:
            self.shorter += 1
            if self.shorter > self.of.shorter:
                raise TooShort(self.count, size, self.of.fewest_bytes)


def check_counts(raw: bytes, most: Mapping[int, Elements]) -> int:
    """Return how many fields a message has, if it has at most so many elements of each, by the field's number.

    It takes time in proportion to what it counts: at most as many elements as there may be, and `MOST_OTHERS` fields
    beside them in each message that is looked into.

    Raises:
        TooMany: if there are more.
        TooShort: if one is shorter than it can be.
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
                raise MessageError(f"a message has more than {MOST_OTHERS} fields beside those that may be many")
            continue
        size = at - begin
        found.add(size)
        if kind != _LENGTH:
            continue
        if found.inner:
            if at > end:
                break
            walked += _walk(raw, begin, at, found.inner)
        elif size >= found.of.fewest_bytes:
            alike = _alike(raw, first, begin, at, end)
            found.add(size, alike)
            walked += alike
            at += alike * (at - first)
    if at != end:
        raise MessageError("the request ends within a field: it is not a message of this version")
    return walked


def _alike(raw: bytes, first: int, begin: int, at: int, end: int) -> int:
    """Return how many elements lie right behind one of the same tag and length, `_AT_ONCE` at most.

    The one has its tag and length from `first` to `begin`, and ends at `at`. What many devices send is alike, so its
    frames lie at equal distances: a slice and a comparison for each of their bytes find a hundred.
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
    """Return where the field ends whose value begins at a place, and has no length of its own."""
    if kind == _VARINT:
        return _varint(raw, at)[1]
    if kind == _EIGHT:
        return at + 8
    if kind == _FOUR:
        return at + 4
    raise MessageError("the request has a field of an unknown kind: it is not a message of this version")


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a place, and where it ends."""
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
    raise MessageError("the request ends within a number: it is not a message of this version")
