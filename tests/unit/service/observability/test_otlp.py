"""Spans reach a collector by OTLP; one that is away, slow or refuses loses spans, and keeps nobody waiting."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from structlog.testing import capture_logs

from hubbub.deploy.local.ports import kept_address
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.transport.channels import TLS
from hubbub.service.observability import otlp
from hubbub.service.observability.otlp import CLOSE_SECONDS, MOST_WAITING, CollectedTraces, collected
from hubbub.service.observability.traces import SpanCount, Step, TracedRound
from support.otlp_collector import OTLPCollector, attributes, collecting
from support.patience import PATIENCE
from support.samples import make_tls

ROUND = TracedRound("usage", bytes(range(32)), 7)
THEME = TracedRound("usage", bytes(range(32)), 7, "theme")
NO_RETRY = 0.01
"""Seconds in which a try to send spans is over; the first pause before another would be longer."""

NO_TLS = TLS(Path("/nowhere/authority.pem"), Path("/nowhere/own.pem"), Path("/nowhere/own.key"))


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take long for what is quick."""
    monkeypatch.setattr(otlp, "CLOSE_SECONDS", PATIENCE)
    monkeypatch.setattr(otlp, "SEND_SECONDS", PATIENCE)


@pytest.fixture
def collector() -> Iterator[OTLPCollector]:
    with collecting() as running:
        yield running


async def test_spans_come_with_their_round_their_counts_and_the_step_around_them(collector: OTLPCollector) -> None:
    async with collected("shuffler", collector.endpoint, NO_TLS) as traces:
        with traces.span(Step.ROUND, ROUND) as whole, traces.span(Step.MIX, ROUND):
            with traces.span(Step.NOISE, THEME) as noise:
                noise.note({SpanCount.DUMMIES: 41})
            whole.note({SpanCount.REPORTS: 500})
    assert (traces.sent, traces.lost) == (3, 0)
    spans = {span.name: span for _, span in collector.spans}
    trace_id, first = ROUND.ids
    assert {span.trace_id for span in spans.values()} == {trace_id.to_bytes(16, "big")}
    assert (spans["round"].span_id, spans["round"].parent_span_id) == (first.to_bytes(8, "big"), b"")
    assert spans["mix"].parent_span_id == spans["round"].span_id
    assert spans["noise"].parent_span_id == spans["mix"].span_id
    named = {"hubbub.task": "usage", "hubbub.task_id": "000102030405", "hubbub.round": 7}
    assert attributes(spans["round"]) == {**named, "hubbub.reports": 500}
    assert attributes(spans["noise"]) == {**named, "hubbub.query": "theme", "hubbub.dummies": 41}


async def test_a_service_joins_the_trace_without_being_told_of_it(collector: OTLPCollector) -> None:
    async with collected("analyzer", collector.endpoint, NO_TLS) as traces:
        # A step inside another is under it only if both are of one round.
        other = TracedRound("other", bytes(32), 0)
        with traces.span(Step.DECODE, THEME), traces.span(Step.CERTIFY, ROUND), traces.span(Step.NOISE, other):
            pass
    spans = {span.name: span for _, span in collector.spans}
    first = ROUND.ids[1].to_bytes(8, "big")
    assert [spans[name].parent_span_id for name in ("decode", "certify")] == [first, first]
    assert spans["noise"].parent_span_id == TracedRound("other", bytes(32), 0).ids[1].to_bytes(8, "big")


