"""Redeems a device's ticket once for a credential, and proves its submissions with the credential."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hubbub.client.blocking import in_thread
from hubbub.client.enrollment.renew import UnusedTickets, Warnings, objection
from hubbub.client.session.trust import FILE_OR_BYTES
from hubbub.client.state.enrollment import (
    StoredEnrollment,
    Tickets,
    find_enrollments,
    keep_credentials,
    supersedes,
    take_tickets,
)
from hubbub.client.state.store import State
from hubbub.client.submit import Retrying, ShufflerLink, submit
from hubbub.protos.enrollment.credentials import Credential, bound_to
from hubbub.protos.enrollment.tickets import Ticket
from hubbub.protos.errors import MessageError, SignatureError, Unreachable, UsageError
from hubbub.protos.messages import Receipt, Redemption, Submission
from hubbub.protos.refusals import TRANSIENT, Reason, Refusal
from hubbub.protos.rpc.enrollment import MOST_REDEMPTIONS
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.admission import Mode
from hubbub.protos.task.task import Task
from hubbub.queries.randomizers.sampling import Random

Refused = Mapping[str, Refusal]
"""By device: why it has no credential."""


@dataclass(frozen=True)
class TicketFile:
    """The file of one device's ticket; it may appear later."""

    path: Path

    def __call__(self, _device: str) -> bytes | None:
        return self.path.read_bytes() if self.path.exists() else None


def ticket_of(given: object, name: str = "ticket") -> Tickets:
    """Return a function for one device's ticket, given as bytes, as a file that may appear later, or as None.

    Raises:
        UsageError: if it is something else, such as a text; it names the argument `name`.
    """
    if given is None or isinstance(given, bytes):
        return lambda _device: given
    if isinstance(given, os.PathLike):
        return TicketFile(Path(given))
    raise UsageError(f"{name} is of type {type(given).__name__}; give {FILE_OR_BYTES}, or None")


def tickets_of(given: Any) -> Tickets:
    """Return a function for many devices' tickets, given as a mapping by name, as a function of the name, or as None.

    Each ticket is given as a device's is.

    Raises:
        UsageError: if it is something else, or a mapping has what is no ticket. The function that is returned raises it
            too, for one device: another function may return anything, and a mapping may change.
    """
    if given is None:
        return lambda _device: None
    if isinstance(given, Mapping):
        for device, ticket in given.items():
            ticket_of(ticket, f"the ticket of {device!r:.80} in tickets")
        return lambda device: ticket_of(given.get(device), "a ticket in tickets")(device)
    if callable(given):
        return lambda device: ticket_of(given(device), "what tickets returned")(device)
    raise UsageError(f"tickets is of type {type(given).__name__}; give a mapping by device, a function of it, or None")


@dataclass(frozen=True)
class Found:
    """Enrollments, tickets to redeem, and refusals of devices without an enrollment, all by device.

    Devices cannot submit without redeeming the tickets in `due`. Those in `better` belong to devices whose credentials
    are still valid.
    """

    held: Mapping[str, StoredEnrollment]
    due: Mapping[str, bytes] = field(repr=False)
    better: Mapping[str, bytes] = field(repr=False)
    refused: Refused


