"""The options of every command that reads a file of data: how the file writes numbers and missing answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.terminal.output import progress_console

if TYPE_CHECKING:
    from hubbub.planning.simulate.dataset import Dataset
    from hubbub.planning.simulate.notation import Notation

Decimal = Annotated[
    str | None,
    typer.Option("--decimal", metavar="MARK", help="The file's mark before decimals, . or ,. [default: .]"),
]
Thousands = Annotated[
    str | None,
    typer.Option(
        "--thousands", metavar="MARK", help="The file's mark between thousands: , . ' or a space. [default: none]"
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        "--missing",
        metavar="WORD,WORD",
        help="Words of the file that mean no answer, such as NA,?,-; an empty field always does. [default: none]",
    ),
]

Every = Annotated[
    bool,
    typer.Option(
        "--all-counts", "--all", help="Print every count; of more than 20 categories only the largest 20 are printed."
    ),
]


def notation(decimal: str | None, thousands: str | None, missing: str | None, given: bool = True) -> Notation:
    """Return the notation of a file.

    Raises:
        UsageError: if the options do not fit, or one is stated and no file is `given`.
    """
    from hubbub.planning.simulate.notation import Notation
    from hubbub.protos.errors import UsageError

    for option, value in {"--decimal": decimal, "--thousands": thousands, "--missing": missing}.items():
        if value is not None and not given:
            raise UsageError(f"{option} is about a file; give the file with --data, or leave {option} out")
    return Notation.stated(decimal, thousands, missing)


def print_notes(dataset: Dataset, before: Sequence[str] = ()) -> None:
    """Print what to know about a file's columns, each sentence once: those of its draft come before."""
    from hubbub.planning.simulate.dataset import notes_of

    for sentence in dict.fromkeys([*before, *notes_of(dataset)]):
        progress_console().print(sentence, markup=False, soft_wrap=True)
