"""The basis of a device and a fleet: a trusted task, a state file and a link to the shuffler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from hubbub.client.encode import encode_all, randomize_all, seal
from hubbub.client.enrollment.credentials import CredentialManager
from hubbub.client.errors import NEW_FILE, StateError
from hubbub.client.limits import NO_LIMITS, PrivacyLimits
from hubbub.client.privacy.certificates import CertifiedLoss, read_certificate
from hubbub.client.privacy.ledger import AnswerCost, day_of
from hubbub.client.privacy.report import Budget, budget_of
from hubbub.client.session.rounds import VerifiedRoundKeys, choose_round
from hubbub.client.session.trust import (
    certificate_shown,
    checked_bytes,
    checked_path,
    checked_shuffler,
    named_proxy,
    named_relay,
    trusted_authority,
    trusted_task,
)
from hubbub.client.state.enrollment import Tickets, keep_successions, kept_successions
from hubbub.client.state.longitudinal import MemoryUpdate, read_memories
from hubbub.client.state.rounds import Drawn, RoundRef
from hubbub.client.state.store import State
from hubbub.client.submit import Retrying, ShufflerLink
from hubbub.client.validation import checked_function, checked_type
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.identity.successions import read_successions
from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason
from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES, Sealer
from hubbub.protos.task.schedule import forgotten_after
from hubbub.protos.task.task import connected, followed
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.host_process import checked_host
from hubbub.protos.transport.relay import Relay
from hubbub.queries.errors import AnswerError
from hubbub.queries.longitudinal.over_rounds import Encoded
from hubbub.queries.questions.question import Value
from hubbub.queries.randomizers.sampling import Random

OVER = frozenset({Reason.TOO_LATE, Reason.ERASED, Reason.ROUND_FULL, Reason.TASK_ENDED})
"""Refusals after which a submission is discarded: its round takes no more submissions."""

LONGEST_NAME = 200
"""Most characters of a device's name; it stays in the state file and is never sent."""


