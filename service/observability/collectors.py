"""What the metrics of both services have in common: labels, ages, and the ε that each task has spent.

Prometheus asks in a thread of the metrics port; the stores answer in the service's event loop. So a collector takes one
picture of its service there, and makes its metrics of that.
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
"""Labels of everything that is one task's; ids tell tasks with one name apart."""

TASK_ID_DIGITS = 12
"""How many digits of a task's id are in labels, as in `hubbub status`."""

SPENT = (
    "ε of all rounds charged so far, composed at the task's δ and minimum; at the analyzer batches with fewer valid "
    "honest reports at those."
)
BUDGET = "The task's epsilon_total, if it has one."

SNAPSHOT_SECONDS = 10.0
"""How long the event loop may take to answer: a service that is that busy is shown as not answering."""

P = TypeVar("P")


def names(task: Task) -> tuple[str, str]:
    """Return the values of the labels `TASK`."""
    return task.name, task.id.hex()[:TASK_ID_DIGITS]


class SnapshotCollector(Collector, Generic[P]):
    """A collector that is made in the service's event loop, and takes its pictures there."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()

    @abstractmethod
    async def _snapshot(self) -> P:
        """Return the service as it is now."""

    @abstractmethod
    def _metrics(self, snapshot: P) -> Iterator[Metric]:
        """Return the metrics of a picture; it may take its time, as nothing but the one who asks waits for it."""

    def collect(self) -> Iterator[Metric]:
        """Return everything as it is now; blocks, and is called in any thread but the event loop's.

        Nothing where the store cannot be read: that is among the incidents, which are shown all the same.

        Raises:
            TimeoutError: if the event loop does not answer.
        """
        with self._lock, contextlib.suppress(HubbubError):
            yield from self._metrics(_asked(self._snapshot(), self._loop))


def _asked(snapshot: Coroutine[Any, Any, P], loop: asyncio.AbstractEventLoop) -> P:
    return asyncio.run_coroutine_threadsafe(snapshot, loop).result(SNAPSHOT_SECONDS)


class Ages:
    """How long each key was seen: its time begins when it is first asked about, and ends when it no longer is."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._first_seen: dict[Any, float] = {}

    def of(self, keys: Iterable[Any]) -> dict[Any, float]:
        """Return for each of the keys that there are now how many seconds ago it was first seen; forget all others."""
        now = self._clock()
        self._first_seen = {key: self._first_seen.get(key, now) for key in keys}
        # A clock that was set back makes nothing younger than new.
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
        """Return the task's ε, composed anew (about 0.1 s) only when there are more charges or counts."""
        count, epsilon = self._known.get(task.id, ((0, 0), 0.0))
        now = len(charges), len(counted)
        if charges and now != count:
            # The accountant brings scipy, which would double a service's start-up time; charges come later.
            from hubbub.service.ledger.ledgers import epsilon_of

            epsilon = epsilon_of(task, charges, counted)
            self._known[task.id] = now, epsilon
        return epsilon
