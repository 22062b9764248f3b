"""A task in words, for people who sign it, are asked by it, or read what it found."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hubbub.accountant.certificate.ladder import ALONE, IF_MINIMUM_VALID, ladder_words
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.errors import needs_extra
from hubbub.protos.task.asked_question import Asked
from hubbub.protos.task.task import Draft, Task
from hubbub.queries.query import Query

NUMERICS = ("numpy", "scipy")
"""What the accountant computes with; the command line alone does not bring it."""

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
    # They are only looked up, because importing them takes longer than signing.
    if not all(map(importlib.util.find_spec, NUMERICS)):
        what = "to say what the shuffler's noise keeps by itself, this command"
        return False, needs_extra(what, "the accountant", "accountant")
    # Not by an import statement: who signs may have no numerical libraries, and these are of another extra.
    by_itself = importlib.import_module("hubbub.accountant.certificate.alone")
    terms, mechanisms = Terms.of(task), {query.name: query.mechanism for query in task.queries}
    return by_itself.keeps_alone(terms, list(mechanisms.values())), by_itself.weak_noise(terms, mechanisms)


def question_in_words(task: Task, asked: Asked) -> str:
    """Return a question's kind and its members, then how the answers are hidden."""
    query = task.queries[asked.places.start]
    written = {"kind", "name", "optional", "weight"} | ({"digit", "of"} if asked.by_digits else set())
    members = {name: value for name, value in query.question.content().items() if name not in written}
    parts = ["sum by digits" if asked.by_digits else query.question.kind]
    parts += _members(members)
    parts += ["optional"] if query.question.optional else []
    parts += [f"weight {query.question.weight:g}"] if query.question.weight != 1 else []
    noise = "; the shuffler adds noise" if query.noise is not None else ""
    return f"{'; '.join(parts)}; {query.randomizer.in_words}{noise}"


def _members(found: Mapping[str, Any]) -> list[str]:
    """Return a question's members as people say them; one without words of its own has its name and its value."""
    left = dict(found)
    said = _grouping(left) + _interval(left) + _buckets(left)
    # An empty one, such as the unit of a count, says nothing.
    return said + [_said(name, value) for name, value in left.items() if value is not False and value != ""]


_SAID: Mapping[str, str] = MappingProxyType(
    {
        "categories": "one of {}",
        "changes": "at most {} changes",
        "epsilon_local": "ε of all that a device sends for it at most {}",
        "false_discovery_rate": "false discovery rate at most {}",
        "optional": "optional",
        "periods": "over {} periods",
        "prefixes": "with one of the beginnings {}",
        "quantiles": "with the quantiles {}",
        "steady_share": "counting on a share of {} whose answer never changes",
    }
)
"""Members of questions in words, `{}` for the value."""


def _said(name: str, value: Any) -> str:
    if (name, value) == ("prefixes", []):
        return "of any text"
    return _SAID.get(name, f"{name.replace('_', ' ')} {{}}").format(_shown(value))


def _grouping(left: dict[str, Any]) -> list[str]:
    """Take the attributes of a question by groups and what is asked in each, and return them in words."""
    if not {"by", "of"} <= left.keys():
        return []
    groups = [f"for each {each['name']} ({_shown(each['categories'])})" for each in left.pop("by")]
    of = left.pop("of")
    inner = {name: value for name, value in of.items() if name != "kind"}
    return [" and ".join(groups), ", ".join([str(of["kind"]), *_members(inner)])]


def _interval(left: dict[str, Any]) -> list[str]:
    """Take what belongs to a number's interval, and return it in words: its ends, and how it is rounded or written."""
    if not {"lower", "upper"} <= left.keys():
        return []
    lower, upper, unit = left.pop("lower"), left.pop("upper"), left.pop("unit", "")
    ends = f"from {lower:g} to {upper:g}{' ' * bool(unit)}{unit}"
    levels, digits = left.pop("levels", None), left.pop("digits", None)
    if levels is not None:
        # Each half is divided first: the difference of the largest ends is no double.
        return [f"{ends}, rounded at random to {levels:,} steps of {upper / levels - lower / levels:g}"]
    return [ends if digits is None else f"{ends}, by {digits} binary digit{'s' * (digits != 1)}"]


def _buckets(left: dict[str, Any]) -> list[str]:
    """Take the edges of a number's buckets, and return them in words."""
    if "edges" not in left:
        return []
    edges, unit = left.pop("edges"), left.pop("unit", "")
    return [f"in buckets between {_shown(edges)}{' ' * bool(unit)}{unit}"]


def _shown(value: Any) -> str:
    """Return a member's value in words: names of a list, and the members of what is within."""
    if isinstance(value, dict):
        return f"({', '.join(_members(value))})"
    if isinstance(value, list):
        more = f" and {len(value) - SHOWN_NAMES:,} more" if len(value) > SHOWN_NAMES else ""
        return ", ".join(map(_shown, value[:SHOWN_NAMES])) + more if value else "none"
    if isinstance(value, float | int) and not isinstance(value, bool):
        return f"{value:g}"
    return value if isinstance(value, str) and value and "," not in value else json.dumps(value, ensure_ascii=False)


def duration(seconds: int) -> str:
    """Return a duration in the largest unit that it is a whole number of, as a draft has it."""
    unit, size = next((unit, size) for unit, size in _UNITS if seconds % size == 0)
    return f"{seconds // size}{unit}"
