"""The load pauses when it is told to come again, and sends all there is."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hubbub.protos import codec
from hubbub.protos.messages import Answer, Receipt
from hubbub.protos.refusals import Reason, Refusal

HERE = Path(__file__).parent
RECEIPT = Receipt(bytes(16), 0)
OVERLOADED = Refusal(Reason.OVERLOADED, "busy", 1.0)


@pytest.fixture
def submitting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`submitting.py`, imported as when `run.py` does; its neighbors are forgotten again afterwards."""
    monkeypatch.syspath_prepend(str(HERE))
    before = set(sys.modules)
    yield importlib.import_module("submitting")
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == HERE:
            del sys.modules[name]


class Channel:
    """Answers each call with the next of some answers, then with receipts."""

    def __init__(self, *answers: Answer) -> None:
        self.asked: list[bytes] = []
        self._answers = iter(answers)

    def unary_unary(self, _method: str) -> Callable[[bytes], Awaitable[bytes]]:
        async def call(request: bytes) -> bytes:
            self.asked.append(request)
            return codec.write_answers([next(self._answers, RECEIPT)]).SerializeToString()

        return call


async def test_what_is_told_to_come_again_comes_after_the_pause(
    submitting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(submitting, "asyncio", type("Paused", (), {**vars(asyncio), "sleep": staticmethod(pause)}))
    channel = Channel(RECEIPT, OVERLOADED, OVERLOADED)
    found = await submitting.sent([channel], submitting.SUBMIT_BATCH, [b"a", b"b", b"c"], 1)
    assert (found.refused, pauses) == (2, [1.0, 1.0])
    assert channel.asked == [b"a", b"b", b"c", b"b", b"c"]


async def test_any_other_refusal_ends_the_run(submitting: Any) -> None:
    channel = Channel(RECEIPT, Refusal(Reason.UNOPENABLE, "no"))
    with pytest.raises(RuntimeError, match="not all were acknowledged"):
        await submitting.sent([channel], submitting.SUBMIT_BATCH, [b"a", b"b", b"c"], 2)
