"""Defines the errors that every part of hubbub raises. Each message names the fault, the limit and the remedy."""

from hubbub.queries.errors import HubbubError as HubbubError
from hubbub.queries.errors import TakesNoNoiseTask as TakesNoNoiseTask
from hubbub.queries.errors import TaskError as TaskError
from hubbub.queries.errors import UnmetTask as UnmetTask


class SignatureError(HubbubError):
    """A signed statement has an invalid signature, signer or form."""


class FormatError(SignatureError):
    """A document is of an unsupported kind or version; the message names its format."""


class KeyRecordError(HubbubError):
    """A key record is not for this round, role or time."""


class SuiteError(HubbubError):
    """A suite of algorithms is unknown to this version; the message names it, and the known suites."""


class EnvelopeError(HubbubError):
    """An envelope does not open; the message reveals nothing about its content."""


class MessageError(HubbubError):
    """A field of a received message does not have the form of the contract."""


class Unreachable(HubbubError):
    """The other side did not answer, or not in time; the call may be repeated."""


class Distrusted(Unreachable):
    """The other side's TLS certificate is not trusted, so repeating the call soon does not help."""


class UsageError(HubbubError):
    """A call, an option or an argument is wrong; a command exits with status 2."""
