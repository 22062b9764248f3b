"""Finds the rounds that were released before a round, from a store's data inside one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from hubbub.accountant.numbers import honest_reports
from hubbub.analyzer.records import Past, ReceivedBatch
from hubbub.protos.errors import HubbubError
from hubbub.protos.records.release_chain import Known, Release
from hubbub.protos.task.signed_task import SignedTask


class ReleasedRounds(Protocol):
    """A store's data on a task's rounds in one transaction."""

    def counted_of(self, task_id: bytes) -> set[int]:
        """Return the rounds of a task whose batches are all counted."""

    def batches(self, task_id: bytes, round_number: int) -> list[ReceivedBatch]:
        """Return a round's announced batches, in the task's order of queries."""

    def is_over(self, task_id: bytes, round_number: int) -> bool:
        """Return whether a round's key was destroyed: its uncounted batches will never be counted."""


def known(rounds: ReleasedRounds, task_id: bytes, releases: Iterable[Release], last: tuple[int, bytes]) -> Known:
    """Return the number of stored releases of a task, their head, and the released rounds that are not counted."""
    whole = rounds.counted_of(task_id)
    return Known(*last, tuple(release.round for release in releases if release.round not in whole))


def past(rounds: ReleasedRounds, task_id: bytes, releases: Sequence[Release], round_number: int) -> Past:
    """Return the rounds that a round's certificate composes, by the releases of its task.

    Raises:
        HubbubError: if the round is not among them.
    """
    numbers = [release.round for release in releases]
    if round_number not in numbers:
        raise HubbubError(
            f"round {round_number} was counted, but is not among the releases; the store was damaged "
            "(docs/howto/respond-to-incidents.md, A store was damaged or lost)"
        )
    before = releases[: numbers.index(round_number)]
    whole = rounds.counted_of(task_id)
    counted = [release.round for release in before if release.round in whole]
    history = [(number, rounds.batches(task_id, number)) for number in (*counted, round_number)]
    others = [release.round for release in before if release.round not in whole]
    return Past(tuple(before), history, tuple(number for number in others if not rounds.is_over(task_id, number)))


def costs_no_more(signed: SignedTask | None, batches: Iterable[ReceivedBatch]) -> bool:
    """Return whether the counted batches of a late round cost no more than at the minimum, its cost if given up.

    Without its task this is unknown, so the round is kept.
    """
    if signed is None:
        return False
    least, share = signed.task.minimum_reports, signed.task.privacy.honest_share
    return all(
        honest_reports(batch.committed.counted, batch.reports, share) >= honest_reports(least, least, share)
        for batch in batches
        if batch.committed is not None
    )
