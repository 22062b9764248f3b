"""What travels between the parties, as values; `codec` puts them into bytes and `wire` carries them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from hubbub.protos.batch import BatchId
from hubbub.protos.refusals import Refusal


@dataclass(frozen=True)
class Submission:
    """A sealed submission: its random id (16 bytes) and the outer envelope."""

    id: bytes
    envelope: bytes


@dataclass(frozen=True)
class Receipt:
    """The shuffler's word that a submission is on disk; the same for a retry as for the first time."""

    submission_id: bytes
    round: int


Answer = Receipt | Refusal
"""What a submission gets."""


class RoundState(StrEnum):
    """Where a round stands: OPEN → CUT → MIXED → RELEASED → ERASED, or EXPIRED where it was under the minimum."""

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
class Envelopes:
    """A stretch of a batch: its envelopes from `offset` on."""

    batch: BatchId
    offset: int
    envelopes: tuple[bytes, ...]


@dataclass(frozen=True)
class Committed:
    """The analyzer's word that a batch is counted: reports counted, and those left out by reason."""

    counted: int
    left_out: Mapping[str, int]
