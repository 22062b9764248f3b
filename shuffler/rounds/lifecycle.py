"""Runs each round: OPEN → CUT → MIXED → RELEASED → ERASED, or EXPIRED if it is under the minimum at the cut.

A round expires with a reason, too: its task's budget has no room for it, or the analyzer refused it for good. It is
erased, and nothing more of it is delivered. The ledger only grows, so a round beyond the budget expires as soon as this
is known, and no device answers in vain. Each step depends only on the state on disk and may be repeated, so a round
resumes after a killed process. A step that fails is retried for ever; only damage that no retry repairs waits for the
next start, as an incident. A round is never released in part, and never dropped without a reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import time
from collections.abc import Awaitable, Callable

import structlog

from hubbub.accountant.spending.ledger import BudgetExceeded
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.keys import Identity
from hubbub.protos.messages import RoundState
from hubbub.protos.refusals import ROUND_ENDED, Reason, Refusal
from hubbub.protos.sealing.envelope import FIRST_HOP
from hubbub.protos.task.schedule import first_not_cut, prepared_from, taken_from
from hubbub.protos.task.task import Task, hop_name, signers
from hubbub.service.errors import StoreFault
from hubbub.service.ledger.charges import TaskLocks
from hubbub.service.ledger.ledgers import charges_for
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.observability.traces import NO_TRACES, SpanCount, Step, TracedRound, Traces
from hubbub.service.receiving.key_check import KeyDamaged, check_key
from hubbub.shuffler.keys import check_signers, make_keys
from hubbub.shuffler.mix.dummies import let_go, seal_dummies, seal_in_a_thread
from hubbub.shuffler.mix.mix import Order, Random, mix
from hubbub.shuffler.mix.sealing_job import SealReports
from hubbub.shuffler.records import FINAL, Round, StoreError
from hubbub.shuffler.release.delivery import (
    CALL_SECONDS,
    Analyzer,
    Backoff,
    Deliverer,
    Pause,
    Undeliverable,
    in_words,
)
from hubbub.shuffler.stores.protocol import ShufflerStore
from hubbub.shuffler.tasks import Tasks, at

Clock = Callable[[], float]

LONGEST_WAIT = 60.0
"""Seconds after which the clock is read again, since the machine's time may have been set meanwhile."""

_LOG = structlog.get_logger(__name__)


async def never() -> bool:
    """End no wait early: the default of `Timer.wait_until`."""
    return False


