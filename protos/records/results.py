"""Defines the published results of a round, as values that are sent and printed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from hubbub.protos.escaping import hex_repr
from hubbub.queries.estimation.estimates import Estimates


class QueryState(StrEnum):
    """Whether a query's estimate is published; it is withheld if too few valid reports are left for the minimum."""

    PUBLISHED = "published"
    WITHHELD = "withheld"


class AnalysisStage(StrEnum):
    """A round's state at the analyzer: AWAITED → DELIVERING → COUNTED → CERTIFIED, or OVER without a result."""

    AWAITED = "awaited"
    """The round's key exists; no batch was announced yet."""
    DELIVERING = "delivering"
    COUNTED = "counted"
    """All batches are counted; the certificate is still to be made."""
    CERTIFIED = "certified"
    OVER = "over"
    """The round's key was destroyed before all was counted: no batch came in time, or it was beyond the budget."""


_ID = re.compile("[0-9a-f]{8,64}")
"""A task's id in hex, or the beginning of one: 8 digits or more name a task, such as the 12 of `hubbub status`."""


def is_id(word: str) -> bool:
    """Return whether a word may be a task's id in hex, or the beginning of one."""
    return _ID.fullmatch(word) is not None


def is_task(word: str, task_id: bytes, name: str | None = None) -> bool:
    """Return whether a word names a task: by its name, if that is known, or by 8 digits or more of its id."""
    return word == name or (is_id(word) and task_id.hex().startswith(word))


@dataclass(frozen=True)
class RoundId:
    """A round of a task: the task's id (32 bytes) and name, and the round's number."""

    __repr__ = hex_repr

    task_id: bytes
    task_name: str
    round: int


@dataclass(frozen=True)
class QueryResult:
    """One query of one round: reports delivered, reports counted, reports left out by reason, and the estimates.

    `estimates` is None if the query is withheld. `counts` are their source, in the form of `Tally.written`, including
    dummies; empty if the query is withheld, or if the estimates' table has the same bytes. If the question is over
    time, the estimates also depend on the counts of the earlier `rounds`.
    """

    __repr__ = hex_repr

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
        """The source of the estimates, from `counts` or the table; empty if the query is withheld."""
        return self.counts or (b"" if self.estimates is None else self.estimates.table)


@dataclass(frozen=True)
class SumResult:
    """The sum and the mean of a number that is asked by digits, from all batches of its `queries`.

    `estimates` is None if it is withheld: if a digit's query is, so is the sum.
    """

    name: str
    queries: tuple[str, ...]
    estimates: Estimates | None

    @property
    def state(self) -> QueryState:
        """Whether the sum is published."""
        return QueryState.WITHHELD if self.estimates is None else QueryState.PUBLISHED


@dataclass(frozen=True)
class RoundResults:
    """All queries of a round with the certificate's bytes, and the sums of the numbers that are asked by digits."""

    __repr__ = hex_repr

    id: RoundId
    queries: tuple[QueryResult, ...]
    certificate: bytes
    sums: tuple[SumResult, ...] = ()


@dataclass(frozen=True)
class QueryStatus:
    """A batch's progress for the operator: its devices' reports, its envelopes including dummies, and those arrived.

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
    """A round's progress at the analyzer: the batches announced so far, and the step that it waits for."""

    id: RoundId
    progress: AnalysisStage
    queries: tuple[QueryStatus, ...]
    waiting_for: str
