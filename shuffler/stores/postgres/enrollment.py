"""Stores the data of enrollment in the keyring alone, since it must be erasable."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from hubbub.protos.messages import CredentialAction, KeyState
from hubbub.service.postgres.sessions import Sessions
from hubbub.shuffler.records import MasterSecret, RedeemedTicket, Revoked
from hubbub.shuffler.stores.postgres.ingest import PostgresIngestStore
from hubbub.shuffler.stores.postgres.keyring import ShufflerKeyring
from hubbub.shuffler.stores.sqlite import enrollment

T = TypeVar("T")


class EnrollmentStore(PostgresIngestStore):
    """The part of a store for tickets, revoked devices and master keys."""

    def __init__(self, keyring: ShufflerKeyring, sessions: Sessions) -> None:
        super().__init__(keyring, sessions)
        self._keyring = keyring

    async def _enrolled(self, work: Callable[[sqlite3.Connection], T], *, everywhere: bool = True) -> T:
        """Change the data of enrollment; see `ShufflerKeyring.change`."""
        return await self._in_thread(lambda: self._keyring.change(work, everywhere=everywhere))

    async def masters(self) -> list[MasterSecret]:
        return await self._in_thread(lambda: self._keyring.read(enrollment.masters))

    async def step_masters(self, step: CredentialAction, secret: bytes, now: int) -> None:
        """Prepare, activate or forget master keys; the first is active from the start."""

        def work(connection: sqlite3.Connection) -> None:
            if not enrollment.masters(connection):
                enrollment.add_master(connection, secret, KeyState.ACTIVE, now)
            elif step is CredentialAction.PREPARE:
                enrollment.add_master(connection, secret, KeyState.PENDING, now)
            elif step is CredentialAction.ACTIVATE:
                enrollment.activate(connection, now)
            elif step is CredentialAction.FORGET:
                enrollment.forget(connection, now)

        # A new store's first key does not wait for copies: standbys connect only once this process serves, and they get
        # the key before the first ticket is redeemed.
        await self._enrolled(work, everywhere=step is not CredentialAction.STATUS)
        if step is CredentialAction.FORGET:
            await self._in_thread(self._keyring.clean)

    async def redeem(self, tickets: Sequence[RedeemedTicket]) -> list[RedeemedTicket]:
        # Without tickets nothing is written: a front end asks whether there is anything in the way of some.
        return await self._enrolled(lambda connection: enrollment.redeem(connection, tickets) if tickets else [])

    async def redeemed(self) -> int:
        return await self._in_thread(lambda: self._keyring.read(enrollment.redeemed))

    async def revoke(self, devices: Collection[bytes]) -> None:
        await self._enrolled(lambda connection: enrollment.revoke(connection, devices))

    async def revoked(self) -> Revoked:
        return await self._in_thread(lambda: self._keyring.read(enrollment.revoked))
