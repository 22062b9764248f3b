"""Reads a task that a person writes in TOML. Each error names the line, the value, the limit and the remedy."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from hubbub.protos.errors import SuiteError, TaskError, toml_remedy
from hubbub.protos.identity.keys import LATEST_TIME
from hubbub.protos.sealing.suites import DEFAULT, SUITES, suite_named
from hubbub.protos.task import admission as admission_policy
from hubbub.protos.task.about import NOTHING, WORDS, About
from hubbub.protos.task.admission import ENROLLED, draft_admission
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import (
    MAXIMUM_DUMMIES,
    MAXIMUM_HOPS,
    MAXIMUM_REPORTS,
    Draft,
    Privacy,
    is_large,
    largest_delta,
)
from hubbub.protos.transparency_log import policy as log_policy
from hubbub.protos.transparency_log.policy import LogPolicy
from hubbub.queries.errors import FieldError, UnknownKey, shown
from hubbub.queries.fields import (
    SHARED_KEYS,
    as_float,
    check_count,
    check_keys,
    check_name,
    is_finite_number,
    is_printable,
)
from hubbub.queries.longitudinal.over_rounds import OfRounds, Repeated
from hubbub.queries.query import read_question
from hubbub.queries.questions.bit import Bit, names_made, queries_made
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question, listed
from hubbub.queries.registry import QUESTIONS, keys_of

MAXIMUM_QUERIES = 64
MAXIMUM_ROUNDS = 1_000_000
MINIMUM_DELTA = 1e-15
MAXIMUM_EPSILON = 100.0
"""The largest ε of a task."""
MAXIMUM_EPSILON_LOCAL = 100
"""The largest cap on the local ε of a task. Beyond about 20 it promises next to nothing if all services collude. A sum
by digits may need that much, and then says so."""
LONGEST_REASON = 300
"""Most characters of a task's reason for a large δ."""

USUAL_GRACE = "10m"
"""How long a round takes what is on its way after its end, if a draft does not say."""


