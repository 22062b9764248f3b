"""Metrics of the analyzer: counts are read from the store at each scrape; stages report their own timings.

Numbers have only task, query, state and reason as labels; the certificate states them too. They contain no report
and no estimate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from hubbub.analyzer.opening import LeftOut
from hubbub.analyzer.progress import counted, progress_of
from hubbub.analyzer.records import RoundProgress
from hubbub.analyzer.stores.protocol import AnalyzerStore
from hubbub.analyzer.tasks import Tasks
from hubbub.protos.messages import Committed
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.results import AnalysisStage
from hubbub.protos.refusals import Reason
from hubbub.protos.task.task import Task
from hubbub.service.ledger.charges import Charges
from hubbub.service.observability.collectors import TASK, Ages, SnapshotCollector, SpentEpsilonMetric, names
from hubbub.service.observability.incidents import IncidentKind, Incidents

PREFIX = "hubbub_analyzer"

AGE = "How long the oldest round was seen in a state (delivering or counted)."

REPORTS = "Reports of counted batches: counted, without the shuffler's dummies, and left_out by reason."

HELD_UP = "Rounds under way that could not be counted or certified, or that a full disk delays."

AGING = (AnalysisStage.DELIVERING, AnalysisStage.COUNTED)
"""States that a round should leave soon."""

REFUSED = (
    Reason.BAD_RECORD,
    Reason.BELOW_MINIMUM,
    Reason.DIGEST_DIFFERS,
    Reason.ERASED,
    Reason.FORKED,
    Reason.INCOMPLETE,
    Reason.KEY_SET_DIFFERS,
    Reason.NOT_READY,
    Reason.OVER_BUDGET,
    Reason.UNKNOWN_ROUND,
    Reason.UNKNOWN_TASK,
    Reason.WRONG_OFFSET,
)
"""Reasons for which a delivery may be refused; each is shown from the start, with 0."""

RESULTS_REFUSED = (Reason.RESULTS_DIFFER,)
"""Reasons for which results may be refused that need an operator; each is shown from the start, with 0."""

_NONE_REFUSED: Mapping[Reason, int] = MappingProxyType(dict.fromkeys(RESULTS_REFUSED, 0))


class AnalyzerStage(StrEnum):
    """The stages that are timed."""

    ACCEPT = "accept"
    """A chunk of a batch."""
    COUNT = "count"
    """A batch: open, count, charge and commit it."""
    STORE = "store"
    """A transaction."""
    CERTIFY = "certify"
    """A round."""


@dataclass(frozen=True)
class AnalyzerSnapshot:
    """The analyzer at one moment: its tasks, their rounds, those that are delayed, and the charges by task."""

    tasks: Mapping[bytes, Task]
    rounds: Sequence[RoundProgress]
    held_up: Collection[tuple[bytes, int]]
    charges: Mapping[bytes, Charges]


class AnalyzerCollector(SnapshotCollector[AnalyzerSnapshot]):
    """Reads rounds, counts and queues at each scrape.

    `failures` are the rounds that could not be certified; `incidents` has those that could not be counted. `refusals`
    counts refused deliveries by reason, `results_refused` results that were not shown. `unannounced` are the batches
    whose announcement the store refused at the last try.
    """

    def __init__(
        self,
        tasks: Tasks,
        store: AnalyzerStore,
        refusals: Mapping[Reason, int],
        unannounced: Collection[BatchId],
        failures: Mapping[tuple[bytes, int], str],
        clock: Callable[[], float],
        incidents: Incidents | None = None,
        results_refused: Mapping[Reason, int] = _NONE_REFUSED,
    ) -> None:
        super().__init__()
        self._results_refused = results_refused
        self._incidents = incidents or Incidents(clock)
        self._signed = tasks
        self._store = store
        self._refusals = refusals
        self._unannounced = unannounced
        self._failures = failures
        self._ages = Ages(clock)
        self._spent = SpentEpsilonMetric(PREFIX)

    async def _snapshot(self) -> AnalyzerSnapshot:
        # One copy for all of the snapshot: the feed may add a task meanwhile.
        tasks = {task_id: signed.task for task_id, signed in self._signed.items()}
        rounds = [progress for progress in await self._store.progress(None) if progress.id.task_id in tasks]
        return AnalyzerSnapshot(tasks, rounds, self._held_up(rounds), await self._store.ledgers())

    def _held_up(self, rounds: Sequence[RoundProgress]) -> set[tuple[bytes, int]]:
        uncounted = [key for key in self._incidents.keys(IncidentKind.ROUNDS) if isinstance(key, BatchId)]
        under_way = {(each.id.task_id, each.id.round) for each in rounds if progress_of(each) in AGING}
        if self._incidents.count(IncidentKind.STORE):
            # A batch whose announcement failed is not stored: its round is still awaited.
            awaited = {
                (each.id.task_id, each.id.round) for each in rounds if progress_of(each) is AnalysisStage.AWAITED
            }
            return under_way | (awaited & {(batch.task_id, batch.round) for batch in self._unannounced})
        return (set(self._failures) | {(batch.task_id, batch.round) for batch in uncounted}) & under_way

    def _metrics(self, snapshot: AnalyzerSnapshot) -> Iterator[Metric]:
        yield from (
            self._reports(snapshot),
            *self._of_rounds(snapshot),
            self._refused(),
            self._not_shown(),
            self._waiting(),
        )
        every = {
            task_id: counted(task, [each for each in snapshot.rounds if each.id.task_id == task_id])
            for task_id, task in snapshot.tasks.items()
        }
        yield from self._spent.metrics(snapshot.tasks.values(), snapshot.charges, every)

    def _reports(self, snapshot: AnalyzerSnapshot) -> Metric:
        labels = (*TASK, "query", "result", "reason")
        family = CounterMetricFamily(f"{PREFIX}_reports", REPORTS, labels=labels)
        for task in snapshot.tasks.values():
            for index, query in enumerate(task.queries):
                counted, left_out = 0, Counter[str]()
                for committed in _committed(snapshot.rounds, task.id, index):
                    counted += committed.counted
                    left_out.update(committed.left_out)
                family.add_metric((*names(task), query.name, "counted", ""), counted)
                for reason in LeftOut:
                    family.add_metric((*names(task), query.name, "left_out", reason.value), left_out[reason])
        return family

    def _of_rounds(self, snapshot: AnalyzerSnapshot) -> Iterator[Metric]:
        labels = (*TASK, "state")
        count = GaugeMetricFamily(f"{PREFIX}_rounds", "Rounds in each state.", labels=labels)
        age = GaugeMetricFamily(f"{PREFIX}_round_age_seconds", AGE, labels=labels)
        failed = GaugeMetricFamily(f"{PREFIX}_rounds_with_incidents", HELD_UP, labels=TASK)
        states = [(each.id.task_id, each.id.round, progress_of(each)) for each in snapshot.rounds]
        ages = self._ages.of(each for each in states if each[2] in AGING)
        for task in snapshot.tasks.values():
            mine = [each for each in states if each[0] == task.id]
            for state in AnalysisStage:
                here = [each for each in mine if each[2] is state]
                count.add_metric((*names(task), state.value), len(here))
                if state in AGING:
                    age.add_metric((*names(task), state.value), max(map(ages.__getitem__, here), default=0.0))
            failed.add_metric(names(task), sum(task_id == task.id for task_id, _ in snapshot.held_up))
        yield from (count, age, failed)

    def _refused(self) -> Metric:
        name = f"{PREFIX}_deliveries_refused"
        family = CounterMetricFamily(
            name, "Calls of the shuffler that were refused since the start, by reason.", labels=("reason",)
        )
        for reason in Reason:
            if reason in REFUSED or reason in self._refusals:
                family.add_metric((reason.value,), self._refusals.get(reason, 0))
        return family

    def _not_shown(self) -> Metric:
        text = "Results that were asked for and not shown since the start, by reason."
        family = CounterMetricFamily(f"{PREFIX}_results_refused", text, labels=("reason",))
        for reason in RESULTS_REFUSED:
            family.add_metric((reason.value,), self._results_refused[reason])
        return family

    def _waiting(self) -> Metric:
        family = GaugeMetricFamily(
            f"{PREFIX}_queue_depth", "What waits: store has operations that wait for the disk.", labels=("queue",)
        )
        family.add_metric(("store",), self._store.waiting)
        return family


def _committed(rounds: Sequence[RoundProgress], task_id: bytes, query: int) -> Iterator[Committed]:
    for progress in rounds:
        for batch in progress.batches:
            if progress.id.task_id == task_id and batch.query == query and batch.committed is not None:
                yield batch.committed
