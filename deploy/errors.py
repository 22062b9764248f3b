"""Wrong options, files that are not written, and a stdout that is gone."""

import contextlib
import errno
from collections.abc import Iterator

from hubbub.protos.errors import HubbubError, UsageError


class NotWritten(HubbubError):
    """A file that a command was to write was not written; what it held before is still there."""


class OutputLost(OSError):
    """Stdout cannot be written: its disk is full, or its reader has left."""

    @property
    def reader_left(self) -> bool:
        """Whether it is a pipe that nobody reads any more."""
        return self.errno == errno.EPIPE


@contextlib.contextmanager
def as_usage_error(*kinds: type[Exception]) -> Iterator[None]:
    """Say that errors of these kinds, which options have caused, are bad use."""
    try:
        yield
    except kinds as error:
        raise UsageError(str(error)) from error
