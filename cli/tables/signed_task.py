"""Shows a task to whoever is about to sign it: the promise, rounds, devices, questions and parties, each once.

`every_member` has all that is signed. The summary leaves out what every service checks by itself: the
exact numbers of the randomizers and of the noise, which must keep the promise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console

from hubbub.cli.tables.printing import print_columns
from hubbub.planning.task_words import duration, noise_by_itself, promise_sentence, question_in_words
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.task.schedule import at
from hubbub.protos.task.task import Task


def print_task(printer: Console, task: Task) -> None:
    """Print what a task promises, then a line for each thing that the parties agree on."""
    alone, weak = noise_by_itself(task)
    printer.print(promise_sentence(task, task.queries, alone), markup=False, soft_wrap=True)
    if weak is not None:
        printer.print(weak, markup=False, soft_wrap=True)
    print_columns(printer, list(_lines(task)), "  ")


def every_member(content: Mapping[str, Any], within: str = "") -> Iterator[str]:
    """Yield a line for each value of a task, with its full name; nothing that is signed is left out."""
    for name, value in content.items():
        if isinstance(value, dict):
            yield from every_member(value, f"{within}{name}.")
        elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            for number, each in enumerate(value):
                yield from every_member(each, f"{within}{name}.{number}.")
        elif within == "identities." and isinstance(value, str):
            yield f"{within}{name} = {fingerprint(bytes.fromhex(value))}"
        else:
            yield f"{within}{name} = {json.dumps(value, ensure_ascii=False)}"


def _lines(task: Task) -> Iterator[tuple[str, str]]:
    """Yield the name of each thing that is agreed on, and its words."""
    privacy, schedule, about = task.privacy, task.schedule, task.about
    for name, text in (("purpose", about.purpose), ("owner", about.owner), ("results", about.results)):
        if text is not None:
            yield name, text
    local = f"if all services collude, ε ≤ {privacy.epsilon_local:g} a round"
    total = "no cap on" if privacy.epsilon_total is None else f"ε ≤ {privacy.epsilon_total:g} for"
    together = f"{total} all rounds together; " if schedule.rounds > 1 or privacy.epsilon_total is not None else ""
    yield "budget", together + local
    if privacy.large_delta is not None:
        yield "large δ", f"because {privacy.large_delta}"
    close = "; the operator may end one early" if schedule.close == "operator" else ""
    each_lasts = f"of {duration(schedule.length)}, and {duration(schedule.grace)} more for late submissions"
    yield "rounds", f"{schedule.rounds}, {each_lasts}, from {at(schedule.start)}{close}"
    yield "reports", f"{task.minimum_reports:,} to {task.maximum_reports:,} in a round{_others(task)}"
    yield "devices", _devices(task)
    for each in task.asked:
        asks = dict(about.questions).get(each.name)
        yield each.name, question_in_words(task, each) if asks is None else f"{asks}: {question_in_words(task, each)}"
    if task.log is not None:
        yield "log", f"the task and its certificates must be in {task.log.words}"
    for name, identity in task.identities.named.items():
        yield name, fingerprint(identity)
    yield "sealing", task.suite


def _others(task: Task) -> str:
    """Return what is counted on, or added, beside the reports of people; empty if nothing is."""
    share, dummies = task.privacy.honest_share, task.privacy.dummies
    counted = f"; {100 * share:g} % of them are counted on to be honest" if share < 1 else ""
    return counted + (f"; the shuffler adds {dummies:,} uniform dummies to each query" if dummies else "")


def _devices(task: Task) -> str:
    second = task.admission.second_authority
    too = "" if second is None else f"; tickets need the signature of {fingerprint(second)} too"
    return f"{task.admission.mode.value}. {task.admission.who_submits.rstrip('.')}{too}"
