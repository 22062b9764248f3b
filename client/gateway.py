"""Carries the sealed submissions of many devices to the shuffler, and brings back what became of each.

The devices need not trust it with their answers: those are randomized and sealed where they are given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from hubbub.client.session.batching import PER_CALL, chunks, most_per_call
from hubbub.client.session.sealed_submission import Ending, Outcome, SealedSubmission
from hubbub.client.session.trust import checked_shuffler, trusted_authority
from hubbub.client.submit import Retrying, ShufflerLink, submit_batch
from hubbub.client.validation import checked_type
from hubbub.protos.errors import MessageError, Unreachable, UsageError
from hubbub.protos.messages import Answer, Receipt
from hubbub.protos.refusals import TRANSIENT, Refusal
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.transport.channels import TLS

MOST_SUBMISSIONS = 100_000
"""Sealed submissions in one `carry`: all of them, and what became of them, are in memory at once."""

Shape = tuple[Destination, int, int, int]
"""What sealed submissions of one call have in common: the destination; lengths of envelope, credential and proof in
bytes."""


class Gateway:
    """Carries sealed submissions, which devices make with `Device.prepare`, in few calls.

    Takes no answers and opens nothing.

    It sees what the wire inside TLS shows: when a device handed it a sealed submission and whatever the way there tells
    of it, the task, round and keys, and of each submission a random id, the device's credential (the same in each
    round) and proof, and sealed bytes whose length is the task's. It cannot open, change or make a submission, or send
    one twice so that it counts twice. It can lose sealed submissions, hold them back, and lie about what became of
    them: a device that is told of a receipt that never was, or of a refusal for good, sends nothing more for that
    round.

    It keeps nothing, on disk or in memory: a device keeps its submission until it settles an outcome, so sealed
    submissions that were lost with a gateway are prepared again, with the same bytes, and count once.

    Args:
        shuffler: host:port, or https://host:port; several, with commas between them, where any will do.
        authority: the authority of the shuffler's TLS certificate, a PEM file or its bytes. It is read at once.
        retrying: how long to try each call, with which clock, pauses and jitter.

    Raises:
        UsageError: where an argument is of another type, or `shuffler` is not host:port.
        AuthorityError: where the authority cannot be read.
    """

    def __init__(self, *, shuffler: str, authority: Path | bytes, retrying: Retrying | None = None) -> None:
        self._retrying = (
            Retrying() if retrying is None else checked_type(retrying, Retrying, "retrying", "a Retrying(…), or None")
        )
        address, tls = checked_shuffler(shuffler), TLS(trusted_authority(authority), None, None)
        self._new_link: Callable[[], ShufflerLink] = lambda: ShufflerLink(address, tls)
        self._link = self._new_link()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; it is opened again where it is used again."""
        await self._link.close()

    async def carry(
        self, sealed_submissions: Iterable[SealedSubmission], *, per_call: int | None = None, calls: int = 8
    ) -> list[Outcome]:
        """Send sealed submissions of any tasks and rounds; return what became of each, in their order.

        At most `per_call` go in one call, 100 by default, or fewer where those do not fit, and at most `calls` calls
        are made at a time. Sealed submissions of another shape than their neighbours' go in calls of their own, so that
        one which spoils a call spoils none of theirs.

        Raises:
            UsageError: for what is not a sealed submission, too many of them, or sizes that cannot be; nothing was
            sent.
        """
        given = [
            checked_type(each, SealedSubmission, "a sealed submission", "what Device.prepare() returns")
            for each in sealed_submissions
        ]
        per_call = PER_CALL if per_call is None else per_call
        if len(given) > MOST_SUBMISSIONS or per_call < 1 or calls < 1:
            raise UsageError(
                f"{len(given)} sealed submissions, {per_call} a call, {calls} calls at a time; take at most "
                f"{MOST_SUBMISSIONS} "
                "sealed submissions, and 1 or more of the others"
            )
        places: dict[Shape, list[int]] = {}
        for place, sealed_submission in enumerate(given):
            places.setdefault(_shape(sealed_submission), []).append(place)
        outcomes: dict[int, Outcome] = {}
        slots = asyncio.Semaphore(calls)

        async def load(to: Destination, chunk: Sequence[int]) -> None:
            async with slots:
                found = await self._sent(to, [given[place] for place in chunk])
            outcomes.update(zip(chunk, found, strict=True))

        async with asyncio.TaskGroup() as group:
            for shape, of_shape in places.items():
                for chunk in chunks(of_shape, min(per_call, most_per_call(shape[1]))):
                    group.create_task(load(shape[0], chunk))
        return [outcomes[place] for place in range(len(given))]

    async def _sent(self, to: Destination, sealed_submissions: Sequence[SealedSubmission]) -> list[Outcome]:
        submissions = [sealed_submission.submission for sealed_submission in sealed_submissions]
        try:
            answers = await submit_batch(self._link.caller, to, submissions, self._retrying)
        except (Unreachable, MessageError) as error:
            # An answer that cannot be right acknowledges nothing.
            return [Outcome(to, one.id, Ending.TRY_AGAIN, None, str(error)) for one in submissions]
        return [_outcome(to, one.id, answer) for one, answer in zip(submissions, answers, strict=True)]


def _shape(sealed_submission: SealedSubmission) -> Shape:
    one = sealed_submission.submission
    return sealed_submission.destination, len(one.envelope), len(one.credential), len(one.proof)


def _outcome(to: Destination, submission_id: bytes, answer: Answer) -> Outcome:
    if isinstance(answer, Receipt):
        return Outcome(to, submission_id, Ending.ACKNOWLEDGED)
    return _refused(to, submission_id, answer)


def _refused(to: Destination, submission_id: bytes, refusal: Refusal) -> Outcome:
    if refusal.reason in TRANSIENT:
        return Outcome(to, submission_id, Ending.TRY_AGAIN, None, refusal.message)
    return Outcome(to, submission_id, Ending.REFUSED, refusal.reason, refusal.message)
