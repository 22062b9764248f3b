"""The values that the analyzer's stages and its store exchange."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import Committed
from hubbub.protos.records.counts import Counted, CountsDiffer
from hubbub.protos.records.release_chain import Release
from hubbub.protos.records.results import RoundId
from hubbub.protos.task.task import Task
from hubbub.queries.randomizers.randomizer import tally_of
from hubbub.service.receiving.receiver import Delivery


@dataclass(frozen=True)
class ReceivedBatch(Delivery):
    """A batch as it is stored, with the counts of what its envelopes held once it is committed.

    `committed.counted` is the number n of valid reports of devices; `dummies` more are in `counts`. No sum of `counts`
    is a number of reports: a randomizer may count one report in many places. None if they were withheld.
    `attestation` is the analyzer's signature of all that was counted (`attestation`), made when it was committed.
    """

    counts: bytes | None
    attestation: bytes | None = None


def counted_of(task: Task, batch: ReceivedBatch) -> Counted:
    """Return what was counted of a committed batch of a task, in the shape that its certificate binds.

    Raises:
        HubbubError: if it is not committed.
        CountsDiffer: where its counts are no whole numbers, or its dummies not the task's.
    """
    if batch.committed is None:
        raise HubbubError(f"batch {batch.id.query} of round {batch.id.round} is not committed; the store was damaged")
    # Estimates are made of what is counted beside the dummies, so their number is no less bound than the counts.
    if batch.dummies != task.privacy.dummies:
        raise CountsDiffer(
            f"batch {batch.id.query} of round {batch.id.round}: {batch.dummies} dummies are stored, the task says "
            f"{task.privacy.dummies}"
        )
    facts = (batch.reports, batch.committed.counted, batch.committed.left_out)
    if batch.counts is None or batch.committed.counted < task.minimum_reports:
        return Counted(*facts, None)
    # Loaded when something was counted: a service that starts needs no numpy yet.
    import numpy as np

    if len(batch.counts) % 8:
        raise CountsDiffer(f"batch {batch.id.query} of round {batch.id.round}: its counts are cut short")
    counts = np.frombuffer(batch.counts, dtype="<i8").astype(np.int64)
    # The counts of a batch hold the dummies too, so its valid reports are theirs and the people's.
    valid = batch.committed.counted + task.privacy.dummies
    return Counted(*facts, tally_of(task.queries[batch.id.query].randomizer, counts, valid))


History = Sequence[tuple[int, Sequence[ReceivedBatch]]]
"""Rounds in order, each with its batches in the task's order of queries."""


@dataclass(frozen=True)
class Past:
    """What a round's certificate composes: the releases before it, and those of their rounds that were counted.

    `history` has these in the order of their release, the round itself last. `awaited` are the rounds released before
    it that may still be counted; the certificate waits for them. Of all others nothing ever will be.
    """

    releases: Sequence[Release]
    history: History
    awaited: Sequence[int] = ()

    @property
    def uncounted(self) -> list[int]:
        """The rounds that were released before it and never counted."""
        counted = {number for number, _ in self.history}
        return [release.round for release in self.releases if release.round not in counted]


@dataclass(frozen=True)
class BatchProgress:
    """How far a batch is: the reports it has, those of its envelopes that arrived, and what was counted."""

    query: int
    reports: int
    envelopes: int
    arrived: int
    committed: Committed | None


@dataclass(frozen=True)
class RoundProgress:
    """How far a round is, with the batches that were announced in the task's order of queries."""

    id: RoundId
    queries: int
    has_key: bool
    is_certified: bool
    batches: tuple[BatchProgress, ...]
