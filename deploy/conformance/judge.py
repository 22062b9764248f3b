"""Answers a client as a shuffler does, opens what it sends at once, and notes what is right and what is wrong.

It refuses each device's first tries as a busy shuffler may, and looks at what comes again. What a device must not do
is in docs/wire-calls.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hubbub.deploy.conformance.envelope_mistakes import RoundKeys, why_hop, why_inner, why_outer
from hubbub.deploy.conformance.logged_tasks import RefusedTask
from hubbub.deploy.conformance.observed_port import JUDGED
from hubbub.deploy.conformance.proof_mistakes import why_proof
from hubbub.protos.enrollment.credentials import (
    NO_AUTHORITY,
    Credential,
    CredentialId,
    bound_to,
    credential_key,
    is_proven,
)
from hubbub.protos.enrollment.tickets import Ticket
from hubbub.protos.errors import EnvelopeError, MessageError, SignatureError
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Answer, Receipt, Redemption, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc.enrollment import Enrolled
from hubbub.protos.sealing.envelope import FIRST_HOP, Destination, InnerOpener, OuterOpener
from hubbub.protos.task.admission import Mode
from hubbub.protos.task.feed.feed import FeedPage
from hubbub.protos.task.task import Task
from hubbub.queries.randomizers.unary import UnaryEncoding

CHECKS: Mapping[str, str] = {
    "call": "makes calls that the interface has, in their form",
    "keys": "asks for the round's keys",
    "ticket": "redeems its ticket, always with the same key of its own",
    "destination": "names the task, the round and the hash of the round's keys",
    "id": "gives each submission an id of 16 bytes",
    "proof": "proves its credential",
    "outer": "seals the submission for the shuffler",
    "hop": "seals each report for each hop, the last hop first",
    "inner": "seals each report for the analyzer",
    "report": "sends reports that the task's randomizers can give",
    "again": "sends the same bytes again after a refusal, and after a lost answer",
    "enroll_again": "redeems its ticket again if its credential is no longer known",
    "once": "answers a round once",
    "log_missing": "takes part in no task that demands a log without a proof",
    "log_form": "refuses a proof that is not in its one form",
    "log_bytes": "refuses a proof of other bytes than those of the task's file",
    "log_root": "refuses a proof whose hashes do not lead to the checkpoint's root",
    "log_few": "refuses a proof that fewer witnesses signed than the task demands",
    "log_twice": "counts a witness that signed twice as no two witnesses",
    "log_key": "refuses a checkpoint that another key signed in the log's place",
    "log_witness": "refuses a checkpoint that another key signed in a witness's place",
}
"""What is checked, in the order in which a client comes to it."""

FAULTS = (Reason.OVERLOADED, Reason.NOT_READY, Reason.NOT_ENROLLED)
"""How the first tries of a device are refused."""

RETRY_SECONDS = 0.05
"""How long `overloaded` asks a client to wait."""

_NEXT = {"again": "send the bytes of the first try, unchanged but for credential and proof"}


@dataclass(frozen=True)
class Observation:
    """What was seen of one check: whether it is right, and in a sentence what is wrong."""

    check: str
    problem: str = ""

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problem


@dataclass
class TriedDevice:
    """What is known of a device: the key that redeemed its ticket, and its submission with the tries so far."""

    key: bytes = field(repr=False)
    generation: int = 0
    submission: Submission | None = None
    tries: int = 0
    enrolled_again: bool = False


class Judge:
    """The calls of devices, with observations; `say` gets each when it is made.

    `operators` are the identities (32 bytes each) that may have signed a ticket. With `faults`, each device's first
    tries are refused. Nothing must come for the tasks that are to be `refused`.
    """

    def __init__(
        self,
        task: Task,
        key_set: KeySet,
        keys: RoundKeys,
        operators: Sequence[bytes],
        say: Callable[[Observation], None],
        *,
        faults: bool = True,
        refused: Sequence[RefusedTask] = (),
    ) -> None:
        self._refused = {each.signed.task.id: each for each in refused}
        self._refused_tickets = {Ticket.decode(each.ticket).device: each for each in refused if each.ticket}
        self._task, self._key_set, self._keys, self._operators = task, key_set, keys, operators
        self._to = Destination(task.id, 0, key_set.hash)
        self._outer = OuterOpener(self._to, keys.shuffler, task.inner_bytes, task.hpke)
        places = range(len(task.queries))
        self._openers = [InnerOpener(self._to, keys.analyzer, place, task.hpke) for place in places]
        chain = list(enumerate(keys.hops, FIRST_HOP))
        self._layers = [
            [(position, InnerOpener(self._to, key, place, task.hpke, position)) for position, key in chain]
            for place in places
        ]
        self._masters = {generation: os.urandom(32) for generation in (0, 1)}
        self._is_enrolled = task.admission.mode is Mode.ENROLLED
        self._faults = FAULTS[: len(FAULTS) if self._is_enrolled else -1] if faults else ()
        self._say = say
        self._devices: dict[bytes, TriedDevice] = {}
        self._taken: dict[bytes, Submission] = {}
        self.accepted = 0
        """Submissions that got a receipt, each counted once."""

    def refused_call(self, told: str) -> None:
        """Note a request that was refused for its form."""
        self._note("call", told)

    def _note(self, check: str, problem: str = "") -> bool:
        self._say(Observation(check, problem))
        return not problem

    # The calls

    async def get_round(self, task_id: bytes, round_number: int) -> KeySet:
        """Return the round's keys, which are those of round 0."""
        self._note("call")
        if (refusal := self._untaken(self._refused.get(task_id), "asked for the round's keys")) is not None:
            raise refusal
        if task_id != self._task.id:
            self._note("keys", f"the task id is {task_id.hex()[:16]}…, not {self._task.id.hex()[:16]}…: SHA-256 of it")
            raise Refusal(Reason.UNKNOWN_TASK, "this task is not known here")
        if round_number != 0:
            self._note("keys", f"the round is {round_number}, and now is round 0: count rounds from the task's start")
            raise Refusal(Reason.UNKNOWN_ROUND, "now is round 0")
        self._note("keys")
        return self._key_set

    async def get_feed(self, first: int) -> FeedPage:  # noqa: ARG002 - there is none
        """Refuse: the task is a file here.

        Raises:
            Refusal: always.
        """
        self._note("call")
        raise Refusal(Reason.UNKNOWN_TASK, "there is no feed of tasks here; read the task's file")

    async def enroll(self, redemptions: Sequence[Redemption]) -> list[Enrolled]:
        """Answer each ticket with a credential."""
        self._note("call")
        return [self._redeemed(each) for each in redemptions]

    def _redeemed(self, redemption: Redemption) -> Enrolled:
        try:
            ticket = Ticket.decode(redemption.ticket)
            self._check_signed(ticket)
        except SignatureError as error:
            self._note(
                "ticket", f"it is no ticket of this operator: {error}; send the file's bytes without its newline"
            )
            return Refusal(Reason.BAD_TICKET, str(error))
        if (refusal := self._untaken(self._refused_tickets.get(ticket.device), "redeemed the ticket")) is not None:
            return refusal
        device = self._devices.setdefault(ticket.device, TriedDevice(redemption.device_key))
        if device.key != redemption.device_key:
            self._note("ticket", "it is redeemed with another device_key than before: draw one, once, and store it")
            return Refusal(Reason.TICKET_REDEEMED, "another device has redeemed this ticket")
        if self._is_to_enroll_again(device):
            device.enrolled_again, device.generation = True, 1
            self._note("enroll_again")
        else:
            self._note("ticket")
        credential = CredentialId(device.generation, ticket.expires, NO_AUTHORITY, ticket.device).encode()
        return Credential(credential, credential_key(self._masters[device.generation], credential))

    def _untaken(self, refused: RefusedTask | None, did: str) -> Refusal | None:
        """Note that a client did something for a task that it must not take part in; return the refusal."""
        if refused is None:
            return None
        name = refused.signed.task.name
        self._note(refused.check, f"it {did} of task {name}, and must do nothing for it: {refused.fault}")
        return Refusal(Reason.UNKNOWN_TASK, "no client may take part in this task: its proof is wrong")

    def _check_signed(self, ticket: Ticket) -> None:
        for operator in self._operators:
            try:
                ticket.check(operator)
            except SignatureError:
                continue
            return
        raise SignatureError("the operator of this task has not signed it")

    async def submit(self, destination: Destination, submissions: Sequence[Submission]) -> list[Answer]:
        """Answer each submission, after it was looked at."""
        self._note("call")
        if (refusal := self._untaken(self._refused.get(destination.task_id), "submitted answers")) is not None:
            return [refusal for _ in submissions]
        problem = self._wrong_destination(destination)
        self._note("destination", problem)
        if problem:
            refusal = Refusal(Reason.KEY_SET_DIFFERS, problem)
            return [refusal for _ in submissions]
        return [self._answered(each) for each in submissions]

    def refused(self, destination: Destination | None, reason: Reason, count: int) -> None:  # noqa: ARG002
        """Note submissions that were refused before anything of them was looked at."""
        for _ in range(count):
            self._note("id", "the message is malformed: an id of another length than 16 bytes, or no destination")

    def _wrong_destination(self, to: Destination) -> str:
        if to.task_id != self._task.id:
            return "the task id is another one: it is the SHA-256 of the task's canonical JSON"
        if to.round != 0:
            return f"the round is {to.round}, and the keys are those of round 0"
        if to.key_set_hash != self._key_set.hash:
            return "key_set_hash is not that of these keys: SHA-256 of the label and of each body's SHA-256"
        return ""

    # One submission

    def _answered(self, submission: Submission) -> Answer:
        before = self._taken.get(submission.id)
        good = self._is_same(before, submission) if before is not None else self._is_good(submission)
        if not good:
            return Refusal(Reason.MALFORMED, JUDGED)
        if self._is_enrolled:
            device = self._device_of(submission)
            if isinstance(device, Refusal):
                return device
        else:
            device = self._devices.setdefault(submission.id, TriedDevice(b""))
        if device.submission is not None and device.submission.id != submission.id:
            self._note("once", "this device has sent another submission of this round before: draw once, and keep it")
            return Refusal(Reason.ID_CONFLICT, "this device has answered this round")
        device.submission = submission
        self._taken[submission.id] = submission
        device.tries += 1
        if device.tries <= len(self._faults):
            return _fault(self._faults[device.tries - 1])
        if device.tries == len(self._faults) + 1:
            self.accepted += 1
            self._note("once")
        return Receipt(submission.id, 0)

    def _is_same(self, before: Submission, submission: Submission) -> bool:
        if before.envelope == submission.envelope:
            return self._note("again")
        return self._note("again", f"the id came with other bytes before: {_NEXT['again']}")

    def _is_good(self, submission: Submission) -> bool:
        self._note("id")
        suite, envelope = self._task.hpke, submission.envelope
        if len(envelope) != self._task.outer_bytes:
            reports = " + ".join(str(query.report_bytes) for query in self._task.queries)
            layers = len(self._task.queries) * (1 + len(self._keys.hops)) + 1
            wrong = (
                f"the envelope has {len(envelope)} bytes, and this task's have {self._task.outer_bytes}: those of the "
                f"reports ({reports}), and {suite.overhead_bytes} of each of {layers} layers"
            )
            return self._note("outer", wrong)
        try:
            inners = self._outer.open(envelope, submission.id)
        except EnvelopeError:
            return self._note("outer", why_outer(suite, self._keys, self._to, submission.id, envelope))
        self._note("outer")
        # Each is looked at, also behind a wrong one.
        found = [self._is_good_report(place, inner) for place, inner in enumerate(inners)]
        return all(found)

    def _is_good_report(self, place: int, inner: bytes) -> bool:
        query, about = self._task.queries[place], f"query {place} ({self._task.queries[place].name}): "
        for position, opener in self._layers[place]:
            try:
                inner = opener.open(inner)
            except EnvelopeError:
                why = why_hop(self._task.hpke, self._keys, self._to, place, position, inner)
                return self._note("hop", f"{about}the layer of position {position}: {why}")
            self._note("hop")
        try:
            report = self._openers[place].open(inner)
        except EnvelopeError:
            return self._note("inner", about + why_inner(self._task.hpke, self._keys, self._to, place, inner))
        self._note("inner")
        if query.randomizer.tally(report).valid != 1:
            kind = query.randomizer.kind
            bits = "which is a bit for each symbol, the lowest first, and zeros behind them"
            form = bits if kind == UnaryEncoding.kind else "which is a number of 4 bytes, big-endian"
            wrong = f"{report.hex()} is no report of {kind} with {query.randomizer.symbols} symbols, {form}"
            return self._note("report", about + wrong)
        return self._note("report")

    def _device_of(self, submission: Submission) -> TriedDevice | Refusal:
        """Return the device whose credential a submission proves, or the refusal."""
        try:
            credential = CredentialId.decode(submission.credential)
        except MessageError as error:
            self._note("proof", f"{error}; send the id that Enroll returned")
            return Refusal(Reason.NOT_ENROLLED, "no credential came; send the id that Enroll returned")
        device = self._devices.get(credential.number)
        master = self._masters.get(credential.generation)
        if device is None or master is None:
            self._note("proof", "the credential is none of those that Enroll returned")
            return Refusal(Reason.NOT_ENROLLED, "the credential is not known; send the id that Enroll returned")
        if credential.generation != device.generation or self._is_to_enroll_again(device):
            self._note(
                "enroll_again", "the old credential came again after not_enrolled: redeem the ticket again first"
            )
            return Refusal(Reason.NOT_ENROLLED, "the credential is no longer known; redeem the ticket again")
        key = credential_key(master, submission.credential)
        if not is_proven(key, bound_to(self._to), submission):
            self._note("proof", why_proof(key, self._to, submission))
            return Refusal(
                Reason.NOT_ENROLLED,
                "the proof is not that of this submission; make it with the key that Enroll returned",
            )
        self._note("proof")
        return device

    def _is_to_enroll_again(self, device: TriedDevice) -> bool:
        return self._faults == FAULTS and device.tries >= len(FAULTS) and not device.enrolled_again


def _fault(reason: Reason) -> Refusal:
    if reason is Reason.OVERLOADED:
        return Refusal(reason, "the first try of each device is refused so; try again", RETRY_SECONDS)
    if reason is Reason.NOT_READY:
        return Refusal(reason, "the answer to the second try is lost so; send the same bytes again")
    return Refusal(reason, "the credential is no longer known, as after a change of keys; redeem the ticket again")
