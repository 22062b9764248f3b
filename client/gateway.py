"""Gateway: carries the sealed submissions of many devices to the shuffler, and brings back what became of each.

The devices need not trust it with their answers: those are randomized and sealed where they are given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from hubbub.client.session.batching import PER_CALL, most_per_call, stretches
from hubbub.client.session.sealed_submission import Ending, Outcome, Parcel
from hubbub.client.session.trust import checked_shuffler, trusted_authority
from hubbub.client.submit import Link, Pacing, submit_batch
from hubbub.client.validation import checked_type
from hubbub.protos.errors import MessageError, Unreachable, UsageError
from hubbub.protos.messages import Answer, Receipt
from hubbub.protos.refusals import TRANSIENT, Refusal
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.transport.channels import TLS

MOST_PARCELS = 100_000
"""Parcels in one `carry`: all of them, and what became of them, are in memory at once."""

Shape = tuple[Destination, int, int, int]
"""What parcels of one call have in common: the destination; lengths of envelope, credential and proof in bytes."""


class Gateway:
    """Carries parcels, which devices make with `Device.prepare`, in few calls; takes no answers and opens nothing.

    It sees what the wire inside TLS shows: when a device handed it a parcel and whatever the way there tells of it, the
    task, round and keys, and of each submission a random id, the device's credential (the same in each round) and
    proof, and sealed bytes whose length is the task's. It cannot open, change or make a submission, or send one twice
    so that it counts twice. It can lose parcels, hold them back, and lie about what became of them: a device that
    is told of a receipt that never was, or of a refusal for good, sends nothing more for that round.

    It keeps nothing, on disk or in memory: a device keeps its submission until it settles an outcome, so parcels that
    were lost with a gateway are prepared again, with the same bytes, and count once.

    Args:
        shuffler: host:port, or https://host:port; several, with commas between them, where any will do.
        authority: the authority of the shuffler's TLS certificate, a PEM file or its bytes. It is read at once.
        pacing: how long to try each call, with which clock, pauses and jitter.

    Raises:
        UsageError: where an argument is of another type, or `shuffler` is not host:port.
        AuthorityError: where the authority cannot be read.
    """

    def __init__(self, *, shuffler: str, authority: Path | bytes, pacing: Pacing | None = None) -> None:
        self._pacing = Pacing() if pacing is None else checked_type(pacing, Pacing, "pacing", "a Pacing(…), or None")
        address, tls = checked_shuffler(shuffler), TLS(trusted_authority(authority), None, None)
        self._new_link: Callable[[], Link] = lambda: Link(address, tls)
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

    async def carry(self, parcels: Iterable[Parcel], *, per_call: int | None = None, calls: int = 8) -> list[Outcome]:
        """Send parcels of any tasks and rounds; return what became of each, in their order.

        At most `per_call` go in one call, 100 by default, or fewer where those do not fit, and at most `calls` calls
        are made at a time. Parcels of another shape than their neighbours' go in calls of their own, so that one
        which spoils a call spoils none of theirs.

        Raises:
            UsageError: for what is not a parcel, too many of them, or sizes that cannot be; nothing was sent.
        """
        given = [checked_type(each, Parcel, "a parcel", "what Device.prepare() returns") for each in parcels]
        per_call = PER_CALL if per_call is None else per_call
        if len(given) > MOST_PARCELS or per_call < 1 or calls < 1:
            raise UsageError(
                f"{len(given)} parcels, {per_call} a call, {calls} calls at a time; take at most {MOST_PARCELS} "
                "parcels, and 1 or more of the others"
            )
        places: dict[Shape, list[int]] = {}
        for place, parcel in enumerate(given):
            places.setdefault(_shape(parcel), []).append(place)
        outcomes: dict[int, Outcome] = {}
        slots = asyncio.Semaphore(calls)

        async def load(to: Destination, stretch: Sequence[int]) -> None:
            async with slots:
                found = await self._sent(to, [given[place] for place in stretch])
            outcomes.update(zip(stretch, found, strict=True))

        async with asyncio.TaskGroup() as group:
            for shape, of_shape in places.items():
                for stretch in stretches(of_shape, min(per_call, most_per_call(shape[1]))):
                    group.create_task(load(shape[0], stretch))
        return [outcomes[place] for place in range(len(given))]

    async def _sent(self, to: Destination, parcels: Sequence[Parcel]) -> list[Outcome]:
        submissions = [parcel.submission for parcel in parcels]
        try:
            answers = await submit_batch(self._link.caller, to, submissions, self._pacing)
        except (Unreachable, MessageError) as error:
            # An answer that cannot be right acknowledges nothing.
            return [Outcome(to, one.id, Ending.TRY_AGAIN, None, str(error)) for one in submissions]
        return [_outcome(to, one.id, answer) for one, answer in zip(submissions, answers, strict=True)]


def _shape(parcel: Parcel) -> Shape:
    one = parcel.submission
    return parcel.destination, len(one.envelope), len(one.credential), len(one.proof)


def _outcome(to: Destination, submission_id: bytes, answer: Answer) -> Outcome:
    if isinstance(answer, Receipt):
        return Outcome(to, submission_id, Ending.ACKNOWLEDGED)
    return _refused(to, submission_id, answer)


def _refused(to: Destination, submission_id: bytes, refusal: Refusal) -> Outcome:
    if refusal.reason in TRANSIENT:
        return Outcome(to, submission_id, Ending.TRY_AGAIN, None, refusal.message)
    return Outcome(to, submission_id, Ending.REFUSED, refusal.reason, refusal.message)
