"""Logs: structured lines on stderr, without the values of variables."""

from __future__ import annotations

import logging
import sys

import structlog
from google.protobuf.message import DecodeError

from hubbub.service.settings import LogSettings


class _StderrHandler(logging.Handler):
    """Writes to whatever stderr is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(self.format(record) + "\n")


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a line is about this service: gRPC logs a traceback for whatever bytes anybody sends to a port."""
    return record.exc_info is None or not isinstance(record.exc_info[1], DecodeError)


def configure(settings: LogSettings) -> None:
    """Send this process's log lines, our own and libraries', to stderr in one format."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Tracebacks without the values of variables: those could be keys or submissions.
    plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    last: list[structlog.typing.Processor] = [plain]
    if settings.format == "json":
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    remove = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler = _StderrHandler()
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[remove, *last]))
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_ours)
    for chatty in ("grpc", "asyncio"):  # at level debug they tell of every event loop they meet
        logging.getLogger(chatty).setLevel(logging.INFO)
    root = logging.getLogger()
    for earlier in [other for other in root.handlers if isinstance(other, _StderrHandler)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(settings.level.upper())
