"""Carries the sealed submissions of many devices to the shuffler, and returns the outcome of each.

The devices need not trust it with their answers: each device randomizes and seals its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from hubbub.client.session.batching import PER_CALL, chunks, most_per_call
from hubbub.client.session.sealed_submission import Ending, Outcome, SealedSubmission
from hubbub.client.session.trust import checked_shuffler, named_proxy, trusted_authority
from hubbub.client.settings import GatewayArguments, arguments_from
from hubbub.client.submit import Retrying, ShufflerLink, submit_batch
from hubbub.client.validation import NotCopied, checked_many, checked_type, checked_whole
from hubbub.protos.errors import MessageError, Unreachable, UsageError
from hubbub.protos.messages import Answer, Receipt
from hubbub.protos.refusals import TRANSIENT, Refusal
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.host_process import checked_host

MOST_SUBMISSIONS = 100_000
"""Most sealed submissions in one `carry`: all of them, and their outcomes, are in memory at once."""

Shape = tuple[Destination, int, int, int]
"""The properties that all sealed submissions of one call share: the destination; lengths of envelope, credential and
proof in bytes."""


class Gateway(NotCopied):
    """Carries sealed submissions, which devices make with `Device.prepare`, in few calls.

    It takes no answers and opens no submission.

    It sees everything that the wire inside TLS shows. It sees when a device handed it a sealed submission, and what the
    route to the gateway reveals about the device. It sees the task, round and keys. Of each submission it sees a random
    id, the device's credential (the same in each round) and proof, and sealed bytes whose length depends on the task
    only.

    It cannot open, change or make a submission, or send one twice so that it counts twice. It can lose or delay sealed
    submissions, and lie about their outcomes. A device that gets a false receipt, or a false refusal for good, sends
    nothing more for that round.

    It keeps nothing, on disk or in memory. A device keeps its submission until it settles an outcome. If a gateway
    loses sealed submissions, the devices prepare them again, with the same bytes, and they count once.

    Args:
        shuffler: host:port, or https://host:port. Give several with commas between them if any of them will do.
        authority: the authority of the shuffler's TLS certificate, as a PEM file (a Path) or its bytes. It is read at
            once.
        proxy: http://host:port of a proxy, as `Device` takes it.
        retrying: how long to try each call, with which clock, pauses and jitter.

    Raises:
        UsageError: if an argument has the wrong type, or `shuffler` is not host:port.
        AuthorityError: if the authority cannot be read.
    """

    def __init__(
        self,
        *,
        shuffler: str,
        authority: Path | bytes,
        proxy: str | None = None,
        retrying: Retrying | None = None,
    ) -> None:
        checked_host()
        self._retrying = (
            Retrying() if retrying is None else checked_type(retrying, Retrying, "retrying", "a Retrying(…), or None")
        )
        self._address = checked_shuffler(shuffler)
        address, tls = self._address, TLS(trusted_authority(authority), proxy=named_proxy(proxy))
        self._new_link: Callable[[], ShufflerLink] = lambda: ShufflerLink(address, tls)
        self._link = self._new_link()

    @classmethod
    def from_settings(
        cls,
        file: Path | str | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        **arguments: Unpack[GatewayArguments],
    ) -> Self:
        """Make a gateway from arguments, variables and a settings file, as `Device.from_settings` does.

        Of the settings it uses `shuffler`, `authority`, `proxy` and `timeout`.

        Raises:
            SettingsError, UsageError: as `Device.from_settings` does; and what `Gateway` raises.
        """
        return cls(**arguments_from(GatewayArguments, file, environment, arguments))

    def __repr__(self) -> str:
        """Return the shuffler that it carries to."""
        return f"Gateway(shuffler={self._address!r})"

    async def __aenter__(self) -> Self:
        await self._link.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._link.__aexit__(kind, error, trace)

    async def close(self) -> None:
        """Close this event loop's connection; the next use opens it again."""
        await self._link.close()

    async def carry(
        self, sealed_submissions: Iterable[SealedSubmission], *, per_call: int | None = None, calls: int = 8
    ) -> list[Outcome]:
        """Send sealed submissions of any tasks and rounds; return the outcome of each, in their order.

        At most `per_call` go in one call, 100 by default, or fewer if those do not fit. At most `calls` calls are made
        at a time. Sealed submissions that differ in destination or lengths go in separate calls, so that a malformed
        one spoils none of the others.

        Raises:
            UsageError: if an element is not a sealed submission, there are too many of them, `per_call` or `calls` is
                below 1, or the process cannot run a client; nothing was sent.
        """
        checked_host()
        checked_many(sealed_submissions, "sealed_submissions", "a list of what Device.prepare() returns")
        given = [
            checked_type(each, SealedSubmission, "a sealed submission", "what Device.prepare() returns")
            for each in sealed_submissions
        ]
        per_call = PER_CALL if per_call is None else checked_whole(per_call, "per_call")
        if len(given) > MOST_SUBMISSIONS or per_call < 1 or checked_whole(calls, "calls") < 1:
            raise UsageError(
                f"got {len(given)} sealed submissions, per_call {per_call} and calls {calls}; give at most "
                f"{MOST_SUBMISSIONS} "
                "sealed submissions, and per_call and calls of 1 or more"
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
            # A malformed answer acknowledges nothing.
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
