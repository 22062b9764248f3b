"""Shows what an attacker of real rounds learned, next to the certificate, as JSON, a table and a plot."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from hubbub.cli.plots.plan import Axis, Panel, Plot, Series
from hubbub.cli.tables.printing import print_table
from hubbub.deploy.audit.audit import Audit, AuditedAttack
from hubbub.deploy.audit.inference import roc
from hubbub.deploy.audit.noise import NoiseResult
from hubbub.protos.task.task import Task

POINTS = 101
"""Points of the certificate's curve."""


def audit_document(audit: Audit, seconds: float) -> dict[str, Any]:
    """Return an audit's findings as JSON values; `seconds` is how long it took."""
    task = audit.task.task
    return {
        "task": audit.name,
        "participants": task.minimum_reports,
        "dummies": task.privacy.dummies,
        "noise": [_noise(task, each) for each in audit.noise],
        "second_deliveries": len(audit.second_deliveries),
        "second_deliveries_that_differ": audit.second_deliveries.count(False),
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


def _noise(task: Task, found: NoiseResult) -> dict[str, Any]:
    (law,) = (query.noise for query in task.queries if query.name == found.query)
    return {
        "query": found.query,
        "law": None if law is None else law.content(),
        "draws": found.draws,
        "distance": found.distance,
        "far": found.far,
        "far_expected": found.expected,
        "far_least": found.least,
        "consistent": found.consistent,
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
    for line in (*_of_noise(document), *_of_second_deliveries(document), _verdict(document)):
        console.print(line, soft_wrap=True)


def _of_noise(document: dict[str, Any]) -> list[str]:
    """Return a sentence for each query with noise: how its counts compare with the law."""
    return [
        f"noise of {each['query']}: {each['far']} of {each['draws']} counts are more than {each['distance']} from "
        f"their center; {each['far_expected']:.4g} are expected by the law, and fewer than {each['far_least']} "
        "contradict it"
        for each in document["noise"]
    ]


def _of_second_deliveries(document: dict[str, Any]) -> list[str]:
    count, differ = document["second_deliveries"], document["second_deliveries_that_differ"]
    same = "each was the same list" if not differ else f"the second list differed in {differ}"
    return [f"delivered twice: {count} batches; {same}"] if count else []


def _verdict(document: dict[str, Any]) -> str:
    """Return the conclusion in words."""
    attained, certified = f"{document['epsilon_attained']:.4g}", f"{document['epsilon_certified']:.6g}"
    at = f"at δ = {document['delta']:g}"
    if document["released_under_minimum"]:
        under = document["released_under_minimum"]
        many = "1 round under the minimum was" if under == 1 else f"{under} rounds under the minimum were"
        return f"NOT CONSISTENT: {many} released"
    if document["second_deliveries_that_differ"]:
        return "NOT CONSISTENT: a batch that was delivered again was another list, so it was released twice"
    narrow = [each["query"] for each in document["noise"] if not each["consistent"]]
    if narrow and document["epsilon_attained"] <= document["epsilon_certified"]:
        return (
            f"NOT CONSISTENT: the noise of {', '.join(narrow)} is less than its law, with confidence "
            f"{document['confidence']:g}"
        )
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
