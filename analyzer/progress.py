"""Progress: how far each round is at the analyzer, and what it waits for, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hubbub.accountant.certificate.terms import QueryCount
from hubbub.analyzer.records import BatchProgress, RoundProgress
from hubbub.protos.messages import Committed
from hubbub.protos.results import Progress, QueryStanding, RoundStanding
from hubbub.protos.task import Task


def progress_of(progress: RoundProgress) -> Progress:
    """Return how far a round is."""
    if progress.is_certified:
        return Progress.CERTIFIED
    committed = [batch for batch in progress.batches if batch.committed is not None]
    if len(committed) == progress.queries:
        return Progress.COUNTED
    if not progress.has_key:
        return Progress.OVER
    return Progress.DELIVERING if progress.batches else Progress.AWAITED


def standing_of(progress: RoundProgress, task: Task, failures: Mapping[tuple[bytes, int], str]) -> RoundStanding:
    """Return a round of a task as the operator sees it; `failures` says why rounds could not be certified."""
    queries = tuple(_query_standing(task.queries[batch.query].name, batch) for batch in progress.batches)
    failure = failures.get((progress.id.task_id, progress.id.round))
    return RoundStanding(progress.id, progress_of(progress), queries, _waiting_for(progress, task, failure))


def counted(task: Task, rounds: Sequence[RoundProgress]) -> list[tuple[int, QueryCount]]:
    """Return the batches that are counted in these rounds of a task, each with its round, as its ledger takes them."""
    return [
        (progress.id.round, _query_count(task, batch, batch.committed))
        for progress in rounds
        for batch in progress.batches
        if batch.committed is not None
    ]


def _query_count(task: Task, batch: BatchProgress, committed: Committed) -> QueryCount:
    query = task.queries[batch.query]
    return QueryCount(query.name, query.mechanism, batch.reports, committed.counted, committed.left_out)


def _waiting_for(progress: RoundProgress, task: Task, failure: str | None) -> str:
    match progress_of(progress):
        case Progress.CERTIFIED:
            return "nothing"
        case Progress.OVER:
            return "nothing, its key was destroyed: no batch came in time, or it was beyond the budget"
        case Progress.COUNTED:
            return f"its certificate, which failed: {failure}" if failure else "its certificate"
        case _:
            return missing(task, {batch.query: batch for batch in progress.batches})


def missing(task: Task, batches: Mapping[int, BatchProgress]) -> str:
    """Say which queries of a round are not counted, and how far each is."""
    waiting = [
        f"{query.name}: {_how_far(batches.get(index))}"
        for index, query in enumerate(task.queries)
        if index not in batches or batches[index].committed is None
    ]
    return "; ".join(waiting) or "all batches are counted and the certificate is being made"


def _how_far(batch: BatchProgress | None) -> str:
    if batch is None:
        return "the shuffler has delivered nothing"
    if batch.arrived < batch.envelopes:
        return f"{batch.arrived} of {batch.envelopes} reports arrived"
    return f"all {batch.envelopes} reports arrived and are being counted"


def _query_standing(name: str, batch: BatchProgress) -> QueryStanding:
    valid, left_out = (None, {}) if batch.committed is None else (batch.committed.counted, batch.committed.left_out)
    return QueryStanding(name, batch.reports, batch.envelopes, batch.arrived, valid, left_out)
