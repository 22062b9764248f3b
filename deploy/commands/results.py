"""`hubbub results OPERATOR.toml`."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from hubbub.deploy.output import Json, console, failures, print_json

if TYPE_CHECKING:
    from hubbub.deploy.settings import OperatorSettings
    from hubbub.protos.results import QueryResult, RoundResults


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
        from hubbub.analyzer.export import as_json as document
        from hubbub.analyzer.export import write_csv, write_parquet
        from hubbub.deploy.settings import OperatorSettings
        from hubbub.service.settings import load

        results = _fetch(load(settings, OperatorSettings, "operator"), task, round_number, wait)
        if csv is not None:
            write_csv(results, csv)
        if parquet is not None:
            write_parquet(results, parquet)
        if certificate is not None:
            certificate.write_bytes(results.certificate)
        if as_json:
            print_json(document(results))
        else:
            _print(results)


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
    until = time.monotonic() + wait
    while True:
        try:
            return asyncio.run(fetch_results(settings, bytes.fromhex(task), round_number, until - time.monotonic()))
        except Refusal as refusal:
            if refusal.reason is not Reason.NO_RESULTS or time.monotonic() >= until:
                raise


def _print(results: RoundResults) -> None:
    printer = console()
    printer.print(f"task {results.id.task_name}, round {results.id.round}", markup=False)
    for query in results.queries:
        left = ", ".join(f"{reason} {count}" for reason, count in sorted(query.left_out.items()) if count)
        suffix = f", left out: {left}" if left else ""
        printer.print(f"{query.name}: {query.valid} valid reports of {query.reports}{suffix}", markup=False)
        if query.estimate is None:
            printer.print("  withheld: fewer valid reports than the task's minimum", markup=False)
        else:
            printer.print(_table(query))


def _table(query: QueryResult) -> Table:
    from hubbub.protos.results import HistogramEstimate, SumEstimate

    table = Table("", "estimate", "standard error", "95 % interval")
    rows = []
    if isinstance(query.estimate, HistogramEstimate):
        rows = list(zip(query.estimate.categories, query.estimate.counts, strict=True))
        rows.append(("answered", query.estimate.answered))
    elif isinstance(query.estimate, SumEstimate):
        rows = [("answered", query.estimate.answered), (f"sum, {query.estimate.unit}".rstrip(", "), query.estimate.sum)]
        if query.estimate.mean is not None:
            rows.append(("mean", query.estimate.mean))
    for name, value in rows:
        numbers = f"{value.value:,.6g}", f"{value.standard_error:,.4g}", f"{value.lower:,.6g} … {value.upper:,.6g}"
        table.add_row(name, *numbers)
    return table
