"""Collects the metrics that services share: labels, ages, and the ε that each task has spent.

Prometheus asks in a thread of the metrics port, while stores answer in the service's event loop. So a collector takes a
snapshot of its service in the event loop, and makes its metrics from that.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from hubbub.accountant.certificate.terms import QueryCount
from hubbub.protos.errors import HubbubError
from hubbub.protos.task.task import Task
from hubbub.service.ledger.charges import Charges

TASK = ("task", "task_id")
"""Labels of every metric of a task; the id distinguishes tasks of the same name."""

TASK_ID_DIGITS = 12
"""How many digits of a task's id are in labels, as in `hubbub status`."""

SPENT = (
    "ε of all rounds charged so far, composed at the task's δ and minimum; at the analyzer batches with fewer valid "
    "honest reports at those."
)
BUDGET = "The task's epsilon_total, if it has one."

SNAPSHOT_SECONDS = 10.0
"""How long the event loop may take to answer; a busier service is shown as not answering."""

P = TypeVar("P")


def names(task: Task) -> tuple[str, str]:
    """Return the values of the labels `TASK`."""
    return task.name, task.id.hex()[:TASK_ID_DIGITS]


class SnapshotCollector(Collector, Generic[P]):
    """A collector that is made in the service's event loop, and takes its snapshots there."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()

    @abstractmethod
    async def _snapshot(self) -> P:
        """Return the service as it is now."""

    @abstractmethod
    def _metrics(self, snapshot: P) -> Iterator[Metric]:
        """Return the metrics of a snapshot; it may be slow, since only the caller waits for it."""

    def collect(self) -> Iterator[Metric]:
        """Return all metrics as they are now; blocks, so call it in another thread than the event loop's.

        Returns nothing if the store cannot be read; that is an incident, and incidents are still shown.

        Raises:
            TimeoutError: if the event loop does not answer.
        """
        with self._lock, contextlib.suppress(HubbubError):
            yield from self._metrics(_asked(self._snapshot(), self._loop))


def _asked(snapshot: Coroutine[Any, Any, P], loop: asyncio.AbstractEventLoop) -> P:
    return asyncio.run_coroutine_threadsafe(snapshot, loop).result(SNAPSHOT_SECONDS)


class Ages:
    """Measures how long each key has been present: from the first call that names it to the first that does not."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._first_seen: dict[Any, float] = {}

    def of(self, keys: Iterable[Any]) -> dict[Any, float]:
        """Return for each of the present keys how many seconds ago it was first seen; forget all others."""
        now = self._clock()
        self._first_seen = {key: self._first_seen.get(key, now) for key in keys}
        # If the clock was set back, no age is negative.
        return {key: max(0.0, now - seen) for key, seen in self._first_seen.items()}


class SpentEpsilonMetric:
    """The ε that each task has spent, as metrics of `prefix`."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._known: dict[bytes, tuple[tuple[int, int], float]] = {}

    def metrics(
        self,
        tasks: Iterable[Task],
        charges: Mapping[bytes, Charges],
        counted: Mapping[bytes, Sequence[tuple[int, QueryCount]]] = MappingProxyType({}),
    ) -> Iterator[Metric]:
        """Return ε and budget of tasks with these charges, and these batches counted (by their ids)."""
        spent = GaugeMetricFamily(f"{self._prefix}_epsilon_spent", SPENT, labels=TASK)
        budget = GaugeMetricFamily(f"{self._prefix}_epsilon_budget", BUDGET, labels=TASK)
        for task in tasks:
            spent.add_metric(names(task), self._by(task, charges.get(task.id, ()), counted.get(task.id, ())))
            if task.privacy.epsilon_total is not None:
                budget.add_metric(names(task), task.privacy.epsilon_total)
        yield from (spent, budget)

    def _by(self, task: Task, charges: Charges, counted: Sequence[tuple[int, QueryCount]]) -> float:
        """Return the task's ε, composed again (about 0.1 s) only if charges or counts were added."""
        count, epsilon = self._known.get(task.id, ((0, 0), 0.0))
        now = len(charges), len(counted)
        if charges and now != count:
            # The accountant loads scipy, which would double a service's start-up time; charges come later.
            from hubbub.service.ledger.ledgers import epsilon_of

            epsilon = epsilon_of(task, charges, counted)
            self._known[task.id] = now, epsilon
        return epsilon
