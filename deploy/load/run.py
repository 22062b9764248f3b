"""Checks the options of a load, and runs it against a deployment, or against services started here."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import math
import tempfile
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.progress import Progress

from hubbub.accountant.written_numbers import real, several
from hubbub.client import read_settings
from hubbub.client.session.rounds import choose_round
from hubbub.deploy.files import signed_task_in
from hubbub.deploy.load.coordinator import Deployment, run_schedule
from hubbub.deploy.load.credentials import unsupported_reason
from hubbub.deploy.load.latency import StepResult
from hubbub.deploy.load.local_target import pipeline
from hubbub.deploy.load.schedule import (
    MOST_DEVICES,
    MOST_RATE,
    MOST_SECONDS,
    LoadSchedule,
    LoadStep,
    calls_for,
    devices_for,
)
from hubbub.deploy.pki.tickets import read_tickets
from hubbub.protos.errors import UsageError
from hubbub.protos.task.admission import Mode
from hubbub.protos.transport.addresses import HTTPS
from hubbub.protos.transport.channels import MAXIMUM_SUBMISSIONS

USUAL_RATE = 200.0
"""The default rate in devices a second, which every machine can keep."""


@dataclass
class LoadResult:
    """The result of a load: its finished steps and its target; `held` is the shuffler's count of submissions."""

    where: str
    steps: list[StepResult] = field(default_factory=list)
    held: int | None = None
    interrupted: bool = False


def checked_schedule(
    rate: float | None,
    rates: str | None,
    users: int | None,
    think: float | None,
    seconds: float,
    per_call: int,
    timeout: float,
) -> LoadSchedule:
    """Return the schedule in the options.

    Raises:
        UsageError: if they exclude each other, or one is out of its limits.
    """
    asked = [name for name, value in (("--rate", rate), ("--steps", rates), ("--users", users)) if value is not None]
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} exclude each other; give one of them")
    if (users is None) is not (think is None):
        raise UsageError("--users (devices at once) and --think (seconds that each waits) belong together; give both")
    _check("--seconds", seconds, MOST_SECONDS)
    _check("--timeout", timeout, MOST_SECONDS)
    if users is not None and think is not None:
        _check("--think", think, MOST_SECONDS)
        steps = [LoadStep(0.0, seconds, users, think)]
    else:
        wanted = _rates(rates) if rates is not None else [USUAL_RATE if rate is None else rate]
        for each in wanted:
            _check("--rate" if rates is None else "--steps", each, MOST_RATE)
        steps = [LoadStep(each, seconds) for each in wanted]
    if per_call > MAXIMUM_SUBMISSIONS:
        raise UsageError(f"--per-call {per_call}: a call takes at most {MAXIMUM_SUBMISSIONS} devices")
    schedule = LoadSchedule(tuple(steps), per_call, timeout)
    devices = sum(calls_for(step, per_call) * per_call for step in schedule.steps)
    if devices > MOST_DEVICES:
        raise UsageError(
            f"this load needs {devices} devices, all made before it begins, and at most {MOST_DEVICES} are possible; "
            "ask for fewer seconds or a lower rate"
        )
    return schedule


def _rates(text: str) -> list[float]:
    try:
        return several(text, real)
    except ValueError as error:
        raise UsageError(f"--steps {text!r}: give numbers of devices a second with commas between them") from error


def _check(option: str, value: float, most: float) -> None:
    if not (math.isfinite(value) and 0 < value <= most):
        raise UsageError(f"{option} {value:g}: give a number above 0, and at most {most:g}")


