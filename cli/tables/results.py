"""Shows a round's results as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from hubbub.cli.tables.groups import with_headings
from hubbub.cli.tables.printing import print_table
from hubbub.protos.records.results import QueryResult, RoundResults, SumResult
from hubbub.protos.records.results_document import ResultRow, result_rows, round_times, row_label
from hubbub.queries.estimation.estimates import SHOWN_COUNTS, Estimate, Row, about_left_out, may_be_left_out
from hubbub.queries.estimation.significant_digits import fineness, significant


def print_results(
    console: Console, results: RoundResults, simultaneous: bool = False, all_counts: bool = False
) -> None:
    """Print a round's results: each sum by digits, then for each query its valid reports and a table of estimates.

    If `simultaneous` is set, the intervals are those that are all right at once. Of many counts the largest are
    printed, unless `all_counts` is set.
    """
    console.print(f"task {results.id.task_name}, round {results.id.round}", markup=False)
    for each in results.sums:
        _print_sum(console, each, simultaneous)
    for query in results.queries:
        left = ", ".join(f"{reason} {count}" for reason, count in sorted(query.left_out.items()) if count)
        suffix = f", left out: {left}" if left else ""
        console.print(f"{query.name}: {query.valid} valid reports of {query.reports}{suffix}", markup=False)
        if query.estimates is None:
            console.print("  withheld: fewer valid reports than the task's minimum", markup=False)
        else:
            lines = _lines(query, () if all_counts else _largest([query]))
            print_table(console, _table(lines, simultaneous))
            _explain(console, query, lines, simultaneous)
            if unknown := _without_value(query.estimates.rows):
                console.print(f"  no value: {unknown}", markup=False, soft_wrap=True)
            if query.estimates.table and not query.estimates.notes:
                console.print(
                    "  the task does not list its texts: look some up with --candidates FILE, one per line; if the "
                    "task asks for prefixes, find texts with --prefixes",
                    markup=False,
                    soft_wrap=True,
                )
            for note in query.estimates.notes:
                console.print(note, markup=False, soft_wrap=True)


def print_series(
    console: Console, rounds: Sequence[RoundResults], simultaneous: bool = False, all_counts: bool = False
) -> None:
    """Print the results of all rounds of a task as one table, with when each round began and ended.

    Of many counts of a query, those of the same categories are printed in every round: the largest in all rounds
    together. If `all_counts` is set, all are printed.
    """
    every: list[tuple[RoundResults, QueryResult | SumResult]] = []
    for each in rounds:
        every += [(each, result) for result in each.sums]
        every += [(each, result) for result in each.queries]
    asked = dict.fromkeys(result.name for _, result in every)
    shown = {name: _largest([result for _, result in every if result.name == name]) for name in asked}
    table = Table("round", "begins", "ends", "query", "", title=f"task {rounds[0].id.task_name}", title_justify="left")
    for column in ("estimate", "standard error", "95 %, all at once" if simultaneous else "95 % interval"):
        table.add_column(column, justify="right")
    for each, result in every:
        times = round_times(each)
        place = (str(each.id.round), times.get("round_begins", ""), times.get("round_ends", ""), result.name)
        if result.estimates is None:
            table.add_row(*place, "withheld", "", "", "")
        for line in _lines(result, () if all_counts else shown[result.name]):
            table.add_row(*place, line.label, *_cells(line.estimate, simultaneous))
    print_table(console, table)
    for name, largest in () if all_counts else shown.items():
        if largest:
            counts = {line.row.category for _, each in every if each.name == name for line in _counts(each)}
            console.print(f"{name}: {about_left_out(len(counts))}", markup=False, soft_wrap=True)
    ranges = dict.fromkeys(f"{each.name}: estimates are for {text}" for _, each in every if (text := _clipped(each)))
    for sentence in ranges:
        console.print(sentence, markup=False, soft_wrap=True)
    notes = dict.fromkeys(note for _each, result in every if result.estimates for note in result.estimates.notes)
    for note in notes:
        console.print(note, markup=False, soft_wrap=True)


def _print_sum(console: Console, result: SumResult, simultaneous: bool) -> None:
    console.print(f"{result.name}: from its digits, {result.queries[0]} to {result.queries[-1]}", markup=False)
    if result.estimates is None:
        console.print("  withheld: a digit has fewer valid reports than the task's minimum", markup=False)
        return
    lines = result_rows(result)
    print_table(console, _table(lines, simultaneous))
    _explain(console, result, lines, simultaneous)
    for note in result.estimates.notes:
        console.print(note, markup=False, soft_wrap=True)


def _largest(results: Sequence[QueryResult | SumResult]) -> tuple[str | None, ...]:
    """Return the categories of one query with the largest counts in these rounds together; none if all are shown."""
    totals: dict[str | None, float] = {}
    for line in (each for result in results for each in _counts(result)):
        totals[line.row.category] = totals.get(line.row.category, 0.0) + line.estimate.value
    return tuple(sorted(totals, key=lambda name: -totals[name])[:SHOWN_COUNTS]) if len(totals) > SHOWN_COUNTS else ()


def _counts(result: QueryResult | SumResult) -> list[ResultRow]:
    """Return the counts that may be left out of a table."""
    kind = None if result.estimates is None else result.estimates.kind
    return [line for line in result_rows(result) if may_be_left_out(kind, line.row.statistic)]


def _lines(result: QueryResult | SumResult, largest: Sequence[str | None]) -> Sequence[ResultRow]:
    """Return a query's rows; if there are too many counts, those of the `largest` categories, and all other rows."""
    if not largest:
        return result_rows(result)
    found = {line.row.category: line for line in _counts(result)}
    kept = [line for line in result_rows(result) if line.row.statistic != "count"]
    return [*(found[name] for name in largest if name in found), *kept]


