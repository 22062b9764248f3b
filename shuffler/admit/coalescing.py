"""Calls of one submission each are answered together, as if one call had brought them all.

What a call costs beside its envelope (finding the round, the checks, a job for the store, an opener) is shared then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from hubbub.protos.messages import Answer, Submission
from hubbub.protos.sealing.envelope import Destination

COALESCE_SECONDS = 0.01
"""How long calls gather while others are in work, about as long as those take. A call that comes alone goes at once."""

COALESCE_FEWEST, COALESCE_MOST = 25, 100
"""So many calls go without waiting for more: what they share is shared enough by the latter."""

GROUPS = 4
"""Between the two, a fourth of all calls on their way: who has so many at a time and waits for answers would else wait
in lockstep, as one group that is coalesced, opened or written while all else is idle."""

AnswerAll = Callable[[Destination, Sequence[Submission]], Awaitable[list[Answer]]]
"""Answers the submissions of one call, in order."""

_Caller = tuple[Submission, "asyncio.Future[Answer]"]


class Coalescer:
    """Brings what comes together before `answer_all`, a call for each destination."""

    def __init__(self, answer_all: AnswerAll, seconds: float = COALESCE_SECONDS) -> None:
        self._answer_all = answer_all
        self._seconds = seconds
        self._coalesced: dict[Destination, list[_Caller]] = {}
        self._count = self._unanswered = 0
        self._beginning: asyncio.TimerHandle | None = None
        self._in_work: set[asyncio.Task[None]] = set()

    async def answer(self, destination: Destination, submission: Submission) -> Answer:
        """Answer a submission, with whatever else arrives meanwhile; what fails for one of them fails for all."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer] = loop.create_future()
        if self._beginning is None:
            # Even at once is after what the event loop has at hand now, so that calls of one moment come together.
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
            for (_submission, answered), answer in list(zip(callers, answers, strict=True)):
                # Who is gone hears nothing; its submission is held all the same, and a retry gets the receipt.
                if not answered.done():
                    answered.set_result(answer)
        except Exception as error:
            _fail([answered for _submission, answered in callers if not answered.done()], error)
        finally:
            # This was cancelled, if somebody still waits: the processes that open are being stopped.
            self._unanswered -= len(callers)
            for _submission, answered in callers:
                answered.cancel()


def _fail(waiting: Sequence[asyncio.Future[Answer]], error: Exception) -> None:
    """Give the error to the first; the others learn that theirs is the same, so that the log has it once."""
    for number, answered in enumerate(waiting):
        answered.set_exception(RuntimeError(f"failed with {len(waiting) - 1} others: {error}") if number else error)
