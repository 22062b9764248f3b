"""`hubbub account longitudinal`: which strategy tells best of a boolean that changes over time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from hubbub.deploy.commands.account_options import Delta, HonestShare, option_values
from hubbub.deploy.output import Json, console, failures, print_json, progress_console

if TYPE_CHECKING:
    from hubbub.accountant.longitudinal.calibrate import Candidate
    from hubbub.accountant.mechanisms.longitudinal import Horizon

STATED = (
    "strategy",
    "applies",
    "why_not",
    "epsilon_local",
    "epsilon_upper",
    "standard_error_mean",
    "standard_error_largest",
    "standard_error_changing",
)
"""Members of a strategy's row."""


def longitudinal(
    periods: Annotated[int, typer.Option("--periods", help="Periods of the horizon, d: one round each.")],
    changes: Annotated[int, typer.Option("--changes", help="Most changes of one device's boolean, k.")],
    epsilon: Annotated[float, typer.Option("--epsilon", help="Central ε to meet over the whole horizon.")],
    delta: Delta,
    reports: Annotated[int, typer.Option("--reports", help="Devices that take part in every round, n.")],
    epsilon_local: Annotated[
        float | None,
        typer.Option("--epsilon-local", help="Largest local ε over the horizon: what holds if all servers collude."),
    ] = None,
    changing: Annotated[
        float,
        typer.Option(
            "--changing",
            help="Share of devices that change within one node of the tree: errors are stated and chosen for it.",
        ),
    ] = 0.0,
    honest_share: HonestShare = 1.0,
    as_json: Json = False,
) -> None:
    """Compare the strategies for a boolean that changes over time, each at (ε, δ) of the whole horizon.

    Errors are standard errors of f_t, the number of devices at 1 in period t: the root of their mean square over all
    periods, the largest, and the largest if every device changed as often and as badly timed as can be.

    Example: hubbub account longitudinal --periods 64 --changes 4 --epsilon 1 --delta 1e-6 --reports 1000000
    """
    with failures(as_json), option_values():
        from hubbub.accountant.longitudinal.calibrate import best, compare
        from hubbub.accountant.mechanisms.longitudinal import Horizon

        started, horizon = time.perf_counter(), Horizon(periods, changes)
        with progress_console().status("calibrating") as status:
            found = compare(
                horizon,
                epsilon,
                delta,
                reports,
                epsilon_local_cap=epsilon_local,
                honest_share=honest_share,
                changing=changing,
                progress=lambda kind: status.update(f"calibrating {kind}"),
            )
        chosen = next((best(found).kind for each in found if each.strategy is not None), None)
        theorem = _theorem(horizon, found, reports)
        if as_json:
            rows = [dict(zip(STATED, _row(each), strict=True)) for each in found]
            seconds = time.perf_counter() - started
            print_json({"strategies": rows, "chosen": chosen, "theorem_6": theorem, "seconds": seconds})
            return
        _print(found, chosen, theorem)


def _row(candidate: Candidate) -> tuple[Any, ...]:
    return (
        candidate.kind,
        candidate.strategy is not None,
        candidate.why_not,
        candidate.epsilon_local,
        candidate.epsilon_upper,
        candidate.standard_error_mean,
        candidate.standard_error_largest,
        candidate.standard_error_changing,
    )


def _theorem(horizon: Horizon, found: Sequence[Candidate], reports: int) -> dict[str, Any]:
    """Return the paper's bound on the largest error of `sampled`: at its local ε, at most 1, where the theorem ends."""
    from hubbub.accountant.errors import OutsideConditions
    from hubbub.accountant.longitudinal.theorem import EPSILON_MOST, FAILURE, theorem_6

    locals_ = [each.epsilon_local for each in found if each.kind == "sampled" and each.epsilon_local is not None]
    local = min([EPSILON_MOST, *locals_])
    row = {"epsilon_local": local, "probability": 1 - FAILURE, "largest_error": None, "why_not": None}
    try:
        return {**row, "largest_error": theorem_6(horizon, local, reports)}
    except OutsideConditions as error:
        return {**row, "why_not": str(error)}


def _print(found: Sequence[Candidate], chosen: str | None, theorem: dict[str, Any]) -> None:
    from hubbub.accountant.numbers import round_up_significant
    from hubbub.deploy.views.tables import print_table

    table = Table("strategy")
    for column in ("ε_local", "ε", "std. error, mean", "largest", "if all change"):
        table.add_column(column, justify="right")
    for each in found:
        numbers = [None if number is None else round_up_significant(number) for number in _row(each)[3:]]
        table.add_row(each.kind, *("-" if number is None else f"{number:.6g}" for number in numbers))
    printer = console()
    print_table(printer, table)
    lines = [f"{each.kind} does not apply: {each.why_not}" for each in found if each.why_not is not None]
    if theorem["largest_error"] is not None:
        lines.append(
            f"erlingsson-2019, Thm 6, of sampled at local ε {theorem['epsilon_local']:.4g}: with chance 2/3 no f_t "
            f"is off by more than {theorem['largest_error']:.6g}"
        )
    lines.append("chosen: none; allow a larger epsilon or more devices" if chosen is None else f"chosen: {chosen}")
    for line in lines:
        printer.print(line, markup=False, soft_wrap=True)
