"""Keeps a standby's keyring, on its own disk, equal to the leader's.

It calls one address after the other until the leader answers, fetches everything once, and then each change. An answer
that no leader gives to that question is refused by name, before anything of it is written. A request
for the next change confirms that the last is on disk (`replication` has the rules that rely on this). If a standby is
killed in the middle, its keyring is as before: everything is written in one transaction.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import structlog

from hubbub.protos.cluster import FollowerPosition, KeyringChanges, KeyringRow
from hubbub.protos.errors import HubbubError
from hubbub.protos.rpc import ReplicationCaller
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.service.errors import StoreError
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.shuffler.stores.postgres.keyring import ShufflerKeyring
from hubbub.shuffler.stores.postgres.replication.changes import checked

CALL_SECONDS = 10.0
"""Deadline of a call, which may wait a second for a change."""

AGAIN_SECONDS = 1.0
"""Seconds until the addresses are called again."""

MOST_ROWS = 10_000_000
"""Rows that a whole copy may have: they are in memory, some gigabytes of them, until all have come."""

_EVENT = "the keyring does not follow"

_LOG = structlog.get_logger(__name__)


class Follower:
    """Makes a keyring replicate the leader's, whose address is among `addresses`."""

    def __init__(self, keyring: ShufflerKeyring, addresses: Sequence[str], tls: TLS, incidents: Incidents) -> None:
        """Make no call before `run`."""
        self._keyring, self._addresses, self._tls, self._incidents = keyring, addresses, tls, incidents

    async def run(self) -> None:
        """Replicate until it is cancelled."""
        self._keyring.accept()
        while True:
            why = []
            for address in self._addresses:
                try:
                    async with open_channel(address, self._tls) as channel:
                        await self._follow(ReplicationCaller(channel))
                except HubbubError as error:
                    why.append(f"{address}: {error}")
            text = f"the keyring {self._keyring.path} misses changes, as no leader sends them: {'; '.join(why)}"
            self._incidents.open(_EVENT, IncidentKind.PEER, _EVENT, text)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _follow(self, caller: ReplicationCaller) -> None:
        asked, rows = FollowerPosition(self._keyring.copy), list[KeyringRow]()
        started = time.monotonic()
        while True:
            told = await caller.follow(asked, CALL_SECONDS)
            check_follows(asked, told)
            rows.extend(map(checked, told.rows))
            if told.keyring and (told.stream, told.position) != (asked.stream, asked.position):
                rows = list(told.rows)  # the leader began again
            if told.keyring and len(rows) < told.total:
                asked = FollowerPosition(self._keyring.copy, told.stream, told.position, len(rows))
                continue
            if told.keyring:
                self._check_whole(told, len(rows))
            if rows or told.keyring:
                await asyncio.to_thread(self._keyring.follow, rows, told.keyring)
            if told.keyring:
                _LOG.info("the keyring was copied", rows=told.total, seconds=round(time.monotonic() - started, 3))
            self._incidents.resolve(_EVENT)
            asked, rows = FollowerPosition(self._keyring.copy, told.stream, told.position), []

    def _check_whole(self, told: KeyringChanges, rows: int) -> None:
        """Return only if a whole copy may take the place of this keyring's rows.

        Raises:
            StoreError: if it is not whole, or of another keyring than this one was a copy of.
        """
        if rows != told.total:
            raise StoreError(f"a whole copy of {told.total} rows came with {rows}; nothing of it was written")
        if told.keyring != self._keyring.id and not self._keyring.is_new():
            raise StoreError(
                f"the leader's keyring is another one than {self._keyring.path} is a copy of, and would take the "
                "place of its secrets; name the right address in `leaders`, or move this file away and make a new one "
                "with --create-store"
            )


def check_follows(asked: FollowerPosition, told: KeyringChanges) -> None:
    """Return only if a leader may give this answer to that question.

    Raises:
        StoreError: if changes do not continue those that were asked for, or a whole copy does not come to an end.
    """
    if told.keyring:
        continues = (told.stream, told.position) == (asked.stream, asked.position) and asked.offset > 0
        come = len(told.rows) + (asked.offset if continues else 0)
        if told.total > MOST_ROWS or come > told.total or (not told.rows and come < told.total):
            raise StoreError(
                f"a whole copy of {told.total} rows does not come to an end after {come}, or has more than {MOST_ROWS}"
            )
    elif (
        asked.offset
        or told.stream != asked.stream
        or told.position < asked.position
        or bool(told.rows) != (told.position > asked.position)
    ):
        # Without this a copy would be taken for one that has what it never got.
        raise StoreError(f"changes up to {told.position} do not follow what this copy has, up to {asked.position}")
