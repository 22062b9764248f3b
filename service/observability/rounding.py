"""What a service shows of people who submit, rounded so that no single submission is seen to arrive.

A number that is read every few seconds, and that each submission changes, tells when a person submitted. So whatever a
submission changes is shown in steps: counts, latencies, bytes, processor time. `RoundedRegistry` holds to that: it
rounds whatever is exported, but for what is named as changed by no submission, so that a new metric is rounded unless
somebody says otherwise.
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
"""Bytes that count as one submission: many times what one takes in a store and its log."""

PROCESSOR_SECONDS = 0.1
"""Seconds of processor time that count as one submission: many times what one takes."""

Exact = Callable[[str, Mapping[str, str]], bool]
"""Whether no submission changes the sample of this name and these labels, or whoever makes it has rounded it."""


@dataclass(frozen=True)
class CountRounding:
    """Rounds counts down to multiples of `step`; with a step of 1 they stay as they are."""

    step: int = 1

    def round_down(self, count: int) -> int:
        """Return the largest multiple of the step that is not above a count."""
        return count - count % self.step


class RoundedRegistry(CollectorRegistry):
    """A registry that shows everything rounded by `counts`, but for what `exact` names."""

    def __init__(self, counts: CountRounding, exact: Exact) -> None:
        """Begin empty."""
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
        """Return all metrics as they are."""
        return iter(super().collect())

    def restricted_registry(self, names: Any) -> Any:  # noqa: ARG002 - what would be asked for
        """Return all metrics, whichever are asked for: the library would take some from around the rounding."""
        return self

    def _rounded(self, family: Metric) -> Metric:
        shown = Metric(family.name, family.documentation, family.type, family.unit)
        # How often each was timed, by its labels: a sum goes by it.
        times = {_labels(each): int(each.value) for each in family.samples if each.name == f"{family.name}_count"}
        shown.samples = [each._replace(value=self._value(each, times.get(_labels(each)))) for each in family.samples]
        return shown

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
        """Return the sum as it was when the shown count last changed; it never falls while that rises."""
        key, shown = (sample.name, _labels(sample)), self._counts.round_down(times)
        with self._guard:
            count, value = self._held.get(key, (0, 0.0))
            if shown != count:
                # Never less than before where the count rose: monitoring would take that for a restart.
                value = max(sample.value * shown / times, value if shown > count else 0.0)
                self._held[key] = shown, value
        return value


def _labels(sample: Sample) -> frozenset[tuple[str, str]]:
    return frozenset(sample.labels.items())
