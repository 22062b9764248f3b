"""A round of real services is one trace, which says nothing of any device."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import RoundState
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.protos.v1 import submission_pb2, submission_pb2_grpc
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.service.observability.traces import SpanCount, Step, TracedRound
from hubbub.verification.certificate import Pins, verify
from support.fleets import fleet_of
from support.metrics_scrape import scrape
from support.otlp_collector import OTLPCollector, attributes, collecting
from support.patience import pause
from support.planted_secrets import found_in
from support.samples import FEW

DEVICES = 60
NAME = "recognizable-device"
DEVICES_TRACE = bytes.fromhex("1234567890abcdef" * 2)
"""A trace of which a device claims to be part."""

DEVICES_BAGGAGE = "recognizable-baggage"
ALLOWED = {"hubbub.task", "hubbub.task_id", "hubbub.round", "hubbub.query", *(f"hubbub.{count}" for count in SpanCount)}

PARENTS = {
    "round": {""},
    **{step: {"round"} for step in ("mix", "release", "erase", "hop", "decode", "certify")},
    **{step: {"mix", "hop"} for step in ("noise", "permute")},
    "deliver": {"release", "hop"},
}
"""Under which spans each span is."""

QUERIES = ("theme", "session")
SPANS = Counter(
    {("hubbub-shuffler", step): 1 for step in ("round", "mix", "noise", "permute", "release", "erase")}
    | {("hubbub-shuffler", "deliver"): 2, ("hubbub-analyzer", "decode"): 2, ("hubbub-analyzer", "certify"): 1}
    | {("hubbub-hop", step): 2 for step in ("hop", "noise", "permute", "deliver")}
)
"""How often each service has each span in a round of two queries."""


class TracedPipeline(LocalPipeline):
    """Each service sends its spans to one collector."""

    endpoint = ""

    async def start(self, party: str) -> None:
        self._set(party, "endpoint", self.endpoint)
        await super().start(party)


def draft() -> Draft:
    schedule = Schedule(int(time.time()), length=3600, grace=86_400, rounds=1, close="operator")
    privacy = Privacy(epsilon=8.0, delta=1e-2, epsilon_local=16.0, large_delta=FEW)
    queries = (Histogram(QUERIES[0], ("light", "dark")), Number(QUERIES[1], 0.0, 60.0, "minutes", optional=True))
    return Draft("kiosks", schedule, 50, privacy, queries, noise="always")


async def test_a_round_is_one_trace_from_its_cut_to_its_certificate_and_has_nothing_of_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the environment names is nobody's business: the services read their settings alone.
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "host.name=recognizable-host")
    with collecting() as collector:
        pipeline = TracedPipeline(draft(), tmp_path / "pipeline", hops=2)
        pipeline.endpoint = collector.endpoint
        async with pipeline:
            many = [(f"{NAME}-{each}", {"theme": "dark", "session": 20.0}) for each in range(DEVICES)]
            async with fleet_of(pipeline) as carrier:
                assert (await carrier.submit_many(many, 0, per_call=20)).accepted == DEVICES
            await claim_a_trace(pipeline)
            planted = {*stored(pipeline.folder.of("client")), *stored(pipeline.folder.of(Role.SHUFFLER))}
            planted |= {pipeline.ticket(name) for name, _ in many}
            cut = time.time_ns()
            assert collector.spans == []
            certificate = await certified(pipeline)
            metrics = await scrape(pipeline.services[Role.SHUFFLER].addresses["metrics"])
            assert metrics.value("hubbub_shuffler_spans_total", result="lost") == 0
        # The services have ended, and sent what waited.
        check_trace(collector, pipeline, certificate, cut)
        sent = b"".join(collector.bodies) + "".join(collector.headers).encode()
    assert len(planted) > 3 * DEVICES
    assert found_in(sent, planted) == []
    words = (NAME, DEVICES_BAGGAGE, "recognizable-host", str(tmp_path), "dark", "https://", "submission")
    assert [word for word in words if word.encode() in sent] == []
    # The address of the collector itself is in the header `Host` alone.
    assert b"127.0.0.1" not in b"".join(collector.bodies)
    assert DEVICES_TRACE not in sent


async def claim_a_trace(pipeline: LocalPipeline) -> None:
    """Ask the shuffler as a device that sends a trace's context and baggage."""
    metadata = (("traceparent", f"00-{DEVICES_TRACE.hex()}-1234567890abcdef-01"), ("baggage", f"who={DEVICES_BAGGAGE}"))
    request = submission_pb2.GetRoundRequest(task_id=pipeline.task.task.id, round=0)
    async with open_channel(pipeline.shuffler, TLS(pipeline.authority)) as channel:
        await submission_pb2_grpc.SubmissionServiceStub(channel).GetRound(request, metadata=metadata)


def stored(folder: Path) -> set[bytes]:
    """Every text of bytes in the tables below a folder: ids, pseudonyms, digests, keys, sealed reports."""
    found = set()
    for path in folder.rglob("*.db"):
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            rows = [row for table in tables for row in database.execute(f'SELECT * FROM "{table}"')]  # noqa: S608
        database.close()
        found |= {value for row in rows for value in row if isinstance(value, bytes) and len(value) >= 8}
    return found


async def certified(pipeline: LocalPipeline) -> bytes:
    await pipeline.close_round(0)
    results = await pipeline.results(0)
    while [status.state for status in await pipeline.status()] != [RoundState.ERASED]:
        await pause()
    return results.certificate


def check_trace(collector: OTLPCollector, pipeline: LocalPipeline, certificate: bytes, cut: int) -> None:
    spans, task = collector.spans, pipeline.task.task
    assert Counter((service, span.name) for service, span in spans) == SPANS
    trace_id, first = TracedRound.of(task, 0).ids
    assert {span.trace_id for _, span in spans} == {trace_id.to_bytes(16, "big")}
    by_id = {span.span_id: span for _, span in spans}
    assert len(by_id) == len(spans)
    assert by_id[first.to_bytes(8, "big")].name == Step.ROUND
    above = {(span.name, by_id[span.parent_span_id].name if span.parent_span_id else "") for _, span in spans}
    assert above == {(name, parent) for name, parents in PARENTS.items() for parent in parents}
    for _, span in spans:
        assert set(attributes(span)) <= ALLOWED
        assert (span.events, span.links, span.trace_state) == ([], [], "")
        assert cut // 10**6 * 10**6 <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert (span.start_time_unix_nano % 10**6, span.end_time_unix_nano % 10**6) == (0, 0)
    check_counts([span for _, span in spans], pipeline, certificate)


def check_counts(spans: list[Span], pipeline: LocalPipeline, certificate: bytes) -> None:
    """Each count of a span is in the certificate."""
    named = pipeline.task.task.identities
    proven = verify(certificate, Pins(named.operator, named.shuffler, named.analyzer, named.hops))
    added = {pipeline.task.task.queries[record.batch.query].name: record.added for record in proven.records}
    for span in spans:
        found = attributes(span)
        assert found["hubbub.task"] == "kiosks"
        assert found["hubbub.task_id"] == pipeline.task.task.id.hex()[:12]
        assert found["hubbub.round"] == 0
        assert found.get("hubbub.reports", DEVICES) == DEVICES
        assert found.get("hubbub.counted", DEVICES) == DEVICES
    decoded = {
        attributes(span)["hubbub.query"]: attributes(span)["hubbub.dummies"] for span in spans if span.name == "decode"
    }
    assert decoded == added
