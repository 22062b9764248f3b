"""Defines the typed reasons for which services refuse calls. Counts and metrics use the same names."""

from __future__ import annotations

from enum import StrEnum

from hubbub.protos.errors import HubbubError


class Reason(StrEnum):
    """Why a call was refused. The value is the reason's name in messages, counts, signed records and metrics."""

    # Signed batch records count refusals by these values, so a value must never change its meaning.
    MALFORMED = "malformed"
    WRONG_SIZE = "wrong_size"
    UNKNOWN_TASK = "unknown_task"
    UNKNOWN_ROUND = "unknown_round"
    TOO_EARLY = "too_early"
    TOO_LATE = "too_late"
    ERASED = "erased"
    KEY_SET_DIFFERS = "key_set_differs"
    ID_CONFLICT = "id_conflict"
    UNOPENABLE = "unopenable"
    OVERLOADED = "overloaded"
    NOT_READY = "not_ready"
    NOT_ALLOWED = "not_allowed"
    BELOW_MINIMUM = "below_minimum"
    CLOSED_BY_SCHEDULE = "closed_by_schedule"
    BAD_RECORD = "bad_record"
    DIGEST_DIFFERS = "digest_differs"
    WRONG_OFFSET = "wrong_offset"
    INCOMPLETE = "incomplete"
    NO_RESULTS = "no_results"
    OVER_BUDGET = "over_budget"
    NOT_ENROLLED = "not_enrolled"
    CREDENTIAL_EXPIRED = "credential_expired"
    REVOKED = "revoked"
    NOT_COUNTERSIGNED = "not_countersigned"
    BAD_TICKET = "bad_ticket"
    TICKET_EXPIRED = "ticket_expired"
    TICKET_REDEEMED = "ticket_redeemed"
    FORKED = "forked"
    TOO_LARGE = "too_large"
    RESULTS_DIFFER = "results_differ"
    ROUND_FULL = "round_full"
    DISK_FULL = "disk_full"


TRANSIENT = frozenset({Reason.OVERLOADED, Reason.NOT_READY, Reason.DISK_FULL})
"""Temporary reasons: the same call may succeed later."""


class Refusal(HubbubError):
    """A call was refused, with the reason, a message for people, and when to retry, if that is useful."""

    def __init__(self, reason: Reason, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        """Seconds to wait before the next try; None if a retry is of no use."""

    def __reduce__(self) -> tuple[type[Refusal], tuple[Reason, str, float | None]]:
        """Return how to pickle it with all its parts, since refusals pass between processes."""
        # Without this, pickle would call the class with the message alone, the only argument that `Exception` keeps.
        return type(self), (self.reason, self.message, self.retry_after)
