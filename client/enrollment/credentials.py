"""Enrolled: a device redeems its ticket once, by itself, and proves with its credential that it makes a submission."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hubbub.client.blocking import aside
from hubbub.client.enrollment.redeem import redeem, redeem_once
from hubbub.client.enrollment.renew import Warnings, objection
from hubbub.client.state.enrollment import (
    Enrolment,
    Tickets,
    find_enrolments,
    keep_credentials,
    supersedes,
    take_tickets,
)
from hubbub.client.state.store import State
from hubbub.client.submit import Link, Pacing, submit
from hubbub.protos.enrollment.credentials import Credential, bound_to
from hubbub.protos.enrollment.tickets import Ticket
from hubbub.protos.errors import SignatureError, UsageError
from hubbub.protos.messages import Receipt, Redemption, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.admission import Mode
from hubbub.protos.task.task import Task
from hubbub.queries.randomizers.sampling import Random

Refused = Mapping[str, Refusal]
"""Why devices have no credential, by device."""


def ticket_of(given: object) -> Tickets:
    """Return the one ticket of a device, given as bytes, as a file that may come later, or as None.

    Raises:
        UsageError: where it is something else.
    """
    if given is None or isinstance(given, bytes):
        return lambda _device: given
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        return lambda _device: path.read_bytes() if path.exists() else None
    raise UsageError(f"ticket is of type {type(given).__name__}; give its bytes, a Path, or None")


def tickets_of(given: Any) -> Tickets:
    """Return the tickets of many devices, given as a mapping by their names, as a function of the name, or as None.

    Raises:
        UsageError: where it is something else.
    """
    if given is None:
        return lambda _device: None
    if isinstance(given, Mapping):
        return given.get
    if callable(given):
        found: Callable[[str], bytes | None] = given
        return found
    raise UsageError(f"tickets is of type {type(given).__name__}; give a mapping by device, a function of it, or None")


@dataclass(frozen=True)
class _Found:
    """Devices' enrolments, the tickets to redeem, and why devices have no enrolment, all by device.

    Tickets in `due` are of devices that cannot submit without, those in `better` of devices whose credentials last.
    """

    held: Mapping[str, Enrolment]
    due: Mapping[str, bytes] = field(repr=False)
    better: Mapping[str, bytes] = field(repr=False)
    refused: Refused


class Enrolled:
    """The credentials of the devices of a state file, for a task."""

    def __init__(self, task: Task, state: State, tickets: Tickets, random: Random, clock: Callable[[], float]) -> None:
        self._task = task
        self._shuffler = task.identities.shuffler
        self._state = state
        self._tickets = tickets
        self._random = random
        self._clock = clock
        self._warnings = Warnings(task.name)

    async def send(self, link: Link, to: Destination, device: str, submission: Submission, pacing: Pacing) -> Receipt:
        """Send a device's submission with its proof; where the proof is of a key that is gone, redeem and send again.

        Raises:
            Refusal, Unreachable, MessageError: as `submit` does; a Refusal too where the device has no credential.
            StateError: where the state file cannot be used.
        """
        proven = await self.prove(link, to, device, submission, pacing)
        try:
            return await submit(link.caller, to, proven, pacing)
        except Refusal as refusal:
            if refusal.reason is not Reason.NOT_ENROLLED or self._task.admission.mode is not Mode.ENROLLED:
                raise
        # The master key of the credential is gone by now; the same ticket gives one under the key that is active.
        renewed = await self.prove(link, to, device, submission, pacing, anew=True)
        return await submit(link.caller, to, renewed, pacing)

    async def prove(
        self, link: Link, to: Destination, device: str, submission: Submission, pacing: Pacing, *, anew: bool = False
    ) -> Submission:
        """Return one device's submission with its proof, as `proven` does.

        Raises:
            Refusal: where the device has no credential; and what `proven` raises.
        """
        proven, refused = await self.proven(link, to, {device: submission}, pacing, anew=anew)
        for refusal in refused.values():
            raise refusal
        return proven[device]

    async def proven(
        self,
        link: Link,
        to: Destination,
        submissions: Mapping[str, Submission],
        pacing: Pacing,
        *,
        anew: bool = False,
    ) -> tuple[dict[str, Submission], Refused]:
        """Return devices' submissions with the proof that they make them, and why others have none.

        Tickets that were not redeemed yet are; with `anew` those are again that credentials are held for. Where a
        credential is held that lasts, it proves the submission whatever became of a new ticket, which is told in the
        log. In a task that takes whoever comes, submissions are returned as they are.

        Raises:
            Unreachable, MessageError: as calls to the shuffler do.
            StateError: where the state file cannot be used.
        """
        if self._task.admission.mode is not Mode.ENROLLED:
            return dict(submissions), {}
        found = await aside(self._look, submissions)
        renewed = {} if anew else await self._renewed(link, found.held, found.better, pacing)
        again = {device: one.ticket for device, one in found.held.items()} if anew else {}
        got, refused = await self._redeemed(link, found.held, {**again, **found.due}, pacing)
        held = {device: one.credential for device, one in found.held.items() if one.credential is not None}
        credentials = {device: one for device, one in {**held, **renewed, **got}.items() if device not in refused}
        prefix = bound_to(to)
        return {
            device: credentials[device].proven_within(prefix, submission)
            for device, submission in submissions.items()
            if device in credentials
        }, {**found.refused, **refused}

    def _look(self, devices: Collection[str]) -> _Found:
        """Return what devices hold, after taking first tickets, and what is to be redeemed; warn of what cannot be."""
        given, unread = self._given(devices, self._find(devices))
        held = self._with_first(devices, given)
        now = self._clock()
        lasting = {device for device, one in held.items() if one.lasts(now)}
        # The bytes of what could not be read may be unknown, so all of it counts as one ticket.
        self._warnings.tell((b"", refusal) for device, refusal in unread.items() if device in lasting)
        refused = {device: self._without_ticket() for device in devices if device not in held}
        refused |= {device: refusal for device, refusal in unread.items() if device not in lasting}
        kept = {device: one for device, one in held.items() if device not in refused}
        due = {device: one.ticket for device, one in kept.items() if one.credential is None}
        # Looked at again: another process may have redeemed one since.
        following = {
            device: each for device, each in given.items() if device not in due and supersedes(each, kept[device])
        }
        due |= {device: each.encode() for device, each in following.items() if device not in lasting}
        better = {device: each for device, each in following.items() if device in lasting}
        return _Found(kept, due, self._unobjected(kept, better), refused)

    def _with_first(self, devices: Collection[str], given: Mapping[str, Ticket]) -> dict[str, Enrolment]:
        """Return what devices hold, after taking the tickets given to those that hold no credential."""
        if given:
            self._state.within(lambda connection: take_tickets(connection, self._shuffler, given, self._random))
        return self._find(devices)

    def _find(self, devices: Collection[str]) -> dict[str, Enrolment]:
        return self._state.within(lambda connection: find_enrolments(connection, self._shuffler, devices))

    def _given(
        self, devices: Collection[str], held: Mapping[str, Enrolment]
    ) -> tuple[dict[str, Ticket], dict[str, Refusal]]:
        """Return the tickets that devices are given and have not redeemed, and why others cannot be read."""
        given, unread = dict[str, Ticket](), dict[str, Refusal]()
        for device in devices:
            try:
                content = (self._tickets(device) or b"").strip()
                if content and (device not in held or held[device].ticket != content):
                    ticket = Ticket.decode(content)
                    if supersedes(ticket, held.get(device)):
                        given[device] = ticket
            except SignatureError as error:
                unread[device] = Refusal(Reason.BAD_TICKET, f"{error}; ask the operator for a ticket")
            except OSError as error:
                # Not the whole error: it names the file, which may be named for the device.
                text = f"the ticket's file cannot be read ({error.strerror or type(error).__name__}); make it readable"
                unread[device] = Refusal(Reason.BAD_TICKET, f"{text}, or ask the operator for a ticket")
        return given, unread

    def _unobjected(self, held: Mapping[str, Enrolment], tickets: Mapping[str, Ticket]) -> dict[str, bytes]:
        """Return those tickets that may follow what is held, of devices whose credentials last; warn of the others."""
        if not tickets:
            return {}
        needed = self._task.admission.second_authority
        found = self._state.within(
            lambda connection: {
                device: objection(connection, ticket, held[device], needed) for device, ticket in tickets.items()
            }
        )
        self._warnings.tell((tickets[device].encode(), each) for device, each in found.items() if each is not None)
        return {device: ticket.encode() for device, ticket in tickets.items() if found[device] is None}

    def _without_ticket(self) -> Refusal:
        return Refusal(
            Reason.NOT_ENROLLED,
            f"task {self._task.name} takes enrolled devices, and this one has no ticket; give it one that the operator "
            "made with `hubbub enroll`",
        )

    async def _redeemed(
        self, link: Link, held: Mapping[str, Enrolment], tickets: Mapping[str, bytes], pacing: Pacing
    ) -> tuple[dict[str, Credential], Refused]:
        """Return what was got for tickets that devices cannot submit without, and why others got nothing."""
        answers = await redeem(link, _redemptions(held, tickets), pacing)
        got = await self._kept(held, tickets, answers)
        return got, {device: answer for device, answer in answers.items() if isinstance(answer, Refusal)}

    async def _renewed(
        self, link: Link, held: Mapping[str, Enrolment], tickets: Mapping[str, bytes], pacing: Pacing
    ) -> dict[str, Credential]:
        """Return what was got for new tickets of devices whose credentials last; warn where nothing was."""
        answers = await redeem_once(link, _redemptions(held, tickets), pacing)
        untaken = {device: one for device, one in answers.items() if not isinstance(one, Credential)}
        self._warnings.tell((tickets[device], error) for device, error in untaken.items())
        return await self._kept(held, tickets, answers)

    async def _kept(
        self, held: Mapping[str, Enrolment], tickets: Mapping[str, bytes], answers: Mapping[str, object]
    ) -> dict[str, Credential]:
        """Return the credentials among the answers to tickets, after storing them with their tickets."""
        got = {device: answer for device, answer in answers.items() if isinstance(answer, Credential)}
        kept = {device: (tickets[device], credential) for device, credential in got.items()}
        if kept:
            await aside(
                self._state.within,
                lambda connection: keep_credentials(connection, self._shuffler, held, kept),
            )
        return got


def _redemptions(held: Mapping[str, Enrolment], tickets: Mapping[str, bytes]) -> dict[str, Redemption]:
    # By the secret of the ticket before, where there was one: the shuffler takes another's for a copy.
    return {device: Redemption(ticket, held[device].secret) for device, ticket in tickets.items()}
