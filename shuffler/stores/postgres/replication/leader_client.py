"""Calls the leader of a front end's rounds, at whichever address it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import grpc

from hubbub.protos.errors import HubbubError
from hubbub.protos.refusals import TRANSIENT, Reason, Refusal
from hubbub.protos.rpc import LeaderCaller
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import IncidentKind, Incidents

CALL_SECONDS = 10.0
"""Deadline of a call."""

ELSEWHERE = TRANSIENT | {Reason.NOT_ALLOWED}
"""Answers of a standby, or of another service at an address: the next address is called."""

_EVENT = "no leader answers"

T = TypeVar("T")

Call = Callable[[LeaderCaller, float], Awaitable[T]]
"""A call, with its deadline in seconds."""


class LeaderClient:
    """Calls the leader at its last address, and then at the others. An object serves one event loop.

    `renewals` counts renewals of the TLS files: after each, channels are opened anew.
    """

    def __init__(self, addresses: Sequence[str], tls: TLS, renewals: Callable[[], int], incidents: Incidents) -> None:
        """Make no call yet."""
        self._addresses, self._tls, self._renewals, self._incidents = list(addresses), tls, renewals, incidents
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._left: set[asyncio.Task[None]] = set()
        self._opened_at = renewals()

    async def ask(self, call: Call[T]) -> T:
        """Return the leader's answer.

        Raises:
            Refusal: a final one of the leader.
            StoreError: if no address has a leader that answers.
        """
        why = []
        for address in list(self._addresses):
            try:
                answer = await call(LeaderCaller(self._channel(address)), CALL_SECONDS)
            except HubbubError as error:
                if isinstance(error, Refusal) and error.reason not in ELSEWHERE:
                    raise
                why.append(f"{address}: {error}")
                continue
            self._addresses.sort(key=lambda each, found=address: each != found)  # type: ignore[misc]
            self._incidents.resolve(_EVENT)
            return answer
        text = f"none of the leaders answers: {'; '.join(why)}; check that one of them runs and can be reached"
        self._incidents.open(_EVENT, IncidentKind.PEER, _EVENT, text)
        raise StoreError(text)

    def _channel(self, address: str) -> grpc.aio.Channel:
        if self._renewals() != self._opened_at:
            self._opened_at = self._renewals()
            self._leave()
        if address not in self._channels:
            self._channels[address] = open_channel(address, self._tls)
        return self._channels[address]

    def _leave(self) -> None:
        """Open new channels from now on; calls on the old ones may still be answered."""
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            task = asyncio.create_task(channel.close(CALL_SECONDS))
            self._left.add(task)
            task.add_done_callback(self._left.discard)

    async def close(self) -> None:
        """Close all channels; calls in progress fail, except those on channels that were replaced."""
        channels, self._channels = self._channels, {}
        await asyncio.gather(*self._left, *(channel.close() for channel in channels.values()))
