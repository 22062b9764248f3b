"""When all batches of a round are committed, state in a signed document what privacy everyone in it has.

The certificate of a round composes it with every round of the task that was released before it, as the shuffler's
records attest; its `history` names them, in that order. It waits until each of these is counted, or cannot be any more:
then it stands at the minimum, as both ledgers charge it.

A round is not certified where somebody else has signed its key or a record that its certificate would hold than the
successions that are here say. It has an incident until they are repaired. Rounds that were certified before stay so.

Storing the certificate and destroying the round's key are one transaction:
after a crash before it, the certificate is made at the next start from the same counts. Nobody can open the round's
envelopes then; they are erased next, a few at a time, at the next start where a crash came between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from hubbub.accountant.errors import AccountingError
from hubbub.analyzer.attestation import check_attested
from hubbub.analyzer.records import Past, ReceivedBatch, counted_of
from hubbub.analyzer.store import AnalyzerStore
from hubbub.protos.errors import HubbubError, SignatureError
from hubbub.protos.identity.documents import SignedDocument, canonical
from hubbub.protos.identity.formats import CERTIFICATE
from hubbub.protos.identity.keys import Identity, KeyRecord
from hubbub.protos.identity.successions import Succession
from hubbub.protos.records.batch import BatchRecord
from hubbub.protos.records.counts import DIGEST, CountsDiffer, check_tallies, counts_digest
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.signers import connected, followed, signers
from hubbub.protos.task.task import Task
from hubbub.service.observability.collectors import TASK_ID_DIGITS
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.observability.timing import Observe, unobserved

_LOG = structlog.get_logger(__name__)

Statement = Callable[[Task, Past], dict[str, Any]]
"""What makes the certificate's numbers for the last round of a history."""


def accountant_statement(task: Task, past: Past) -> dict[str, Any]:
    """Return the certificate's members as the accountant states them."""
    # The accountant brings scipy, which would double the service's start-up time; certificates come later.
    from hubbub.analyzer.certificate_statement import certificate_statement

    return certificate_statement(task, past)


@dataclass(frozen=True)
class _CertifiedRound:
    """What a certificate is made of: the task, and all rounds that it composes with their batches, this one last."""

    signed: SignedTask
    number: int
    past: Past

    @property
    def batches(self) -> Sequence[ReceivedBatch]:
        return self.past.history[-1][1]


