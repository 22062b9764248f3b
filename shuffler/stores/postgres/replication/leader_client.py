"""Calls the leader of a front end's rounds, at whichever address it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import grpc

from hubbub.protos.enrollment.admitted import RedeemedTicket
from hubbub.protos.errors import HubbubError
from hubbub.protos.refusals import TRANSIENT, Reason, Refusal
from hubbub.protos.rpc import LeaderCaller
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.service.errors import StoreError, StoreFault, parted
from hubbub.service.observability.incidents import IncidentKind, Incidents

CALL_SECONDS = 10.0
"""Deadline of a call."""

ELSEWHERE = TRANSIENT | {Reason.NOT_ALLOWED}
"""Answers of a standby, or of another service at an address: the next address is called."""

_EVENT = "no leader answers"
_REFUSES = "the leader redeems no tickets"

T = TypeVar("T")

Call = Callable[[LeaderCaller, float], Awaitable[T]]
"""A call, with its deadline in seconds."""


class LeaderAwayError(StoreError):
    """No leader answers, or it cannot do this now; `fault` is what is in its way."""

    def __init__(self, text: str, fault: StoreFault = StoreFault.LEADER) -> None:
        super().__init__(text)
        self.fault = fault


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
            LeaderAwayError: if no address has a leader that answers, or the leader cannot do it now.
        """
        why = []
        for address in list(self._addresses):
            try:
                answer = await call(LeaderCaller(self._channel(address)), CALL_SECONDS)
            except HubbubError as error:
                if isinstance(error, Refusal) and error.reason not in ELSEWHERE:
                    raise
                fault, text = parted(error.message) if isinstance(error, Refusal) else (None, str(error))
                if fault not in (None, StoreFault.LEADER):
                    # It leads, and something else is in its way: the other addresses lead nothing.
                    self._incidents.resolve(_EVENT)
                    raise LeaderAwayError(f"the leader at {address} cannot do this now: {text}", fault) from error
                why.append(f"{address}: {text}")
                continue
            self._addresses.sort(key=lambda each, found=address: each != found)  # type: ignore[misc]
            self._incidents.resolve(_EVENT)
            return answer
        text = f"none of the leaders answers: {'; '.join(why)}; check that one of them runs and can be reached"
        self._incidents.open(_EVENT, IncidentKind.TICKETS, _EVENT, text)
        raise LeaderAwayError(text)

    async def redeem(self, tickets: Sequence[RedeemedTicket]) -> list[RedeemedTicket]:
        """Have the leader record tickets; it is an incident while it refuses to, until it takes some or none.

        Raises:
            Refusal: a final one of the leader.
            LeaderAwayError: as `ask` does.
        """
        try:
            answer = await self.ask(lambda caller, deadline: caller.redeem(tickets, deadline))
        except LeaderAwayError as error:
            if error.fault is not StoreFault.LEADER:
                self._incidents.open(_REFUSES, IncidentKind.TICKETS, _REFUSES, f"no device enrolls: {error}")
            raise
        self._incidents.resolve(_REFUSES)
        return answer

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
