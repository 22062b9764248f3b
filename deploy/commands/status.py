"""`hubbub status OPERATOR.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from hubbub.deploy.output import Json, console, failures, print_json

if TYPE_CHECKING:
    from hubbub.deploy.calls import Overview
    from hubbub.protos.messages import RoundStatus
    from hubbub.protos.results import RoundStanding

TASK_ID_DIGITS = 12
"""How many digits of a task's id people are shown."""


def describe(status: RoundStatus) -> dict[str, Any]:
    """Return a round's status at the shuffler as JSON."""
    return {
        "task_id": status.task_id.hex(),
        "round": status.round,
        "state": status.state.value,
        "submissions": status.submissions,
        "minimum_reports": status.minimum_reports,
        "refusals": dict(status.refusals),
        "waiting_for": status.waiting_for,
    }


def describe_standing(standing: RoundStanding) -> dict[str, Any]:
    """Return where a round stands at the analyzer as JSON."""
    return {
        "task_id": standing.id.task_id.hex(),
        "task": standing.id.task_name,
        "round": standing.id.round,
        "state": standing.progress.value,
        "queries": [
            {
                "name": query.name,
                "reports": query.reports,
                "envelopes": query.envelopes,
                "arrived": query.arrived,
                "valid": query.valid,
                "left_out": dict(query.left_out),
            }
            for query in standing.queries
        ],
        "waiting_for": standing.waiting_for,
    }


def command(
    settings: Annotated[Path, typer.Argument(metavar="OPERATOR.toml", help="The operator's settings file.")],
    as_json: Json = False,
) -> None:
    """Show where rounds stand at both services: counts, refusals by reason, and what each round waits for.

    Where one service does not answer, the other's rounds are shown all the same, and the exit status is 1.

    Example: hubbub status deployment/operator/operator.toml
    """
    with failures(as_json):
        import asyncio

        from hubbub.deploy.calls import fetch_overview
        from hubbub.deploy.output import fail
        from hubbub.deploy.settings import OperatorSettings
        from hubbub.service.settings import load

        overview = asyncio.run(fetch_overview(load(settings, OperatorSettings, "operator")))
        if as_json:
            print_json(_document(overview))
        else:
            _print(overview)
        if overview.errors:
            fail("; ".join(overview.errors.values()))


def _document(overview: Overview) -> dict[str, Any]:
    rounds, standings = overview.shuffler, overview.analyzer
    return {
        "rounds": None if rounds is None else [describe(status) for status in rounds],
        "analyzer_rounds": None if standings is None else [describe_standing(standing) for standing in standings],
        "errors": dict(overview.errors),
    }


def _print(overview: Overview) -> None:
    names = {standing.id.task_id: standing.id.task_name for standing in overview.analyzer or ()}
    if overview.shuffler is not None:
        console().print(_shuffler_table(overview.shuffler, names))
    if overview.analyzer is not None:
        console().print(_analyzer_table(overview.analyzer))


def _shuffler_table(rounds: list[RoundStatus], names: Mapping[bytes, str]) -> Table:
    table = Table("task", "round", "state", "submissions", "minimum", "refused", "waits for", title="at the shuffler")
    for status in rounds:
        numbers = (str(status.submissions), str(status.minimum_reports))
        task = _task(status.task_id, names.get(status.task_id, ""))
        place = (task, str(status.round), status.state.value)
        table.add_row(*place, *numbers, _by_reason(status.refusals), status.waiting_for)
    return table


def _analyzer_table(standings: list[RoundStanding]) -> Table:
    table = Table("task", "round", "state", "counted", "left out", "waits for", title="at the analyzer")
    for standing in standings:
        counted = "\n".join(
            f"{query.name} {'…' if query.valid is None else query.valid} of {query.reports}"
            for query in standing.queries
        )
        left_out: dict[str, int] = {}
        for query in standing.queries:
            for reason, count in query.left_out.items():
                left_out[reason] = left_out.get(reason, 0) + count
        place = (_task(standing.id.task_id, standing.id.task_name), str(standing.id.round), standing.progress.value)
        table.add_row(*place, counted or "nothing", _by_reason(left_out), standing.waiting_for)
    return table


def _task(task_id: bytes, name: str) -> str:
    return f"{name} {task_id.hex()[:TASK_ID_DIGITS]}".strip()


def _by_reason(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(counts.items()) if count) or "none"
