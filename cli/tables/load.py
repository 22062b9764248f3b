"""Shows a load's steps as a table, and as a plot of throughput and latencies."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from hubbub.cli.plots.plan import Axis, Panel, Plot, Series, scale_of
from hubbub.cli.tables.printing import print_table
from hubbub.deploy.load.latency import LATE_SECONDS, StepResult

_SHOWN = ("p50", "p99", "p99.9", "max")


def print_steps(console: Console, steps: Sequence[StepResult]) -> None:
    """Print a row for each step, then the refusals, and the steps at which the load itself did not keep up."""
    latencies = (f"{name} (ms)" for name in _SHOWN)
    table = Table(
        *("devices due (1/s)", "devices", "acknowledged", "acknowledged (1/s)"), *latencies, "CPU of the load (cores)"
    )
    for column in table.columns:
        column.justify = "right"
    for step in steps:
        found = step.latencies()
        cells = [f"{1000 * found[name]:.1f}" if name in found else "" for name in _SHOWN]
        counts = f"{step.devices}", f"{step.acknowledged}", f"{step.throughput:.0f}"
        table.add_row(f"{step.offered:.0f}", *counts, *cells, f"{step.cores:.2f}")
    print_table(console, table)
    for step in steps:
        for line in _said(step):
            console.print(f"at {step.offered:.0f}/s: {line}", soft_wrap=True)


def _said(step: StepResult) -> list[str]:
    counts, lines = step.counts, []
    if counts.retries:
        lines.append(f"retried: {_by_reason(counts.retries)}")
    if counts.refused:
        first = next(iter(counts.messages.values()), "")
        lines.append(f"not acknowledged: {_by_reason(counts.refused)}; the first message: {first}")
    if not step.is_of_the_service:
        late = f"{step.late_share:.0%} of calls were sent more than {1000 * LATE_SECONDS:.0f} ms late"
        unsent = f", {counts.unsent} device{'s' * (counts.unsent > 1)} not at all" if counts.unsent else ""
        lines.append(f"the load itself did not keep up ({late}{unsent}): use more --processes, or another machine")
    return lines


def _by_reason(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))


def plot(steps: Sequence[StepResult], where: str) -> Plot:
    """Return the plot of a load: over the offered rate if there are several steps, else over time."""
    caption = f"{where}; latencies are of acknowledged devices, from the moment their call was due"
    if len(steps) > 1:
        return Plot("Throughput and latency under load", caption, _over_rate(steps))
    return Plot("Throughput and latency under load, second by second", caption, _over_time(steps[0]))


def _over_rate(steps: Sequence[StepResult]) -> tuple[Panel, Panel]:
    x = tuple(step.offered for step in steps)
    offered = Axis("devices offered a second")
    throughput = Series("acknowledged", "seen", x, tuple(step.throughput for step in steps))
    asked = Series("offered", "promised", x, x)
    latencies = [step.latencies() for step in steps]
    curves = tuple(
        Series(name, "seen", x, tuple(1000 * each[name] if name in each else None for each in latencies))
        for name in ("p50", "p99", "p99.9")
    )
    return (
        Panel("Throughput", offered, Axis("devices a second"), (asked, throughput), shaded=False),
        Panel("Latency", offered, _milliseconds(curves), curves, shaded=False),
    )


def _over_time(step: StepResult) -> tuple[Panel, Panel]:
    seconds = step.each_second()
    x = tuple(float(each["second"] or 0) for each in seconds)
    time = Axis("when calls were due (s)")
    devices = (
        Series("due", "promised", x, tuple(float(each["devices"] or 0) for each in seconds)),
        Series("acknowledged of them", "seen", x, tuple(float(each["acknowledged"] or 0) for each in seconds)),
    )
    curves = tuple(Series(name, "seen", x, tuple(_scaled(each[name]) for each in seconds)) for name in ("p50", "p99"))
    return (
        Panel("Throughput", time, Axis("devices a second"), devices, shaded=False),
        Panel("Latency", time, _milliseconds(curves), curves, shaded=False),
    )


def _scaled(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def _milliseconds(curves: Sequence[Series]) -> Axis:
    return Axis("milliseconds", scale_of([value for curve in curves for value in curve.y if value is not None]))