class CredentialManager:
    """The credentials of a state file's devices for a task; `needed` is whether the task admits enrolled devices only.

    If it is not, submissions get no proof and stay unchanged.
    """

    def __init__(self, task: Task, state: State, tickets: Tickets, random: Random, clock: Callable[[], float]) -> None:
        self._task = task
        self.needed = task.admission.mode is Mode.ENROLLED
        self._shuffler = task.identities.shuffler
        self.state = state
        self._tickets = tickets
        self._random = random
        self._clock = clock
        self._warnings = Warnings(task.name)

    async def send(
        self,
        link: ShufflerLink,
        to: Destination,
        device: str,
        submission: Submission,
        retrying: Retrying,
        found: Found | None = None,
    ) -> Receipt:
        """Send a device's submission with its proof. If the proof's master key is gone, redeem and send again.

        `found` is the result of `look`, if the caller has it.

        Raises:
            Refusal, Unreachable, MessageError: as `submit` does; a Refusal too if the device has no credential.
            StateError: if the state file cannot be used.
        """
        proven = await self.prove(link, to, device, submission, retrying, found)
        try:
            return await submit(link.caller, to, proven, retrying)
        except Refusal as refusal:
            if refusal.reason is not Reason.NOT_ENROLLED or not self.needed:
                raise
        # The master key of the credential is gone; the same ticket gives a credential under the active one.
        renewed = await self.prove(link, to, device, submission, retrying, anew=True)
        return await submit(link.caller, to, renewed, retrying)

    async def prove(
        self,
        link: ShufflerLink,
        to: Destination,
        device: str,
        submission: Submission,
        retrying: Retrying,
        found: Found | None = None,
        *,
        anew: bool = False,
    ) -> Submission:
        """Return one device's submission with its proof, as `proven` does.

        Raises:
            Refusal: if the device has no credential; and what `proven` raises.
        """
        proven, refused = await self.proven(link, to, {device: submission}, retrying, found, anew=anew)
        for refusal in refused.values():
            raise refusal
        return proven[device]

    async def proven(
        self,
        link: ShufflerLink,
        to: Destination,
        submissions: Mapping[str, Submission],
        retrying: Retrying,
        found: Found | None = None,
        *,
        anew: bool = False,
    ) -> tuple[dict[str, Submission], Refused]:
        """Return submissions with their devices' proofs, and the refusals of devices without a proof.

        Tickets that were not redeemed yet are redeemed. With `anew`, the tickets of existing credentials are redeemed
        again. A credential that is still valid proves the submission even if a new ticket fails; a problem with
        the new ticket is logged. If the task does not require enrollment, submissions are returned unchanged.

        Raises:
            Unreachable, MessageError: as calls to the shuffler do.
            StateError: if the state file cannot be used.
        """
        if not self.needed:
            return dict(submissions), {}
        found = await self.looked(submissions) if found is None else found
        credentials = {device: one.credential for device, one in found.held.items() if one.credential is not None}
        refused = dict(found.refused)
        again = {device: one.ticket for device, one in found.held.items()} if anew else {}
        # `found.due` comes last: a newer ticket of a device is redeemed instead of the one it already redeemed.
        due = {**again, **found.due}
        if found.better and not anew:
            credentials |= await self._renewed(link, found.held, found.better, retrying)
        if due:
            got, refused_now = await self._redeemed(link, found.held, due, retrying)
            credentials, refused = credentials | got, {**refused, **refused_now}
        prefix = bound_to(to)
        return {
            device: credentials[device].proven_within(prefix, submission)
            for device, submission in submissions.items()
            if device in credentials and device not in refused
        }, refused

    def look(self, devices: Collection[str]) -> Found:
        """Store first tickets; return the devices' enrollments and the tickets to redeem; warn of unusable tickets."""
        contents, unread = self._contents(devices)
        # One transaction reads and stores, because another process may redeem a ticket too.
        with self.state.transaction() as connection:
            held = find_enrollments(connection, self._shuffler, devices)
            given = _given(contents, held, unread)
            if given:
                take_tickets(connection, self._shuffler, given, self._random)
                held = find_enrollments(connection, self._shuffler, devices)
            found, objections = self._sorted(connection, devices, held, given, unread)
        if objections:
            self._warnings.tell(objections)
        return found

    looked = in_thread(look)

    def _sorted(
        self,
        connection: sqlite3.Connection,
        devices: Collection[str],
        held: Mapping[str, StoredEnrollment],
        given: Mapping[str, Ticket],
        unread: Mapping[str, Refusal],
    ) -> tuple[Found, list[tuple[bytes, Refusal]]]:
        """Return the enrollments and the tickets to redeem, and the warnings, by ticket."""
        now, needed = self._clock(), self._task.admission.second_authority
        lasting = {device for device, one in held.items() if one.lasts(now)}
        # The bytes of an unreadable ticket may be unknown, so all unreadable tickets count as one.
        untaken = [(b"", refusal) for device, refusal in unread.items() if device in lasting]
        refused = {device: self._without_ticket() for device in devices if device not in held}
        refused |= {device: refusal for device, refusal in unread.items() if device not in lasting}
        kept = {device: one for device, one in held.items() if device not in refused}
        due = {device: one.ticket for device, one in kept.items() if one.credential is None}
        better = dict[str, bytes]()
        for device, ticket in given.items():
            if device in due:
                continue  # without a credential: `take_tickets` has stored this ticket
            if device not in lasting:
                due[device] = ticket.encode()
            elif (objected := objection(connection, ticket, kept[device], needed)) is None:
                better[device] = ticket.encode()
            else:
                untaken.append((ticket.encode(), objected))
        return Found(kept, due, better, refused), untaken

    def _contents(self, devices: Collection[str]) -> tuple[dict[str, bytes], dict[str, Refusal]]:
        """Return the tickets that devices were given, unparsed, and why others cannot be used.

        A mistake in one device's ticket must not stop the others.
        """
        contents, unread = dict[str, bytes](), dict[str, Refusal]()
        for device in devices:
            try:
                contents[device] = (self._tickets(device) or b"").strip()
            except SignatureError as error:
                unread[device] = _unreadable(error)
            except UsageError as error:
                unread[device] = Refusal(Reason.BAD_TICKET, str(error))
            except OSError as error:
                # Not the whole error: it contains the file's name, which may identify the device.
                text = f"the ticket's file cannot be read ({error.strerror or type(error).__name__}); make it readable"
                unread[device] = Refusal(Reason.BAD_TICKET, f"{text}, or ask the operator for a ticket")
        return contents, unread

    def _without_ticket(self) -> Refusal:
        # The file of a single device; a fleet's would tell which device it is.
        missing = f"{self._tickets.path} does not exist" if isinstance(self._tickets, TicketFile) else "none was given"
        return Refusal(
            Reason.NOT_ENROLLED,
            f"task {self._task.name} admits enrolled devices, and this one has no ticket: {missing}; give it one that "
            "the operator made with `hubbub enroll`",
        )

    async def _redeemed(
        self, link: ShufflerLink, held: Mapping[str, StoredEnrollment], tickets: Mapping[str, bytes], retrying: Retrying
    ) -> tuple[dict[str, Credential], Refused]:
        """Redeem the tickets of devices without a usable credential; return credentials and refusals."""
        answers = await redeem(link, _redemptions(held, tickets), retrying)
        got = {device: answer for device, answer in answers.items() if isinstance(answer, Credential)}
        await self._keep(held, tickets, got)
        return got, {device: answer for device, answer in answers.items() if isinstance(answer, Refusal)}

    async def _renewed(
        self, link: ShufflerLink, held: Mapping[str, StoredEnrollment], tickets: Mapping[str, bytes], retrying: Retrying
    ) -> dict[str, Credential]:
        """Redeem new tickets of devices whose credentials are valid; return the new credentials; warn of failures."""
        answers = await redeem_once(link, _redemptions(held, tickets), retrying)
        got = {device: answer for device, answer in answers.items() if isinstance(answer, Credential)}
        self._warnings.tell(
            (tickets[device], answer) for device, answer in answers.items() if not isinstance(answer, Credential)
        )
        await self._keep(held, tickets, got)
        return got

    @in_thread
    def _keep(
        self, held: Mapping[str, StoredEnrollment], tickets: Mapping[str, bytes], got: Mapping[str, Credential]
    ) -> None:
        """Store credentials with the tickets that they came from."""
        kept = {device: (tickets[device], credential) for device, credential in got.items()}
        if kept:
            with self.state.transaction() as connection:
                keep_credentials(connection, self._shuffler, held, kept)


