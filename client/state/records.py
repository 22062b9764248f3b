"""The state file's records of a device and a round, as values."""

from __future__ import annotations

from dataclasses import dataclass, field

from hubbub.protos.messages import Submission

DONE = "done"
"""The outcome of a submission that the shuffler acknowledged."""

ERASED_HERE = "erased_here"
"""The outcome of a submission that may have been sent and was then erased on this device, by `wipe` or `opt_out`. Every
other outcome is the reason of a refusal."""


@dataclass(frozen=True)
class RoundRef:
    """A reference to a round: the task's id (32 bytes) and the round's number."""

    task_id: bytes
    number: int


@dataclass(frozen=True)
class Drawn:
    """One device's answers to a round, randomized: the reports joined in the order of the queries, under a fresh id.

    Neither is ever printed.
    """

    submission_id: bytes = field(repr=False)
    reports: bytes = field(repr=False)


@dataclass(frozen=True)
class StoredSubmission:
    """One device's submission for a round. It has reports until it is sealed, then sealed bytes until it is settled.

    `send_time` is when to send it (seconds since 1970); None means as soon as possible.
    """

    submission_id: bytes = field(repr=False)
    envelope: bytes | None = field(repr=False)
    outcome: str | None
    reports: bytes | None = field(default=None, repr=False)
    send_time: float | None = None

    def waits_for(self, now: float) -> float:
        """Return the seconds from `now` until it may be sent; 0 if it may be sent now, or has an outcome."""
        return 0.0 if self.outcome is not None or self.send_time is None else max(0.0, self.send_time - now)

    @property
    def drawn(self) -> Drawn | None:
        """The reports that are still to be sealed; None once they are sealed."""
        return None if self.reports is None else Drawn(self.submission_id, self.reports)

    @property
    def submission(self) -> Submission | None:
        """The submission that is still to be sent; None before it is sealed, and once there is an outcome."""
        return None if self.envelope is None else Submission(self.submission_id, self.envelope)


@dataclass(frozen=True)
class SubmissionHistory:
    """How many rounds of a task a device answered.

    For `sealed` of them it sealed a submission, which may have left it. `expired` of them are forgotten without an
    acknowledgement or a refusal.
    """

    answered: int
    sealed: int
    expired: int
