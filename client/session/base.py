"""Participant: what a device and a fleet share, that is a trusted task, a state file and a link to the shuffler."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Self

from hubbub.client.blocking import aside
from hubbub.client.encode import encode_all
from hubbub.client.enrollment.credentials import Enrolled, tickets_of
from hubbub.client.errors import StateError
from hubbub.client.limits import NO_LIMITS, Limits
from hubbub.client.privacy.certificates import Learned, read_certificate
from hubbub.client.privacy.ledger import Bill, day_of
from hubbub.client.privacy.report import Budget, budget_of
from hubbub.client.randomize import randomize_all
from hubbub.client.seal import seal
from hubbub.client.session.rounds import RoundKeys, choose_round
from hubbub.client.session.trust import (
    certificate_shown,
    checked_bytes,
    checked_path,
    checked_shuffler,
    trusted_authority,
    trusted_task,
)
from hubbub.client.state.enrollment import Tickets
from hubbub.client.state.longitudinal import Step, read_memories
from hubbub.client.state.store import Drawn, Round, State
from hubbub.client.state.successions import keep_successions, kept_successions
from hubbub.client.submit import Link, Pacing
from hubbub.client.validation import checked_function, checked_type
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.identity.successions import Succession, read_successions
from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason
from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES, Sealer
from hubbub.protos.task.schedule import forgotten_after
from hubbub.protos.task.signers import connected, followed
from hubbub.protos.task.task import Task
from hubbub.protos.transport.channels import TLS
from hubbub.queries.errors import AnswerError
from hubbub.queries.questions.question import Value
from hubbub.queries.randomizers.sampling import Random

OVER = frozenset({Reason.TOO_LATE, Reason.ERASED, Reason.OVER_BUDGET, Reason.ROUND_FULL})
"""Refusals after which a submission is discarded: its round takes no more submissions."""

LONGEST_NAME = 200
"""Most characters of a device's name; it stays in the state file and is never sent."""


