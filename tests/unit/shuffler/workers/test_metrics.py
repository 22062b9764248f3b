"""Sums over all processes; what was counted by one that has ended stays, what it held does not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families

from hubbub.service.observability.rounding import CountRounding
from hubbub.shuffler.workers.metrics import MergedMetrics, MergedRegistry, metrics_snapshot


class One:
    """A process with metrics of its own."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.seconds = Histogram("hubbub_s_seconds", "x", ["stage"], registry=self.registry, buckets=(1, 2))
        self.refused = Counter("hubbub_s_refused", "x", ["port"], registry=self.registry)
        self.held = Gauge("hubbub_s_held", "x", registry=self.registry)
        Gauge("hubbub_s_build", "x", registry=self.registry)
        Gauge("other", "x", registry=self.registry)

    def snapshot(self) -> list[object]:
        """As it goes over a channel."""
        found: list[object] = json.loads(json.dumps(metrics_snapshot(self.registry, "hubbub_s")))
        return found


def value(merged: MergedMetrics, leader: CollectorRegistry, name: str, **labels: str) -> float:
    found = [
        sample.value
        for family in merged.onto(leader.collect())
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    ]
    assert len(found) == 1, (name, found)
    return found[0]


def test_what_processes_count_is_added_up_and_never_falls() -> None:
    leader, one, other, merged = One(), One(), One(), MergedMetrics()
    for number, each in enumerate((one, other), 1):
        each.seconds.labels("admit").observe(1.5)
        each.refused.labels("https").inc(number)
        each.held.set(10 * number)
        merged.put(number, each.snapshot())
    leader.seconds.labels("store").observe(0.5)
    leader.held.set(1)
    registry = leader.registry
    assert value(merged, registry, "hubbub_s_refused_total", port="https") == 3
    assert value(merged, registry, "hubbub_s_seconds_count", stage="admit") == 2
    assert value(merged, registry, "hubbub_s_seconds_bucket", stage="admit", le="2.0") == 2
    assert value(merged, registry, "hubbub_s_seconds_count", stage="store") == 1
    assert value(merged, registry, "hubbub_s_held") == 31
    merged.end(2)
    assert value(merged, registry, "hubbub_s_refused_total", port="https") == 3
    assert value(merged, registry, "hubbub_s_held") == 11
    again = One()
    again.refused.labels("https").inc(5)
    merged.put(2, again.snapshot())
    assert value(merged, registry, "hubbub_s_refused_total", port="https") == 8


def test_whoever_reads_while_one_ends_sees_no_count_fall() -> None:
    """Metrics are collected in other threads: one comes at each line of what changes them here."""
    leader, merged, one = One(), MergedMetrics(), One()
    one.refused.labels("https").inc(7)
    one.seconds.labels("admit").observe(1.5)
    merged.put(1, one.snapshot())
    found = []

    def look(frame: FrameType, _event: str, _given: object) -> Callable[..., Any] | None:
        if frame.f_code is not MergedMetrics.end.__code__:
            return None
        found.append(value(merged, leader.registry, "hubbub_s_refused_total", port="https"))
        found.append(value(merged, leader.registry, "hubbub_s_seconds_count", stage="admit") + 6)
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        merged.end(1)
    finally:
        sys.settrace(before)
    assert len(found) > 4
    assert set(found) == {7.0}


def test_every_sample_is_shown_once_as_prometheus_reads_it() -> None:
    from prometheus_client import generate_latest

    merged, one = MergedMetrics(), One()
    registry = MergedRegistry(CountRounding(1), lambda _name, _labels: True, merged)
    leader = One(registry)
    for each in (leader, one):
        each.seconds.labels("admit").observe(0.5)
        each.refused.labels("https").inc()
    Counter("hubbub_s_alone", "x", registry=one.registry).inc(4)
    merged.put(1, one.snapshot())
    families = list(text_string_to_metric_families(generate_latest(registry).decode()))
    samples = [(each.name, tuple(sorted(each.labels.items()))) for family in families for each in family.samples]
    assert len(samples) == len(set(samples))
    assert len({family.name for family in families}) == len(families)
    values = {(each.name, tuple(each.labels.values())): each.value for family in families for each in family.samples}
    assert values["hubbub_s_alone_total", ()] == 4
    assert values["hubbub_s_refused_total", ("https",)] == 2


def test_it_is_rounded_as_a_whole() -> None:
    merged, one = MergedMetrics(), One()
    registry = MergedRegistry(CountRounding(10), lambda _name, _labels: False, merged)
    leader = One(registry)
    leader.refused.labels("https").inc(6)
    one.refused.labels("https").inc(6)
    merged.put(1, one.snapshot())
    (family,) = [each for each in registry.collect() if each.name == "hubbub_s_refused"]
    assert [each.value for each in family.samples if each.name.endswith("_total")] == [10]
