"""The counts of what became of the calls of a recorder."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RecorderCounts:
    """What became of the calls of `record` in this process.

    Attributes:
        calls: how many there were. Each is in one of the next eight counts, or `queued`.
        kept: stored as a round's answers. A round has one of these.
        repeated: for a round that was answered before; the first answers stand.
        no_round: when no round takes answers.
        bad_answer: that do not fit the task.
        opted_out: after the device opted out.
        over_limit: that would have spent more than the device's limits allow.
        dropped: because the queue was full, or the recorder closed.
        failed: because the state file could not be used.
        queued: not stored yet.
        acknowledged: rounds that the shuffler has acknowledged.
        refused: rounds that it refused for good.
    """

    calls: int = 0
    kept: int = 0
    repeated: int = 0
    no_round: int = 0
    bad_answer: int = 0
    opted_out: int = 0
    over_limit: int = 0
    dropped: int = 0
    failed: int = 0
    queued: int = 0
    acknowledged: int = 0
    refused: int = 0
