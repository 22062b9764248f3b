"""Runs worker processes that share the devices of a dataset, in all rounds of the demo, and names why one fails."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from hubbub.deploy.demo.worker import DemoAssignment
from hubbub.deploy.local.client_process import ClientProcess
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.planning.simulate.dataset import Dataset
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.keys import write_private
from hubbub.protos.messages import RoundStatus
from hubbub.protos.refusals import Refusal
from hubbub.protos.task.admission import Mode
from hubbub.service.runtime.tidying import tidied

DEVICES_OF_A_WORKER = 1000
"""A further worker is started for this many devices: to start one takes longer than to answer for them."""


_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a write that mostly come without the name of the file."""


@dataclass
class SubmissionCounts:
    """The outcomes of the devices' submissions."""

    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    messages: dict[str, str] = field(default_factory=dict)


class DemoWorkers:
    """At most `processes` worker processes that share so many devices; each is started with its first round."""

    def __init__(self, pipeline: LocalPipeline, devices: int, processes: int) -> None:
        self._pipeline = pipeline
        count = min(processes, -(-devices // DEVICES_OF_A_WORKER))
        logs = [pipeline.logs / f"worker-{index}.log" for index in range(count)]
        self._workers = [ClientProcess("hubbub.deploy.demo.worker", log) for log in logs]

    async def stop(self) -> None:
        """End them, whatever they do."""
        for worker in self._workers:
            await worker.stop()

    async def submit_all(
        self, dataset: Dataset, round_number: int, progress: Callable[[int], None]
    ) -> SubmissionCounts:
        """Answer for every device; `progress` gets the number of further devices done.

        Raises:
            HubbubError: if a worker fails.
        """
        pipeline = self._pipeline
        answers = pipeline.folder.of("client") / f"answers-{round_number}.parquet"
        written = pa.BufferOutputStream()
        parquet.write_table(dataset.answers, written)
        # The true answers, which only their owner may read, under any umask.
        write_private(answers, written.getvalue().to_pybytes())
        counts, of, turn = SubmissionCounts(), len(self._workers), asyncio.Lock()
        # It contains the true answers, so it is removed whether the workers succeeded or not.
        with tidied(answers.unlink):
            try:
                async with asyncio.TaskGroup() as group:
                    for index, worker in enumerate(self._workers):
                        make = partial(_assignment, pipeline, answers, dataset.devices, round_number, index, of)
                        group.create_task(_run(worker, make, turn, counts, progress))
            except BaseExceptionGroup as failures:
                # One message is enough: workers that fail together mostly fail for the same reason.
                raise failures.exceptions[0] from None
        return counts


@dataclass(frozen=True)
class _DeviceFiles:
    """The devices' tickets or certificates, in the form of `DemoAssignment`."""

    tickets: str = ""
    certificates: str = ""


def _admitted(pipeline: LocalPipeline, first: int, last: int, index: int) -> _DeviceFiles:
    """Return the places of a worker's tickets or certificates; they are made once, since devices enroll once."""
    if pipeline.issuer is not None:
        files = [pipeline.issuer.files(str(number)) for number in range(first, last)]
        return _DeviceFiles(certificates=str(files[0][0].parent))
    if pipeline.mode is not Mode.ENROLLED:
        return _DeviceFiles()
    path = pipeline.folder.of("client") / f"tickets-{index}.jsonl"
    if not path.exists():
        write_private(path, b"\n".join(pipeline.tickets(last - first)))
    return _DeviceFiles(tickets=str(path))


def _assignment(
    pipeline: LocalPipeline, answers: Path, devices: int, round_number: int, index: int, of: int
) -> DemoAssignment:
    # With this division the shares cover every row once, and differ in length by at most one.
    first, last = devices * index // of, devices * (index + 1) // of
    admitted = _admitted(pipeline, first, last, index)
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
        first=first,
        last=last,
        round=round_number,
    )


async def _run(
    worker: ClientProcess,
    make: Callable[[], DemoAssignment],
    turn: asyncio.Lock,
    counts: SubmissionCounts,
    progress: Callable[[int], None],
) -> None:
    """Have a worker run the assignment that `make` prepares in its turn, and add the outcomes to `counts`."""
    await worker.start()
    # A worker's tickets are made while those before it are at work already.
    async with turn:
        assignment = await asyncio.to_thread(make)
    worker.write(assignment.encode())
    while "accepted" not in (said := await worker.read()):
        progress(said["dealt_with"])
    counts.accepted += said["accepted"]
    counts.refused.update(said["refused"])
    counts.messages.update(said["messages"])


@contextlib.contextmanager
def naming_folder(folder: Path) -> Iterator[None]:
    """Name the folder of the stores if a write in the block fails and the error names no file.

    Raises:
        HubbubError: if a disk is full, or fails.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_DISK or error.filename is not None:
            raise
        raise HubbubError(
            f"cannot write to {folder}: {error.strerror}; make room there, or set TMPDIR to a folder that has room"
        ) from error


async def close_round(pipeline: LocalPipeline, number: int, counts: SubmissionCounts) -> RoundStatus:
    """Close a round. If it cannot be closed after devices were refused, the error begins with why they were.

    Raises:
        HubbubError: if the round cannot be closed.
    """
    try:
        return await pipeline.close_round(number)
    except Refusal as refusal:
        if not counts.refused:
            raise
        reason, refused = counts.refused.most_common(1)[0]
        raise HubbubError(
            f"{refused} submissions were refused: {counts.messages[reason]}. {counts.accepted} were accepted, so "
            f"{refusal}"
        ) from refusal
