"""Shows estimates next to the truth as tables, from the JSON document of a demo or a simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from hubbub.cli.tables.groups import with_headings
from hubbub.cli.tables.printing import print_table
from hubbub.planning.simulate.truth import FEWER_CATEGORIES
from hubbub.protos.records.results_document import row_label
from hubbub.queries.estimation.estimates import BEGINNING, SHOWN_COUNTS, Group, about_left_out, may_be_left_out
from hubbub.queries.estimation.significant_digits import fineness, significant

BAR_WIDTH = 12
"""Characters of the longest bar."""

BARS = " "
"""Header of the column of bars, which is left out if the table is too wide; that of the names is empty."""


def print_query(console: Console, document: Mapping[str, Any], every: bool = False) -> None:
    """Print a query's document as a table; several counts get bars. Of many counts the largest are printed, or all."""
    if document["state"] == "withheld":
        console.print(
            f"{document['name']}: withheld, {document['valid']} valid reports are fewer than the minimum", markup=False
        )
        return
    if not document["estimates"]:
        # Of kinds text and top, only rows that stand out of the noise are estimated.
        console.print(f"{document['name']}: nothing stands out of the noise", markup=False)
        return
    # Bars are for counts only: sums and means have different units, so their bars would have no common scale. One count
    # has nothing to be compared with.
    bars = sum(row["statistic"] == "count" for row in document["estimates"]) > 1
    unit = f" in {document['unit']}" if document.get("unit") else ""
    rows = document["estimates"] if every else _largest(document)
    table = Table(title=f"{document['name']}{unit}", title_justify="left")
    for column in ("", "truth", "estimate", "standard error", "95 % interval"):
        table.add_column(column, justify="left" if column == "" else "right")
    if bars:
        table.add_column(BARS)
    longest = max((row["estimate"] for row in document["estimates"] if row["statistic"] in _PEOPLE), default=0.0)
    for before, shown in with_headings((_group(row), row) for row in rows):
        if shown is None:
            table.add_row(before)
            continue
        label, *cells = _cells({**shown, "group": {}})
        bar = [_bar(shown["estimate"], longest) if shown["statistic"] in _PEOPLE else ""] if bars else []
        table.add_row(before + label, *cells, *bar)
    print_table(console, table, pictures=[BARS])
    for note in (*_about_many(document, every), *document.get("notes", ())):
        console.print(note, markup=False, soft_wrap=True)
    if document.get("raw_mean") is not None:
        lower, upper = document["clipped_to"]
        note = f"truth and estimates are for values clipped to [{lower:g}, {upper:g}]"
        console.print(f"{note}; the raw mean is {document['raw_mean']:.4g}", markup=False)


def print_series(console: Console, rounds: Sequence[Mapping[str, Any]]) -> None:
    """Print questions that were asked over time: each as one table with a row per round, and each note once.

    `rounds` are the rounds' documents. The fit of all rounds comes after it, as the last round has it.
    """
    for place, last in enumerate(rounds[-1]["queries"]):
        table = Table(title=f"{last['name']} in {len(rounds)} rounds", title_justify="left")
        for column in ("round", "", "truth", "estimate", "standard error", "95 % interval"):
            table.add_column(column, justify="left" if column in ("round", "") else "right")
        notes = list(last.get("notes", ()))
        for each in rounds:
            document = each["queries"][place]
            rows = [row for row in document["estimates"] if row["statistic"] != SMOOTHED]
            for row in rows:
                table.add_row(str(each["round"]), *_cells(row))
            if not rows:
                table.add_row(str(each["round"]), document["state"], "", "", "", "")
        print_table(console, table)
        fit = [row for row in last["estimates"] if row["statistic"] == SMOOTHED]
        if fit:
            name = f"{last['name']}, fitted to all rounds"
            print_query(console, {**last, "name": name, "estimates": fit, "notes": ()})
        for note in notes:
            console.print(note, markup=False, soft_wrap=True)


def _categories(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the rows of categories that have no order or groups of their own."""
    return [row for row in document["estimates"] if may_be_left_out(document.get("kind"), row["statistic"])]


def _largest(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a query's rows, with the largest counts of many; these are sorted."""
    counts = _categories(document)
    if len(counts) <= SHOWN_COUNTS:
        return list(document["estimates"])
    others = [row for row in document["estimates"] if row["statistic"] != "count"]
    return sorted(counts, key=lambda row: -row["estimate"])[:SHOWN_COUNTS] + others


def _about_many(document: Mapping[str, Any], every: bool) -> list[str]:
    """Return what is left out of a table of many counts, and whether noise hides nearly all of them."""
    counts, words = _categories(document), []
    if len(counts) <= SHOWN_COUNTS:
        return []
    if not every:
        words.append(about_left_out(len(counts)))
    hidden = sum(row["standard_error"] is not None and row["truth"] < 2 * row["standard_error"] for row in counts)
    if hidden >= HIDDEN_SHARE * len(counts):
        noise = f"{hidden:,} of the {len(counts):,} true counts are below two standard errors"
        words.append(f"{noise}: noise hides them; {FEWER_CATEGORIES}")
    return words


HIDDEN_SHARE = 0.9
"""If noise hides this share of the counts, there are too many categories."""


def _group(row: Mapping[str, Any]) -> Group:
    return tuple(row.get("group", {}).items())


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    error = row["standard_error"]
    scale = fineness((row["lower"], row["upper"])) if error is None else error
    ends = (row["truth"], row["estimate"], row["lower"], row["upper"])
    truth, estimate, lower, upper = significant([*ends, scale], scale)[:4]
    if row["statistic"] in _PEOPLE:
        truth = f"{row['truth']:,.0f}"  # people, counted: a whole number, known exactly
    shown = "" if error is None else significant([*ends, error], error)[4]
    label = row_label(_group(row), row["category"], row["statistic"], row.get("at"))
    return (label, truth, estimate, shown, f"{lower} … {upper}")


SMOOTHED = "smoothed_count"
"""The statistic of a count in an earlier round, fitted to all rounds."""

_PEOPLE = frozenset({"count", "answered", BEGINNING})
"""Statistics that are numbers of people."""


def _bar(value: float, longest: float) -> str:
    if longest <= 0 or value <= 0:
        return ""
    eighths = round(BAR_WIDTH * 8 * value / longest)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
