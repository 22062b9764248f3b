"""Waits for a round's results, and reports meanwhile which step they wait for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from hubbub.deploy.operator.client import fetch_analyzer_statuses, fetch_results, list_results
from hubbub.deploy.settings import OperatorSettings
from hubbub.protos.errors import CannotCall, Distrusted, HubbubError, Unreachable, UsageError
from hubbub.protos.records.results import AnalysisStage, AnalyzerRoundStatus, RoundId, RoundResults, is_task
from hubbub.protos.refusals import Reason, Refusal

POLL_SECONDS = 5.0
"""How long one call waits for results before the state of the round is checked again."""

AGAIN_SECONDS = 1.0
"""Pause after an unanswered call before the analyzer is called again."""

SHOWN = 3
"""How many rounds an error names at most."""


@dataclass(frozen=True)
class RoundFilter:
    """The requested rounds: of one task (its name, or 8 digits of its id or more), of one number; None is any."""

    task: str | None = None
    round: int | None = None

    def is_of_task(self, which: RoundId) -> bool:
        """Return whether a round is of the requested task."""
        return self.task is None or is_task(self.task, which.task_id, which.task_name)

    def matches(self, which: RoundId) -> bool:
        """Return whether a round is requested."""
        return self.is_of_task(which) and self.round in (None, which.round)


async def results_of(
    settings: OperatorSettings,
    wanted: RoundFilter,
    wait: float,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> RoundResults:
    """Return the results of the latest certified round that is asked for.

    If none is, one that is on its way is waited for, `wait` seconds at most, also while the analyzer does not
    answer; `say` is called with what it waits for, each time that changes.

    Raises:
        UsageError: if several tasks match.
        Refusal: if the task has no such round.
        Unreachable: if the analyzer did not answer in time, or (at once) if it is not to be trusted.
        HubbubError: if there are no results in time, or will never be, saying what the rounds wait for.
    """
    asking = _ResultsPoll(settings, wanted, wait, say, clock, clock() + wait)
    while True:
        try:
            found = await asking.once()
            if found is not None:
                return found
        except (Refusal, Unreachable) as error:
            left = asking.until - clock()
            if left <= 0 or not _passes(error):
                raise error from None
            asking.tell(f"the call is repeated: {error}")
            await pause(min(AGAIN_SECONDS, left))


async def results_of_all(settings: OperatorSettings, wanted: RoundFilter) -> list[RoundResults]:
    """Return the results of every certified round of the task that is asked for, in the order of rounds.

    Raises:
        UsageError: if several tasks match.
        HubbubError: if no round is certified, saying what the rounds wait for.
    """
    found = [each for each in await list_results(settings) if wanted.is_of_task(each)]
    if not found:
        raise HubbubError(_nothing(await fetch_analyzer_statuses(settings), wanted, 0, None))
    rounds = sorted(_of_one_task(found), key=lambda each: each.round)
    return [await fetch_results(settings, each.task_id, each.round, 0) for each in rounds]


def _passes(error: Refusal | Unreachable) -> bool:
    """Return whether an error may pass soon: the analyzer starts, restarts, or its disk is full."""
    if isinstance(error, Refusal):
        return error.passes
    return not isinstance(error, Distrusted | CannotCall)


@dataclass
class _ResultsPoll:
    """Polls for results until the time `until`."""

    settings: OperatorSettings
    wanted: RoundFilter
    wait: float
    say: Callable[[str], None]
    clock: Callable[[], float]
    until: float
    said: str = ""

    def tell(self, sentence: str) -> None:
        """Report the awaited step, unless it was the last report."""
        if self.said != sentence:
            self.said = sentence
            self.say(sentence)

    async def once(self) -> RoundResults | None:
        """Return the results; None if one call waited for them in vain."""
        certified = [each for each in await list_results(self.settings) if self.wanted.matches(each)]
        statuses = await fetch_analyzer_statuses(self.settings)
        if certified:
            # Also a task without results yet may be the one that is meant.
            _of_one_task([*certified, *(each.id for each in statuses if self.wanted.is_of_task(each.id))])
            which = max(certified, key=lambda each: each.round)
            return await fetch_results(self.settings, which.task_id, which.round, 0)
        awaited = _awaited(statuses, self.wanted)
        if awaited is not None and awaited not in [each.id for each in statuses]:
            await _check_known(self.settings, awaited)
        if awaited is None or self.clock() >= self.until:
            raise HubbubError(_nothing(statuses, self.wanted, self.wait, awaited))
        self.tell(_sentence(statuses, awaited))
        timeout = min(POLL_SECONDS, self.until - self.clock())
        try:
            return await fetch_results(self.settings, awaited.task_id, awaited.round, timeout)
        except Refusal as refusal:
            if refusal.reason is not Reason.NO_RESULTS:
                raise
        return None


async def _check_known(settings: OperatorSettings, which: RoundId) -> None:
    """Ask the analyzer, which has the task, about a round that has not begun: it refuses one that will never be."""
    try:
        await fetch_results(settings, which.task_id, which.round, 0)
    except Refusal as refusal:
        if refusal.reason is not Reason.NO_RESULTS:
            raise


def _of_one_task(rounds: Sequence[RoundId]) -> Sequence[RoundId]:
    if len({each.task_id for each in rounds}) > 1:
        names = ", ".join(sorted({f"{each.task_name} ({each.task_id.hex()})" for each in rounds}))
        raise UsageError(f"there are several tasks; name one with --task: {names}")
    return rounds


def _awaited(statuses: Iterable[AnalyzerRoundStatus], wanted: RoundFilter) -> RoundId | None:
    """Return the earliest requested round that may still get a certificate; None if there is none.

    A round that the analyzer has not begun is known by its task's other rounds.
    """
    of_task = [each for each in statuses if wanted.is_of_task(each.id)]
    begun = [each.id for each in of_task if wanted.matches(each.id) and each.progress is not AnalysisStage.OVER]
    if begun:
        return min(_of_one_task(begun), key=lambda each: each.round)
    if wanted.round is None or not of_task or any(wanted.matches(each.id) for each in of_task):
        return None
    task = _of_one_task([each.id for each in of_task])[0]
    return RoundId(task.task_id, task.task_name, wanted.round)


def _sentence(statuses: Iterable[AnalyzerRoundStatus], which: RoundId) -> str:
    for each in statuses:
        if each.id == which:
            return _waits(each)
    return f"{which.task_name} round {which.round} has not begun"


def _waits(status: AnalyzerRoundStatus) -> str:
    of = status.id
    return f"{of.task_name} round {of.round} is {status.progress} and waits for {status.waiting_for}"


def _nothing(statuses: Sequence[AnalyzerRoundStatus], wanted: RoundFilter, wait: float, awaited: RoundId | None) -> str:
    """Describe what the requested rounds wait for, and the remedy; `--wait` is named if it helps and was not given."""
    if not any(wanted.is_of_task(each.id) for each in statuses):
        rounds = "no round" if wanted.task is None else f"no round of task {wanted.task}"
        return f"the analyzer shows {rounds}; `hubbub status` shows all rounds"
    matching = [each for each in statuses if wanted.matches(each.id)]
    there = "; ".join(map(_waits, matching[:SHOWN])) or "the analyzer has not begun such a round"
    more = f"; and {len(matching) - SHOWN} more" if len(matching) > SHOWN else ""
    after = f" after {wait:g} s" if wait else ""
    waiting = "" if awaited is None or wait else "`hubbub results … --wait SECONDS` waits for one, and "
    remedy = f"{waiting}`hubbub status` shows the state at both services"
    return f"no such round is certified yet{after}: {there}{more}; {remedy}"
