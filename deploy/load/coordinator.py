"""Runs worker processes that share a schedule, and begin each of its steps at the same moment."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from hubbub.deploy.load.latency import COLUMNS, LoadCounts, StepResult
from hubbub.deploy.load.schedule import LoadSchedule, devices_for
from hubbub.deploy.load.worker import LoadAssignment
from hubbub.deploy.local.client_process import ClientProcess
from hubbub.service.runtime.tidying import tidied_async

T = TypeVar("T")

LEAD_SECONDS = 0.2
"""How long before its beginning a step is announced: a line reaches all workers in a fraction of this."""


@dataclass(frozen=True)
class Deployment:
    """The target of a load: its address, the connections of each process, and the trusted keys (hex)."""

    task: Path
    operator_key: str
    shuffler_key: str
    shuffler: str
    authority: Path
    round: int
    tickets: Path | None = None
    log_proof: Path | None = None
    connections: int = 4


class LoadProgress(Protocol):
    """Receives how many more devices were prepared, or finished."""

    def ready(self, devices: int) -> None:
        """Add devices that are ready."""

    def dealt_with(self, devices: int) -> None:
        """Add devices that were acknowledged, refused or given up."""


async def run_schedule(
    deployment: Deployment,
    schedule: LoadSchedule,
    processes: int,
    folder: Path,
    progress: LoadProgress,
    finished: Callable[[StepResult], None],
) -> None:
    """Run a schedule; `finished` is called with each step. `folder` contains the processes' files.

    Raises:
        HubbubError: if a worker fails; the others are stopped.
    """
    share = schedule.share(processes)
    workers = [
        _LoadProcess(
            _assignment(deployment, share, folder / str(index), index, schedule, processes), folder / f"{index}.log"
        )
        for index in range(processes)
    ]
    async with contextlib.AsyncExitStack() as stack:
        for worker in workers:
            await worker.start()
            await stack.enter_async_context(tidied_async(worker.stop))
        await _all(worker.until_ready(progress) for worker in workers)
        for number, (step, whole) in enumerate(zip(share.steps, schedule.steps, strict=True)):
            begins = time.monotonic() + LEAD_SECONDS
            said = await _all(worker.run(begins, progress) for worker in workers)
            rows = [_rows(worker.folder / f"{number}.rows") for worker in workers]
            counts = LoadCounts()
            for each in said:
                counts.add(_counts(each))
            cores = sum(each["cores"] for each in said)
            finished(StepResult(whole.offered(schedule.per_call), step.seconds, np.concatenate(rows), counts, cores))


async def _all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except BaseExceptionGroup as failures:
        # One message is enough: workers that fail together mostly fail for the same reason.
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


def _assignment(
    deployment: Deployment, share: LoadSchedule, rows: Path, index: int, schedule: LoadSchedule, processes: int
) -> LoadAssignment:
    mine = devices_for(schedule, processes) // processes
    return LoadAssignment(
        task=str(deployment.task),
        operator_key=deployment.operator_key,
        shuffler_key=deployment.shuffler_key,
        shuffler=deployment.shuffler,
        authority=str(deployment.authority),
        round=deployment.round,
        schedule=share.content(),
        rows=str(rows),
        connections=deployment.connections,
        tickets="" if deployment.tickets is None else str(deployment.tickets),
        log_proof="" if deployment.log_proof is None else str(deployment.log_proof),
        first=index * mine,
        last=(index + 1) * mine,
    )


def _rows(path: Path) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.fromfile(path, dtype=np.float64).reshape(-1, COLUMNS)


def _counts(said: dict[str, Any]) -> LoadCounts:
    return LoadCounts(Counter(said["refused"]), Counter(said["retries"]), dict(said["messages"]), said["unsent"])


class _LoadProcess(ClientProcess):
    """A worker process, and its output."""

    def __init__(self, assignment: LoadAssignment, log: Path) -> None:
        super().__init__("hubbub.deploy.load.worker", log)
        self.folder = Path(assignment.rows)
        self._assignment = assignment

    async def start(self) -> None:
        """Start it with its assignment."""
        self.folder.mkdir()
        await super().start()
        self.write(self._assignment.encode())

    async def until_ready(self, progress: LoadProgress) -> None:
        """Return when its devices are ready."""
        while "all_ready" not in (said := await self.read()):
            progress.ready(said.get("ready", 0))

    async def run(self, begins: float, progress: LoadProgress) -> dict[str, Any]:
        """Make it run its next step; return the outcome."""
        self.write(json.dumps({"begins": begins}).encode() + b"\n")
        while "result" not in (said := await self.read()):
            progress.dealt_with(said.get("dealt_with", 0))
        result: dict[str, Any] = said["result"]
        return result
