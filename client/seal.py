"""Makes a submission from reports: seals each report to the analyzer, and all of them together to the shuffler."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.messages import Submission
from hubbub.protos.sealing.envelope import Sealer


def seal(sealer: Sealer, reports: Sequence[bytes], submission_id: bytes) -> Submission:
    """Return the submission with that id (16 bytes); `reports` are in the order of the task's queries."""
    inners = [sealer.inner(report, query) for query, report in enumerate(reports)]
    return Submission(submission_id, sealer.outer(inners, submission_id))
