"""What spans are called and of which trace they are is decided by the round alone; without a collector nothing is."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hubbub.service.extras import opened_traces
from hubbub.service.observability.traces import (
    INSIDE,
    NO_TRACES,
    NoTraces,
    SpanCollector,
    SpanCount,
    Step,
    TracedRound,
)
from hubbub.service.settings import SettingsError, TLSSettings, TraceSettings, checked_endpoint
from support.source_tree import ROOT

ROUND = TracedRound("usage", bytes(range(32)), 7)
TLS = TLSSettings(authority=Path("a"), certificate=Path("c"), key=Path("k"))


def test_the_trace_of_a_round_is_that_of_every_query_and_of_no_other_round() -> None:
    assert replace(ROUND, query="theme").ids == ROUND.ids
    others = (replace(ROUND, number=8), replace(ROUND, task_id=bytes(32)))
    assert len({ROUND.ids, *(each.ids for each in others)}) == 3
    # Services of different versions must agree.
    trace_id, first = ROUND.ids
    assert f"{trace_id:032x} {first:016x}" == "d23c3a51cd261eaf4249bf28f1262927 1496958fb5ce4a16"


def test_without_a_collector_blocks_run_and_nothing_is_counted() -> None:
    with NO_TRACES.span(Step.MIX, ROUND) as span:
        span.note({SpanCount.REPORTS: 3})
        span.drop()
    (family,) = SpanCollector("hop", NO_TRACES).collect()
    found = {(sample.name, sample.labels["result"]): sample.value for sample in family.samples}
    assert found == {("hubbub_hop_spans_total", "sent"): 0, ("hubbub_hop_spans_total", "lost"): 0}


async def test_without_an_endpoint_nothing_of_opentelemetry_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hubbub.service.observability.otlp", None)
    async with opened_traces("hop", TraceSettings(), TLS) as traces:
        assert isinstance(traces, NoTraces)
    with pytest.raises(SettingsError, match=r"traces\.endpoint needs OpenTelemetry.*'hubbub\[traces\]'"):
        async with opened_traces("hop", TraceSettings(endpoint="http://127.0.0.1:4318/v1/traces"), TLS):
            pass


def test_an_endpoint_is_a_url_in_clear_on_loopback_alone() -> None:
    for good in ("", "http://127.0.0.1:4318/v1/traces", "http://[::1]:4318/x", "https://traces.example.org:4318/v1"):
        assert checked_endpoint(good) == good
    for bad in ("127.0.0.1:4318", "grpc://127.0.0.1:4317", "http://127.0.0.1", "https://who:secret@there.example:1/"):
        with pytest.raises(ValueError, match=r"."):
            checked_endpoint(bad)
    with pytest.raises(ValueError, match="http beyond this machine is in clear; use https"):
        checked_endpoint("http://traces.example.org:4318/v1/traces")


def test_every_span_and_every_number_is_on_the_page_that_explains_traces() -> None:
    page = (ROOT / "docs" / "howto" / "watch-and-alert.md").read_text().partition("\n## Traces\n")[2]
    part = page.partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| `(\w+)` \|", part)
    assert rows == [*map(str, Step)]
    assert set(Step) > INSIDE
    assert all(f"`hubbub.{count}`" in part for count in SpanCount)


@pytest.mark.parametrize("address", ["HTTPS://Host.example:4318/v1/traces", " https://Host.example:4318/v1/\ntraces"])
def test_an_address_is_called_as_it_was_checked(address: str) -> None:
    """In capitals it would be called without the authority and the certificate of `[tls]`."""
    assert checked_endpoint(address) == "https://Host.example:4318/v1/traces"


@pytest.mark.parametrize("address", ["http://127.0.0.1:4318", "http://127.0.0.1:4318/"])
def test_an_address_without_a_path_is_refused_as_collectors_take_nothing_there(address: str) -> None:
    with pytest.raises(ValueError, match="it must be http"):
        checked_endpoint(address)