NOISE = ("none", "auto", "always")
"""What a draft can say of noise of the shuffler: never, if that gives the smaller error, or in every query."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"([0-9]{1,9})\s*([smhdw])")
_HEADER = re.compile(r"\s*\[\[?\s*([A-Za-z0-9_]+)\s*\]\]?\s*(#.*)?$")


REQUIRED: Mapping[str, frozenset[str]] = {
    "file": frozenset({"task", "privacy", "query"}),
    "task": frozenset({"name", "start", "length", "minimum_reports"}),
    "privacy": frozenset({"epsilon", "delta"}),
    "admission": admission_policy.REQUIRED_KEYS,
    "about": frozenset(),
    "log": log_policy.REQUIRED_KEYS,
}
"""The keys that each table of a draft needs; those of a query depend on its kind."""

OPTIONAL: Mapping[str, frozenset[str]] = {
    "file": frozenset({"about", "admission", "log"}),
    "task": frozenset({"grace", "rounds", "close", "suite", "maximum_reports"}),
    "privacy": frozenset({"epsilon_local", "honest_share", "epsilon_total", "dummies", "large_delta", "noise"}),
    "admission": admission_policy.OPTIONAL_KEYS,
    "about": frozenset({*WORDS, "questions"}),
    "log": log_policy.OPTIONAL_KEYS,
}
"""The keys that each table of a draft may have besides."""


WHOLE_KEYS = ("minimum_reports", "maximum_reports", "rounds", "length", "grace", "dummies", "changes", "digits")
"""Keys of whole numbers, of any table. Such a number may be written as 1e4, which TOML reads as a float."""


def read_draft(text: str) -> Draft:
    """Return the draft in a TOML text.

    Raises:
        TaskError: naming the first fault: its line, the value, the limit and the remedy.
    """
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise TaskError(f"not TOML: {error!s:.200}; {toml_remedy(text)}") from error
    try:
        return _draft_from(tables)
    except FieldError as error:
        line = _line_of(text, error.table, error.key)
        belongs = _belongs(error.table, error.key) if isinstance(error, UnknownKey) else None
        error = error if belongs is None else FieldError(error.table, error.key, belongs)
        raise TaskError(f"line {line}: {error}" if line else str(error)) from error


def _draft_from(tables: dict[str, Any]) -> Draft:
    check_keys("file", tables, REQUIRED["file"], OPTIONAL["file"])
    task, privacy = _table(tables, "task"), _table(tables, "privacy")
    admission = draft_admission(tables["admission"]) if "admission" in tables else ENROLLED
    for table in (task, privacy):
        table.update(_whole(table))
    for name, table in (("task", task), ("privacy", privacy)):
        check_keys(name, table, REQUIRED[name], OPTIONAL[name])
    if admission.assumed and "honest_share" not in privacy:
        problem = (
            "is missing: in an open task nobody checks who submits; write the share of the reports that you assume to "
            "be honest (1.0 assumes all of them), or have devices enrolled"
        )
        raise FieldError("privacy", "honest_share", problem)
    noise = privacy.pop("noise", "none")
    queries = tables["query"]
    if not isinstance(queries, list) or not queries:
        raise FieldError("file", "query", "must be one or more tables; begin each with [[query]]")
    draft = Draft(
        name=task["name"],
        schedule=_schedule(task),
        minimum_reports=task["minimum_reports"],
        privacy=Privacy(**{key: _privacy_value(key, value) for key, value in privacy.items()}),
        questions=tuple(_question(index, query) for index, query in enumerate(queries)),
        admission=admission,
        suite=task.get("suite", DEFAULT.name),
        maximum_reports=task.get("maximum_reports"),
        noise=noise,
        errors=tuple(
            (query["name"], as_float(f"query[{index}]", "error", query["error"]))
            for index, query in enumerate(queries)
            if "error" in query
        ),
        about=About.read(tables["about"]) if "about" in tables else NOTHING,
        log=LogPolicy.read(tables["log"]) if "log" in tables else None,
    )
    check_draft(draft)
    return draft


def _belongs(table: str, key: str) -> str | None:
    """Return where a key belongs that is in a wrong table; None if no table has such a key."""
    here = table.partition("[")[0]
    places = [f"[{name}]" for name in REQUIRED if name != "file" and key in REQUIRED[name] | OPTIONAL[name]]
    kinds = [name for name, kind in QUESTIONS.items() if any(key in keys for keys in keys_of(kind))]
    if kinds:
        places.append(f"a [[query]] of kind {' or '.join(kinds)}")
    elif key in SHARED_KEYS and here != "query":
        places.append("a [[query]]")
    if not places:
        return None
    return f"belongs in {' or in '.join(places)}; move it there, or leave it out"


def _table(tables: dict[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(tables[name], dict):
        raise FieldError("file", name, f"must be a table; begin it with [{name}]")
    return dict(tables[name])


def _privacy_value(key: str, value: Any) -> Any:
    # TOML distinguishes 1 and 1.0. As floats, both give the same task and id; the others are a count and words.
    return value if key in ("dummies", "large_delta") else as_float("privacy", key, value)


def _schedule(task: dict[str, Any]) -> Schedule:
    start = task["start"]
    # A time without a zone would mean a different moment on each machine.
    if not isinstance(start, datetime) or start.tzinfo is None:
        wanted = "write a time with its zone, such as 2026-01-01T00:00:00Z"
        raise FieldError("task", "start", f"is {shown(start)}; {wanted}")
    if start.microsecond:
        raise FieldError("task", "start", f"is {start.isoformat()}; rounds start at whole seconds")
    return Schedule(
        start=int(start.timestamp()),
        length=_duration("length", task["length"]),
        grace=_duration("grace", task.get("grace", USUAL_GRACE)),
        rounds=task.get("rounds", 1),
        close=task.get("close", "schedule"),
    )


def _duration(key: str, value: Any) -> int:
    if type(value) is int:
        return value
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise FieldError("task", key, f"is {shown(value)}; give seconds, or a text such as '90s', '10m', '24h' or '7d'")
    return int(match[1]) * _UNITS[match[2]]


def _question(index: int, content: Any) -> Question:
    if not isinstance(content, dict):
        raise FieldError("file", "query", "must be one or more tables; begin each with [[query]]")
    return read_question(f"query[{index}]", {**content, **_whole(content)})


def _whole(table: dict[str, Any]) -> dict[str, int]:
    """Return a table's floats that are whole numbers, under keys of whole numbers, as such."""
    given = {key: table[key] for key in WHOLE_KEYS if key in table}
    # From 2⁵³ on a float may be another number than the one that was written.
    return {
        key: int(each) for key, each in given.items() if type(each) is float and each.is_integer() and abs(each) < 2**53
    }


