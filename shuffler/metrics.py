"""Metrics of the shuffler: what the store and the stages hold is read when it is asked for; stages tell their timings.

Counts by task, result and reason only: nothing about a submission, a device or an answer. Tasks come from files of the
shuffler's own; a task id that somebody sends makes no label.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from time import perf_counter

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.spending.budget import epsilon_spent
from hubbub.protos.envelope import Destination
from hubbub.protos.keys import KeySet
from hubbub.protos.messages import Answer, RoundState, Submission
from hubbub.protos.refusals import Reason
from hubbub.protos.task import Task
from hubbub.service.metrics import Since
from hubbub.service.stages import Observe
from hubbub.shuffler.admit import ANY_ROUND, Admission
from hubbub.shuffler.hold import Store
from hubbub.shuffler.records import Charge, Round
from hubbub.shuffler.rounds import Rounds
from hubbub.shuffler.tasks import Tasks
from hubbub.shuffler.unit import RETRIED

PREFIX = "hubbub_shuffler"
UNKNOWN_TASK = "(unknown)"
"""Stands for all tasks that are not this shuffler's; no task can have this name."""

TASK = ("task", "task_id")
"""Labels of everything that is one task's; ids tell tasks with one name apart."""

TASK_ID_DIGITS = 12
"""How many digits of a task's id stand in labels, as in `hubbub status`."""

AGE = "How long the oldest round in a state was seen in it, or is past its scheduled cut where that is longer."

REFUSED = (
    Reason.MALFORMED,
    Reason.WRONG_SIZE,
    Reason.UNKNOWN_TASK,
    Reason.UNKNOWN_ROUND,
    Reason.TOO_EARLY,
    Reason.TOO_LATE,
    Reason.ERASED,
    Reason.KEY_SET_DIFFERS,
    Reason.ID_CONFLICT,
    Reason.UNOPENABLE,
    Reason.OVERLOADED,
    Reason.NOT_READY,
)
"""What a submission may be refused for; each is shown from the start, with 0."""


class Stage(StrEnum):
    """What is timed."""

    ADMIT = "admit"
    OPEN = "open"
    STORE = "store"
    MIX = "mix"
    RELEASE = "release"
    ERASE = "erase"


STEPS = {RoundState.CUT: Stage.MIX, RoundState.MIXED: Stage.RELEASE, RoundState.RELEASED: Stage.ERASE}
"""Which stage takes a round out of a state."""


def timed_steps(stage: Callable[[str], Observe]) -> Callable[[RoundState, float], None]:
    """Return what is told of each step of a round; steps that are none of the stages are left out."""
    observers = {state: stage(name) for state, name in STEPS.items()}

    def observe(state: RoundState, seconds: float) -> None:
        if state in observers:
            observers[state](seconds)

    return observe


class TimedAdmission:
    """An `Admission` whose answers are timed (`wire.SubmissionHandler`)."""

    def __init__(self, admission: Admission, observe: Observe) -> None:
        self._admission = admission
        self._observe = observe

    async def get_round(self, task_id: bytes, round_number: int) -> KeySet:
        """Return a round's keys."""
        return await self._admission.get_round(task_id, round_number)

    async def submit(self, destination: Destination, submissions: Sequence[Submission]) -> list[Answer]:
        """Answer each submission, in order."""
        started = perf_counter()
        try:
            return await self._admission.submit(destination, submissions)
        finally:
            self._observe(perf_counter() - started)

    def refused(self, destination: Destination | None, reason: Reason, count: int) -> None:
        """Count submissions that were refused before they came to `submit`."""
        self._admission.refused(destination, reason, count)


