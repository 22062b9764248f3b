"""Shows the states of rounds at both services, as JSON and as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from hubbub.cli.tables.printing import print_tables
from hubbub.deploy.operator.client import Overview
from hubbub.protos.messages import IncidentReport, RoundStatus
from hubbub.protos.records.results import AnalyzerRoundStatus
from hubbub.protos.task.schedule import at

_WHO_ASKS_A_HOP = "its party sees more in its log, and with `hubbub health hop HOP.toml` on its machine"

TASK_ID_DIGITS = 12
"""How many digits of a task's id are printed."""


def status_document(status: RoundStatus) -> dict[str, Any]:
    """Return a round's status at the shuffler as JSON."""
    return {
        "task_id": status.task_id.hex(),
        "round": status.round,
        "state": status.shown_state,
        "submissions": status.submissions,
        "submissions_step": status.step,
        "minimum_reports": status.minimum_reports or None,
        "refusals": dict(status.refusals),
        "waiting_for": status.waiting_for,
    }


def analyzer_status_document(status: AnalyzerRoundStatus) -> dict[str, Any]:
    """Return a round's state at the analyzer as JSON."""
    return {
        "task_id": status.id.task_id.hex(),
        "task": status.id.task_name,
        "round": status.id.round,
        "state": status.progress.value,
        "queries": [
            {
                "name": query.name,
                "reports": query.reports,
                "envelopes": query.envelopes,
                "arrived": query.arrived,
                "valid": query.valid,
                "left_out": dict(query.left_out),
            }
            for query in status.queries
        ],
        "waiting_for": status.waiting_for,
    }


def overview_document(overview: Overview) -> dict[str, Any]:
    """Return the states of rounds at both services as one JSON document; null for a service that did not answer."""
    rounds, statuses = overview.shuffler, overview.analyzer
    return {
        "rounds": None if rounds is None else [status_document(status) for status in rounds],
        "analyzer_rounds": None if statuses is None else [analyzer_status_document(status) for status in statuses],
        "uncounted": [{"task_id": each.task_id.hex(), "round": each.round} for each in overview.uncounted],
        "hops": {name: {"with_incidents": sorted(kinds)} for name, kinds in overview.hops.items()},
        "incidents": {
            name: condition_document(incident_report) for name, incident_report in overview.incidents.items()
        },
        "errors": dict(overview.errors),
    }


def print_overview(console: Console, overview: Overview) -> None:
    """Print a table for each service that answered."""
    # Only the analyzer's status has the names of tasks.
    names = {status.id.task_id: status.id.task_name for status in overview.analyzer or ()}
    tables = [] if overview.shuffler is None else [_shuffler_table(overview.shuffler, names)]
    if overview.analyzer is not None:
        tables.append(_analyzer_table(overview.analyzer))
    print_tables(console, tables)
    for line in overview.uncounted_words:
        console.print(f"warning: {line}", style="yellow", markup=False, soft_wrap=True)
    for line in (*condition_lines(overview.incidents), *_hop_lines(overview.hops)):
        console.print(line, markup=False, soft_wrap=True)


def _hop_lines(hops: Mapping[str, frozenset[str]]) -> Iterator[str]:
    for name, kinds in hops.items():
        incident = f", but has an incident ({', '.join(sorted(kinds))}); {_WHO_ASKS_A_HOP}" if kinds else ""
        yield f"{name} serves{incident}"


def _shuffler_table(rounds: list[RoundStatus], names: Mapping[bytes, str]) -> Table:
    table = Table("task", "round", "state", "submissions", "minimum", "refused", "waits for", title="at the shuffler")
    for status in rounds:
        numbers = (status.shown_submissions, str(status.minimum_reports or "unknown"))
        task = _task(status.task_id, names.get(status.task_id, ""))
        place = (task, str(status.round), status.shown_state)
        table.add_row(*place, *numbers, _by_reason(status.refusals), status.waiting_for)
    return table


def _analyzer_table(statuses: list[AnalyzerRoundStatus]) -> Table:
    table = Table("task", "round", "state", "counted", "left out", "waits for", title="at the analyzer")
    for status in statuses:
        counted = "\n".join(
            f"{query.name} {'…' if query.valid is None else query.valid} of {query.reports}" for query in status.queries
        )
        left_out: dict[str, int] = {}
        for query in status.queries:
            for reason, count in query.left_out.items():
                left_out[reason] = left_out.get(reason, 0) + count
        place = (_task(status.id.task_id, status.id.task_name), str(status.id.round), status.progress.value)
        table.add_row(*place, counted or "nothing", _by_reason(left_out), status.waiting_for)
    return table


def _task(task_id: bytes, name: str) -> str:
    return f"{name} {task_id.hex()[:TASK_ID_DIGITS]}".strip()


def _by_reason(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(counts.items()) if count) or "none"


def condition_document(incident_report: IncidentReport) -> dict[str, Any]:
    """Return a service's incidents as JSON."""
    return {
        "incidents": [
            {"kind": each.kind, "text": each.text, "since": at(each.since), "count": each.count}
            for each in incident_report.incidents
        ],
        "log_lines_lost": incident_report.log_lines_lost,
    }


def condition_lines(incidents: Mapping[str, IncidentReport]) -> Iterator[str]:
    """Yield a line for each incident of each service, and one if lines of its log were lost."""
    for service, incident_report in incidents.items():
        for each in incident_report.incidents:
            times = "" if each.count == 1 else f", seen {each.count} times"
            yield f"the {service} has an incident ({each.kind}) since {at(each.since)}{times}: {each.text}"
        if incident_report.log_lines_lost:
            lines = "1 line" if incident_report.log_lines_lost == 1 else f"{incident_report.log_lines_lost} lines"
            yield f"the {service} lost {lines} of its log since it started"
