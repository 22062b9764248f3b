r"""Texts that others wrote, as they may reach a terminal, a log or a page.

An escape sequence could hide or change what a terminal shows, set its title or hide an address behind a link (OSC 8); a
line break could forge a log line; characters that order texts from right to left, or that have no width, make two
texts look alike. All of these are shown as the escapes that Python writes for them, such as \x1b and \u202e.
"""

from __future__ import annotations

_SELECTORS = (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))

INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | frozenset(map(chr, _SELECTORS))
"""Letters and marks that show nothing, variation selectors among them, which Unicode counts as printable."""


def readable(text: str, keep: str = "") -> str:
    """Return a text whose every character can be seen, but for those in `keep`; what is readable stays as it is.

    Escaped is what Unicode counts as control, format (bidirectional and zero-width ones among them), private,
    unassigned or separator, but for the space, and `INVISIBLE`. Doing it again changes nothing.
    """
    # Nearly all texts are: looking through them in C costs a tenth of looking at each character.
    if text.isprintable() and INVISIBLE.isdisjoint(text):
        return text
    return "".join(mark if _is_seen(mark) or mark in keep else _escaped(mark) for mark in text)


def readable_lines(text: str) -> str:
    """Return a text of several lines as `readable` does, its line breaks as they are."""
    return readable(text, keep="\n")


def _is_seen(mark: str) -> bool:
    return mark.isprintable() and mark not in INVISIBLE


def _escaped(mark: str) -> str:
    return mark.encode("unicode_escape").decode("ascii")