class Certifier:
    """Makes certificates, one at a time. `changed` is set, and replaced, after each.

    `observe` is told how many seconds each certificate took. `successions` say which identities follow those of tasks.
    """

    def __init__(
        self,
        identity: Identity,
        store: AnalyzerStore,
        state: Statement = accountant_statement,
        observe: Observe = unobserved,
        incidents: Incidents | None = None,
        successions: Sequence[Succession] = (),
    ) -> None:
        self._identity = identity
        self._successions = successions
        self._store = store
        self._state = state
        self._observe = observe
        self._incidents = incidents or Incidents()
        self._lock = asyncio.Lock()
        self._running: set[asyncio.Task[None]] = set()
        self.changed = asyncio.Event()
        self.failures: dict[tuple[bytes, int], str] = {}
        """Why a round that is complete has no certificate."""
        self.awaited: dict[tuple[bytes, int], Sequence[int]] = {}
        """Which rounds a round that is complete waits for: they were released before it."""

    def start(self) -> None:
        """Certify in the background what is complete; called after each commit, and at the start."""
        task = asyncio.create_task(self._run_unless_it_fails())
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run_unless_it_fails(self) -> None:
        try:
            await self.run()
        except Exception as error:
            text = f"rounds that are complete could not be looked over: {error}; it is tried again every minute"
            self._incidents.open("certify", IncidentKind.ROUNDS, "rounds not looked over", text, error)
        else:
            self._incidents.resolve("certify")

    async def settle(self) -> None:
        """Wait for what `start` began."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def run(self) -> None:
        """Certify every round that is complete; erase the envelopes of those that are certified."""
        # One run at a time: a certificate's history is read from the certificates that are stored.
        async with self._lock:
            for task_id, round_number in await self._store.uncertified():
                await self._certify(task_id, round_number)
            for task_id, round_number in await self._store.unerased():
                while await self._store.erase_some(task_id, round_number):
                    pass

    def announce(self) -> None:
        """Wake those who wait for a change."""
        # A new event each time: those who wait hold the old one, and who comes later waits for the next change.
        self.changed.set()
        self.changed = asyncio.Event()

    async def _certify(self, task_id: bytes, round_number: int) -> None:
        started = time.perf_counter()
        try:
            facts = await self._gather(task_id, round_number)
            key = await self._store.key(task_id, round_number)
            if key is None or key.private is None:
                # It goes with the certificate and not before, so there was one. Another must not stand in its place.
                raise CountsDiffer("it has lost its certificate; take the one that readers saved, or the last backup")
            await asyncio.to_thread(_check_signers, facts, key.record)
            if facts.past.awaited:
                self._wait(facts)
                return
            document = await asyncio.to_thread(self._document, facts)
            withheld = [batch.id.query for batch in facts.batches if not is_published(facts.signed.task, batch)]
            await self._store.certify(task_id, round_number, document, withheld)
        except (HubbubError, AccountingError) as error:
            self._failed(task_id, round_number, str(error), None)
        except Exception as error:
            # A round that cannot be certified, for whatever reason, must not keep others from it.
            self._failed(task_id, round_number, f"the certificate could not be made: {error!r}", error)
        else:
            self.failures.pop((task_id, round_number), None)
            self.awaited.pop((task_id, round_number), None)
            self._incidents.resolve((task_id, round_number))
            self._observe(time.perf_counter() - started)
            _LOG.info("round certified", task=facts.signed.task.name, round=round_number, withheld=len(withheld))
        self.announce()

    async def _gather(self, task_id: bytes, round_number: int) -> _CertifiedRound:
        signed = await self._store.task(task_id)
        if signed is None:
            raise HubbubError("the store holds a round without its task; it was damaged")
        # Those of other deployments, which a folder may hold too, say nothing of this task.
        signed = replace(signed, task=followed(signed.task, connected(signed.task, self._successions)))
        return _CertifiedRound(signed, round_number, await self._store.past(task_id, round_number))

    def _wait(self, facts: _CertifiedRound) -> None:
        """Note which rounds a certificate waits for: it is tried again after each commit, and every minute."""
        key, awaited = (facts.signed.task.id, facts.number), facts.past.awaited
        if self.awaited.get(key) != awaited:
            _LOG.info("round waits for its certificate", task=facts.signed.task.name, round=key[1], awaited=awaited)
        self.awaited[key] = awaited

    def _failed(self, task_id: bytes, round_number: int, problem: str, unforeseen: Exception | None) -> None:
        self.failures[task_id, round_number] = problem
        text = f"round {round_number} of task {task_id.hex()[:TASK_ID_DIGITS]} is not certified: {problem}"
        names = {"task_id": task_id.hex()[:TASK_ID_DIGITS], "round": round_number}
        self._incidents.open(
            (task_id, round_number), IncidentKind.ROUNDS, "round not certified", text, unforeseen, **names
        )

    def _document(self, facts: _CertifiedRound) -> bytes:
        task = facts.signed.task
        counted = [counted_of(task, batch) for batch in facts.batches]
        # What was changed since it was counted is not certified.
        for batch in facts.batches:
            check_attested(task, batch)
        check_tallies(task, counted)
        successions = () if task.lineage is None else task.lineage.successions
        content = {
            "admission": facts.signed.task.admission.statement(),
            "batches": [batch.record.as_json() for batch in facts.batches],
            "format": CERTIFICATE.format,
            "releases": [release.content() for release in facts.past.releases],
            "round": facts.number,
            "successions": [each.as_json() for each in successions],
            "task": facts.signed.as_json(),
            "uncounted": list(facts.past.uncounted),
            **self._state(facts.signed.task, facts.past),
            DIGEST: counts_digest(task, facts.number, counted).hex(),
        }
        signer = self._identity.named(signers(task, facts.number).analyzer)
        return canonical(SignedDocument.make(CERTIFICATE, content, signer.key).as_json())


def _check_signers(facts: _CertifiedRound, key: SignedDocument) -> None:
    """Return only if the round's key record and all records that its certificate will hold are by the right signers."""
    check_signers(facts.signed.task, facts.number, [batch.record for batch in facts.batches], key)


def is_published(task: Task, batch: ReceivedBatch) -> bool:
    """Whether a committed batch has enough valid reports for an estimate; it is withheld otherwise."""
    return batch.committed is not None and batch.committed.counted >= task.minimum_reports


def check_signers(
    task: Task, round_number: int, records: Iterable[SignedDocument], key: SignedDocument | None = None
) -> None:
    """Return only if a round's batch records, and its key record, are signed by who signs the round.

    A succession that came too late says that somebody else signs a round than did: it was made after the round's keys
    were given out, and begins before. The shuffler refuses it for the rounds that it holds, but it may reach the
    analyzer alone. The round's certificate would not verify, and is stored for good; so it is held up, and no other.

    `task` has the identities that follow those it names. Each record takes the time of one signature's check, and of
    one more for each hop.

    Raises:
        SignatureError: if another identity has signed one; the message says what to do.
    """
    of_round, what = signers(task, round_number), "the key record"
    try:
        if key is not None:
            KeyRecord.read(key, of_round.analyzer)
        what = "a batch record"
        for record in records:
            BatchRecord.read(record, of_round.shuffler, of_round.hops)
    except SignatureError as error:
        raise SignatureError(
            f"{what} of round {round_number} of {task.name} was signed by another identity than the `successions` say. "
            "Where one of them came after the round's keys were given out and begins earlier, take it out, and have "
            "one signed that begins later; where one was taken out by which the round was signed, put it back. Then "
            "start the analyzer again"
        ) from error
