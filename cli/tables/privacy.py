"""Shows a certificate's numbers as a table and in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from rich.console import Console
from rich.table import Table

from hubbub.accountant.certificate.members import ATTESTED, IF_MINIMUM_VALID
from hubbub.accountant.numbers import exp_up
from hubbub.cli.tables.tables import print_table

DIGITS = 4
"""Significant digits of a promise in words; it is rounded up, so it never promises more than was certified."""


def print_privacy(console: Console, certificate: Mapping[str, Any]) -> None:
    """Print a certificate's numbers, marked if they rest on an assumption."""
    admission = certificate["admission"]
    assumed = admission["rests_on"] == "assumption"
    table = Table(title="privacy of everyone in the batch", title_justify="left")
    for column in ("", "reports", "ε ≤ if assumed" if assumed else "ε ≤", "ε ≥", "ε local", "bound"):
        table.add_column(column, justify="left" if column in ("", "bound") else "right")
    for query in certificate["queries"]:
        table.add_row(query["name"], str(query["valid"]), *_epsilons(query), query["bound"])
    total, rounds = certificate["round_total"], certificate["all_rounds"]
    table.add_row("all queries", "", *_epsilons(total), total["bound"])
    if len(rounds["history"]) > 1:
        upper, local = f"{rounds['epsilon_upper']:.6g}", f"{rounds['epsilon_local']:.6g}"
        table.add_row(f"{len(rounds['history'])} rounds", "", upper, "", local, rounds["bound"])
    if "horizon" in certificate:
        whole = certificate["horizon"]
        upper = "unknown" if whole["epsilon_upper"] is None else f"{whole['epsilon_upper']:.6g}"
        label = f"all {whole['rounds']} of the task"
        table.add_row(label, "", upper, "", f"{whole['epsilon_local']:.6g}", whole["bound"])
    print_table(console, table)
    share = certificate["honest_share"]
    console.print(
        f"at δ = {total['delta']:g}: ε ≤ is proven by the named bound; ε ≥ is what an attack reaches, so the true ε is "
        f"not below it; ε local holds even if all services collude; the honest share of the reports is {share:g}",
        markup=False,
        soft_wrap=True,
    )
    if "valid_reports" in certificate:
        least = total[IF_MINIMUM_VALID]
        minimum = "" if least is None else f"ε ≤ {least:.6g} if at least the task's minimum is valid, and "
        console.print(
            "only the analyzer knows how many reports are valid; if it lies, all queries of the round have "
            f"{minimum}ε ≤ {total[ATTESTED]:.6g} for any number of valid reports",
            markup=False,
            soft_wrap=True,
        )
    # The last line is the one that people read, so it states what all numbers above rest on.
    warning = "ASSUMED, not checked. " if assumed else ""
    console.print(f"admission {admission['mode']}: {warning}{admission['words']}", markup=False, soft_wrap=True)


def promise(certificate: Mapping[str, Any]) -> str:
    """Return in one sentence the privacy of everyone after all that the task has published so far.

    The factor is e^ε of the definition: for every set of results E, P(E) ≤ e^ε·P'(E) + δ.
    """
    rounds, total = certificate["all_rounds"], certificate["round_total"]
    several = len(rounds["history"]) > 1
    numbers = rounds if several else total
    epsilon = numbers["epsilon_upper"]
    over = f" over {len(rounds['history'])} rounds" if several else ""
    assumed = certificate["admission"]["rests_on"] == "assumption"
    basis = f"if {certificate['honest_share']:g} of the reports are people's (ASSUMED, not checked)"
    # Noise of the shuffler: the number for any number of valid reports is the same, so no other report matters.
    alone = numbers.get(ATTESTED) == epsilon and any("noise" in query for query in certificate["queries"])
    proven = "proven even if everybody else lies" if alone else basis if assumed else "proven"
    return (
        f"Everyone in the batch keeps ε ≤ {_up(epsilon)} at δ = {numbers['delta']:g}{over}, "
        f"{proven}: had one person answered differently, every result would be at most "
        f"{_up(exp_up(epsilon))} times as likely (plus δ)."
    )


def beside_liars(certificate: Mapping[str, Any]) -> str:
    """Return in one sentence the privacy of everyone if nobody else's report can be trusted."""
    rounds, total = certificate["all_rounds"], certificate["round_total"]
    numbers = rounds if len(rounds["history"]) > 1 else total
    return (
        f"Even if everybody else lies, each of them keeps ε ≤ {_up(numbers[ATTESTED])} at δ = {total['delta']:g}, "
        "as long as the shuffler is honest."
    )


def _up(value: float) -> str:
    """Return a positive number as text, rounded up."""
    rounded = Context(prec=DIGITS, rounding=ROUND_CEILING).create_decimal(Decimal(value))
    return f"{float(rounded):,.{DIGITS}g}" if value < 10**DIGITS else f"{float(rounded):,.0f}"


def _epsilons(numbers: Mapping[str, Any]) -> Sequence[str]:
    lower = numbers["epsilon_lower"]
    return (
        f"{numbers['epsilon_upper']:.6g}",
        f"{lower:.6g}" if lower is not None else "unknown",
        f"{numbers['epsilon_local']:.6g}",
    )
