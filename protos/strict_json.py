"""Reads JSON that another party, a person's file or a store gives: in one way, or not at all.

Readers of JSON differ. Of two members with one key, most take the last, some the first, and a person sees both. So a
text that is checked may be another one to whoever reads it next. This reader refuses what readers take differently
(RFC 8259 leaves it open; RFC 7493, I-JSON, forbids it):

- a key that occurs twice in an object;
- NaN, infinities, and numbers that are too large for a double;
- halves of surrogate pairs, bytes that are not UTF-8, and a byte order mark;
- bytes after the document, more bytes than a document may have, values within values deeper than any document is, and
  numbers of more digits than any document has.

It has one error, which names the fault, its place in the document, and the remedy. Nothing else in hubbub calls
`json.loads` on what comes from outside (`tests/architecture/test_strict_json.py`).
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any

from hubbub.protos.errors import HubbubError
from hubbub.queries.errors import shown

LARGEST = 64 * 2**20
"""Most bytes of a document. A message has 8 MiB at most, and a certificate of thousands of rounds a few."""

LARGEST_RESULTS = 512 * 2**20
"""Most bytes of a file of results, whose tables have 256 MiB (`protos.rpc`) before they are in base64."""

DEEPEST = 100
"""How deep objects and lists may be within each other. A certificate with hops and successions has some 20 levels."""

LONGEST_WHOLE = 40
"""Most characters of a whole number. Doubles, 64 bits and 128 bits have fewer."""

LONGEST_NUMBER = 1000
"""Most characters of a number with a fraction or an exponent, of which every digit may count (`cli.mechanisms`)."""

_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_TEXT = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A text without an end is one up to the document's end: so no character is looked at twice."""
_LONG = re.compile("[0-9]{16}")
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(set(range(256)) - set(_STEPS))
_ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_HALF = re.compile("[\ud800-\udfff]")
_MARKED = "it begins with a byte order mark; save it as UTF-8 without one"


class JsonError(HubbubError, ValueError):
    """JSON can be read in two ways, or has more than a document may have; the message names the place."""


class NotJson(JsonError):
    """Bytes are not JSON at all, or not whole; `cut_short` if they end before the document does."""

    def __init__(self, message: str, cut_short: bool = False) -> None:
        super().__init__(message)
        self.cut_short = cut_short


class NotPlain(Exception):
    """A document is not read by `read_plain`. Nobody is told: `read_json` reads it all the same, or says why not."""


def read_json(
    document: bytes | str,
    *,
    largest: int = LARGEST,
    whole: Callable[[str], Any] | None = None,
    fraction: Callable[[str], Any] = float,
) -> Any:
    """Return the value of a JSON document.

    `whole` and `fraction` make numbers from their text; without `whole`, whole numbers are ints of up to
    `LONGEST_WHOLE` characters.

    Raises:
        NotJson: if the document is not JSON.
        JsonError: if it is JSON that readers take differently, or that is too large.
    """
    text = _decoded(document, largest)
    _check_depth(text)
    make = fraction, whole or int, LONGEST_NUMBER if whole else LONGEST_WHOLE
    try:
        value = _decoded_by(_decoder(*make), text)
        is_odd = "\\" in text and _ESCAPED_HALF.search(text) is not None
    except _Odd:
        # A parser does not say where it is, so the document is read once more, with each fault in its place.
        value, is_odd = _decoded_by(_decoder(*make, stops=False), text), True
    if is_odd:
        _raise_first(value, "")
    return value


def read_plain(document: bytes, fraction: Callable[[str], float]) -> Any:
    """Return the value of a plain JSON document, in a third of the time: for whoever writes it again and compares.

    A key that occurs twice, white space and other ways to write a value are not refused here: what is written again has
    other bytes. `fraction` makes numbers from their text, and notices those that are written in another way.

    Raises:
        NotPlain: if the document has more than printable ASCII without a backslash, or whole numbers of 16 digits, or
            if `read_json` refuses it.
    """
    if len(document) > LARGEST or not document.isascii() or b"\\" in document:
        raise NotPlain
    text = document.decode("ascii")
    if _LONG.search(_without_texts(text)):
        raise NotPlain
    try:
        _check_depth(text)
        # NaN and infinities are no numbers, and `float` is not asked for them.
        return json.JSONDecoder(parse_float=fraction, parse_constant=_no_number).decode(text)
    except ValueError as error:
        raise NotPlain from error


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def as_json(value: Any) -> Any:
    """Return a value as JSON has it: tuples as lists, keys as texts. NaN and infinities stay, for whoever compares."""
    return json.loads(json.dumps(value))


