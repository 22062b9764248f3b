"""How a file writes its numbers and missing answers, and reads of a column as texts or as numbers by it."""

from __future__ import annotations

import math
import re
import shlex
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.accountant.written_numbers import MINUS
from hubbub.planning.simulate.table_files import row_place
from hubbub.protos.errors import HubbubError, UsageError
from hubbub.queries.errors import shown

_SPACES = "[ \u00a0\u2009\u202f]"

GROUPS = {",": ",", ".": "[.]", " ": _SPACES, "'": "['’]"}
"""Characters that may separate thousands, each with the pattern of what is written for it."""

USUALLY_MISSING = frozenset(
    {"NA", "N/A", "na", "n/a", "n.a.", "#N/A", "<NA>", "NaN", "nan", "None", "NULL", "Null", "null", "?", "-", "--"}
    | {"inf", "-inf", "Inf", "-Inf", "Infinity", "-Infinity"}
)
"""Words that often mean "no answer". They may be names too: NA is Namibia."""

_SIGN = f"[-+{MINUS}]?"

_MOST_DIGITS = 15
"""Beyond so many digits two whole numbers may be one float."""


def unusable_in(values: pa.ChunkedArray) -> dict[str, int]:
    """Return how many values of a column are infinite or NaN; none of them if they are no floats.

    Texts of such a name count for nothing here: they may be names.
    """
    if not pa.types.is_floating(values.type):
        return {}
    return {"infinite": pc.sum(pc.is_inf(values)).as_py() or 0, "NaN": pc.sum(pc.is_nan(values)).as_py() or 0}


@dataclass(frozen=True)
class NearlyNumbers:
    """Numbers of a column that has other texts too: null for each of these, and the first of them with what to do."""

    numbers: pa.ChunkedArray
    problem: str


