"""Results: what readers get. Estimates are computed from the stored counts whenever they are asked for."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Container, Mapping
from types import MappingProxyType

import numpy as np

from hubbub.analyzer.certify import Certifier, is_published
from hubbub.analyzer.progress import Obstacles, missing, standing_of
from hubbub.analyzer.records import History, StoredBatch
from hubbub.analyzer.store import Store
from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import Condition
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.results import QueryResult, QueryState, RoundId, RoundResults, RoundStanding
from hubbub.protos.task import Task
from hubbub.queries.over_rounds import Batch
from hubbub.queries.randomizer import Tally
from hubbub.service.troubles import Kind, Troubles

_NO_BATCHES: Mapping[int, StoredBatch] = MappingProxyType({})

LONGEST_WAIT_SECONDS = 60.0
"""How long one call waits for a round that is not certified yet; a reader asks again after that."""


class Results:
    """The results service. It answers for every task the store knows, `served` (ids) today or not."""

    def __init__(
        self, store: Store, certifier: Certifier, served: Container[bytes], troubles: Troubles | None = None
    ) -> None:
        self._store = store
        self._served = served
        self._troubles = troubles or Troubles()
        self._certifier = certifier
        self._closed = False

    async def get_results(self, task_id: bytes, round_number: int, wait: float) -> RoundResults:
        """Return a round's results, waiting for them up to `wait` seconds, and at most a minute.

        Raises:
            Refusal: UNKNOWN_TASK, UNKNOWN_ROUND, or NO_RESULTS, naming what is missing.
        """
        task = await self._task(task_id, round_number)
        loop = asyncio.get_running_loop()
        # NaN would pass through min and max; what is not finite does not wait.
        deadline = loop.time() + (min(max(wait, 0.0), LONGEST_WAIT_SECONDS) if math.isfinite(wait) else 0.0)
        while True:
            # Taken before the store is read: a certificate that is stored in between sets this very event.
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
                continue

    async def get_condition(self) -> Condition:
        """Return what holds the analyzer up."""
        return self._troubles.condition()

    async def list_results(self, task_id: bytes | None) -> list[RoundId]:
        """Return the certified rounds in the order in which they were certified, of one task or of all.

        Raises:
            Refusal: UNKNOWN_TASK.
        """
        if task_id is not None:
            await self._task(task_id, 0)
        return await self._store.certified(task_id)

    async def get_standings(self, task_id: bytes | None) -> list[RoundStanding]:
        """Return how far the rounds are that a key was made for, oldest first, of one task or of all.

        Raises:
            Refusal: UNKNOWN_TASK.
        """
        if task_id is not None:
            await self._task(task_id, 0)
        found = await self._store.progress(task_id)
        tasks = {task_id: await self._task(task_id, 0) for task_id in {progress.id.task_id for progress in found}}
        obstacles = self._obstacles()
        return [standing_of(each, tasks[each.id.task_id], obstacles) for each in found]

    def close(self) -> None:
        """Let nobody wait any longer: the service is stopping."""
        self._closed = True
        self._certifier.announce()

    async def _task(self, task_id: bytes, round_number: int) -> Task:
        signed = await self._store.task(task_id)
        if signed is None:
            raise Refusal(Reason.UNKNOWN_TASK, f"no task {task_id.hex()[:16]}… here; is it another analyzer's?")
        task = signed.task
        if not 0 <= round_number < task.schedule.rounds:
            last = task.schedule.rounds - 1
            raise Refusal(Reason.UNKNOWN_ROUND, f"task {task.name} has rounds 0 to {last}, not {round_number}")
        return task

    async def _results(self, task: Task, round_number: int, certificate: bytes) -> RoundResults:
        history = await self._history(task, round_number)
        queries = await asyncio.to_thread(lambda: results_of(task, history))
        return RoundResults(RoundId(task.id, task.name, round_number), queries, certificate)

    async def _history(self, task: Task, round_number: int) -> History:
        """Return the round with its batches, after the certified ones before it where estimates need them."""
        if task.horizon is None:
            return [(round_number, await self._store.batches(task.id, round_number))]
        return await self._store.history(task.id, round_number)

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
        return Obstacles(self._served, self._troubles.count(Kind.STORE) > 0, certifier.failures, certifier.awaited)


def results_of(task: Task, history: History) -> tuple[QueryResult, ...]:
    """Return the results of the last round of a history, in the task's order of queries.

    Raises:
        HubbubError: where a batch is not committed.
    """
    return tuple(
        query_result(task, batch, {number: batches[place] for number, batches in history[:-1]})
        for place, batch in enumerate(history[-1][1])
    )


def query_result(task: Task, batch: StoredBatch, earlier: Mapping[int, StoredBatch] = _NO_BATCHES) -> QueryResult:
    """Return one query's part of a round's results, from its committed batch and those of `earlier` rounds.

    Raises:
        HubbubError: where the batch is not committed.
    """
    if batch.committed is None:
        raise HubbubError(f"batch {batch.id.query} of round {batch.id.round} is not committed; the store was damaged")
    query, committed = task.queries[batch.id.query], batch.committed
    facts = (batch.reports, committed.counted, committed.left_out)
    if batch.counts is None or not is_published(task, batch):
        return QueryResult(query.name, QueryState.WITHHELD, *facts, None)
    found = {number: _counted(each) for number, each in {**earlier, batch.id.round: batch}.items()}
    published = {number: each for number, each in found.items() if each is not None}
    return QueryResult(query.name, QueryState.PUBLISHED, *facts, query.estimates_over(batch.id.round, published))


def _counted(batch: StoredBatch) -> Batch | None:
    """Return the tally of a batch; None where it was withheld."""
    if batch.counts is None or batch.committed is None:
        return None
    counts = np.frombuffer(batch.counts, dtype="<i8").astype(np.int64)
    # The counts of a batch hold the dummies too, so its valid reports are theirs and the people's.
    return Batch(Tally(counts, batch.committed.counted + batch.dummies), batch.dummies)
