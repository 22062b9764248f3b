"""Shows published rows as numbers: names that can be shown anywhere, and tables with the exact value behind each."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from hubbub.queries.estimation.significant_digits import fineness, significant
from hubbub.results.published_row import PublishedRow

LONGEST = 40
"""Columns of a name that is shown short; a wide character, such as a Chinese one, has two."""

JOINERS = "\u200c\u200d"
"""Zero width non-joiner and joiner."""

MAY_BE_ZERO = "may be 0"
"""Said of a count that noise alone could make, if nobody has the category."""


@dataclass(frozen=True)
class ShownNumbers:
    """The numbers of a row as people read them; empty where the row has none."""

    estimate: str
    standard_error: str
    interval: str


def plain(text: str) -> str:
    """Return a text that cannot change how others look: control characters and marks of direction become "�".

    A joiner between two characters beyond ASCII stays: Persian words and pictures of families are written with it.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(each if _stays(text, place) else "\ufffd" for place, each in enumerate(text))


def _stays(text: str, place: int) -> bool:
    beside = text[max(place - 1, 0) : place] + text[place + 1 : place + 2]
    if text[place] in JOINERS and len(beside) == 2 and not any(map(str.isascii, beside)):
        return unicodedata.category(beside[0]) != "Cf" != unicodedata.category(beside[1])
    return unicodedata.category(text[place]) not in ("Cc", "Cf", "Zl", "Zp", "Cs")


def short(text: str, longest: int = LONGEST) -> str:
    """Return a plain text of at most so many columns; a longer one is cut, and ends in "…"."""
    clean, wide, kept = plain(text), 0, ""
    if clean.isascii() and len(clean) <= longest:
        return clean
    for each in clean:
        wide += 2 if unicodedata.east_asian_width(each) in "WF" else 1
        if wide > longest:
            return f"{_cut(kept, longest)}…"
        kept += each
    return clean


def _cut(text: str, longest: int) -> str:
    """Leave room for the "…" behind a text that fills all columns."""
    full = sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)
    return text[:-1] if full >= longest else text


def shown(row: PublishedRow) -> ShownNumbers:
    """Return a row's numbers with the digits that its standard error allows, as the command line prints them."""
    if row.estimate is None or row.lower is None or row.upper is None:
        return ShownNumbers("", "", "")
    ends = (row.lower, row.upper)
    if row.standard_error is None:
        value, lower, upper = significant((row.estimate, *ends), fineness(ends))
        return ShownNumbers(value, "", f"{lower} … {upper}")
    numbers = (row.estimate, row.standard_error, *ends)
    value, error, lower, upper = significant(numbers, row.standard_error)
    return ShownNumbers(value, error, f"{lower} … {upper}")


def parts(rows: Sequence[PublishedRow]) -> list[list[PublishedRow]]:
    """Return rows in parts that one picture can show: of one query, one statistic, one unit and the same attributes.

    Rows of several rounds may be mixed. A withheld row, which has no statistic, is in every part of its query; in one
    of its own if its query has no other.
    """
    numbered = [row for row in rows if not row.withheld]
    gone = [row for row in rows if row.withheld]
    found: dict[tuple[object, ...], list[PublishedRow]] = {}
    for row in numbered:
        attributes = tuple(attribute for attribute, _ in row.group)
        found.setdefault((row.query, row.statistic, row.unit, attributes), []).append(row)
    held = {row.query for row in numbered}
    without = [row for row in gone if row.query not in held]
    alone = [list(each) for _, each in groupby(sorted(without, key=_query), key=_query)]
    return [part + [row for row in gone if row.query == part[0].query] for part in found.values()] + alone


def _query(row: PublishedRow) -> str:
    return row.query


def table(rows: Sequence[PublishedRow], caption: str = "") -> Markup:
    """Return a table of all these rows, with when each round began if there are several.

    Each number has its exact value in `<data value="…">`. A withheld row has its reason.
    """
    several = len({row.round for row in rows}) > 1
    untold = any(row.significant is False for row in rows)
    heads = [
        Markup('<th scope="col"{}>{}</th>').format(Markup(' class="number"') if right else "", name)
        for name, right in _heads(several, untold)
    ]
    body = Markup("\n").join(_line(row, several, untold) for row in rows)
    said = Markup("<caption>{}</caption>").format(plain(caption)) if caption else ""
    whole = Markup(
        '<div class="wide" tabindex="0" role="group" aria-label="{}"><table>{}<thead><tr>{}</tr></thead>\n'
        "<tbody>\n{}\n</tbody></table></div>"
    )
    return whole.format(plain(caption) or "numbers", said, Markup("").join(heads), body)


def _heads(several: bool, untold: bool) -> list[tuple[str, bool]]:
    rounds = [("round", False), ("begins (UTC)", False)] if several else []
    numbers = [("estimate", True), ("standard error", True), ("95 % interval", True)]
    return [*rounds, ("of", False), *numbers, *([("from 0?", False)] if untold else [])]


def _line(row: PublishedRow, several: bool, untold: bool) -> Markup:
    # By %, in few pieces: `format` takes twice as long, and a page of a round has hundreds of lines.
    begun = Markup("")
    if several:
        begun = Markup("<td>%s</td><td>%s</td>") % (row.round, f"{row.round_begins:%Y-%m-%d %H:%M}")
    if row.withheld:
        return Markup('<tr>%s<td colspan="%d">withheld: %s</td></tr>') % (begun, 4 + untold, plain(row.reason))
    numbers = shown(row)
    label = plain(row.label + (f", {row.unit}" if row.unit else ""))
    last = Markup("")
    if untold:
        last = Markup("<td>%s</td>") % (MAY_BE_ZERO if row.significant is False else "",)
    return Markup('<tr>%s<th scope="row"><bdi>%s</bdi></th>%s%s%s%s</tr>') % (
        begun,
        label,
        _cell(numbers.estimate, row.estimate),
        _cell(numbers.standard_error, row.standard_error),
        _interval(row, numbers),
        last,
    )


def _cell(text: str, exact: float | None) -> Markup:
    if exact is None:
        return Markup('<td class="number"></td>')
    return Markup('<td class="number"><data value="%r">%s</data></td>') % (exact, text)


def _interval(row: PublishedRow, numbers: ShownNumbers) -> Markup:
    if row.lower is None or row.upper is None:
        return Markup('<td class="number"></td>')
    lower, _, upper = numbers.interval.partition(" … ")
    cell = Markup('<td class="number"><data value="%r">%s</data> … <data value="%r">%s</data></td>')
    return cell % (row.lower, lower, row.upper, upper)
