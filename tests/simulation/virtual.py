"""An event loop whose clock moves only when nothing is left to do, and in which nothing runs beside it.

What services hand to threads and processes is done in the loop, one thing after the other, so a run is the same every
time. A day of waiting takes no time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from hubbub.service.errors import StoreError
from hubbub.service.runtime.job_thread import Job
from hubbub.service.sqlite.group_commit import GroupCommit

T = TypeVar("T")


class Killed(BaseException):
    """The process in which this is raised was killed: nothing of it goes on."""


class _Selector(selectors.SelectSelector):
    """Waits for nothing: the time that a loop would have waited has passed."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everything waits, and nothing will ever happen")
        if not ready and timeout is not None:
            self.passed += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)
        self.set_exception_handler(_unless_killed)

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._virtual.passed

    def run_in_executor(self, _executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Do it here and now; the result is there in the loop's next turn."""
        future: asyncio.Future[T] = self.create_future()
        try:
            result = func(*args)
        except BaseException as error:
            self.call_soon(_unless_done, future, future.set_exception, error)
        else:
            self.call_soon(_unless_done, future, future.set_result, result)
        return future


def _unless_done(future: asyncio.Future[Any], setter: Callable[[Any], None], value: Any) -> None:
    if not future.done():
        setter(value)


def _unless_killed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), Killed):
        loop.default_exception_handler(context)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a virtual loop of its own."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.run_until_complete(_end())
        loop.close()


async def _end() -> None:
    """Have nothing left that waits."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


class LoopCommits(GroupCommit[Any]):
    """Group commit without its thread: what waits together is one transaction in the loop's next turn."""

    def _start(self) -> None:
        self._loop = asyncio.get_running_loop()

    def _put(self, work: Any, *, size: int = 1, alone: bool = False, bare: bool = False) -> asyncio.Future[Any]:
        future = super()._put(work, size=size, alone=alone, bare=bare)
        self._loop.call_soon(self._drain)
        return future

    def submit_from(self, _loop: asyncio.AbstractEventLoop, work: Callable[[Any], T]) -> Future[T]:
        """Do it at once: what would be another thread runs in the loop, which goes on only when that is done."""
        if self._closed:
            raise StoreError("the store is closed")
        ((_, result, error),) = self._commit([Job(work, self._loop.create_future())])
        done: Future[T] = Future()
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)
        return done

    def _drain(self) -> None:
        try:
            self._work_off()
        except Killed:
            return

    def _work_off(self) -> None:
        while self._carried or not self._jobs.empty():
            self._finish(self._next_group())

    def close(self) -> None:
        """Do what is waiting, then end."""
        if not self._closed:
            self._closed = True
            self._work_off()
            self._commit([])
