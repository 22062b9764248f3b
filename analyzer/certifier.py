"""States the privacy of everyone in a round, in a signed certificate, once all batches of the round are committed.

The certificate of a round composes it with every round of the task that was released before it, as the shuffler's
records attest; its `history` names them, in that order. It waits until each of these is counted, or can no longer be
counted. A round that can no longer be counted is composed at the minimum, as both ledgers charge it.

A round is not certified if its key record, or a record for its certificate, has another signer than the successions
here name. It then has an incident until the successions are corrected. Rounds that were certified before stay
certified.

One transaction stores the certificate and destroys the round's key. After a crash before it, the certificate is made at
the next start from the same counts. Nobody can open the round's envelopes afterwards. They are erased next, a few at a
time, or at the next start after a crash.
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
from hubbub.analyzer.stores.protocol import AnalyzerStore
from hubbub.protos.errors import HubbubError, SignatureError
from hubbub.protos.identity.documents import SignedDocument, canonical
from hubbub.protos.identity.formats import CERTIFICATE
from hubbub.protos.identity.keys import Identity, KeyRecord
from hubbub.protos.identity.successions import Succession
from hubbub.protos.records.batch import BatchRecord
from hubbub.protos.records.counts import DIGEST, CountsDiffer, check_tallies, counts_digest
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task, connected, followed, signers
from hubbub.service.observability.collectors import TASK_ID_DIGITS
from hubbub.service.observability.incidents import IncidentKind, Incidents
from hubbub.service.observability.timing import Observe, unobserved
from hubbub.service.observability.traces import NO_TRACES, Step, TracedRound, Traces

_LOG = structlog.get_logger(__name__)

Statement = Callable[[Task, Past], dict[str, Any]]
"""Makes the certificate's numbers for the last round of a history."""


def accountant_statement(task: Task, past: Past) -> dict[str, Any]:
    """Return the members of the certificate that the accountant computes."""
    # Imported late: the accountant loads scipy, which would double the service's start-up time.
    from hubbub.analyzer.certificate_statement import certificate_statement

    return certificate_statement(task, past)


@dataclass(frozen=True)
class _CertifiedRound:
    """The content of a certificate: the task, and all rounds that it composes with their batches, this one last."""

    signed: SignedTask
    number: int
    past: Past

    @property
    def batches(self) -> Sequence[ReceivedBatch]:
        return self.past.history[-1][1]


