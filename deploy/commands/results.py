"""`hubbub results OPERATOR.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.deploy.output import Json, console, failures, print_json, progress_console

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
        float, typer.Option("--wait", min=0, help="Seconds to wait for the certificate, where there is none yet.")
    ] = 0,
    csv: Annotated[Path | None, typer.Option("--csv", help="Also save the estimates as CSV.")] = None,
    parquet: Annotated[Path | None, typer.Option("--parquet", help="Also save the estimates as Parquet.")] = None,
    candidates: Annotated[
        Path | None,
        typer.Option("--candidates", help="Texts to look up in queries of kind text, one a line; it costs no privacy."),
    ] = None,
    certificate: Annotated[Path | None, typer.Option("--certificate", help="Also save the certificate.")] = None,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="Show intervals that all hold at once, with a chance of 95 %.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print a round's estimates with standard errors and 95 % intervals.

    Of the candidates those are shown whose counts stand out of the noise, with a false-discovery rate of 5 %.
    Of a query with many rows some single intervals miss; --simultaneous shows wider ones, which hold all at once. JSON,
    CSV and Parquet have both; docs/formats.md names their columns. While it waits it says on stderr what for.

    Example: hubbub results deployment/operator/operator.toml --wait 60 --certificate certificate.json
    """
    with failures(as_json):
        from hubbub.deploy.files import save
        from hubbub.deploy.settings import OperatorSettings
        from hubbub.deploy.views.results import print_results, results_document
        from hubbub.service.settings import load

        texts = None
        if candidates is not None:
            from hubbub.deploy.candidates import decoded, read_candidates

            texts = read_candidates(candidates)
        results = _fetch(load(settings, OperatorSettings, "operator"), task, round_number, wait)
        if texts is not None:
            results = decoded(results, texts)
        if csv is not None or parquet is not None:
            # Only these two need the table library, which takes a moment to load.
            from hubbub.deploy.views.export import write_csv, write_parquet

            if csv is not None:
                write_csv(results, csv)
            if parquet is not None:
                write_parquet(results, parquet)
        if certificate is not None:
            save(certificate, results.certificate)
        if as_json:
            print_json(results_document(results))
        else:
            print_results(console(), results, simultaneous)


def _fetch(settings: OperatorSettings, task: str | None, round_number: int | None, wait: float) -> RoundResults:
    import asyncio

    from hubbub.deploy.waiting import Wanted, results_of

    def say(sentence: str) -> None:
        progress_console().print(sentence, soft_wrap=True)

    return asyncio.run(results_of(settings, Wanted(task, round_number), wait, say))
