"""Records answers in the background: a thread stores and sends them, so the application never waits or fails.

`record` copies answers into a bounded queue. The thread randomizes and stores them (`Device.keep`), which takes
milliseconds. At a time drawn from the rest of the round it sends the stored reports (`Device.resend`), and retries
until they are acknowledged or their round is over. If a process is killed, answers that were not stored yet are lost;
the next run sends the stored ones. In a process that cannot run the thread, answers are counted and reported, not kept.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import math
import re
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from hubbub.client.blocking import checked_loop, run_sync
from hubbub.client.device import Device
from hubbub.client.encode import not_a_mapping
from hubbub.client.errors import Expired, NoRound, OptedOut, OverLimit
from hubbub.client.recorder_counts import RecorderCounts as RecorderCounts
from hubbub.client.session.send_time import LOOK_SECONDS
from hubbub.client.session.session import OVER
from hubbub.client.state.fork_safety import restarted_in_children
from hubbub.client.state.rounds import DONE, ERASED_HERE
from hubbub.client.state.store import waiting_until
from hubbub.client.validation import (
    NotCopied,
    checked_choice,
    checked_count,
    checked_function,
    checked_seconds,
    checked_type,
)
from hubbub.protos.errors import Unreachable, UsageError
from hubbub.protos.messages import Receipt
from hubbub.protos.refusals import Refusal
from hubbub.protos.transport.host_process import checked_host
from hubbub.queries.errors import AnswerError
from hubbub.queries.questions.question import Value

TRY_SECONDS = 20.0
"""Seconds that one try to send may take."""

HANGING_SECONDS = 5.0
"""Seconds after `TRY_SECONDS` until a try is abandoned as hanging: gRPC may hang in a process that was forked."""

FIRST_PAUSE = 60.0
LONGEST_PAUSE = 3600.0
"""Seconds between tries: the pause doubles from the first to the longest. New answers are tried at once."""

EXIT_SECONDS = 2.0
"""Seconds that the end of the program waits, by default, for answers that are not sent yet."""

STOP_SECONDS = 1.0
"""Seconds to wait for the thread to stop, after its current sending is abandoned."""

FILE_SECONDS = 1.0
"""Seconds that the end of the program waits, in addition, for a state file that others use."""

REPEAT_SECONDS = 3600.0
"""Seconds in which one cause is logged once; a line after that says how often it came meanwhile."""

MOST_CAUSES = 100
"""Most causes that are known as logged: beyond, the log starts anew, so that it takes no more memory."""

_LOG = logging.getLogger(__name__)


class Recorder(NotCopied):
    """Takes a device's answers in any thread, inside or outside an event loop, and sends them in a thread of its own.

    The thread also sends what earlier runs stored, from the start. When the program ends, the recorder stores the
    queued answers and sends for at most `exit_seconds`. `with Recorder(device) as recorder:` does so at the end of the
    block.

    In a forked process the recorder starts again with an empty queue: answers queued before the fork belong to the
    parent. A process of `multiprocessing` runs no exit handlers, but it closes the recorders used in it.

    Make it after it is decided whether gevent or eventlet patch the process. If they do so later, as in a server's
    worker after its fork, each call is counted as `failed`, and one error says why: a thread would stop the process.

    Args:
        device: the device that answers. Other threads may use it at the same time.
        capacity: how many calls may wait to be stored; further calls are dropped and counted.
        exit_seconds: how long the end of the program may be delayed to send. It takes up to 2 s more if another program
            has locked the state file, or a call is still in work; answers that could not be stored then count as
            `failed`.
        spread: send each round's answers at a time drawn once, uniformly from the rest of the round. Then nobody who
            sees them arrive learns when they were given. False sends as soon as possible. A program that runs once in
            a round, and not again, must set it to False.
        on_error: called in the recorder's thread with each error (in the thread of the call if no thread can run);
            errors reach the application in no other way. By default they are logged, each cause once an hour, with a
            count of the others. A refusal that repeats is reported once. `Expired` reports answers that were lost
            because their round was over. No error contains an answer. Exceptions that `on_error` raises are ignored.

    Raises:
        UsageError: if an argument has the wrong type, or is out of range, or the process cannot run a device.
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
        checked_host()
        self._device = checked_type(device, Device, "device", "a Device(…)")
        self._capacity = checked_count(capacity, "capacity")
        self._exit_seconds = checked_seconds(exit_seconds, "exit_seconds")
        self._spread = checked_choice(spread, "spread")
        self._log = ErrorLog()
        self._on_error = self._log.tell if on_error is None else checked_function(on_error, "on_error", "nothing")
        self._answered: set[int] = set()
        self._over: set[int] = set()
        self._told: set[int] = set()
        self._refused: set[str] = set()
        self._closed = self._ended = False
        self._begin()
        restarted_in_children(self)
        atexit.register(self.close)
        # An earlier run may have left something to send.
        self._asked = 1
        self._wake()

    def __repr__(self) -> str:
        """Return the device that it records for, and whether it takes no more."""
        return f"Recorder({self._device!r}{', closed' if self._closed else ''})"

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
        self._hindered = False
        self._finalizer: Any = None

    # What an application calls

    def record(self, answers: Mapping[str, Value]) -> bool:
        """Take a person's answers to the current round; return whether they were queued.

        It returns at once, before anything is checked, stored or sent, and raises nothing. True promises no more than
        the queue: the thread stores the answers some milliseconds later, and sends them at their send time. False
        means that they are not used: no round takes answers now, this recorder has stored answers to this round, the
        queue is full, the recorder is closed, the process cannot run a thread, or `answers` is no mapping. Answers that
        do not fit the task are found by the thread, after True. `counts` says what became of all calls, and `flush`
        waits until they are stored.

        One answer a round is used: the first that fits the task. Later ones are counted as `repeated`. If the shuffler
        refuses the first for good, the round takes no more, and later ones are counted as `no_round`.
        """
        if self._closed:
            return self._count("dropped")
        try:
            taken, number = _copied(answers), self._device.task.schedule.round_at(self._device._session.clock())
        except Exception as error:  # a malformed argument must not stop the application
            known = isinstance(error, AnswerError)
            self._tell(error if known else AnswerError(f"the answers cannot be read: {type(error).__name__}"))
            return self._count("bad_answer")
        if number is None or number in self._over:
            return self._count("no_round")
        if number in self._answered:
            return self._count("repeated")
        if not self._is_hosted():
            return self._count("failed")
        with self._changed:
            if self._closed or len(self._queue) >= self._capacity:
                return self._count("dropped")
            self._counts["calls"] += 1
            self._queue.append((taken, number))
        self._wake()
        return True

    @property
    def counts(self) -> RecorderCounts:
        """The counts of the calls so far, by outcome."""
        with self._changed:
            return RecorderCounts(**self._counts, queued=len(self._queue) + self._storing)

    def flush(self, timeout: float = 10.0) -> bool:
        """Store the queued answers and send those that are due; return whether nothing is left to send.

        Answers with a later send time are not sent. It returns after one try, or after `timeout` seconds. A try takes
        at most 20 s, and ends earlier if the pause before the next call would pass them. It blocks: in an event loop,
        call it with `asyncio.to_thread`. A closed recorder sends nothing: it returns whether nothing on disk is left to
        send.

        Raises:
            UsageError: if `timeout` is not a number of seconds, 0 or more.
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
        """Stop taking answers, then do as `flush` does, for `exit_seconds` by default, and end the thread.

        It returns whether nothing is left to send. Unsent answers are stored, for the next run. It blocks, as `flush`
        does: for up to 2 s beyond `timeout` if another program has locked the state file, or a call is still in work.

        Raises:
            UsageError: if `timeout` is neither None nor a number of seconds, 0 or more; nothing was closed.
        """
        timeout = self._exit_seconds if timeout is None else checked_seconds(timeout, "timeout")
        with self._changed:
            self._closed = True
            idle = self._is_idle() and not self._waits
        atexit.unregister(self.close)
        if self._finalizer is not None:
            self._finalizer.cancel()
        until = time.monotonic() + timeout + FILE_SECONDS
        done = idle or self.flush(timeout)
        # The thread, or another program, may have the file locked for longer than the program's end may take.
        with waiting_until(until):
            # Stored here, without the thread: at the end of a program it may be gone, and none can be started.
            self._store()
            self._ended = True
            worker, self._worker = self._worker, None
            if worker is not None:
                worker.stop()
            # If no try was completed, only the file shows whether something is left to send.
            done = done or self._is_disk_clear()
            self._log.end()
            self._device._state.close()
        return done

    def _is_disk_clear(self) -> bool:
        """Return whether nothing stored is left to send; False if the file cannot be read."""
        try:
            return self._device._work.is_clear()
        except Exception as error:  # a closed recorder raises no more than an open one
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
        # Leaving needs it. Told at the beginning, it does not end what the block does.
        checked_loop()
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
                # In `finally`, so that Ctrl-C loses no count. After `on_error`, so that `flush` returns after it.
                with self._changed:
                    self._storing -= 1
                    self._counts[outcome] += 1
                    if outcome == "kept":
                        self._asked += 1
                    self._changed.notify_all()

    def _stored(self, answers: dict[str, Value], number: int) -> tuple[str, Exception | None]:
        """Store one call's answers; return the name of the count, and the error to report."""
        try:
            checked_host()
            stored = self._device._work.keep(answers, number, self._spread)
        except OptedOut:
            return "opted_out", None
        except NoRound:
            return "no_round", None
        except OverLimit as error:
            # Reported once a round: the calls that follow would be refused for the same reason.
            told, self._told = number in self._told, self._told | {number}
            return "over_limit", None if told else error
        except AnswerError as error:
            return "bad_answer", error
        except Exception as error:  # no answer and no state of the file may end the thread
            return "failed", error
        if not stored.used and stored.entry.outcome not in (None, DONE, ERASED_HERE):
            self._over.add(number)
            return "no_round", None
        self._answered.add(number)
        return "kept" if stored.used else "repeated", None

    @property
    def _is_asked(self) -> bool:
        """Whether a try was requested since the last one began."""
        with self._changed:
            return self._asked > self._tried

    async def _try(self) -> tuple[bool, float]:
        """Try to send what is due; return whether nothing due is left, and the seconds until the next send time."""
        with self._changed:
            asked = self._asked
        left, until = True, math.inf
        try:
            # Before sending: a send time that passes meanwhile is then not missed, and causes one more try.
            until = self._device._work.until_next()
            self._note_expired()
            left = await self._send()
        except Exception as error:  # the thread goes on, and tries the stored answers again
            self._tell(error)
        with self._changed:
            self._tried, self._waits = asked, left or until < math.inf
            self._changed.notify_all()
        return not left, until

    # How

    def _note_expired(self) -> None:
        """Count and report the answers that have waited until their round was over, in this run or before it."""
        expired = self._device._work.take_expired()
        if not expired:
            return
        with self._changed:
            self._counts["expired"] += expired
        rounds = "1 round" if expired == 1 else f"{expired} rounds"
        self._tell(
            Expired(
                f"the answers to {rounds} of task {self._device.task.name} were not acknowledged before the round was "
                "over, and were erased; their ε stays charged: run this program longer or more often, or use "
                "spread=False"
            )
        )

    async def _send(self) -> bool:
        """Send what is stored and due; return whether some of it is left."""
        sending = asyncio.ensure_future(self._resend())
        done, _ = await asyncio.wait({sending}, timeout=TRY_SECONDS + HANGING_SECONDS)
        if not done:
            sending.cancel()
            raise Unreachable("sending hangs, as it may if the process was forked while it sent; it is tried again")
        receipts, refusals = sending.result()
        final = sum(refusal.reason in OVER for refusal in refusals)
        if final:
            # Refusals do not name their rounds: the next call to each round finds in the file what became of it.
            self._answered = set()
        with self._changed:
            self._counts.update(acknowledged=len(receipts), refused=final)
        for refusal in refusals:
            # A try that follows is refused for the same reason, and in the same words, until something changes.
            if (words := str(refusal)) not in self._refused:
                self._refused.add(words)
                self._tell(refusal)
        return final < len(refusals)

    async def _resend(self) -> tuple[list[Receipt], list[Refusal]]:
        # A connection per try: a forked process cannot use an open one, and could then not open its own.
        async with self._device._session.new_link() as link:
            return await self._device._submissions.resend_all(link, TRY_SECONDS)

    def _count(self, outcome: str) -> bool:
        with self._changed:
            self._counts.update(("calls", outcome))
        return False

    def _is_hosted(self) -> bool:
        """Return whether this process can run the thread; report once why not."""
        try:
            checked_host()
        except UsageError as error:
            reported, self._hindered = self._hindered, True
            if not reported:
                self._tell(error)
            return False
        return True

    def _is_idle(self) -> bool:
        return not self._queue and not self._storing and self._tried >= self._asked

    def _wake(self) -> bool:
        """Wake the thread, or start it if there is none, as after a fork; return whether a thread runs."""
        if not self._is_hosted():
            return False
        with self._changed:
            if self._worker is None or not self._worker.is_alive:
                worker = _RecorderThread(self)
                # At the end of a program no thread can be started.
                try:
                    worker.start()
                except RuntimeError:
                    return False
                self._worker = worker
                self._close_at_end()
            self._worker.wake()
            return True

    def _close_at_end(self) -> None:
        """Have a process that `multiprocessing` started close this when it ends: exit handlers do not run there.

        The library drops what was registered before such a process was forked, so this is registered with its thread.
        """
        util, process = (sys.modules.get(f"multiprocessing.{name}") for name in ("util", "process"))
        if util is None or process is None or process.parent_process() is None or self._finalizer is not None:
            return
        self._finalizer = util.Finalize(None, self.close, exitpriority=0)

    def _tell(self, error: Exception) -> None:
        # Nothing that `on_error` raises may end the recorder's thread, not even sys.exit(). `close` may call it in the
        # main thread, and a Ctrl-C there is meant for the application.
        in_main = threading.current_thread() is threading.main_thread()
        with contextlib.suppress(Exception if in_main else BaseException):
            self._on_error(error)