async def test_nothing_is_said_of_the_machine_or_the_environment(
    collector: OTLPCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "host.name=recognizable")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "recognizable")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=recognizable")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    # These are no numbers, too small to keep what a span has, or larger than the queue.
    for name in ("SPAN_EVENT_COUNT_LIMIT", "SPAN_LINK_COUNT_LIMIT", "EVENT_ATTRIBUTE_COUNT_LIMIT"):
        monkeypatch.setenv(f"OTEL_{name}", "wrong")
    for name in ("ATTRIBUTE_COUNT_LIMIT", "SPAN_ATTRIBUTE_COUNT_LIMIT", "ATTRIBUTE_VALUE_LENGTH_LIMIT"):
        monkeypatch.setenv(f"OTEL_{name}", "1")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", str(MOST_WAITING + 1))
    async with collected("hop", collector.endpoint, NO_TLS) as traces:
        with traces.span(Step.HOP, ROUND):
            pass
    assert "recognizable" not in collector.headers[0]
    ((_, span),) = collector.spans
    assert attributes(span) == {"hubbub.task": "usage", "hubbub.task_id": "000102030405", "hubbub.round": 7}
    assert [set(attributes(each.resource)) for each in collector.resources] == [{"service.name", "service.version"}]
    assert b"recognizable" not in collector.bodies[0]


