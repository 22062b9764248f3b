"""Erases submissions from the state file, and counts those of rounds that are forgotten."""

from __future__ import annotations

import sqlite3

from hubbub.client.state.records import ERASED_HERE


def erase_submissions(connection: sqlite3.Connection, device: str, which: str) -> None:
    """Erase the device's submissions that satisfy a condition in SQL."""
    # Reports that were never sealed never left the device: the round may still be answered. A sealed submission may
    # have been sent, so its row stays and marks the round as answered.
    connection.execute(f"DELETE FROM submission WHERE device = ? AND reports IS NOT NULL AND {which}", (device,))  # noqa: S608
    connection.execute(
        f"UPDATE submission SET id = zeroblob(16), envelope = NULL, outcome = ? WHERE device = ? AND {which}",  # noqa: S608
        (ERASED_HERE, device),
    )


COUNT_OVER = """
INSERT INTO history (task, device, answered, sealed, expired)
SELECT round.task, submission.device, count(*), sum(submission.sealed), sum(submission.outcome IS NULL)
FROM submission JOIN round ON submission.round = round.key WHERE round.over_at < ? GROUP BY 1, 2
ON CONFLICT DO UPDATE SET
answered = answered + excluded.answered, sealed = sealed + excluded.sealed, expired = expired + excluded.expired
"""
"""Counts the submissions of rounds that are about to be forgotten."""