@dataclass(frozen=True)
class Notation:
    """The mark before the decimals, the mark between thousands ("" for none), and words for "no answer".

    A field that is empty, or has nothing but spaces, is no answer in every notation.
    """

    decimal: str = "."
    thousands: str = ""
    missing: tuple[str, ...] = ()

    @classmethod
    def stated(cls, decimal: str | None, thousands: str | None, missing: str | None) -> Notation:
        """Return the notation of a command's options; `missing` is a list with commas.

        Raises:
            UsageError: if a mark is not one that numbers are written with, or both are the same.
        """
        if decimal not in (None, ".", ","):
            raise UsageError(f"--decimal is {decimal!r}; give . or ,")
        if thousands not in (None, *GROUPS):
            raise UsageError(f"--thousands is {thousands!r}; give one of {' '.join(map(repr, GROUPS))}")
        found = cls(decimal or ".", thousands or "", _words(missing or ""))
        if found.decimal == found.thousands:
            other = "," if found.decimal == "." else "."
            raise UsageError(f"--decimal and --thousands are both {found.decimal!r}; add --decimal {other}")
        return found

    @property
    def options(self) -> list[str]:
        """The words of a command that state this notation, as far as it is not the usual one."""
        decimal = ["--decimal", self.decimal] if self.decimal != "." else []
        thousands = ["--thousands", self.thousands] if self.thousands else []
        return decimal + thousands + (["--missing", ",".join(self.missing)] if self.missing else [])

    @property
    def words(self) -> str:
        """The options that state its marks, as a person types them."""
        marks = replace(self, missing=()).options
        return f"with {shlex.join(marks)}" if marks else "without --decimal and --thousands"

    def texts(self, values: pa.ChunkedArray, column: str) -> pa.ChunkedArray:
        """Return a column's texts in Unicode's composed form (NFC), with null for each missing one.

        Two texts that look the same are then the same. NaN, of a column of numbers, is missing.

        Raises:
            HubbubError: if it contains something else, such as lists.
        """
        values = _plain_values(values, column)
        try:
            if pa.types.is_duration(values.type):
                raise pa.ArrowTypeError(f"it has {_kind(values.type)}")
            if pa.types.is_floating(values.type):
                # As in `numbers`: no device counts a NaN, or an infinity, in any question.
                values = pc.if_else(pc.is_finite(values), values, pa.scalar(None, values.type))
                # Zero has two signs, and is one category.
                values = pc.if_else(pc.equal(values, 0.0), pa.scalar(0.0, values.type), values)
            texts = pc.utf8_normalize(values.cast(pa.string()), "NFC")
        except pa.ArrowException as error:
            raise HubbubError(
                f"column {column!r} does not contain texts: {_refusal(error, values)}; name a column of texts, or "
                "write it as one"
            ) from error
        words = pa.array(["", *self.missing], pa.string())
        missing = pc.is_in(pc.utf8_trim_whitespace(texts), value_set=words)
        return pc.if_else(missing, pa.scalar(None, pa.string()), texts)

    def categories(self, values: pa.ChunkedArray, column: str) -> pa.ChunkedArray:
        """Return a column's texts as names of categories, which have no spaces at their ends.

        Raises:
            HubbubError: as `texts`.
        """
        return pc.utf8_trim_whitespace(self.texts(values, column))

    def numbers(
        self, values: pa.ChunkedArray, column: str, where: Path | None = None
    ) -> tuple[pa.ChunkedArray, dict[str, int]]:
        """Return a column's numbers, with null for each missing one, and how many values are infinite or NaN.

        Errors name lines of the file `where`, or rows counted from 1 if there is none.

        Raises:
            HubbubError: if a value is not a number in this notation; it names the value, its row and the remedy.
        """
        found = self._read(values, column, where)
        unusable = unusable_in(found)
        # A device cannot answer with NaN or an infinity, so they mean "no answer" too.
        return pc.if_else(pc.is_finite(found), found, pa.scalar(None, pa.float64())), unusable

    def numbers_or_texts(self, values: pa.ChunkedArray, column: str) -> pa.ChunkedArray:
        """Return a column's texts, or its numbers if all are finite numbers; values of other types stay."""
        values = _plain_values(values, column)
        if not _are_texts(values):
            return values
        texts = pc.utf8_trim_whitespace(self.texts(values, column))
        longest = pc.max(pc.utf8_length(texts)).as_py() or 0
        numbers = pc.all(self._are_numbers(texts)).as_py() and longest <= _MOST_DIGITS
        found = self._plain(texts).cast(pa.float64()) if numbers else texts
        return found if numbers and pc.all(pc.is_finite(found)).as_py() else texts

    def values(self, texts: Sequence[str]) -> list[float | None]:
        """Return the number that each text is; None for one that is none, or has more digits than a float tells."""
        found = pc.utf8_trim_whitespace(pa.chunked_array([pa.array(texts, pa.string())]))
        short = pc.less_equal(pc.utf8_length(found), _MOST_DIGITS)
        read = pc.if_else(pc.and_(self._are_numbers(found), short), found, pa.scalar(None, pa.string()))
        numbers: list[float | None] = self._plain(read).cast(pa.float64()).to_pylist()
        return [None if number is None or not math.isfinite(number) else number for number in numbers]

    def measured(self, values: pa.ChunkedArray, column: str) -> pa.ChunkedArray | None:
        """Return a column's numbers, with null for each that is missing, infinite or NaN; None if other values occur.

        Whole numbers that floats do not tell apart are no numbers: they are identifiers. So are those with a zero
        before other digits, such as a postal code.
        """
        values = _plain_values(values, column)
        if not _are_texts(values):
            numeric = any(of(values.type) for of in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))
            try:
                found = _floats(values) if numeric else None
            except pa.ArrowInvalid:  # beyond 2^53
                return None
        else:
            texts = pc.utf8_trim_whitespace(self.texts(values, column))
            found = self._plain(texts).cast(pa.float64()) if self._measures(texts) else None
        return None if found is None else pc.if_else(pc.is_finite(found), found, pa.scalar(None, pa.float64()))

    def _measures(self, texts: pa.ChunkedArray) -> bool:
        """Return whether texts are numbers, and no identifiers of many digits, or with zeros before their digits."""
        whole = pc.match_substring_regex(texts, f"^{_SIGN}(?:[0-9]{{{_MOST_DIGITS + 1},}}|0[0-9]+)$")
        return bool(pc.all(self._are_numbers(texts)).as_py()) and not pc.any(whole).as_py()

    def nearly_numbers(self, values: pa.ChunkedArray, column: str, where: Path) -> NearlyNumbers | None:
        """Return the numbers of a column of texts, half of which or more are numbers in this notation or in another.

        Words that often mean "no answer" are not among those of which half are numbers. None if all texts are numbers
        in this notation, or if fewer than half are in any.
        """
        if not _are_texts(_plain_values(values, column)):
            return None
        texts = pc.utf8_trim_whitespace(self.texts(values, column))
        others = pc.invert(self._are_numbers(texts))
        words = pc.is_in(texts, value_set=pa.array(USUALLY_MISSING, pa.string()))
        stated = len(texts) - texts.null_count - (pc.sum(pc.and_(others, words)).as_py() or 0)
        best = max([self, *map(_of_marks, _MARKS)], key=lambda each: pc.sum(each._are_numbers(texts)).as_py() or 0)
        read = best._are_numbers(texts)
        count = pc.sum(read).as_py() or 0
        if not pc.any(others).as_py() or not count or 2 * count < stated:
            return None
        # A number in another notation is named before a word: of it this notation reads nothing.
        marked = pc.index(pc.and_(others, read), True).as_py()
        row = marked if marked >= 0 else pc.index(others, True).as_py()
        numbers = best._plain(pc.if_else(read, texts, pa.scalar(None, pa.string()))).cast(pa.float64())
        problem = f"{row_place(where, row)} is {self._reading(texts, row, '')}"
        share = f"{count:,} of its {len(texts) - texts.null_count:,} values are numbers"
        return NearlyNumbers(numbers, f"{share}{', in another notation: ' if marked >= 0 else ', but '}{problem}")

    def doubts(self, values: pa.ChunkedArray, column: str) -> list[str]:
        """Return a sentence if the point may be between thousands.

        It may if three digits follow every point, and no whole number has more than three digits.
        """
        values = _plain_values(values, column)
        if self.thousands or not _are_texts(values):
            return []
        texts = pc.utf8_trim_whitespace(self.texts(values, column)).drop_null()
        other = {".": ",", ",": "."}[self.decimal]
        grouped = pc.match_substring_regex(texts, rf"^{_SIGN}[1-9][0-9]{{0,2}}{re.escape(self.decimal)}[0-9]{{3}}$")
        small = pc.match_substring_regex(texts, rf"^{_SIGN}(?:0|[1-9][0-9]{{0,2}})$")
        if not pc.any(grouped).as_py() or not pc.all(pc.or_(grouped, small)).as_py():
            return []
        first, mark = texts.filter(grouped)[0].as_py(), "point" if self.decimal == "." else "comma"
        every = "every number" if pc.all(grouped).as_py() else f"every number with a {mark}"
        read = f"such as {first}, which is read as {float(first.replace(',', '.').replace(MINUS, '-')):g}"
        remedy = f"if the {mark} is between thousands, add --thousands {self.decimal} --decimal {other}"
        return [f"column {column!r}: {every} has three digits after its {mark}, {read}; {remedy}"]

    def _read(self, values: pa.ChunkedArray, column: str, where: Path | None) -> pa.ChunkedArray:
        values = _plain_values(values, column)
        if not _are_texts(values):
            try:
                return _floats(values)
            except pa.ArrowException as error:
                what = f"column {column!r} does not contain numbers: {_refusal(error, values)}"
                raise HubbubError(f"{what}; name another column, or write it as numbers below 2^53") from error
        texts = pc.utf8_trim_whitespace(self.texts(values, column))
        if pc.all(_are_booleans(texts)).as_py():
            return texts.cast(pa.bool_()).cast(pa.float64())
        wrong = pc.invert(self._are_numbers(texts))
        if pc.any(wrong).as_py():
            row = pc.index(wrong, True).as_py()
            if texts[row].as_py().strip("\ufeff") == column:
                what = f"{_place(where, row)} is the column's name again"
                raise HubbubError(f"column {column!r} does not contain numbers: {what}; remove the second header")
            raise HubbubError(self._problem(texts, row, column, _place(where, row)))
        plain = self._plain(texts)
        found = plain.cast(pa.float64())
        # As of columns of whole numbers: others would be added up.
        digits = pc.match_substring_regex(plain, f"^[-+]?[0-9]{{{_MOST_DIGITS + 1},}}$")
        rounded = pc.and_(digits, pc.greater_equal(pc.abs(found), 2.0**53))
        if pc.any(rounded).as_py():
            row = pc.index(rounded, True).as_py()
            what = f"{_place(where, row)} is {shown(texts[row].as_py())}, which would be rounded"
            raise HubbubError(
                f"column {column!r} does not contain numbers: {what}; name another column, or write it as "
                "numbers below 2^53"
            )
        return found

    def _are_numbers(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return for each text whether it is a number in this notation, with whole groups of digits."""
        decimal = re.escape(self.decimal)
        grouped = rf"[0-9]{{1,3}}(?:{GROUPS[self.thousands]}[0-9]{{3}})+|" if self.thousands else ""
        if self.thousands == ",":
            # India groups two digits beyond the thousands, as in 1,23,456.
            grouped += "[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3}|"
        digits = rf"(?:(?:{grouped}[0-9]+)(?:{decimal}[0-9]*)?|{decimal}[0-9]+)(?:[eE]{_SIGN}[0-9]+)?"
        return pc.match_substring_regex(texts, rf"^{_SIGN}(?:{digits}|(?i:inf|infinity|nan))$")

    def _plain(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return numbers of this notation as they are written with a point and without groups."""
        if self.thousands:
            texts = pc.replace_substring_regex(texts, GROUPS[self.thousands], "")
        return pc.replace_substring(pc.replace_substring(texts, self.decimal, "."), MINUS, "-")

    def _problem(self, texts: pa.ChunkedArray, row: int, column: str, place: str) -> str:
        """Return what is wrong with a text that is no number, with the notations in which it is one."""
        said = self._reading(texts, row, "name another column")
        return f"column {column!r} does not contain numbers: {place} is {said}"

    def _reading(self, texts: pa.ChunkedArray, row: int, instead: str) -> str:
        """Return a text that is no number, and what to do: state another notation, or `instead`."""
        text = texts[row].as_py()
        what = shown(text)
        readings = self._readings(texts, texts.slice(row, 1))
        if not readings:
            words = self._words_beside(texts, text)
            missing = f"if it means no answer, add --missing {shlex.quote(','.join(words)):.80}" if words else ""
            if (plain := _in_digits_of_ascii(text)) is not None:
                missing = f"write it in the digits 0 to 9, as {plain}"
            elif not words and any(map(str.isdigit, text)):
                missing = "write it as a number alone, such as -3.1 for (3.10) or 0.12 for 12%"
            return "; ".join(filter(None, [what, ", or, ".join(filter(None, [instead, missing]))]))
        if len(readings) == 1:
            ((value, found),) = readings.items()
            return f"{what}, which is {value} {found.words}; run it so, or write it with a point and no other mark"
        named = " or ".join(f"{value} {found.words}" for value, found in readings.items())
        return f"{what}, which is {named}; say which is meant"

    def _words_beside(self, texts: pa.ChunkedArray, text: str) -> list[str]:
        """Return the words to state as missing if `text` is one; none if it is no usual one in a column of texts.

        A text with digits, such as (3.10) or 5 kg, says how many: to leave it out would change the sum.
        """
        if text not in USUALLY_MISSING and any(map(str.isdigit, text)):
            return []
        numbers = pc.sum(self._are_numbers(texts)).as_py() or 0
        if text not in USUALLY_MISSING and 2 * numbers < len(texts) - texts.null_count:
            return []
        usual = [word for word in pc.unique(texts).to_pylist() if word in USUALLY_MISSING]
        others = [word for word in usual if not pc.all(self._are_numbers(pa.chunked_array([[word]]))).as_py()]
        return list(dict.fromkeys([*self.missing, text, *others]))

    def _readings(self, texts: pa.ChunkedArray, one: pa.ChunkedArray) -> dict[str, Notation]:
        """Return what one text may be read as, by the other notations that read most of the column's texts."""
        able = [each for each in map(_of_marks, _MARKS) if pc.all(each._are_numbers(one)).as_py()]
        reads = [pc.sum(each._are_numbers(texts)).as_py() for each in able]
        best = [each for each, count in zip(able, reads, strict=True) if count == max(reads)]
        found: dict[str, Notation] = {}
        for each in best:
            found.setdefault(f"{each._plain(one).cast(pa.float64())[0].as_py():.12g}", each)
        return found


def _place(where: Path | None, row: int) -> str:
    return f"row {row + 1}" if where is None else row_place(where, row)


_MARKS = ((",", ""), (".", ""), *((mark, group) for mark in ".," for group in GROUPS if group != mark))
"""All marks that numbers are written with: before the decimals, and between thousands."""


def _of_marks(marks: tuple[str, str]) -> Notation:
    return Notation(*marks)


def _in_digits_of_ascii(text: str) -> str | None:
    """Return a number that another script's digits write, such as ١٢ or wide digits; None for all other texts."""
    plain = "".join(str(unicodedata.decimal(each)) if each.isdecimal() else each for each in text)
    read = any(pc.all(_of_marks(marks)._are_numbers(pa.chunked_array([[plain]]))).as_py() for marks in _MARKS)
    return plain if read and plain != text else None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in map(str.strip, text.split(",")) if word)


