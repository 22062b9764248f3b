"""Closes a round as its operator: `hubbub close OPERATOR.toml TASK.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json


def command(
    settings: Annotated[Path, typer.Argument(metavar="OPERATOR.toml", help="The operator's settings file.")],
    task: Annotated[Path, typer.Argument(metavar="TASK.json", help="The signed task.")],
    round_number: Annotated[
        int | None, typer.Option("--round", min=0, help="The round's number. [default: the only open round]")
    ] = None,
    as_json: Json = False,
) -> None:
    """Close a round now, if its task has close = "operator".

    A round with fewer submissions than the task's minimum is not closed; the exit status is then 1. If the round is
    closed already, the command says so and changes nothing; the exit status is 0.

    Example: hubbub close deployment/operator/operator.toml deployment/operator/task.json --round 0
    """
    with failures(as_json):
        import asyncio
        import time

        from hubbub.cli.tables.status import status_document
        from hubbub.deploy.files import signed_task_in
        from hubbub.deploy.operator.client import close_round, round_to_close
        from hubbub.deploy.settings import OperatorSettings
        from hubbub.protos.messages import RoundStatus
        from hubbub.service.settings import load

        signed = signed_task_in(task)
        operator = load(settings, OperatorSettings, "operator")
        found = asyncio.run(round_to_close(operator, signed.task, round_number, time.time()))
        status = found if isinstance(found, RoundStatus) else asyncio.run(close_round(operator, signed.task.id, found))
        if as_json:
            print_json(status_document(status))
        else:
            state = f"{status.shown_state} with {status.submissions} submissions"
            line = f"is closed already: it is {state}; nothing was changed" if status is found else f"is {state}"
            console().print(f"round {status.round} {line}", markup=False, soft_wrap=True)
