"""Provides the metrics that all services share: the registry, durations of stages, the store's disk, incidents.

A service's own metrics are in its `metrics.py`.

Labels come only from a service's settings and code, so no outsider can create new ones.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import prometheus_client
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from hubbub import __version__
from hubbub.service.observability import logs
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.observability.timing import Observe

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""Upper ends in seconds: a commit takes milliseconds, a release of a large round minutes."""


class Metrics:
    """A service's registry: the process, the version, durations of its `stages`, and collectors that it adds."""

    def __init__(
        self, service: str, stages: Iterable[str], registry: prometheus_client.CollectorRegistry | None = None
    ) -> None:
        """Begin in a new registry, or in the given one, which may round its values (`RoundedRegistry`)."""
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = prometheus_client.CollectorRegistry() if registry is None else registry
        prometheus_client.ProcessCollector(registry=self.registry)
        about = prometheus_client.Info(
            f"hubbub_{service}_build", "1, with the version of hubbub.", registry=self.registry
        )
        about.info({"version": __version__})
        name, what = f"hubbub_{service}_stage_duration_seconds", "How long pieces of work took, by stage."
        self._stages = prometheus_client.Histogram(name, what, ["stage"], registry=self.registry, buckets=BUCKETS)
        self._known = {stage: self._stages.labels(stage).observe for stage in stages}

    def stage(self, name: str) -> Observe:
        """Return the callback for the duration of a stage's work; only stages named at the start have one."""
        return self._known[name]


class Disk(Collector):
    """The size of a store, and the free space on its disk."""

    def __init__(self, service: str, folder: Path) -> None:
        self._prefix = f"hubbub_{service}_store"
        self._folder = folder

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return both as they are now."""
        size = sum(map(_size, self._folder.iterdir()))
        yield GaugeMetricFamily(f"{self._prefix}_size_bytes", "Bytes of the store's files.", value=size)
        free = shutil.disk_usage(self._folder).free
        yield GaugeMetricFamily(f"{self._prefix}_free_bytes", "Bytes free on the disk of the store.", value=free)


class IncidentCollector(Collector):
    """The open incidents of a service, by kind, and the state of its log."""

    def __init__(self, service: str, incidents: Incidents) -> None:
        self._prefix = f"hubbub_{service}"
        self._incidents = incidents

    def collect(self) -> Iterator[Metric]:
        """Return it as it is now."""
        found = GaugeMetricFamily(f"{self._prefix}_incidents", "Open incidents, by kind.", labels=("kind",))
        for kind in IncidentKind:
            found.add_metric((kind.value,), self._incidents.count(kind))
        lost = CounterMetricFamily(
            f"{self._prefix}_log_lines_lost", "Lines of the log that could not be written since the start."
        )
        lost.add_metric((), logs.lost())
        waiting = GaugeMetricFamily(f"{self._prefix}_log_lines_waiting", "Lines of the log that wait to be written.")
        waiting.add_metric((), logs.waiting())
        yield from (found, lost, waiting)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # a log that was cut meanwhile
        return 0
