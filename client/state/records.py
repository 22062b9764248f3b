"""What the state file knows of a device and a round, as values."""

from __future__ import annotations

from dataclasses import dataclass, field

from hubbub.protos.messages import Submission

DONE = "done"
"""The outcome of a submission that the shuffler acknowledged."""

ERASED_HERE = "erased_here"
"""The outcome of a submission that may have been sent and was then erased on this device, by `wipe` or `opt_out`. Any
other outcome than these two is a refusal's reason."""


@dataclass(frozen=True)
class RoundRef:
    """A round as the state knows it: the task's id (32 bytes) and the round's number."""

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

    `send_time` is when it is to be sent (seconds since 1970); None where that is as soon as it can be.
    """

    submission_id: bytes = field(repr=False)
    envelope: bytes | None = field(repr=False)
    outcome: str | None
    reports: bytes | None = field(default=None, repr=False)
    send_time: float | None = None

    def waits_for(self, now: float) -> float:
        """For how many seconds from `now` nothing of it is to be sent; 0 where it may be, or nothing is left to do."""
        return 0.0 if self.outcome is not None or self.send_time is None else max(0.0, self.send_time - now)

    @property
    def drawn(self) -> Drawn | None:
        """What is still to be sealed; None once it is."""
        return None if self.reports is None else Drawn(self.submission_id, self.reports)

    @property
    def submission(self) -> Submission | None:
        """The submission that is still to be sent; None before it is sealed, and once there is an outcome."""
        return None if self.envelope is None else Submission(self.submission_id, self.envelope)


@dataclass(frozen=True)
class SubmissionHistory:
    """How many rounds of a task a device answered, and for how many something was sealed, and may have left it."""

    answered: int
    sealed: int
