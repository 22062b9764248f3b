"""Keepers: a call of the operator to whichever of the shuffler's addresses keeps the rounds now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from hubbub.deploy.settings import OperatorSettings
from hubbub.protos.errors import Unreachable
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller
from hubbub.protos.transport.channels import open_channel

T = TypeVar("T")


async def at_the_keeper(settings: OperatorSettings, call: Callable[[ControlCaller], Awaitable[T]]) -> T:
    """Make a call at the shuffler's control port; where there are several, at each until the keeper has answered.

    Who stands by refuses as NOT_READY, and does nothing. A call that a keeper got may be made again by its nature.

    Raises:
        Unreachable: where nobody answered, or only those who stand by; it names all that were asked.
        HubbubError: as the call itself.
    """
    addresses = settings.shuffler_control.split(",")
    said = []
    for address in addresses:
        try:
            async with open_channel(address, settings.tls.paths()) as channel:
                return await call(ControlCaller(channel))
        except (Unreachable, Refusal) as error:
            if len(addresses) == 1 or (isinstance(error, Refusal) and error.reason is not Reason.NOT_READY):
                raise
            said.append(f"{address}: {error}")
    raise Unreachable("no keeper of the rounds has answered: " + "; ".join(said))
