"""Tidies up after a block, so that an error of tidying up never takes the place of the block's own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator


@contextlib.contextmanager
def tidied(*steps: Callable[[], object]) -> Iterator[None]:
    """Take all steps after the block, in order, however it ends.

    If the block fails, its error is raised, and errors of steps become notes on it. If only steps fail, the first
    step's error is raised, after all steps.
    """
    try:
        yield
    except BaseException as error:
        for step in steps:
            with noted_on(error):
                step()
        raise
    failed = None
    for step in steps:
        try:
            step()
        except Exception as error:
            failed = failed or error
    if failed is not None:
        raise failed


@contextlib.asynccontextmanager
async def tidied_async(*steps: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Take all steps after the block; see `tidied`."""
    try:
        yield
    except BaseException as error:
        for step in steps:
            with noted_on(error):
                await step()
        raise
    failed = None
    for step in steps:
        try:
            await step()
        except Exception as error:
            failed = failed or error
    if failed is not None:
        raise failed


@contextlib.contextmanager
def noted_on(first: BaseException | None) -> Iterator[None]:
    """Make an error of the block, which tidies up after an error `first`, a note on that; without one, raise it."""
    try:
        yield
    except Exception as error:
        if first is None:
            raise
        first.add_note(f"tidying up failed too: {type(error).__name__}: {error}")
