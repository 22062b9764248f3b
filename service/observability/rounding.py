"""Rounds the metrics that submissions change, so that no single submission is seen to arrive.

A number that every submission changes, read every few seconds, reveals when a person submitted. So every such number is
shown in steps: counts, latencies, bytes, processor time. `RoundedRegistry` enforces that: it rounds every exported
sample, except those named as independent of submissions. So a new metric is rounded by default.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

BYTES = 65_536
"""Bytes that count as one submission: many times the bytes of one in a store and its log."""

PROCESSOR_SECONDS = 0.1
"""Seconds of processor time that count as one submission: many times the cost of one."""

OF_PROCESS = ("process_", "python_")
"""Beginnings of the names of the library's own metrics."""

ROUNDED = "Rounded down to steps, so that no single submission is seen (count_step)."
"""What the HELP of such a metric says if it is rounded."""

Exact = Callable[[str, Mapping[str, str]], bool]
"""Whether no submission changes the sample of this name and these labels, or its collector has rounded it."""


@dataclass(frozen=True)
class CountRounding:
    """Rounds counts down to multiples of `step`; a step of 1 leaves them unchanged."""

    step: int = 1

    def round_down(self, count: int) -> int:
        """Return the largest multiple of the step up to a count."""
        return count - count % self.step


class RoundedRegistry(CollectorRegistry):
    """A registry that shows every sample rounded by `counts`, except those that `exact` names."""

    def __init__(self, counts: CountRounding, exact: Exact) -> None:
        """Make an empty registry."""
        super().__init__()
        self._counts = counts
        self._exact = exact
        self._held: dict[Any, tuple[int, float]] = {}
        self._guard = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        """Return all metrics, rounded."""
        for family in self.gathered():
            yield self._rounded(family)

    def gathered(self) -> Iterator[Metric]:
        """Return all metrics unrounded."""
        return iter(super().collect())

    def restricted_registry(self, names: Any) -> Any:  # noqa: ARG002 - the library's parameter
        """Return all metrics, for any `names`: the library's own method would bypass the rounding."""
        return self

    def _rounded(self, family: Metric) -> Metric:
        shown = Metric(family.name, self._documented(family), family.type, family.unit)
        # The count of each histogram, by labels: its sum is rounded with it.
        times = {_labels(each): int(each.value) for each in family.samples if each.name == f"{family.name}_count"}
        shown.samples = [each._replace(value=self._value(each, times.get(_labels(each)))) for each in family.samples]
        return shown

    def _documented(self, family: Metric) -> str:
        """Return a metric's HELP; the library's own on the process does not know that its numbers are rounded."""
        text = str(family.documentation)
        if self._counts.step == 1 or not family.name.startswith(OF_PROCESS):
            return text
        is_rounded = any(not self._exact(each.name, each.labels) for each in family.samples)
        return f"{text.rstrip('.')}. {ROUNDED}" if is_rounded else text

    def _value(self, sample: Sample, times: int | None) -> float:
        if self._counts.step == 1 or self._exact(sample.name, sample.labels):
            return sample.value
        if sample.name.endswith("_sum") and times is not None:
            return self._sum(sample, times)
        if sample.name.endswith("_bytes"):
            return float(self._counts.round_down(int(sample.value) // BYTES) * BYTES)
        if sample.name.endswith("_seconds_total"):
            return self._counts.round_down(int(sample.value / PROCESSOR_SECONDS)) * PROCESSOR_SECONDS
        return float(self._counts.round_down(int(sample.value)))

    def _sum(self, sample: Sample, times: int) -> float:
        """Return the sum as of the last change of the shown count; it never falls while the count rises."""
        key, shown = (sample.name, _labels(sample)), self._counts.round_down(times)
        with self._guard:
            count, value = self._held.get(key, (0, 0.0))
            if shown != count:
                # Never less than before if the count rose: monitoring would see a restart.
                value = max(sample.value * shown / times, value if shown > count else 0.0)
                self._held[key] = shown, value
        return value


def _labels(sample: Sample) -> frozenset[tuple[str, str]]:
    return frozenset(sample.labels.items())
