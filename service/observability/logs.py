"""Configures structured log lines on stderr, without the values of variables."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import structlog
from google.protobuf.message import DecodeError

from hubbub.protos.escaping import readable, readable_lines
from hubbub.service.observability.log_writer import LogWriter
from hubbub.service.settings import LogSettings

FLUSH_SECONDS = 2.0
"""How long an ending service waits for its last lines to be written; a log without a reader accepts none."""


class _StderrHandler(logging.Handler):
    """Queues lines for stderr; neither waits for them nor raises."""

    def __init__(self, earlier: _StderrHandler | None) -> None:
        super().__init__()
        # One thread writes for the whole process, and a new configuration keeps it with its waiting lines.
        self.lines: LogWriter = LogWriter(self._notice) if earlier is None else earlier.lines
        self.lines.notice = self._notice

    def emit(self, record: logging.LogRecord) -> None:
        try:
            # The lines of a traceback did not pass `_readable`; indented, none looks like a new log line.
            line = readable_lines(self.format(record)).replace("\n", "\n  ")
        except Exception as error:  # a value that cannot be formatted must not stop the caller
            self.lines.lose(f"it could not be formatted: {type(error).__name__}")
        else:
            self.lines.put(line)

    def _notice(self, count: int, since: float, why: str) -> str:
        event = {
            "event": "log lines were lost",
            "level": "warning",
            "timestamp": _iso(datetime.now(UTC)),
            "lines": count,
            "since": _iso(datetime.fromtimestamp(since, UTC)),
            "why": why,
        }
        record = logging.makeLogRecord({"msg": event, "levelno": logging.WARNING, "levelname": "WARNING"})
        # Mark the record as structlog does, so that the formatter accepts the event as it is.
        record._logger, record._name = None, "warning"
        return self.format(record)


_OF_SEVERAL_LINES = frozenset({"exception", "stack"})
"""Fields that structlog itself writes over several lines."""


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _readable(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Escape the texts of a line, so that none of them begins another line; tracebacks keep their lines."""
    return {
        name: readable(value) if isinstance(value, str) and name not in _OF_SEVERAL_LINES else value
        for name, value in event.items()
    }


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a line is about this service: gRPC also logs a traceback for malformed bytes that anybody sends."""
    return record.exc_info is None or not isinstance(record.exc_info[1], DecodeError)


def configure(settings: LogSettings) -> None:
    """Send all log lines of this process, including those of libraries, to stderr in one format."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Tracebacks without the values of variables, which could be keys or submissions.
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
    earlier = _handlers()
    handler = _StderrHandler(earlier[0] if earlier else None)
    processors = [remove, _readable, *last]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=processors))
    logging.getLogger("grpc._cython.cygrpc").addFilter(_is_ours)
    for chatty in ("grpc", "asyncio"):  # at level debug they log every event loop
        logging.getLogger(chatty).setLevel(logging.INFO)
    for chatty in ("alembic", "py4j"):  # at level info they log each start, and each connection to a JVM
        logging.getLogger(chatty).setLevel(logging.WARNING)
    # What it says of a collector that is away is an event and a metric (`otlp`).
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    # It warns of each try to reach a server that is away, which is an incident (`service.postgres.outage`).
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    root = logging.getLogger()
    for each in earlier:
        root.removeHandler(each)
    root.addHandler(handler)
    root.setLevel(settings.level.upper())


def _handlers() -> list[_StderrHandler]:
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, _StderrHandler)]


def lost() -> int:
    """Return how many lines of this process's log were lost."""
    return sum(handler.lines.lost for handler in _handlers())


def waiting() -> int:
    """Return how many lines wait to be written."""
    return sum(handler.lines.waiting for handler in _handlers())


def unreported() -> tuple[int, float, str]:
    """Return how many lines were lost since the log last worked, since when (seconds since 1970), and why."""
    return max((handler.lines.unreported for handler in _handlers()), default=(0, 0.0, ""))


def flush(seconds: float = FLUSH_SECONDS) -> bool:
    """Wait until all log lines are written or lost, at most `seconds`; return whether they are."""
    return all(handler.lines.flush(seconds) for handler in _handlers())