def _copied(answers: Mapping[str, Value]) -> dict[str, Value]:
    """Return a copy of answers, also of those of several parts: a program may use one mapping for all its calls."""
    if not isinstance(answers, Mapping):
        # Pairs would be a mapping for `dict`, but not for a `Device`.
        raise not_a_mapping(answers)
    given = dict(answers)
    return {name: dict(answer) if isinstance(answer, Mapping) else answer for name, answer in given.items()}


class ErrorLog:
    """Logs each cause once in `REPEAT_SECONDS`, and then how often it came: a cause may come with every call."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, int, Exception]] = {}

    def tell(self, error: Exception) -> None:
        """Log an error, or count it if its cause was logged a short time ago."""
        # Numbers differ from try to try, such as how often it was tried.
        cause, now = _NUMBER.sub("#", f"{type(error).__name__}: {error}"), self._clock()
        since, more, _ = self._known.get(cause, (-math.inf, 0, error))
        if now - since < REPEAT_SECONDS:
            self._known[cause] = since, more + 1, error
            return
        if len(self._known) >= MOST_CAUSES:
            self.end()
        self._known[cause] = now, 0, error
        _logged(error, more)

    def end(self) -> None:
        """Log how often each cause came since its last line, and forget all causes."""
        known, self._known = self._known, {}
        for _, more, error in known.values():
            if more:
                _logged(error, more)


def _logged(error: Exception, more: int) -> None:
    again = f" ({more:,} more {'time' if more == 1 else 'times'} since it was logged)" if more else ""
    # A shuffler that is unreachable for a while is normal: the recorder retries. A `Distrusted` one stays so.
    level = logging.INFO if type(error) is Unreachable else logging.WARNING
    _LOG.log(level, "%s: %s%s", type(error).__name__, error, again)


_NUMBER = re.compile(r"[0-9]+")


class _RecorderThread:
    """The recorder's thread, with its own event loop."""

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
        """Wake the thread; any thread may call this."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._event.set)

    def stop(self) -> None:
        """End the thread; a submission that it is sending is abandoned."""
        self._stopping = True
        self.wake()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        run_sync(self._work, "record")

    async def _work(self) -> None:
        self._loop = asyncio.get_running_loop()
        pause, due, sending = FIRST_PAUSE, math.inf, None
        while not self._stopping:
            # Cleared before the queue is read: an answer that comes later sets it again.
            self._event.clear()
            self._recorder._store()
            if sending is not None and sending.done():
                (sent, until), sending = sending.result(), None
                # Wait in short steps: the clock of the send times may be set, or the machine may sleep meanwhile.
                until = min(until, LOOK_SECONDS) if until < math.inf else until
                due = time.monotonic() + (until if sent else min(until, pause))
                pause = FIRST_PAUSE if sent else min(2 * pause, LONGEST_PAUSE)
            if sending is None and (self._recorder._is_asked or time.monotonic() >= due):
                due, sending = math.inf, asyncio.create_task(self._recorder._try())
                sending.add_done_callback(lambda _: self._event.set())
            await self._woken(due - time.monotonic())

    async def _woken(self, seconds: float) -> None:
        """Return when the thread is woken, or after so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if seconds == math.inf else seconds):
                await self._event.wait()
