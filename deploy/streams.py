"""Streams: stdin, stdout and stderr as commands can rely on them, whatever the process was started with.

A command may be started with a stream closed, on a full disk, into a pipe whose reader leaves, or with an encoding that
lacks ε. This module imports the standard library only, because it must work in the bare install.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

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

_ERRORS = "hubbub.readable"


class OutputLost(Exception):
    """Stdout cannot be written: its disk is full, or its reader has left."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.reader_left = error.errno == errno.EPIPE


class Output(io.TextIOWrapper):
    """Stdout, whose failures can be told from those of any file a command writes."""

    def write(self, text: str) -> int:
        """Write as any stream does, but for the error."""
        try:
            return super().write(text)
        except OSError as error:
            raise OutputLost(error) from error

    def flush(self) -> None:
        """Flush as any stream does, but for the error."""
        try:
            super().flush()
        except OSError as error:
            raise OutputLost(error) from error


class _Messages(io.FileIO):
    """Stderr, which never fails: where a message cannot be written there is nowhere to say so.

    What is not written is dropped and not kept, so that a service whose log finds no room has it again once there is.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        """Write what can be written, and say that all was."""
        with contextlib.suppress(OSError):
            super().write(data)
        return memoryview(data).nbytes


def prepare() -> None:
    """Make the process's streams safe to use; called once, before anything is printed."""
    _open_closed()
    codecs.register_error(_ERRORS, _readable)
    sys.stdout = _output(sys.stdout)
    sys.stderr = _messages(sys.stderr)


def give_up_stdout() -> None:
    """Have everything that is still to be written to stdout vanish, so that the process can end without an error."""
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
        return Output(open(1, "wb", closefd=False), "utf-8", _ERRORS, line_buffering=True)
    encoding, lines, through = stream.encoding, stream.line_buffering, stream.write_through
    return Output(stream.detach(), encoding, _ERRORS, line_buffering=lines, write_through=through)


def _messages(stream: TextIO | None) -> io.TextIOWrapper:
    encoding = stream.encoding if isinstance(stream, io.TextIOWrapper) else "utf-8"
    # Nothing is buffered: what a full disk did not take would come in front of the next line, or raise at the end.
    return io.TextIOWrapper(_Messages(2, "w", closefd=False), encoding, _ERRORS, write_through=True)


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
