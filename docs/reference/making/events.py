"""The page on log events: each with its level, its fields and its meaning, found where services log."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hubbub.service.observability.events import EVENTS
from reference.making.page import Page, anchor, code, divided, section, table, wrapped
from reference.making.refusals import INCIDENTS
from reference.making.source import Names, calls, modules, text_of, tree_of

FOLDERS = ("analyzer", "service", "shuffler")
"""Where services log."""

_PLACES: Mapping[str, int] = {
    **dict.fromkeys(("debug", "info", "warning", "error", "exception"), 0),
    # An incident is logged when it begins and ends; a round's `_notice` opens one, `_notice_analyzer` through it.
    "open": 2,
    "_notice": 3,
    "_notice_analyzer": 2,
    "of_store": 1,
    # The event that is logged at an incident's end in place of its own.
    "resolve": 1,
}
"""Which argument of a call is the event."""

_INCIDENT_FIELDS = ("error", "count")
_NOTICES = frozenset({"_notice", "_notice_analyzer"})
_ROUND_FIELDS = ("task", "round", "state")

_RULES = (
    "A line has the event, its level, its time (`timestamp`, UTC) and the fields below. `[log]` in the "
    "[settings](settings.md) chooses the level, and lines for people or one JSON object a line. Lines go to stderr. "
    "They never have an answer, a report, a key, a device or a submission's id. Characters that cannot be seen are "
    "escapes there (`\\x1b`), as in all that `hubbub` prints."
)
_INCIDENTS = (
    "An incident that lasts is logged once, again when its words change, every ten minutes, and when it is over: the "
    "event's name is then followed by `: over`, with `count` and `seconds`, unless its end is an event of its own. An "
    "incident that comes and goes is logged no more often than that. `count` is how often it was met so far, `error` "
    "the sentence that `hubbub status` shows. Its level is warning if the other service is the cause, else error. What "
    "fails because the database is away has no lines: `the database does not answer` is the only one."
)

_LEVELS = (
    "A line of level debug or info asks nothing of you. For a warning, an error or an incident, the last column has "
    "what to do, or the section that has it. If it has neither, the service repairs that by itself."
)
SECTIONS: Mapping[str, str] = {
    **dict.fromkeys(("a transaction failed", "what was erased is not cut out of the files yet"), "A disk is full"),
    "disk full: new submissions are refused": "A disk is full",
    "what a mixed round's lists were made of is still to be deleted": "A disk is full",
    "the keyring could not be written": "A disk is full",
    **dict.fromkeys(("a certificate ends soon", "a certificate has expired"), "Certificates end"),
    **dict.fromkeys(("a key is damaged", "not delivered, damaged", "commit failed"), "A round is damaged"),
    **dict.fromkeys(("no keys yet", "not delivered"), "The analyzer is down"),
    **dict.fromkeys(("cannot take over", "no leader answers", "the leader's lock is lost"), "A leader is lost"),
    **dict.fromkeys(("the keyring does not follow", "a standby is left behind"), "A leader is lost"),
    "too few standbys follow": "A leader is lost",
    **dict.fromkeys(("the database does not answer", "the database answers again"), "PostgreSQL is away"),
    "a private key is open to others": "A key was lost or stolen",
    "calls refused": "Limits",
    "forked": "A ledger forked",
    "given up, erased": "The budget is spent",
    "log lines were lost": "The log cannot be written",
    "results differ": "Results differ",
    "round full": "A round is full",
}
"""The heading of docs/howto/respond-to-incidents.md that has what to do, by the event."""


@dataclass(frozen=True)
class Event:
    """An event where it is logged: its text without a value behind it, its level, and the names of its fields."""

    name: str
    level: str
    fields: tuple[str, ...]


def pages() -> list[Page]:
    """Return the page on events.

    Raises:
        ValueError: if an event that is logged has no meaning, or one that has a meaning is not logged.
    """
    found: dict[str, list[Event]] = {}
    for event in logged():
        found.setdefault(event.name, []).append(event)
    differing = sorted(found.keys() ^ EVENTS.keys())
    if differing:
        raise ValueError(f"service/observability/events.py and what is logged differ: {', '.join(differing)}")
    rows = [
        [code(name), _joined(each.level for each in found[name]), _fields(found[name]), meaning + _section(name)]
        for name, meaning in sorted(EVENTS.items(), key=lambda item: item[0].lower())
    ]
    return divided(
        Page(
            "events",
            "Log events",
            "What does a line of a service's log mean, and which fields does it have?",
            "every event of the services' logs: level, fields, meaning",
            (
                section("", wrapped(_RULES), wrapped(_LEVELS), wrapped(_INCIDENTS)),
                section("All events", table(("event", "level", "fields", "means"), rows)),
            ),
        )
    )


def _section(event: str) -> str:
    """Return the reference to the section on an event, if there is one."""
    heading = SECTIONS.get(event)
    return f" See [{heading}]({INCIDENTS}#{anchor(heading)})." if heading else ""


def _joined(words: Iterator[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def _fields(events: list[Event]) -> str:
    return _joined(code(field) for event in events for field in event.fields)


def logged() -> Iterator[Event]:
    """Return every event that services log, once for each place."""
    for path in modules(*FOLDERS):
        yield from _of_module(path)
    # A process says this of its log by itself, without the library.
    yield Event("log lines were lost", "warning", ("lines", "since", "why"))


@cache
def _of_module(path: Path) -> tuple[Event, ...]:
    return tuple(_in_module(path))


def _in_module(path: Path) -> Iterator[Event]:
    tree = tree_of(path)
    for node, names in calls(tree):
        method, arguments = _called(node)
        place = _PLACES.get(method)
        if place is None or len(arguments) <= place or not _logs(node, method):
            continue
        is_end = method == "resolve"
        is_incident = place > 0 and not is_end
        for text in text_of(arguments[place], names).split(" | "):
            name = _name(text, arguments[place + 1 :])
            if name:
                fields = [field for keyword in node.keywords for field in _keys(keyword, tree, names)]
                more = (*(_ROUND_FIELDS if method in _NOTICES else ()), *(_INCIDENT_FIELDS if is_incident else ()))
                more = (*more, "seconds") if is_end else more
                level = "info" if is_end else "incident" if is_incident else method.replace("exception", "error")
                yield Event(name, level, tuple(dict.fromkeys((*fields, *more))))


def _called(node: ast.Call) -> tuple[str, list[ast.expr]]:
    """Return the method that a call calls, or has called later (`functools.partial`), and its arguments."""
    if isinstance(node.func, ast.Attribute):
        if node.func.attr == "partial" and isinstance(node.args[0], ast.Attribute):
            return node.args[0].attr, node.args[1:]
        return node.func.attr, node.args
    return "", []


def _logs(node: ast.Call, method: str) -> bool:
    whose = ast.unparse(node.func)
    return "_LOG" in whose or "ncidents" in whose or method in _NOTICES or method == "of_store"


def _name(text: str, values: list[ast.expr]) -> str:
    """Return an event's name: without a value at its end, and with a word for a value elsewhere."""
    name = re.sub(r": %s$", "", text)
    if name in ("", "%s") or name.endswith(": over"):
        return ""
    name = re.sub("%d", "{count}", name)
    return re.sub("%s", "{name}", name) if values else name


def _keys(keyword: ast.keyword, tree: ast.Module, names: Names) -> Iterator[str]:
    """Return the fields that an argument gives: its own name, or the keys of what is unpacked."""
    if keyword.arg is not None:
        if keyword.arg not in ("exc_info", "retry_after"):
            yield keyword.arg
        return
    given: ast.AST | None = keyword.value
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Name):
        wanted = given.func.id
        given = next(
            (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == wanted), None
        )
    elif isinstance(given, ast.Name):
        given = names.get(given.id, given.lineno)
    elif given is not None:
        yield {"left_out": "left-out counts", "_addresses": "ports"}.get(ast.unparse(given).rpartition(".")[2], "…")
        return
    for each in ast.walk(given) if given is not None else ():
        if isinstance(each, ast.Dict):
            yield from (text_of(key) for key in each.keys if key is not None)
            return