def _refusal(error: pa.ArrowException, values: pa.ChunkedArray) -> str:
    """Return why a column cannot be read, without the names of Arrow's functions."""
    said = str(error)
    return f"it has {_kind(values.type)}" if "Unsupported cast" in said else f"{said:.200}"


def _kind(of: pa.DataType) -> str:
    """Return a type in a word if it may be long, as that of lists in lists."""
    if pa.types.is_nested(of):
        return "records" if pa.types.is_struct(of) else "lists"
    return f"type {of}"


def _plain_values(values: pa.ChunkedArray, column: str) -> pa.ChunkedArray:
    """Return a column without what only its storage has: texts as usual ones, also as bytes, and no dictionary.

    Raises:
        HubbubError: if it has bytes that are no texts.
    """
    if isinstance(values.type, pa.UuidType):
        return pa.chunked_array([[value and str(value) for value in values.to_pylist()]], pa.string())
    if isinstance(values.type, pa.Bool8Type):
        return values.cast(pa.bool_())
    if isinstance(values.type, pa.JsonType):
        values = values.cast(values.type.storage_type)
    if isinstance(values.type, pa.BaseExtensionType):
        name = getattr(values.type, "type_name", values.type.extension_name)
        raise HubbubError(
            f"column {column!r} has values of type {shown(name)}, which only its own library reads; write it as texts"
        )
    if pa.types.is_float16(values.type):
        # As its shortest decimals: 0.1 is 0.09997559 as a longer float.
        shortest = [None if value is None else float(str(np.float16(value))) for value in values.to_pylist()]
        values = pa.chunked_array([pa.array(shortest, pa.float64())])
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
        return values.cast(pa.string())
    if not any(kind(values.type) for kind in _BYTES):
        return values
    try:
        return values.cast(pa.binary()).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise HubbubError(
            f"column {column!r} does not contain numbers or texts: it has bytes that are no UTF-8; name another "
            "column, or write it as texts"
        ) from error


