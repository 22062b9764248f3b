"""Shortfall: batches that hops passed on so little of, or so much that does not open, that no report can be counted.

A hop that lost its key passes nothing on, and one that does not do what it should passes on what it likes. Nothing
mends that later, so the round ends: it is given up, and stands at the minimum in the certificates of later rounds, as
one that was never counted. The minimum covers it: what hops passed on was made of the list that the first shuffler
permuted, at least the minimum and the dummies, and what is made of that list tells no more than the list. Where the
list was permuted by a later shuffler alone, the task has dummies that only the first one keeps to itself, on which its
certificates rest anyway (SECURITY.md, "With a chain of shufflers"), or nothing came at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hubbub.protos.batch import BatchId, BatchRecord
from hubbub.protos.messages import Committed
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task import Task, hop_name


def came_to_nothing(record: BatchRecord) -> bool:
    """Whether hops passed on no more envelopes than the batch has dummies: maybe not one device's report among them."""
    return bool(record.hops) and record.envelopes <= record.dummies


def passed_on(record: BatchRecord) -> str:
    """Say what each hop passed on."""
    said = [f"{hop_name(hop.place)} passed on {hop.released} of {hop.received} envelopes" for hop in record.hops]
    return ", ".join(said)


def uncountable(task: Task, what: str) -> str:
    """Say of what came of a batch that it is too little."""
    return f"{what}, and {task.privacy.dummies} of the batch are dummies: no report of a device can be counted"


def nothing_left(task: Task, batch: BatchId, why: str) -> Refusal:
    """Return the final refusal of a batch that comes to nothing."""
    name = f"query {task.queries[batch.query].name} of round {batch.round} of {task.name}"
    return Refusal(Reason.NOTHING_LEFT, f"{name}: {why}. The round is over")


def nothing_counted(reports: int, left_out: Mapping[str, int]) -> Committed:
    """Return what is counted of a batch that lacks dummies: nothing, and each of its `reports` is left out.

    `left_out` are the envelopes that were left out, by reason, more than the `reports`: how many more is how many of
    them were dummies. They are taken from the reason that most were left out for.
    """
    found = Counter(left_out)
    dummies = found.total() - reports
    for reason, count in found.most_common():
        taken = min(dummies, count)
        found[reason] -= taken
        dummies -= taken
    return Committed(0, dict(+found))