class Session:
    """A task, its state and its shuffler. It is made only if the task can be trusted (`trusted_task`).

    Methods that are not coroutines read and write the state file, or compute: call them in threads.
    """

    def __init__(
        self,
        task: bytes,
        *,
        operator_key: bytes,
        shuffler_key: bytes,
        state: Path,
        shuffler: str,
        authority: Path | bytes,
        log_proof: bytes | None,
        retrying: Retrying | None,
        limits: PrivacyLimits | None,
        random: Random,
        clock: Callable[[], float],
        tickets: Tickets,
        proxy: str | None,
        relay: str | None,
        shown: tuple[Path | None, Path | None] = (None, None),
    ) -> None:
        """See `Device` and `Fleet`."""
        checked_host()
        self.task = trusted_task(task, operator_key, shuffler_key, log_proof)
        self.state = State(checked_path(state, "state"))
        self.address = checked_shuffler(shuffler)
        self.tls = TLS(trusted_authority(authority), *certificate_shown(self.task, *shown), named_proxy(proxy))
        self.retrying = (
            Retrying() if retrying is None else checked_type(retrying, Retrying, "retrying", "a Retrying(…), or None")
        )
        self.limits = (
            NO_LIMITS if limits is None else checked_type(limits, PrivacyLimits, "limits", "PrivacyLimits(…), or None")
        )
        self.random: Random = checked_function(random, "random", "bytes")
        self.clock: Callable[[], float] = checked_function(clock, "clock", "seconds since 1970")
        url = named_relay(relay, self.task)
        self._relay = None if url is None else Relay(url, self._oblivious_identity, self.clock)
        self._followed = False
        self.link = self.new_link()
        self.enrolled = CredentialManager(self.task, self.state, tickets, self.random, self.clock)
        # These follow from the task's queries and promises, which no succession changes.
        self._bill = AnswerCost.of(self.task, 0.0, self.limits)
        # A draw is the reports of all queries, joined; each is sealed by itself.
        ends = list(accumulate(query.report_bytes for query in self.task.queries))
        self._cuts = [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
        self.remembers = any(query.horizon is not None for query in self.task.queries)

    def new_link(self) -> ShufflerLink:
        """Return another connection to the shuffler, or to the relay; the caller must close it."""
        return ShufflerLink(self.address, self.tls, self._relay)

    async def close(self) -> None:
        """Close this event loop's connection, and the state file; the next use opens them again."""
        await self.link.close()
        self.state.close()

    # What is spent

    def add_certificate(self, certificate: bytes) -> CertifiedLoss:
        """Store the central ε that a round's certificate proves for the task; see `Device.add_certificate`."""
        certified = read_certificate(checked_bytes(certificate, "certificate"), self.task)
        exceeded = certified.epsilon if certified.epsilon > self.task.privacy.epsilon else None
        self.state.add_certificate(RoundRef(self.task.id, certified.round), certified.proven, exceeded)
        return certified

    def budget(self, name: str) -> Budget:
        """Return the budget of the device with that name."""
        accounts = self.state.accounts(name)
        return budget_of(accounts, self.task.id, day_of(self.clock()), self.limits)

    def answer_cost(self, now: float) -> AnswerCost:
        """Return the cost of answers that are drawn at `now` (seconds since 1970)."""
        return replace(self._bill, day=day_of(now))

    # Reports

    def choose(self, wanted: int | None, now: float) -> RoundRef:
        """Return the round to answer.

        Raises:
            NoRound: if there is none.
        """
        return RoundRef(self.task.id, choose_round(self.task, wanted, now))

    def draw(
        self, answers: Mapping[str, Value], number: int, kept: str | None, random: Random
    ) -> tuple[Drawn, MemoryUpdate | None]:
        """Encode and randomize answers; return the reports under an id, and the memory to store with them, if any.

        `kept` is the memory that the device stored after its last round. Nothing has left the device yet.
        """
        encoded, reports = self.randomized(answers, number, kept, random)
        # The id lets the shuffler recognize a retry. It is fresh and random, so it reveals nothing about the device.
        drawn = Drawn(random(SUBMISSION_ID_BYTES), b"".join(reports))
        if not self.remembers:
            return drawn, None
        pairs = zip(self.task.queries, encoded, strict=True)
        after = {query.name: each.memory for query, each in pairs if each.memory is not None}
        # The memory is forgotten with the task's last round.
        last = self.task.schedule.rounds - 1
        return drawn, MemoryUpdate(kept, after, forgotten_after(self.task.schedule, last)) if after else None

    def randomized(
        self, answers: Mapping[str, Value], number: int, kept: str | None, random: Random
    ) -> tuple[tuple[Encoded, ...], tuple[bytes, ...]]:
        """Return the answers' symbols and a fresh report of each, by query; `kept` as for `draw`."""
        memories = {} if kept is None else read_memories(kept)
        encoded = encode_all(self.task, answers, random, number, memories)
        return encoded, randomize_all(self.task, [each.symbol for each in encoded], random)

    def sealed(self, sealer: Sealer, drawn: Drawn) -> Submission:
        """Return the submission of stored reports, each query's report sealed separately.

        Raises:
            StateError: if their length is not that of this task's reports.
        """
        if len(drawn.reports) != self._cuts[-1].stop:
            raise StateError(
                f"the state file has {len(drawn.reports)} bytes of reports, but {self._cuts[-1].stop} are expected, "
                f"and nothing was sent; it is damaged: {NEW_FILE}"
            )
        return seal(sealer, [drawn.reports[cut] for cut in self._cuts], drawn.submission_id)

    # Keys

    async def fetch(self, link: ShufflerLink, of: RoundRef, retrying: Retrying) -> KeySet:
        """Return a round's keys from the shuffler; the caller must check them."""
        return await retrying.retry(lambda deadline: link.caller.get_round(of.task_id, of.number, deadline))

    def trust(self, of: RoundRef, key_set: KeySet, *, fetched: bool) -> VerifiedRoundKeys:
        """Check a round's keys and return them; keys that were `fetched` are pinned for this round.

        Raises:
            SignatureError, KeyRecordError: if the task's parties did not sign them for this round.
            KeySetChanged: if they differ from the keys that were seen first for this round.
            NoRound: if the round was forgotten meanwhile.
        """
        if key_set.successions or not self._followed:
            self._follow(key_set.successions)
        # Checked before they are pinned: a pinned key set is never replaced, so a bad one would block the round.
        keys = VerifiedRoundKeys.read(key_set, self.task, of.number)
        if fetched:
            self.state.pin(of, key_set, forgotten_after(self.task.schedule, of.number))
        return keys

    def _oblivious_identity(self, documents: Sequence[bytes]) -> bytes:
        """Return the identity (32 bytes) that must have signed the oblivious key, after these successions."""
        if documents or not self._followed:
            self._follow(documents)
        return self.task.identities.shuffler

    def _follow(self, documents: Sequence[bytes]) -> None:
        """Replace the task's identities by their successors; store new successions."""
        task = self.task
        with self.state.transaction() as connection:
            known = kept_successions(connection)
            if documents:
                known += read_successions(documents)
            if known:
                task = followed(task, connected(task, known))
                # Only the successions that `followed` checked, not all that were received.
                keep_successions(connection, () if task.lineage is None else task.lineage.successions)
        self.task, self._followed = task, True


def checked_name(device: str) -> str:
    """Return a device's name if it can be stored.

    Raises:
        AnswerError: if it is too long or not printable.
    """
    if not isinstance(device, str) or len(device) > LONGEST_NAME or not device.isprintable():
        raise AnswerError(
            f"a device's name must be a text of at most {LONGEST_NAME} printable characters; give another"
        )
    return device
