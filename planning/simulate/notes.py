"""Sentences about a file's columns that may not mean what they seem to: each says what was found, and what to do."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.accountant.written_numbers import MINUS
from hubbub.planning.simulate.notation import Notation, usually_missing
from hubbub.planning.simulate.table_files import is_text_file
from hubbub.planning.simulate.truth import FEWER_CATEGORIES
from hubbub.protos.escaping import readable
from hubbub.queries.errors import shown
from hubbub.queries.estimation.estimates import SHOWN_COUNTS
from hubbub.queries.questions.question import Question

FEW_ROWS = 20
"""If categories have fewer rows on average, noise is larger than nearly every count, at any usual ε."""

FEW_NUMBERS = 10
"""A column of at most so many different whole numbers is asked about as categories."""

_LOOKED_AT = 1000
"""Most different texts of a column that are looked at for a sign beside a number."""

_SIGN = rf"[^\W\d_]{{0,3}}|[^\w\s{MINUS}]?"
_BESIDE = re.compile(rf"(?P<before>{_SIGN})\s?[-+{MINUS}(]?[0-9][0-9.,' \u00a0\u202f]*\)?\s?(?P<after>{_SIGN})")
"""A number with a sign of a currency, of percent, or a unit of a few letters."""

_FRACTION = re.compile(rf"[-+{MINUS}]?[0-9]*[.,][0-9]+")


def crowd_notes(column: str, categories: int, rows: int) -> list[str]:
    """Return a sentence about a column of so many categories that few rows have each of them."""
    if categories <= SHOWN_COUNTS or rows >= FEW_ROWS * categories:
        return []
    each = "a different value in each row" if categories == rows else f"{rows / categories:.3g} rows each on average"
    noise = "at a usual ε noise exceeds nearly every count"
    return [f"column {column!r} has {categories:,} categories, {each}: {noise}; {FEWER_CATEGORIES}"]


def text_notes(column: str, known: Sequence[str], notation: Notation, counted: str = "a category") -> list[str]:
    """Return sentences about a column's distinct texts: words for "no answer", and names that mean the same.

    Those differ in case or in what cannot be seen, or are one number, such as 1 and 1.0.

    A word that often means "no answer" is counted like every other, because the rule for it is an empty field.
    """
    notes = []
    if found := usually_missing(known):
        words = shlex.quote(",".join(dict.fromkeys([*notation.missing, *(each.strip() for each in found)])))
        named = " and ".join(map(repr, found))
        notes.append(
            f"column {column!r} has {named}, counted as {counted}; if that means no answer, add --missing {words}"
        )
    alike: dict[str | float, list[str]] = {}
    looks = [_looks(text) for text in known]
    for text, look, value in zip(known, looks, notation.values(looks), strict=True):
        alike.setdefault(look if value is None else value, []).append(text)
    if counted == "a category" and (same := next((each for each in alike.values() if len(each) > 1), None)):
        named = " and ".join(f"'{readable(text)}'" for text in same)
        notes.append(
            f"column {column!r} has {named}, which are different categories; if they are one, write them alike"
        )
    return notes


def told_notes(column: str, texts: pa.ChunkedArray, notation: Notation) -> list[str]:
    """Return a sentence if a row alone has its category: the task lists it, so whoever gets the task reads it."""
    counts = pc.value_counts(texts.drop_null())
    once = counts.filter(pc.equal(counts.field("counts"), 1)).field("values").to_pylist()
    if not once:
        return []
    which = "a value, " if len(once) == 1 else f"{len(once):,} of its {len(counts):,} values, such as "
    alone = "that only one row has" if len(once) == 1 else "in one row each"
    # A column of few rows may have so few different numbers that they are counted, not added up.
    option = "--text" if None in notation.values(list(map(str, once))) else "--sum or --text"
    read = (
        f"everyone who gets the task reads its categories; to list none, name each column, and this one with {option}"
    )
    return [f"column {column!r} has {which}{shown(min(once))}, {alone}: {read}"]


def _looks(text: str) -> str:
    """Return what a text looks like, whatever its case and width, without what cannot be seen."""
    seen = "".join(mark for mark in unicodedata.normalize("NFKC", text) if unicodedata.category(mark) != "Cf")
    return " ".join(seen.casefold().split())


def clipped_notes(column: str, numbers: pa.ChunkedArray, lower: float, upper: float) -> list[str]:
    """Return a sentence if some numbers are outside of a question's range."""
    outside = pc.or_(pc.less(numbers, lower), pc.greater(numbers, upper))
    beyond = pc.sum(outside).as_py() or 0
    if not beyond:
        return []
    share = f"{beyond:,} of {len(numbers) - numbers.null_count:,} numbers"
    return [f"column {column!r}: {share} are outside of {lower:.12g} to {upper:.12g}, and are clipped to that range"]


def beside_notes(column: str, texts: pa.ChunkedArray) -> list[str]:
    """Return a sentence if all texts are a number and the same sign or unit beside it, such as 12% or € 5."""
    found = [_BESIDE.fullmatch(text) for text in pc.unique(texts).drop_null().to_pylist()[:_LOOKED_AT]]
    signs = {(match["before"], match["after"]) for match in found if match}
    if len(found) < FEW_NUMBERS or not all(found) or len(signs) != 1 or signs == {("", "")}:
        return []
    first = shown(next(match[0] for match in found if match))
    what = f"has numbers with {shown(''.join(signs.pop()))} beside them, such as {first}, which are read as texts"
    return [f"column {column!r} {what}; to add them up, write them as numbers alone"]


def part_notes(part: Question, column: str, read: pa.ChunkedArray, notation: Notation) -> list[str]:
    """Return the sentences about a column as it is read for a part of a question."""
    if part.column is str:
        counted = "a category" if hasattr(part, "categories") else "an answer"
        return text_notes(column, pc.unique(read).drop_null().to_pylist(), notation, counted)
    if hasattr(part, "lower") and hasattr(part, "upper"):
        return clipped_notes(column, read, part.lower, part.upper)
    return []


def _bare(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts without spaces at their ends, and without the mark of UTF-8, which files that were joined have."""
    return pc.utf8_trim(pc.utf8_trim_whitespace(values), characters="\ufeff")


def header_notes(path: Path, table: pa.Table) -> list[str]:
    """Return a sentence if the first line of a text file is a row like the others, so that the file has no header.

    It is if a name of a column is a value of that column too, or a number with decimals.
    """
    if not is_text_file(path):
        return []
    for column, values in zip(table.column_names, table.columns, strict=True):
        if not pa.types.is_string(values.type):
            continue
        if _FRACTION.fullmatch(column) or (column and pc.index(_bare(values), column).as_py() >= 0):
            row = "if that is a row, write a line with the columns' names before it"
            return [f"the first line of {path} is its header, so {column!r} is a column's name and no answer; {row}"]
    return []
