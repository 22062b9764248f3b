"""Shows the ε of a planned round in which somebody made reports up, as JSON and in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from hubbub.accountant.certificate.alone import keeps_alone
from hubbub.accountant.certificate.terms import Terms
from hubbub.cli.tables.printing import print_table
from hubbub.planning.flooding import NoiseInstead, Shield, floods_of, noise_instead, shield_of
from hubbub.planning.planned import Plan
from hubbub.queries.estimation.significant_digits import significant


def flood_document(plan: Plan) -> dict[str, Any]:
    """Return the ε under floods, and what is against them: noise instead of what the draft has, and dummies.

    Each is null if it is not needed, cannot be had, or is not known to help.
    """
    members = ("fakes", "honest", "epsilon_upper")
    left = [{name: getattr(each, name) for name in members} for each in floods_of(plan)]
    instead, shield = _noise_against(plan), shield_of(plan)
    noise = None if instead is None else {"noise": instead.noise, "expected_standard_errors": dict(instead.errors)}
    if shield is None:
        return {"left": left, "noise": noise, "shield": None}
    errors = {"expected_standard_errors": dict(shield.errors)}
    dummies = {"dummies": shield.dummies, "honest_share": shield.honest_share, **errors}
    return {"left": left, "noise": noise, "shield": dummies}


def hides_everyone(plan: Plan) -> bool:
    """Return whether noise of the shuffler keeps the promise for each person, whatever the others send."""
    noisy = all(each.query.noise is not None for each in plan.queries)
    return noisy and keeps_alone(Terms.of(plan.draft), plan.mechanisms)


def flood_texts(plan: Plan) -> list[str]:
    """Return what the last honest person has in a flood, and what is against it; nothing if noise hides everyone."""
    if hides_everyone(plan):
        return []
    return [f"{_ALL_BUT_ONE}: ε ≤ {floods_of(plan)[-1].epsilon_upper:.4f}; {next(_against(plan))}"]


def print_flood(printer: Console, plan: Plan) -> None:
    """Print a row for each flood, or one sentence if all are equal; then who could make one, and what is against it."""
    least, floods = plan.draft.minimum_reports, floods_of(plan)
    if len({each.epsilon_upper for each in floods}) == 1:
        printer.print(f"{_ALL_BUT_ONE}: ε ≤ {floods[0].epsilon_upper:.4f}", markup=False, soft_wrap=True)
    else:
        told = "if somebody sends made-up reports, and subtracts them from the results, the honest people have only:"
        printer.print(told, markup=False, soft_wrap=True)
        table = Table(f"made up, of {least}")
        for column in ("honest", "ε ≤"):
            table.add_column(column, justify="right")
        for each in floods:
            table.add_row(str(each.fakes), str(each.honest), f"{each.epsilon_upper:.4f}")
        print_table(printer, table)
        printer.print(plan.draft.admission.fakes, markup=False, soft_wrap=True)
    for sentence in _against(plan):
        printer.print(sentence, markup=False, soft_wrap=True)


_ALL_BUT_ONE = "if somebody makes up all reports but one, and subtracts them from the results, that person has"


def _against(plan: Plan) -> Iterator[str]:
    """Yield what keeps the promise in a flood, noise first: it costs the least error, and each is computed if asked."""
    if hides_everyone(plan):
        yield "noise of the shuffler keeps the promise even then"
        return
    instead = _noise_against(plan)
    if instead is not None:
        yield _noise_text(plan, instead)
    if any(each.query.noise is not None for each in plan.queries):
        yield "answers to which the shuffler adds noise keep their part of the promise even then"
        return
    shield = shield_of(plan)
    if shield is not None:
        yield _shield_text(plan, shield, alone=instead is None)
    elif instead is None:
        yield "no number of dummies that a task may have is proven to keep the promise then"


def _noise_against(plan: Plan) -> NoiseInstead | None:
    return None if hides_everyone(plan) else noise_instead(plan)


def _noise_text(plan: Plan, instead: NoiseInstead) -> str:
    instruction = f'set noise = "{instead.noise}"'
    if plan.draft.privacy.dummies:
        instruction += ", leave dummies out"
    now = {each.name: each.expected_error for each in plan.asked}
    return (
        f"to keep ε ≤ {plan.draft.privacy.epsilon:g} even then, {instruction}, and plan again; "
        f"{_errors_text(now, instead.errors)}"
    )


def _shield_text(plan: Plan, shield: Shield, alone: bool) -> str:
    promised, now = plan.draft.privacy.epsilon, {each.name: each.expected_error for each in plan.queries}
    instruction = f"set honest_share = {shield.honest_share:g} and dummies = {shield.dummies}, and plan again"
    why = f"to keep ε ≤ {promised:g} even then, {instruction}" if alone else f"or, without noise, {instruction}"
    return f"{why}; {_errors_text(now, shield.errors)}, or less"


def _errors_text(now: Mapping[str, float], then: Mapping[str, float]) -> str:
    errors = []
    for name, error in now.items():
        new, old = significant((then[name], error), error)
        errors.append(f"{new} for {name} (now {old})")
    return f"the standard errors become {', '.join(errors)}"
