"""`hubbub results OPERATOR.toml`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.output import Json, console, failures, print_json, progress_console
from hubbub.protos.errors import UsageError

if TYPE_CHECKING:
    from hubbub.deploy.settings import OperatorSettings
    from hubbub.protos.records.results import RoundResults
    from hubbub.protos.refusals import Refusal


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
    guarded: Annotated[
        bool,
        typer.Option(
            "--guard/--no-guard",
            help="In the CSV, put an apostrophe before texts that a spreadsheet would run as formulas.",
        ),
    ] = True,
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
    CSV and Parquet have both; formats-results.md names their columns. Texts of the CSV that begin with =, +, -, @ or
    an apostrophe have an apostrophe put before them, unless --no-guard says not to. While it waits it says on stderr
    what for.
    Of the candidates those are shown whose counts stand out of the noise, with a false-discovery rate of 5 %. With
    --prefixes no list is needed where the task asks for texts by prefixes: what stood out of one round is continued in
    the next. A text that ends in … is the beginning of others. It costs no privacy.

    Results whose counts are not those that the round's certificate is of, or whose estimates do not follow from them,
    are not shown (results_differ). hubbub verify takes what --json prints, and pins whose keys signed.

    Example: hubbub results deployment/operator/operator.toml --wait 60 --certificate certificate.json
    """
    with failures(as_json):
        from hubbub.cli.tables.results import print_results
        from hubbub.deploy.files import save
        from hubbub.deploy.operator.lookup import decoded, read_candidates
        from hubbub.deploy.settings import OperatorSettings
        from hubbub.protos.records.results_document import results_document
        from hubbub.service.settings import load

        _check_lookups(candidates, prefixes, alphabet)
        texts = None if candidates is None else read_candidates(candidates)
        operator = load(settings, OperatorSettings, "operator")
        results = _fetch(operator, task, round_number, wait)
        if texts is not None:
            results = decoded(results, texts)
        if prefixes:
            results = _discovered(operator, results, alphabet)
        _export(results, csv, guarded, parquet)
        if certificate is not None:
            save(certificate, results.certificate)
        if as_json:
            print_json(results_document(results))
        else:
            print_results(console(), results, simultaneous)


def _export(results: RoundResults, csv: Path | None, guarded: bool, parquet: Path | None) -> None:
    if csv is None and parquet is None:
        return
    # Only these two need the table library, which takes a moment to load.
    from hubbub.deploy.operator.export import write_csv, write_parquet

    if csv is not None:
        write_csv(results, csv, guarded=guarded)
    if parquet is not None:
        write_parquet(results, parquet)


def _fetch(settings: OperatorSettings, task: str | None, round_number: int | None, wait: float) -> RoundResults:
    import asyncio

    from hubbub.deploy.operator.wait import RoundFilter, results_of

    results = asyncio.run(results_of(settings, RoundFilter(task, round_number), wait, _say))
    _check([results], _rounds_behind(settings, results))
    return results


def _rounds_behind(settings: OperatorSettings, results: RoundResults) -> list[RoundResults]:
    """Return the results of the earlier rounds that these say they follow from too."""
    import asyncio

    from hubbub.deploy.operator.client import fetch_certified

    rounds = {number for query in results.queries for number in query.rounds}
    return asyncio.run(fetch_certified(settings, results.id.task_id, rounds)) if rounds else []


def _check(wanted: Sequence[RoundResults], behind: Sequence[RoundResults] = ()) -> None:
    """Return only if results are what their certificates are of, and follow from counts that are, whoever sent them.

    The estimates are made again, with those of the rounds `behind` them.
    """
    from hubbub.protos.records.counts import CountsDiffer, check_published, read_certified
    from hubbub.verification.results import RecomputedResults, as_file, recompute

    every = [*wanted, *behind]
    for results in every:
        try:
            certified = read_certified(results.certificate)
            if (certified.task.id, certified.content["round"]) != (results.id.task_id, results.id.round):
                raise CountsDiffer("the certificate with them is of another task or round")
            check_published(results.queries, certified.task, results.id.round, certified)
        except CountsDiffer as error:
            raise _differ(results, str(error)) from error
    files = [as_file(each) for each in every]
    for found in recompute(files, {file.certificate for file in files}):
        if not isinstance(found, RecomputedResults):
            raise _differ(wanted[-1], str(found)) from found


def _differ(results: RoundResults, problem: str) -> Refusal:
    from hubbub.protos.refusals import Reason, Refusal

    what = f"round {results.id.round} of task {results.id.task_name} is not shown"
    remedy = "ask the analyzer's operator what happened to its store"
    text = f"{what}: its results are not what was certified: {problem}; {remedy}"
    return Refusal(Reason.RESULTS_DIFFER, text)


def _say(sentence: str) -> None:
    progress_console().print(sentence, soft_wrap=True, markup=False)


def _check_lookups(candidates: Path | None, prefixes: bool, alphabet: str | None) -> None:
    if prefixes and candidates is not None:
        raise UsageError("--candidates and --prefixes each show what they find; give one of them")
    if alphabet is not None and not prefixes:
        raise UsageError("--alphabet goes with --prefixes; add that, or leave it out")


def _discovered(settings: OperatorSettings, results: RoundResults, alphabet: str | None) -> RoundResults:
    import asyncio

    from hubbub.deploy.operator.client import fetch_certified
    from hubbub.deploy.operator.prefixes import find_prefixes, prefix_rounds, read_alphabet

    characters = None if alphabet is None else read_alphabet(alphabet)
    earlier = asyncio.run(fetch_certified(settings, results.id.task_id, prefix_rounds(results)))
    _check(earlier)
    return find_prefixes([*earlier, results], characters, _say)
