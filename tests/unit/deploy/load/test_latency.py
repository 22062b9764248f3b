"""Percentiles are exact, latencies are of who was acknowledged, and figures say when they are the load's own."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.deploy.load.latency import COLUMNS, LoadCounts, Rows, StepResult, document, percentiles


def rows(*given_rows: tuple[float, float, float, int, int]) -> Rows:
    return np.array(given_rows, dtype=np.float64).reshape(-1, COLUMNS)


def played(found: Rows, seconds: float = 2.0, **counts: object) -> StepResult:
    return StepResult(100.0, seconds, found, LoadCounts(**counts), 0.25)  # type: ignore[arg-type]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300))
def test_percentiles_are_the_smallest_that_so_many_do_not_exceed(values: list[float]) -> None:
    found = percentiles(np.array(values))
    assert found["max"] == max(values)
    for name in ("p50", "p90", "p99", "p99.9"):
        share = float(name[1:]) / 100
        candidates = [each for each in values if sum(other <= each for other in values) >= share * len(values) - 1e-9]
        assert found[name] == min(candidates)


def test_nobody_has_no_latency() -> None:
    assert percentiles(np.array([])) == {}
    nobody = played(rows((0.5, 0.0, 10.0, 1, 0)))
    assert (nobody.latencies(), nobody.acknowledged, nobody.devices) == ({}, 0, 1)


def test_each_acknowledged_device_of_a_call_has_its_latency_and_others_none() -> None:
    step = played(rows((0.1, 0.0, 0.010, 100, 99), (0.2, 0.0, 5.0, 100, 1)))
    found = step.latencies()
    assert (step.devices, step.acknowledged) == (200, 100)
    assert (found["p50"], found["p99"], found["p99.9"], found["max"]) == (0.010, 0.010, 5.0, 5.0)


def test_throughput_lasts_until_the_last_answer() -> None:
    assert played(rows((0.1, 0.0, 0.1, 10, 10))).throughput == 5.0
    assert math.isclose(played(rows((1.9, 0.0, 8.1, 10, 10))).throughput, 1.0)


def test_seconds_are_those_in_which_calls_were_due() -> None:
    step = played(rows((0.1, 0, 3.0, 1, 1), (0.9, 0, 1.0, 2, 0), (1.0, 0, 0.5, 1, 1)))
    first, second = step.each_second()
    assert first == {"second": 0, "devices": 3, "acknowledged": 1, "p50": 3.0, "p99": 3.0}
    assert second == {"second": 1, "devices": 1, "acknowledged": 1, "p50": 0.5, "p99": 0.5}
    (empty,) = played(rows(), seconds=1.0).each_second()
    assert empty == {"second": 0, "devices": 0, "acknowledged": 0, "p50": None, "p99": None}


@pytest.mark.parametrize(("late", "unsent", "says"), [(1, 0, True), (2, 0, False), (0, 1, False)])
def test_a_load_that_came_late_itself_says_so(late: int, unsent: int, says: bool) -> None:
    calls = [(0.1, 0.5 if number < late else 0.0, 0.01, 1, 1) for number in range(10)]
    assert played(rows(*calls), unsent=unsent).is_of_the_service is says


def test_what_processes_counted_is_added_up() -> None:
    counts = LoadCounts(Counter(overloaded=1), Counter(overloaded=2), {"overloaded": "first"}, 3)
    counts.add(
        LoadCounts(Counter(overloaded=4, unanswered=1), Counter(), {"overloaded": "later", "unanswered": "x"}, 1)
    )
    assert counts.refused == {"overloaded": 5, "unanswered": 1}
    assert (counts.retries["overloaded"], counts.unsent) == (2, 4)
    assert counts.messages == {"overloaded": "first", "unanswered": "x"}


def test_the_document_is_json_in_milliseconds() -> None:
    content = json.loads(json.dumps(document(played(rows((0.1, 0.0, 0.01, 2, 2)), refused=Counter(overloaded=1)))))
    assert content["latency_ms"] == {"p50": 10.0, "p90": 10.0, "p99": 10.0, "p99.9": 10.0, "max": 10.0}
    assert (content["devices"], content["acknowledged"], content["acknowledged_per_second"]) == (2, 2, 1.0)
    assert content["each_second"][1] == {
        "second": 1,
        "devices": 0,
        "acknowledged": 0,
        "p50_ms": None,
        "p99_ms": None,
    }
    assert content["refused"] == {"overloaded": 1}
