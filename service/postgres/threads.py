"""Runs a store's blocking calls to the server in threads, outside of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hubbub.service.errors import StoreClosedError
from hubbub.service.postgres.sessions import CONNECTIONS

T = TypeVar("T")


class Threads:
    """Threads of one store, `count` of them; fewer than connections, so that other work finds a free connection."""

    def __init__(self, count: int = CONNECTIONS - 2) -> None:
        self._executor = ThreadPoolExecutor(count, "store")

    async def do(self, work: Callable[[], T]) -> T:
        """Do work in a thread, and return its result.

        Raises:
            StoreError: if the threads have ended.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        except RuntimeError as error:
            if "shutdown" not in str(error):
                raise
            raise StoreClosedError() from error

    def shutdown(self) -> None:
        """Finish the running work, and end; a second call does nothing."""
        self._executor.shutdown(wait=True)