_BYTES = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
"""Kinds of columns of bytes: some programs write texts so."""


def _floats(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of numbers as floats.

    Raises:
        pa.ArrowException: if it has no numbers, or whole ones that would be rounded. Of decimals Arrow rounds them.
    """
    found = values.cast(pa.float64())
    if pa.types.is_decimal(values.type) and values.type.scale <= 0:
        rounded = pc.greater_equal(pc.abs(found), 2.0**53)
        if pc.any(rounded).as_py():
            row = pc.index(rounded, True).as_py()
            raise pa.ArrowInvalid(f"whole number {values[row]} would be rounded")
    return found


def _are_texts(values: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_string(values.type))


def _are_booleans(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.is_in(pc.utf8_lower(texts), value_set=pa.array(["true", "false", None], pa.string()))


PLAIN = Notation()
"""Numbers with a point and no marks between thousands; only an empty field is no answer."""


def missing_hint(text: str, notation: Notation) -> str:
    """Return the end of an error about a text that often means "no answer"; empty if it is none of these."""
    words = shlex.quote(",".join([*notation.missing, text.strip()]))
    return f"; or, if it means no answer, add --missing {words}" if usually_missing([text]) else ""


def usually_missing(names: Sequence[str]) -> list[str]:
    """Return those names that often mean "no answer"."""
    return [name for name in names if name.strip() in USUALLY_MISSING]
