"""A shuffler that opens what it gets and fails as it is told, and a clock that is moved by hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from hubbub.protos.enrollment.credentials import (
    Credential,
    CredentialId,
    authority_tag,
    bound_to,
    credential_key,
    is_proven,
)
from hubbub.protos.enrollment.tickets import Ticket
from hubbub.protos.identity.keys import KeyRecord, KeySet, Role
from hubbub.protos.messages import Answer, Receipt, Redemption, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc.enrollment import Enrolled
from hubbub.protos.sealing.envelope import Destination, InnerOpener, OuterOpener
from hubbub.protos.task.admission import Mode
from hubbub.protos.task.feed.feed import Feed, FeedPage
from hubbub.protos.task.task import Task
from support.samples import START, Parties


class Clock:
    """A wall clock and a monotonic one, moved by hand or by sleeping."""

    def __init__(self) -> None:
        self.now = START + 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class FakeShuffler:
    """Takes submissions once by id. `failures` are used up, one per call, before anything is answered rightly.

    A failure is a refusal of every submission, an exception before storing, or "lost": stored, but not answered.
    `refuse` refuses the submissions at these places (from 0) in the order in which they come, `untaken` these tickets,
    or fails where it is asked for them.
    """

    def __init__(self, task: Task, parties: Parties) -> None:
        self.task = task
        self.parties = parties
        self.address = ""
        self.seen: list[Submission] = []
        self.sizes: list[int] = []
        self.fetched: list[int] = []
        self.held: dict[bytes, tuple[int, bytes]] = {}
        self.failures: deque[Refusal | Exception | str] = deque()
        self.refuse: dict[int, Refusal] = {}
        self.untaken: dict[bytes, Refusal | Exception] = {}
        self.generation = 1
        self.feed = Feed()
        self.asked: list[int] = []
        self.redeemed_by: dict[bytes, bytes] = {}
        self.redeemed: list[Redemption] = []
        self.redeemed_together: list[int] = []
        self._keys: dict[int, tuple[bytes, bytes, KeySet]] = {}

    def keys(self, round_number: int) -> tuple[bytes, bytes, KeySet]:
        """(shuffler's private key, analyzer's private key, key set) of a round."""
        if round_number not in self._keys:
            self._keys[round_number] = self.new_keys(round_number)
        return self._keys[round_number]

    def new_keys(self, round_number: int) -> tuple[bytes, bytes, KeySet]:
        shuffler, analyzer = self.task.hpke.generate_key(), self.task.hpke.generate_key()
        records = (
            self.record(Role.SHUFFLER, round_number, shuffler[1]).signed_by(self.parties.shuffler),
            self.record(Role.ANALYZER, round_number, analyzer[1]).signed_by(self.parties.analyzer),
        )
        return shuffler[0], analyzer[0], KeySet(*records)

    def record(self, role: Role, round_number: int, key: bytes, **changes: Any) -> KeyRecord:
        schedule = self.task.schedule
        validity = (schedule.opens(round_number) - 86400, schedule.cut(round_number) + 86400)
        return KeyRecord(role, changes.get("task_id", self.task.id), round_number, self.task.suite, key, *validity)

    def serve_keys(self, round_number: int, key_set: KeySet) -> None:
        """Show these keys from now on, whatever they are."""
        shuffler, analyzer, _ = self.keys(round_number)
        self._keys[round_number] = (shuffler, analyzer, key_set)

    def rotate(self, round_number: int) -> None:
        """Show fresh keys from now on."""
        self._keys[round_number] = self.new_keys(round_number)

    def symbols(self, submission_id: bytes) -> tuple[bytes, ...]:
        """The reports that the analyzer would count of a held submission."""
        round_number, envelope = self.held[submission_id]
        shuffler, analyzer, key_set = self.keys(round_number)
        to = Destination(self.task.id, round_number, key_set.hash)
        suite = self.task.hpke
        inners = OuterOpener(to, shuffler, self.task.inner_bytes, suite).open(envelope, submission_id)
        return tuple(InnerOpener(to, analyzer, query, suite).open(inner) for query, inner in enumerate(inners))

    async def get_round(self, task_id: bytes, round_number: int) -> KeySet:
        self.fetched.append(round_number)
        if task_id != self.task.id:
            raise Refusal(Reason.UNKNOWN_TASK, "not this task")
        first = self.failures[0] if self.failures else None
        if isinstance(first, Refusal) and first.reason is Reason.NOT_READY:
            self.failures.popleft()
            raise first
        return self.keys(round_number)[2]

    async def submit(self, destination: Destination, submissions: Sequence[Submission]) -> list[Answer]:
        before = len(self.seen)
        self.seen += submissions
        self.sizes.append(len(submissions))
        failure = self.failures.popleft() if self.failures else None
        if isinstance(failure, Exception) and not isinstance(failure, Refusal):
            raise failure
        if isinstance(failure, Refusal):
            return [failure for _ in submissions]
        answers = [
            self.refuse.pop(place) if place in self.refuse else self._answer(destination, submission)
            for place, submission in enumerate(submissions, before)
        ]
        if failure == "lost":
            raise RuntimeError("the answer is lost")
        return answers

    async def get_feed(self, first: int) -> FeedPage:
        """Give two entries at once."""
        self.asked.append(first)
        found = self.feed.entries[max(0, first - 1) :][:2]
        return FeedPage(tuple(each.encode() for each in found))

    async def enroll(self, redemptions: Sequence[Redemption]) -> list[Enrolled]:
        """Give one credential a ticket, under the master key of this generation."""
        self.redeemed += redemptions
        self.redeemed_together.append(len(redemptions))
        if self.failures and self.failures[0] == "lost":
            self.failures.popleft()
            for each in redemptions:
                self.redeem(each)
            raise RuntimeError("the answer is lost")
        return [self.redeem(each) for each in redemptions]

    def redeem(self, redemption: Redemption) -> Enrolled:
        """Give a ticket's credential, or why there is none."""
        if (failure := self.untaken.get(redemption.ticket)) is not None:
            if isinstance(failure, Refusal):
                return failure
            raise failure
        ticket = Ticket.decode(redemption.ticket)
        ticket.check(self.parties.operator.public)
        if self.redeemed_by.setdefault(ticket.device, redemption.device_key) != redemption.device_key:
            return Refusal(Reason.TICKET_REDEEMED, "another device has it")
        second = next((signer for signer, _ in ticket.signatures if signer != self.parties.operator.public), None)
        found = CredentialId(self.generation, ticket.expires, authority_tag(second), ticket.device).encode()
        return Credential(found, credential_key(self._master(self.generation), found))

    @staticmethod
    def _master(generation: int) -> bytes:
        return generation.to_bytes(32, "big")

    def _is_proven(self, destination: Destination, submission: Submission) -> bool:
        if self.task.admission.mode is not Mode.ENROLLED:
            return True
        if not submission.credential or CredentialId.decode(submission.credential).generation != self.generation:
            return False
        key = credential_key(self._master(self.generation), submission.credential)
        return is_proven(key, bound_to(destination), submission)

    def refused(self, destination: Destination | None, reason: Reason, count: int) -> None:
        raise AssertionError(f"a client sent {count} malformed submissions: {reason}, {destination}")

    def _answer(self, destination: Destination, submission: Submission) -> Answer:
        if destination.key_set_hash != self.keys(destination.round)[2].hash:
            return Refusal(Reason.KEY_SET_DIFFERS, "sealed for other keys")
        if not self._is_proven(destination, submission):
            return Refusal(Reason.NOT_ENROLLED, "no credential proves it")
        held = self.held.setdefault(submission.id, (destination.round, submission.envelope))
        if held != (destination.round, submission.envelope):
            return Refusal(Reason.ID_CONFLICT, "another envelope came under this id")
        return Receipt(submission.id, destination.round)
