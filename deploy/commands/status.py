"""`hubbub status OPERATOR.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from hubbub.deploy.output import Json, console, failures, print_json

if TYPE_CHECKING:
    from hubbub.protos.messages import RoundStatus


def describe(status: RoundStatus) -> dict[str, Any]:
    """Return a round's status as JSON."""
    return {
        "task_id": status.task_id.hex(),
        "round": status.round,
        "state": status.state.value,
        "submissions": status.submissions,
        "minimum_reports": status.minimum_reports,
        "refusals": dict(status.refusals),
        "waiting_for": status.waiting_for,
    }


def command(
    settings: Annotated[Path, typer.Argument(metavar="OPERATOR.toml", help="The operator's settings file.")],
    as_json: Json = False,
) -> None:
    """Show where the shuffler's rounds stand: submissions, refusals by reason, and what each waits for.

    Example: hubbub status deployment/operator/operator.toml
    """
    with failures(as_json):
        import asyncio

        from hubbub.deploy.calls import fetch_status
        from hubbub.deploy.settings import OperatorSettings
        from hubbub.protos.service.settings import load

        statuses = asyncio.run(fetch_status(load(settings, OperatorSettings, "operator")))
        if as_json:
            print_json({"rounds": [describe(status) for status in statuses]})
            return
        table = Table("task", "round", "state", "submissions", "minimum", "refused", "waits for")
        for status in statuses:
            refused = ", ".join(f"{reason} {count}" for reason, count in sorted(status.refusals.items())) or "none"
            numbers = (str(status.submissions), str(status.minimum_reports))
            task = status.task_id.hex()[:12]
            table.add_row(task, str(status.round), status.state.value, *numbers, refused, status.waiting_for)
        console().print(table)
