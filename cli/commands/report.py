"""Writes a report of published rounds, to hand on: `hubbub report SETTINGS|FILE… --out report.html`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json, progress_console
from hubbub.cli.terminal.progress import working

if TYPE_CHECKING:
    from hubbub.results import SavedResults, ServiceReader
    from hubbub.results.checked import Trust
    from hubbub.results.table import ResultsTable

SETTINGS = ".toml"
"""How the name of a settings file ends; every other file is of saved results."""


def command(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SETTINGS|FILE…",
            help="A settings file (.toml) of the operator or a reader; or saved results (JSON), or folders of them.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the page is written.")] = Path(
        "report.html"
    ),
    task: Annotated[
        str | None,
        typer.Option("--task", help="The task's name, or 8 digits of its id or more; needed if there are several."),
    ] = None,
    round_number: Annotated[
        int | None, typer.Option("--round", min=0, help="The round's number. [default: the latest round]")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Report all rounds of the task, as series.")] = False,
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys",
            metavar="FOLDER",
            help="Public keys that you know. [default: the folder trust beside the settings file]",
            show_default=False,
        ),
    ] = None,
    pdf: Annotated[
        bool, typer.Option("--pdf", help="Also print it, beside the page, by a Chromium or Chrome on this machine.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a report of a round or a task, for people who were not there.

    It is one HTML file that loads nothing: what was asked and of whom, estimates with 95 % intervals, what is withheld
    and why, series over rounds, ε spent and left, who must be honest for which ε, what was verified, how to verify it
    and how to cite it. The certificate is in it. An earlier page of that name is written over.

    Results are read from the analyzer, or from files of hubbub results --json, and verified. Give the keys that you
    know with --keys: a folder with operator.pub.pem, shuffler.pub.pem, analyzer.pub.pem, and hop-2.pub.pem on. Without
    them the report says that nobody compared who signed. A task may demand that its certificates are in a transparency
    log: then the proofs of hubbub log prove must be in the folder of keys, or beside saved results (*.tlog-proof).

    Examples: hubbub report reader/reader.toml --all --out report.html; hubbub report results.json --keys trust --pdf
    """
    with failures(as_json):
        from hubbub.pages.report.rendering import browser, pdf_of, written_now
        from hubbub.protos.errors import UsageError

        if every and round_number is not None:
            raise UsageError("--round is for one round, and --all reports all of them; leave one of the two out")
        if pdf and out.suffix == ".pdf":
            raise UsageError(
                f"--out names the page, and --pdf prints it beside that; give a name such as {out.stem}.html"
            )
        # Looked for before anything is read and written.
        program = browser() if pdf else None
        _check_kept(sources, [out, out.with_suffix(".pdf")] if pdf else [out])
        with working("reading and verifying the results", as_json):
            table = _read(_opened(sources, keys), task, round_number, every)
        page = written_now(table)
        files = {out: page.encode()}
        if program is not None:
            with working("printing the page", as_json):
                files[out.with_suffix(".pdf")] = pdf_of(page, program)
        _write(files)
        _say(table, list(files), as_json)


def _check_kept(sources: list[Path], written: list[Path]) -> None:
    """Return only if no file is written over that the report is read from."""
    from hubbub.deploy.files import check_page
    from hubbub.protos.errors import UsageError
    from hubbub.verification.results_files import json_files

    read = [each for path in sources for each in json_files(path)]
    # Not Path.resolve, which raises another error than OSError for a link to itself.
    kept = {os.path.realpath(each) for each in read}
    for path in written:
        if os.path.realpath(path) in kept:
            raise UsageError(f"{path} would be written over, and the report is read from it; give --out another name")
        check_page(path)


def _opened(sources: list[Path], keys: Path | None) -> SavedResults | ServiceReader:
    from hubbub.deploy.settings import OperatorSettings
    from hubbub.protos.errors import UsageError
    from hubbub.results import connect, open_saved
    from hubbub.service.settings import load
    from hubbub.verification.pins import Pins

    settings = [path for path in sources if path.suffix == SETTINGS]
    if not settings:
        return open_saved(*sources, keys=Pins() if keys is None else keys)
    if len(sources) > 1:
        raise UsageError(f"{settings[0]} names services; give it alone, or files of saved results")
    read, beside = load(settings[0], OperatorSettings, "operator"), settings[0].parent / "trust"
    known = beside if keys is None and beside.is_dir() else keys
    return connect(read.analyzer_results, tls=read.tls.paths(), keys=known)


def _read(opened: SavedResults | ServiceReader, task: str | None, number: int | None, every: bool) -> ResultsTable:
    from hubbub.results.selection import check_one_task

    if every:
        return opened.read(task)
    found = opened.rounds(task)
    check_one_task(found, task)
    return opened.read(task, [found[-1].round if number is None else number])


def _write(files: dict[Path, bytes]) -> None:
    from hubbub.deploy.files import save

    for path, content in files.items():
        save(path, content)


def _say(table: ResultsTable, files: list[Path], as_json: bool) -> None:
    if as_json:
        print_json({**_document(table.trust), "rounds": list(table.rounds), "files": [str(path) for path in files]})
        return
    if table.trust.unpinned:
        progress_console().print(f"warning: {table.trust.words}", markup=False, soft_wrap=True)
    many = f"{len(table.rounds)} rounds" if len(table.rounds) > 1 else f"round {table.rounds[0]}"
    said = f"wrote the report of {many}: {' and '.join(map(str, files))}"
    console().print(said, markup=False, soft_wrap=True)


def _document(trust: Trust) -> dict[str, Any]:
    return {"verified": trust.verified, "unpinned": list(trust.unpinned), "not_recomputed": dict(trust.left)}
