"""The class that an application embeds to answer a task's rounds for one person."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from hubbub.client.enrollment.credentials import ticket_of
from hubbub.client.limits import PrivacyLimits
from hubbub.client.preview import Preview, preview
from hubbub.client.privacy.certificates import CertifiedLoss
from hubbub.client.privacy.report import Budget
from hubbub.client.session.sealed_submission import Outcome, SealedSubmission
from hubbub.client.session.session import Session, checked_name
from hubbub.client.session.submissions import DeviceReceipt as DeviceReceipt
from hubbub.client.session.submissions import Submissions
from hubbub.client.session.unit_of_work import DeviceWork
from hubbub.client.settings import DeviceArguments, arguments_from
from hubbub.client.status import DeviceStatus, Memory, status_of
from hubbub.client.submit import Retrying
from hubbub.client.validation import NotCopied, checked_choice, checked_type
from hubbub.protos.errors import UsageError
from hubbub.protos.messages import Receipt
from hubbub.protos.task.task import Task
from hubbub.protos.transport.host_process import checked_host
from hubbub.queries.errors import AnswerError
from hubbub.queries.questions.question import Value
from hubbub.queries.randomizers.sampling import Random


class Device(NotCopied):
    """Answers a task's rounds for one person.

    The device randomizes the answers to a round once, and stores the reports before it contacts the shuffler. A second
    call for the round sends the stored reports, or returns the first receipt. If the program is killed, or the shuffler
    cannot be reached, the next call or `resend` continues with the same reports.

    Several threads may use one device at a time, each with its own event loop: a connection belongs to its loop. A
    process that gevent or eventlet has patched, or that uWSGI runs without threads, cannot run a device. That is
    checked when the device is made, and again at each call.

    A file is given as a Path, and a content as bytes. A text is neither, so it is refused.

    Args:
        task: the bytes of the signed task file.
        operator_key: the operator's public key, obtained out of band (PEM, or 32 bytes). It must have signed the task.
        shuffler_key: the shuffler's public key, obtained out of band. It must have signed the task too.
        state: the file that stores the submissions. It is created if it does not exist, readable by its owner only.
        shuffler: host:port, or https://host:port. Give several with commas between them if any of them will do.
        authority: the authority of the shuffler's TLS certificate, as a PEM file (a Path) or its content. It is read
            at once.
        log_proof: the proof (bytes) that this task file is in the transparency log that the task demands, if it demands
            one. The operator hands it on beside the task.
        ticket: the ticket by which the operator enrolled this device, as bytes or as the path of its file. Tasks that
            admit enrolled devices need it. The device redeems it once, and keeps its credential in `state`.
        certificate, key: the device's TLS certificate and its key, as PEM files. The device shows the certificate in
            tasks that admit by certificates (`mtls`), and in no others.
        proxy: http://host:port of a proxy that takes CONNECT, through which a shuffler on another machine is called.
            `https_proxy` and its like name none.
        relay: https://host/path of another party's relay of Oblivious HTTP. Then all calls go through it, and none to
            `shuffler`; `authority` is that of the relay's certificate.
        name: the device's name, if several devices share a state file. It is never sent.
        retrying: how long to try, with which clock, pauses and jitter, and a function to call before each pause.
        limits: the most ε to spend in a day and on a task, and the largest (ε, δ) that a task may have. No limits by
            default.
        random: the source of all randomness, the operating system by default.
        clock: returns seconds since 1970, UTC.

    Raises:
        UsageError: if an argument has the wrong type, `shuffler` is not host:port, `name` cannot be stored, or the
            process cannot run a device.
        AuthorityError: if the authority cannot be read.
        SignatureError: if a key is malformed, or the two keys did not both sign the task.
        NotLogged: a SignatureError, if the task demands a log, and `log_proof` does not show that it is there.
        TaskError: if the task is not valid.
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
        log_proof: bytes | None = None,
        ticket: Path | bytes | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        proxy: str | None = None,
        relay: str | None = None,
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
            log_proof=log_proof,
            retrying=retrying,
            limits=limits,
            random=random,
            clock=clock,
            tickets=ticket_of(ticket),
            shown=(certificate, key),
            proxy=proxy,
            relay=relay,
        )
        try:
            self._work = DeviceWork(session, checked_name(name))
        except AnswerError as error:
            raise UsageError(f"name is {name!r:.80}; {error}") from error
        self._session, self._state = session, session.state
        self._submissions = Submissions(session, self._work)

    @classmethod
    def from_settings(
        cls,
        file: Path | str | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        **arguments: Unpack[DeviceArguments],
    ) -> Self:
        """Make a device from its arguments, variables of the environment and a settings file, in this order.

        Args:
            file: a settings file in TOML, such as `client.toml`. Without it, HUBBUB_SETTINGS may name one.
            environment: the variables HUBBUB_TASK, HUBBUB_STATE and so on; those of the process by default, and none
                if it is `{}`.
            arguments: what `Device` takes. No variable and no file changes an argument.

        Raises:
            SettingsError: if a variable or the file cannot be used; the message names it, the value and what it must
                be.
            UsageError: if a required setting is missing, and there is no file; and what `Device` raises.
        """
        return cls(**arguments_from(DeviceArguments, file, environment, arguments))

    @property
    def task(self) -> Task:
        """The task. Identities that have a successor are replaced by it, once the device has learned of it."""
        return self._session.task

    def __repr__(self) -> str:
        """Return the task's name, its id and the shuffler: what a log may have. It has no answer, key or state."""
        task = self.task
        return f"Device(task={task.name!r}, id={task.id.hex()[:16]}, shuffler={self._session.address!r})"

    async def __aenter__(self) -> Self:
        await self._session.link.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.link.__aexit__(kind, error, trace)
        self._session.state.close()

    async def close(self) -> None:
        """Close this event loop's connection, and the state file; the next use opens them again."""
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

        A round that begins later cannot be answered at once: `keep` stores answers to it. With `spread` this call waits
        until a time in that round.

        The submission is sent at once, so anyone who sees it arrive learns when the person answered. With `spread`,
        the reports are stored at once, and the shuffler is not contacted before a send time. The send time is drawn
        once, uniformly from the rest of the round. This call waits for it. After a restart, a later call waits for the
        same send time.

        `answers` maps a query's name to its answer: a category's name, a number in the query's unit, or None for no
        answer. A query that `answers` does not name has no answer. `timeout` is how many seconds to try; the default is
        that of `retrying`, or 60. If the time runs out, the reports stay stored, and `resend` sends them.

        Raises:
            UsageError: if an argument has the wrong type, or the process cannot run a device (`Device` says when).
            AnswerError: if an answer does not fit its query; nothing was stored or sent.
            NoRound: if no round takes answers now, or `round` is over, or begins later and `spread` is false; nothing
                was stored or sent.
            OptedOut: after `opt_out`.
            OverLimit: if answering would spend more than the limits allow; nothing was drawn, stored or sent.
            KeyRecordError, SignatureError, KeySetChanged: if the round's keys cannot be trusted. The reports are kept,
                and nothing was sent.
            Refusal: if the shuffler refuses, with its reason. The submission is discarded if its round takes no more,
                and kept otherwise.
            Unreachable: if the shuffler does not answer; the submission is kept.
            StateError: if the state file cannot be used; nothing was sent.
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
        """Do what `submit` does, in a program without an event loop, and close connection and state file.

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

        With `spread`, `resend` sends them no earlier than a send time, drawn once, uniformly from the rest of the
        round. Answers to a round that begins later are kept until then: without `spread` their send time is its
        beginning. `status` names the round among `waiting`.

        The call makes no network request, and syncs the file: it takes milliseconds. It returns False if the round was
        answered before; the first answers count.

        Raises:
            AnswerError, NoRound, OptedOut, OverLimit, StateError, UsageError: as `submit` does; nothing was stored.
        """
        checked_host()
        return self._work.keep(answers, round, checked_choice(spread, "spread")).used

    def preview(self, answers: Mapping[str, Value], round: int | None = None) -> Preview:  # noqa: A002 - its name
        """Return what `submit` would send for these answers; nothing is sent, stored or spent.

        It is for whoever builds or checks an application. A preview shows the answers as they are encoded, and each
        call draws reports anew: never send or log one. Reports of many previews together reveal the answers.

        Raises:
            AnswerError, NoRound, StateError: as `submit` does.
        """
        return preview(self._session, self._work.name, answers, round)

    async def resend(
        self,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
        early: bool = False,
    ) -> list[Receipt]:
        """Send the stored submissions of open rounds that have no receipt yet; return the receipts.

        Submissions with a later send time are not sent unless `early` is true. Those to a round that begins later are
        never sent before it begins.

        A submission that waited until its round was over is erased unsent, and never sent in another round. `timeout`
        is how many seconds to try, for all submissions together.

        Raises:
            Refusal: the first refusal, after the other rounds were sent too.
            Unreachable, StateError: as `submit` does.
        """
        return await self._submissions.resend(self._session.link, timeout, early)

    def resend_blocking(self, *, timeout: float | None = None, early: bool = False) -> list[Receipt]:
        """Do what `resend` does, in a program without an event loop, and close connection and state file.

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

        Return them as a sealed submission for a `Gateway` to carry, or None if the round was answered and acknowledged
        before.

        It does what `submit` does before sending, so the round must have begun. The device asks the shuffler for the
        round's keys, once, and for a credential if it has none yet; it sends nothing that depends on the answers. The
        device keeps the submission until `settle` gets its outcome. Until then another call returns the same bytes, and
        `resend` may send them too.
        They count once, however often they are sent and by anyone.

        Raises:
            UsageError: if the task admits by TLS certificates, because a gateway cannot show a device's certificate.
            AnswerError, NoRound, OptedOut, OverLimit, StateError: as `submit` does.
            KeyRecordError, SignatureError, KeySetChanged, Refusal, Unreachable: as `submit` does.
        """
        return await self._submissions.prepare(self._session.link, answers, round, timeout)

    async def sealed_submissions(
        self,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
        early: bool = False,
    ) -> list[SealedSubmission]:
        """Return the stored submissions of open rounds that have no receipt yet, as sealed submissions.

        It does what `resend` does before sending. Submissions with a later send time are left out unless `early` is
        true, and those to a round that begins later are left out.

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
        """Record the outcome of a sealed submission; return the receipt. The same outcome gives the same result again.

        An outcome is the gateway's claim. A false one can make this round's answers go missing, and nothing worse. If
        the master key behind the proof is gone, the ticket is redeemed again, and `prepare` proves with the new
        credential.

        Raises:
            Refusal: if the shuffler refused it. A submission that came too late is discarded; any other is kept, to be
                prepared again.
            Unreachable: if it must be sent again; it is kept.
            NoRound: if it was erased on this device meanwhile.
            UsageError: if the outcome is of another submission; nothing was changed.
            StateError: if the state file cannot be used.
        """
        checked_type(outcome, Outcome, "outcome", "an Outcome")
        return await self._submissions.take(self._session.link, outcome, timeout)

    # Status and choices. These use the state file only. That takes milliseconds, or up to 30 s while another program
    # has it locked.

    def status(self) -> DeviceStatus:
        """Return the current and the next round, the outcome of this device's answers, and the local ε spent.

        Raises:
            StateError: if the state file cannot be used.
        """
        now, state, task_id = self._session.clock(), self._state, self.task.id
        state.forget(now)
        out = bool(state.opted_out([self._work.name]))
        entries, history = state.entries(task_id, self._work.name), state.history(task_id, self._work.name)
        return status_of(self.task, Memory(entries, history, state.last_forgotten(task_id), out), now)

    def budget(self) -> Budget:
        """Return the ε that this device has spent today and on each task, for all tasks that use this state file.

        Raises:
            StateError: if the state file cannot be used.
        """
        return self._session.budget(self._work.name)

    def add_certificate(self, certificate: bytes) -> CertifiedLoss:
        """Store the central ε that a round's certificate proves for this task, for every device in the state file.

        Signatures are checked; numbers are not. If you can, run `hubbub verify` on the certificate first. The
        certificate of a later round covers more than an earlier one. Certificates may be added in any order.

        Raises:
            SignatureError: if a signature is invalid, or the certificate is not of this task; nothing was stored.
            StateError: if the state file cannot be used.
        """
        return self._session.add_certificate(certificate)

    def opt_out(self) -> None:
        """Take and send no answers until `opt_in`, for any task that uses this state file and name.

        Submissions that wait to be sent are erased, also between two tries. A submission that another thread or process
        is sending at this moment may still arrive. The choice is stored, and outlives the program.

        Raises:
            StateError: if the choice could not be stored.
        """
        self._state.opt_out(self._work.name)

    def opt_in(self) -> None:
        """Take answers again. If a round's answers may have been sent before the opt-out, it stays answered.

        Raises:
            StateError: if the choice could not be stored.
        """
        self._state.opt_in(self._work.name)

    def wipe(self) -> None:
        """Erase this device's reports, sealed bytes and submission ids, for all tasks.

        The file still records which rounds were answered, until they are over, and how many. Otherwise a round could be
        answered twice, which costs privacy. It also keeps the ε spent and the choice to opt out. To erase these as
        well, delete the state file when the task's rounds are over.

        Raises:
            StateError: if they could not be erased.
        """
        self._state.wipe(self._work.name)
