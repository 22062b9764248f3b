"""Answers for many devices of the demo in one process, through a fleet or one by one.

It runs as `python -m hubbub.deploy.demo.worker`. Each line on stdin is an assignment (see `DemoAssignment`), one a
round. It prints a JSON line after every few devices, and one with the counts when an assignment is done.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from hubbub.client import Device, Fleet
from hubbub.deploy.load.individually import submit_individually
from hubbub.protos.errors import HubbubError
from hubbub.protos.strict_json import read_json
from hubbub.queries.questions.question import Value
from hubbub.service.processes.hardening import disable_core_dumps


@dataclass(frozen=True)
class DemoAssignment:
    """A worker's assignment: the task, its keys, the shuffler, and the rows of answers of its devices.

    Paths are texts and keys are hex. The devices are rows first … last-1 of the Parquet file `answers`; their tickets
    are the lines of `tickets`, in this order. If there is a folder `certificates`, each device uses its own
    files NUMBER.pem and NUMBER.key there. Both are empty if devices need none.
    """

    task: str
    operator_key: str
    shuffler_key: str
    shuffler: str
    authority: str
    state: str
    answers: str
    tickets: str
    certificates: str
    first: int
    last: int
    round: int

    def encode(self) -> bytes:
        """Return the assignment as the line that the worker reads from stdin."""
        return json.dumps(asdict(self)).encode() + b"\n"


async def submit_rows(assignment: DemoAssignment, task: bytes, rows: pa.Table) -> dict[str, Any]:
    """Answer for every device of the assignment, whose answers are `rows`; return the counts."""
    devices = _devices(rows, assignment.first)
    common: dict[str, Any] = {
        "operator_key": bytes.fromhex(assignment.operator_key),
        "shuffler_key": bytes.fromhex(assignment.shuffler_key),
        "state": Path(assignment.state),
        "shuffler": assignment.shuffler,
        "authority": Path(assignment.authority),
    }
    if assignment.certificates:
        # A fleet has one connection, so it could show one certificate alone.
        folder = Path(assignment.certificates)

        def device(name: str) -> Device:
            return Device(task, **common, name=name, certificate=folder / f"{name}.pem", key=folder / f"{name}.key")

        summary = await submit_individually(devices, device, assignment.round, _report)
    else:
        async with Fleet(task, **common, tickets=_tickets(assignment)) as fleet:
            summary = await fleet.submit_many(devices, assignment.round, progress=_report)
    return {"accepted": summary.accepted, "refused": dict(summary.refused), "messages": summary.messages}


def _tickets(assignment: DemoAssignment) -> dict[str, bytes]:
    if not assignment.tickets:
        return {}
    lines = Path(assignment.tickets).read_bytes().splitlines()
    return {str(number): line for number, line in enumerate(lines, assignment.first)}


def _devices(rows: pa.Table, first: int) -> Iterator[tuple[str, Mapping[str, Value]]]:
    # A device's name is the number of its row. Rows become Python objects a thousand at a time, to save memory.
    number = first
    for batch in rows.to_batches(max_chunksize=1000):
        for answers in batch.to_pylist():
            yield str(number), answers
            number += 1


def _report(devices: int) -> None:
    _print({"dealt_with": devices})


def _print(document: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run the assignments on stdin, one after the other, until it is closed; a failure is one line of JSON, too."""
    # Loaded objects stay: the garbage collector need not visit them again for every thousand devices.
    gc.freeze()
    try:
        _run()
    except (HubbubError, OSError) as error:
        # Not on stderr alone: that is a file, and the disk may be full.
        _print({"failed": str(error)})


def _run() -> None:
    for line in sys.stdin:
        assignment = DemoAssignment(**read_json(line))
        # Not `read_table`: it imports pandas, if that is there, which takes longer than a thousand devices.
        table = parquet.ParquetFile(assignment.answers).read()
        rows = table.slice(assignment.first, assignment.last - assignment.first)
        _print(asyncio.run(submit_rows(assignment, Path(assignment.task).read_bytes(), rows)))


if __name__ == "__main__":
    disable_core_dumps()
    main()
