"""Watching goes on until a signal, and ends without an error, also in the middle of a look."""

from __future__ import annotations

import asyncio
import signal

import pytest

from hubbub.cli.terminal.watch import watched


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_it_shows_again_and_again_until_a_signal(number: signal.Signals) -> None:
    shown: list[int] = []

    async def look() -> int:
        return len(shown)

    def show(seen: int) -> None:
        shown.append(seen)
        if seen == 2:
            signal.raise_signal(number)

    await watched(look, show, every=0)
    assert shown == [0, 1, 2]


async def test_a_look_that_does_not_end_is_given_up() -> None:
    cancelled = asyncio.Event()

    async def look() -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    await watched(look, lambda _: None)
    assert cancelled.is_set()


async def test_an_error_of_a_look_is_the_callers() -> None:
    async def look() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await watched(look, lambda _: None)
