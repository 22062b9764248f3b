"""Draws bounds and attacks over one variable: `hubbub account plot`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.accountant.errors import OutsideConditions
from hubbub.cli.commands.account.options import (
    Categories,
    Cells,
    Dummies,
    Gamma,
    HashRows,
    HonestShare,
    LocalEpsilon,
    MechanismName,
    Noise,
    Other,
    Rounds,
    Sigma,
    Truthful,
)
from hubbub.cli.plots.plan import Plot, PlotPlan, Scale, document, evaluate
from hubbub.cli.plots.variables import Range, Variable
from hubbub.cli.terminal.output import Json, console, failures, print_json
from hubbub.cli.terminal.progress import progress_bars
from hubbub.protos.errors import UsageError

if TYPE_CHECKING:
    from hubbub.cli.plots.sweep import SweepQuestion


class AxisScale(StrEnum):
    """The scale of an axis."""

    LINEAR = "linear"
    LOG = "log"


Mechanism = Annotated[MechanismName, typer.Option("--mechanism", help="The mechanism, as in `account epsilon`.")]
Over = Annotated[Variable, typer.Option("--over", help="The variable along the x axis.")]
First = Annotated[float, typer.Option("--from", help="Smallest value of the variable.")]
Last = Annotated[float, typer.Option("--to", help="Largest value of the variable.")]
Points = Annotated[int, typer.Option("--points", help="How many values to compute, both ends included.")]
AxisOption = Annotated[
    AxisScale | None,
    typer.Option("--axis", help="Scale of the x axis. [default: linear for local-epsilon, log for all others]"),
]
Bounds = Annotated[
    list[str] | None,
    typer.Option("--bound", help="A bound to draw, or best, or attack; repeatable. [default: all that apply]"),
]
Out = Annotated[Path | None, typer.Option("--out", help="Draw into this .svg or .png; needed without --json.")]
Reports = Annotated[int | None, typer.Option("--reports", help="Reports in the batch, n.")]
Delta = Annotated[float | None, typer.Option("--delta", help="The δ of (ε, δ), above 0 and below 1.")]


def plot(
    mechanism: Mechanism,
    over: Over,
    first: First,
    last: Last,
    points: Points = 25,
    axis: AxisOption = None,
    bound: Bounds = None,
    out: Out = None,
    reports: Reports = None,
    delta: Delta = None,
    categories: Categories = None,
    cells: Cells = None,
    rows: HashRows = None,
    local_epsilon: LocalEpsilon = None,
    gamma: Gamma = None,
    truthful: Truthful = None,
    other: Other = None,
    sigma: Sigma = None,
    noise: Noise = None,
    rounds: Rounds = 1,
    honest_share: HonestShare = 1.0,
    dummies: Dummies = 0,
    as_json: Json = False,
) -> None:
    """Draw bounds on the central ε over one variable.

    The variable is n, ε_local, δ, k, the cells of a hash or the number of rounds. A curve has a gap if its bound does
    not apply there. --json prints all points. Drawing needs the extra hubbub[plots].

    Example: hubbub account plot --mechanism krr --categories 16 --local-epsilon 4 --delta 1e-6 --over reports
    --from 1e3 --to 1e6 --out bounds.svg
    """
    with failures(as_json):
        from hubbub.cli.mechanisms.arguments import Description
        from hubbub.cli.plots.sweep import SweepQuestion

        given = (categories, local_epsilon, gamma, truthful, other, sigma, None, noise, cells, rows)
        said = Description(mechanism.value, *given)
        question = SweepQuestion(said, reports, delta, rounds, honest_share, dummies)
        along = Range(over, first, last, points, _scale(axis))
        _draw_bounds(question, along, bound or (), out, as_json)


def _scale(axis: AxisScale | None) -> Scale | None:
    return None if axis is None else "linear" if axis is AxisScale.LINEAR else "log"


def _draw_bounds(question: SweepQuestion, along: Range, bounds: Sequence[str], out: Path | None, as_json: bool) -> None:
    from hubbub.cli.plots.sweep import sweep

    _check_output(out, as_json)
    drawing = _evaluated(sweep(question, along, bounds), as_json)
    _give(drawing if bounds else _only_applying(drawing), out, as_json)


def _only_applying(drawing: Plot) -> Plot:
    """Leave out curves that apply nowhere. If none is left, keep all: the error then gives the reason of each."""
    from hubbub.cli.plots.sweep import only_applying

    some = only_applying(drawing)
    return some if some.panels[0].series else drawing


def _check_output(out: Path | None, as_json: bool) -> None:
    """Refuse an output that could not be written, before anything is computed."""
    if out is not None:
        from hubbub.cli.plots.draw import check_drawable

        check_drawable(out)
    elif not as_json:
        raise UsageError(
            "no output is named; give --out with a name that ends in .svg or .png, or --json for the points alone, "
            "or both"
        )


def _evaluated(plan: PlotPlan, as_json: bool) -> Plot:
    with progress_bars(as_json) as bars:
        bar = bars.add_task("bounds", total=plan.points)
        return evaluate(plan, lambda: bars.advance(bar))


def _give(drawing: Plot, out: Path | None, as_json: bool) -> None:
    """Write the plot, and print on stdout which curves it has."""
    series = [each for panel in drawing.panels for each in panel.series]
    if all(each.empty for each in series):
        reasons = "; ".join(f"{each.label}: {each.why_not}" for each in series)
        raise OutsideConditions(f"no bound applies anywhere in this range. {reasons}")
    if out is not None:
        from hubbub.cli.plots.draw import check_drawable, drawn
        from hubbub.deploy.files import save

        save(out, drawn(drawing, check_drawable(out)))
    if as_json:
        print_json(document(drawing))
        return
    for each in series:
        shown = sum(value is not None for value in each.y)
        console().print(f"{each.label}: {shown} of {len(each.y)} points", markup=False, soft_wrap=True)
    console().print(f"wrote {out}", markup=False, soft_wrap=True)
