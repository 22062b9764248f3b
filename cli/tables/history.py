"""Shows histories of certificates as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from hubbub.accountant.certificate.ladder import ALONE, IF_MINIMUM_VALID, rows_of
from hubbub.cli.tables.delta_warnings import epsilon_warning
from hubbub.cli.tables.ladder import ladder_lines
from hubbub.protos.task.delta_warnings import delta_warning
from hubbub.verification.history import CertificateHistory, Histories, Problem, VerifiedCertificate

_LEFT = (IF_MINIMUM_VALID, ALONE)


def document_of(found: Histories) -> dict[str, Any]:
    """Return the JSON document."""
    held = [each for history in found.histories for each in history.certificates]
    return {
        "verified": not found.problems,
        "signers_pinned": bool(held) and all(each.verified.pinned for each in held),
        "histories": [_history(history) for history in found.histories],
        "problems": [_problem(problem) for problem in found.problems],
        "skipped": [str(path) for path in found.skipped],
        "results": [each.as_json() for each in found.results],
    }


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "file": None if problem.file is None else str(problem.file),
        "round": problem.round,
        "problem": problem.text,
    }


def _history(history: CertificateHistory) -> dict[str, Any]:
    last = history.last
    task = last.verified.task
    return {
        "task": task.name,
        "task_id": task.id.hex(),
        "signers": last.verified.fingerprints,
        "verified": not history.problems,
        "uncounted": last.uncounted,
        "rounds": [_round(each) for each in history.certificates],
        "all_rounds": last.verified.content["all_rounds"],
        "delta_warning": delta_warning(task),
        "ladder": [row for row in rows_of(last.verified.content) if row["covers"] == "all_rounds"],
    }


def _round(held: VerifiedCertificate) -> dict[str, Any]:
    content = held.verified.content
    return {
        "round": held.round,
        "file": str(held.path),
        "reports": held.verified.records[0].reports,
        "epsilon_upper": content["round_total"]["epsilon_upper"],
        "all_rounds_epsilon_upper": content["all_rounds"]["epsilon_upper"],
        "all_rounds_epsilon_local": content["all_rounds"]["epsilon_local"],
        **{name: content["round_total"][name] for name in _LEFT},
        **{f"all_rounds_{name}": content["all_rounds"][name] for name in _LEFT},
        "epsilon_warning": epsilon_warning(content),
        **({} if held.verified.logged is None else {"log": held.verified.logged.as_json()}),
    }


def table_of(history: CertificateHistory) -> Table:
    """Return a task's history as a table: a row for each certificate, and each round that was never counted."""
    task = history.last.verified.task
    table = Table(title=f"{task.name}, task {task.id.hex()[:12]}")
    for name in ("round", "reports", "epsilon", "all rounds so far", "all rounds, device alone"):
        table.add_column(name, justify="right")
    table.add_column("certificate")
    for each in history.certificates:
        row = _round(each)
        numbers = (row["epsilon_upper"], row["all_rounds_epsilon_upper"], row["all_rounds_epsilon_local"])
        table.add_row(str(row["round"]), str(row["reports"]), *(f"{number:g}" for number in numbers), row["file"])
    for release in history.last.chain:
        if release.round in history.last.uncounted:
            table.add_row(str(release.round), str(release.reports), "", "", "", "never counted, charged at the minimum")
    return table


def in_words(history: CertificateHistory) -> str:
    """Return a sentence on whether the certificates are one history."""
    last = history.last
    if history.problems:
        return "these certificates are not one history: the problems are named first"
    rounds = "1 round" if len(last.history) == 1 else f"{len(last.history)} rounds"
    return f"one history of {rounds}, all that were released, by the shuffler's records"


def history_ladder(history: CertificateHistory) -> Iterator[str]:
    """Yield who must be honest for which ε of all rounds together, by the last certificate."""
    content = history.last.verified.content
    several = len(content["all_rounds"]["history"]) > 1
    for line in ladder_lines(content, only="all_rounds" if several else "round_total"):
        yield f"  {line}"


def epsilon_warnings(history: CertificateHistory) -> list[str]:
    """Return the warnings of the certificates whose ε is worthless."""
    warnings = (epsilon_warning(each.verified.content) for each in history.certificates)
    return [warning for warning in warnings if warning is not None]
