"""Metrics of a hop: how far rounds are, what went in and out, and what was refused. No report, and nobody's name."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from time import perf_counter

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.release_chain import Known, Stretch
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.task import Task
from hubbub.service.observability.collectors import TASK, PictureCollector, names
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.shuffler.hop.accept import Hop
from hubbub.shuffler.hop.records import Standing
from hubbub.shuffler.hop.store import Store

PREFIX = "hubbub_hop"


class Stage(StrEnum):
    """What is timed."""

    ACCEPT = "accept"
    PASS_ON = "pass_on"  # noqa: S105 - a stage
    STORE = "store"


class TimedHop:
    """A `Hop` whose work is timed and whose refusals are counted (`wire.DeliveryHandler`)."""

    def __init__(self, hop: Hop, accept: Observe, pass_on: Observe) -> None:
        self._hop = hop
        self._accept = accept
        self._pass_on = pass_on
        self.refusals: Counter[Reason] = Counter()

    async def get_key(self, task_id: bytes, round_number: int) -> SignedDocument:
        """Return the key record of a round."""
        with self._counted():
            return await self._hop.get_key(task_id, round_number)

    async def get_releases(self, task_id: bytes) -> Known:
        """Return what the analyzer knows of a task's releases."""
        with self._counted():
            return await self._hop.get_releases(task_id)

    async def begin(self, record: SignedDocument, key_set: KeySet, releases: Stretch) -> int:
        """Take a batch's announcement; return the offset to go on from."""
        with self._counted():
            return await self._hop.begin(record, key_set, releases)

    async def put(self, stretch: Envelopes) -> int:
        """Store a stretch; return the offset to go on from."""
        with self._counted(self._accept):
            return await self._hop.put(stretch)

    async def commit(self, batch: BatchId, digest: bytes) -> Committed:
        """Permute a batch and pass it on."""
        with self._counted(self._pass_on):
            return await self._hop.commit(batch, digest)

    @contextlib.contextmanager
    def _counted(self, observe: Observe = unobserved) -> Iterator[None]:
        started = perf_counter()
        try:
            yield
        except Refusal as refusal:
            self.refusals[refusal.reason] += 1
            raise
        observe(perf_counter() - started)


class HopCollector(PictureCollector[Sequence[Standing]]):
    """Reads rounds and queues when Prometheus asks."""

    def __init__(self, tasks: Mapping[bytes, Task], store: Store, hop: TimedHop) -> None:
        super().__init__()
        self._tasks = tasks
        self._store = store
        self._hop = hop

    async def _picture(self) -> Sequence[Standing]:
        return [each for each in await self._store.standings() if each.task_id in self._tasks]

    def _metrics(self, picture: Sequence[Standing]) -> Iterator[Metric]:
        batches = GaugeMetricFamily(f"{PREFIX}_batches", "Batches by how far they are.", labels=(*TASK, "state"))
        for task in self._tasks.values():
            mine = [each for each in picture if each.task_id == task.id]
            mixed, passed_on = sum(each.mixed for each in mine), sum(each.passed_on for each in mine)
            states = {
                "arriving": sum(each.announced for each in mine) - mixed,
                "mixed": mixed - passed_on,
                "passed_on": passed_on,
            }
            for state, count in states.items():
                batches.add_metric((*names(task), state), count)
        refused = CounterMetricFamily(
            f"{PREFIX}_deliveries_refused", "Calls refused since the start.", labels=("reason",)
        )
        for reason in Reason:
            if self._hop.refusals[reason]:
                refused.add_metric((reason.value,), self._hop.refusals[reason])
        waiting = GaugeMetricFamily(f"{PREFIX}_queue_depth", "What waits.", labels=("queue",))
        waiting.add_metric(("store",), self._store.waiting)
        yield from (batches, refused, waiting)
