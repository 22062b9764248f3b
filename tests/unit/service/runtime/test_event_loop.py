"""The event loop that the settings name is the one that runs."""

from __future__ import annotations

import asyncio
import importlib.util

import pytest

from hubbub.service.runtime.event_loop import EventLoop, run
from hubbub.service.settings import SettingsError


async def running() -> str:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_work_runs_in_the_loop_that_was_asked_for(kind: EventLoop) -> None:
    assert run(running, kind) == kind


def test_a_loop_that_is_not_installed_is_named_before_anything_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    async def begin() -> None:
        begun.append(True)

    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(SettingsError, match=r"event_loop = \"uvloop\" needs uvloop .*pip install 'hubbub\[uvloop\]'"):
        run(begin, "uvloop")
    assert begun == []
