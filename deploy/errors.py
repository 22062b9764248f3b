"""Errors of the command line itself."""

import contextlib
from collections.abc import Iterator

from hubbub.protos.errors import HubbubError


class BadUse(HubbubError):
    """A usage error, in an option or an argument: the exit status is 2, as for an unknown option."""


class NotWritten(HubbubError):
    """A file that a command was to write was not written; what it held before is still there."""


@contextlib.contextmanager
def bad_use(*kinds: type[Exception]) -> Iterator[None]:
    """Say that errors of these kinds, which options have caused, are bad use."""
    try:
        yield
    except kinds as error:
        raise BadUse(str(error)) from error
