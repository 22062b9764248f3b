"""Shows what an attacker of real rounds learned, next to the certificate, as JSON, a table and a plot."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from hubbub.cli.plots.plan import Axis, Panel, Plot, Series
from hubbub.cli.tables.tables import print_table
from hubbub.deploy.audit.audit import Audit, AuditedAttack
from hubbub.deploy.audit.inference import roc

POINTS = 101
"""Points of the certificate's curve."""


def audit_document(audit: Audit, seconds: float) -> dict[str, Any]:
    """Return an audit's findings as JSON values; `seconds` is how long it took."""
    task = audit.task.task
    return {
        "task": audit.name,
        "participants": task.minimum_reports,
        "dummies": task.privacy.dummies,
        "delta": task.privacy.delta,
        "epsilon_attained": audit.attained,
        "confidence": audit.options.confidence,
        "epsilon_certified": audit.certified,
        "epsilon_visible": audit.visible,
        "rounds": audit.options.rounds,
        "rounds_under_minimum": audit.options.rounds_under_minimum,
        "released_under_minimum": audit.released_under_minimum,
        "consistent": audit.consistent,
        "attacks": [_attack(each) for each in audit.attacks],
        "seconds": round(seconds, 3),
    }


def _attack(attacked: AuditedAttack) -> dict[str, Any]:
    shown = attacked.shown
    return {
        "under_minimum": attacked.under_minimum,
        "opened": attacked.opened,
        "score": shown.event.score,
        "event": shown.event.text,
        "right": list(shown.right),
        "wrong": list(shown.wrong),
        "epsilon_attained": shown.epsilon,
    }


def print_audit(console: Console, document: dict[str, Any]) -> None:
    """Print an audit's document for people."""
    title = f"{document['task']}: attacked {document['rounds']} rounds of {document['participants']} people"
    table = Table(title=title, title_justify="left")
    for column in ("rounds", "opened", "the attacker looks at", "right", "wrong", "ε ≥"):
        table.add_column(column, justify="left" if column in ("rounds", "the attacker looks at") else "right")
    for each in document["attacks"]:
        name = "under the minimum" if each["under_minimum"] else "of the certificate"
        right, wrong = (f"{seen} of {rounds}" for seen, rounds in (each["right"], each["wrong"]))
        table.add_row(name, str(each["opened"]), each["score"], right, wrong, f"{each['epsilon_attained']:.4g}")
    print_table(console, table)
    console.print(_verdict(document), soft_wrap=True)


def _verdict(document: dict[str, Any]) -> str:
    """Return the conclusion in words."""
    attained, certified = f"{document['epsilon_attained']:.4g}", f"{document['epsilon_certified']:.6g}"
    at = f"at δ = {document['delta']:g}"
    if document["released_under_minimum"]:
        return f"NOT CONSISTENT: {document['released_under_minimum']} rounds under the minimum were released"
    if not document["consistent"]:
        return (
            f"NOT CONSISTENT: the attacker learns ε ≥ {attained} {at}, with confidence {document['confidence']:g}; "
            f"the certificate states ε ≤ {certified}"
        )
    return (
        f"consistent: the attacker shows ε ≥ {attained} {at}, with confidence {document['confidence']:g}, and the "
        f"certificate states ε ≤ {certified}; if nothing were hidden, this many rounds would show ε ≥ "
        f"{document['epsilon_visible']:.4g}"
    )


def audit_plot(audit: Audit) -> Plot:
    """Return an audit's plot: how often each event was right and wrong, and the limit by the certificate."""
    panels = tuple(_panel(audit, each) for each in audit.attacks)
    participants = audit.task.task.minimum_reports
    caption = (
        f"{audit.options.rounds} rounds of {participants} people on real services; a curve may be above the "
        "certificate's by chance: "
        f"the ε shown with confidence {audit.options.confidence:g} is {audit.attained:.4g}"
    )
    return Plot(f"What an attacker of {participants} people learns", caption, panels)


def _panel(audit: Audit, attacked: AuditedAttack) -> Panel:
    delta = audit.task.task.privacy.delta
    x = tuple(np.linspace(0, 1, POINTS).tolist())
    allowed = tuple(min(1.0, exp(audit.certified) * wrong + delta) for wrong in x)
    wrong, right = roc(attacked.scores, attacked.shown.event)
    promised = Series(f"certificate: ε ≤ {audit.certified:.4g}, δ = {delta:g}", "promised", x, allowed, strong=True)
    seen = Series(f"attacker: {attacked.shown.event.score}", "seen", tuple(wrong), tuple(right))
    title = "rounds under the minimum" if attacked.under_minimum else "rounds of the certificate"
    limits = (-0.02, 1.02)
    axes = Axis("wrong: share of rounds", "linear", limits), Axis("right: share of rounds", "linear", limits)
    return Panel(title, *axes, (promised, seen), shaded=False)
