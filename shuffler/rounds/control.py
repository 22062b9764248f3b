"""Answers the operator and readers: tasks, status of rounds, closing a round, incidents, and credentials."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import structlog

from hubbub.protos.messages import (
    CredentialAction,
    CredentialStatus,
    IncidentReport,
    ListedTask,
    RoundState,
    RoundStatus,
)
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.schedule import taken_from
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task, ended
from hubbub.service.observability.rounding import CountRounding
from hubbub.shuffler.admit.enrollment import EnrollmentControl
from hubbub.shuffler.records import FINAL, Round, StoreError
from hubbub.shuffler.rounds.lifecycle import RoundLifecycle
from hubbub.shuffler.rounds.rounded_counts import refusals_of, shown_submissions, shown_tally
from hubbub.shuffler.stores.protocol import ShufflerStore
from hubbub.shuffler.tasks import Tasks, at

RETRY_SECONDS = 5.0
"""When a caller asks again after a failure of the store."""

_LOG = structlog.get_logger(__name__)


class Control:
    """Answers the operator and readers (`ControlHandler`)."""

    def __init__(
        self,
        tasks: Tasks,
        store: ShufflerStore,
        rounds: RoundLifecycle,
        clock: Callable[[], float],
        enrollment: EnrollmentControl,
        counts: CountRounding = CountRounding(),  # noqa: B008 - a value
        signed: Mapping[bytes, SignedTask] = MappingProxyType({}),
    ) -> None:
        self._tasks = tasks
        self._signed = signed
        self._store = store
        self._rounds = rounds
        self._clock = clock
        self._enrollment = enrollment
        self._counts = counts

    async def close_round(self, task_id: bytes, round_number: int) -> RoundStatus:
        """Cut a round now; a round that is cut already is unchanged.

        Raises:
            Refusal: UNKNOWN_TASK, UNKNOWN_ROUND, TASK_ENDED, TOO_EARLY, CLOSED_BY_SCHEDULE, BELOW_MINIMUM, or
                NOT_READY if the store cannot be used now.
        """
        task = self._task(task_id)
        with _refusing():
            round_ = await self._round(task, round_number)
            if round_.state is RoundState.OPEN:
                round_ = await self._cut(task, round_)
            return await self._status(task, round_)

    async def get_status(self, task_id: bytes | None) -> list[RoundStatus]:
        """Return the status of rounds, oldest first, of one task or of all.

        Without a task these also have the rounds that wait for a task that is no longer among the shuffler's.

        Raises:
            Refusal: UNKNOWN_TASK, or NOT_READY if the store cannot be used now.
        """
        only = None if task_id is None else self._task(task_id)
        with _refusing():
            held = await self._store.rounds()
            if only is not None:
                return [await self._status(only, found) for found in held if found.task_id == only.id]
            shown = [(self._tasks.get(found.task_id), found) for found in held]
            return [
                await (self._status_without_task(found) if task is None else self._status(task, found))
                for task, found in shown
                if task is not None or found.state not in FINAL
            ]

    async def get_incidents(self) -> IncidentReport:
        return self._rounds.incidents.report()

    async def list_tasks(self) -> list[ListedTask]:
        """Return the tasks that this shuffler runs, by their names."""
        found = [ListedTask(task.id, task.name) for task in self._tasks.values()]
        return sorted(found, key=lambda each: (each.name, each.task_id))

    async def get_task(self, task_id: bytes) -> SignedTask:
        """Return a task with both signatures.

        Raises:
            Refusal: UNKNOWN_TASK.
        """
        return self._signed[self._task(task_id).id]

    async def manage_credentials(self, step: CredentialAction, devices: Sequence[bytes]) -> CredentialStatus:
        """Change which devices are admitted; return the resulting status of enrollment.

        Raises:
            Refusal: NOT_READY if the disk refuses the write.
        """
        found = await self._enrollment.manage(step, devices)
        # Rounded like submissions: a device redeems its ticket with its first submission.
        return replace(found, redeemed=self._counts.round_down(found.redeemed))

    def _task(self, task_id: bytes) -> Task:
        task = self._tasks.get(task_id)
        if task is None:
            raise Refusal(
                Reason.UNKNOWN_TASK,
                "this shuffler does not run that task; use its current task file, or add this task to its `tasks`",
            )
        return task

    async def _round(self, task: Task, number: int) -> Round:
        schedule = task.schedule
        if not 0 <= number < schedule.rounds:
            raise Refusal(
                Reason.UNKNOWN_ROUND, f"the task has rounds 0 to {schedule.rounds - 1}, not {number}; name one of these"
            )
        round_ = await self._store.find(task.id, number)
        if round_ is not None:
            return round_
        if number > task.last_round:
            raise ended(task)
        if self._clock() < schedule.cut(number):
            raise _too_early(task, number)
        raise Refusal(Reason.UNKNOWN_ROUND, f"round {number} was over before this shuffler first ran; name a later one")

    async def _cut(self, task: Task, round_: Round) -> Round:
        if task.schedule.close != "operator":
            moment = at(task.schedule.cut(round_.number))
            raise Refusal(
                Reason.CLOSED_BY_SCHEDULE,
                f"the schedule closes the task's rounds, this one at {moment}; wait until then",
            )
        if self._clock() < taken_from(task.schedule, round_.number):
            raise _too_early(task, round_.number)
        try:
            cut = await self._store.cut(round_, "operator", task.minimum_reports)
        except StoreError as error:
            # The service retries by itself, as the error explains; the operator's command is not retried.
            text = f"round {round_.number} was not closed; close it again once the store can be used: {error}"
            raise Refusal(Reason.NOT_READY, text, RETRY_SECONDS) from error
        # The round waits for its scheduled cut; this makes it check again at once.
        self._rounds.timer.recheck()
        _LOG.info("closed by the operator", task=task.name, round=cut.number, submissions=cut.submissions)
        return cut

    async def _status(self, task: Task, round_: Round) -> RoundStatus:
        tally = await self._store.tally(task.id, round_.number)
        held, most = await self._store.submissions(round_), task.maximum_reports
        is_full = round_.state is RoundState.OPEN and held >= most
        full = f"; it is full, with its maximum_reports = {most}" if is_full else ""
        return RoundStatus(
            task_id=task.id,
            round=round_.number,
            state=round_.state,
            submissions=shown_submissions(self._counts, round_, held),
            minimum_reports=task.minimum_reports,
            refusals=refusals_of(shown_tally(self._counts, round_, tally)),
            waiting_for=f"{self._rounds.waiting_for(round_)}{self._reached(task, round_, held)}{full}",
            prepared=round_.state is RoundState.OPEN and self._clock() < taken_from(task.schedule, round_.number),
            step=self._counts.step if round_.state is RoundState.OPEN else 1,
        )

    async def _status_without_task(self, round_: Round) -> RoundStatus:
        """Return the status of a round whose task's file was taken away: its minimum and its times are not known."""
        tally = await self._store.tally(round_.task_id, round_.number)
        return RoundStatus(
            task_id=round_.task_id,
            round=round_.number,
            state=round_.state,
            submissions=shown_submissions(self._counts, round_, await self._store.submissions(round_)),
            minimum_reports=0,
            refusals=refusals_of(shown_tally(self._counts, round_, tally)),
            waiting_for=self._rounds.waiting_for(round_),
            step=self._counts.step if round_.state is RoundState.OPEN else 1,
        )

    def _reached(self, task: Task, round_: Round, held: int) -> str:
        """Return a note if an open round may be cut, since its rounded count may not show this."""
        if round_.state is not RoundState.OPEN or self._counts.step == 1 or held < task.minimum_reports:
            return ""
        return "; its minimum is reached"


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """If the store cannot be used now, such as while its server is away, refuse with a time to come again."""
    try:
        yield
    except StoreError as error:
        text = f"the shuffler's store cannot be used now: {error}"
        raise Refusal(Reason.NOT_READY, text, RETRY_SECONDS) from error


def _too_early(task: Task, number: int) -> Refusal:
    return Refusal(Reason.TOO_EARLY, f"round {number} opens at {at(task.schedule.opens(number))}; wait until then")
