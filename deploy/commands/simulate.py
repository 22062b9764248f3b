"""`hubbub simulate TASK.toml --data FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from hubbub.deploy.output import Json, console, failures, print_json, progress_console


def command(
    task: Annotated[Path, typer.Argument(metavar="TASK.toml", help="The task as written by hand.")],
    data: Annotated[Path, typer.Option("--data", help="A CSV, TSV or Parquet file, a row per device.")],
    column: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="QUERY=COLUMN", help="Where a query's column has another name; repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a task on a file's columns without any network, to see its estimates and its privacy beforehand.

    Example: hubbub simulate task.toml --data sessions.csv --column session=minutes
    """
    with failures(as_json):
        from hubbub.deploy.data import read_answers, unusable_words
        from hubbub.deploy.files import draft_in
        from hubbub.deploy.planning import plan
        from hubbub.deploy.simulation import simulate

        draft = draft_in(task)
        dataset = read_answers(draft.name, draft.questions, data, column or [])
        for sentence in unusable_words(dataset):
            progress_console().print(sentence, soft_wrap=True)
        with Progress(console=progress_console()) as bars:
            bar = bars.add_task("devices encode and randomize", total=dataset.devices * len(draft.questions))
            document = simulate(plan(draft), dataset, lambda devices: bars.advance(bar, devices))
            bars.update(bar, completed=dataset.devices * len(draft.questions))
        if as_json:
            print_json(document)
            return
        if not document["released"]:
            console().print(
                f"nothing would be released: {document['devices']} devices are under the task's minimum_reports = "
                f"{document['minimum_reports']}, so the round would be erased; simulate at least as many devices",
                soft_wrap=True,
            )
            return
        from hubbub.deploy.views.compared import print_query
        from hubbub.deploy.views.privacy import print_privacy

        for query in document["queries"]:
            print_query(console(), query)
        print_privacy(console(), document["privacy"])
