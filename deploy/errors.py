"""Defines the errors of commands: wrong options, files that cannot be written, and a lost stdout."""

import contextlib
import errno
from collections.abc import Iterator

from hubbub.protos.errors import HubbubError, UsageError


class NotWritten(HubbubError):
    """A command could not write a file; it has its earlier content, or all of the new."""


class OutputLost(OSError):
    """Stdout cannot be written: its disk is full, or its reader has left."""

    @property
    def reader_left(self) -> bool:
        """Whether it is a pipe without a reader."""
        return self.errno == errno.EPIPE


@contextlib.contextmanager
def as_usage_error(*kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of these kinds, which options have caused, into usage errors."""
    try:
        yield
    except kinds as error:
        raise UsageError(str(error)) from error
