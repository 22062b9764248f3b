"""Sends spans to an OpenTelemetry collector, by OTLP over HTTP, from a thread that no step of a round waits for.

The settings alone say where spans go, and what is sent with them; of the environment only `OTEL_SDK_DISABLED` counts.

Spans wait in a queue of bounded length. While the collector is away or slow, the oldest are lost, and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

import requests
import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Status, StatusCode, TraceFlags

from hubbub import __version__
from hubbub.protos.refusals import Refusal
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.proxies import proxy_to
from hubbub.service.observability.collectors import TASK_ID_DIGITS
from hubbub.service.observability.traces import INSIDE, OpenSpan, SpanCount, Step, TracedRound

MOST_WAITING = 2048
"""Spans that wait at most; a round has about ten, and three more for each query."""

SEND_SECONDS = 5.0
"""How long a try to send spans may take, with its retries; also the pause between two."""

CLOSE_SECONDS = 2.0
"""How long a service that ends waits for its last spans to be taken."""

QUIET_SECONDS = 600.0
"""How often it is logged, at most, that spans are lost."""

BATCH_SPANS = 512
"""Spans that are sent together, at most."""

LARGEST_ANSWER = 64 * 1024
"""Bytes of an answer that are read: it says how many spans were rejected, and why in a sentence."""

_OTLP_HEADERS = frozenset({"content-type", "user-agent"})

MILLISECOND = 10**6
"""Times of spans are whole milliseconds, in nanoseconds: how long a draw of noise takes shows nothing finer."""

_LOG = structlog.get_logger(__name__)


_UNLIMITED = SpanLimits.UNSET

_LIMITS = SpanLimits(
    **dict.fromkeys(("max_attributes", "max_events", "max_links", "max_attribute_length"), _UNLIMITED),
    **dict.fromkeys(("max_span_attributes", "max_event_attributes", "max_link_attributes"), _UNLIMITED),
    max_span_attribute_length=_UNLIMITED,
)
"""None: a span has few attributes, all of them short. What is not stated here would be taken from the environment."""


class _CollectorSession(requests.Session):
    """Calls the endpoint of the settings and no other, with the headers of OTLP alone, and reads a short answer only.

    So a collector can neither fill the memory nor send spans elsewhere, and the environment adds no header.
    """

    def __init__(self) -> None:
        super().__init__()
        self._rejected = 0
        # No proxy, no password of ~/.netrc: settings alone say who is called, and with what.
        self.trust_env = False

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Send spans, note how many of them a collector that takes the others rejects, and return its answer.

        Raises:
            TooManyRedirects: if the collector names another address, as whoever is there was not checked.
        """
        headers = kwargs.pop("headers", None) or {}
        kept = {name: value for name, value in headers.items() if name.lower() in _OTLP_HEADERS}
        answer = super().request(*args, **{**kwargs, "headers": kept, "stream": True})
        with contextlib.closing(answer):
            self._rejected = _rejected_by(answer) if answer.status_code == 200 else 0
        # The exporter would take it as a success.
        if 300 <= answer.status_code < 400:
            raise requests.TooManyRedirects("the collector redirects; name its last address")
        return answer

    def rejected(self) -> int:
        """Return how many spans of the last answer were rejected."""
        return self._rejected

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return none: to look for one would read the body."""


def _rejected_by(answer: requests.Response) -> int:
    """Return how many spans an answer of success says were rejected; 0 if it is too long, late, or no such message."""
    try:
        return int(ExportTraceServiceResponse.FromString(_short_body(answer)).partial_success.rejected_spans)
    except Exception:  # whatever a collector answers must not end the thread
        # It has said that it took them, and to send them again would double those that it took.
        return 0


def _short_body(answer: requests.Response) -> bytes:
    """Return the body of an answer; nothing if it has more than `LARGEST_ANSWER` bytes, or takes too long."""
    until, body = time.monotonic() + SEND_SECONDS, b""
    if (answer.raw.length_remaining or 0) > LARGEST_ANSWER:
        return b""
    while len(body) <= LARGEST_ANSWER and time.monotonic() < until:
        # What is there by now: whoever sends a byte at a time would keep a longer read for ever.
        part = answer.raw.read1(LARGEST_ANSWER, decode_content=True)
        if not part:
            return body
        body += part
    return b""


class _RoundIds(RandomIdGenerator):
    """Gives the first span of a round its ids, and any other span a random one."""

    def __init__(self) -> None:
        self.given: ContextVar[tuple[int, int] | None] = ContextVar("ids of a round", default=None)

    def generate_trace_id(self) -> int:
        given = self.given.get()
        return super().generate_trace_id() if given is None else given[0]

    def generate_span_id(self) -> int:
        given = self.given.get()
        return super().generate_span_id() if given is None else given[1]


class _CountingExporter(SpanExporter):
    """Counts what an exporter was given and could not send, and logs when that begins and ends."""

    def __init__(self, exporter: SpanExporter, rejected: Callable[[], int] = lambda: 0) -> None:
        self._exporter, self._rejected = exporter, rejected
        self.taken = self.sent = self.failed = 0
        self._failing = False
        self._logged = -QUIET_SECONDS

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; it blocks, in the thread of the queue."""
        self.taken += len(spans)
        try:
            result = self._exporter.export(spans)
        except Exception:  # whatever a collector answers must not end the thread
            result = SpanExportResult.FAILURE
        # A collector may take some and reject others, as those with an attribute that it does not allow.
        lost = min(max(self._rejected(), 0), len(spans)) if result is SpanExportResult.SUCCESS else len(spans)
        self.sent += len(spans) - lost
        self.failed += lost
        self._tell(lost > 0)
        return result

    def _tell(self, failing: bool) -> None:
        now = time.monotonic()
        if failing and now - self._logged >= QUIET_SECONDS:
            _LOG.warning("spans are lost", lost=self.failed)
            self._logged, self._failing = now, True
        elif not failing and self._failing:
            _LOG.info("spans are taken again", lost=self.failed)
            self._failing = False

    def shutdown(self) -> None:
        """End tries that wait."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Return at once: nothing waits here."""
        return self._exporter.force_flush(timeout_millis)


