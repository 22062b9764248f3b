"""Seal: makes a submission of reports. Each is sealed to the analyzer, and all of them together to the shuffler."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.envelope import SUBMISSION_ID_BYTES, Sealer
from hubbub.protos.messages import Submission
from hubbub.queries.draws import Random


def seal(sealer: Sealer, reports: Sequence[bytes], random: Random) -> Submission:
    """Return a submission under a fresh random id (16 bytes); `reports` are in the order of the task's queries."""
    # The id lets the shuffler recognize a retry. It is fresh and random, so it says nothing about the device.
    submission_id = random(SUBMISSION_ID_BYTES)
    inners = [sealer.inner(report, query) for query, report in enumerate(reports)]
    return Submission(submission_id, sealer.outer(inners, submission_id))
