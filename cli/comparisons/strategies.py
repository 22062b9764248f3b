"""Compares strategies for a boolean that changes over time on a file's columns, for `hubbub simulate --changes`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hubbub.cli.terminal.progress import progress_bars
from hubbub.protos.errors import UsageError

if TYPE_CHECKING:
    from hubbub.planning.simulate.longitudinal import Streams
    from hubbub.planning.simulate.notation import Notation
    from hubbub.protos.task.task import Privacy


def columns_of(
    data: Path, columns: Sequence[str], notation: Notation, device: str | None, period: str | None, changes: int
) -> Streams:
    """Return the streams of a file: from one column with columns of devices and periods, or from one for each period.

    Raises:
        UsageError: if the options name neither.
        HubbubError: if the file cannot be used.
    """
    from hubbub.planning.simulate.longitudinal import Streams
    from hubbub.planning.simulate.longitudinal_data import read_long, read_wide

    if device is not None and period is not None and len(columns) == 1:
        return Streams.of(read_long(data, device, period, columns[0], notation), changes)
    if device is not None or period is not None or len(columns) < 2:
        raise UsageError(
            "the columns do not tell the states over time; give one --column with --device and --period, or one "
            "--column for each period in order"
        )
    return Streams.of(read_wide(data, columns, notation), changes)


def compare_over_time(
    streams: Streams,
    privacy: Privacy,
    compare: str,
    sizes: Sequence[int],
    repeat: int,
    steady_share: float | None,
    as_json: bool,
) -> dict[str, Any]:
    """Return the comparison of the named strategies as JSON.

    Raises:
        UsageError: if one is unknown.
    """
    import os

    from hubbub.cli.tables.comparison import comparison_document
    from hubbub.planning.simulate.longitudinal import planned, run

    kinds = _kinds(compare)
    with progress_bars(as_json) as bars:
        planning = bars.add_task("strategies: planning", total=len(kinds) * len(sizes))
        found = []
        for kind in kinds:
            for reports in sizes:
                found.append(planned(kind, streams.horizon, reports, privacy, steady_share))
                bars.advance(planning)
        running = [(contender, strategy) for contender, strategy in found if strategy is not None]
        bar = bars.add_task("devices send", total=sum(contender.reports for contender, _ in running) * repeat)
        seen = [
            run(contender, strategy, streams, repeat, lambda devices: bars.advance(bar, devices), os.urandom)
            for contender, strategy in found
        ]
    name = f"a boolean over {streams.horizon.periods} periods, at most {streams.changes} changes"
    clipped = "1 device" if streams.clipped == 1 else f"{streams.clipped} devices"
    notes = [f"{clipped} changed more often; further changes are ignored"] if streams.clipped else []
    return comparison_document(name, "longitudinal", privacy, repeat, seen, what="strategy", notes=notes)


def _kinds(compare: str) -> list[str]:
    from hubbub.accountant.mechanisms.longitudinal import STRATEGIES

    named = list(STRATEGIES) if compare == "all" else [word.strip() for word in compare.split(",")]
    for word in named:
        if word not in STRATEGIES:
            raise UsageError(f"--compare {word!r} with --changes: the strategies are {', '.join(STRATEGIES)}, or all")
    return list(dict.fromkeys(named))
