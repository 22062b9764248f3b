r"""Escapes texts of other parties before they reach a terminal, a log or a page.

An escape sequence could hide or change the terminal's text, set its title or hide an address behind a link (OSC 8). A
line break could forge a log line. Characters that order texts from right to left, or that have no width, make two
texts look alike. All of these are shown as Python's escapes, such as \x1b and \u202e.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

_SELECTORS = (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))

INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | frozenset(map(chr, _SELECTORS))
"""Invisible letters and marks, including variation selectors, which Unicode counts as printable."""


def readable(text: str, keep: str = "") -> str:
    """Return a text in which every character is visible, except those in `keep`; readable text stays unchanged.

    It escapes Unicode's control, format (including bidirectional and zero-width), private, unassigned and separator
    characters except the space, and `INVISIBLE`. Repeating it changes nothing.
    """
    # Nearly all texts are readable: this check in C costs a tenth of a check of each character.
    if text.isprintable() and INVISIBLE.isdisjoint(text):
        return text
    return "".join(mark if _is_seen(mark) or mark in keep else _escaped(mark) for mark in text)


def readable_lines(text: str) -> str:
    """Return a text of several lines like `readable`, with its line breaks unchanged."""
    return readable(text, keep="\n")


_LONGEST_SHOWN = 64
"""Bytes that `hex_repr` writes out: ids, digests and signatures have no more."""


def hex_repr(value: Any) -> str:
    """Return the repr of a dataclass with its bytes in hex, as commands print ids; of many bytes only their number."""
    parts = (f"{each.name}={_hex(getattr(value, each.name))}" for each in fields(value) if each.repr)
    return f"{type(value).__name__}({', '.join(parts)})"


def _hex(value: object) -> str:
    if isinstance(value, tuple) and value:
        return f"({', '.join(map(_hex, value))})"
    if not isinstance(value, bytes):
        return repr(value)
    return value.hex() or "''" if len(value) <= _LONGEST_SHOWN else f"<{len(value)} bytes>"


def _is_seen(mark: str) -> bool:
    return mark.isprintable() and mark not in INVISIBLE


def _escaped(mark: str) -> str:
    return mark.encode("unicode_escape").decode("ascii")