class Certifier:
    """Makes certificates, one at a time. `changed` is set, and replaced, after each.

    `observe` gets the seconds of each certificate. `successions` name the successors of a task's identities.
    """

    def __init__(
        self,
        identity: Identity,
        store: AnalyzerStore,
        state: Statement = accountant_statement,
        observe: Observe = unobserved,
        incidents: Incidents | None = None,
        successions: Sequence[Succession] = (),
        traces: Traces = NO_TRACES,
    ) -> None:
        self._identity = identity
        self._successions = successions
        self._store = store
        self._state = state
        self._observe = observe
        self._traces = traces
        self._incidents = incidents or Incidents()
        self._lock = asyncio.Lock()
        self._running: set[asyncio.Task[None]] = set()
        self.changed = asyncio.Event()
        self.failures: dict[tuple[bytes, int], str] = {}
        """Why a round that is complete has no certificate."""
        self.awaited: dict[tuple[bytes, int], Sequence[int]] = {}
        """The rounds that a complete round waits for: they were released before it."""

    def start(self) -> None:
        """Certify complete rounds in the background; called after each commit, and at the start."""
        task = asyncio.create_task(self._run_unless_it_fails())
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run_unless_it_fails(self) -> None:
        try:
            await self.run()
        except Exception as error:
            text = f"complete rounds could not be certified: {error}; it is tried again every minute"
            self._incidents.open("certify", IncidentKind.ROUNDS, "rounds not looked over", text, error)
        else:
            self._incidents.resolve("certify")

    async def settle(self) -> None:
        """Wait for the work that `start` began."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def run(self) -> None:
        """Certify every complete round; erase the envelopes of certified rounds."""
        # One run at a time: a certificate's history comes from the stored certificates.
        async with self._lock:
            for task_id, round_number in await self._store.uncertified():
                await self._certify(task_id, round_number)
            for task_id, round_number in await self._store.unerased():
                # In several transactions, so that readers of results do not wait for all of it.
                while await self._store.erase_some(task_id, round_number):
                    pass

    def announce(self) -> None:
        """Wake all callers that wait for a change."""
        # A new event each time: callers that wait have the old one, and later callers wait for the next change.
        self.changed.set()
        self.changed = asyncio.Event()

    async def _certify(self, task_id: bytes, round_number: int) -> None:
        started = time.perf_counter()
        try:
            facts = await self._gather(task_id, round_number)
            key = await self._store.key(task_id, round_number)
            if key is None or key.private is None:
                # The key is destroyed only with the certificate, so there was a certificate. No other may replace it.
                raise CountsDiffer("it has lost its certificate; take the one that readers saved, or the last backup")
            await asyncio.to_thread(_check_signers, facts, key.record)
            if facts.past.awaited:
                self._wait(facts)
                return
            with self._traces.span(Step.CERTIFY, TracedRound.of(facts.signed.task, round_number)):
                document = await asyncio.to_thread(self._document, facts)
                # Too few valid reports for an estimate: these counts are destroyed together with the round's key.
                withheld = [batch.id.query for batch in facts.batches if not is_published(facts.signed.task, batch)]
                await self._store.certify(task_id, round_number, document, withheld)
        except (HubbubError, AccountingError) as error:
            self._failed(task_id, round_number, str(error), None)
        except Exception as error:
            # Any error: a round that cannot be certified must not prevent other certificates.
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
            raise HubbubError(
                "the store has a round without its task; it was damaged (docs/howto/respond-to-incidents.md, A "
                "store was damaged or lost)"
            )
        # A folder may contain successions of other deployments, which do not concern this task.
        signed = replace(signed, task=followed(signed.task, connected(signed.task, self._successions)))
        return _CertifiedRound(signed, round_number, await self._store.past(task_id, round_number))

    def _wait(self, facts: _CertifiedRound) -> None:
        """Record the rounds that a certificate waits for: it is tried again after each commit, and every minute."""
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
        # Counts that were changed after the commit are not certified.
        for batch in facts.batches:
            check_attested(task, batch)
        check_tallies(task, counted)
        successions = () if task.lineage is None else task.lineage.successions
        content = {
            "admission": facts.signed.task.admission_statement,
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
    """Return only if the round's key record, and all records for its certificate, have the right signers."""
    check_signers(facts.signed.task, facts.number, [batch.record for batch in facts.batches], key)


def is_published(task: Task, batch: ReceivedBatch) -> bool:
    """Return whether a committed batch has enough valid reports for an estimate; otherwise it is withheld."""
    return batch.committed is not None and batch.committed.counted >= task.minimum_reports


def check_signers(
    task: Task, round_number: int, records: Iterable[SignedDocument], key: SignedDocument | None = None
) -> None:
    """Return only if a round's batch records, and its key record, are signed by the signers of the round.

    A succession that came too late names another signer than the actual one: it was made after the round's keys were
    given out, and begins before that. The shuffler refuses it for the rounds in its store, but it may reach only the
    analyzer. The round's certificate would not verify, and certificates are stored for good. So this certificate is
    delayed, and no other.

    `task` has the identities that follow those it names. Each record takes the time of one signature check, and of one
    more for each hop.

    Raises:
        SignatureError: if another identity has signed one; the message has the remedy.
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
            f"{what} of round {round_number} of {task.name} was signed by another identity than `successions` name; "
            "put the signer's succession back if it was removed. If a succession came after the round's keys were "
            "given out and begins earlier, remove it, have one signed that begins later, and restart the analyzer"
        ) from error
