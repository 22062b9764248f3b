"""Writes a page for each task, for people who are asked: `hubbub dictionary TASK.json … --out FOLDER`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json, progress_console

ENDING = "*.json"


def command(
    tasks: Annotated[
        list[Path], typer.Argument(metavar="TASK.json…", help="Signed tasks, or folders whose *.json files they are.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the pages are written.")],
    as_json: Json = False,
) -> None:
    """Write a page for each task, for the people who are asked.

    A page says what is asked, why, of whom, from when to when, how answers are hidden, and what ε they cost. The folder
    has an index, and for each task its page, the signed task, and an entry for a registry of deployments. The pages are
    static, load nothing and need no script: any web server can publish them.

    The words come from the table `[about]` of the task. A task that is not signed by both parties has a warning.

    Example: hubbub dictionary deployment/operator/task.json --out pages
    """
    with failures(as_json):
        from hubbub.deploy.files import signed_task_in
        from hubbub.pages.dictionary.entry import Entry
        from hubbub.pages.dictionary.pages import written

        entries = {(entry := Entry.of(signed_task_in(path))).task.id: entry for path in _files(tasks)}
        files = written(list(entries.values()), out)
        for entry in entries.values():
            if entry.unsigned is not None:
                warning = f"warning: task {entry.task.name} is not signed by both parties: {entry.unsigned}"
                progress_console().print(warning, markup=False, soft_wrap=True)
        if as_json:
            print_json({"tasks": len(entries), "files": [str(path) for path in files]})
        else:
            said = f"wrote the pages of {len(entries)} task{'s' * (len(entries) != 1)}; open {files[0]}"
            console().print(said, markup=False, soft_wrap=True)


def _files(named: list[Path]) -> list[Path]:
    """Return the files that are named, and those in the folders that are named.

    Raises:
        UsageError: for a folder without any.
    """
    from hubbub.protos.errors import UsageError

    found: list[Path] = []
    for path in named:
        inside = sorted(path.glob(ENDING)) if path.is_dir() else [path]
        if not inside:
            raise UsageError(f"{path} has no file {ENDING}; name signed tasks, or a folder with them")
        found += inside
    return found
