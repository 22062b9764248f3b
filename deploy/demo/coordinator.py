"""Runs several worker processes that share the devices of a dataset."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from hubbub.deploy.demo.worker import DemoAssignment
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.planning.simulate.dataset import Dataset
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.keys import write_private
from hubbub.protos.task.admission import Mode
from hubbub.service.processes import subprocesses


@dataclass
class SubmissionCounts:
    """The outcomes of the devices' submissions."""

    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    messages: dict[str, str] = field(default_factory=dict)


async def submit_all(
    pipeline: LocalPipeline,
    dataset: Dataset,
    round_number: int,
    processes: int,
    progress: Callable[[int], None],
) -> SubmissionCounts:
    """Have `processes` workers answer for every device; `progress` gets the number of further devices done.

    Raises:
        HubbubError: if a worker fails; the others are stopped.
    """
    folder = pipeline.folder.of("client")
    answers = folder / f"answers-{round_number}.parquet"
    admitted = await asyncio.to_thread(_admitted, pipeline, dataset.devices)
    written = pa.BufferOutputStream()
    parquet.write_table(dataset.answers, written)
    # The true answers, which only their owner may read, under any umask.
    write_private(answers, written.getvalue().to_pybytes())
    assignments = [
        _assignment(pipeline, answers, admitted, dataset.devices, round_number, index, processes)
        for index in range(processes)
    ]
    counts = SubmissionCounts()
    try:
        async with asyncio.TaskGroup() as group:
            for index, each in enumerate(assignments):
                log = pipeline.logs / f"worker-{round_number}-{index}.log"
                group.create_task(_run(each, log, counts, progress))
    except BaseExceptionGroup as failures:
        # One message is enough: workers that fail together mostly fail for the same reason.
        raise failures.exceptions[0] from None
    finally:
        # It contains the true answers, so it is removed whether the workers succeeded or not.
        answers.unlink()
    return counts


@dataclass(frozen=True)
class _DeviceFiles:
    """The devices' tickets or certificates, in the form of `DemoAssignment`."""

    tickets: str = ""
    certificates: str = ""


def _admitted(pipeline: LocalPipeline, devices: int) -> _DeviceFiles:
    """Return the places of the devices' tickets or certificates; they are made once, since devices enroll once."""
    if pipeline.issuer is not None:
        files = [pipeline.issuer.files(str(number)) for number in range(devices)]
        return _DeviceFiles(certificates=str(files[0][0].parent))
    if pipeline.mode is not Mode.ENROLLED:
        return _DeviceFiles()
    path = pipeline.folder.of("client") / "tickets.jsonl"
    if not path.exists():
        write_private(path, b"\n".join(pipeline.tickets(devices)))
    return _DeviceFiles(tickets=str(path))


def _assignment(
    pipeline: LocalPipeline, answers: Path, admitted: _DeviceFiles, devices: int, round_number: int, index: int, of: int
) -> DemoAssignment:
    return DemoAssignment(
        task=str(pipeline.directory / "task.json"),
        operator_key=pipeline.operator_key.hex(),
        shuffler_key=pipeline.shuffler_key.hex(),
        shuffler=pipeline.shuffler,
        authority=str(pipeline.authority),
        state=str(pipeline.folder.of("client") / f"worker-{index}.db"),
        answers=str(answers),
        tickets=admitted.tickets,
        certificates=admitted.certificates,
        # With this division the shares cover every row once, and differ in length by at most one.
        first=devices * index // of,
        last=devices * (index + 1) // of,
        round=round_number,
    )


async def _run(
    assignment: DemoAssignment, log: Path, counts: SubmissionCounts, progress: Callable[[int], None]
) -> None:
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *subprocesses.command("hubbub.deploy.demo.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=subprocesses.environment(),
            # Ctrl-C then reaches the demo alone, which ends the workers itself.
            start_new_session=True,
        )
    try:
        await _listen(process, assignment, counts, progress)
        if await process.wait() != 0:
            raise HubbubError(f"a worker ended with status {process.returncode}; the end of {log}: {_last_line(log)}")
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _listen(
    process: asyncio.subprocess.Process,
    assignment: DemoAssignment,
    counts: SubmissionCounts,
    progress: Callable[[int], None],
) -> None:
    if process.stdin is None or process.stdout is None:
        raise HubbubError("a worker has no pipes")
    process.stdin.write(assignment.encode())
    process.stdin.close()
    while line := await process.stdout.readline():
        said = json.loads(line)
        if "dealt_with" in said:
            progress(said["dealt_with"])
        else:
            counts.accepted += said["accepted"]
            counts.refused.update(said["refused"])
            counts.messages.update(said["messages"])


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "nothing"
