"""Shows the machines that a task needs for a number of submissions a day, as a table and in words."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from hubbub.cli.tables.printing import print_table
from hubbub.planning.capacity import MONTH_DAYS, Capacity, Costs
from hubbub.protos.sealing.suites import DEFAULT


def print_capacity(printer: Console, capacity: Capacity, costs: Costs, suite: str) -> None:
    """Print each figure, and the limits of one machine that are exceeded."""
    printer.print(f"estimate for {capacity.submissions:,.0f} submissions a day", soft_wrap=True)
    table = Table("what", "how much")
    table.columns[1].justify = "right"
    for what, how_much in _rows(capacity, costs):
        table.add_row(what, how_much)
    print_table(printer, table)
    for each in capacity.limits:
        printer.print(
            f"beyond one measured machine: {each.name}: {_number(each.asked)} of {_number(each.has)}; {each.remedy}",
            soft_wrap=True,
        )
    if not capacity.limits:
        printer.print("one machine like the measured one is enough", soft_wrap=True)
    printer.print(
        f"costs are those of `make bench` on {costs.cores} cores, which also made the load; figures beyond one machine "
        "are extrapolated",
        soft_wrap=True,
    )
    if suite != DEFAULT.name:
        printer.print("costs are of X25519; this task's suite takes about twice as long to open", soft_wrap=True)


def _rows(capacity: Capacity, costs: Costs) -> list[tuple[str, str]]:
    rows = [
        ("submissions a second: average, peak", f"{_number(capacity.average)}, {_number(capacity.peak)}"),
        ("bytes of a submission on the wire, without TLS", f"{capacity.submission_bytes:,}"),
        ("bandwidth at the peak", _bytes(capacity.peak_bytes, "/s")),
        ("cores at the peak, one device a call", _number(capacity.single_cores)),
        ("cores at the peak, a hundred a call", _number(capacity.batched_cores)),
        ("reports of a round, and rounds a day", f"{_number(capacity.round_reports)}, {_number(capacity.rounds)}"),
        ("shuffler's disk while a round is mixed", _bytes(capacity.round_disk_bytes)),
        ("shuffler's memory for a round", _bytes(capacity.round_memory_bytes)),
        ("to mix a round on one core", f"{_number(capacity.mix_seconds)} s"),
        ("mixing a day", f"{_number(capacity.mix_core_hours)} core-hours"),
        (f"to open and count a round on {costs.cores} cores", f"{_number(capacity.open_seconds)} s"),
        ("opening and counting a day", f"{_number(capacity.open_core_hours)} core-hours"),
    ]
    if capacity.month is not None:
        rows.append((f"cores and disk for {MONTH_DAYS} days, one device a call", f"{capacity.month:,.2f}"))
    return rows


def _number(value: float) -> str:
    """Write a number with commas, or with three digits if it is below 100."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _bytes(count: float, unit: str = "") -> str:
    for size, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if count >= size:
            return f"{_number(count / size)} {name}{unit}"
    return f"{_number(count / 1e3)} kB{unit}"