def _given(
    contents: Mapping[str, bytes], held: Mapping[str, StoredEnrollment], unread: MutableMapping[str, Refusal]
) -> dict[str, Ticket]:
    """Return the new tickets that devices have not redeemed; add to `unread` why others cannot be read."""
    given = dict[str, Ticket]()
    for device, content in contents.items():
        if not content or (device in held and held[device].ticket == content):
            continue
        try:
            ticket = Ticket.decode(content)
            if supersedes(ticket, held.get(device)):
                given[device] = ticket
        except SignatureError as error:
            unread[device] = _unreadable(error)
    return given


def _unreadable(error: SignatureError) -> Refusal:
    return Refusal(Reason.BAD_TICKET, f"the ticket is not valid: {error}; ask the operator for a ticket")


def _redemptions(held: Mapping[str, StoredEnrollment], tickets: Mapping[str, bytes]) -> dict[str, Redemption]:
    # With the secret of the earlier ticket, if there is one: with a new secret the shuffler would see a copied ticket.
    return {device: Redemption(ticket, held[device].secret) for device, ticket in tickets.items()}


async def redeem(
    link: ShufflerLink, redemptions: Mapping[str, Redemption], retrying: Retrying
) -> dict[str, Credential | Refusal]:
    """Redeem tickets of devices that have no usable credential; return each one's last answer, by device.

    Raises:
        Unreachable, MessageError: as calls to the shuffler do.
    """
    answers: dict[str, Credential | Refusal] = {}

    async def attempt(deadline: float) -> None:
        await _ask(link, redemptions, deadline, answers)
        for answer in answers.values():
            if isinstance(answer, Refusal) and answer.reason in TRANSIENT:
                raise answer

    try:
        if redemptions:
            await retrying.retry(attempt)
    except Refusal as refusal:
        return {device: answers.get(device, refusal) for device in redemptions}
    return answers


async def redeem_once(
    link: ShufflerLink, redemptions: Mapping[str, Redemption], retrying: Retrying
) -> dict[str, Credential | UnusedTickets]:
    """Try to redeem tickets of devices that have a valid credential; return each one's answer, by device.

    There is one try, so that time is left to submit if the shuffler refuses or does not answer.
    """
    answers: dict[str, Credential | Refusal] = {}
    try:
        if redemptions:
            await retrying.once(lambda deadline: _ask(link, redemptions, deadline, answers))
    except (Refusal, Unreachable, MessageError) as error:
        return {device: answers.get(device, error) for device in redemptions}
    return {**answers}


async def _ask(
    link: ShufflerLink,
    redemptions: Mapping[str, Redemption],
    deadline: float,
    answers: MutableMapping[str, Credential | Refusal],
) -> None:
    """Ask for the credentials that `answers` lacks, and add the answers to it."""
    asked = [device for device in redemptions if not isinstance(answers.get(device), Credential)]
    for start in range(0, len(asked), MOST_REDEMPTIONS):
        some = asked[start : start + MOST_REDEMPTIONS]
        found = await link.caller.enroll([redemptions[device] for device in some], deadline)
        answers.update(zip(some, found, strict=True))
