"""Mutations of bytes, of JSON and of lines of text: one change or several, each drawn from a generator handed in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

import rfc8785

Mutator = Callable[[bytes, Random], bytes]

VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    2**32 - 1,
    2**32,
    2**63,
    2**64,
    10**12,
    10**12 + 1,
    10**40,
    10**400,
    0.0,
    -0.0,
    1.0,
    0.5,
    1e-15,
    5e-324,
    1e300,
    1.7976931348623157e308,
    "",
    "a",
    "schedule",
    "sum",
    "\x00",
    "\ud800",
    "\u202e",
    "0" * 64,
    "ff" * 32,
    "ff" * 64,
    "FF" * 32,
    "٣" * 64,
    "9" * 5000,
    "2026-02-30T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "deep 300",
    "deep 900",
    "deep 970",
    "deep 5000",
    [],
    [[]],
    [0],
    {},
    {"": None},
)
"""Values at the limits, of the wrong kind, and those that were mistaken for others somewhere."""

TEXTS = (
    "",
    "0",
    "-1",
    "1e999",
    "1e-999999999999999999999",
    "1E+99999999999999999999",
    "nan",
    "inf",
    "-inf",
    "Infinity",
    "NaN",
    "true",
    '""',
    "''",
    '"""',
    "[",
    "[" * 5000,
    "{a=" * 2000,
    "[]",
    "[[query]]",
    "[task]",
    "9" * 5000,
    "0x" + "f" * 4000,
    "1979-05-27T07:32:00Z",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "9999-12-31T23:59:59.999999Z",
    "1969-12-31T23:59:59Z",
    "2026-01-01",
    "07:32:00",
    '"\\u0000"',
    '"\\ud800"',
    "\x00",
    "\ufeff",
    "\u2028",
    ",",
    '"',
    "\n",
    "\r",
)
"""Words of text formats, and what parsers stumble over."""


_DEEP = re.compile(r'"deep ([0-9]+)"')
"""Stands for lists in lists, which are put in as text: no writer of JSON would nest them as deep."""


def of_bytes(data: bytes, draw: Random) -> bytes:
    """Flip, cut, repeat or insert a chunk."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4))):
        at = draw.randrange(len(changed) + 1)
        end = min(len(changed), at + draw.choice((1, 1, 2, 8, 64)))
        match draw.randrange(5):
            case 0 if at < len(changed):
                changed[at] ^= 1 << draw.randrange(8)
            case 1:
                del changed[at:end]
            case 2:
                changed[at:at] = changed[at:end]
            case 3:
                changed[at:end] = draw.randbytes(end - at)
            case _:
                changed[at:at] = draw.choice((b"\x00", b"\xff" * 9, b"\x80" * 5, draw.randbytes(4)))
    return bytes(changed)


def of_json(data: bytes, draw: Random) -> bytes:
    """Change members of a JSON document and write it canonically again, so that more than its form is looked at."""
    try:
        value = json.loads(data)
        # Documents of version 1 are as Python writes JSON; what is the same in both forms is taken for version 2.
        write = rfc8785.dumps if rfc8785.dumps(value) == data else _as_python_does
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            value = _changed(value, draw)
        text = write(value).decode()
        return _DEEP.sub(lambda match: "[" * int(match[1]) + "]" * int(match[1]), text).encode()
    except (ValueError, TypeError, OverflowError, RecursionError):
        return of_bytes(data, draw)


def _as_python_does(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _changed(value: Any, draw: Random) -> Any:
    """Return `value` with one change somewhere in it."""
    members: list[Any] = (
        list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    )
    if not members or draw.random() < 0.15:
        return _other(value, draw)
    key = draw.choice(members)
    if isinstance(value, list):
        items = list(value)
        match draw.randrange(8):
            case 0:
                del items[key]
            case 1:
                items.append(items[key])
            case _:
                items[key] = _changed(items[key], draw)
        return items
    fields = dict(value)
    match draw.randrange(10):
        case 0:
            del fields[key]
        case 1:
            fields[draw.choice(("", "a", key + "_", "format", "rounds"))] = fields[key]
        case _:
            fields[key] = _changed(fields[key], draw)
    return fields


def _other(value: Any, draw: Random) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool) and draw.random() < 0.5:
        return draw.choice((value + 1, value - 1, -value, float(value), value * 2))
    if isinstance(value, str) and value and draw.random() < 0.5:
        return draw.choice((value[:-1], value + "0", value.upper(), value[::-1], value + "\x00"))
    return draw.choice(VALUES)


def of_text(data: bytes, draw: Random) -> bytes:
    """Change words and lines of a text."""
    lines = data.split(b"\n")
    for _ in range(draw.choice((1, 1, 2, 3))):
        at = draw.randrange(len(lines))
        word = draw.choice(TEXTS).encode(errors="surrogatepass")
        match draw.randrange(7):
            case 0:
                del lines[at]
                lines = lines or [b""]
            case 1:
                lines.insert(at, lines[at])
            case 2 | 3:
                key, found, _ = lines[at].partition(b"=")
                lines[at] = key + b"= " + word if found else word
            case 4:
                fields = lines[at].split(b",")
                fields[draw.randrange(len(fields))] = word
                lines[at] = b",".join(fields)
            case 5:
                lines.insert(at, word)
            case _:
                lines[at] = of_bytes(lines[at], draw)
    return b"\n".join(lines)
