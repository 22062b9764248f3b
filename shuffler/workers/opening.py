"""Opening: an acceptor opens envelopes itself, a few at a time, and goes on with other calls in between.

It has a core of its own: handing envelopes to another process would only add what the pipes cost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from hubbub.protos.messages import Submission
from hubbub.protos.sealing.envelope import OuterOpener
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.shuffler.admit.opening_worker import RoundKey, open_each

STRETCH = 25
"""Envelopes opened at a time, in about a millisecond: other calls wait no longer for it."""


class Opening:
    """Opens in the event loop (`shuffler.opening.Opens`); `observe` is told how many seconds each call's took."""

    def __init__(self, observe: Observe = unobserved) -> None:
        self._observe = observe
        self._last: tuple[RoundKey, OuterOpener] | None = None

    async def open(self, key: RoundKey, submissions: Sequence[Submission]) -> list[bytes | None]:
        opener, found, took = self._opener(key), [], 0.0
        for start in range(0, len(submissions), STRETCH):
            if start:
                await asyncio.sleep(0)
            began = time.perf_counter()
            found += open_each(opener, submissions[start : start + STRETCH])
            took += time.perf_counter() - began
        self._observe(took)
        return found

    def _opener(self, key: RoundKey) -> OuterOpener:
        """The last one is kept: making it takes twice as long as opening an envelope."""
        if self._last is None or self._last[0] != key:
            self._last = key, key.opener()
        return self._last[1]

    def forget(self) -> None:
        """Forget the last key, which may be of a round that is over; called once a second."""
        self._last = None
