"""The client's own errors. A device can also get a `Refusal`, or `Unreachable` where the shuffler does not answer."""

from __future__ import annotations

from hubbub.protos.errors import HubbubError
from hubbub.protos.errors import UsageError as UsageError
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


class OverLimit(HubbubError):
    """Answering would spend more than the application's limits allow (`Limits`); nothing was drawn or stored.

    Attributes:
        limit: the limit's name.
        value: the limit.
        spent: what counts against it already.
        cost: what answering would add.
        frees_up: when something is taken off what is spent (seconds since 1970, UTC); None where that never happens.
    """

    def __init__(
        self, message: str, *, limit: str, value: float, spent: float, cost: float, frees_up: int | None
    ) -> None:
        super().__init__(message)
        self.limit, self.value, self.spent, self.cost, self.frees_up = limit, value, spent, cost, frees_up


class AuthorityError(HubbubError):
    """The authority of the shuffler's TLS certificate cannot be read; the message names its file."""
