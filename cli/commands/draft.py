"""Drafts a task from a file's columns: `hubbub draft FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.options.data_files import Decimal, Missing, Thousands, notation
from hubbub.cli.terminal.output import Json, console, failures, print_json, program, progress_console
from hubbub.protos.errors import UsageError

if TYPE_CHECKING:
    from hubbub.planning.simulate.drafting import DraftedTask
    from hubbub.planning.simulate.notation import Notation


def command(
    data: Annotated[
        Path, typer.Argument(metavar="FILE", help="A CSV, TSV, JSON Lines or Parquet file, one row per device.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the task into this file, which must not exist yet.")
    ] = None,
    histogram: Annotated[
        list[str] | None,
        typer.Option("--histogram", metavar="COLUMN", help="Count how many people have each value; repeatable."),
    ] = None,
    total: Annotated[
        list[str] | None,
        typer.Option(
            "--sum",
            metavar="COLUMN:LOWER:UPPER",
            help="Add up a column of numbers, clipped to that range; with COLUMN alone the range has 98 % of them. "
            "Repeatable.",
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="COLUMN", help="Find frequent texts, without listing any; repeatable."),
    ] = None,
    over_time: Annotated[
        list[str] | None,
        typer.Option("--over-time", metavar="COLUMN", help="Follow a yes or no over eight rounds; repeatable."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="COLUMN", help="Ask each histogram and sum for each group of this column."),
    ] = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    missing: Missing = None,
    as_json: Json = False,
) -> None:
    """Draft a task that asks about the columns of a file.

    Without options every column is asked about. Texts become a histogram, or a text if more than 100 are different.
    Numbers become a sum, or a histogram if they are whole and at most 10 are different. Categories are the file's
    values, and ranges have 98 % of its numbers: read the draft, and change what is not meant. Everyone who gets the
    task reads them.

    It prints the draft, or writes it with --out. Then `hubbub simulate` plays it on the file, and `hubbub plan` plans
    it.

    Example: hubbub draft sessions.csv --histogram theme --sum minutes --out task.toml
    """
    with failures(as_json):
        import time

        from hubbub.deploy.files import save_new
        from hubbub.planning.simulate.drafting import AskedColumns, drafted

        if out is not None and out.exists():
            raise UsageError(f"{out} is there already; remove it, or name another file with --out")
        columns = AskedColumns(histogram or (), total or (), text or (), over_time or (), by)
        written = notation(decimal, thousands, missing)
        found = drafted(data, columns, time.time(), written)
        for sentence in found.notes:
            progress_console().print(sentence, markup=False, soft_wrap=True)
        if out is not None:
            save_new(out, found.text.encode())
        if as_json:
            print_json({"draft": found.text, "notes": list(found.notes), "columns": list(found.renamed)})
            return
        if out is None:
            console().print(found.text, markup=False, soft_wrap=True, end="")
            return
        console().print(f"wrote {out}; {_next(out, data, found, written)}", markup=False, soft_wrap=True)


def _next(out: Path, data: Path, found: DraftedTask, written: Notation) -> str:
    """Return the command that plays the draft on the file, read as it was."""
    import shlex

    renamed = [word for each in found.renamed for word in ("--column", each)]
    again = shlex.join(["simulate", str(out), "--data", str(data), *renamed, *written.options])
    return f"next: {program()} {again} shows what it would give"
