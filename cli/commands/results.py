"""Fetches, checks and prints a round's results: `hubbub results OPERATOR.toml`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json, progress_console
from hubbub.cli.terminal.progress import working
from hubbub.protos.errors import UsageError

if TYPE_CHECKING:
    from hubbub.deploy.settings import OperatorSettings
    from hubbub.protos.records.results import RoundResults


def command(
    settings: Annotated[
        Path, typer.Argument(metavar="OPERATOR.toml", help="The settings file of the operator or a reader.")
    ],
    task: Annotated[
        str | None,
        typer.Option("--task", help="The task's name, or 8 digits of its id or more; needed if there are several."),
    ] = None,
    round_number: Annotated[
        int | None, typer.Option("--round", min=0, help="The round's number. [default: the latest round]")
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to wait for the certificate, if there is none yet.")
    ] = 0,
    csv: Annotated[Path | None, typer.Option("--csv", help="Also save the estimates to this CSV file.")] = None,
    guarded: Annotated[
        bool,
        typer.Option(
            "--guard/--no-guard",
            help="In the CSV, put an apostrophe before texts that a spreadsheet runs as formulas.",
        ),
    ] = True,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", help="Also save the estimates to this Parquet file.")
    ] = None,
    candidates: Annotated[
        Path | None,
        typer.Option("--candidates", help="File of texts to look up in queries of kind text, one per line."),
    ] = None,
    prefixes: Annotated[
        bool,
        typer.Option("--prefixes", help="Find texts of queries with prefixes, from all rounds up to this one."),
    ] = False,
    alphabet: Annotated[
        str | None,
        typer.Option(
            "--alphabet", help="With --prefixes: the characters that texts consist of. [default: all of Unicode]"
        ),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", help="Also save the certificate to this file.")
    ] = None,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="Show wider intervals: with a chance of 95 %, all are right at once.")
    ] = False,
    every: Annotated[
        bool,
        typer.Option("--all", help="Print all rounds of the task as one table, with when each began and ended."),
    ] = False,
    all_counts: Annotated[
        bool,
        typer.Option(
            "--all-counts", help="Print every count; of more than 20 categories only the largest 20 are printed."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Print a round's estimates with standard errors and intervals.

    Each 95 % interval misses the truth with a chance of 5 %, so with many rows some do. With --simultaneous the
    intervals are wider, and all are right at once with a chance of 95 %. JSON, CSV and Parquet have both kinds; the
    page formats-results.md lists their columns. In the CSV, a text that begins with =, +, -, @ or an apostrophe gets an
    apostrophe before it, unless you give --no-guard. While the command waits, it prints on stderr what it waits for.

    With --candidates, the texts that stand out of the noise are shown, at a false-discovery rate of 5 %. With
    --prefixes you need no list, if the task asks for texts by prefixes: beginnings that stand out in one round are
    continued in the next. A text that ends in … is the beginning of longer ones. Looking up texts costs no privacy.

    Of more than 20 categories the largest 20 are printed; --all-counts prints the others too. JSON, CSV and Parquet
    always have all.

    With --all, every certified round of the task is in one table, and in one CSV or Parquet file; each row has when its
    round began and ended. With --json each round is a file of results in the list `rounds`, and hubbub verify takes the
    whole.

    Below the estimates stands who must be honest for which epsilon, as the round's certificate states it.

    Results are not shown (results_differ) if their counts differ from the certificate's, or if their estimates do not
    follow from the counts. Save the output of --json for hubbub verify, which also checks who signed.

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
        _check_different({"--csv": csv, "--parquet": parquet, "--certificate": certificate, "--candidates": candidates})
        texts = None if candidates is None else read_candidates(candidates)
        operator = load(settings, OperatorSettings, "operator")
        if every:
            alone = {"--round": round_number is not None, "--wait": wait > 0, "--certificate": certificate is not None}
            _check_alone({**alone, "--candidates": candidates is not None, "--prefixes": prefixes})
            _show_all(
                operator,
                task,
                (simultaneous, all_counts),
                as_json,
                lambda rounds: _export(rounds, csv, guarded, parquet),
            )
            return
        results = _fetch(operator, task, round_number, wait, as_json)
        if texts is not None:
            results = decoded(results, texts)
        if prefixes:
            results = _discovered(operator, results, alphabet, as_json)
        _export([results], csv, guarded, parquet)
        if certificate is not None:
            save(certificate, results.certificate)
        if as_json:
            print_json(results_document(results))
        else:
            print_results(console(), results, simultaneous, all_counts)
            _print_ladder(results)


def _print_ladder(results: RoundResults) -> None:
    """Print who must be honest for which ε, as the certificate states it; its signature is checked before."""
    from hubbub.cli.tables.ladder import ladder_lines
    from hubbub.protos.task.signed_task import SignedTask
    from hubbub.results.checked import differ
    from hubbub.verification.certificate import VerificationError, stated

    try:
        content = stated(results.certificate)
    except VerificationError as error:
        raise differ(results, str(error)) from error
    for line in ladder_lines(content):
        console().print(line, markup=False, soft_wrap=True)
    if (log := SignedTask.from_json(content["task"]).task.log) is not None:
        console().print(
            f"not checked here: that this certificate is in log {log.words}, as the task demands. Save it with "
            "--certificate, then: hubbub log add, hubbub log prove, hubbub verify",
            markup=False,
            soft_wrap=True,
        )
    console().print("as the certificate states; hubbub verify computes it again", markup=False)


def _check_different(files: Mapping[str, Path | None]) -> None:
    """Refuse one file for two options: what is written last would be all that is left."""
    named: dict[str, str] = {}
    for option, path in files.items():
        is_device = path is not None and path.exists() and not path.is_file()
        if path is not None and not is_device and (first := named.setdefault(os.path.realpath(path), option)) != option:
            raise UsageError(f"{first} and {option} both name {path}; give each a file of its own")


def _check_alone(given: Mapping[str, bool]) -> None:
    for option, is_given in given.items():
        if is_given:
            raise UsageError(f"{option} is for one round, and --all shows all of them; leave one of the two out")


def _show_all(
    settings: OperatorSettings,
    task: str | None,
    shown: tuple[bool, bool],
    as_json: bool,
    export: Callable[[Sequence[RoundResults]], None],
) -> None:
    import asyncio

    from hubbub.cli.tables.results import print_series
    from hubbub.deploy.operator.wait import RoundFilter, results_of_all
    from hubbub.protos.records.results_document import series_document

    rounds = asyncio.run(results_of_all(settings, RoundFilter(task)))
    _check(rounds, as_json)
    export(rounds)
    if as_json:
        print_json(series_document(rounds))
    else:
        print_series(console(), rounds, *shown)
        # The newest round's certificate states what everybody gave in all rounds so far.
        _print_ladder(rounds[-1])


def _export(rounds: Sequence[RoundResults], csv: Path | None, guarded: bool, parquet: Path | None) -> None:
    if csv is None and parquet is None:
        return
    # Loaded here, because only these two formats need pyarrow, which takes a moment to load.
    from hubbub.deploy.operator.export import write_csv, write_parquet

    if csv is not None:
        write_csv(csv, *rounds, guarded=guarded)
    if parquet is not None:
        write_parquet(parquet, *rounds)


def _fetch(
    settings: OperatorSettings, task: str | None, round_number: int | None, wait: float, as_json: bool
) -> RoundResults:
    import asyncio

    from hubbub.deploy.operator.wait import RoundFilter, results_of

    results = asyncio.run(results_of(settings, RoundFilter(task, round_number), wait, _say))
    _check([results], as_json, _rounds_behind(settings, results))
    return results


def _rounds_behind(settings: OperatorSettings, results: RoundResults) -> list[RoundResults]:
    """Return the results of the earlier rounds that these estimates also follow from."""
    import asyncio

    from hubbub.deploy.operator.client import fetch_certified

    rounds = {number for query in results.queries for number in query.rounds}
    return asyncio.run(fetch_certified(settings, results.id.task_id, rounds)) if rounds else []


def _check(wanted: Sequence[RoundResults], as_json: bool, behind: Sequence[RoundResults] = ()) -> None:
    """Check as `check_counts`, with progress."""
    from hubbub.results.checked import check_counts

    with working("checking the results", as_json):
        check_counts(wanted, behind)


def _say(sentence: str) -> None:
    progress_console().print(sentence, soft_wrap=True, markup=False)


def _check_lookups(candidates: Path | None, prefixes: bool, alphabet: str | None) -> None:
    if prefixes and candidates is not None:
        raise UsageError("--candidates and --prefixes exclude each other; give one of them")
    if alphabet is not None and not prefixes:
        raise UsageError("--alphabet needs --prefixes; add --prefixes, or leave --alphabet out")


def _discovered(settings: OperatorSettings, results: RoundResults, alphabet: str | None, as_json: bool) -> RoundResults:
    import asyncio

    from hubbub.deploy.operator.client import fetch_certified
    from hubbub.deploy.operator.prefixes import find_prefixes, prefix_rounds, read_alphabet

    characters = None if alphabet is None else read_alphabet(alphabet)
    earlier = asyncio.run(fetch_certified(settings, results.id.task_id, prefix_rounds(results)))
    _check(earlier, as_json)
    return find_prefixes([*earlier, results], characters, _say)
