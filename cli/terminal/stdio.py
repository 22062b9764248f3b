"""Makes stdin, stdout and stderr reliable for commands, however the process was started.

A command may be started with a closed stream, on a full disk, into a pipe whose reader leaves, or with an encoding
without ε. This module imports only what the bare install has, because it runs before anything is checked.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import BinaryIO, TextIO, cast

from hubbub.deploy.errors import OutputLost as OutputLost

ASCII_FORMS = {
    "ε": "epsilon",
    "δ": "delta",
    "γ": "gamma",
    "√": "sqrt",
    "±": "+-",
    "≤": "<=",
    "≥": ">=",
    "−": "-",
    "–": "-",
    "…": "..",
    "─": "-",
    "·": "*",
    "█": "#",
    "•": "*",
}
"""Replacements for characters that the stream's encoding lacks; others become escapes such as \\u65e5."""

READER_LEFT = 141
"""Exit status if the reader of stdout has left, as in shells for a process that SIGPIPE ends."""

_ERRORS = "hubbub.readable"


class Output(io.TextIOWrapper):
    """Stdout; its errors are distinct from those of files that a command writes."""

    def write(self, text: str) -> int:
        """Write as any stream does; an error is an OutputLost."""
        with self._telling():
            return super().write(text)

    def flush(self) -> None:
        """Flush as any stream does; an error is an OutputLost."""
        with self._telling():
            super().flush()

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputLost(error.errno, error.strerror) from error


class _Messages(io.TextIOWrapper):
    """Stderr, which never fails, because there is no place to report that. It has no buffer."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


def prepare() -> Output:
    """Make the process's streams safe to use, before anything is printed; return stdout, for `finish`."""
    _open_closed()
    if sys.stdin is None:
        # Python has no stream object for a descriptor that was closed. Commands read it as an empty file.
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - open as long as the process
    codecs.register_error(_ERRORS, _readable)
    sys.stdout, sys.stderr = output, _ = _output(sys.stdout), _messages(sys.stderr)
    return output


def finish(output: TextIO) -> None:
    """Discard what cannot be written to stdout: otherwise Python would try again at the end, and print an error."""
    try:
        output.flush()
    except OSError:
        _discard(1)


def _open_closed() -> None:
    # The next file that is opened gets the number of a closed descriptor: printed text could end up in a store.
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one


def _output(stream: TextIO | None) -> Output:
    if not isinstance(stream, io.TextIOWrapper):
        # Python has no stream object if the descriptor was closed at the start.
        return Output(open(1, "wb", closefd=False), "utf-8", _ERRORS)
    encoding, lines, through = stream.encoding, stream.line_buffering, stream.write_through
    return Output(stream.detach(), encoding, _ERRORS, line_buffering=lines, write_through=through)


def _messages(stream: TextIO | None) -> TextIO:
    encoding = stream.encoding if stream is not None else "utf-8"
    # It has no buffer: otherwise a message that failed would be written before the next one.
    raw = io.FileIO(2, "w", closefd=False)
    return _Messages(cast(BinaryIO, raw), encoding, _ERRORS, write_through=True)


def _discard(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _readable(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return the replacement for characters that an encoding lacks, as `codecs.register_error` expects it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(ASCII_FORMS.get(each) or _escaped(each) for each in lacking), error.end


def _escaped(character: str) -> str:
    return character.encode("ascii", "backslashreplace").decode("ascii")