class ShufflerCollector(Collector):
    """Reads tasks, rounds, counts and queues when Prometheus asks. `clock` is the service's."""

    def __init__(
        self,
        tasks: Tasks,
        store: Store,
        rounds: Rounds,
        queues: Mapping[str, Callable[[], int]],
        clock: Callable[[], float],
    ) -> None:
        self._tasks = tasks
        self._store = store
        self._rounds = rounds
        self._queues = queues
        self._clock = clock
        self._since = Since(clock)
        self._spent: dict[bytes, tuple[int, float]] = {}
        self._lock = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """Return everything as it is now."""
        with self._lock:
            yield from (self._submissions(), *self._of_rounds(), self._waiting(), *self._budgets())

    def _submissions(self) -> Metric:
        family = CounterMetricFamily(
            f"{PREFIX}_submissions",
            "Submissions by what became of them.",
            labels=(*TASK, "result", "reason"),
        )
        held = self._store.rounds()
        for task in self._tasks.values():
            mine = [round_ for round_ in held if round_.task_id == task.id]
            tally: Counter[str] = Counter()
            for number in (ANY_ROUND, *(round_.number for round_ in mine)):
                tally.update(self._store.tally(task.id, number))
            accepted = sum(self._store.submissions(round_) for round_ in mine)
            family.add_metric((*_names(task), "accepted", ""), accepted)
            family.add_metric((*_names(task), "retried", ""), tally[RETRIED])
            _add_refusals(family, _names(task), tally, REFUSED)
        unknown = (Reason.MALFORMED, Reason.UNKNOWN_TASK)
        _add_refusals(family, (UNKNOWN_TASK, ""), self._store.tally(b"", ANY_ROUND), unknown)
        return family

    def _of_rounds(self) -> Iterator[Metric]:
        labels = (*TASK, "state")
        count = GaugeMetricFamily(f"{PREFIX}_rounds", "Rounds by state.", labels=labels)
        age = GaugeMetricFamily(f"{PREFIX}_round_age_seconds", AGE, labels=labels)
        trouble = GaugeMetricFamily(f"{PREFIX}_rounds_in_trouble", "Rounds that something holds up.", labels=TASK)
        rounds = self._store.rounds()
        ages = self._ages([round_ for round_ in rounds if round_.state in STEPS])
        for task in self._tasks.values():
            mine = [round_ for round_ in rounds if round_.task_id == task.id]
            for state in RoundState:
                standing = [round_ for round_ in mine if round_.state is state]
                count.add_metric((*_names(task), state.value), len(standing))
                if state in STEPS:
                    oldest = max((ages[round_.key, state] for round_ in standing), default=0.0)
                    age.add_metric((*_names(task), state.value), oldest)
            trouble.add_metric(_names(task), sum(map(self._rounds.in_trouble, mine)))
        yield from (count, age, trouble)

    def _ages(self, rounds: Sequence[Round]) -> dict[tuple[int, RoundState], float]:
        now = self._clock()
        ages = self._since.ages((round_.key, round_.state) for round_ in rounds)
        for round_ in rounds:
            if round_.task_id in self._tasks:
                past_cut = now - self._tasks[round_.task_id].schedule.cut(round_.number)
                ages[round_.key, round_.state] = max(ages[round_.key, round_.state], past_cut)
        return ages

    def _waiting(self) -> Metric:
        family = GaugeMetricFamily(f"{PREFIX}_queue_depth", "What waits or is in work.", labels=("queue",))
        for name, depth in self._queues.items():
            family.add_metric((name,), depth())
        return family

    def _budgets(self) -> Iterator[Metric]:
        spent = GaugeMetricFamily(f"{PREFIX}_epsilon_spent", "ε of all rounds charged, composed.", labels=TASK)
        budget = GaugeMetricFamily(f"{PREFIX}_epsilon_budget", "Cap on ε, where the task has one.", labels=TASK)
        for task in self._tasks.values():
            spent.add_metric(_names(task), self._spent_by(task))
            if task.privacy.epsilon_total is not None:
                budget.add_metric(_names(task), task.privacy.epsilon_total)
        yield from (spent, budget)

    def _spent_by(self, task: Task) -> float:
        """Return the task's ε, composed anew (about 0.1 s) only when its ledger has grown."""
        charges = self._store.charges(task.id)
        count, epsilon = self._spent.get(task.id, (0, 0.0))
        if len(charges) != count:
            epsilon = _epsilon(task, charges)
            self._spent[task.id] = len(charges), epsilon
        return epsilon


def _names(task: Task) -> tuple[str, str]:
    return task.name, task.id.hex()[:TASK_ID_DIGITS]


def _epsilon(task: Task, charges: Sequence[Charge]) -> float:
    records = [(charge.entry, charge.digest) for charge in charges]
    return epsilon_spent(Terms.of(task), task.id.hex(), records)


def _add_refusals(
    family: CounterMetricFamily, names: tuple[str, str], tally: Mapping[str, int], always: Sequence[Reason]
) -> None:
    for reason in Reason:
        if reason in always or tally.get(reason):
            family.add_metric((*names, "refused", reason.value), tally.get(reason, 0))
