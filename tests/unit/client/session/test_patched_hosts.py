"""In a process that is patched after a device was made, each call is refused by name, and the process goes on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hubbub.client import Device, Fleet, Gateway, Recorder, RecorderCounts
from hubbub.protos.errors import UsageError
from support.fake_shuffler import FakeShuffler
from support.messages import GEVENT
from support.patience import CALL_SECONDS, PATIENCE
from support.samples import START

ANSWERS: dict[str, Any] = {"carrier": "UA", "delay": 12.5}


def patch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process seem patched by gevent from now on."""
    patched = SimpleNamespace(is_module_patched=lambda name: name == "threading")
    monkeypatch.setitem(sys.modules, "gevent.monkey", patched)  # type: ignore[arg-type] # as a module


async def test_each_call_checks_again_and_stores_and_sends_nothing(
    device: Callable[..., Device],
    fleet: Callable[..., Fleet],
    gateway: Gateway,
    shuffler: FakeShuffler,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, many = device(), fleet()
    patch(monkeypatch)
    for call in (
        one.submit(ANSWERS),
        one.resend(),
        one.prepare(ANSWERS),
        one.sealed_submissions(),
        many.submit_many([("a", ANSWERS)]),
        gateway.carry([]),
        asyncio.to_thread(one.submit_blocking, ANSWERS, timeout=5),
        asyncio.to_thread(one.resend_blocking),
        asyncio.to_thread(one.keep, ANSWERS),
    ):
        with pytest.raises(UsageError, match=GEVENT):
            await call
    with pytest.raises(UsageError, match=GEVENT):
        Recorder(one)
    monkeypatch.undo()
    assert (one.status().waiting, shuffler.fetched, shuffler.seen) == ((), [], [])


async def test_a_recorder_of_a_process_that_is_patched_later_counts_and_reports_once(
    device: Callable[..., Device], shuffler: FakeShuffler, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[Exception] = []
    recorder = Recorder(device(), spread=False, on_error=errors.append)
    assert await asyncio.to_thread(recorder.flush, CALL_SECONDS)
    patch(monkeypatch)
    assert [recorder.record(ANSWERS) for _ in range(3)] == [False, False, False]
    assert not recorder.flush(30)
    assert recorder.counts == RecorderCounts(calls=3, failed=3)
    (error,) = errors
    assert GEVENT in str(error)
    monkeypatch.undo()
    assert await asyncio.to_thread(recorder.close)


PRELOADED = """
import logging, os, signal, sys
logging.basicConfig(stream=sys.stdout, format="%(message)s")
child = os.fork()
if child == 0:
    from gevent import monkey
    monkey.patch_all()
    print([recorder.record({"carrier": "UA"}) for _ in range(2)], recorder.flush(5), recorder.close(), flush=True)
    print(recorder.counts.failed, recorder.counts.queued, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


async def test_a_worker_that_patches_after_its_fork_goes_on(
    settings: dict[str, Any], shuffler: FakeShuffler, tmp_path: Path
) -> None:
    """As gunicorn's worker of gevent does with --preload. A recorder's thread would have stopped the worker."""
    (tmp_path / "task.json").write_bytes(settings["task"])
    program = f"""
from pathlib import Path
from hubbub.client import Device, Recorder
recorder = Recorder(
    Device(
        Path({str(tmp_path / "task.json")!r}).read_bytes(),
        operator_key=bytes.fromhex({settings["operator_key"].hex()!r}),
        shuffler_key=bytes.fromhex({settings["shuffler_key"].hex()!r}),
        state=Path({str(settings["state"])!r}),
        shuffler={shuffler.address!r},
        authority=Path({str(settings["authority"])!r}),
        clock=lambda: {START + 50},
    ),
    spread=False,
)
{PRELOADED}"""
    command = [sys.executable, "-W", "ignore", "-c", program]
    ran = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ran.returncode == 0, ran.stderr
    said, *lines = ran.stdout.splitlines()
    assert said.startswith("UsageError: gevent has replaced")
    assert lines == ["[False, False] False True", "2 0"]
