"""Turns each symbol into a report, drawn from exactly the distribution that the certificate is computed for.

A report is drawn once; a retry sends the same report.
"""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.errors import HubbubError
from hubbub.protos.task.task import Task
from hubbub.queries.randomizers.sampling import Random


def randomize_all(task: Task, symbols: Sequence[int], random: Random) -> tuple[bytes, ...]:
    """Return one report per query, drawn independently; `symbols` are in the task's order.

    Raises:
        HubbubError: if a report does not have the one length of all its query's reports.
    """
    pairs = zip(task.queries, symbols, strict=True)
    reports = tuple(query.randomize(symbol, random) for query, symbol in pairs)
    for query, report in zip(task.queries, reports, strict=True):
        # Encryption does not hide lengths: an envelope of another length would identify its device.
        if len(report) != query.report_bytes:
            raise HubbubError(
                f"a report of {query.name} has {len(report)} bytes, but {query.report_bytes} are expected; nothing "
                "was sent, since the randomizer is at fault"
            )
    return reports