def _explain(console: Console, result: QueryResult | SumResult, lines: Sequence[ResultRow], simultaneous: bool) -> None:
    """Print what is left out, to which range numbers were clipped, and why an estimate is outside its own interval."""
    if len(lines) < len(result_rows(result)):
        console.print(f"  {about_left_out(len(_counts(result)))}", markup=False, soft_wrap=True)
    if (clipped := _clipped(result)) is not None:
        console.print(f"  estimates are for {clipped}", markup=False, soft_wrap=True)
    if any(not _within(line.estimate, simultaneous) for line in lines):
        console.print(
            "  an interval has possible values only; an estimate without bias may be outside it",
            markup=False,
            soft_wrap=True,
        )
    if any(line.row.significant is False and _ends(line.estimate, simultaneous)[0] > 0 for line in lines):
        console.print(
            f"  {NOT_TOLD}: of so many counts, noise alone may lift one so high, although its interval is above 0",
            markup=False,
            soft_wrap=True,
        )


def _clipped(result: QueryResult | SumResult) -> str | None:
    """Return to what numbers were clipped before they were counted; None if answers are no numbers."""
    if result.estimates is None or result.estimates.clipped_to is None:
        return None
    lower, upper = result.estimates.clipped_to
    return f"values clipped to [{lower:.12g}, {upper:.12g}]"


def _within(value: Estimate, simultaneous: bool) -> bool:
    lower, upper = _ends(value, simultaneous)
    return lower <= value.value <= upper


def _ends(value: Estimate, simultaneous: bool) -> tuple[float, float]:
    return value.simultaneous if simultaneous and value.simultaneous is not None else (value.lower, value.upper)


def _without_value(rows: Sequence[Row]) -> str:
    """Return what is not estimated, and why; empty if everything is."""
    unknown = [row_label(row.group, row.category, row.statistic, row.at) for row in rows if row.estimate is None]
    return f"{', '.join(unknown)}; too few answered, or a round that is needed was not published" if unknown else ""


def _table(lines: Sequence[ResultRow], simultaneous: bool) -> Table:
    untold = any(line.row.significant is False for line in lines)
    table = Table("")
    for column in ("estimate", "standard error", "95 %, all at once" if simultaneous else "95 % interval"):
        table.add_column(column, justify="right")
    if untold:
        table.add_column("")
    for before, line in with_headings((line.row.group, line) for line in lines):
        if line is None:
            table.add_row(before)
            continue
        row, cells = line.row, _cells(line.estimate, simultaneous)
        label = before + row_label((), row.category, row.statistic, row.at, row.unit)
        table.add_row(label, *cells, *([NOT_TOLD if row.significant is False else ""] if untold else []))
    return table


NOT_TOLD = "may be 0"
"""Printed next to a count that noise alone could make, if nobody has the category."""


def _cells(value: Estimate, simultaneous: bool) -> tuple[str, ...]:
    ends = _ends(value, simultaneous)
    if value.standard_error is None:
        shown, lower, upper = significant((value.value, *ends), fineness(ends))
        return (shown, "", f"{lower} … {upper}")
    shown, error, lower, upper = significant((value.value, value.standard_error, *ends), value.standard_error)
    return (shown, error, f"{lower} … {upper}")
