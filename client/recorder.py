"""Answers handed over in passing. A thread stores and sends them, and the application never waits or fails.

What `record` takes is copied into a bounded queue. The thread randomizes and stores it (`Device.keep`), which takes
milliseconds. At a time drawn from what is left of the round it sends what is stored (`Device.resend`), again and
again until it is acknowledged or its round is over. What was not stored yet when a process is killed is lost; what was
stored is sent by the next run.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from hubbub.client.blocking import run_sync
from hubbub.client.device import Device
from hubbub.client.errors import NoRound, OptedOut, OverLimit
from hubbub.client.recorder_counts import RecorderCounts as RecorderCounts
from hubbub.client.session.send_time import LOOK_SECONDS
from hubbub.client.session.session import OVER
from hubbub.client.state.fork_safety import restarted_in_children
from hubbub.client.validation import checked_function, checked_seconds, checked_type
from hubbub.protos.errors import Unreachable, UsageError
from hubbub.protos.messages import Receipt
from hubbub.protos.refusals import Refusal
from hubbub.queries.errors import AnswerError
from hubbub.queries.questions.question import Value

TRY_SECONDS = 20.0
"""How long one try to send goes on."""

HANGING_SECONDS = 5.0
"""How much longer a try may take before it is given up as hanging: gRPC may hang in a process that was forked."""

FIRST_PAUSE = 60.0
LONGEST_PAUSE = 3600.0
"""Seconds between tries: the pause doubles from the first to the longest. What is newly recorded is tried at once."""

EXIT_SECONDS = 2.0
"""How long the end of the program is held up, by default, for what is not sent yet."""

STOP_SECONDS = 1.0
"""How long to wait for the thread to end what it is sending, once that is given up."""

_LOG = logging.getLogger(__name__)


class Recorder:
    """Takes a device's answers in passing, in any thread, inside or outside an event loop.

    What earlier runs stored is sent too, from the start on. When the program ends, what is queued is stored and sent
    for at most `exit_seconds`; `with Recorder(device) as recorder:` does so at the end of the block.

    In a forked process the recorder begins anew with an empty queue: what was queued before the fork is its parent's.
    Processes of `multiprocessing` end without exit handlers, so call `close` in them.

    Args:
        device: whose answers they are. Other threads may use it meanwhile.
        capacity: most calls that wait to be stored; further ones are dropped and counted.
        exit_seconds: how long the end of the program may be held up.
        spread: send each round's answers at a time drawn uniformly, once, from what is left of the round, so that
            nobody who sees them arrive knows when they were given. False sends as soon as possible, which a program
            that runs once and not again in the round has to say.
        on_error: called in the recorder's thread with what went wrong, of which nothing reaches the application
            otherwise; by default it is logged. No error holds an answer. What it raises is passed over.

    Raises:
        UsageError: where an argument is of another type, or out of range.
    """

    def __init__(
        self,
        device: Device,
        *,
        capacity: int = 1000,
        exit_seconds: float = EXIT_SECONDS,
        spread: bool = True,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        self._device = checked_type(device, Device, "device", "a Device(…)")
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
            raise UsageError(f"capacity is {capacity!r:.80}; give a whole number, 1 or more")
        self._capacity = capacity
        self._exit_seconds = checked_seconds(exit_seconds, "exit_seconds")
        self._spread = checked_type(spread, bool, "spread", "True or False")
        self._on_error = _logged if on_error is None else checked_function(on_error, "on_error", "nothing")
        self._answered: set[int] = set()
        self._told: set[int] = set()
        self._closed = self._ended = False
        self._begin()
        restarted_in_children(self)
        atexit.register(self.close)
        # An earlier run may have left something to send.
        self._asked = 1
        self._wake()

    def begin_in_child(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[tuple[dict[str, Value], int]] = deque()
        self._counts: Counter[str] = Counter()
        self._storing = 0
        self._worker: _RecorderThread | None = None
        self._asked = 0
        self._tried = 0
        self._waits = False

    # What an application calls

    def record(self, answers: Mapping[str, Value]) -> bool:
        """Take a person's answers to the round that is on now; return whether they were queued.

        Returns at once and raises nothing. One answer a round counts: the first that fits the task stands, later ones
        are counted as `repeated`.
        """
        try:
            taken, number = dict(answers), self._device.task.schedule.round_at(self._device._session.clock())
        except Exception:  # whatever was given instead of answers, the application goes on
            return self._count("bad_answer")
        if number is None:
            return self._count("no_round")
        if number in self._answered:
            return self._count("repeated")
        with self._changed:
            if self._closed or len(self._queue) >= self._capacity:
                return self._count("dropped")
            self._counts["calls"] += 1
            self._queue.append((taken, number))
        self._wake()
        return True

    @property
    def counts(self) -> RecorderCounts:
        """What became of the calls so far."""
        with self._changed:
            return RecorderCounts(**self._counts, queued=len(self._queue) + self._storing)

    def flush(self, timeout: float = 10.0) -> bool:
        """Store what is recorded and send what is due; return whether nothing waits to be sent any more.

        What waits for its send time stays. Returns once a try was made, or after `timeout` seconds. It blocks: in an
        event loop, call it with `asyncio.to_thread`. A closed one sends nothing; it says whether something waits on
        disk.

        Raises:
            UsageError: where `timeout` is not a number of seconds, 0 or more.
        """
        timeout = checked_seconds(timeout, "timeout")
        if self._ended:
            return self._is_disk_clear()
        with self._changed:
            self._asked += 1
        if not self._wake():
            return False
        with self._changed:
            self._changed.wait_for(self._is_idle, min(timeout, threading.TIMEOUT_MAX))
            return self._is_idle() and not self._waits

    def close(self, timeout: float | None = None) -> bool:
        """Take nothing more, then do as `flush` does, for `exit_seconds` by default, and end the thread.

        Returns whether nothing waits to be sent any more. What waits is stored, for the next run.

        Raises:
            UsageError: where `timeout` is neither None nor a number of seconds, 0 or more; nothing was closed.
        """
        timeout = self._exit_seconds if timeout is None else checked_seconds(timeout, "timeout")
        with self._changed:
            self._closed = True
            idle = self._is_idle() and not self._waits
        atexit.unregister(self.close)
        done = idle or self.flush(timeout)
        # Storing needs no thread: at the end of a program none may be left, nor can one be started.
        self._store()
        self._ended = True
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()
        # A try that was not made, or not to its end, says nothing of what waits.
        done = done or self._is_disk_clear()
        self._device._state.close()
        return done

    def _is_disk_clear(self) -> bool:
        """Return whether nothing that is stored waits to be sent; False where that cannot be known."""
        try:
            return self._device._work.is_clear()
        except Exception as error:  # a closed recorder raises as little as an open one
            self._tell(error)
            return False
        finally:
            self._device._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    # What the thread calls

    def _store(self) -> None:
        """Randomize and store what is queued."""
        while True:
            with self._changed:
                if not self._queue:
                    return
                answers, number = self._queue.popleft()
                self._storing += 1
            outcome, error = "failed", None
            try:
                outcome, error = self._stored(answers, number)
                if error is not None:
                    self._tell(error)
            finally:
                # Counted whatever comes in between, such as Ctrl-C; told first, so that `flush` returns after it.
                with self._changed:
                    self._storing -= 1
                    self._counts[outcome] += 1
                    if outcome == "kept":
                        self._asked += 1
                    self._changed.notify_all()

    def _stored(self, answers: dict[str, Value], number: int) -> tuple[str, Exception | None]:
        """Store one call's answers; return what became of them, and the error to tell."""
        try:
            kept = self._device.keep(answers, number, spread=self._spread)
        except OptedOut:
            return "opted_out", None
        except NoRound:
            return "no_round", None
        except OverLimit as error:
            # Told once a round: the calls that follow would be refused for the same reason.
            told, self._told = number in self._told, self._told | {number}
            return "over_limit", None if told else error
        except AnswerError as error:
            return "bad_answer", error
        except Exception as error:  # the thread goes on, whatever an answer or a file is like
            return "failed", error
        self._answered.add(number)
        return "kept" if kept else "repeated", None

    @property
    def _is_asked(self) -> bool:
        """Whether a try was asked for since the last one began."""
        with self._changed:
            return self._asked > self._tried

    async def _try(self) -> tuple[bool, float]:
        """Try to send what is due; return whether nothing of it is left, and seconds until the next moment."""
        with self._changed:
            asked = self._asked
        left, until = True, math.inf
        try:
            # Before sending: a moment that comes meanwhile is then still counted, and tried for once more.
            until = self._device._work.until_next()
            left = await self._send()
        except Exception as error:  # the thread goes on; what is stored is tried again
            self._tell(error)
        with self._changed:
            self._tried, self._waits = asked, left or until < math.inf
            self._changed.notify_all()
        return not left, until

    # How

    async def _send(self) -> bool:
        """Send what is stored; return whether some of it still waits."""
        sending = asyncio.ensure_future(self._resend())
        done, _ = await asyncio.wait({sending}, timeout=TRY_SECONDS + HANGING_SECONDS)
        if not done:
            sending.cancel()
            raise Unreachable("sending hangs, as it may where a process was forked while it sent; it is tried again")
        receipts, refusals = sending.result()
        final = sum(refusal.reason in OVER for refusal in refusals)
        with self._changed:
            self._counts.update(acknowledged=len(receipts), refused=final)
        for refusal in refusals:
            self._tell(refusal)
        return final < len(refusals)

    async def _resend(self) -> tuple[list[Receipt], list[Refusal]]:
        # A connection that stays open would be of no use to a forked process, and keep it from opening one.
        async with self._device._session.new_link() as link:
            return await self._device._submissions.resend_all(link, TRY_SECONDS)

    def _count(self, outcome: str) -> bool:
        with self._changed:
            self._counts.update(("calls", outcome))
        return False

    def _is_idle(self) -> bool:
        return not self._queue and not self._storing and self._tried >= self._asked

    def _wake(self) -> bool:
        """Have the thread look, and start it where there is none, as after a fork; return whether there is one."""
        with self._changed:
            if self._worker is None or not self._worker.is_alive:
                worker = _RecorderThread(self)
                # At the end of a program no thread can be started.
                try:
                    worker.start()
                except RuntimeError:
                    return False
                self._worker = worker
            self._worker.wake()
            return True

    def _tell(self, error: Exception) -> None:
        # What the application does with errors must not end the recorder's thread, not even sys.exit(). `close` may
        # tell in the main thread, where a Ctrl-C is meant for the application.
        in_main = threading.current_thread() is threading.main_thread()
        with contextlib.suppress(Exception if in_main else BaseException):
            self._on_error(error)


