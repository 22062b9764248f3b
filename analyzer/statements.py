"""Statements: committed batches as the accountant takes them, and what it says of them."""

from __future__ import annotations

from typing import Any

from hubbub.accountant.certificate.members import CERTIFICATE_FORMAT
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.analyzer.records import History, StoredBatch
from hubbub.protos.errors import HubbubError
from hubbub.protos.task import Task


def certificate_statement(task: Task, history: History) -> dict[str, Any]:
    """Return the members of the certificate for the last round of the history: its format and the accountant's numbers.

    Raises:
        AccountingError: where the accountant cannot say.
        HubbubError: where a batch is not committed.
    """
    counts = [RoundCounts(number, tuple(_query_count(task, batch) for batch in batches)) for number, batches in history]
    return {"format": CERTIFICATE_FORMAT, **statement(Terms.of(task), counts)}


def _query_count(task: Task, batch: StoredBatch) -> QueryCount:
    if batch.committed is None:
        raise HubbubError(f"batch {batch.id.query} of round {batch.id.round} is not committed; the store was damaged")
    query = task.queries[batch.id.query]
    return QueryCount(query.name, query.mechanism, batch.reports, batch.committed.counted, batch.committed.left_out)