class Timer:
    """Waits for moments of `clock` (seconds since 1970)."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._woken = asyncio.Event()

    def recheck(self) -> None:
        """Wake all waits, so that they check their conditions."""
        self._woken.set()
        self._woken = asyncio.Event()

    async def wait_until(self, moment: float, done: Callable[[], Awaitable[bool]] = never) -> None:
        """Return when the clock reaches `moment`, or when `done` is true; `done` is called after each `recheck`."""
        while True:
            # Read before `done` is called, so that a wake during the call is not missed.
            woken = self._woken
            if await done() or (left := moment - self._clock()) <= 0:
                return
            try:
                async with asyncio.timeout(min(left, LONGEST_WAIT)):
                    await woken.wait()
            except TimeoutError:
                continue


class RoundLifecycle:
    """Runs the rounds of all tasks. Texts name `analyzer_name` (host:port), a hop's address if tasks name hops.

    `observe` is called after each step with the state at its beginning and the seconds it took. `order` permutes lists
    if not this process alone does so (`mix.mix.Order`), and `seal` seals dummies.
    """

    def __init__(
        self,
        tasks: Tasks,
        store: ShufflerStore,
        identity: Identity,
        analyzer: Analyzer,
        analyzer_name: str,
        *,
        clock: Clock,
        pause: Pause = asyncio.sleep,
        random: Random = os.urandom,
        observe: Callable[[RoundState, float], None] = lambda _state, _seconds: None,
        incidents: Incidents | None = None,
        order: Order | None = None,
        seal: SealReports = seal_in_a_thread,
        traces: Traces = NO_TRACES,
    ) -> None:
        self.timer = Timer(clock)
        self.damaged_keys: set[int] = set()
        """`Round.key` of each open round whose private key is damaged: devices get no keys for these rounds."""
        self.incidents = incidents or Incidents(clock)
        self._tasks = tasks
        self._store = store
        self._identity = identity
        self._analyzer = analyzer
        self._analyzer_name = analyzer_name
        self._clock = clock
        self._pause = pause
        self._random = random
        self._order = order
        self._seal = seal
        self._observe = observe
        self._traces = traces
        self._deliverer = Deliverer(store, analyzer, pause, traces)
        self._locks = TaskLocks()
        self._fitting: dict[bytes, int] = {}
        self._running: dict[int, asyncio.Task[None]] = {}
        self._watching: dict[bytes, asyncio.Task[None]] = {}
        self._started = False

    async def start(self) -> None:
        """Resume the rounds that are not over, and begin others when their time comes.

        Raises:
            SignatureError: if a round's keys are not signed by the signers of the round; then nothing was begun.
        """
        held = [round_ for round_ in await self._store.rounds() if round_.state not in FINAL]
        for round_ in held:
            if round_.keys is not None and round_.task_id in self._tasks:
                check_signers(self._tasks[round_.task_id], round_.number, round_.keys.key_set)
        for round_ in held:
            self._check_key(round_)
            # If a task was removed from the settings, its rounds stay unchanged until it is added again.
            if round_.task_id in self._tasks:
                self._run(self._tasks[round_.task_id], round_)
            else:
                _LOG.warning(
                    "a stored round's task is not among the tasks", task=round_.task_id.hex(), round=round_.number
                )
        for task_id in self._tasks:
            self._watching[task_id] = asyncio.create_task(self._watch(task_id))
        self._started = True

    async def changed(self, task_id: bytes) -> None:
        """Take up a task that was added to the tasks since `start`, or the end of one that is among them.

        Rounds of other tasks are not touched, and those of this one that began go on.

        Raises:
            SignatureError: if a stored round's keys are not signed by the signers of the round.
        """
        self.timer.recheck()
        # What is added before `start` begins with it.
        if not self._started or task_id in self._watching:
            return
        task = self._tasks[task_id]
        # Rounds of an earlier time, whose task was away.
        held = [each for each in await self._store.rounds() if each.task_id == task_id and each.state not in FINAL]
        for round_ in held:
            if round_.keys is not None:
                check_signers(task, round_.number, round_.keys.key_set)
        for round_ in held:
            self._check_key(round_)
            self._run(task, round_)
        self._watching[task_id] = asyncio.create_task(self._watch(task_id))

    def _check_key(self, round_: Round) -> None:
        """Compare an open round's private key with its record, and report a damaged one."""
        task = self._tasks.get(round_.task_id)
        if task is None or round_.keys is None or round_.state is not RoundState.OPEN:
            return
        try:
            check_key(round_.keys.private_key, round_.keys.key_set.shuffler, task.hpke)
        except KeyDamaged as error:
            text = f"{self._title(round_)}its key is damaged, so devices are asked to wait: {error}"
            names = {"task": task.name, "round": round_.number}
            self.incidents.open(("key", round_.key), IncidentKind.ROUNDS, "a key is damaged", text, error, **names)
            self.damaged_keys.add(round_.key)

    async def stop(self) -> None:
        """Stop each round in its present step; the next start resumes from the disk."""
        tasks = [*self._watching.values(), *self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def settled(self, round_: Round) -> None:
        """Return when the round is over."""
        running = self._running.get(round_.key)
        if running is not None:
            # The caller may give up; the round goes on.
            await asyncio.shield(running)

    def has_incident(self, round_: Round) -> bool:
        """Return whether a failure, a full disk, a refusal or a silent analyzer delays a round."""
        if round_.state in FINAL:
            return False
        return self.incidents.of(_key(round_)) is not None or self.incidents.count(IncidentKind.STORE) > 0

    def cannot_begin(self, task: Task) -> bool:
        """Return whether a failure delays the beginning of the task's next round."""
        return self.incidents.of(task.id) is not None

    def waiting_for(self, round_: Round) -> str:
        """Return in words what a round waits for."""
        if round_.state is RoundState.EXPIRED:
            return f"nothing; it was erased unreleased: {round_.reason or 'it was under its minimum at the cut'}"
        if round_.state in FINAL:
            return "nothing"
        incident = self.incidents.of(_key(round_))
        if incident is not None:
            return f"{incident.text.removeprefix(self._title(round_))} (since {at(incident.since)})"
        if round_.task_id not in self._tasks:
            return "its task, which is no longer among this shuffler's tasks"
        if round_.state is RoundState.OPEN:
            full = "; the store takes nothing now" if self.incidents.count(IncidentKind.STORE) else ""
            return self._waiting_open(self._tasks[round_.task_id], round_) + full
        return {
            RoundState.CUT: "mixing",
            RoundState.MIXED: f"{self._taker(self._tasks[round_.task_id])} to count it",
        }.get(round_.state, "erasing")

    def _waiting_open(self, task: Task, round_: Round) -> str:
        schedule, number, now = task.schedule, round_.number, self._clock()
        if number > task.last_round:
            return f"its cut at {at(schedule.cut(number))}; its task has ended, and it takes nothing more"
        if now < taken_from(schedule, number):
            return f"its opening at {at(schedule.opens(number))}; until then devices can only fetch its keys"
        closable = schedule.close == "operator" and now >= schedule.opens(number)
        by_operator = ", or the operator to close it" if closable else ""
        return f"submissions until {at(schedule.cut(number))}{by_operator}"

    # Beginning

    async def _watch(self, task_id: bytes) -> None:
        """Begin the task's rounds when their time comes. Rounds that were over before the first start never begin."""
        schedule = self._tasks[task_id].schedule
        backoff = Backoff(self._pause)
        number = first_not_cut(schedule, self._clock())
        # Read anew each time, since the feed may end the task meanwhile.
        while number <= (task := self._tasks[task_id]).last_round:
            try:
                ended = functools.partial(self._has_ended, task_id, number)
                await self.timer.wait_until(prepared_from(schedule, number), ended)
                if self._clock() < schedule.cut(number) and not await ended():
                    self._run(task, await self._store.add_round(task.id, number))
            except Exception as error:
                # Any error: without this loop the task would have no more rounds, and nobody would know.
                text = f"round {number} of {task.name} cannot begin: {error}"
                names = {"task": task.name, "round": number}
                self.incidents.open(task.id, _kind_of(error), "a round cannot begin", text, error, **names)
                await backoff.wait()
            else:
                # Counted only now: a round that the disk refused is tried again.
                self.incidents.resolve(task.id)
                backoff.succeeded()
                number += 1
        # The task may have ended before a round that could not begin.
        self.incidents.resolve(task_id)

    async def _has_ended(self, task_id: bytes, number: int) -> bool:
        """Return whether the feed has ended the task before this round."""
        return number > self._tasks[task_id].last_round

    def _run(self, task: Task, round_: Round) -> None:
        if round_.state not in FINAL and round_.key not in self._running:
            self._running[round_.key] = asyncio.create_task(self._live(task, round_))
            self._running[round_.key].add_done_callback(lambda _done: self._running.pop(round_.key, None))

    # Living

    async def _live(self, task: Task, round_: Round) -> None:
        round_ = await self._moved_on(task, round_, while_=lambda state: state is RoundState.OPEN)
        if round_.state in FINAL:
            return
        # The trace begins with the cut: no span has the time of anything that a device did.
        with self._traces.span(Step.ROUND, TracedRound.of(task, round_.number)) as span:
            round_ = await self._moved_on(task, round_, while_=lambda state: state not in FINAL)
            if round_.state is RoundState.ERASED:
                span.note({SpanCount.REPORTS: round_.submissions})
            elif round_.state not in FINAL:
                span.drop()  # the next start goes on with it

    async def _moved_on(self, task: Task, round_: Round, while_: Callable[[RoundState], bool]) -> Round:
        """Take a round's steps while it is in such a state, each until it succeeds; return it as it is then."""
        backoff = Backoff(self._pause)
        while while_(round_.state):
            try:
                round_ = await self._observed_step(task, round_)
            except Undeliverable as error:
                # No retry can repair it. The next start checks again; the incident lasts until then.
                text = f"it cannot be delivered: {error} ({_give_up(round_)})"
                self._notice(task, round_, IncidentKind.ROUNDS, "not delivered, damaged", text, error)
                return round_
            except Exception as error:
                # Any error: a round whose loop ends here would keep its reports, unseen, until the next start.
                self._notice(task, round_, _kind_of(error), "a step failed", f"another try: {error}", error)
                await backoff.wait()
                round_ = await self._read_anew(round_)
            else:
                self.incidents.resolve(_key(round_))
                backoff.succeeded()
        return round_

    async def _observed_step(self, task: Task, round_: Round) -> Round:
        started = time.perf_counter()
        reached = await self._step(task, round_)
        self._observe(round_.state, time.perf_counter() - started)
        _LOG.info("round", task=task.name, round=reached.number, state=reached.state.shown, n=reached.submissions)
        return reached

    async def _read_anew(self, round_: Round) -> Round:
        """Read a round whose step failed: the step may be on disk all the same, or the operator has cut the round."""
        try:
            return await self._current(round_)
        except Exception:
            # The next step fails too if the store cannot be read: every step decides by the stored state.
            return round_

    async def _step(self, task: Task, round_: Round) -> Round:
        match round_.state:
            case RoundState.OPEN:
                return await self._collect(task, round_)
            case RoundState.CUT if round_.submissions < task.minimum_reports:
                return await self._store.erase(round_, RoundState.EXPIRED, await self._too_much(task, round_))
            case RoundState.CUT:
                with self._traces.span(Step.MIX, TracedRound.of(task, round_.number)):
                    return await self._mix(task, round_)
            case RoundState.MIXED:
                with self._traces.span(Step.RELEASE, TracedRound.of(task, round_.number)):
                    return await self._deliver(task, round_)
            case _:
                with self._traces.span(Step.ERASE, TracedRound.of(task, round_.number)):
                    return await self._store.erase(round_, RoundState.ERASED)

    async def _mix(self, task: Task, round_: Round) -> Round:
        """Charge the round and mix it, or erase it if the task's budget does not allow it."""
        async with self._locks.charging(task):
            try:
                stored = await self._store.charges(task.id)
                charges = await asyncio.to_thread(charges_for, task, round_.number, stored)
            except BudgetExceeded as error:
                return await self._give_up_round(task, round_, str(error))
            signer = self._identity.named(signers(task, round_.number).shuffler)
            named = TracedRound.of(task, round_.number)
            with self._traces.span(Step.NOISE, named):
                dummies = await seal_dummies(task, round_, self._random, self._store.folder, self._seal)
            signed = functools.partial(mix, round_=round_, task=task, identity=signer)
            work = functools.partial(signed, random=self._random, dummies=dummies, order=self._order)
            try:
                with self._traces.span(Step.PERMUTE, named):
                    mixed = await self._store.mix(round_, work, charges)
            finally:
                let_go(dummies)
        self.timer.recheck()  # the rest of the budget may be too little for rounds that are open
        return mixed

    async def _too_much(self, task: Task, round_: Round) -> str:
        """Return why the round exceeds the rest of the task's budget; empty if it does not."""
        stored = await self._store.charges(task.id)
        # Every round of a task costs the same, and a task runs only if one round is within its budget.
        if task.privacy.epsilon_total is None or len(stored) == self._fitting.get(task.id, 0):
            return ""
        try:
            await asyncio.to_thread(charges_for, task, round_.number, stored)
        except BudgetExceeded as error:
            return str(error)
        self._fitting[task.id] = len(stored)
        return ""

    async def _deliver(self, task: Task, round_: Round) -> Round:
        try:
            notice = functools.partial(self._notice_analyzer, task, round_, "not delivered")
            return await self._deliverer.deliver(round_, task, notice)
        except Refusal as refusal:
            if refusal.reason not in ROUND_ENDED:
                raise
            return await self._give_up_round(task, round_, f"{_refuser(task)} refused it: {refusal.message}")

    async def _give_up_round(self, task: Task, round_: Round, reason: str) -> Round:
        _LOG.warning("given up, erased", task=task.name, round=round_.number, reason=reason)
        return await self._store.erase(round_, RoundState.EXPIRED, reason)

    async def _collect(self, task: Task, round_: Round) -> Round:
        """Take submissions until the cut, by schedule or operator, or until it is known that none can be counted."""
        fetching = asyncio.create_task(self._fetch_keys(task, round_))
        try:
            reason = await self._until_cut(task, round_)
        finally:
            fetching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await fetching
        # A round that the operator cut meanwhile is unchanged. A kill after this line leaves it CUT; the next step then
        # checks the budget again.
        cut = await self._store.cut(round_, "schedule", task.minimum_reports)
        return await self._give_up_round(task, cut, reason) if reason else cut

    async def _until_cut(self, task: Task, round_: Round) -> str:
        """Wait for the round's end; return why it cannot be counted, as soon as this is known."""
        cut = task.schedule.cut(round_.number)
        while True:
            # Read before the check, so that a charge during the check ends the wait below at once.
            charged = len(await self._store.charges(task.id))
            reason = await self._too_much(task, round_) or await self._void(round_)
            if reason or not await self._is_open(round_) or self._clock() >= cut:
                return reason
            await self.timer.wait_until(cut, functools.partial(self._changes, round_, charged))

    async def _changes(self, round_: Round, charged: int) -> bool:
        """Return whether the round was cut or became void, or its task has more than `charged` charges."""
        more = len(await self._store.charges(round_.task_id)) > charged
        return more or not await self._is_open(round_) or bool(await self._void(round_))

    async def _void(self, round_: Round) -> str:
        """Return why the round can have no submissions; empty if it can, or has some.

        If the analyzer learned of a task's end first, it makes no key for a round that began meanwhile here.
        """
        if round_.number <= self._tasks[round_.task_id].last_round or (await self._current(round_)).keys is not None:
            return ""
        return "its task ended before the round had keys"

    async def _is_open(self, round_: Round) -> bool:
        return (await self._current(round_)).state is RoundState.OPEN

    async def _current(self, round_: Round) -> Round:
        return await self._store.find(round_.task_id, round_.number) or round_

    async def _fetch_keys(self, task: Task, round_: Round) -> None:
        """Get the analyzer's key record and make the round's key set, once; retry until the round is cut."""
        backoff = Backoff(self._pause)
        while round_.keys is None:
            try:
                record = await self._analyzer.get_key(task.id, round_.number, CALL_SECONDS)
                round_ = await self._store.install(round_, make_keys(task, round_.number, self._identity, record))
            except Exception as error:
                # Any error: without keys no device can answer the round.
                self._notice_analyzer(task, round_, "no keys yet", error)
                await backoff.wait(error.retry_after if isinstance(error, Refusal) else None)
            else:
                self.incidents.resolve(_key(round_))
                _LOG.info("keys", task=task.name, round=round_.number)

    # Incidents and their texts

    def _notice(self, task: Task, round_: Round, kind: IncidentKind, event: str, text: str, error: Exception) -> None:
        names = {"task": task.name, "round": round_.number, "state": round_.state}
        self.incidents.open(_key(round_), kind, event, f"{self._title(round_)}{text}", error, **names)

    def _title(self, round_: Round) -> str:
        """Return the round's name as the beginning of an incident's text; status lines are shown without it."""
        task = self._tasks.get(round_.task_id)
        return f"round {round_.number} of {round_.task_id.hex() if task is None else task.name}: "

    def _taker(self, task: Task, error: HubbubError | None = None) -> str:
        """Return the name of the party that takes a task's batches: the analyzer, or the first hop for all behind.

        If that party does not know the task, it may be another than the task expects.
        """
        if isinstance(error, Refusal) and error.reason is Reason.UNKNOWN_TASK:
            return f"{self._analyzer_name}, to which `analyzer` leads"
        if not task.identities.hops:
            return f"the analyzer at {self._analyzer_name}"
        return f"{hop_name(FIRST_HOP)} at {self._analyzer_name}, or a party behind it"

    def _notice_analyzer(self, task: Task, round_: Round, event: str, error: Exception | None) -> None:
        if error is None:
            self.incidents.resolve(_key(round_))
        elif isinstance(error, HubbubError) and not isinstance(error, StoreError):
            text = f"{self._taker(task, error)}: {in_words(error)}"
            self._notice(task, round_, IncidentKind.PEER, event, text, error)
        else:
            self._notice(task, round_, _kind_of(error), event, f"another try: {error}", error)


def _kind_of(error: Exception) -> IncidentKind:
    """Return the part that an error is of: a step that waits for standbys to follow does not fail by itself."""
    missing = isinstance(error, StoreError) and error.fault is StoreFault.STANDBYS
    return IncidentKind.STANDBYS if missing else IncidentKind.ROUNDS


def _refuser(task: Task) -> str:
    """Return the name of the party that refused for good; in a chain it may be any later party."""
    return f"{hop_name(FIRST_HOP)}, or a party behind it," if task.identities.hops else "the analyzer"


def _give_up(round_: Round) -> str:
    """Return the command that gives up a round, and when to run it."""
    return f"`hubbub shuffler SETTINGS.toml --give-up {round_.task_id.hex()[:16]}:{round_.number}`, while it is stopped"


def _key(round_: Round) -> tuple[str, int]:
    """Return the key of a round's incident."""
    return ("round", round_.key)