def _logged(error: Exception) -> None:
    # That nobody answers for a while is what the recorder is for.
    level = logging.INFO if isinstance(error, Unreachable) else logging.WARNING
    _LOG.log(level, "%s: %s", type(error).__name__, error)


class _RecorderThread:
    """The recorder's thread, with an event loop of its own."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._thread = threading.Thread(target=self._run, name="hubbub-recorder", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = asyncio.Event()
        self._stopping = False

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Have it look, from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._event.set)

    def stop(self) -> None:
        """End it; what it is sending at this moment is given up."""
        self._stopping = True
        self.wake()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        run_sync(self._work, "record")

    async def _work(self) -> None:
        self._loop = asyncio.get_running_loop()
        pause, due, sending = FIRST_PAUSE, math.inf, None
        while not self._stopping:
            # Cleared before it looks: whatever happens while it looks has it look again.
            self._event.clear()
            self._recorder._store()
            if sending is not None and sending.done():
                (sent, until), sending = sending.result(), None
                # A look every now and then, as the clock that moments go by may be set, or stand still meanwhile.
                until = min(until, LOOK_SECONDS) if until < math.inf else until
                due = time.monotonic() + (until if sent else min(until, pause))
                pause = FIRST_PAUSE if sent else min(2 * pause, LONGEST_PAUSE)
            if sending is None and (self._recorder._is_asked or time.monotonic() >= due):
                due, sending = math.inf, asyncio.create_task(self._recorder._try())
                sending.add_done_callback(lambda _: self._event.set())
            await self._woken(due - time.monotonic())

    async def _woken(self, seconds: float) -> None:
        """Return when it is woken, or after so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == math.inf else seconds):
                await self._event.wait()
