"""`hubbub results OPERATOR.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.deploy.errors import BadUse
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
    prefixes: Annotated[
        bool,
        typer.Option("--prefixes", help="Find the texts of queries with prefixes, in all rounds up to this one."),
    ] = False,
    alphabet: Annotated[
        str | None,
        typer.Option(
            "--alphabet", help="With --prefixes, the characters that texts are made of; default: all there are."
        ),
    ] = None,
    certificate: Annotated[Path | None, typer.Option("--certificate", help="Also save the certificate.")] = None,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="Show intervals that all hold at once, with a chance of 95 %.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print a round's estimates with standard errors and 95 % intervals.

    Of a query with many rows some single intervals miss; --simultaneous shows wider ones, which hold all at once. JSON,
    CSV and Parquet have both; docs/formats.md names their columns. While it waits it says on stderr what for.
    Of the candidates those are shown whose counts stand out of the noise, with a false-discovery rate of 5 %. With
    --prefixes no list is needed where the task asks for texts by prefixes: what stood out of one round is continued in
    the next. A text that ends in … is the beginning of others. It costs no privacy.

    Example: hubbub results deployment/operator/operator.toml --wait 60 --certificate certificate.json
    """
    with failures(as_json):
        from hubbub.deploy.files import save
        from hubbub.deploy.settings import OperatorSettings
        from hubbub.deploy.views.results import print_results, results_document
        from hubbub.service.settings import load

        _check_lookups(candidates, prefixes, alphabet)
        texts = None
        if candidates is not None:
            from hubbub.deploy.candidates import decoded, read_candidates

            texts = read_candidates(candidates)
        operator = load(settings, OperatorSettings, "operator")
        results = _fetch(operator, task, round_number, wait)
        if texts is not None:
            results = decoded(results, texts)
        if prefixes:
            results = _discovered(operator, results, alphabet)
        _export(results, csv, parquet)
        if certificate is not None:
            save(certificate, results.certificate)
        if as_json:
            print_json(results_document(results))
        else:
            print_results(console(), results, simultaneous)


def _export(results: RoundResults, csv: Path | None, parquet: Path | None) -> None:
    if csv is None and parquet is None:
        return
    # Only these two need the table library, which takes a moment to load.
    from hubbub.deploy.views.export import write_csv, write_parquet

    if csv is not None:
        write_csv(results, csv)
    if parquet is not None:
        write_parquet(results, parquet)


def _fetch(settings: OperatorSettings, task: str | None, round_number: int | None, wait: float) -> RoundResults:
    import asyncio

    from hubbub.deploy.waiting import Wanted, results_of

    return asyncio.run(results_of(settings, Wanted(task, round_number), wait, _say))


def _say(sentence: str) -> None:
    progress_console().print(sentence, soft_wrap=True, markup=False)


def _check_lookups(candidates: Path | None, prefixes: bool, alphabet: str | None) -> None:
    if prefixes and candidates is not None:
        raise BadUse("--candidates and --prefixes each show what they find; give one of them")
    if alphabet is not None and not prefixes:
        raise BadUse("--alphabet goes with --prefixes; add that, or leave it out")


def _discovered(settings: OperatorSettings, results: RoundResults, alphabet: str | None) -> RoundResults:
    import asyncio

    from hubbub.deploy.calls import fetch_certified
    from hubbub.deploy.discovering import discovered, prefix_rounds, read_alphabet

    characters = None if alphabet is None else read_alphabet(alphabet)
    earlier = asyncio.run(fetch_certified(settings, results.id.task_id, prefix_rounds(results)))
    return discovered([*earlier, results], characters, _say)
