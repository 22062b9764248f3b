"""The errors of the client. A device can also get a `Refusal`, or `Unreachable` if the shuffler does not answer."""

from __future__ import annotations

from hubbub.protos.errors import HubbubError
from hubbub.protos.errors import UsageError as UsageError
from hubbub.queries.errors import AnswerError as AnswerError

NEW_FILE = "move it away and give the device a new ticket"
"""What to do about a state file that is damaged."""


class NoRound(HubbubError):
    """No round takes answers now, or the chosen round does not; the message names the next round and its time."""


class StateError(HubbubError):
    """The state file cannot be used: it is of another version, damaged or locked, or the disk is full."""


class KeySetChanged(HubbubError):
    """A round's keys differ from the keys that this device saw first for it.

    Someone may have made keys for this device alone, to recognize its report. Nothing is sent under them.
    """


class Expired(HubbubError):
    """Answers waited on the device until their round was over, so that they were erased; a recorder reports it."""


class OptedOut(HubbubError):
    """The device has opted out: no answers are stored or sent for it until it opts in again."""


class OverLimit(HubbubError):
    """Answering would spend more than the application's limits allow (`PrivacyLimits`); nothing was drawn or stored.

    Attributes:
        limit: the limit's name.
        value: the limit.
        spent: how much of the limit is used already.
        cost: how much answering would add.
        frees_up: when the amount spent next falls (seconds since 1970, UTC); None if it never does.
    """

    def __init__(
        self, message: str, *, limit: str, value: float, spent: float, cost: float, frees_up: int | None
    ) -> None:
        super().__init__(message)
        self.limit, self.value, self.spent, self.cost, self.frees_up = limit, value, spent, cost, frees_up


class AuthorityError(HubbubError):
    """The authority of the shuffler's TLS certificate cannot be read; the message names its file."""
