"""Following: a keyring that stands by has everything that the keeper's has, on its own disk.

It asks one address after the other until the keeper answers, fetches everything once, and then each change: asking for
the next says that the last is on disk (`standbys` has the rules that this rests on). A keyring that was begun in the
middle, or killed there, has what it had before: everything is put in one transaction.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import structlog

from hubbub.protos.cluster import Asked, Row
from hubbub.protos.errors import HubbubError
from hubbub.protos.rpc import FollowCaller
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.service.observability.incidents import Kind, Troubles
from hubbub.shuffler.stores.postgres.keyring import Keyring
from hubbub.shuffler.stores.postgres.replication.changes import checked

CALL_SECONDS = 10.0
"""Deadline of a call, which may wait a second for a change."""

AGAIN_SECONDS = 1.0
"""How long until the addresses are asked again."""

_EVENT = "the keyring does not follow"

_LOG = structlog.get_logger(__name__)


class Following:
    """Has a keyring follow the keeper's, whose address is among `addresses`."""

    def __init__(self, keyring: Keyring, addresses: Sequence[str], tls: TLS, troubles: Troubles) -> None:
        """Nothing is asked before `run`."""
        self._keyring, self._addresses, self._tls, self._troubles = keyring, addresses, tls, troubles

    async def run(self) -> None:
        """Follow until it is cancelled."""
        self._keyring.accept()
        while True:
            why = []
            for address in self._addresses:
                try:
                    async with open_channel(address, self._tls) as channel:
                        await self._follow(FollowCaller(channel))
                except HubbubError as error:
                    why.append(f"{address}: {error}")
            text = f"the keyring {self._keyring.path} misses changes, none of the keepers tells them: {'; '.join(why)}"
            self._troubles.meet(_EVENT, Kind.PEER, _EVENT, text)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _follow(self, caller: FollowCaller) -> None:
        asked, rows = Asked(self._keyring.copy), list[Row]()
        started = time.monotonic()
        while True:
            told = await caller.follow(asked, CALL_SECONDS)
            rows.extend(map(checked, told.rows))
            if told.keyring and (told.stream, told.position) != (asked.stream, asked.position):
                rows = list(told.rows)  # the keeper began again
            if told.keyring and len(rows) < told.total:
                asked = Asked(self._keyring.copy, told.stream, told.position, len(rows))
                continue
            if rows or told.keyring:
                await asyncio.to_thread(self._keyring.follow, rows, told.keyring)
            if told.keyring:
                _LOG.info("the keyring was copied", rows=told.total, seconds=round(time.monotonic() - started, 3))
            self._troubles.over(_EVENT)
            asked, rows = Asked(self._keyring.copy, told.stream, told.position), []
