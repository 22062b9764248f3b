"""Turns each device's ticket into a credential, once; rotates master keys and revokes devices for the operator.

The first device that brings a ticket redeems it, by a secret of its own. The same device gets the same credential
again, or one under the master key that is active by now. Any other device is refused, so a copied ticket is worthless.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from functools import lru_cache

import structlog

from hubbub.protos.enrollment.credentials import (
    KEY_BYTES,
    NUMBER_BYTES,
    Credential,
    authority_tag,
    master_fingerprint,
    redeemed_by,
)
from hubbub.protos.enrollment.tickets import Ticket, TreeHead
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.keys import Role
from hubbub.protos.identity.lineage import Lineage, leading
from hubbub.protos.identity.successions import Succession
from hubbub.protos.messages import CredentialAction, CredentialStatus, MasterKey, Redemption
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc.enrollment import Enrolled
from hubbub.shuffler.admit.checks.capacity import unavailable
from hubbub.shuffler.admit.checks.credential import revoked
from hubbub.shuffler.admit.credentials import Credentials
from hubbub.shuffler.records import ANY_ROUND, RedeemedTicket, StoreError
from hubbub.shuffler.stores.protocol import IngestStore, ShufflerStore
from hubbub.shuffler.tasks import Tasks, at

RENEW_SECONDS = 3600.0
"""Seconds until the oblivious key is signed again; its record begins with a day."""

RETRY_SECONDS = 1.0
"""Seconds until a device may come again if the rate of this second is used up, or the disk is full."""

IN_THREAD = 20
"""This many tickets or more are checked in a thread, so that submissions do not wait for all of them."""

KNOWN_LISTS = 4096
"""Lists of tickets whose signatures are remembered as valid: a million tickets, in two mebibytes."""

_LOG = structlog.get_logger(__name__)


class Rate:
    """A rate limit of `limit` tickets a second, and at most as many at once."""

    def __init__(self, limit: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self._left, self._since = limit, monotonic()

    def takes(self) -> bool:
        """Return whether one more is let through now."""
        now = self._monotonic()
        self._left = min(self._limit, self._left + (now - self._since) * self._limit)
        self._since = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def signers_of_tickets(
    operator: bytes, shuffler: bytes, tasks: Tasks, successions: Sequence[Succession] = ()
) -> tuple[set[bytes], set[bytes]]:
    """Return the identities of operators and of shufflers that may sign tickets, with those of their successions.

    `successions` count even if there is no task yet.
    """
    operators, shufflers = {operator}, {shuffler}
    known = {Role.OPERATOR: operator, Role.SHUFFLER: shuffler}
    ours = leading(successions, known.items())
    for lineage in (*(task.lineage for task in tasks.values()), Lineage.of(known, ours) if ours else None):
        operators.update(() if lineage is None else lineage.identities(Role.OPERATOR))
        shufflers.update(() if lineage is None else lineage.identities(Role.SHUFFLER))
    return operators, shufflers


class CredentialIssuer:
    """Answers devices that bring tickets.

    `operators` and `shufflers` are the identities (32 bytes each) that a ticket may name.
    """

    def __init__(
        self,
        credentials: Credentials,
        store: IngestStore,
        operators: Collection[bytes],
        shufflers: Collection[bytes],
        clock: Callable[[], float],
        rate: Rate,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._credentials = credentials
        self._store = store
        self._operators = frozenset(operators)
        self._shufflers = frozenset(shufflers)
        self._clock = clock
        self._rate = rate
        self._random = random
        # What raises an error is not remembered, so nobody fills this with lists that nobody signed.
        self._check_known = lru_cache(KNOWN_LISTS)(self._check_head)

    async def enroll(self, redemptions: Sequence[Redemption]) -> list[Enrolled]:
        signed = await self._signed(redemptions)
        # No await between these checks and the store's job: `manage` relies on their order.
        checked = [self._checked(*each) for each in zip(redemptions, signed, self._numbers(len(signed)), strict=True)]
        good = [each for each in checked if not isinstance(each, Refusal)]
        try:
            stored = iter(await self._store.redeem([redeemed for _ticket, redeemed in good]) if good else [])
        except StoreError as error:
            checked = [unavailable(error) for _ in redemptions]
            stored = iter([])
        answers = [each if isinstance(each, Refusal) else self._issued(*each, next(stored)) for each in checked]
        refused = Counter(answer.reason.value for answer in answers if isinstance(answer, Refusal))
        if refused:
            # Counted for no task: a ticket is valid for all of them.
            self._store.count(b"", ANY_ROUND, refused)
        return answers

    async def _signed(self, redemptions: Sequence[Redemption]) -> list[Ticket | Refusal]:
        """Return the tickets whose signatures are valid, and the refusals of the others."""
        taken = [self._rate.takes() for _ in redemptions]
        pairs = list(zip(redemptions, taken, strict=True))
        if len(redemptions) < IN_THREAD:
            return [self._read(*each) for each in pairs]
        return await asyncio.to_thread(lambda: [self._read(*each) for each in pairs])

    def _read(self, redemption: Redemption, taken: bool) -> Ticket | Refusal:
        if not taken:
            return Refusal(Reason.OVERLOADED, "many devices are enrolling now; try again shortly", RETRY_SECONDS)
        try:
            ticket = Ticket.decode(redemption.ticket)
            self._check_signatures(ticket)
        except SignatureError as error:
            return Refusal(Reason.BAD_TICKET, f"the ticket is not valid: {error}; ask the operator for a ticket")
        return ticket

    def _numbers(self, count: int) -> list[bytes]:
        """Draw numbers for devices; one call of the system for all of them takes a tenth of one for each."""
        drawn = self._random(NUMBER_BYTES * count)
        return [drawn[start : start + NUMBER_BYTES] for start in range(0, len(drawn), NUMBER_BYTES)]

    def _checked(
        self, redemption: Redemption, ticket: Ticket | Refusal, number: bytes
    ) -> tuple[Ticket, RedeemedTicket] | Refusal:
        """Return a valid ticket, and the record to store if it is not redeemed yet."""
        if isinstance(ticket, Refusal):
            return ticket
        if ticket.expires <= self._clock():
            text = f"the ticket was valid until {at(ticket.expires)}; ask the operator for a new one"
            return Refusal(Reason.TICKET_EXPIRED, text)
        if ticket.device in self._credentials.revoked.devices:
            return revoked()
        if not self._credentials.can_issue:
            # Before the ticket is redeemed: nobody could be given its credential.
            return _no_master_key()
        return ticket, RedeemedTicket(ticket.device, redeemed_by(redemption.device_key), number, ticket.expires)

    def _check_signatures(self, ticket: Ticket) -> None:
        if ticket.shuffler not in self._shufflers:
            raise SignatureError("the ticket is for another shuffler")
        head = ticket.head
        # A list of one has no other ticket to be remembered for, and would take the place of a longer list.
        (self._check_known if head.size > 1 else self._check_head)(head)

    def _check_head(self, head: TreeHead) -> None:
        signed = {signer for signer, _signature in head.signatures}
        # Signed by the operator's identity, or by a predecessor or successor of it.
        if not signed & self._operators:
            who = " or ".join(sorted(each.hex()[:16] for each in self._operators))
            raise SignatureError(f"the ticket is not signed by {who}")
        for signer in signed:
            if signer in self._operators:
                head.check(signer)
            else:
                head.check_countersigned(signer)

    def _issued(self, ticket: Ticket, offered: RedeemedTicket, stored: RedeemedTicket) -> Enrolled:
        if stored.redeemed_by != offered.redeemed_by:
            text = (
                "the ticket was redeemed by another device, or by this one before it lost its state; ask the "
                "operator for a new one"
            )
            return Refusal(Reason.TICKET_REDEEMED, text)
        second = next((signer for signer, _ in ticket.signatures if signer not in self._operators), None)
        issued = self._credentials.issue(stored.number, ticket.expires, authority_tag(second))
        return _no_master_key() if issued is None else Credential(*issued)


def _no_master_key() -> Refusal:
    return Refusal(Reason.NOT_READY, "the shuffler has no master key yet; try again shortly", RETRY_SECONDS)


class EnrollmentControl(CredentialIssuer):
    """Answers devices that bring tickets, and the operator's steps; see `CredentialIssuer`."""

    def __init__(
        self,
        credentials: Credentials,
        store: ShufflerStore,
        operators: Collection[bytes],
        shufflers: Collection[bytes],
        clock: Callable[[], float],
        rate: Rate,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        super().__init__(credentials, store, operators, shufflers, clock, rate, random)
        self._kept = store
        self._changing = asyncio.Lock()

    async def start(self) -> None:
        """Read the store, before any device is answered; create the first master key in a new one.

        Raises:
            StoreError: if the store cannot be used.
        """
        # STATUS changes no key, but a store without master keys gets its first one at every step.
        await self._kept.step_masters(CredentialAction.STATUS, self._random(KEY_BYTES), int(self._clock()))
        await self._credentials.read(self._kept)

    @contextlib.asynccontextmanager
    async def renewed(self) -> AsyncIterator[None]:
        """Read the store again and again, so that the oblivious key is signed anew long before its record ends."""
        task = asyncio.create_task(self._again_and_again())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _again_and_again(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            # What fails now is read the next time: a record is valid for many days.
            with contextlib.suppress(StoreError):
                async with self._changing:
                    await self._credentials.read(self._kept)

    # The operator

    async def manage(self, step: CredentialAction, devices: Sequence[bytes]) -> CredentialStatus:
        """Take a step, which may be repeated; return the resulting status of enrollment.

        Raises:
            Refusal: NOT_READY if the disk refuses the write.
        """
        async with self._changing:
            try:
                if step is CredentialAction.REVOKE:
                    await self._kept.revoke(devices)
                else:
                    await self._kept.step_masters(step, self._random(KEY_BYTES), int(self._clock()))
                await self._credentials.read(self._kept)
                if step is CredentialAction.REVOKE:
                    # A ticket that was checked before this read may have been redeemed since, so revoke once more after
                    # it.
                    await self._kept.revoke(())
                    await self._credentials.read(self._kept)
                redeemed = await self._kept.redeemed()
                masters = await self._kept.masters()
            except StoreError as error:
                text = f"this may be done in part; repeat it once the store can be used: {error}"
                raise Refusal(Reason.NOT_READY, text, retry_after=5.0) from error
        if step is not CredentialAction.STATUS:
            _LOG.info("credentials", step=step.value, devices=len(devices))
        keys = tuple(
            MasterKey(master.generation, master.state, master.since, master_fingerprint(master.secret))
            for master in masters
        )
        return CredentialStatus(keys, redeemed, len(self._credentials.revoked.devices))