class Participant:
    """A task, its state and its shuffler. It is made only if the task's signatures, identities and cap are in order."""

    def __init__(
        self,
        task: bytes,
        *,
        operator_key: bytes,
        shuffler_key: bytes,
        state: Path,
        shuffler: str,
        authority: Path | bytes,
        pacing: Pacing | None = None,
        limits: Limits | None = None,
        random: Random = os.urandom,
        clock: Callable[[], float] = time.time,
        tickets: Mapping[str, bytes] | Tickets | None = None,
        shown: tuple[Path | None, Path | None] = (None, None),
    ) -> None:
        """See `Device` and `Fleet`."""
        self.task = trusted_task(task, operator_key, shuffler_key)
        self._state = State(checked_path(state, "state"))
        self._address = checked_shuffler(shuffler)
        self._tls = TLS(trusted_authority(authority), *certificate_shown(self.task, *shown))
        self._pacing = Pacing() if pacing is None else checked_type(pacing, Pacing, "pacing", "a Pacing(…), or None")
        self._limits = NO_LIMITS if limits is None else checked_type(limits, Limits, "limits", "Limits(…), or None")
        self._random: Random = checked_function(random, "random", "bytes")
        self._clock: Callable[[], float] = checked_function(clock, "clock", "seconds since 1970")
        self._followed = False
        self._link = self._new_link()
        self._enrolled = Enrolled(self.task, self._state, tickets_of(tickets), self._random, self._clock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection and the state file; both are opened again where they are used again."""
        await self._link.close()
        self._state.close()

    def learn(self, certificate: bytes) -> Learned:
        """Take from a round's certificate what this task costs centrally, for every device in the state file.

        Signatures are checked, numbers are not: run `hubbub verify` on it before, where that can be done. The
        certificate of a later round says more than an earlier one; their order makes no difference.

        Raises:
            SignatureError: where a signature does not hold, or it is no certificate of this task; nothing was stored.
            StateError: where the state file cannot be used.
        """
        learned = read_certificate(checked_bytes(certificate, "certificate"), self.task)
        exceeded = learned.epsilon if learned.epsilon > self.task.privacy.epsilon else None
        self._state.learn(Round(self.task.id, learned.round), learned.proven, exceeded)
        return learned

    def _budget(self, name: str) -> Budget:
        accounts = self._state.accounts(name)
        return budget_of(accounts, self.task.id, day_of(self._clock()), self._limits)

    def _bill(self) -> Bill:
        """Return what answers cost that are drawn now."""
        return Bill.of(self.task, self._clock(), self._limits)

    def _new_link(self) -> Link:
        return Link(self._address, self._tls)

    def _choose(self, wanted: int | None) -> Round:
        """Return the round to answer, after forgetting those that are over."""
        now = self._clock()
        number = choose_round(self.task, wanted, now)
        self._state.forget(now)
        return Round(self.task.id, number)

    def _draw(self, answers: Mapping[str, Value], number: int, kept: str | None) -> tuple[Drawn, Step | None]:
        """Return the answers encoded and randomized, under an id, and what is to be kept of them where something is.

        `kept` is what the device has kept of the last round. Nothing has left the device yet.
        """
        encoded = encode_all(self.task, answers, self._random, number, read_memories(kept))
        reports = randomize_all(self.task, [each.symbol for each in encoded], self._random)
        # The id lets the shuffler recognize a retry. It is fresh and random, so it says nothing about the device.
        drawn = Drawn(self._random(SUBMISSION_ID_BYTES), b"".join(reports))
        pairs = zip(self.task.queries, encoded, strict=True)
        after = {query.name: each.memory for query, each in pairs if each.memory is not None}
        return drawn, Step(kept, after, self._over_at) if after else None

    def _kept(self, devices: Collection[str]) -> dict[str, str]:
        """Return what these devices keep from round to round; a task that asks nothing over time keeps nothing."""
        if all(query.horizon is None for query in self.task.queries):
            return {}
        return self._state.memories(self.task.id, devices)

    @property
    def _over_at(self) -> float:
        """When the task's last round is forgotten, and with it what was kept from round to round."""
        return forgotten_after(self.task.schedule, self.task.schedule.rounds - 1)

    def _sealed(self, sealer: Sealer, drawn: Drawn) -> Submission:
        *cuts, whole = self._cuts
        if len(drawn.reports) != whole.stop:
            raise StateError(
                f"the state file holds {len(drawn.reports)} bytes of reports, this task's have {whole.stop}; it is "
                "damaged, nothing was sent"
            )
        return seal(sealer, [drawn.reports[cut] for cut in cuts], drawn.submission_id)

    @cached_property
    def _cuts(self) -> list[slice]:
        """Where each query's report is among a device's reports, and where all of them are: the same in every round."""
        ends = list(accumulate(query.report_bytes for query in self.task.queries))
        return [*(slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)), slice(0, ends[-1])]

    async def _keys(self, link: Link, of: Round, pacing: Pacing) -> RoundKeys:
        """Return the round's keys: those it was first seen with, else the shuffler's, checked and kept."""
        known = await aside(self._state.key_set, of)
        key_set = await self._fetch(link, of, pacing) if known is None else known
        if key_set.successions or not self._followed:
            self.task = await aside(self._follow, read_successions(key_set.successions))
            self._followed = True
        # Checked before they are pinned: a pinned key set is never replaced, so a bad one would block the round.
        keys = RoundKeys.read(key_set, self.task, of.number)
        if known is None:
            await aside(self._state.pin, of, key_set, forgotten_after(self.task.schedule, of.number))
        return keys

    def _follow(self, fresh: Sequence[Succession]) -> Task:
        """Return the task with the identities that follow those it names; keep the successions that are new."""

        def work(connection: sqlite3.Connection) -> Task:
            task = followed(self.task, connected(self.task, [*kept_successions(connection), *fresh]))
            # What was checked alone, and not whatever came.
            keep_successions(connection, () if task.lineage is None else task.lineage.successions)
            return task

        return self._state.within(work)

    async def _fetch(self, link: Link, of: Round, pacing: Pacing) -> KeySet:
        return await pacing.persist(lambda deadline: link.caller.get_round(of.task_id, of.number, deadline))


def checked_name(device: str) -> str:
    """Return a device's name if it can be stored.

    Raises:
        AnswerError: where it is too long or not printable.
    """
    if not isinstance(device, str) or len(device) > LONGEST_NAME or not device.isprintable():
        raise AnswerError(f"a device's name must be a text of at most {LONGEST_NAME} printable characters")
    return device
