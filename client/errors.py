"""The client's own errors. A device can also get a `Refusal`, or `Unreachable` where the shuffler does not answer."""

from __future__ import annotations

from hubbub.protos.errors import HubbubError
from hubbub.queries.errors import AnswerError as AnswerError


class NoRound(HubbubError):
    """No round takes answers now, or not the one that was asked for; the message says when the next one does."""


class StateError(HubbubError):
    """A state file that cannot be used: of another version, damaged, locked, or the disk is full."""


class KeySetChanged(HubbubError):
    """A round has other keys than those it was first seen with.

    Someone may have made keys for this device alone, to tell its report apart; nothing is sent under them.
    """


class OptedOut(HubbubError):
    """The device has opted out: nothing is stored or sent for it until it opts in again."""


class UsageError(HubbubError):
    """A call that cannot be right: an argument of another type, or a place from which it cannot be made."""


class AuthorityError(HubbubError):
    """The authority of the shuffler's TLS certificate cannot be read; the message names its file."""
