"""Messages between the parties, as plain values: `codec` turns them into protobuf and back, `rpc` sends them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hubbub.protos.records.batch import BatchId
from hubbub.protos.refusals import Refusal


@dataclass(frozen=True, init=False)
class Submission:
    """A sealed submission: its random id (16 bytes) and the outer envelope. None of it is ever printed.

    In a task for enrolled devices there is a credential's id beside, and the proof that the device has its key.
    """

    id: bytes = field(repr=False)
    envelope: bytes = field(repr=False)
    credential: bytes = field(default=b"", repr=False)
    proof: bytes = field(default=b"", repr=False)

    def __init__(self, id: bytes, envelope: bytes, credential: bytes = b"", proof: bytes = b"") -> None:  # noqa: A002
        # One is made for every device of every call. What `dataclass` writes for a frozen class takes thrice as long.
        fields = self.__dict__
        fields["id"], fields["envelope"], fields["credential"], fields["proof"] = id, envelope, credential, proof


@dataclass(frozen=True)
class Redemption:
    """A ticket, as its file holds it, and the device's secret (32 bytes; never printed) that it is redeemed by."""

    ticket: bytes = field(repr=False)
    device_key: bytes = field(repr=False)


class KeyState(StrEnum):
    """The state of a key: PENDING → ACTIVE → RETIRED. The active one is used for what is new.

    A pending one is known to whoever has to check with it later; a retired one still checks, or opens, what is old.
    """

    PENDING = "pending"
    ACTIVE = "active"
    RETIRED = "retired"


class CredentialAction(StrEnum):
    """What the operator may do with what devices are admitted with."""

    STATUS = "status"
    PREPARE = "prepare"
    """Make a pending master key, where there is none."""
    ACTIVATE = "activate"
    """Make the pending key the active one, which retires the one before."""
    FORGET = "forget"
    """Destroy the retired keys; devices that had theirs from one redeem their tickets again, by themselves."""
    REVOKE = "revoke"
    """Admit these devices no more."""


@dataclass(frozen=True)
class MasterKey:
    """What the operator sees of a master key: generation, state, since when (seconds since 1970), 16 hex digits."""

    generation: int
    state: KeyState
    since: int
    fingerprint: str


@dataclass(frozen=True)
class CredentialStatus:
    """How enrollment stands: the master keys, oldest first, tickets redeemed, devices revoked."""

    keys: tuple[MasterKey, ...]
    redeemed: int
    revoked: int


@dataclass(frozen=True, init=False)
class Receipt:
    """The shuffler's confirmation that a submission is on disk; a retry gets the same one as the first call."""

    submission_id: bytes = field(repr=False)
    round: int

    def __init__(self, submission_id: bytes, round: int) -> None:  # noqa: A002
        # As a `Submission` is made, and as often.
        fields = self.__dict__
        fields["submission_id"], fields["round"] = submission_id, round


Answer = Receipt | Refusal
"""What the shuffler answers to a submission."""


class RoundState(StrEnum):
    """The state of a round: OPEN → CUT → MIXED → RELEASED → ERASED, or EXPIRED where it was under the minimum."""

    OPEN = "open"
    CUT = "cut"
    MIXED = "mixed"
    RELEASED = "released"
    ERASED = "erased"
    EXPIRED = "expired"


@dataclass(frozen=True)
class RoundStatus:
    """A round as the operator sees it: submissions acknowledged, refusals by reason, and what it waits for."""

    task_id: bytes
    round: int
    state: RoundState
    submissions: int
    minimum_reports: int
    refusals: Mapping[str, int]
    waiting_for: str


@dataclass(frozen=True)
class Incident:
    """Something that holds a service up: what is wrong and what to do, and how often it was met since (in seconds)."""

    kind: str
    text: str
    since: float
    count: int


@dataclass(frozen=True)
class IncidentReport:
    """What holds a service up at this moment, and how many lines of its log were lost since it started."""

    incidents: tuple[Incident, ...] = ()
    log_lines_lost: int = 0


@dataclass(frozen=True)
class Envelopes:
    """Consecutive envelopes of a batch, the first of them at `offset`."""

    batch: BatchId
    offset: int
    envelopes: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True)
class Committed:
    """The analyzer's confirmation that a batch is counted: how many reports were, and how many were left out, why."""

    counted: int
    left_out: Mapping[str, int]
