"""The counts of a recorder's calls, by outcome."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RecorderCounts:
    """How many calls of `record` in this process had which outcome.

    Attributes:
        calls: all calls. Each is also in one of the next eight counts, or in `queued`.
        kept: calls whose answers were stored. A round has at most one.
        repeated: calls for a round that was answered before; the first answers count.
        no_round: calls while no round took answers, or after the shuffler had refused the round's first answers for
            good, so that it takes none any more.
        bad_answer: calls with answers that do not fit the task.
        opted_out: calls after the device opted out.
        over_limit: calls that would have spent more than the device's limits allow.
        dropped: calls while the queue was full or the recorder closed.
        failed: calls whose answers could not be stored: the state file could not be used, or the process cannot run
            a device.
        queued: calls whose answers are not stored yet.
        acknowledged: rounds that the shuffler has acknowledged.
        refused: rounds that the shuffler refused for good.
        expired: rounds that were over before the shuffler acknowledged or refused their answers, which were then
            erased. They include rounds that earlier runs answered; each is in the counts of one process.
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
    expired: int = 0