async def test_the_sdk_can_be_disabled(collector: OTLPCollector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    async with collected("shuffler", collector.endpoint, NO_TLS) as traces:
        with traces.span(Step.MIX, ROUND) as span:
            span.note({SpanCount.REPORTS: 500})
    assert (traces.sent, traces.lost, collector.bodies) == (0, 0, [])


async def test_an_error_is_named_by_its_kind_and_none_of_its_words_is_sent(collector: OTLPCollector) -> None:
    errors = {
        "mix": ValueError("recognizable"),
        "release": Refusal(Reason.OVER_BUDGET, "recognizable"),
        "hop": OSError(2, "recognizable"),
    }
    async with collected("shuffler", collector.endpoint, NO_TLS) as traces:
        for name, error in errors.items():
            with pytest.raises(type(error)), traces.span(Step(name), ROUND):
                raise error
    kinds = {span.name: attributes(span)["error.type"] for _, span in collector.spans}
    assert kinds == {"mix": "ValueError", "release": "over_budget", "hop": "FileNotFoundError"}
    assert {span.status.code for _, span in collector.spans} == {2}
    assert b"recognizable" not in collector.bodies[0]


async def test_a_step_that_ends_with_the_service_or_is_dropped_is_not_sent(collector: OTLPCollector) -> None:
    async with collected("shuffler", collector.endpoint, NO_TLS) as traces:
        with pytest.raises(asyncio.CancelledError), traces.span(Step.ROUND, ROUND), traces.span(Step.MIX, ROUND):
            raise asyncio.CancelledError
        with traces.span(Step.RELEASE, ROUND) as span:
            span.drop()
        with traces.span(Step.ERASE, ROUND):
            pass
    assert [span.name for _, span in collector.spans] == ["erase"]


@pytest.mark.parametrize("status", [None, 307, 400, 503])
async def test_what_a_collector_does_not_take_is_counted_as_lost(
    status: int | None, collector: OTLPCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "SEND_SECONDS", NO_RETRY)
    endpoint = f"http://{kept_address()}/v1/traces" if status is None else collector.endpoint
    collector.status = status or 200
    with capture_logs() as lines:
        async with collected("shuffler", endpoint, NO_TLS) as traces:
            with traces.span(Step.MIX, ROUND):
                pass
    assert (traces.sent, traces.lost, collector.bodies) == (0, 1, [])
    assert [(line["event"], line["lost"]) for line in lines] == [("spans are lost", 1)]


async def test_a_collector_that_does_not_answer_keeps_nobody_waiting(
    collector: OTLPCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "CLOSE_SECONDS", CLOSE_SECONDS / 100)
    collector.answers.clear()
    beyond = 100
    async with collected("shuffler", collector.endpoint, NO_TLS) as traces:
        # The first ones are on their way before the queue fills up.
        for _ in range(512):
            with traces.span(Step.MIX, ROUND):
                pass
        assert await asyncio.to_thread(collector.asked.wait, PATIENCE)
        for _ in range(MOST_WAITING + beyond):
            with traces.span(Step.MIX, ROUND):
                pass
        assert (traces.sent, traces.lost) == (0, beyond)
    # It is closed although nobody has answered.
    assert collector.bodies == []


@pytest.mark.parametrize("status", [200, 307])
async def test_an_answer_without_an_end_is_not_read(
    status: int, collector: OTLPCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever read it would wait for what never comes, or keep all of what comes in memory."""
    collector.status, collector.length = status, 10**12
    async with collected("shuffler", collector.endpoint, NO_TLS) as traces:
        with traces.span(Step.MIX, ROUND):
            pass
    assert (traces.sent, traces.lost) == ((1, 0) if status == 200 else (0, 1))


def partly(rejected: int) -> bytes:
    """An answer that some spans were rejected."""
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = rejected
    answer.partial_success.error_message = "an attribute is not allowed"
    return answer.SerializeToString()


@pytest.mark.parametrize(
    ("answer", "lost"),
    [(partly(0), 0), (partly(2), 2), (partly(4), 3), (partly(-1), 0), (b"", 0), (b"fine", 0), (b"\n" * 10**5, 0)],
    ids=["none", "two", "more than were sent", "less than none", "nothing", "no message", "too long"],
)
async def test_spans_that_a_collector_rejects_beside_others_are_lost(
    answer: bytes, lost: int, collector: OTLPCollector
) -> None:
    collector.answer = answer
    with capture_logs() as lines:
        async with collected("shuffler", collector.endpoint, NO_TLS) as traces:
            for _ in range(3):
                with traces.span(Step.MIX, ROUND):
                    pass
    assert (traces.sent, traces.lost, len(collector.spans)) == (3 - lost, lost, 3)
    assert [line["lost"] for line in lines] == [lost] * bool(lost)


class PlayedExporter(SpanExporter):
    """An exporter that does what each test says."""

    def __init__(self) -> None:
        self.answers = [True]

    def export(self, spans: object) -> SpanExportResult:  # noqa: ARG002 - as the library has it
        answer = self.answers.pop(0)
        if answer is None:
            raise RuntimeError("recognizable")
        return SpanExportResult.SUCCESS if answer else SpanExportResult.FAILURE


def test_losses_are_logged_when_they_begin_and_end_and_seldom_between() -> None:
    played = PlayedExporter()
    played.answers = [True, False, None, True, False, True]
    counting = otlp._CountingExporter(played)
    with capture_logs() as lines:
        for _ in range(6):
            counting.export([ReadableSpan("mix")] * 2)
    assert (counting.sent, counting.failed) == (6, 6)
    assert [(line["event"], line["lost"]) for line in lines] == [("spans are lost", 2), ("spans are taken again", 4)]


async def test_beyond_loopback_both_sides_show_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parties = make_tls(tmp_path, "shuffler", "collector")
    own, theirs = parties["shuffler"], parties["collector"]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(theirs.certificate), str(theirs.key))
    context.load_verify_locations(str(theirs.authority))
    context.verify_mode = ssl.CERT_REQUIRED
    other = make_tls(tmp_path / "other", "shuffler")["shuffler"]
    with collecting(context) as collector:
        for tls, sent in ((own, 1), (TLS(other.authority, own.certificate, own.key), 0)):
            monkeypatch.setattr(otlp, "SEND_SECONDS", PATIENCE if sent else NO_RETRY)
            async with collected("shuffler", collector.endpoint, tls) as traces:
                with traces.span(Step.MIX, ROUND):
                    pass
            assert (traces.sent, traces.lost) == (sent, 1 - sent)
    assert len(collector.bodies) == 1


def test_ids_of_spans_that_are_not_the_rounds_own_are_random() -> None:
    traces = CollectedTraces("shuffler", PlayedExporter())
    assert len({traces._ids.generate_span_id() for _ in range(3)}) == 3
    assert len({traces._ids.generate_trace_id() for _ in range(3)}) == 3
    traces.close()
