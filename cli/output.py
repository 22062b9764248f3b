"""Text for people or one JSON document on stdout, progress and errors on stderr.

Everything that commands print goes through here, because names, categories and messages are anybody's texts: none of
them is taken for markup, and what is not readable is printed as an escape. A test holds that nothing is printed
around it (`tests/architecture/test_printing.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from hubbub.accountant.errors import AccountingError
from hubbub.deploy.errors import OutputLost
from hubbub.protos.errors import HubbubError, UsageError
from hubbub.protos.escaping import readable_lines
from hubbub.service.errors import damaged, is_damage

EXIT_FAILURE = 1
"""Exit status where the command could not do what was asked; the message says why and what to do."""

EXIT_BAD_USE = 2
"""Exit status on a usage error: wrong options or arguments; the message says what they may be."""

USUAL_WIDTH = 80
"""Columns of a terminal that does not say how wide it is."""

_UNREADABLE = re.compile(r"[^ -~\n]")
"""What may be a character that is not readable: all but those of ASCII."""

Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document on stdout.")]
"""The option every command has."""


class Printer(Console):
    """A console that shows texts as they are: no markup, no emoji by name, and escapes for what is not readable."""

    def __init__(self, **options: Any) -> None:
        """Take what `Console` takes."""
        super().__init__(**{**options, "highlight": False, "markup": False, "emoji": False})

    def render_str(self, text: str, **options: Any) -> Text:
        """Make a text of a str, which it is before its width is measured."""
        return super().render_str(readable_lines(text), **{**options, "markup": False, "emoji": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render anything; what came as a `Text`, and not as a str, is made readable here."""
        for segment in super().render(renderable, options):
            # Control segments are rich's own: they move the cursor of a progress bar.
            yield segment if segment.control else segment._replace(text=readable_lines(segment.text))


def console() -> Console:
    """The console for people, on stdout."""
    return _console(stderr=False)


def progress_console() -> Console:
    """The console for progress, on stderr."""
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    made = Printer(stderr=stderr)
    if made.width < 1:
        # COLUMNS=0 means that nobody knows; on a width of 0 nothing at all would be printed.
        made.width = USUAL_WIDTH
    return made


def print_json(document: Any) -> None:
    """Print one JSON document on stdout."""
    write_json(document, indent=2)


def write_json(document: Any, indent: int | None = None) -> None:
    """Write one JSON document and a line's end to stdout; on one line where `indent` is None."""
    text = _UNREADABLE.sub(_escaped, json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        # JSON has escapes of its own for what the encoding lacks, and for bytes of a file's name that are no text.
        text = json.dumps(document, indent=indent, allow_nan=False)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _escaped(found: re.Match[str]) -> str:
    """Return a character as JSON escapes it: what stands in a text of a document, and nowhere else in it."""
    mark = found.group()
    return mark if readable_lines(mark) == mark else json.dumps(mark)[1:-1]


@contextlib.contextmanager
def failures(as_json: bool) -> Iterator[None]:
    """Turn errors that people can act on into a message and exit status 1, or 2 on a usage error.

    The message goes to stderr, with --json also to stdout, as a document whose only member is `error`. Any other
    exception is a fault in hubbub, and is left to `cli.main`.
    """
    try:
        yield
    except UsageError as error:
        _fail(str(error), as_json, EXIT_BAD_USE)
    except (HubbubError, AccountingError) as error:
        _fail(str(error), as_json)
    except OutputLost:
        raise  # said by `cli.main`: here it would be tried to print it
    except OSError as error:
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        _fail(f"{where}{error.strerror or error}", as_json)
    except sqlite3.Error as error:
        if is_damage(error):
            _fail(str(damaged(error)), as_json)
        _fail(f"a database cannot be used: {error}; see that its disk has room and the file is hubbub's own", as_json)


def _fail(message: str, as_json: bool, status: int = EXIT_FAILURE) -> NoReturn:
    if as_json:
        print_json({"error": message})
    fail(message, status)


def fail(message: str, status: int = EXIT_FAILURE) -> NoReturn:
    """Print an error on stderr and exit; stdout is left as the command wrote it."""
    sys.stderr.write(f"error: {readable_lines(message)}\n")
    raise typer.Exit(status)