class _CountingQueue(BatchSpanProcessor):
    """A queue of spans that counts those which it had no room for."""

    def __init__(self, exporter: _CountingExporter) -> None:
        milliseconds = SEND_SECONDS * 1000
        # All of them, since the environment would give those that are left out.
        super().__init__(exporter, MOST_WAITING, milliseconds, BATCH_SPANS, milliseconds)
        self._counting = exporter
        self._ended = 0
        self.dropped = 0

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span that has ended."""
        if self._ended - self._counting.taken - self.dropped >= MOST_WAITING:
            self.dropped += 1
        self._ended += 1
        super().on_end(span)


class _RecordedSpan:
    """A span of the SDK, behind the few things that may be noted (`OpenSpan`)."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.dropped = False

    def note(self, counts: Mapping[SpanCount, int]) -> None:
        self.span.set_attributes({f"hubbub.{count.value}": number for count, number in counts.items()})

    def drop(self) -> None:
        self.dropped = True


class CollectedTraces:
    """The spans of a service, on their way to a collector (`Traces`)."""

    def __init__(self, service: str, exporter: SpanExporter, rejected: Callable[[], int] = lambda: 0) -> None:
        self._exporter = _CountingExporter(exporter, rejected)
        self._queue = _CountingQueue(self._exporter)
        self._ids = _RoundIds()
        # Made without `Resource.create`, which adds what the environment names.
        about = Resource({"service.name": f"hubbub-{service}", "service.version": __version__})
        self._provider = TracerProvider(
            ALWAYS_ON, about, shutdown_on_exit=False, id_generator=self._ids, span_limits=_LIMITS
        )
        self._provider.add_span_processor(self._queue)
        self._tracer = self._provider.get_tracer("hubbub", __version__)

    @property
    def sent(self) -> int:
        return self._exporter.sent

    @property
    def lost(self) -> int:
        """How many spans the collector did not take or rejected, or had no room in the queue."""
        return self._exporter.failed + self._queue.dropped

    @contextlib.contextmanager
    def span(self, step: Step, of: TracedRound) -> Iterator[OpenSpan]:
        """Trace the block as a step of a round. If it is cancelled, the span does not end, so it is never sent."""
        begun, started = time.time_ns(), time.perf_counter_ns()
        recorded = _RecordedSpan(self._start(step, of, begun // MILLISECOND * MILLISECOND))
        try:
            with trace.use_span(recorded.span, record_exception=False, set_status_on_exception=False):
                yield recorded
        except Exception as error:
            # The kind of an error alone: its words may have addresses and paths.
            kind = error.reason.value if isinstance(error, Refusal) else type(error).__name__
            recorded.span.set_attribute("error.type", kind)
            recorded.span.set_status(Status(StatusCode.ERROR))
            self._end(recorded, begun, started)
            raise
        else:
            self._end(recorded, begun, started)

    def _start(self, step: Step, of: TracedRound, begun: int) -> Span:
        names: dict[str, str | int] = {
            "hubbub.task": of.task,
            "hubbub.task_id": of.task_id.hex()[:TASK_ID_DIGITS],
            "hubbub.round": of.number,
        }
        trace_id, first = of.ids
        if step is Step.ROUND:
            token = self._ids.given.set((trace_id, first))
            try:
                return self._tracer.start_span(step.value, Context(), attributes=names, start_time=begun)
            finally:
                self._ids.given.reset(token)
        around = trace.get_current_span()
        if step not in INSIDE or around.get_span_context().trace_id != trace_id:
            around = NonRecordingSpan(SpanContext(trace_id, first, is_remote=True, trace_flags=TraceFlags(1)))
        query = {"hubbub.query": of.query} if of.query else {}
        under = trace.set_span_in_context(around, Context())
        return self._tracer.start_span(step.value, under, attributes={**names, **query}, start_time=begun)

    @staticmethod
    def _end(recorded: _RecordedSpan, begun: int, started: int) -> None:
        if not recorded.dropped:
            # By the clock that never goes back, so that no span ends before it begins.
            ended = begun + time.perf_counter_ns() - started
            recorded.span.end(ended // MILLISECOND * MILLISECOND)

    def close(self) -> None:
        """Send what waits, for at most `CLOSE_SECONDS`; what the collector has not taken then is lost."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)


@contextlib.asynccontextmanager
async def collected(service: str, endpoint: str, tls: TLS) -> AsyncIterator[CollectedTraces]:
    """Send a service's spans to an endpoint in the block. At https, both sides show their certificate of `tls`."""
    session = _CollectorSession()
    if proxy := proxy_to(urlsplit(endpoint).netloc, tls.proxy):
        session.proxies = {"https": proxy}
    authority = key = certificate = None
    if endpoint.startswith("https:"):
        authority, key, certificate = (str(path) for path in (tls.authority, tls.key, tls.certificate))
    exporter = OTLPSpanExporter(
        *(endpoint, authority, key, certificate),
        timeout=SEND_SECONDS,
        compression=Compression.NoCompression,
        session=session,
    )
    traces = CollectedTraces(service, exporter, session.rejected)
    try:
        yield traces
    finally:
        await asyncio.to_thread(traces.close)
