"""The errors that every part of hubbub raises and catches. Each says what was wrong, the limit, and what to do."""

from hubbub.queries.errors import HubbubError as HubbubError
from hubbub.queries.errors import TaskError as TaskError


class SignatureError(HubbubError):
    """A signed statement whose signature, signer or form does not hold."""


class FormatError(SignatureError):
    """A document of a kind, or of a version of it, that is not read here; the message names its format."""


class KeyRecordError(HubbubError):
    """A key record that is not for this round, role or time."""


class SuiteError(HubbubError):
    """A suite of algorithms that this version does not know; the message names it, and those that it knows."""


class EnvelopeError(HubbubError):
    """An envelope that does not open; says nothing about what was in it."""


class MessageError(HubbubError):
    """A message from the wire with a field that does not have the form that the contract gives it."""


class Unreachable(HubbubError):
    """The other side did not answer, or not in time; the call may be made again."""


class Distrusted(Unreachable):
    """The other side showed a TLS certificate that is not to be trusted: calling again soon does not help."""


class UsageError(HubbubError):
    """A call, an option or an argument that cannot be right; as a command's exit status it is 2."""
