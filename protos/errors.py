"""Defines the errors that every part of hubbub raises. Each message names the fault, the limit and the remedy."""

import errno
from collections.abc import Mapping
from types import MappingProxyType

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


class CannotCall(Unreachable):
    """A process cannot call by gRPC, so repeating the call there does not help; the message says what does."""


class SettingsError(HubbubError):
    """Settings cannot be used; the message names the file and the key, or the variable of the environment."""


class UsageError(HubbubError):
    """A call, an option or an argument is wrong; a command exits with status 2."""


_REMEDIES: Mapping[int | None, str] = MappingProxyType({
    errno.ENOENT: "put it there, or name another file",
    errno.EACCES: "let this account use it, with chown or chmod, or name another",
    errno.EPERM: "let this account use it, with chown or chmod, or name another",
    errno.EISDIR: "name a file, not a folder",
    errno.ENOTDIR: "name a folder in place of the file in its path",
    errno.ENOSPC: "make room on its disk",
    errno.EDQUOT: "make room within this account's quota",
    errno.EROFS: "name a place on a disk that can be written",
    errno.EMFILE: "raise the limit of open files, with ulimit -n",
    errno.ENFILE: "end programs that have many files open",
    errno.ENAMETOOLONG: "give it a shorter name",
    errno.ELOOP: "remove the link that leads to itself",
    errno.ENOMEM: "end programs that take memory",
})  # fmt: skip


def toml_remedy(text: str | None) -> str:
    """Return what to do about a text that is not TOML, or about a file that has none (None) in UTF-8."""
    if text is None:
        return "save it as UTF-8"
    # Word processors and messengers curl quotes.
    curled = next((mark for mark in "“”„‘’" if mark in text), None)
    return (
        "correct the file there" if curled is None else f'correct the file there: TOML has " for a text, not {curled}'
    )


def remedy_of(error: OSError) -> str:
    """Return what to do about a file that the operating system refuses."""
    return _REMEDIES.get(error.errno, "check that the file and its disk can be used")
