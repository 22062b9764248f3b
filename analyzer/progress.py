"""Describes the progress of each round at the analyzer, and what it waits for, in words."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from hubbub.accountant.certificate.terms import QueryCount
from hubbub.analyzer.records import BatchProgress, RoundProgress
from hubbub.protos.messages import Committed
from hubbub.protos.records.results import AnalysisStage, AnalyzerRoundStatus, QueryStatus
from hubbub.protos.task.schedule import at
from hubbub.protos.task.task import Task


@dataclass(frozen=True)
class Obstacles:
    """Obstacles at the analyzer itself that delay its rounds; the shuffler causes none of them."""

    served: Container[bytes]
    """Ids of the tasks whose batches are accepted; the store may have rounds of others."""

    store_with_incidents: bool
    failures: Mapping[tuple[bytes, int], str]
    """Why rounds could not be certified, by task id and round."""
    awaited: Mapping[tuple[bytes, int], Sequence[int]] = field(default_factory=dict)
    """The earlier released rounds that a round waits for, by task id and round."""


def progress_of(progress: RoundProgress) -> AnalysisStage:
    """Return the stage that a round has reached."""
    if progress.is_certified:
        return AnalysisStage.CERTIFIED
    committed = [batch for batch in progress.batches if batch.committed is not None]
    if len(committed) == progress.queries:
        return AnalysisStage.COUNTED
    if not progress.has_key:
        return AnalysisStage.OVER
    return AnalysisStage.DELIVERING if progress.batches else AnalysisStage.AWAITED


def status_of(progress: RoundProgress, task: Task, obstacles: Obstacles) -> AnalyzerRoundStatus:
    """Return the status of a round of a task, as the operator sees it."""
    queries = tuple(_query_status(task.queries[batch.query].name, batch) for batch in progress.batches)
    return AnalyzerRoundStatus(progress.id, progress_of(progress), queries, _waiting_for(progress, task, obstacles))


def counted(task: Task, rounds: Sequence[RoundProgress]) -> list[tuple[int, QueryCount]]:
    """Return the counted batches of these rounds of a task, each with its round, as the ledger takes them."""
    return [
        (progress.id.round, _query_count(task, batch, batch.committed))
        for progress in rounds
        for batch in progress.batches
        if batch.committed is not None
    ]


def _query_count(task: Task, batch: BatchProgress, committed: Committed) -> QueryCount:
    query = task.queries[batch.query]
    return QueryCount(query.name, query.mechanism, batch.reports, committed.counted, committed.left_out)


def _waiting_for(progress: RoundProgress, task: Task, obstacles: Obstacles) -> str:
    match progress_of(progress):
        case AnalysisStage.CERTIFIED:
            return "nothing"
        case AnalysisStage.OVER:
            return f"nothing, {_OVER}"
        case AnalysisStage.COUNTED:
            key = task.id, progress.id.round
            failure = obstacles.failures.get(key)
            return f"its certificate, which failed: {failure}" if failure else f"its certificate{_held(key, obstacles)}"
        case AnalysisStage.AWAITED if task.id in obstacles.served:
            return f"{_delivery(task, progress.id.round)}{_store(obstacles)}"
        case _:
            return _missing(progress.batches, task, obstacles)


def _delivery(task: Task, number: int) -> str:
    """Describe the delivery of a round of which nothing arrived: it may be before its opening."""
    or_before = " or before" if task.schedule.close == "operator" else ""
    return f"its delivery by the shuffler, which cuts it at {at(task.schedule.cut(number))}{or_before}"


_OVER = "its key was destroyed: no batch came in time, or it was beyond the budget"


def missing(progress: RoundProgress | None, task: Task, obstacles: Obstacles) -> str:
    """Return why a round has no results: its uncounted queries and their progress. `progress` is None without a key."""
    if progress is None:
        return _missing((), task, obstacles)
    if progress_of(progress) is AnalysisStage.OVER:
        return _OVER
    if progress_of(progress) in (AnalysisStage.COUNTED, AnalysisStage.CERTIFIED):
        held = _held((task.id, progress.id.round), obstacles)
        return f"all batches are counted and the certificate is being made{held}"
    return _missing(progress.batches, task, obstacles)


def _missing(batches: Sequence[BatchProgress], task: Task, obstacles: Obstacles) -> str:
    if task.id not in obstacles.served:
        return "its task, which is no longer among this analyzer's tasks"
    known = {batch.query: batch for batch in batches}
    waiting = [
        f"{query.name}: {_how_far(known.get(index))}"
        for index, query in enumerate(task.queries)
        if index not in known or known[index].committed is None
    ]
    return f"{'; '.join(waiting)}{_store(obstacles)}"


def _held(round_: tuple[bytes, int], obstacles: Obstacles) -> str:
    """Return which rounds a certificate waits for, and whether the store takes nothing."""
    awaited = obstacles.awaited.get(round_, ())
    before = f" once round {', '.join(map(str, awaited))} is counted, released before it" if awaited else ""
    return f"{before}{_store(obstacles)}"


def _store(obstacles: Obstacles) -> str:
    return "; the store takes nothing now" if obstacles.store_with_incidents else ""


def _how_far(batch: BatchProgress | None) -> str:
    if batch is None:
        return "the shuffler has delivered nothing"
    if batch.arrived < batch.envelopes:
        return f"{batch.arrived} of {batch.envelopes} reports arrived"
    return f"all {batch.envelopes} reports arrived and are being counted"


def _query_status(name: str, batch: BatchProgress) -> QueryStatus:
    valid, left_out = (None, {}) if batch.committed is None else (batch.committed.counted, batch.committed.left_out)
    return QueryStatus(name, batch.reports, batch.envelopes, batch.arrived, valid, left_out)
