"""What the analyzer publishes of a round, as values that travel and are printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from hubbub.queries.estimation.estimates import Estimates


class QueryState(StrEnum):
    """Whether a query's estimate is published; it is withheld where too few valid reports were left for the minimum."""

    PUBLISHED = "published"
    WITHHELD = "withheld"


class AnalysisStage(StrEnum):
    """A round's state at the analyzer: AWAITED → DELIVERING → COUNTED → CERTIFIED, or OVER without a result."""

    AWAITED = "awaited"
    """Its key was made; no batch was announced yet."""
    DELIVERING = "delivering"
    COUNTED = "counted"
    """All batches are counted; the certificate is still to be made."""
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
    """One query of one round: reports delivered, reports counted, reports left out by reason, and the estimates.

    `estimates` is None where the query is withheld. `counts` are what they follow from, as `Tally.written` writes them,
    dummies included; empty where it is withheld, and where the estimates' table is these very bytes. Where the question
    is over time they follow from those of the earlier `rounds` too.
    """

    name: str
    state: QueryState
    reports: int
    valid: int
    left_out: Mapping[str, int]
    estimates: Estimates | None
    counts: bytes = b""
    rounds: tuple[int, ...] = ()

    @property
    def tallied(self) -> bytes:
        """What the estimates follow from, in one place or the other; empty where it is withheld."""
        return self.counts or (b"" if self.estimates is None else self.estimates.table)


@dataclass(frozen=True)
class RoundResults:
    """All queries of a round with the certificate's bytes."""

    id: RoundId
    queries: tuple[QueryResult, ...]
    certificate: bytes


@dataclass(frozen=True)
class QueryStatus:
    """A batch's progress for the operator: its devices' reports, its envelopes with the dummies, how many arrived.

    `valid` is the number of valid reports, None until the batch is counted; `left_out` counts the others by reason.
    """

    name: str
    reports: int
    envelopes: int
    arrived: int
    valid: int | None
    left_out: Mapping[str, int]


@dataclass(frozen=True)
class AnalyzerRoundStatus:
    """A round's progress at the analyzer for the operator: the batches announced so far, and what it waits for."""

    id: RoundId
    progress: AnalysisStage
    queries: tuple[QueryStatus, ...]
    waiting_for: str
