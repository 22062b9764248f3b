"""What was measured, as tables for people."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table
from row import Comparison, Row


def goals(rows: Iterable[Row]) -> Table:
    """Return the table of rows with goals: the ratio of the median, the worst and the best run."""
    table = Table(title="measured against its goal")
    for heading in ("row", "value", "limit", "median", "worst", "best", "goal", "spread", "others", ""):
        table.add_column(heading, justify="left" if heading == "row" else "right")
    for row in rows:
        value, limit = (f"{number:.4g} {row.unit}".strip() for number in (row.value, row.limit))
        ratios = [f"{ratio:.3f}" for ratio in (row.ratio, row.worst, row.best)]
        noise = [f"{share:.0%}" for share in (row.spread, row.others)]
        table.add_row(row.name, value, limit, *ratios, str(row.goal), *noise, row.verdict)
    return table


def beside(comparisons: Iterable[Comparison]) -> Table:
    """Return the table of what others do, from the same run."""
    table = Table(title="beside it, in the same run")
    for heading in ("row", "how", "value", "seconds"):
        table.add_column(heading, justify="left" if heading in ("row", "how") else "right")
    for each in comparisons:
        table.add_row(each.name, each.how, f"{each.value:.6g} {each.unit}", f"{each.seconds:.2g}")
    return table
