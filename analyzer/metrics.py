"""Metrics of the analyzer: what the store holds is read when it is asked for; stages tell their timings.

Numbers by task, query, state and reason only, all of which the certificate states too: no report, no estimate.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from time import perf_counter

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from hubbub.analyzer.accept import Acceptor
from hubbub.analyzer.open import LeftOut
from hubbub.analyzer.progress import progress_of
from hubbub.analyzer.store import Store
from hubbub.analyzer.tables import Charge, RoundProgress, Tables
from hubbub.analyzer.tasks import Tasks
from hubbub.protos.batch import BatchId
from hubbub.protos.keys import KeySet
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.results import Progress
from hubbub.protos.signed import SignedDocument
from hubbub.protos.task import Task
from hubbub.service.metrics import Since
from hubbub.service.stages import Observe, unobserved

PREFIX = "hubbub_analyzer"

TASK = ("task", "task_id")
"""Labels of everything that is one task's; ids tell tasks with one name apart."""

TASK_ID_DIGITS = 12
"""How many digits of a task's id stand in labels, as in `hubbub status`."""

AGE = "How long the oldest round in a state was seen in it."

AGING = (Progress.DELIVERING, Progress.COUNTED)
"""States that a round should leave soon."""

REFUSED = (
    Reason.BAD_RECORD,
    Reason.BELOW_MINIMUM,
    Reason.DIGEST_DIFFERS,
    Reason.ERASED,
    Reason.INCOMPLETE,
    Reason.KEY_SET_DIFFERS,
    Reason.NOT_READY,
    Reason.OVER_BUDGET,
    Reason.UNKNOWN_ROUND,
    Reason.UNKNOWN_TASK,
    Reason.WRONG_OFFSET,
)
"""What a delivery may be refused for; each is shown from the start, with 0."""


class Stage(StrEnum):
    """What is timed."""

    ACCEPT = "accept"
    COUNT = "count"
    STORE = "store"
    CERTIFY = "certify"


class TimedAcceptor:
    """An `Acceptor` whose work is timed and whose refusals are counted (`wire.DeliveryHandler`)."""

    def __init__(self, acceptor: Acceptor, accept: Observe, count: Observe) -> None:
        self._acceptor = acceptor
        self._accept = accept
        self._count = count
        self.refusals: Counter[Reason] = Counter()

    async def get_key(self, task_id: bytes, round_number: int) -> SignedDocument:
        """Return the key record of a round."""
        with self._counted():
            return await self._acceptor.get_key(task_id, round_number)

    async def begin(self, record: SignedDocument, key_set: KeySet) -> int:
        """Take a batch's announcement; return the offset to go on from."""
        with self._counted():
            return await self._acceptor.begin(record, key_set)

    async def put(self, stretch: Envelopes) -> int:
        """Store a stretch; return the offset to go on from."""
        with self._counted(self._accept):
            return await self._acceptor.put(stretch)

    async def commit(self, batch: BatchId, digest: bytes) -> Committed:
        """Open, count and commit a batch."""
        with self._counted(self._count):
            return await self._acceptor.commit(batch, digest)

    @contextlib.contextmanager
    def _counted(self, observe: Observe = unobserved) -> Iterator[None]:
        started = perf_counter()
        try:
            yield
        except Refusal as refusal:
            self.refusals[refusal.reason] += 1
            raise
        observe(perf_counter() - started)


class AnalyzerCollector(Collector):
    """Reads rounds, counts and queues when Prometheus asks. `failures` are the rounds that could not be certified."""

    def __init__(
        self,
        tasks: Tasks,
        store: Store,
        acceptor: TimedAcceptor,
        failures: Mapping[tuple[bytes, int], str],
        clock: Callable[[], float],
    ) -> None:
        self._tasks = {task_id: signed.task for task_id, signed in tasks.items()}
        self._store = store
        self._acceptor = acceptor
        self._failures = failures
        self._since = Since(clock)
        self._spent: dict[bytes, tuple[int, float]] = {}
        self._lock = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """Return everything as it is now."""
        with self._lock:
            every = self._store.wait(functools.partial(Tables.progress, task_id=None))
            rounds = [progress for progress in every if progress.id.task_id in self._tasks]
            yield from (self._reports(rounds), *self._of_rounds(rounds), self._refused(), self._waiting())
            yield from self._budgets()

    def _reports(self, rounds: Sequence[RoundProgress]) -> Metric:
        labels = (*TASK, "query", "result", "reason")
        family = CounterMetricFamily(f"{PREFIX}_reports", "Reports of counted batches.", labels=labels)
        for task in self._tasks.values():
            for index, query in enumerate(task.queries):
                counted, left_out = 0, Counter[str]()
                for committed in _committed(rounds, task.id, index):
                    counted += committed.counted
                    left_out.update(committed.left_out)
                family.add_metric((*_names(task), query.name, "counted", ""), counted)
                for reason in LeftOut:
                    family.add_metric((*_names(task), query.name, "left_out", reason.value), left_out[reason])
        return family

    def _of_rounds(self, rounds: Sequence[RoundProgress]) -> Iterator[Metric]:
        labels = (*TASK, "state")
        count = GaugeMetricFamily(f"{PREFIX}_rounds", "Rounds by state.", labels=labels)
        age = GaugeMetricFamily(f"{PREFIX}_round_age_seconds", AGE, labels=labels)
        failed = GaugeMetricFamily(f"{PREFIX}_rounds_in_trouble", "Rounds that cannot be certified.", labels=TASK)
        states = [(progress.id.task_id, progress.row, progress_of(progress)) for progress in rounds]
        ages = self._since.ages(each for each in states if each[2] in AGING)
        for task in self._tasks.values():
            mine = [each for each in states if each[0] == task.id]
            for state in Progress:
                standing = [each for each in mine if each[2] is state]
                count.add_metric((*_names(task), state.value), len(standing))
                if state in AGING:
                    age.add_metric((*_names(task), state.value), max(map(ages.__getitem__, standing), default=0.0))
            failed.add_metric(_names(task), sum(task_id == task.id for task_id, _ in list(self._failures)))
        yield from (count, age, failed)

    def _refused(self) -> Metric:
        name = f"{PREFIX}_deliveries_refused"
        family = CounterMetricFamily(name, "Calls of the shuffler refused since the start.", labels=("reason",))
        for reason in Reason:
            if reason in REFUSED or self._acceptor.refusals[reason]:
                family.add_metric((reason.value,), self._acceptor.refusals[reason])
        return family

    def _waiting(self) -> Metric:
        family = GaugeMetricFamily(f"{PREFIX}_queue_depth", "What waits.", labels=("queue",))
        family.add_metric(("store",), self._store.waiting)
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
        charges = self._store.wait(functools.partial(Tables.charges, task_id=task.id))
        count, epsilon = self._spent.get(task.id, (0, 0.0))
        if len(charges) != count:
            epsilon = _epsilon(task, charges)
            self._spent[task.id] = len(charges), epsilon
        return epsilon


def _names(task: Task) -> tuple[str, str]:
    return task.name, task.id.hex()[:TASK_ID_DIGITS]


def _committed(rounds: Sequence[RoundProgress], task_id: bytes, query: int) -> Iterator[Committed]:
    for progress in rounds:
        for batch in progress.batches:
            if progress.id.task_id == task_id and batch.query == query and batch.committed is not None:
                yield batch.committed


def _epsilon(task: Task, charges: Sequence[Charge]) -> float:
    # The accountant brings scipy, which would double the service's start-up time; charges come later.
    from hubbub.analyzer.budget import epsilon_of

    return epsilon_of(task, charges)
