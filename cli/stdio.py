"""Stdin, stdout and stderr as commands can rely on them, whatever the process was started with.

A command may be started with a stream closed, on a full disk, into a pipe whose reader leaves, or with an encoding that
lacks ε. This module imports nothing that the bare install lacks, because it runs before anything is checked.
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
"""What is printed for a character that the stream's encoding lacks; any other becomes an escape such as \\u65e5."""

READER_LEFT = 141
"""Exit status where the reader of stdout has left, as shells give it for a process that SIGPIPE ends."""

_ERRORS = "hubbub.readable"


class Output(io.TextIOWrapper):
    """Stdout, whose failures can be told from those of any file a command writes."""

    def write(self, text: str) -> int:
        """Write as any stream does, but for the error."""
        with self._telling():
            return super().write(text)

    def flush(self) -> None:
        """Flush as any stream does, but for the error."""
        with self._telling():
            super().flush()

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputLost(error.errno, error.strerror) from error


class _Messages(io.TextIOWrapper):
    """Stderr, which never fails: where a message cannot be written there is nowhere to say so. It keeps nothing."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


def prepare() -> Output:
    """Make the process's streams safe to use, before anything is printed; return stdout, which is to be finished."""
    _open_closed()
    codecs.register_error(_ERRORS, _readable)
    sys.stdout, sys.stderr = output, _ = _output(sys.stdout), _messages(sys.stderr)
    return output


def finish(output: TextIO) -> None:
    """Let go of what cannot be written to stdout: otherwise Python would try once more at the end, and complain."""
    try:
        output.flush()
    except OSError:
        _discard(1)


def _open_closed() -> None:
    # A closed descriptor's number is given to the next file that is opened: what is printed would end up in a store.
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one


def _output(stream: TextIO | None) -> Output:
    if not isinstance(stream, io.TextIOWrapper):
        # Python has no stream object where the descriptor was closed when it started.
        return Output(open(1, "wb", closefd=False), "utf-8", _ERRORS)
    encoding, lines, through = stream.encoding, stream.line_buffering, stream.write_through
    return Output(stream.detach(), encoding, _ERRORS, line_buffering=lines, write_through=through)


def _messages(stream: TextIO | None) -> TextIO:
    encoding = stream.encoding if stream is not None else "utf-8"
    # Without a buffer: a message that could not be written would be written in front of the next one.
    raw = io.FileIO(2, "w", closefd=False)
    return _Messages(cast(BinaryIO, raw), encoding, _ERRORS, write_through=True)


def _discard(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _readable(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return what is written for characters that an encoding lacks, as `codecs.register_error` wants it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(ASCII_FORMS.get(each) or _escaped(each) for each in lacking), error.end


def _escaped(character: str) -> str:
    return character.encode("ascii", "backslashreplace").decode("ascii")
