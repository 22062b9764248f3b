"""`hubbub simulate TASK.toml --data FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress

from hubbub.deploy.output import Json, console, failures, print_json, progress_console

if TYPE_CHECKING:
    from hubbub.deploy.data import Dataset
    from hubbub.protos.task import Draft


def command(
    task: Annotated[Path, typer.Argument(metavar="TASK.toml", help="The task as written by hand.")],
    data: Annotated[Path, typer.Option("--data", help="A .csv or .parquet file, a row per device.")],
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
        from hubbub.deploy.files import draft_in
        from hubbub.deploy.planning import plan
        from hubbub.deploy.simulation import simulate

        draft = draft_in(task)
        dataset = _dataset(draft, data, column or [])
        with Progress(console=progress_console()) as bars:
            bar = bars.add_task("devices encode and randomize", total=dataset.devices * len(draft.questions))
            document = simulate(plan(draft), dataset, lambda devices: bars.advance(bar, devices))
            bars.update(bar, completed=dataset.devices * len(draft.questions))
        if as_json:
            print_json(document)
            return
        from hubbub.deploy.views.compared import print_query
        from hubbub.deploy.views.privacy import print_privacy

        for query in document["queries"]:
            print_query(console(), query)
        print_privacy(console(), document["privacy"])


def _dataset(draft: Draft, data: Path, words: list[str]) -> Dataset:
    from hubbub.deploy.data import from_table, read_table
    from hubbub.deploy.errors import BadUse

    names = {question.name: question.name for question in draft.questions}
    for word in words:
        query, found, column = word.partition("=")
        if not found or query not in names:
            raise BadUse(f"--column {word!r} is not QUERY=COLUMN; the queries are {', '.join(names)}")
        names[query] = column
    return from_table(read_table(data), str(data), draft, names)
