"""`hubbub results OPERATOR.toml`."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.deploy.output import Json, console, failures, print_json

if TYPE_CHECKING:
    from hubbub.deploy.settings import OperatorSettings
    from hubbub.protos.results import RoundResults


def command(
    settings: Annotated[Path, typer.Argument(metavar="OPERATOR.toml", help="The settings file of a reader.")],
    task: Annotated[
        str | None, typer.Option("--task", help="Name or id of the task; needed where there are several.")
    ] = None,
    round_number: Annotated[
        int | None, typer.Option("--round", min=0, help="Which round; default: the latest.")
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to wait for a round; needs an id and --round.")
    ] = 0,
    csv: Annotated[Path | None, typer.Option("--csv", help="Also save the estimates as CSV.")] = None,
    parquet: Annotated[Path | None, typer.Option("--parquet", help="Also save the estimates as Parquet.")] = None,
    certificate: Annotated[Path | None, typer.Option("--certificate", help="Also save the certificate.")] = None,
    as_json: Json = False,
) -> None:
    """Print a round's estimates with standard errors and 95 % intervals.

    Example: hubbub results deployment/operator/operator.toml --certificate certificate.json
    """
    with failures(as_json):
        from hubbub.deploy.settings import OperatorSettings
        from hubbub.deploy.views.results import print_results, results_document
        from hubbub.service.settings import load

        results = _fetch(load(settings, OperatorSettings, "operator"), task, round_number, wait)
        if csv is not None or parquet is not None:
            # Only these two need the table library, which takes a moment to load.
            from hubbub.deploy.views.export import write_csv, write_parquet

            if csv is not None:
                write_csv(results, csv)
            if parquet is not None:
                write_parquet(results, parquet)
        if certificate is not None:
            certificate.write_bytes(results.certificate)
        if as_json:
            print_json(results_document(results))
        else:
            print_results(console(), results)


def _fetch(settings: OperatorSettings, task: str | None, round_number: int | None, wait: float) -> RoundResults:
    import asyncio

    from hubbub.deploy.calls import fetch_results, find_round
    from hubbub.protos.errors import HubbubError
    from hubbub.protos.refusals import Reason, Refusal

    if not wait:
        which = asyncio.run(find_round(settings, task, round_number))
        return asyncio.run(fetch_results(settings, which.task_id, which.round, 0))
    if task is None or round_number is None or not re.fullmatch("[0-9a-f]{64}", task):
        raise HubbubError("--wait needs to know for what: give the task's id with --task, and --round")
    # The id and not the name: a round that is still to come cannot be found among those that are certified.
    until = time.monotonic() + wait
    while True:
        try:
            return asyncio.run(fetch_results(settings, bytes.fromhex(task), round_number, until - time.monotonic()))
        except Refusal as refusal:
            if refusal.reason is not Reason.NO_RESULTS or time.monotonic() >= until:
                raise
