"""Runs a pipeline whose analyzer is the attacker, with one task for every round, and plays rounds on it.

Each round is its own task, of one round. Every certificate composes the rounds of its task, which takes longer the more
there are, and adds nothing about a single round.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import grpc

from hubbub.client.errors import NoRound
from hubbub.deploy.audit.participants import Participants, Victim
from hubbub.deploy.audit.recording_analyzer import read_observations, read_second_deliveries
from hubbub.deploy.audit.worst_case import WorstCase
from hubbub.deploy.local.pipeline import CALL_SECONDS, WAIT_SECONDS, LocalPipeline
from hubbub.deploy.local.process import ServiceError
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import RoundState
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller, ResultsCaller
from hubbub.protos.strict_json import read_json
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Identities, Task
from hubbub.protos.transport.channels import open_channel
from hubbub.queries.questions.question import Value
from hubbub.service.processes import subprocesses

AT_ONCE = 8
"""Rounds that run at the same time."""

OPEN_SECONDS = 7 * 86_400
"""How long a round that the operator closes is open at most."""

UNDER_MINIMUM_SECONDS = (20, 60, 180)
"""Seconds after which the schedule cuts rounds under the minimum. The services must start and the people answer before
that; if they are too slow, everything is played again with the next number."""

STALLED_SECONDS = 120.0
"""How long a closed round may make no progress."""

RECORDING_ANALYZER = subprocesses.command("hubbub.deploy.audit.recording_analyzer")
"""The command that replaces the analyzer; its argument is the file for the opened reports."""

POLL_SECONDS = 0.5

FINAL = frozenset({RoundState.ERASED, RoundState.EXPIRED})


_TOO_SLOW = "a round was over before its people had answered: this machine is too busy; run the audit when it is idle"


class TooSlow(ServiceError):
    """The schedule cut a round before its people had answered."""


@dataclass(frozen=True)
class AuditRound:
    """One round to play: whether the victim has its first answer, and how many people take part.

    With `under_minimum` it is a round under the minimum, which its schedule cuts and which must never be released.
    """

    is_first: bool
    participants: int
    under_minimum: bool = False


@dataclass(frozen=True)
class RoundOutcome:
    """The outcome of a round: the reports that the analyzer opened, by query, and the certificate, if there is one.

    `same_again` has an element for each batch that was delivered twice: whether the second list was the first one.
    """

    part: AuditRound
    seen: tuple[bytes | None, ...]
    certificate: bytes | None
    same_again: tuple[bool, ...] = ()


@dataclass
class AuditHarness:
    """Plays the rounds, with everyone's answers in `worst`.

    `programs` replace the services, `victim` the attacked device, and `participants` the people: tests replace them by
    broken ones. `progress` is called after every round. Rounds under the minimum are cut after `seconds`.
    """

    task: Task
    worst: Sequence[WorstCase]
    parts: Sequence[AuditRound]
    folder: Path
    programs: Mapping[Role, Sequence[str]]
    victim: type[Victim]
    participants: type[Participants]
    progress: Callable[[], None]
    seconds: int = 0

    def pipeline(self) -> LocalPipeline:
        """Return the services, not started yet."""
        analyzer = (*self.programs.get(Role.ANALYZER, RECORDING_ANALYZER), str(self._file))
        programs = {**self.programs, Role.ANALYZER: analyzer}
        return LocalPipeline(self._tasks, self.folder / "pipeline", programs=programs)

    @property
    def _file(self) -> Path:
        return self.folder / "seen.jsonl"

    def _tasks(self, identities: Identities) -> tuple[Task, ...]:
        now = int(time.time())
        by_operator = Schedule(now - 1, 3600, OPEN_SECONDS, 1, "operator")
        by_schedule = Schedule(now - 1, 1 + self.seconds, 0, 1, "schedule")
        return tuple(
            replace(
                self.task,
                name=f"audit-{place}",
                schedule=by_schedule if part.under_minimum else by_operator,
                identities=identities,
            )
            for place, part in enumerate(self.parts)
        )

    async def run(self, pipeline: LocalPipeline) -> tuple[RoundOutcome, ...]:
        """Play all rounds; return the outcome of each.

        Raises:
            TooSlow: if the schedule cut a round too early.
            HubbubError: if a service ends, a device is refused, or a round makes no progress.
        """
        control = open_channel(pipeline.services[Role.SHUFFLER].addresses["control"], pipeline.operator_tls)
        results = open_channel(pipeline.services[Role.ANALYZER].addresses["results"], pipeline.operator_tls)
        async with control, results:
            runner = _RoundRunner(
                self, self.participants(pipeline, self.victim), control, results, asyncio.Semaphore(AT_ONCE)
            )
            certificates = await pipeline.guard(runner.all(pipeline.tasks))
        return self._outcomes(pipeline.tasks, certificates)

    def _outcomes(self, tasks: Sequence[SignedTask], certificates: Sequence[bytes | None]) -> tuple[RoundOutcome, ...]:
        seen, again = read_observations(self._file), read_second_deliveries(self._file)
        found = []
        for part, task, certificate in zip(self.parts, tasks, certificates, strict=True):
            keys = [(task.task.id.hex(), query) for query in range(len(self.task.queries))]
            twice = tuple(again[key] for key in keys if key in again)
            found.append(RoundOutcome(part, tuple(seen.get(key) for key in keys), certificate, twice))
        return tuple(found)


@dataclass(frozen=True)
class _RoundRunner:
    harness: AuditHarness
    participants: Participants
    control: grpc.aio.Channel
    results: grpc.aio.Channel
    slots: asyncio.Semaphore

    async def all(self, tasks: Sequence[SignedTask]) -> list[bytes | None]:
        """Play all rounds; return the certificates, None for rounds under the minimum."""
        parts = list(zip(self.harness.parts, tasks, strict=True))
        certificates: dict[int, bytes | None] = {}

        async def one(place: int) -> None:
            async with self.slots:
                certificates[place] = await self._one(*parts[place])
            self.harness.progress()

        try:
            async with asyncio.TaskGroup() as group:
                for place in range(len(parts)):
                    group.create_task(one(place))
        except BaseExceptionGroup as failures:
            # One message is enough: rounds that fail together mostly fail for the same reason.
            raise failures.exceptions[0] from None
        await self._over({task.task.id for part, task in parts if part.under_minimum})
        return [certificates[place] for place in range(len(parts))]

    async def _one(self, part: AuditRound, task: SignedTask) -> bytes | None:
        worst = self.harness.worst
        victim = _answers(task.task, [each.answer(part.is_first) for each in worst])
        others = _answers(task.task, [each.others for each in worst])
        try:
            await self.participants.answer(task, victim, others, part.participants - 1)
        except Refusal as refusal:
            if refusal.reason is Reason.TOO_LATE:
                raise TooSlow(_TOO_SLOW) from refusal
            raise
        except NoRound as error:
            raise TooSlow(_TOO_SLOW) from error
        if part.under_minimum:
            return None
        await ControlCaller(self.control).close_round(task.task.id, 0, CALL_SECONDS)
        return await self._certificate(task.task.id)

    async def _certificate(self, task_id: bytes) -> bytes:
        caller, until = ResultsCaller(self.results), time.monotonic() + STALLED_SECONDS
        while True:
            try:
                return (await caller.get_results(task_id, 0, WAIT_SECONDS, WAIT_SECONDS + CALL_SECONDS)).certificate
            except Refusal as refusal:
                if refusal.reason is not Reason.NO_RESULTS or time.monotonic() > until:
                    raise

    async def _over(self, task_ids: set[bytes]) -> None:
        """Wait until the rounds under the minimum are over by their schedule."""
        if not task_ids:
            return
        until = time.monotonic() + STALLED_SECONDS + self.harness.seconds
        while True:
            rounds = await ControlCaller(self.control).get_status(None, CALL_SECONDS)
            if all(each.state in FINAL for each in rounds if each.task_id in task_ids):
                return
            if time.monotonic() > until:
                raise ServiceError("rounds under the minimum did not end at their time; see the logs")
            await asyncio.sleep(POLL_SECONDS)


def epsilon_in(certificate: bytes) -> float:
    """Return the ε of the whole round in a certificate, without checking the certificate."""
    return float(read_json(certificate)["body"]["round_total"]["epsilon_upper"])


def _answers(task: Task, of_queries: Sequence[Value]) -> dict[str, Value]:
    """Return the answers that give each query its own: digits of one number are answered by that number."""
    return {each.name: each.answer_of([of_queries[place] for place in each.places]) for each in task.asked}
