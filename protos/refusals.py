"""Defines the typed reasons for which services refuse calls. Counts and metrics use the same names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from hubbub.protos.errors import HubbubError


class Reason(StrEnum):
    """Why a call was refused. The value is the reason's name in messages, counts, signed records and metrics.

    It is the member's name in small letters. docs/reference/refusals.md has what each means, and what to do.
    """

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
    TASK_ENDED = "task_ended"


TRANSIENT = frozenset({Reason.OVERLOADED, Reason.NOT_READY, Reason.DISK_FULL})
"""Temporary reasons: the same call may succeed later."""

ROUND_ENDED = frozenset({Reason.OVER_BUDGET, Reason.ERASED})
"""Reasons for which a batch is not sent again: the ledger only grows, and a destroyed key opens nothing."""


@dataclass(frozen=True)
class Explanation:
    """What a reason means for people: who gets it, what it means, and what they do."""

    who: str
    meaning: str
    remedy: str
    incident: str = ""
    """The heading of the page on incidents that has more; empty for none."""


_DEVICE, _SHUFFLER, _OPERATOR, _READER = "device", "shuffler", "operator", "reader"

EXPLANATIONS: Mapping[Reason, Explanation] = MappingProxyType(
    {
        Reason.MALFORMED: Explanation(
            "anyone",
            "Fields do not have the form that the interface requires.",
            "The caller is another version, or not a hubbub client. Upgrade it.",
        ),
        Reason.WRONG_SIZE: Explanation(
            _DEVICE,
            "The envelope does not have this task's length.",
            "Give the client the task that the shuffler runs.",
        ),
        Reason.UNKNOWN_TASK: Explanation(
            f"{_DEVICE}, {_OPERATOR}, {_SHUFFLER}",
            "The service does not run that task.",
            "Put the signed task into its `tasks`, and restart it; or put the task's entry into its `feed`.",
        ),
        Reason.UNKNOWN_ROUND: Explanation(
            f"{_DEVICE}, {_OPERATOR}, {_SHUFFLER}",
            "The task has no such round, or the round was over before the service first ran.",
            "Name a round of the task.",
        ),
        Reason.TOO_EARLY: Explanation(
            f"{_DEVICE}, {_OPERATOR}",
            "The round is not open yet.",
            "Answer when it opens. Check the clock.",
        ),
        Reason.TOO_LATE: Explanation(
            _DEVICE,
            "The round takes no more submissions. The message names the next round.",
            "The submission is discarded. Answer the next round.",
        ),
        Reason.ERASED: Explanation(
            f"{_DEVICE}, {_SHUFFLER}",
            "The round is erased, and its key is destroyed: it is over, or it could not be released. The message says "
            "which.",
            "A device discards the submission. If the shuffler gets it, the round came too late, and expires there.",
        ),
        Reason.KEY_SET_DIFFERS: Explanation(
            f"{_DEVICE}, {_SHUFFLER}",
            "The submission or the batch was sealed for other keys than this round's.",
            "If a device gets it, report it to the operator: this device was shown other keys than others. If the "
            "shuffler gets it, a store was lost.",
            "Devices have other keys",
        ),
        Reason.ID_CONFLICT: Explanation(
            _DEVICE,
            "Other bytes are stored under this submission's id.",
            "The state file was copied, or the caller is not a hubbub client. Give each device its own state file.",
        ),
        Reason.UNOPENABLE: Explanation(
            _DEVICE,
            "The envelope does not open with the round's key.",
            "The state file is corrupt, or the caller is not a hubbub client. Check the device's disk and its client.",
        ),
        Reason.OVERLOADED: Explanation(
            _DEVICE,
            "The queue is full, or the disk cannot be written.",
            "Wait: the client tries again by itself. If it lasts, give the shuffler more cores, or its disk more room.",
            "Overload",
        ),
        Reason.NOT_READY: Explanation(
            f"{_DEVICE}, {_SHUFFLER}, {_OPERATOR}",
            "The round has no keys yet, a disk cannot be written, the database or a standby is away, the round's key "
            "or list is damaged, or one front end cannot answer for the task. The message says which.",
            "Wait, and repeat the closing of a round. If it lasts, check whether the analyzer is down, a disk is "
            "full, the database is away or a round is damaged.",
            "The analyzer is down",
        ),
        Reason.NOT_ALLOWED: Explanation(
            "anyone",
            "The caller's certificate does not permit this call: a reader, for example, may change nothing.",
            "Call with a certificate of a role that the message names.",
        ),
        Reason.BELOW_MINIMUM: Explanation(
            f"{_OPERATOR}, {_SHUFFLER}",
            "There are too few submissions to close the round, or to release it.",
            "Wait for more. Such a round expires at its time.",
        ),
        Reason.CLOSED_BY_SCHEDULE: Explanation(
            _OPERATOR,
            "The task's rounds are cut by the clock alone.",
            'Wait, or plan the next task with `close = "operator"`.',
        ),
        Reason.BAD_RECORD: Explanation(
            _SHUFFLER,
            "A batch record, its signer or its key set is not valid, or dummies are missing.",
            "Compare the tasks and the trusted keys of both services.",
        ),
        Reason.DIGEST_DIFFERS: Explanation(
            _SHUFFLER,
            "Another batch came under the name of a known one, or other envelopes came than announced.",
            "The shuffler's store is damaged, or an old copy: restore the newest copy of it.",
            "A store was damaged or lost",
        ),
        Reason.WRONG_OFFSET: Explanation(
            _SHUFFLER,
            "A chunk leaves a gap, or goes beyond the batch.",
            "Do nothing: the shuffler begins again by itself.",
        ),
        Reason.INCOMPLETE: Explanation(
            _SHUFFLER,
            "A commit came before the whole batch had arrived.",
            "Do nothing: the shuffler begins again by itself.",
        ),
        Reason.NO_RESULTS: Explanation(
            _READER,
            "The round is not certified. The message names what is missing.",
            "Wait (`hubbub results --wait`), or look at `hubbub status`.",
        ),
        Reason.OVER_BUDGET: Explanation(
            _SHUFFLER,
            "The round would exceed the task's budget at the analyzer, so it is not released.",
            "Do nothing: the round is erased. A new task has its own budget.",
            "The budget is spent",
        ),
        Reason.NOT_ENROLLED: Explanation(
            _DEVICE,
            "The task admits enrolled devices, and no credential proves this submission.",
            "A hubbub client redeems its ticket again once, by itself. A device without a ticket needs one. Many "
            "such refusals mean that somebody floods the port.",
        ),
        Reason.CREDENTIAL_EXPIRED: Explanation(
            _DEVICE,
            "The device was enrolled until the time that the message names.",
            "Make a ticket for it that lasts longer (`hubbub enroll --renew`).",
        ),
        Reason.REVOKED: Explanation(
            _DEVICE,
            "The operator revoked the device.",
            "Do nothing, or make a new ticket if the device may take part again.",
        ),
        Reason.NOT_COUNTERSIGNED: Explanation(
            _DEVICE,
            "The task's second authority has not signed the device's ticket.",
            "Have it signed (`hubbub enroll FILE --countersign`) and give it to the device again.",
        ),
        Reason.BAD_TICKET: Explanation(
            _DEVICE,
            "The ticket cannot be read, is for another shuffler, or has a signature that is not valid.",
            "Give the device a ticket of this deployment's operator.",
        ),
        Reason.TICKET_EXPIRED: Explanation(
            _DEVICE,
            "The ticket's time was over before it was redeemed.",
            "Make a ticket for it that lasts longer (`hubbub enroll --renew`).",
        ),
        Reason.TICKET_REDEEMED: Explanation(
            _DEVICE,
            "Another device redeemed the ticket before, or this device has lost its state file since.",
            "Make a new ticket. Ask who had the old one, and revoke its device.",
        ),
        Reason.FORKED: Explanation(
            _SHUFFLER,
            "The shuffler's releases are not those that the analyzer knows: an old copy of its store runs, or "
            "another party signs with its key.",
            "Find the newest copy of that store, stop its service, restore all its files, and start it.",
            "A ledger forked",
        ),
        Reason.TOO_LARGE: Explanation(
            _READER,
            "The results of a round have more than 256 MiB.",
            "Nothing is lost at the analyzer. In the next task, ask fewer people in each round for a text, or use "
            "fewer categories.",
        ),
        Reason.RESULTS_DIFFER: Explanation(
            _READER,
            "The analyzer's stored data of a certified round does not match its certificate.",
            "Nothing of the round is shown. Find out who changed the counts, or which disk damaged them. Put the "
            "store's last backup back.",
            "Results differ",
        ),
        Reason.ROUND_FULL: Explanation(
            _DEVICE,
            "The round has as many submissions as its task's `maximum_reports` allows.",
            "The submission is discarded. Answer the next round.",
            "A round is full",
        ),
        Reason.DISK_FULL: Explanation(
            _DEVICE,
            "The shuffler's disk has no more bytes free than `disk_reserve`, or than mixing the round needs.",
            "The device keeps the submission and sends it again. Make room on the disk.",
            "A disk is full",
        ),
        Reason.TASK_ENDED: Explanation(
            f"{_DEVICE}, {_SHUFFLER}",
            "The feed of tasks ended the task, and the round is after its last one.",
            "The submission is discarded. Do nothing: other tasks go on.",
        ),
    }
)
"""Every reason in plain words; the reference is made of this."""


class Refusal(HubbubError):
    """A call was refused, with the reason, a message for people, and when to retry, if that is useful."""

    def __init__(self, reason: Reason, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        """Seconds to wait before the next try; None if a retry is of no use."""

    @property
    def passes(self) -> bool:
        """Whether the same call may succeed later: nothing is wrong with what was asked."""
        return self.reason in TRANSIENT

    def __reduce__(self) -> tuple[type[Refusal], tuple[Reason, str, float | None]]:
        """Return how to pickle it with all its parts, since refusals pass between processes."""
        # Without this, pickle would call the class with the message alone, the only argument that `Exception` keeps.
        return type(self), (self.reason, self.message, self.retry_after)
