"""What is logged is written by a thread of its own, so that a log that takes nothing stops no work.

A log may be on a full disk, and its reader may be gone, or be there and never read: a write fails, or does not return.
Whoever logs only puts a line into a queue that is bounded. A line that cannot be written, or finds the queue full, is
lost and counted, and as soon as a write succeeds again the log itself says how many were lost.
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
"""Most lines that wait to be written: a burst at level debug fits, and memory stays bounded where nobody reads."""

RETRY_SECONDS = 5.0
"""How often it is tried, where nothing else is logged, to tell how many lines were lost."""

Notice = Callable[[int, float, str], str]
"""Makes the line that says how many were lost, since when (seconds since 1970), and why."""


def standard_error() -> Any:
    """Return whatever stderr is at this moment; None where it is closed."""
    return sys.stderr


class LogWriter:
    """Writes lines to `stream`; `notice` makes the line about those that were lost."""

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
        """Begin with nothing waiting: at first, and in a forked process, which has none of its parent's threads."""
        self._process = os.getpid()
        # Its lock can be taken again by the thread that holds it: garbage that is collected under it may log.
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
        """How many lines were lost that the log does not speak of yet, since when, and why; 0 where it works."""
        with self._changed:
            return self._unreported, self._since, self._why

    def put(self, line: str) -> None:
        """Have a line written; returns at once, and never raises."""
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
        """Count a line that is lost."""
        with self._changed:
            self._lost += 1
            self._since = self._since if self._unreported else self._clock()
            self._unreported += 1
            self._why = why

    def flush(self, seconds: float) -> bool:
        """Wait until all lines are written or lost, at most so many seconds; return whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._writing, seconds)

    def _start(self) -> None:
        if self._thread is None:
            # A daemon, so that a write that does not return keeps no process from ending.
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
        except Exception as error:  # whatever stderr is: it may be closed, or anything that an application put there
            if line is not None:
                self.lose(getattr(error, "strerror", None) or str(error) or type(error).__name__)

    def _tell(self) -> None:
        """Write how many lines were lost, where that was not said yet: before anything else, so that it is in order."""
        count, since, why = self.unreported
        if count:
            self._push(self.notice(count, since, why))
            with self._changed:
                # A full queue may have lost more while this was written.
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
            # Not through the stream: it keeps what it could not write, and would write it in front of the next line.
            self._push_bytes(descriptor, text)

    def _push_bytes(self, descriptor: int, text: bytes) -> None:
        # A disk that is nearly full takes a part of a line; the next one does not continue it.
        text = b"\n" + text if self._torn else text
        while text:
            try:
                written = os.write(descriptor, text)
            except BlockingIOError:  # somebody who shares the pipe has made it so
                poll = select.poll()
                poll.register(descriptor, select.POLLOUT)
                poll.poll()
                continue
            self._torn = True
            text = text[written:]
        self._torn = False
