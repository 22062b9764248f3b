"""Compares strategies for a boolean that changes over time: `hubbub account longitudinal`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.table import Column, Table

from hubbub.cli.commands.account.options import Delta, HonestShare, option_values
from hubbub.cli.terminal.output import Json, console, failures, print_json
from hubbub.cli.terminal.progress import working

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms.longitudinal import Horizon
    from hubbub.planning.longitudinal.plan import StrategyCandidate


def longitudinal(
    periods: Annotated[int, typer.Option("--periods", help="Number of periods in the horizon, d; each is a round.")],
    changes: Annotated[int, typer.Option("--changes", help="How often one device's boolean changes at most, k.")],
    epsilon: Annotated[float, typer.Option("--epsilon", help="Largest central ε allowed over the whole horizon.")],
    delta: Delta,
    reports: Annotated[int, typer.Option("--reports", help="Devices that answer in each round, n.")],
    steady_share: Annotated[
        float,
        typer.Option(
            "--steady-share",
            help="Share of the honest devices that answer every round; vector and sampled rest on these alone.",
        ),
    ] = 1.0,
    epsilon_local: Annotated[
        float | None,
        typer.Option(
            "--local-epsilon", help="Largest ε_local over the horizon, the guarantee if all services collude."
        ),
    ] = None,
    changing: Annotated[
        float,
        typer.Option(
            "--changing",
            help="Share of devices that change within one node of the tree; errors and choices are for this share.",
        ),
    ] = 0.0,
    honest_share: HonestShare = 1.0,
    noise: Annotated[
        str,
        typer.Option(
            "--noise",
            help="Noise of the shuffler in each round: none, auto if errors grow by 5 % at most, or always.",
        ),
    ] = "none",
    as_json: Json = False,
) -> None:
    """Compare strategies for a boolean that changes over time.

    Each strategy meets (ε, δ) over the whole horizon. Errors are standard errors of f_t, the number of devices at 1 in
    period t. Three are printed: the mean over all periods, the largest, and the largest if every device changes as
    often and at as bad moments as possible.

    The certificates of vector and sampled rest on the devices that answer every round: all of them, unless
    --steady-share is less than 1.

    With noise of the shuffler, direct and tree meet (ε, δ) whatever all other devices send; other strategies take none.

    Example: hubbub account longitudinal --periods 64 --changes 4 --epsilon 1 --delta 1e-6 --reports 1000000
    """
    with failures(as_json), option_values():
        from hubbub.accountant.mechanisms.longitudinal import Horizon
        from hubbub.planning.longitudinal.goals import Goal
        from hubbub.planning.longitudinal.plan import StrategyTargets, chosen, compare_strategies

        started, horizon = time.perf_counter(), Horizon(periods, changes)
        goal = Goal.over_all(epsilon, delta, reports, epsilon_local, honest_share)
        wanted = StrategyTargets.of(horizon, goal, steady_share, changing, cast(Any, noise))
        with working("calibrating", as_json) as now:
            found = compare_strategies(wanted, progress=lambda name: now(f"calibrating {name}"))
        best = chosen(found)
        choice = best.name if best.sending is not None else None
        theorem = _theorem(horizon, found, reports)
        if as_json:
            seconds = time.perf_counter() - started
            rows = [each.as_json() for each in found]
            document = {"strategies": rows, "chosen": choice, "steady_share": steady_share, "theorem_6": theorem}
            print_json(document | {"seconds": seconds})
            return
        _print(found, choice, theorem)
        assumed = f"vector and sampled assume that {steady_share:.0%} of the honest devices answer every round"
        console().print(f"{assumed} (--steady-share)", markup=False, soft_wrap=True)


def _theorem(horizon: Horizon, found: Sequence[StrategyCandidate], reports: int) -> dict[str, Any]:
    """Return the paper's bound on the largest error of `sampled`, at its local ε or at 1, the theorem's limit."""
    from hubbub.accountant.errors import OutsideConditions
    from hubbub.accountant.longitudinal.theorem import EPSILON_MOST, FAILURE, theorem_6
    from hubbub.accountant.mechanisms.longitudinal import Sampled

    locals_ = [each.epsilon_local for each in found if each.name == Sampled.kind and each.epsilon_local is not None]
    local = min([EPSILON_MOST, *locals_])
    row = {"epsilon_local": local, "probability": 1 - FAILURE, "largest_error": None, "why_not": None}
    try:
        return {**row, "largest_error": theorem_6(horizon, local, reports)}
    except OutsideConditions as error:
        return {**row, "why_not": str(error)}


def _print(found: Sequence[StrategyCandidate], chosen: str | None, theorem: dict[str, Any]) -> None:
    from hubbub.accountant.numbers import round_up_significant
    from hubbub.cli.tables.printing import print_table

    table = Table(Column("strategy", no_wrap=True))
    for column in ("ε_local", "ε", "std. error, mean", "largest", "if all change"):
        table.add_column(column, justify="right")
    for each in found:
        numbers = [
            None if number is None else round_up_significant(number) for number in list(each.as_json().values())[3:-1]
        ]
        table.add_row(each.sent, *("-" if number is None else f"{number:.6g}" for number in numbers))
    printer = console()
    print_table(printer, table)
    lines = [f"{each.name} does not apply: {each.why_not}" for each in found if each.why_not is not None]
    if theorem["largest_error"] is not None:
        lines.append(
            f"erlingsson-2019, Thm 6, of sampled at ε_local {theorem['epsilon_local']:.4g}: with a chance of 2/3, no "
            f"f_t has an error above {theorem['largest_error']:.6g}"
        )
    lines.append("chosen: none; allow a larger epsilon or more devices" if chosen is None else f"chosen: {chosen}")
    for line in lines:
        printer.print(line, markup=False, soft_wrap=True)
