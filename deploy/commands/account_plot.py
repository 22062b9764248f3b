"""`hubbub account plot`: what the accountant says, as a picture."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from hubbub.accountant.errors import OutsideConditions
from hubbub.deploy.commands.account_options import (
    Categories,
    Dummies,
    Gamma,
    HonestShare,
    LocalEpsilon,
    MechanismName,
    Mixed,
    Rounds,
)
from hubbub.deploy.errors import BadUse
from hubbub.deploy.output import Json, console, failures, print_json, progress_console
from hubbub.deploy.pictures.plan import Picture, PicturePlan, Scale, document, evaluate
from hubbub.deploy.pictures.variables import Range, Variable


class AxisScale(StrEnum):
    """How an axis is divided."""

    LINEAR = "linear"
    LOG = "log"


Mechanism = Annotated[MechanismName | None, typer.Option("--mechanism", help="The mechanism, as in `account epsilon`.")]
Over = Annotated[Variable | None, typer.Option("--over", help="What varies along the picture.")]
First = Annotated[float | None, typer.Option("--from", help="Its smallest value.")]
Last = Annotated[float | None, typer.Option("--to", help="Its largest value.")]
Points = Annotated[int, typer.Option("--points", help="How many values, the ends included.")]
AxisOption = Annotated[
    AxisScale | None,
    typer.Option("--axis", help="Its axis; left out, linear for local-epsilon and logarithmic for all others."),
]
Bounds = Annotated[
    list[str] | None,
    typer.Option("--bound", help="A bound to draw, or best, or attack; repeatable. Left out, all that apply."),
]
Out = Annotated[Path | None, typer.Option("--out", help="The picture's file; its name ends in .svg or .png.")]
Reports = Annotated[int | None, typer.Option("--reports", help="Reports in the batch, n.")]
Delta = Annotated[float | None, typer.Option("--delta", help="The δ of (ε, δ), above 0 and below 1.")]


def plot(
    mechanism: Mechanism = None,
    over: Over = None,
    first: First = None,
    last: Last = None,
    points: Points = 25,
    axis: AxisOption = None,
    bound: Bounds = None,
    out: Out = None,
    reports: Reports = None,
    delta: Delta = None,
    categories: Categories = None,
    local_epsilon: LocalEpsilon = None,
    gamma: Gamma = None,
    mixed: Mixed = False,
    rounds: Rounds = 1,
    honest_share: HonestShare = 1.0,
    dummies: Dummies = 0,
    as_json: Json = False,
) -> None:
    """Draw bounds on the central ε over n, ε_local, δ, k or the number of rounds.

    Where a bound does not apply, its curve has a gap; --json gives all points. Drawing needs hubbub[plots].

    Example: hubbub account plot --mechanism krr --categories 16 --local-epsilon 4 --delta 1e-6 --over reports
    --from 1e3 --to 1e6 --out bounds.svg
    """
    with failures(as_json):
        from hubbub.deploy.accounting import Description
        from hubbub.deploy.pictures.sweep import Question, only_applying, sweep

        if mechanism is None or over is None or first is None or last is None:
            raise BadUse("give --mechanism, --over, --from and --to")
        _check_output(out, as_json)
        said = Description(mechanism.value, categories, local_epsilon, gamma, mixed)
        question = Question(said, reports, delta, rounds, honest_share, dummies)
        scale: Scale | None = None if axis is None else "linear" if axis is AxisScale.LINEAR else "log"
        picture = _evaluated(sweep(question, Range(over, first, last, points, scale), bound or ()))
        some = only_applying(picture)
        _give(picture if bound or not some.panels[0].series else some, out, as_json)


def _check_output(out: Path | None, as_json: bool) -> None:
    """Refuse what could not be shown in the end before anything is computed."""
    if out is not None:
        from hubbub.deploy.pictures.draw import check_drawable

        check_drawable(out)
    elif not as_json:
        raise BadUse("give --out with a name that ends in .svg or .png, or --json for the points alone, or both")


def _evaluated(plan: PicturePlan) -> Picture:
    with Progress(console=progress_console()) as bars:
        bar = bars.add_task("bounds", total=plan.points)
        return evaluate(plan, lambda: bars.advance(bar))


def _give(picture: Picture, out: Path | None, as_json: bool) -> None:
    """Write the picture, and say on stdout what is in it."""
    series = [each for panel in picture.panels for each in panel.series]
    if all(each.empty for each in series):
        reasons = "; ".join(f"{each.label}: {each.why_not}" for each in series)
        raise OutsideConditions(f"no bound applies anywhere in this range. {reasons}")
    if out is not None:
        from hubbub.deploy.pictures.draw import check_drawable, drawn

        out.write_bytes(drawn(picture, check_drawable(out)))
    if as_json:
        print_json(document(picture))
        return
    for each in series:
        shown = sum(value is not None for value in each.y)
        console().print(f"{each.label}: {shown} of {len(each.y)} points", markup=False, soft_wrap=True)
    console().print(f"wrote {out}", markup=False, soft_wrap=True)