def _decoded_by(decoder: json.JSONDecoder, text: str) -> Any:
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        where = f"{error.msg.removesuffix(' at')} at line {error.lineno}, column {error.colno}"
        raise NotJson(f"{where}; give it whole and unchanged", _is_cut(error)) from None


class _Odd(Exception):
    """Something in a document is refused."""


class _Fault:
    """Stands in a document for what is refused."""

    def __init__(self, text: str) -> None:
        self.text = text


@lru_cache(maxsize=16)
def _decoder(
    fraction: Callable[[str], Any], whole: Callable[[str], Any], longest_whole: int, stops: bool = True
) -> json.JSONDecoder:
    """Return a parser; at what is refused it stops and raises `_Odd`, or else puts a `_Fault` there and goes on."""

    def fault(problem: str) -> _Fault:
        if stops:
            raise _Odd
        return _Fault(problem)

    def members(pairs: list[tuple[str, Any]]) -> Any:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        return fault(f"the key {shown(twice)} occurs twice; keep the right one of both members")

    def number(make: Callable[[str], Any], longest: int, written: str) -> Any:
        if len(written) > longest:
            return fault(f"a number has {len(written)} characters; give at most {longest}")
        value = make(written)
        if isinstance(value, float) and not math.isfinite(value):
            return fault(f"the number {shown(written)} is too large; give one that is less than 1.8e308")
        return value

    return json.JSONDecoder(
        object_pairs_hook=members,
        parse_float=partial(number, fraction, LONGEST_NUMBER),
        parse_int=partial(number, whole, longest_whole),
        parse_constant=lambda name: fault(f"{name} is not a number; give a finite one, or null"),
    )


def _decoded(document: bytes | str, largest: int) -> str:
    if len(document) > largest:
        raise JsonError(
            f"it has {len(document):,} bytes, but at most {largest:,} are read; give the document that was made"
        )
    if isinstance(document, bytes) and document.startswith(_MARKS):
        raise NotJson(_MARKED)
    try:
        # A text that is given may have halves of pairs, which have no bytes.
        text = document.decode() if isinstance(document, bytes) else document.encode().decode()
    except UnicodeDecodeError as error:
        raise NotJson(f"it is not UTF-8 at byte {error.start}: {error.reason}; save it as UTF-8") from None
    except UnicodeEncodeError as error:
        raise JsonError(f"it has half of a surrogate pair at character {error.start}; write the whole one") from None
    if text.startswith("\ufeff"):
        raise NotJson(_MARKED)
    return text


def _check_depth(text: str) -> None:
    """Check that nothing is deeper than `DEEPEST`, before a parser calls itself for each level."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return
    brackets = _without_texts(text).encode().translate(None, _NO_BRACKETS)
    depths = accumulate(map(_STEPS.__getitem__, brackets))
    if any(map(DEEPEST.__lt__, depths)):
        raise JsonError(f"it has more than {DEEPEST} values within each other; no document of hubbub has so many")


def _without_texts(text: str) -> str:
    """Return a document without its texts: in these, brackets and digits count for nothing."""
    # Without an escape, every second piece between quotes is a text.
    return _TEXT.sub("", text) if "\\" in text else "".join(text.split('"')[::2])


def _is_cut(error: json.JSONDecodeError) -> bool:
    # The place of a text without an end is its beginning.
    return error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string")


def _raise_first(value: Any, place: str) -> None:
    """Raise the error of the first fault in a value."""
    if isinstance(value, _Fault):
        raise JsonError(f"{value.text} ({place or 'at its top'})")
    if isinstance(value, str) and _HALF.search(value):
        raise JsonError(f"a text has half of a surrogate pair; write the whole character ({place or 'at its top'})")
    if isinstance(value, list):
        for number, each in enumerate(value):
            _raise_first(each, f"{place}[{number}]")
    if isinstance(value, dict):
        for key, each in value.items():
            _raise_first(key, place)
            _raise_first(each, f"{place}.{key:.80}" if place else f"{key:.80}")
