"""Defines messages between parties as plain values; `codec` converts them to and from protobuf, `rpc` sends them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hubbub.protos.escaping import hex_repr
from hubbub.protos.records.batch import BatchId
from hubbub.protos.refusals import Refusal


@dataclass(frozen=True, init=False)
class Submission:
    """A sealed submission: its random id (16 bytes) and the outer envelope. None of it is ever printed.

    In a task for enrolled devices it also has a credential's id, and the proof that the device has the key.
    """

    id: bytes = field(repr=False)
    envelope: bytes = field(repr=False)
    credential: bytes = field(default=b"", repr=False)
    proof: bytes = field(default=b"", repr=False)

    def __init__(self, id: bytes, envelope: bytes, credential: bytes = b"", proof: bytes = b"") -> None:  # noqa: A002
        # One is made for every device of every call; the `__init__` of a frozen `dataclass` takes three times as long.
        fields = self.__dict__
        fields["id"], fields["envelope"], fields["credential"], fields["proof"] = id, envelope, credential, proof


@dataclass(frozen=True)
class Redemption:
    """A ticket in the form of its file, and the device's secret (32 bytes; never printed) that redeems it."""

    ticket: bytes = field(repr=False)
    device_key: bytes = field(repr=False)


class KeyState(StrEnum):
    """The state of a key: PENDING → ACTIVE → RETIRED. The active key makes new credentials or envelopes.

    A pending key is already known to all processes that will check with it; a retired one still checks or opens old
    ones.
    """

    PENDING = "pending"
    ACTIVE = "active"
    RETIRED = "retired"


class CredentialAction(StrEnum):
    """What the operator can do with master keys and devices."""

    STATUS = "status"
    PREPARE = "prepare"
    """Make a pending master key, if there is none."""
    ACTIVATE = "activate"
    """Make the pending key active, which retires the previous one."""
    FORGET = "forget"
    """Destroy the retired keys; devices with credentials from them redeem their tickets again, by themselves."""
    REVOKE = "revoke"
    """Stop admitting these devices."""


@dataclass(frozen=True)
class MasterKey:
    """A master key as the operator sees it: generation, state, since when (seconds since 1970), 16 hex digits."""

    generation: int
    state: KeyState
    since: int
    fingerprint: str


@dataclass(frozen=True)
class CredentialStatus:
    """The state of enrollment: the master keys, oldest first, tickets redeemed, devices revoked."""

    keys: tuple[MasterKey, ...]
    redeemed: int
    revoked: int


@dataclass(frozen=True, init=False)
class Receipt:
    """The shuffler's confirmation that a submission is on disk; a retry gets the same one as the first call."""

    submission_id: bytes = field(repr=False)
    round: int

    def __init__(self, submission_id: bytes, round: int) -> None:  # noqa: A002
        # Made like a `Submission`, and as often.
        fields = self.__dict__
        fields["submission_id"], fields["round"] = submission_id, round


Answer = Receipt | Refusal
"""The shuffler's answer to a submission."""


class RoundState(StrEnum):
    """The state of a round: OPEN → CUT → MIXED → RELEASED → ERASED, or EXPIRED if it was erased unreleased."""

    OPEN = "open"
    CUT = "cut"
    MIXED = "mixed"
    RELEASED = "released"
    ERASED = "erased"
    EXPIRED = "expired"

    @property
    def shown(self) -> str:
        """The word for people: a round that was released and then erased is finished."""
        return "finished" if self is RoundState.ERASED else self.value


@dataclass(frozen=True)
class RoundStatus:
    """A round as the operator sees it: acknowledged submissions, refusals by reason, and the step that it waits for."""

    __repr__ = hex_repr

    task_id: bytes
    round: int
    state: RoundState
    submissions: int
    minimum_reports: int
    """0 if the shuffler no longer has the round's task, and so does not know it."""
    refusals: Mapping[str, int]
    waiting_for: str
    prepared: bool = False
    """Whether it is OPEN before its time: devices get its keys, and it takes no submissions yet."""
    step: int = 1
    """The step in which `submissions` are shown, rounded down; 1 if they are exact, as from the cut on."""

    @property
    def shown_submissions(self) -> str:
        """The submissions for people: `0–99` if they are shown in steps of 100, else their number."""
        return str(self.submissions) if self.step <= 1 else f"{self.submissions}–{self.submissions + self.step - 1}"

    @property
    def shown_state(self) -> str:
        """The state's word for people."""
        return "prepared" if self.prepared and self.state is RoundState.OPEN else self.state.shown


@dataclass(frozen=True)
class Incident:
    """An open problem of a service: its cause and remedy, its beginning (seconds since 1970), and its occurrences."""

    kind: str
    text: str
    since: float
    count: int


@dataclass(frozen=True)
class IncidentReport:
    """The open incidents of a service, and how many lines of its log were lost since it started."""

    incidents: tuple[Incident, ...] = ()
    log_lines_lost: int = 0


@dataclass(frozen=True)
class ListedTask:
    """A task that a service knows: its id (32 bytes) and its name."""

    __repr__ = hex_repr

    task_id: bytes
    name: str


@dataclass(frozen=True)
class Envelopes:
    """Consecutive envelopes of a batch, the first of them at `offset`."""

    batch: BatchId
    offset: int
    envelopes: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True)
class Committed:
    """The analyzer's confirmation that a batch is counted: its valid reports, and those left out, by reason."""

    counted: int
    left_out: Mapping[str, int]
