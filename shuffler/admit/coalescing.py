"""Joins calls of one submission each, so that they are answered as if one call had brought them all.

They share the costs of a call other than its envelope: finding the round, the checks, a store job, an opener.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from hubbub.protos.messages import Answer, Submission
from hubbub.protos.sealing.envelope import Destination

COALESCE_SECONDS = 0.01
"""How long calls gather while others are in work; about as long as those take. A call that comes alone goes at once."""

COALESCE_FEWEST, COALESCE_MOST = 25, 100
"""This many calls go without waiting for more. At the latter number, the shared cost is small enough."""

GROUPS = 4
"""Between the two numbers, a fourth of all calls under way are joined. Otherwise a caller with that many calls, which
waits for the answers, would run in lockstep with the service: its one group would be coalesced, opened or written while
everything else is idle."""

AnswerAll = Callable[[Destination, Sequence[Submission]], Awaitable[list[Answer]]]
"""Answers the submissions of one call, in order."""

_Caller = tuple[Submission, "asyncio.Future[Answer]"]


class Coalescer:
    """Passes calls that come together to `answer_all`, in one call for each destination."""

    def __init__(self, answer_all: AnswerAll, seconds: float = COALESCE_SECONDS) -> None:
        self._answer_all = answer_all
        self._seconds = seconds
        self._coalesced: dict[Destination, list[_Caller]] = {}
        self._count = self._unanswered = 0
        self._beginning: asyncio.TimerHandle | None = None
        self._in_work: set[asyncio.Task[None]] = set()

    async def answer(self, destination: Destination, submission: Submission) -> Answer:
        """Answer a submission together with others that arrive meanwhile; a failure fails all of them."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer] = loop.create_future()
        if self._beginning is None:
            # A delay of 0 still runs after the event loop's current work, so that calls of one moment are joined.
            self._beginning = loop.call_later(self._seconds if self._in_work else 0.0, self._begin)
        self._coalesced.setdefault(destination, []).append((submission, answered))
        self._count += 1
        self._unanswered += 1
        if self._count >= min(COALESCE_MOST, max(COALESCE_FEWEST, self._unanswered // GROUPS)):
            self._begin()
        return await answered

    def _begin(self) -> None:
        if self._beginning is not None:
            self._beginning.cancel()
        coalesced, self._coalesced, self._count, self._beginning = self._coalesced, {}, 0, None
        for destination, callers in coalesced.items():
            work = asyncio.create_task(self._work(destination, callers))
            self._in_work.add(work)
            work.add_done_callback(self._in_work.discard)

    async def _work(self, destination: Destination, callers: Sequence[_Caller]) -> None:
        try:
            answers = await self._answer_all(destination, [submission for submission, _answered in callers])
            # A list, so that a wrong number of answers fails all callers before any gets one.
            for (_submission, answered), answer in list(zip(callers, answers, strict=True)):
                # A caller that is gone gets no answer. Its submission is stored all the same, and a retry gets the
                # receipt.
                if not answered.done():
                    answered.set_result(answer)
        except Exception as error:
            _fail([answered for _submission, answered in callers if not answered.done()], error)
        finally:
            # A caller that still waits here means cancellation: the opening processes are being stopped.
            self._unanswered -= len(callers)
            for _submission, answered in callers:
                answered.cancel()


def _fail(waiting: Sequence[asyncio.Future[Answer]], error: Exception) -> None:
    """Give the error to the first caller, and a reference to it to the others, so that it is logged once."""
    for number, answered in enumerate(waiting):
        answered.set_exception(RuntimeError(f"failed with {len(waiting) - 1} others: {error}") if number else error)