def check_draft(draft: Draft) -> None:
    """Check that every value of a draft, or of a frozen task, is within its limits.

    Raises:
        FieldError: naming the first value that is not, its limit and the remedy.
    """
    check_name("task", draft.name)
    _check_schedule(draft.schedule)
    check_count("task", "minimum_reports", draft.minimum_reports, 2, MAXIMUM_REPORTS)
    if draft.maximum_reports is not None:
        check_count("task", "maximum_reports", draft.maximum_reports, draft.minimum_reports, MAXIMUM_REPORTS)
    check_count("task", "shufflers", draft.shufflers, 1, 1 + MAXIMUM_HOPS)
    _check_privacy(draft.privacy)
    _check_noise(draft)
    _check_large_delta(draft.privacy, draft.minimum_reports)
    _check_suite(draft.suite)
    _check_number(draft)
    for index, question in enumerate(draft.questions):
        question.check(f"query[{index}]")
        if isinstance(question, OfRounds):
            question.check_rounds(f"query[{index}]", draft.schedule.rounds)
        if question.name in {other.name for other in draft.questions[:index]}:
            raise FieldError(f"query[{index}]", "name", f"is {question.name!r} again; give each query its own name")
    _check_digits(draft)
    _check_errors(draft)
    draft.about.check([each.of if isinstance(each, Bit) else each.name for each in draft.questions])


def _check_number(draft: Draft) -> None:
    """Refuse too many queries; a sum by digits is one for each digit."""
    if not 1 <= len(draft.questions) <= MAXIMUM_QUERIES:
        raise FieldError(
            "file", "query", f"occurs {len(draft.questions)} times; a task asks 1 to {MAXIMUM_QUERIES} queries"
        )


def _check_digits(draft: Draft) -> None:
    """Refuse digits without noise, beside which alone they have an error worth it, and names that planning needs."""
    by_digits = [each for each in draft.questions if isinstance(each, Number) and each.digits is not None]
    if not by_digits:
        return
    index = draft.questions.index(by_digits[0])
    if draft.noise == "none":
        instead = f" and dummies = {draft.privacy.dummies}" if draft.privacy.dummies else ""
        problem = (
            f"are given, but the task has noise = 'none'{instead}: a sum by digits needs noise of the shuffler; set "
            'noise = "always" or "auto" and no dummies, or leave the digits out'
        )
        raise FieldError(f"query[{index}]", "digits", problem)
    total = sum(map(queries_made, draft.questions))
    if total > MAXIMUM_QUERIES:
        problem = f"make the task's queries {total}, as each digit is one; a task has at most {MAXIMUM_QUERIES}"
        raise FieldError(f"query[{index}]", "digits", f"{problem}: use fewer digits or questions")
    names = names_made(draft.questions)
    twice = next((place for place, each in enumerate(draft.questions) if names.count(each.name) > 1), None)
    if twice is not None:
        problem = f"is {draft.questions[twice].name!r}, the name of the query for a digit; use another name"
        raise FieldError(f"query[{twice}]", "name", problem)


def _check_errors(draft: Draft) -> None:
    """Refuse a stated error that is no error, or is of a query that has none for one round."""
    questions = {question.name: (f"query[{index}]", question) for index, question in enumerate(draft.questions)}
    for name, error in draft.errors:
        if name not in questions:
            raise FieldError("file", "query", f"has an error for {name!r}; the queries are {listed(list(questions))}")
        table, question = questions[name]
        if not is_finite_number(error) or error <= 0:
            limit = "it must be a standard error above 0, in the unit of the estimate, such as 30 people"
            raise FieldError(table, "error", f"is {shown(error)}; {limit}")
        if isinstance(question, Repeated):
            problem = "is given, but a longitudinal question has errors over its rounds; leave it out, and set epsilon"
            raise FieldError(table, "error", problem)


