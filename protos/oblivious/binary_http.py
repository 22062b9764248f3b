"""Writes and reads HTTP messages in binary form (RFC 9292, `message/bhttp`), which Oblivious HTTP encapsulates.

A message is written with known lengths. Both framings are read, with informational responses, trailers, padding and
truncation, as the RFC allows them. What is read is bounded: fields and their bytes, and informational responses. The
length of the whole message is its caller's to bound.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hubbub.protos.errors import MessageError

MOST_FIELDS = 64
"""Fields of a message, trailers included: as many as the HTTPS port takes headers."""

MOST_FIELD_BYTES = 16 * 1024
"""Bytes of all its fields, and of its method, scheme, authority and path: as many as a head at the HTTPS port has."""

MOST_INFORMATIONAL = 8
"""Informational responses (1xx) before a response."""

FREE_PIECES, PIECE_BYTES = 64, 128
"""How small the pieces of content without a known length may be: of a message, one for each `PIECE_BYTES`, and
`FREE_PIECES` beyond that. Each costs as much to read as that many bytes, and anybody can send them."""

PAD_BYTES = 128
"""Messages are padded with zeros to a multiple of this, so that answers that differ little have one length."""

_KNOWN_REQUEST, _KNOWN_RESPONSE, _OPEN_REQUEST, _OPEN_RESPONSE = range(4)
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
# Visible ASCII, and bytes above it; spaces and tabs inside only (RFC 9110, section 5.5).
_VALUE = re.compile(rb"(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?")
_CONTROL = re.compile(rb"[!-~]*")

Fields = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True)
class BinaryRequest:
    """A request. Nothing of it is printed: it may be what a relay must not learn."""

    method: bytes = field(repr=False)
    scheme: bytes = field(repr=False)
    authority: bytes = field(repr=False)
    path: bytes = field(repr=False)
    fields: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)
    content: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class BinaryResponse:
    """A final response: its status, fields and content. Trailers are checked and dropped."""

    status: int
    fields: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)
    content: bytes = field(default=b"", repr=False)


def write_request(request: BinaryRequest) -> bytes:
    """Return a request in binary form, padded."""
    control = b"".join(map(_prefixed, (request.method, request.scheme, request.authority, request.path)))
    return _padded(bytes([_KNOWN_REQUEST]) + control + _rest(request.fields, request.content))


def write_response(response: BinaryResponse) -> bytes:
    """Return a response in binary form, padded."""
    head = bytes([_KNOWN_RESPONSE]) + number(response.status)
    return _padded(head + _rest(response.fields, response.content))


def _rest(fields: Fields, content: bytes) -> bytes:
    section = b"".join(_prefixed(name) + _prefixed(value) for name, value in fields)
    return _prefixed(section) + _prefixed(content) + b"\0"


def _padded(message: bytes) -> bytes:
    return message + bytes(-len(message) % PAD_BYTES)


def _prefixed(part: bytes) -> bytes:
    return number(len(part)) + part


def number(value: int) -> bytes:
    """Return a number as QUIC writes it, in the fewest bytes (RFC 9000, section 16)."""
    for exponent, most in enumerate((2**6, 2**14, 2**30, 2**62)):
        if value < most:
            return (value | exponent << (8 << exponent) - 2).to_bytes(1 << exponent, "big")
    raise ValueError(f"{value} is too large for a number of QUIC")


def read_request(message: bytes) -> BinaryRequest:
    """Return the request in these bytes.

    Raises:
        MessageError: if they are none, or beyond a limit.
    """
    reader = _MessageReader(message)
    known = reader.framing(_KNOWN_REQUEST, _OPEN_REQUEST, "request")
    method, scheme, authority, path = (reader.control() for _ in range(4))
    if not method or not path:
        raise MessageError("a binary request has no method or no path")
    return BinaryRequest(method, scheme, authority, path, *reader.rest(known))


def read_response(message: bytes) -> BinaryResponse:
    """Return the final response in these bytes.

    Raises:
        MessageError: if they are none, or beyond a limit.
    """
    reader = _MessageReader(message)
    known = reader.framing(_KNOWN_RESPONSE, _OPEN_RESPONSE, "response")
    for _ in range(MOST_INFORMATIONAL + 1):
        status = reader.number()
        if not 100 <= status <= 599:
            raise MessageError("a binary response has a status that is not from 100 to 599")
        if status >= 200:
            return BinaryResponse(status, *reader.rest(known))
        reader.section(known)
    raise MessageError(f"a binary response has more than {MOST_INFORMATIONAL} informational ones before it")


class _MessageReader:
    """Reads the parts of a message, in order."""

    def __init__(self, message: bytes) -> None:
        self._message, self._at = message, 0
        self._fields, self._field_bytes = MOST_FIELDS, MOST_FIELD_BYTES

    def framing(self, known: int, open_: int, what: str) -> bool:
        """Read the framing indicator; return whether lengths are known."""
        found = self.number()
        if found not in (known, open_):
            raise MessageError(f"the bytes are no binary HTTP {what}: their framing indicator is another")
        return found == known

    def rest(self, known: bool) -> tuple[Fields, bytes]:
        """Read what follows the control data, up to the end."""
        fields = self.section(known)
        content = self._content(known)
        self.section(known)
        rest = self._message[self._at :]
        if rest.count(0) != len(rest):
            raise MessageError("a binary HTTP message is padded with bytes that are not zero")
        return fields, content

    def number(self) -> int:
        """Read a number of QUIC."""
        at = self._at
        if at >= len(self._message):
            raise MessageError("a binary HTTP message ends too early")
        first = self._message[at]
        # Nearly all are below 64, in one byte.
        if first < 64:
            self._at = at + 1
            return first
        length = 1 << (first >> 6)
        return int.from_bytes(self._take(length), "big") & (1 << 8 * length - 2) - 1

    def control(self) -> bytes:
        """Read a part of the control data."""
        found = self._bounded()
        if not _CONTROL.fullmatch(found):
            raise MessageError("a binary request has white space or control characters in its first parts")
        return found

    def section(self, known: bool) -> Fields:
        """Read fields; a section that the message ends before is empty."""
        if self._at == len(self._message):
            return ()
        found = list[tuple[bytes, bytes]]()
        end = 0
        if known:
            end = self.number() + self._at
            if end > len(self._message):
                raise MessageError("a binary HTTP message ends too early")
        while self._at < end or not known:
            name = self._bounded()
            if not name and not known:
                break
            found.append((name, self._value(name)))
        if known and self._at != end:
            raise MessageError("a field of a binary HTTP message is longer than its section")
        return tuple(found)

    def _value(self, name: bytes) -> bytes:
        self._fields -= 1
        if self._fields < 0:
            raise MessageError(f"a binary HTTP message has more than {MOST_FIELDS} fields")
        value = self._bounded()
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise MessageError("a binary HTTP message has a field whose name or value HTTP does not allow")
        return value

    def _content(self, known: bool) -> bytes:
        if self._at == len(self._message):
            return b""
        if known:
            return self._take(self.number())
        parts, size = list[bytes](), 0
        while self._at < len(self._message) and (length := self.number()):
            parts.append(self._take(length))
            size += length
            if len(parts) > FREE_PIECES + size // PIECE_BYTES:
                raise MessageError("the content of a binary HTTP message has many small pieces; use fewer, larger ones")
        return b"".join(parts)

    def _bounded(self) -> bytes:
        length = self.number()
        self._field_bytes -= length
        if self._field_bytes < 0:
            raise MessageError(f"the fields of a binary HTTP message have more than {MOST_FIELD_BYTES} bytes")
        return self._take(length)

    def _take(self, length: int) -> bytes:
        found = self._message[self._at : self._at + length]
        if len(found) != length:
            raise MessageError("a binary HTTP message ends too early")
        self._at += length
        return found


def only_once(fields: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return fields by name.

    Raises:
        MessageError: if one is there twice: none that is needed repeats.
    """
    found = dict(fields)
    if len(found) != len(fields):
        raise MessageError("a binary HTTP message has a field twice")
    return found
