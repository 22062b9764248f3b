"""Blocking work beside an event loop, and in its place where nobody else uses the loop."""

from __future__ import annotations

import asyncio
import sys
import threading
from types import SimpleNamespace

import pytest

from hubbub.client.blocking import checked_loop, in_thread, run_sync
from hubbub.client.errors import UsageError


class Worker:
    def where(self, what: str, *, twice: bool = False) -> tuple[str, int]:
        return what * (1 + twice), threading.get_ident()

    where_in_thread = in_thread(where)


async def test_work_runs_in_another_thread_with_what_it_is_given() -> None:
    what, thread = await Worker().where_in_thread("a", twice=True)
    assert what == "aa"
    assert thread != threading.get_ident()


async def test_what_it_raises_is_raised() -> None:
    @in_thread
    def fail() -> None:
        raise ValueError("an error in the thread")

    with pytest.raises(ValueError, match="an error in the thread"):
        await fail()


def test_without_anybody_else_on_the_loop_work_runs_in_place() -> None:
    assert run_sync(lambda: Worker().where_in_thread("a"), "where") == ("a", threading.get_ident())


async def test_a_running_loop_is_not_blocked() -> None:
    with pytest.raises(UsageError, match=r"where_blocking\(\) was called inside a running event loop"):
        run_sync(lambda: asyncio.sleep(0), "where")


def test_another_library_s_event_loop_is_named() -> None:
    """Such as trio's, which runs a coroutine without asyncio."""
    with pytest.raises(
        UsageError, match=r"no event loop of asyncio runs this, as in trio; call the function whose name"
    ):
        Worker().where_in_thread("a").send(None)
    with pytest.raises(UsageError, match="no event loop of asyncio runs this"):
        checked_loop()


@pytest.mark.parametrize("runs", [True, False])
def test_the_event_loop_of_trio_is_not_blocked(runs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    lowlevel = SimpleNamespace(in_trio_run=lambda: runs)
    monkeypatch.setitem(sys.modules, "trio", SimpleNamespace(lowlevel=lowlevel))  # type: ignore[misc]
    if not runs:
        assert run_sync(lambda: Worker().where_in_thread("a"), "where")[0] == "a"
        return
    with pytest.raises(UsageError, match=r"where_blocking\(\) was called inside trio's event loop"):
        run_sync(lambda: Worker().where_in_thread("a"), "where")
