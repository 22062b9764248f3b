"""Errors of the command line itself."""

from hubbub.protos.errors import HubbubError


class BadUse(HubbubError):
    """A usage error, in an option or an argument: the exit status is 2, as for an unknown option."""


class NotWritten(HubbubError):
    """A file that a command was to write was not written; what it held before is still there."""
