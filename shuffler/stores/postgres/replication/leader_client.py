"""A front end's calls to the leader of its rounds, whichever of the addresses it is at."""

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
"""What is said by one that stands by, or by whatever else is at an address: the next one is called."""

_EVENT = "no leader answers"

T = TypeVar("T")

Call = Callable[[LeaderCaller, float], Awaitable[T]]
"""A call, with its deadline in seconds."""


class LeaderClient:
    """Calls the leader at the address where it was last, and then at the others. It is for one event loop.

    `renewals` counts how often the TLS files were renewed: channels are opened anew with new ones.
    """

    def __init__(self, addresses: Sequence[str], tls: TLS, renewals: Callable[[], int], incidents: Incidents) -> None:
        """Nothing is called yet."""
        self._addresses, self._tls, self._renewals, self._incidents = list(addresses), tls, renewals, incidents
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._left: set[asyncio.Task[None]] = set()
        self._opened_at = renewals()

    async def ask(self, call: Call[T]) -> T:
        """Return what the leader answers.

        Raises:
            Refusal: a final one of the leader's.
            StoreError: if none of the addresses is a leader that answers.
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
        text = f"none of the leaders answers: {'; '.join(why)}; see that one of them runs and can be reached"
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
        """Open channels anew from now on; what is called on those there are may be answered."""
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            task = asyncio.create_task(channel.close(CALL_SECONDS))
            self._left.add(task)
            task.add_done_callback(self._left.discard)

    async def close(self) -> None:
        """Close all channels; calls in work fail, save on those that were left for new ones."""
        channels, self._channels = self._channels, {}
        await asyncio.gather(*self._left, *(channel.close() for channel in channels.values()))
