"""Converts committed batches for the accountant, and returns its members of the certificate."""

from __future__ import annotations

from typing import Any

from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.analyzer.records import Past, ReceivedBatch
from hubbub.protos.errors import HubbubError
from hubbub.protos.task.task import Task


def certificate_statement(task: Task, past: Past) -> dict[str, Any]:
    """Return the accountant's members of the certificate for the last round of a past.

    Raises:
        AccountingError: if the accountant cannot compute them.
        HubbubError: if a batch is not committed.
    """
    return statement(Terms.of(task), _rounds(task, past))


def _rounds(task: Task, past: Past) -> list[RoundCounts]:
    """Return the rounds to compose: every released one, in order; one that was never counted is at the minimum."""
    counted = [
        RoundCounts(number, tuple(_query_count(task, batch) for batch in batches)) for number, batches in past.history
    ]
    known = {counts.round: counts for counts in counted[:-1]}
    released = {release.round: release.reports for release in past.releases}
    for number in past.uncounted:
        known[number] = at_minimum(task, number, released[number])
    return [*(known[release.round] for release in past.releases), counted[-1]]


def at_minimum(task: Task, number: int, released: int) -> RoundCounts:
    """Return a round as both ledgers charge it: at the minimum. `released` is its actual number of reports."""
    least = task.minimum_reports
    queries = (QueryCount(each.name, each.mechanism, least, least, {}, released) for each in task.queries)
    return RoundCounts(number, tuple(queries))


def _query_count(task: Task, batch: ReceivedBatch) -> QueryCount:
    if batch.committed is None:
        raise HubbubError(
            f"batch {batch.id.query} of round {batch.id.round} is not committed; the store was damaged "
            "(docs/howto/respond-to-incidents.md, A store was damaged or lost)"
        )
    query = task.queries[batch.id.query]
    noise = 0 if query.noise is None else batch.dummies
    committed = batch.committed
    return QueryCount(query.name, query.mechanism, batch.reports, committed.counted, committed.left_out, noise=noise)
