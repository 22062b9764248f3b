"""Submits for many devices individually, each over its own connection with its own certificate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from hubbub.client import AnswerError, Device, Refusal, Summary
from hubbub.client.fleet import BAD_ANSWER
from hubbub.queries.questions.question import Value

AT_ONCE = 16
"""Devices that are connected at the same time."""


async def submit_individually(
    answers: Iterator[tuple[str, Mapping[str, Value]]],
    device: Callable[[str], Device],
    round_number: int | None,
    progress: Callable[[int], None],
) -> Summary:
    """Have each named device answer a round, the current one by default; return the counts.

    `progress` is called for each that is done.

    Raises:
        HubbubError: as `Device.submit`, apart from refusals and answers that do not fit, which are counted.
    """
    summary = Summary()

    async def work() -> None:
        # All tasks share one iterator, so each device is answered for once.
        for name, given in answers:
            async with device(name) as one:
                try:
                    await one.submit(given, round_number)
                    summary.accepted += 1
                except Refusal as refusal:
                    summary.refuse(refusal.reason.value, refusal.message, 1)
                except AnswerError as error:
                    summary.refuse(BAD_ANSWER, str(error), 1)
            progress(1)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work())
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return summary
