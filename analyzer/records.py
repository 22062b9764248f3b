"""Values that the analyzer's stages and its store exchange."""

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
    """A batch as it is stored, with the counts of its reports once it is committed.

    `committed.counted` is the number n of valid reports of devices; `dummies` more are in `counts`. No sum of `counts`
    is a number of reports: a randomizer may count one report in many places. `counts` is None if they were withheld.
    `attestation` is the analyzer's signature of all counts (`attestation`), made at the commit.
    """

    counts: bytes | None
    attestation: bytes | None = None


def counted_of(task: Task, batch: ReceivedBatch) -> Counted:
    """Return the counts of a committed batch of a task, in the shape that its certificate binds.

    Raises:
        HubbubError: if the batch is not committed.
        CountsDiffer: if its counts are not whole numbers, or its number of dummies is not the task's.
    """
    if batch.committed is None:
        raise HubbubError(
            f"batch {batch.id.query} of round {batch.id.round} is not committed; the store was damaged "
            "(docs/howto/respond-to-incidents.md, A store was damaged or lost)"
        )
    # Estimates subtract the dummies, so their number is bound like the counts.
    differ = task.dummies_differ(batch.id.query, batch.dummies)
    if differ is not None:
        raise CountsDiffer(f"batch {batch.id.query} of round {batch.id.round}: {differ}")
    facts = (batch.reports, batch.committed.counted, batch.committed.left_out)
    noise = batch.dummies if task.queries[batch.id.query].noise is not None else 0
    if batch.counts is None or batch.committed.counted < task.minimum_reports:
        return Counted(*facts, None, noise)
    # Loaded only here: a service that starts needs no numpy yet.
    import numpy as np

    if len(batch.counts) % 8:
        raise CountsDiffer(f"batch {batch.id.query} of round {batch.id.round}: its counts are cut short")
    counts = np.frombuffer(batch.counts, dtype="<i8").astype(np.int64)
    # The counts of a batch include the dummies, so its valid reports are those of dummies and of people.
    valid = batch.committed.counted + batch.dummies
    return Counted(*facts, tally_of(task.queries[batch.id.query].randomizer, counts, valid), noise)


History = Sequence[tuple[int, Sequence[ReceivedBatch]]]
"""Rounds in order, each with its batches in the task's order of queries."""


@dataclass(frozen=True)
class Past:
    """The rounds that a round's certificate composes: the releases before it, and those rounds that were counted.

    `history` has the counted rounds in the order of their release, the certified round last. `awaited` are the rounds
    released before it that may still be counted; the certificate waits for them. All other rounds will never be
    counted.
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
    """The progress of a batch: its number of reports, its envelopes that arrived, and its counts."""

    query: int
    reports: int
    envelopes: int
    arrived: int
    committed: Committed | None


@dataclass(frozen=True)
class RoundProgress:
    """The progress of a round, with its announced batches in the task's order of queries."""

    id: RoundId
    queries: int
    has_key: bool
    is_certified: bool
    batches: tuple[BatchProgress, ...]
