"""A collector of traces: a small HTTP server that takes OTLP, and can be slow or refuse."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

PATH = "/v1/traces"


class OTLPCollector:
    """What was sent to a collector. It answers with `status`, each time after `answers` is set.

    It answers with `answer`. If `length` is set, an answer states so many bytes, and none of them comes. One of a
    redirect names the collector's other path.
    """

    def __init__(self, port: int, scheme: str = "http") -> None:
        self.endpoint = f"{scheme}://127.0.0.1:{port}{PATH}"
        self.status, self.length, self.answer = 200, 0, b""
        self.answers = threading.Event()
        self.answers.set()
        self.asked = threading.Event()
        self.bodies: list[bytes] = []
        self.headers: list[str] = []

    @property
    def resources(self) -> list[ResourceSpans]:
        return [each for body in self.bodies for each in ExportTraceServiceRequest.FromString(body).resource_spans]

    @property
    def spans(self) -> list[tuple[str, Span]]:
        """Every span with the name of its service."""
        return [
            (str(attributes(resource.resource)["service.name"]), span)
            for resource in self.resources
            for scope in resource.scope_spans
            for span in scope.spans
        ]


def attributes(owner: object) -> dict[str, object]:
    """The attributes of a span or a resource."""
    found = {}
    for pair in owner.attributes:  # type: ignore[attr-defined]
        found[pair.key] = getattr(pair.value, pair.value.WhichOneof("value"))
    return found


@contextlib.contextmanager
def collecting(tls: ssl.SSLContext | None = None) -> Iterator[OTLPCollector]:
    """Run a collector on a free port of loopback, with TLS if a context is given."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.headers.append(str(self.headers))
            collector.asked.set()
            collector.answers.wait()
            if self.path == PATH and collector.status == 200:
                collector.bodies.append(body)
            self.send_response(collector.status)
            self.send_header("Content-Length", str(collector.length or len(collector.answer)))
            if 300 <= collector.status < 400:
                self.send_header("Location", f"{PATH}/other")
            self.end_headers()
            if not collector.length:
                self.wfile.write(collector.answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    # Callers that wait for an answer must not keep the test.
    server.daemon_threads, server.block_on_close = True, False
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    collector = OTLPCollector(server.server_address[1], "http" if tls is None else "https")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.answers.set()
        server.shutdown()
        server.server_close()
        thread.join()
