"""Shows randomizers or strategies side by side, as JSON, as a table and as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from hubbub.cli.plots.plan import Axis, Panel, Plot, Series
from hubbub.cli.tables.printing import print_table
from hubbub.planning.simulate.compare import (
    COVERAGE,
    FALSE_ALARM,
    ObservedStatistic,
    RandomizerComparison,
    least_coverage,
    tolerance,
)
from hubbub.protos.task.task import Privacy

MARKS = {"agrees": "", "larger": "! larger", "smaller": "! smaller", "rarer": "! covered too rarely"}
"""The table's text for each verdict."""


def comparison_document(
    name: str,
    kind: str,
    privacy: Privacy,
    repeat: int,
    found: Sequence[RandomizerComparison],
    *,
    what: str = "randomizer",
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a question's comparison as JSON: `what` names the things compared, and `notes` are for the reader.

    Its `why_not` is the reason if one could not be planned.
    """
    low, high = tolerance(repeat)
    return {
        "name": name,
        "kind": kind,
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "dummies": privacy.dummies,
        "repetitions": repeat,
        "notes": list(notes),
        "tolerance": {
            "false_alarm": FALSE_ALARM,
            "ratio": [low, high],
            "coverage_promised": COVERAGE,
            "coverage_least": least_coverage(repeat),
        },
        "compares": what,
        "compared": [_compared(each, what) for each in found],
    }


def _compared(each: RandomizerComparison, what: str) -> dict[str, Any]:
    contender = each.contender
    return {
        what: contender.randomizer,
        "reports": contender.reports,
        "parameters": dict(contender.parameters),
        "epsilon_local": contender.epsilon_local,
        "epsilon_upper": contender.epsilon_upper,
        "planned_standard_error": contender.planned,
        "why_not": contender.why_not,
        "statistics": [_statistic(seen) for seen in each.seen],
    }


def _statistic(seen: ObservedStatistic) -> dict[str, Any]:
    return {
        "statistic": seen.statistic,
        "promised": seen.promised,
        "seen": seen.seen,
        "ratio": seen.seen / seen.promised if seen.promised else None,
        "coverage": seen.coverage,
        "verdict": seen.verdict,
    }


def print_comparison(console: Console, document: dict[str, Any]) -> None:
    """Print a question's comparison: a row for each statistic, marked if the seen error differs from the promised."""
    title = f"{document['name']}, ε = {document['epsilon']:g} at δ = {document['delta']:g}"
    table = Table(title=f"{title}, {document['repetitions']} rounds each", title_justify="left")
    what = document["compares"]
    for column in ("reports", what, "ε_local", "statistic", "promised", "seen", "covered", ""):
        table.add_column(column, justify="left" if column in (what, "statistic", "") else "right")
    for each in sorted(document["compared"], key=lambda one: int(one["reports"])):
        for row in each["statistics"]:
            table.add_row(*_cells(each, row, what))
    print_table(console, table)
    for words in _notes(document):
        console.print(words, markup=False, soft_wrap=True)


def _cells(each: dict[str, Any], row: dict[str, Any], what: str) -> tuple[str, ...]:
    promised = "" if row["promised"] is None else f"{row['promised']:.4g}"
    named = (f"{each['reports']:,}", each[what], f"{each['epsilon_local']:.4g}", row["statistic"])
    return (*named, promised, f"{row['seen']:.4g}", f"{row['coverage']:.1%}", MARKS[row["verdict"]])


def _notes(document: dict[str, Any]) -> list[str]:
    low, high = document["tolerance"]["ratio"]
    reading = (
        "promised: standard error that the rounds state. seen: their actual error. covered: share of 95 % intervals "
        f"that contain the truth. A mark means that seen / promised is outside {low:.2f} to {high:.2f}, or covered is "
        f"below {document['tolerance']['coverage_least']:.1%}; a true promise is marked once in {1 / FALSE_ALARM:,.0f}."
    )
    return [*_reasons(document), *document["notes"], reading]


def _reasons(document: dict[str, Any]) -> list[str]:
    """Return why some were not run: each reason once, with all that it is of."""
    sizes: dict[tuple[str, str], list[str]] = {}
    for each in document["compared"]:
        if each["why_not"] is not None:
            sizes.setdefault((each["why_not"], each[document["compares"]]), []).append(f"{each['reports']:,}")
    names: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (why_not, name), of in sizes.items():
        names.setdefault((why_not, tuple(of)), []).append(name)
    return [f"{' and '.join(every)} at {' and '.join(of)} reports: {why_not}" for (why_not, of), every in names.items()]


def comparison_plot(document: dict[str, Any]) -> Plot:
    """Return the plot of the error against n, promised and seen, and of the share of intervals with the truth.

    It shows the first statistic of the question.
    """
    what = document["compares"]
    statistic = next(row["statistic"] for each in document["compared"] for row in each["statistics"])
    errors, coverage = [], []
    for randomizer in dict.fromkeys(each[what] for each in document["compared"]):
        points = _points(document, randomizer, statistic)
        if not points:
            continue
        sizes = tuple(float(size) for size, _ in points)
        errors.append(Series(f"{randomizer}, promised", "promised", sizes, tuple(row["promised"] for _, row in points)))
        errors.append(Series(f"{randomizer}, seen", "seen", sizes, tuple(row["seen"] for _, row in points)))
        coverage.append(Series(randomizer, "seen", sizes, tuple(row["coverage"] for _, row in points)))
    sizes = tuple(sorted({float(each["reports"]) for each in document["compared"]}))
    coverage.append(Series("promised", "promised", sizes, (COVERAGE,) * len(sizes), strong=True))
    reports = Axis("reports n", "log")
    caption = f"ε = {document['epsilon']:g}, δ = {document['delta']:g}, {document['repetitions']} rounds each"
    return Plot(
        f"{document['name']}: error of {statistic}, {caption}",
        caption,
        (
            Panel("error", reports, Axis(f"root mean square error of {statistic}", "log"), tuple(errors), shaded=False),
            Panel("intervals", reports, Axis("share that contains the truth", "linear"), tuple(coverage), shaded=False),
        ),
    )


def _points(document: dict[str, Any], randomizer: str, statistic: str) -> list[tuple[int, dict[str, Any]]]:
    found = [
        (int(each["reports"]), row)
        for each in document["compared"]
        for row in each["statistics"]
        if each[document["compares"]] == randomizer and row["statistic"] == statistic
    ]
    return sorted(found, key=lambda point: point[0])
