"""Shows a certificate's numbers as a table, and in a few sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from rich.console import Console
from rich.table import Table

from hubbub.accountant.certificate.ladder import ladder
from hubbub.accountant.numbers import exp_up
from hubbub.cli.tables.ladder import ladder_lines
from hubbub.cli.tables.printing import print_table

DIGITS = 4
"""Significant digits of the factor e^ε; it is rounded up, so it never promises more than was certified."""


def print_privacy(console: Console, certificate: Mapping[str, Any]) -> None:
    """Print a certificate's numbers, and who must be honest for which."""
    admission = certificate["admission"]
    table = Table(title="privacy of everyone in the batch", title_justify="left")
    for column in ("", "reports", "ε ≤", "ε ≥", "ε_local", "bound"):
        table.add_column(column, justify="left" if column in ("", "bound") else "right")
    for query in certificate["queries"]:
        table.add_row(query["name"], str(query["valid"]), *_epsilons(query), query["bound"])
    total, rounds = certificate["round_total"], certificate["all_rounds"]
    table.add_row("all queries", "", *_epsilons(total), total["bound"])
    if len(rounds["history"]) > 1:
        table.add_row(f"{len(rounds['history'])} rounds", "", *_epsilons(rounds), rounds["bound"])
    if "horizon" in certificate:
        whole = certificate["horizon"]
        table.add_row(f"all {whole['rounds']} of the task", "", *_epsilons(whole), whole["bound"])
    print_table(console, table)
    console.print(
        f"at δ = {certificate['delta']:g}: if everybody is honest, ε ≤ is proven by the named bound, and ε ≥ is "
        "what an attack then reaches, so the true ε is not below it (unknown: no such attack is known); ε_local is "
        "that of the device's reports alone",
        markup=False,
        soft_wrap=True,
    )
    for line in ladder_lines(certificate):
        console.print(line, markup=False, soft_wrap=True)
    # The last line is the one that people read, so it states who may have taken part.
    console.print(f"admission {admission['mode']}: {admission['words']}", markup=False, soft_wrap=True)


def meaning(certificate: Mapping[str, Any]) -> str:
    """Return what the smallest ε means, after all that the task has published so far.

    Its factor is e^ε of the definition: for every set of results E, P(E) ≤ e^ε·P'(E) + δ.
    """
    several = len(certificate["all_rounds"]["history"]) > 1
    smallest = ladder(certificate["all_rounds" if several else "round_total"], certificate["ladder"])[0].epsilon
    return (
        f"ε ≤ {smallest:.6g} means: had one person answered differently, every result would be at most "
        f"{_up(exp_up(smallest))} times as likely (plus δ)."
    )


def plain_promise(certificate: Mapping[str, Any]) -> str:
    """Return the privacy of everyone in one sentence: the smallest (ε, δ) after all rounds so far, and who keeps it.

    Both numbers are rounded up, so the sentence never says more than was certified.
    """
    rounds = len(certificate["all_rounds"]["history"])
    first = ladder(certificate["all_rounds" if rounds > 1 else "round_total"], certificate["ladder"])[0]
    over = f", over {rounds} rounds," if rounds > 1 else ""
    epsilon, delta = _up(first.epsilon), _up(certificate["delta"])
    return f"Everyone here{over} is ({epsilon}, {delta})-differentially private {first.words}."


def _up(value: float) -> str:
    """Return a positive number as text, rounded up."""
    rounded = Context(prec=DIGITS, rounding=ROUND_CEILING).create_decimal(Decimal(value))
    return f"{float(rounded):,.{DIGITS}g}" if value < 10**DIGITS else f"{float(rounded):,.0f}"


def _epsilons(numbers: Mapping[str, Any]) -> Sequence[str]:
    names = ("epsilon_upper", "epsilon_lower", "epsilon_local")
    return ["unknown" if numbers[name] is None else f"{numbers[name]:.6g}" for name in names]