def deployment_in(
    settings: Path,
    schedule: LoadSchedule,
    processes: int,
    connections: int,
    tickets: Path | None,
    round_number: int | None,
    pollute: bool,
) -> Deployment:
    """Return the deployment that a client's settings name, after checking that it can and may be loaded.

    Raises:
        UsageError: if it is on another machine without `pollute`, or tickets are too few.
        HubbubError, OSError: if the settings, or what they name, cannot be used.
        NoRound: if no round takes answers now.
    """
    files = read_settings(settings, environment={})
    if not pollute and not _is_local(files.shuffler):
        raise UsageError(
            f"{files.shuffler} is not on this machine, and a load makes the results of its round meaningless; "
            "add --pollute if that is intended"
        )
    task = signed_task_in(files.task).task
    if refused := unsupported_reason(task):
        raise UsageError(refused)
    needed = devices_for(schedule, processes)
    if task.admission.mode is Mode.ENROLLED:
        found = 0 if tickets is None else len(read_tickets(tickets))
        if found < needed:
            raise UsageError(
                f"task {task.name} admits enrolled devices, and {needed} need a ticket each, but {found} are given; "
                f"make them with `hubbub enroll FILE --devices {needed}` and give them with --tickets"
            )
    return Deployment(
        task=files.task,
        operator_key=files.operator_key.read_bytes().hex(),
        shuffler_key=files.shuffler_key.read_bytes().hex(),
        shuffler=files.shuffler,
        authority=files.authority,
        round=choose_round(task, round_number, time.time()),
        tickets=tickets if task.admission.mode is Mode.ENROLLED else None,
        log_proof=files.log_proof,
        connections=connections,
    )


def _is_local(address: str) -> bool:
    host = address.removeprefix(HTTPS).rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def load(deployment: Deployment, schedule: LoadSchedule, processes: int, progress: Progress) -> LoadResult:
    """Run a schedule against a deployment, shown by `progress`; after Ctrl-C, return the finished steps.

    Raises:
        HubbubError: if a worker fails.
    """
    loaded = LoadResult(deployment.shuffler)
    return _interruptible(_run(deployment, schedule, processes, loaded, progress), loaded)


def load_locally(
    schedule: LoadSchedule, processes: int, connections: int, progress: Progress, workers: int = 0
) -> LoadResult:
    """Do what `load` does with services that are started here, and stopped at the end.

    So many `workers` answer devices; 0: the main process.

    Raises:
        HubbubError: if a service or a worker fails.
    """
    loaded = LoadResult("services on this machine, together with the load")
    return _interruptible(_run_locally(schedule, processes, connections, workers, loaded, progress), loaded)


async def _run_locally(
    schedule: LoadSchedule, processes: int, connections: int, workers: int, loaded: LoadResult, progress: Progress
) -> None:
    started = pipeline(devices_for(schedule, processes), connections, workers=workers)
    async with started as (deployment, running):
        await running.guard(_run(deployment, schedule, processes, loaded, progress))
        loaded.held = sum(status.submissions for status in await running.status())


def _interruptible(work: Coroutine[Any, Any, None], loaded: LoadResult) -> LoadResult:
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        loaded.interrupted = True
    return loaded


async def _run(
    deployment: Deployment, schedule: LoadSchedule, processes: int, loaded: LoadResult, progress: Progress
) -> None:
    shown = _LoadProgressBars(deployment, schedule, processes, progress)
    with tempfile.TemporaryDirectory(prefix="hubbub-load-") as folder, shown:
        finished = functools.partial(_finished, loaded)
        await run_schedule(deployment, schedule, processes, Path(folder), shown, finished)
        shown.all_sent()


def _finished(loaded: LoadResult, step: StepResult) -> None:
    loaded.steps.append(step)


class _LoadProgressBars:
    """A bar for making devices ready, which are first enrolled if they have tickets, and one for sending."""

    def __init__(self, deployment: Deployment, schedule: LoadSchedule, processes: int, progress: Progress) -> None:
        devices = devices_for(schedule, processes)
        self._progress = progress
        stages = 1 if deployment.tickets is None else 2
        self._ready = self._progress.add_task("devices are enrolled and sealed", total=stages * devices)
        due = sum(step.mean_calls(schedule.per_call) * schedule.per_call for step in schedule.steps)
        self._sent = self._progress.add_task("devices are sent", total=due)

    def __enter__(self) -> _LoadProgressBars:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def ready(self, devices: int) -> None:
        self._progress.advance(self._ready, devices)

    def dealt_with(self, devices: int) -> None:
        self._progress.advance(self._sent, devices)

    def all_sent(self) -> None:
        """Fill the bar: its length is the expected number of devices, and fewer or more may have been due."""
        sent = self._progress.tasks[self._sent].completed
        self._progress.update(self._sent, total=sent)
