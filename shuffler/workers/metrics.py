"""Adds the metrics of workers to those of the main process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from hubbub.service.observability.rounding import CountRounding, Exact, RoundedRegistry

_Key = tuple[str, frozenset[tuple[str, str]]]
"""A sample's name and labels."""

_GONE = 0
"""The number for all workers that have ended; running ones are numbered from 1."""

_LEFT_OUT = ("_build", "_incidents")
"""Metrics that every process has and that are shown once."""


def metrics_snapshot(registry: CollectorRegistry, prefix: str) -> list[Any]:
    """Return a registry's current values under names with that prefix, as a document of numbers and texts."""
    return [
        [each.name, each.documentation, each.type, [[s.name, s.labels, s.value] for s in each.samples]]
        for each in registry.collect()
        if each.name.startswith(prefix) and not each.name.endswith(_LEFT_OUT)
    ]


class MergedMetrics:
    """The last snapshot of each worker. Counters of a worker that has ended stay.

    Metrics are collected in separate threads, so each change here is a single assignment.
    """

    def __init__(self) -> None:
        self._shown: dict[int, dict[_Key, float]] = {_GONE: {}}
        self._labels: dict[_Key, tuple[str, dict[str, str]]] = {}
        self._families: dict[str, tuple[str, str]] = {}

    def put(self, worker: int, snapshot: list[Any]) -> None:
        """Store a worker's snapshot."""
        values: dict[_Key, float] = {}
        for name, documentation, kind, samples in snapshot:
            self._families[name] = documentation, kind
            for sample, labels, value in samples:
                key = sample, frozenset(labels.items())
                self._labels[key] = name, labels
                values[key] = values.get(key, 0.0) + value
        self._shown = {**self._shown, worker: values}

    def end(self, worker: int) -> None:
        """Remove a worker that has ended: its counters stay, its gauges do not."""
        shown = dict(self._shown)
        gone = dict(shown[_GONE])
        for key, value in shown.pop(worker, {}).items():
            name, _labels = self._labels[key]
            if self._families[name][1] != "gauge":
                gone[key] = gone.get(key, 0.0) + value
        self._shown = {**shown, _GONE: gone}

    def onto(self, families: Iterable[Metric]) -> Iterator[Metric]:
        """Yield families with workers' values added to their samples, then the families that only workers have."""
        shown = list(self._shown.values())
        own: dict[str, list[Sample]] = {}
        for key, (name, labels) in list(self._labels.items()):
            value = sum(each.get(key, 0.0) for each in shown)
            own.setdefault(name, []).append(Sample(key[0], labels, value, None, None))
        for family in families:
            yield _added(family, own.pop(family.name, []))
        for name, samples in own.items():
            documentation, kind = self._families[name]
            found = Metric(name, documentation, kind)
            found.samples = samples
            yield found


def _added(family: Metric, more: list[Sample]) -> Metric:
    if not more:
        return family
    values = {(each.name, frozenset(each.labels.items())): each for each in more}
    found = Metric(family.name, family.documentation, family.type, family.unit)
    for each in family.samples:
        other = values.pop((each.name, frozenset(each.labels.items())), None)
        found.samples.append(each if other is None else each._replace(value=each.value + other.value))
    found.samples += values.values()
    return found


class MergedRegistry(RoundedRegistry):
    """A registry that shows its metrics and those of workers, added and rounded together."""

    def __init__(self, counts: CountRounding, exact: Exact, merged: MergedMetrics) -> None:
        """Start empty."""
        super().__init__(counts, exact)
        self._merged = merged

    def gathered(self) -> Iterator[Metric]:
        """Return all families without rounding."""
        return self._merged.onto(super().gathered())