def _check_schedule(schedule: Schedule) -> None:
    check_count("task", "length", schedule.length, 1, 10 * 365 * 86400)
    check_count("task", "grace", schedule.grace, 0, 365 * 86400)
    check_count("task", "rounds", schedule.rounds, 1, MAXIMUM_ROUNDS)
    if schedule.close not in ("schedule", "operator"):
        raise FieldError("task", "close", f"is {shown(schedule.close)}; it must be 'schedule' or 'operator'")
    if not 0 <= schedule.start <= LATEST_TIME or schedule.cut(schedule.rounds) > LATEST_TIME:
        raise FieldError("task", "start", "puts a round before 1970 or after the year 9999; choose another")


def _check_privacy(privacy: Privacy) -> None:
    # Each test states the allowed values, not the wrong ones: every comparison with NaN is false, so NaN is refused.
    limits: dict[str, tuple[Callable[[float], bool], str]] = {
        "epsilon": (lambda value: 0 < value <= MAXIMUM_EPSILON, f"must be above 0 and at most {MAXIMUM_EPSILON:g}"),
        "delta": (
            lambda value: MINIMUM_DELTA <= value < 1,
            f"must be at least {MINIMUM_DELTA:g} and below 1; 1e-6 is usual",
        ),
        "epsilon_local": (
            lambda value: 0 < value <= MAXIMUM_EPSILON_LOCAL,
            f"must be above 0 and at most {MAXIMUM_EPSILON_LOCAL}; 8 is usual",
        ),
        "honest_share": (lambda value: 0 < value <= 1, "must be above 0 and at most 1"),
        "epsilon_total": (lambda value: 0 < value <= 1e6, "must be above 0 and at most 1e6; leave it out for no cap"),
    }
    check_count("privacy", "dummies", privacy.dummies, 0, MAXIMUM_DUMMIES)
    for key, (holds, limit) in limits.items():
        value = getattr(privacy, key)
        if key == "epsilon_total" and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, float) or not holds(value):
            raise FieldError("privacy", key, f"is {shown(value)}; it {limit}")


def _check_noise(draft: Draft) -> None:
    if draft.noise not in NOISE:
        raise FieldError("privacy", "noise", f"is {shown(draft.noise)}; it must be one of {', '.join(NOISE)}")
    if draft.noise != "none" and draft.privacy.dummies:
        problem = f"is {draft.noise} beside {draft.privacy.dummies} uniform dummies; noise hides more: leave one out"
        raise FieldError("privacy", "noise", problem)


def _check_large_delta(privacy: Privacy, reports: int) -> None:
    """Refuse a δ at which the guarantee means little, unless the task gives a reason for it in words."""
    reason = privacy.large_delta
    if reason is None and is_large(privacy.delta, reports):
        raise FieldError(
            "privacy",
            "delta",
            f"is {privacy.delta:g}, but at most {largest_delta(reports):g} for minimum_reports = {reports}: with "
            "probability delta a person is not promised epsilon, and 1 / minimum_reports would allow publishing one "
            'person\'s answers. Lower it, or give the reason for more in words: large_delta = "…"',
        )
    if reason is not None and not (
        isinstance(reason, str) and reason.strip() and is_printable(reason) and len(reason) <= LONGEST_REASON
    ):
        problem = (
            f"is {shown(reason)}; give the reason in at most {LONGEST_REASON} printable characters, or leave it out"
        )
        raise FieldError("privacy", "large_delta", problem)


def _check_suite(name: object) -> None:
    try:
        suite_named(name)
    except SuiteError as error:
        raise FieldError("task", "suite", f"is {shown(name)}; it must be {' or '.join(SUITES)}") from error


def _line_of(text: str, table: str, key: str) -> int | None:
    """Return the line (from 1) of `key` in `table`, otherwise that of the table's header, otherwise None.

    The TOML parser does not report the lines of values, so this searches the text. The line is only used in messages.
    """
    # "query[2]" is the third table that is headed [[query]]; lines before any header belong to "file".
    name, _, rest = table.partition("[")
    # A table within a query ("query[2].of") is searched as part of it.
    wanted = int(rest.partition("]")[0]) if rest else 0
    current, seen, header = "file", 0 if name == "file" else -1, None
    for number, line in enumerate(text.splitlines(), 1):
        match = _HEADER.match(line)
        if match:
            current = match[1]
            seen += current == name
            if current == name and seen == wanted:
                header = number
            if table == "file" and current == key:
                return number
        elif current == name and seen == wanted and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
            return number
    return header
