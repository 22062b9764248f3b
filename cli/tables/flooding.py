"""Shows the ε of a planned round in which somebody made reports up, as JSON and in words."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from hubbub.cli.tables.significant_digits import significant
from hubbub.cli.tables.tables import print_table
from hubbub.planning.flooding import Shield, floods_of, shield_of
from hubbub.planning.plan import Plan


def flood_document(plan: Plan) -> dict[str, Any]:
    """Return the ε under floods, and the cost of dummies against them; null if none are known to help."""
    members = ("fakes", "honest", "epsilon_upper")
    left = [{name: getattr(each, name) for name in members} for each in floods_of(plan)]
    shield = shield_of(plan)
    if shield is None:
        return {"left": left, "shield": None}
    errors = {"expected_standard_errors": dict(shield.errors)}
    return {"left": left, "shield": {"dummies": shield.dummies, "honest_share": shield.honest_share, **errors}}


def print_flood(printer: Console, plan: Plan) -> None:
    """Print a row for each flood, or one sentence if all are equal; then who could make one, and what is against it."""
    least, floods = plan.draft.minimum_reports, floods_of(plan)
    if len({each.epsilon_upper for each in floods}) == 1:
        told = "if somebody makes up all reports but one, and subtracts them from the results, that person has:"
        printer.print(f"{told} ε ≤ {floods[0].epsilon_upper:.4f}", markup=False, soft_wrap=True)
        printer.print(_shield_text(plan, shield_of(plan)), markup=False, soft_wrap=True)
        return
    told = "if somebody sends made-up reports, and subtracts them from the results, the honest people have only:"
    printer.print(told, markup=False, soft_wrap=True)
    table = Table(f"made up, of {least}")
    for column in ("honest", "ε ≤"):
        table.add_column(column, justify="right")
    for each in floods:
        table.add_row(str(each.fakes), str(each.honest), f"{each.epsilon_upper:.4f}")
    print_table(printer, table)
    printer.print(plan.draft.admission.fakes, markup=False, soft_wrap=True)
    printer.print(_shield_text(plan, shield_of(plan)), markup=False, soft_wrap=True)


def _shield_text(plan: Plan, shield: Shield | None) -> str:
    if all(each.query.noise is not None for each in plan.queries):
        return "noise of the shuffler keeps the promise even then"
    if any(each.query.noise is not None for each in plan.queries):
        return "where the shuffler adds noise, it keeps the promise even then"
    if shield is None:
        return "no number of dummies that a task may have is proven to keep the promise then"
    errors, promised = [], plan.draft.privacy.epsilon
    for each in plan.queries:
        new, now = significant((shield.errors[each.query.name], each.expected_error), each.expected_error)
        errors.append(f"{new} for {each.query.name} (now {now})")
    return (
        f"to keep ε ≤ {promised:g} even then, set honest_share = {shield.honest_share:g} and dummies = "
        f"{shield.dummies}, and plan again; the standard errors become {', '.join(errors)}, or less"
    )
