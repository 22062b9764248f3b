"""Answers readers of results; estimates are computed from the stored counts at each request."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from hubbub.analyzer.certifier import Certifier
from hubbub.analyzer.progress import Obstacles, missing, status_of
from hubbub.analyzer.records import History, ReceivedBatch, counted_of
from hubbub.analyzer.stores.protocol import AnalyzerStore
from hubbub.protos.messages import IncidentReport, ListedTask
from hubbub.protos.records.counts import Certified, CountsDiffer, check_counted, read_certified
from hubbub.protos.records.results import (
    AnalyzerRoundStatus,
    QueryResult,
    QueryState,
    RoundId,
    RoundResults,
    SumResult,
)
from hubbub.protos.records.sums import sums_of
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.queries.longitudinal.over_rounds import Batch
from hubbub.service.observability.incidents import IncidentKind, Incidents

_NO_BATCHES: Mapping[int, ReceivedBatch] = MappingProxyType({})

LONGEST_WAIT_SECONDS = 60.0
"""How long one call waits for a round that is not certified yet; a reader asks again after that."""

MOST_KNOWN = 4096
"""How many certificates are kept in memory after reading; a few kilobytes each."""


class Results:
    """The results service. It answers for every task in the store, also for those not in `served` (ids) today."""

    def __init__(
        self, store: AnalyzerStore, certifier: Certifier, served: Collection[bytes], incidents: Incidents | None = None
    ) -> None:
        self._store = store
        self._served = served
        self._incidents = incidents or Incidents()
        self._certifier = certifier
        self._closed = False
        self._known: dict[bytes, Certified] = {}
        """The content of certificates, by their SHA-256: each is read once, however often a later round needs it."""
        self.refusals: Counter[Reason] = Counter()
        """Results that were refused because they differ from the certificate."""

    async def get_results(self, task_id: bytes, round_number: int, wait: float) -> RoundResults:
        """Return a round's results, waiting for them up to `wait` seconds, and at most a minute.

        Raises:
            Refusal: UNKNOWN_TASK, UNKNOWN_ROUND, or NO_RESULTS, naming what is missing; RESULTS_DIFFER if the stored
                data of the round differs from its certificate.
        """
        task = await self._task(task_id, round_number)
        loop = asyncio.get_running_loop()
        # NaN would pass through min and max; a wait that is not finite counts as 0.
        deadline = loop.time() + (min(max(wait, 0.0), LONGEST_WAIT_SECONDS) if math.isfinite(wait) else 0.0)
        while True:
            # Read before the store: a certificate that is stored in between sets this very event.
            changed = self._certifier.changed
            certificate = await self._store.certificate(task_id, round_number)
            if certificate is not None:
                return await self._results(task, round_number, certificate)
            remaining = deadline - loop.time()
            if remaining <= 0 or self._closed:
                raise await self._missing(task, round_number)
            try:
                await asyncio.wait_for(changed.wait(), remaining)
            except TimeoutError:
                # Look once more: a certificate of the last moment counts, and without one the time is up then.
                continue

    async def get_incidents(self) -> IncidentReport:
        return self._incidents.report()

    async def list_results(self, task_id: bytes | None) -> list[RoundId]:
        """Return the certified rounds in the order in which they were certified, of one task or of all.

        Raises:
            Refusal: UNKNOWN_TASK.
        """
        if task_id is not None:
            await self._task(task_id, 0)
        return await self._store.certified(task_id)

    async def list_tasks(self) -> list[ListedTask]:
        """Return the tasks that are served today, or that a stored round is of, by their names."""
        ids = {*self._served, *(progress.id.task_id for progress in await self._store.progress(None))}
        ids |= {each.task_id for each in await self._store.certified(None)}
        found = [ListedTask(task_id, (await self._task(task_id, 0)).name) for task_id in ids]
        return sorted(found, key=lambda each: (each.name, each.task_id))

    async def get_task(self, task_id: bytes) -> SignedTask:
        """Return a task with both signatures.

        Raises:
            Refusal: UNKNOWN_TASK.
        """
        return await self._signed(task_id)

    async def get_statuses(self, task_id: bytes | None) -> list[AnalyzerRoundStatus]:
        """Return the progress of the rounds that have a key, in the order of their openings, of one task or of all.

        Raises:
            Refusal: UNKNOWN_TASK.
        """
        if task_id is not None:
            await self._task(task_id, 0)
        found = await self._store.progress(task_id)
        tasks = {task_id: await self._task(task_id, 0) for task_id in {progress.id.task_id for progress in found}}
        obstacles = self._obstacles()
        # Keys of several rounds are made at once, so the store has them in any order.
        found = sorted(found, key=lambda each: tasks[each.id.task_id].schedule.opens(each.id.round))
        return [status_of(each, tasks[each.id.task_id], obstacles) for each in found]

    def close(self) -> None:
        """End all waits: the service is stopping."""
        self._closed = True
        self._certifier.announce()

    async def _signed(self, task_id: bytes) -> SignedTask:
        signed = await self._store.task(task_id)
        if signed is None:
            raise Refusal(
                Reason.UNKNOWN_TASK,
                f"this analyzer has no task {task_id.hex()[:16]}…; ask the analyzer that the task names",
            )
        return signed

    async def _task(self, task_id: bytes, round_number: int) -> Task:
        task = (await self._signed(task_id)).task
        if not 0 <= round_number < task.schedule.rounds:
            last = task.schedule.rounds - 1
            raise Refusal(
                Reason.UNKNOWN_ROUND, f"task {task.name} has rounds 0 to {last}, not {round_number}; name one of these"
            )
        return task

    async def _results(self, task: Task, round_number: int, certificate: bytes) -> RoundResults:
        try:
            history = await self._history(task, round_number, certificate)
            certificates = [await self._store.certificate(task.id, number) for number, _ in history[:-1]]
            queries, sums = await asyncio.to_thread(
                _checked_results, task, history, [*certificates, certificate], self._known
            )
        except CountsDiffer as error:
            raise self._differ(task, round_number, error) from error
        self._incidents.resolve(("results", task.id, round_number))
        return RoundResults(RoundId(task.id, task.name, round_number), queries, certificate, sums)

    def _differ(self, task: Task, round_number: int, error: CountsDiffer) -> Refusal:
        """Count and report that the stored data of a round differs from its certificate, and return the refusal."""
        text = (
            f"round {round_number} of task {task.name} is not shown, as its stored data differs from its "
            f"certificate: {error}. The store was changed since: find out by whom, and use the results that readers "
            "saved before (`hubbub verify CERTIFICATE RESULTS`)"
        )
        refusal = Refusal(Reason.RESULTS_DIFFER, text)
        self.refusals[refusal.reason] += 1
        names = {"task": task.name, "round": round_number}
        self._incidents.open(
            ("results", task.id, round_number), IncidentKind.ROUNDS, "results differ", text, error, **names
        )
        return refusal

    async def _history(self, task: Task, round_number: int, certificate: bytes) -> History:
        """Return the round with its batches, after the earlier rounds that its estimates need, by its certificate."""
        # Not by which rounds have a certificate today: a round that lost its certificate would be left out silently.
        before = () if task.horizon is None else _certified(certificate, self._known).rounds_before()
        return [(number, await self._store.batches(task.id, number)) for number in (*before, round_number)]

    async def _missing(self, task: Task, round_number: int) -> Refusal:
        failure = self._certifier.failures.get((task.id, round_number))
        if failure is None:
            failure = await self._what_is_missing(task, round_number)
        return Refusal(Reason.NO_RESULTS, f"round {round_number} of task {task.name} has no results yet: {failure}")

    async def _what_is_missing(self, task: Task, round_number: int) -> str:
        found = {progress.id.round: progress for progress in await self._store.progress(task.id)}
        return missing(found.get(round_number), task, self._obstacles())

    def _obstacles(self) -> Obstacles:
        certifier = self._certifier
        return Obstacles(
            self._served, self._incidents.count(IncidentKind.STORE) > 0, certifier.failures, certifier.awaited
        )


def results_of(task: Task, history: History) -> tuple[QueryResult, ...]:
    """Return the results of the last round of a history, in the task's order of queries.

    Raises:
        HubbubError: if a batch is not committed.
    """
    return tuple(
        query_result(task, batch, {number: batches[place] for number, batches in history[:-1]})
        for place, batch in enumerate(history[-1][1])
    )


def query_result(task: Task, batch: ReceivedBatch, earlier: Mapping[int, ReceivedBatch] = _NO_BATCHES) -> QueryResult:
    """Return one query's part of a round's results, from its committed batch and those of `earlier` rounds.

    Raises:
        HubbubError: if the batch is not committed.
    """
    query, counted = task.queries[batch.id.query], counted_of(task, batch)
    facts = (batch.reports, counted.valid, counted.left_out)
    if counted.tally is None:
        return QueryResult(query.name, QueryState.WITHHELD, *facts, None)
    before = {number: counted_of(task, each) for number, each in earlier.items()} if query.horizon else {}
    batches = {
        number: Batch(each.tally, task.privacy.dummies + each.noise)
        for number, each in {**before, batch.id.round: counted}.items()
        if each.tally is not None
    }
    found, rounds = query.estimates_over(batch.id.round, batches), tuple(sorted(set(batches) - {batch.id.round}))
    # The counts are in the table that texts are decoded from: it is sent once.
    counts = b"" if found.table else counted.tally.written()
    return QueryResult(query.name, QueryState.PUBLISHED, *facts, found, counts, rounds)


def _checked_results(
    task: Task, history: History, certificates: Sequence[bytes | None], known: dict[bytes, Certified]
) -> tuple[tuple[QueryResult, ...], tuple[SumResult, ...]]:
    """Return the results of the last round and its sums, each round of the history checked against its certificate.

    Raises:
        CountsDiffer: if a round differs from its certificate.
    """
    for (number, batches), certificate in zip(history, certificates, strict=True):
        if certificate is None:
            raise CountsDiffer(f"round {number} has lost its certificate")
        check_counted(task, number, [counted_of(task, batch) for batch in batches], _certified(certificate, known))
    return results_of(task, history), sums_of(task, [counted_of(task, batch) for batch in history[-1][1]])


def _certified(certificate: bytes, known: dict[bytes, Certified]) -> Certified:
    digest = hashlib.sha256(certificate).digest()
    found = known.get(digest)
    if found is None:
        found = read_certified(certificate)
        if len(known) >= MOST_KNOWN:
            known.clear()
        known[digest] = found
    return found
