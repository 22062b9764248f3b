"""Errors of the command line itself."""

from hubbub.protos.errors import HubbubError


class BadUse(HubbubError):
    """Words of a command that cannot be read: the exit status is 2, as for an unknown option."""
