"""The class that an application embeds to answer a task's rounds for one person."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from hubbub.client.enrollment.credentials import ticket_of
from hubbub.client.limits import PrivacyLimits
from hubbub.client.privacy.certificates import CertifiedLoss
from hubbub.client.privacy.report import Budget
from hubbub.client.session.sealed_submission import Outcome, SealedSubmission
from hubbub.client.session.session import Session, checked_name
from hubbub.client.session.submissions import DeviceReceipt as DeviceReceipt
from hubbub.client.session.submissions import Submissions
from hubbub.client.session.unit_of_work import DeviceWork
from hubbub.client.status import DeviceStatus, Memory, status_of
from hubbub.client.submit import Retrying
from hubbub.client.validation import checked_type
from hubbub.protos.errors import UsageError
from hubbub.protos.messages import Receipt
from hubbub.protos.task.task import Task
from hubbub.queries.errors import AnswerError
from hubbub.queries.questions.question import Value
from hubbub.queries.randomizers.sampling import Random


class Device:
    """Answers a task's rounds for one person.

    In each round the answers are randomized once, and stored before anything is sent or asked for. A second call for
    the round sends what was stored, or returns the first receipt. If the program is killed, or the shuffler cannot be
    reached, the next call or `resend` goes on with the same reports.

    Args:
        task: the signed task file's bytes.
        operator_key: the public key that must have signed it, known out of band (PEM, or 32 bytes).
        shuffler_key: the public key that must have signed it too, known out of band.
        state: the file to remember submissions in; made where it does not exist, readable by its owner alone.
        shuffler: host:port, or https://host:port; several, with commas between them, where any will do.
        authority: the authority of the shuffler's TLS certificate, a PEM file or its bytes. It is read at once.
        ticket: the ticket by which the operator enrolled this device, as bytes or as the file that holds it, for tasks
            that take enrolled devices. The device redeems it by itself, once, and keeps its credential in `state`.
        certificate, key: the device's TLS certificate and its key, PEM files, which it shows in tasks that admit by
            them (`mtls`), and in no others.
        name: which device this is, where several share a state file; it is never sent.
        retrying: how long to try, with which clock, pauses and jitter, and what to call before each pause.
        limits: the most ε to spend in a day and on a task, and the most (ε, δ) a task may promise; none by default.
        random: where every draw comes from, the operating system by default.
        clock: seconds since 1970, UTC.

    Raises:
        UsageError: where an argument is of another type, `shuffler` is not host:port, or `name` cannot be stored.
        AuthorityError: where the authority cannot be read.
        SignatureError: where a key is not one, or the task is not signed by both.
        TaskError: where the task is not one to run.
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
        ticket: Path | bytes | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        name: str = "",
        retrying: Retrying | None = None,
        limits: PrivacyLimits | None = None,
        random: Random = os.urandom,
        clock: Callable[[], float] = time.time,
    ) -> None:
        session = Session(
            task,
            operator_key=operator_key,
            shuffler_key=shuffler_key,
            state=state,
            shuffler=shuffler,
            authority=authority,
            retrying=retrying,
            limits=limits,
            random=random,
            clock=clock,
            tickets=ticket_of(ticket),
            shown=(certificate, key),
        )
        try:
            self._work = DeviceWork(session, checked_name(name))
        except AnswerError as error:
            raise UsageError(f"name is {name!r:.80}; {error}") from error
        self._session, self._state = session, session.state
        self._submissions = Submissions(session, self._work)

    @property
    def task(self) -> Task:
        """The task, with the identities that follow those it names, once those were heard of."""
        return self._session.task

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection and the state file; both are opened again where they are used again."""
        await self._session.close()

    # Answering

    async def submit(
        self,
        answers: Mapping[str, Value],
        round: int | None = None,  # noqa: A002 - its name
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - for all calls to the shuffler, not for the whole
        spread: bool = False,
    ) -> DeviceReceipt:
        """Answer a round, the current one by default; return the shuffler's receipt.

        It is sent at once, so that whoever sees it arrive knows when it was answered. With `spread` the answers are
        stored at once, and nothing is asked for or sent before a time that is drawn uniformly, once, from what is
        left of the round: this call waits for it, and a later one, after a restart, for the same.

        `answers` holds, by query: a category's name, a number in the query's unit, or None for no answer; a query that
        is not named has none. `timeout` is how many seconds to try, 60 where `retrying` says nothing else. Where they
        do not suffice the answers stay stored, and `resend` sends them.

        Raises:
            AnswerError: where an answer does not fit; nothing was stored or sent.
            NoRound: where no round takes answers now.
            OptedOut: after `opt_out`.
            OverLimit: where it would spend more than the limits allow; nothing was drawn, stored or sent.
            KeyRecordError, SignatureError, KeySetChanged: where the round's keys are not to be trusted. The answers are
                kept, and nothing was sent.
            Refusal: where the shuffler refuses, with its reason. What came too late is discarded, else it is kept.
            Unreachable: where it does not answer; the answers are kept.
            StateError: where the state file cannot be used; nothing was sent.
        """
        return await self._submissions.submit(self._session.link, answers, round, timeout, spread)

    def submit_blocking(
        self,
        answers: Mapping[str, Value],
        round: int | None = None,  # noqa: A002 - its name
        *,
        timeout: float | None = None,
        spread: bool = False,
    ) -> DeviceReceipt:
        """Do what `submit` does, for programs without an event loop; leaves nothing open.

        Raises:
            UsageError: inside a running event loop; and what `submit` raises.
        """
        flow = self._submissions
        return flow.blocking(lambda link: flow.submit(link, answers, round, timeout, spread), "submit")

    def keep(
        self,
        answers: Mapping[str, Value],
        round: int | None = None,  # noqa: A002 - its name
        *,
        spread: bool = False,
    ) -> bool:
        """Randomize and store the answers to a round, the current one by default, for `resend` to send.

        With `spread` that is not before a time drawn uniformly, once, from what is left of the round.

        Nothing is asked of anybody, and the file is synced: it takes milliseconds. Returns False where the round had
        been answered before: the first answers stand.

        Raises:
            AnswerError, NoRound, OptedOut, OverLimit, StateError: as `submit` does; nothing was stored.
        """
        return self._work.keep(answers, round, spread).used

    async def resend(
        self,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
        early: bool = False,
    ) -> list[Receipt]:
        """Send what earlier calls stored for open rounds without a receipt; return the receipts.

        What has a send time still to come stays, unless `early` says to send that too.

        What waited until its round was over is erased unsent, and never sent in another round. `timeout` is how many
        seconds to try for all of them together.

        Raises:
            Refusal: the first, after the other rounds were sent too.
            Unreachable, StateError: as `submit` does.
        """
        return await self._submissions.resend(self._session.link, timeout, early)

    def resend_blocking(self, *, timeout: float | None = None, early: bool = False) -> list[Receipt]:
        """Do what `resend` does, for programs without an event loop; leaves nothing open.

        Raises:
            UsageError: inside a running event loop; and what `resend` raises.
        """
        flow = self._submissions
        return flow.blocking(lambda link: flow.resend(link, timeout, early), "resend")

    async def prepare(
        self,
        answers: Mapping[str, Value],
        round: int | None = None,  # noqa: A002 - its name
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
    ) -> SealedSubmission | None:
        """Randomize, store, seal and prove the answers to a round.

        Return them as a sealed submission for a `Gateway` to carry.

        It is `submit` up to the sending. The shuffler is asked for the round's keys, once, and for the credential where
        there is none yet; nothing of the answers is sent. The device keeps the submission until `settle` is told what
        became of it: called again it returns the same bytes, and `resend` may send them all the same. However often
        and by whomever they are sent, they count once. None where the round was answered and acknowledged before.

        Raises:
            UsageError: in a task that admits by TLS certificates, which nobody can show for another.
            AnswerError, NoRound, OptedOut, OverLimit, KeyRecordError, SignatureError, KeySetChanged, Refusal,
            Unreachable, StateError: as `submit` does.
        """
        return await self._submissions.prepare(self._session.link, answers, round, timeout)

    async def sealed_submissions(
        self,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
        early: bool = False,
    ) -> list[SealedSubmission]:
        """Return, as sealed submissions, what earlier calls stored for open rounds without a receipt.

        It is `resend` up to the sending; what has a send time still to come stays, unless `early`.

        Raises:
            Refusal, Unreachable, StateError, UsageError: as `prepare` does.
        """
        return await self._submissions.sealed_submissions(self._session.link, timeout, early)

    async def settle(
        self,
        outcome: Outcome,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
    ) -> DeviceReceipt:
        """Take note of what became of a sealed submission; return the receipt. The same outcome again gives the same.

        It is the gateway's claim: whoever lies here makes this round's answers go missing, and nothing worse. Where the
        proof was of a key that is gone, the ticket is redeemed again, and `prepare` proves with what was got.

        Raises:
            Refusal: where the shuffler refused it. What came too late is discarded, else it is kept: prepare it again.
            Unreachable: where it is to be tried again; it is kept.
            NoRound: where it was erased on this device meanwhile.
            UsageError: where the outcome is of another submission; nothing was changed.
            StateError: where the state file cannot be used.
        """
        checked_type(outcome, Outcome, "outcome", "an Outcome")
        return await self._submissions.take(self._session.link, outcome, timeout)

    # Knowing, and deciding. These read and write the state file alone, which takes milliseconds, or up to 30 s while
    # another program holds it.

    def status(self) -> DeviceStatus:
        """Return the current and the next round, what became of this device's answers, and the local ε spent.

        Raises:
            StateError: where the state file cannot be used.
        """
        now, state, task_id = self._session.clock(), self._state, self.task.id
        state.forget(now)
        out = bool(state.opted_out([self._work.name]))
        entries, history = state.entries(task_id, self._work.name), state.history(task_id, self._work.name)
        return status_of(self.task, Memory(entries, history, state.last_forgotten(task_id), out), now)

    def budget(self) -> Budget:
        """Return the ε that this device has spent today and on each task, for all tasks that use this state file.

        Raises:
            StateError: where the state file cannot be used.
        """
        return self._session.budget(self._work.name)

    def add_certificate(self, certificate: bytes) -> CertifiedLoss:
        """Take from a round's certificate what this task costs centrally, for every device in the state file.

        Signatures are checked, numbers are not: run `hubbub verify` on it before, where that can be done. The
        certificate of a later round says more than an earlier one; their order makes no difference.

        Raises:
            SignatureError: where a signature does not hold, or it is no certificate of this task; nothing was stored.
            StateError: where the state file cannot be used.
        """
        return self._session.add_certificate(certificate)

    def opt_out(self) -> None:
        """Take and send nothing from now on, for any task that uses this state file and name, until `opt_in`.

        What waits to be sent is erased. What another thread or process is sending at this moment may still arrive. The
        choice is stored, and outlives the program.

        Raises:
            StateError: where it could not be stored.
        """
        self._state.opt_out(self._work.name)

    def opt_in(self) -> None:
        """Take answers again. A round whose answers may have been sent before the opt-out stays answered.

        Raises:
            StateError: where it could not be stored.
        """
        self._state.opt_in(self._work.name)

    def wipe(self) -> None:
        """Erase this device's reports, sealed bytes and submission ids, for all tasks.

        Remembered are: which rounds were answered, until they are over, and how many; otherwise a round could be
        answered twice, which costs privacy. What was spent, and the choice to opt out, are remembered too. To erase
        these as well, delete the state file, when the task's rounds are over.

        Raises:
            StateError: where they could not be erased.
        """
        self._state.wipe(self._work.name)
