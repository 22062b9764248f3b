"""Enrolled: a device redeems its ticket once, by itself, and proves with its credential that it makes a submission."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from hubbub.client.aside import aside
from hubbub.client.enrolment_tables import (
    Enrolment,
    Tickets,
    find_enrolments,
    keep_credentials,
    supersedes,
    take_tickets,
)
from hubbub.client.errors import UsageError
from hubbub.client.state import State
from hubbub.client.submit import Link, Pacing, submit
from hubbub.protos.admission import Mode
from hubbub.protos.credentials import Credential
from hubbub.protos.envelope import Destination
from hubbub.protos.errors import SignatureError
from hubbub.protos.messages import Receipt, Redemption, Submission
from hubbub.protos.refusals import TRANSIENT, Reason, Refusal
from hubbub.protos.task import Task
from hubbub.protos.tickets import Ticket
from hubbub.protos.wire.enrolment import MOST_REDEMPTIONS
from hubbub.queries.draws import Random

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


class Enrolled:
    """The credentials of the devices of a state file, for a task."""

    def __init__(self, task: Task, state: State, tickets: Tickets, random: Random) -> None:
        self._task = task
        self._shuffler = task.identities.shuffler
        self._state = state
        self._tickets = tickets
        self._random = random

    async def send(self, link: Link, to: Destination, device: str, submission: Submission, pacing: Pacing) -> Receipt:
        """Send a device's submission with its proof; where the proof is of a key that is gone, redeem and send again.

        Raises:
            Refusal, Unreachable, MessageError: as `submit` does; a Refusal too where the device has no credential.
            StateError: where the state file cannot be used.
        """
        proven = await self._proven(link, to, device, submission, pacing)
        try:
            return await submit(link.caller, to, proven, pacing)
        except Refusal as refusal:
            if refusal.reason is not Reason.NOT_ENROLLED or self._task.admission.mode is not Mode.ENROLLED:
                raise
        # The master key of the credential is gone by now; the same ticket gives one under the key that is active.
        renewed = await self._proven(link, to, device, submission, pacing, anew=True)
        return await submit(link.caller, to, renewed, pacing)

    async def _proven(
        self, link: Link, to: Destination, device: str, submission: Submission, pacing: Pacing, *, anew: bool = False
    ) -> Submission:
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

        Tickets that were not redeemed yet are; with `anew` all are redeemed again. In a task that takes whoever comes,
        submissions are returned as they are.

        Raises:
            Unreachable, MessageError: as calls to the shuffler do.
            StateError: where the state file cannot be used.
        """
        if self._task.admission.mode is not Mode.ENROLLED:
            return dict(submissions), {}
        held, refused = await aside(self._held, submissions)
        pending = {device: one for device, one in held.items() if anew or one.credential is None}
        got, refused_now = await self._redeemed(link, pending, pacing)
        credentials = {device: one.credential for device, one in held.items() if one.credential is not None} | got
        return {
            device: credentials[device].proven(to, submission)
            for device, submission in submissions.items()
            if device in credentials and device not in refused_now
        }, {**refused, **refused_now}

    def _held(self, devices: Collection[str]) -> tuple[dict[str, Enrolment], dict[str, Refusal]]:
        """Return the devices' enrolments, after taking the tickets that are new, and why others have none."""
        held = self._state.within(lambda connection: find_enrolments(connection, self._shuffler, devices))
        fresh, refused = dict[str, Ticket](), dict[str, Refusal]()
        for device in devices:
            try:
                content = (self._tickets(device) or b"").strip()
                if content and (device not in held or held[device].ticket != content):
                    ticket = Ticket.decode(content)
                    if supersedes(ticket, held.get(device)):
                        fresh[device] = ticket
            except (SignatureError, OSError) as error:
                refused[device] = Refusal(Reason.BAD_TICKET, f"{error}; ask the operator for a ticket")
        if fresh:
            self._state.within(lambda connection: take_tickets(connection, self._shuffler, fresh, self._random))
            held = self._state.within(lambda connection: find_enrolments(connection, self._shuffler, devices))
        missing = {device: self._without_ticket() for device in devices if device not in held}
        return {device: one for device, one in held.items() if device not in refused}, {**missing, **refused}

    def _without_ticket(self) -> Refusal:
        return Refusal(
            Reason.NOT_ENROLLED,
            f"task {self._task.name} takes enrolled devices, and this one has no ticket; give it one that the operator "
            "made with `hubbub enroll`",
        )

    async def _redeemed(
        self, link: Link, pending: Mapping[str, Enrolment], pacing: Pacing
    ) -> tuple[dict[str, Credential], dict[str, Refusal]]:
        """Redeem tickets, and keep what was got for them."""
        if not pending:
            return {}, {}
        answers: dict[str, Credential | Refusal] = {}

        async def attempt(deadline: float) -> None:
            asked = [device for device in pending if not isinstance(answers.get(device), Credential)]
            for start in range(0, len(asked), MOST_REDEMPTIONS):
                some = asked[start : start + MOST_REDEMPTIONS]
                tickets = [Redemption(pending[device].ticket, pending[device].secret) for device in some]
                answers.update(zip(some, await link.caller.enrol(tickets, deadline), strict=True))
            for answer in answers.values():
                if isinstance(answer, Refusal) and answer.reason in TRANSIENT:
                    raise answer

        try:
            await pacing.persist(attempt)
        except Refusal as refusal:
            answers = {device: answers.get(device, refusal) for device in pending}
        got = {device: answer for device, answer in answers.items() if isinstance(answer, Credential)}
        kept = {device: (pending[device].ticket, credential) for device, credential in got.items()}
        if kept:
            await aside(
                self._state.within,
                lambda connection: keep_credentials(connection, self._shuffler, kept),
            )
        return got, {device: answer for device, answer in answers.items() if isinstance(answer, Refusal)}
