"""Writes log lines in a separate thread, so that a blocked log stops no work.

The disk of a log may be full, and its reader may be gone or never read: a write fails, or does not return. So logging
only puts a line into a bounded queue. A line that cannot be written, or finds the queue full, is lost and counted. As
soon as a write succeeds again, the log itself reports how many lines were lost.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

LINES_WAITING = 4096
"""Most lines that wait to be written: a burst at level debug fits, and memory stays bounded if nobody reads."""

RETRY_SECONDS = 5.0
"""How often the writer tries to report lost lines if nothing else is logged."""

Notice = Callable[[int, float, str], str]
"""Makes the line that reports how many lines were lost, since when (seconds since 1970), and why."""


def standard_error() -> Any:
    """Return the present stderr; None if it is closed."""
    return sys.stderr


class LogWriter:
    """Writes lines to `stream`; `notice` makes the line about lost ones."""

    def __init__(
        self,
        notice: Notice,
        *,
        stream: Callable[[], Any] = standard_error,
        limit: int = LINES_WAITING,
        retry: float = RETRY_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.notice = notice
        self._stream = stream
        self._limit = limit
        self._retry = retry
        self._clock = clock
        self._lost = 0
        self._begin()

    def _begin(self) -> None:
        """Begin with an empty queue: at first, and in a forked process, which has none of its parent's threads."""
        self._process = os.getpid()
        # Its lock is reentrant: the garbage collector may run under it, and finalizers may log.
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque()
        self._thread: threading.Thread | None = None
        self._writing = False
        self._unreported, self._since, self._why = 0, 0.0, ""
        self._torn = False

    @property
    def lost(self) -> int:
        """How many lines were lost since the start."""
        return self._lost

    @property
    def waiting(self) -> int:
        """How many lines wait to be written."""
        return len(self._waiting)

    @property
    def unreported(self) -> tuple[int, float, str]:
        """How many lost lines the log has not reported yet, since when, and why; 0 if the log works."""
        with self._changed:
            return self._unreported, self._since, self._why

    def put(self, line: str) -> None:
        """Queue a line for writing; returns immediately, and never raises."""
        try:
            if self._process != os.getpid():
                self._begin()
            with self._changed:
                if len(self._waiting) >= self._limit:
                    self.lose("nothing reads it")
                    return
                self._waiting.append(line)
                self._changed.notify_all()
                self._start()
        except Exception as error:
            self.lose(f"{error}")

    def lose(self, why: str) -> None:
        """Count a lost line."""
        with self._changed:
            self._lost += 1
            self._since = self._since if self._unreported else self._clock()
            self._unreported += 1
            self._why = why

    def flush(self, seconds: float) -> bool:
        """Wait until all lines are written or lost, at most `seconds`; return whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._writing, seconds)

    def _start(self) -> None:
        if self._thread is None:
            # A daemon, so that a blocked write does not keep the process from ending.
            self._thread = threading.Thread(target=self._run, name="log", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting, self._retry if self._unreported else None)
                line = self._waiting.popleft() if self._waiting else None
                self._writing = True
            self._write(line)
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _write(self, line: str | None) -> None:
        try:
            self._tell()
            if line is not None:
                self._push(line)
        except Exception as error:  # stderr may be closed, or any object that an application put there
            if line is not None:
                self.lose(getattr(error, "strerror", None) or str(error) or type(error).__name__)

    def _tell(self) -> None:
        """Report lost lines that were not reported yet, before any other line, to preserve the order."""
        count, since, why = self.unreported
        if count:
            self._push(self.notice(count, since, why))
            with self._changed:
                # A full queue may have lost more meanwhile.
                self._unreported -= count
                self._since = self._clock()

    def _push(self, line: str) -> None:
        stream = self._stream()
        if stream is None:
            raise OSError("stderr is closed")
        text = f"{line}\n".encode(getattr(stream, "encoding", None) or "utf-8", "backslashreplace")
        try:
            descriptor = stream.fileno()
        except (AttributeError, OSError, ValueError):  # an application's own
            stream.write(text.decode(errors="replace"))
            stream.flush()
        else:
            # Not through the stream: it buffers unwritten text, and would write it before the next line.
            self._push_bytes(descriptor, text)

    def _push_bytes(self, descriptor: int, text: bytes) -> None:
        # A nearly full disk accepts a part of a line; the next line must not continue it.
        text = b"\n" + text if self._torn else text
        while text:
            try:
                written = os.write(descriptor, text)
            except BlockingIOError:  # another process that shares the pipe made it non-blocking
                poll = select.poll()
                poll.register(descriptor, select.POLLOUT)
                poll.poll()
                continue
            self._torn = True
            text = text[written:]
        self._torn = False
