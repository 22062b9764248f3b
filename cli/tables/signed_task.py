"""Shows a task to whoever is about to sign it: the promise, rounds, devices, questions and parties, each once.

`every_member` has all that is signed. The summary leaves out what every service checks by itself: the
exact numbers of the randomizers and of the noise, which must keep the promise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from rich.console import Console

from hubbub.accountant.certificate.ladder import ALONE, IF_MINIMUM_VALID, ladder_words
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.errors import needs_extra
from hubbub.cli.registry import ACCOUNTANT
from hubbub.cli.tables.printing import print_columns
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.task.asked import Asked
from hubbub.protos.task.schedule import at
from hubbub.protos.task.task import Draft, Task
from hubbub.queries.query import Query

SHOWN_NAMES = 100
"""How many names of a list are shown; `every_member` has all."""

_UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def promise_sentence(task: Task | Draft, queries: Sequence[Query], alone: bool) -> str:
    """Return in one sentence what everyone keeps in a round, and who must be honest for it.

    `alone` is whether the promise was shown to hold for a person whose report is the only valid one (`keeps_alone`).
    """
    privacy = task.privacy
    words = ladder_words(Terms.of(task), {each.name: each.mechanism for each in queries}, 1)
    # The shuffler's noise is explained elsewhere: here only who must be honest.
    who = words[ALONE].partition(": ")[0] if alone else words[IF_MINIMUM_VALID]
    return (
        f"task {task.name}: everyone keeps ε ≤ {privacy.epsilon:g} at δ = {privacy.delta:g}, for all that they send "
        f"in a round of at least {task.minimum_reports:,} reports, {who}"
    )


def noise_by_itself(task: Task) -> tuple[bool, str | None]:
    """Return whether the shuffler's noise keeps the promise whatever others send, and a sentence if it was not shown.

    The accountant computes it, which the command line alone does not bring: without it nothing is claimed for noise.
    """
    if all(query.noise is None for query in task.queries):
        return False, None
    if not ACCOUNTANT.installed:
        what = "to say what the shuffler's noise keeps by itself, this command"
        return False, needs_extra(what, ACCOUNTANT.title, ACCOUNTANT.name)
    # Not by an import statement: signing needs no numerical libraries, and these are of another extra.
    by_itself = import_module("hubbub.accountant.certificate.alone")
    terms, mechanisms = Terms.of(task), {query.name: query.mechanism for query in task.queries}
    return by_itself.keeps_alone(terms, list(mechanisms.values())), by_itself.weak_noise(terms, mechanisms)


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
    each_lasts = f"of {_duration(schedule.length)}, and {_duration(schedule.grace)} more for late submissions"
    yield "rounds", f"{schedule.rounds}, {each_lasts}, from {at(schedule.start)}{close}"
    yield "reports", f"{task.minimum_reports:,} to {task.maximum_reports:,} in a round{_others(task)}"
    yield "devices", _devices(task)
    for each in task.asked:
        asks = dict(about.questions).get(each.name)
        yield each.name, question_in_words(task, each) if asks is None else f"{asks}: {question_in_words(task, each)}"
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


def question_in_words(task: Task, asked: Asked) -> str:
    """Return a question's kind and its members, then how the answers are hidden."""
    query = task.queries[asked.places.start]
    written = {"kind", "name", "optional", "weight"} | ({"digit", "of"} if asked.by_digits else set())
    members = {name: value for name, value in query.question.content().items() if name not in written}
    parts = ["sum by digits" if asked.by_digits else query.question.kind]
    parts += [f"{name} {_shown(value)}" for name, value in members.items()]
    parts += ["optional"] if query.question.optional else []
    parts += [f"weight {query.question.weight:g}"] if query.question.weight != 1 else []
    noise = " and noise of the shuffler" if query.noise is not None else ""
    return f"{'; '.join(parts)}; by {query.randomizer.kind}{noise}"


def _shown(value: Any) -> str:
    """Return a member's value in words: names of a list, and the members of what is within."""
    if isinstance(value, dict):
        return f"({', '.join(f'{name} {_shown(each)}' for name, each in value.items())})"
    if isinstance(value, list):
        more = f" and {len(value) - SHOWN_NAMES:,} more" if len(value) > SHOWN_NAMES else ""
        return ", ".join(map(_shown, value[:SHOWN_NAMES])) + more if value else "none"
    if isinstance(value, float | int) and not isinstance(value, bool):
        return f"{value:g}"
    return value if isinstance(value, str) and value and "," not in value else json.dumps(value, ensure_ascii=False)


def _duration(seconds: int) -> str:
    """Return a duration in the largest unit that it is a whole number of, as a draft has it."""
    unit, size = next((unit, size) for unit, size in _UNITS if seconds % size == 0)
    return f"{seconds // size}{unit}"
