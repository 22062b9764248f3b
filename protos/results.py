"""Results: what the analyzer publishes of a round, as values that travel and are printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from hubbub.queries.rows import Estimates


class QueryState(StrEnum):
    """Whether a query's estimate is published; withheld where fewer valid reports than the minimum were left."""

    PUBLISHED = "published"
    WITHHELD = "withheld"


class Progress(StrEnum):
    """Where a round stands at the analyzer: AWAITED → DELIVERING → COUNTED → CERTIFIED, or OVER without a result."""

    AWAITED = "awaited"
    """Its key was made; nothing was announced yet."""
    DELIVERING = "delivering"
    COUNTED = "counted"
    """All batches are counted, the certificate is not made."""
    CERTIFIED = "certified"
    OVER = "over"
    """Its key was destroyed before all was counted: nothing came in time, or it was beyond the budget."""


@dataclass(frozen=True)
class RoundId:
    """A round of a task: the task's id (32 bytes) and name, and the round's number."""

    task_id: bytes
    task_name: str
    round: int


@dataclass(frozen=True)
class QueryResult:
    """One query of one round: reports delivered, those counted, those left out by reason, and what is published."""

    name: str
    state: QueryState
    reports: int
    valid: int
    left_out: Mapping[str, int]
    estimates: Estimates | None


@dataclass(frozen=True)
class RoundResults:
    """All queries of a round with the certificate's bytes."""

    id: RoundId
    queries: tuple[QueryResult, ...]
    certificate: bytes


@dataclass(frozen=True)
class QueryStanding:
    """A batch as the operator sees it: reports of devices, envelopes (dummies too) and those that arrived, counts.

    `valid` is None until the batch is counted.
    """

    name: str
    reports: int
    envelopes: int
    arrived: int
    valid: int | None
    left_out: Mapping[str, int]


@dataclass(frozen=True)
class RoundStanding:
    """A round at the analyzer as the operator sees it, the batches that were announced, and what it waits for."""

    id: RoundId
    progress: Progress
    queries: tuple[QueryStanding, ...]
    waiting_for: str
