"""Metrics of a hop: progress of rounds, envelopes in and out, and refusals; they contain no report and no identity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from hubbub.protos.refusals import Reason
from hubbub.protos.task.task import Task
from hubbub.service.observability.collectors import TASK, SnapshotCollector, names
from hubbub.shuffler.hop.records import HopRoundStatus
from hubbub.shuffler.hop.store import HopStore

PREFIX = "hubbub_hop"

BATCHES = "Batches that are arriving, mixed (on their way to the next party) or passed_on."


class HopStage(StrEnum):
    """The stages that are timed."""

    ACCEPT = "accept"
    """A chunk of a batch."""
    PASS_ON = "pass_on"  # noqa: S105 - a stage
    """A batch: open, permute and deliver it, and wait for all behind the hop."""
    STORE = "store"
    """A transaction."""


@dataclass(frozen=True)
class HopSnapshot:
    """The tasks, and the rounds of these that have keys, at one moment."""

    tasks: Mapping[bytes, Task]
    rounds: Sequence[HopRoundStatus]


class HopCollector(SnapshotCollector[HopSnapshot]):
    """Reads rounds and queues at each scrape."""

    def __init__(
        self, tasks: Mapping[bytes, Task], store: HopStore, refusals: Mapping[Reason, int], added: Mapping[bytes, int]
    ) -> None:
        super().__init__()
        self._tasks = tasks
        self._store = store
        self._refusals = refusals
        self._added = added

    async def _snapshot(self) -> HopSnapshot:
        # One copy for all of the snapshot: the feed may add a task meanwhile.
        tasks = dict(self._tasks)
        return HopSnapshot(tasks, [each for each in await self._store.statuses() if each.task_id in tasks])

    def _metrics(self, snapshot: HopSnapshot) -> Iterator[Metric]:
        batches = GaugeMetricFamily(f"{PREFIX}_batches", BATCHES, labels=(*TASK, "state"))
        for task in snapshot.tasks.values():
            mine = [each for each in snapshot.rounds if each.task_id == task.id]
            mixed, passed_on = sum(each.mixed for each in mine), sum(each.passed_on for each in mine)
            states = {
                "arriving": sum(each.announced for each in mine) - mixed,
                "mixed": mixed - passed_on,
                "passed_on": passed_on,
            }
            for state, count in states.items():
                batches.add_metric((*names(task), state), count)
        refused = CounterMetricFamily(
            f"{PREFIX}_deliveries_refused",
            "Calls of the shuffler before it that were refused since the start, by reason.",
            labels=("reason",),
        )
        for reason in Reason:
            if reason in self._refusals:
                refused.add_metric((reason.value,), self._refusals[reason])
        added = CounterMetricFamily(
            f"{PREFIX}_noise_added", "Reports that this hop added to batches as noise since the start.", labels=TASK
        )
        for task in snapshot.tasks.values():
            added.add_metric(names(task), self._added.get(task.id, 0))
        waiting = GaugeMetricFamily(
            f"{PREFIX}_queue_depth", "What waits: store has operations that wait for the disk.", labels=("queue",)
        )
        waiting.add_metric(("store",), self._store.waiting)
        yield from (batches, refused, added, waiting)
