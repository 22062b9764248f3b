"""What is shown of people who submit goes in steps, and stays what monitoring takes it for."""

from __future__ import annotations

from prometheus_client import Histogram

from hubbub.service.observability.rounding import CountRounding, RoundedRegistry


def test_a_sum_of_times_never_falls_while_its_count_rises() -> None:
    """By proportion alone, 100 of 1 s and 199 of 1 ms showed a sum of 67 after one of 100: to Prometheus a restart."""
    registry = RoundedRegistry(CountRounding(100), lambda *_: False)
    timed = Histogram("stage_seconds", "How long.", registry=registry)
    shown, total = [], 0.0
    for count, seconds in ((100, 1.0), (199, 0.001), (1, 0.001), (100, 0.5), (100, 0.001)):
        for _ in range(count):
            timed.observe(seconds)
        total += count * seconds
        value = registry.get_sample_value("stage_seconds_sum")
        assert value is not None
        assert value <= total + 1e-9
        shown.append((registry.get_sample_value("stage_seconds_count"), value))
    assert [count for count, _ in shown] == [100, 200, 300, 400, 500]
    assert [value for _, value in shown] == sorted(value for _, value in shown)
    assert shown[0] == (100, 100.0)
