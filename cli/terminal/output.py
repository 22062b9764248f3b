"""Prints text or one JSON document on stdout, and progress and errors on stderr.

Everything that commands print goes through here, because names, categories and messages are texts from anybody. None of
them is taken for markup, and unreadable characters are printed as escapes. A test checks that no other module prints
(`tests/architecture/test_printing.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from hubbub.accountant.errors import AccountingError
from hubbub.cli.options.hints import on_missing
from hubbub.deploy.errors import OutputLost
from hubbub.protos.errors import HubbubError, UsageError, remedy_of
from hubbub.protos.escaping import readable_lines
from hubbub.service.errors import damaged, is_damage

EXIT_FAILURE = 1
"""Exit status of a command that failed; the message has the reason and the remedy."""

EXIT_BAD_USE = 2
"""Exit status of a usage error, that is wrong options or arguments; the message names what is expected."""

USUAL_WIDTH = 80
"""Columns of a terminal of unknown width."""

_UNREADABLE = re.compile(r"[^ -~\n]")
"""Characters that may be unreadable: all but those of ASCII."""

Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document on stdout.")]
"""The option of every command."""


class Printer(Console):
    """A console that prints texts as they are: no markup, no emoji by name, and escapes for unreadable characters."""

    def __init__(self, **options: Any) -> None:
        """Take what `Console` takes."""
        super().__init__(**{**options, "highlight": False, "markup": False, "emoji": False})

    def render_str(self, text: str, **options: Any) -> Text:
        """Make a str readable before its width is measured."""
        return super().render_str(readable_lines(text), **{**options, "markup": False, "emoji": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render anything; a `Text`, which never was a str, is made readable here."""
        for segment in super().render(renderable, options):
            # Control segments come from rich: they move the cursor of a progress bar.
            yield segment if segment.control else segment._replace(text=readable_lines(segment.text))


def program() -> str:
    """Return the word that runs `hubbub` again in a shell: the path it was called by, if `PATH` does not have it."""
    called = sys.argv[0]
    return shlex.quote(called) if shutil.which("hubbub") is None and Path(called).name == "hubbub" else "hubbub"


def console() -> Console:
    """Return the console for people, on stdout."""
    return _console(stderr=False)


def progress_console(quiet: bool = False) -> Console:
    """Return the console for progress, on stderr; a quiet one prints nothing.

    FORCE_COLOR asks for colors where no terminal is, as a notebook does for programs that it runs. Bars that move
    would fill a log or a notebook with control characters all the same.
    """
    terminal = None if sys.stderr is not None and sys.stderr.isatty() else False
    return _console(stderr=True, quiet=quiet, terminal=terminal)


def _console(stderr: bool, quiet: bool = False, terminal: bool | None = None) -> Console:
    made = Printer(stderr=stderr, quiet=quiet, force_terminal=terminal)
    if made.width < 1:
        # COLUMNS=0 means that the width is unknown; with a width of 0 rich would print nothing at all.
        made.width = USUAL_WIDTH
    return made


def print_json(document: Any) -> None:
    """Print one JSON document on stdout."""
    write_json(document, indent=2)


def write_json(document: Any, indent: int | None = None) -> None:
    """Write one JSON document and a newline to stdout; on one line if `indent` is None."""
    text = _UNREADABLE.sub(_escaped, json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        # JSON's own escapes cover characters that the encoding lacks, and bytes of file names that are not text.
        text = json.dumps(document, indent=indent, allow_nan=False)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _escaped(found: re.Match[str]) -> str:
    """Return a character as JSON escapes it, unless it is readable; such characters occur only in JSON strings."""
    mark = found.group()
    return mark if readable_lines(mark) == mark else json.dumps(mark)[1:-1]


@contextlib.contextmanager
def failures(as_json: bool, status: int = EXIT_FAILURE) -> Iterator[None]:
    """Turn errors that people can act on into a message and exit status `status`, or 2 for a usage error.

    The message goes to stderr, with --json also to stdout, as a document whose only member is `error`. Any other
    exception is a fault in hubbub, and is left to `cli.main`.
    """
    try:
        yield
    except UsageError as error:
        _fail(str(error), as_json, EXIT_BAD_USE)
    except (HubbubError, AccountingError) as error:
        missing = on_missing(error.__cause__) if isinstance(error.__cause__, FileNotFoundError) else ""
        _fail(f"{error}{missing}", as_json, status)
    except OutputLost:
        raise  # `cli.main` reports it; here its message would be printed to the lost stdout
    except OSError as error:
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        missing = on_missing(error) if isinstance(error, FileNotFoundError) else ""
        _fail(f"{where}{error.strerror or error}{missing or f'; {remedy_of(error)}'}", as_json, status)
    except sqlite3.Error as error:
        if is_damage(error):
            _fail(str(damaged(error)), as_json, status)
        remedy = "check that the disk has room and hubbub owns the file"
        _fail(f"a database cannot be used: {error}; {remedy}", as_json, status)


def _fail(message: str, as_json: bool, status: int = EXIT_FAILURE) -> NoReturn:
    if as_json:
        print_json({"error": message})
    fail(message, status)


def fail(message: str, status: int = EXIT_FAILURE) -> NoReturn:
    """Print an error on stderr and exit; nothing more is written to stdout."""
    report(message)
    raise typer.Exit(status)


def report(message: str) -> None:
    """Print an error on stderr before what is still printed; the caller exits with a failure afterwards."""
    sys.stderr.write(f"error: {readable_lines(message)}\n")
    sys.stderr.flush()
