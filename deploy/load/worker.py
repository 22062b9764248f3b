"""Prepares devices in one process, and then sends the calls that are due, step by step.

It runs as `python -m hubbub.deploy.load.worker`, with one JSON document on the first line of stdin (`LoadAssignment`),
and a line for each step: its beginning by the clock `time.monotonic`, which all processes of a machine share. It prints
its progress as JSON lines; the many rows of a step go into a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import sys
import time
from array import array
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hubbub.client.session.rounds import VerifiedRoundKeys
from hubbub.client.session.trust import trusted_task
from hubbub.client.submit import Retry, Retrying, RetryPolicy, ShufflerLink, submit_batch
from hubbub.deploy.load.credentials import credentials_for, keys_of, sealed
from hubbub.deploy.load.schedule import LoadSchedule, LoadStep, calls_for, due
from hubbub.protos.errors import HubbubError, MessageError, Unreachable
from hubbub.protos.messages import Receipt, Submission
from hubbub.protos.refusals import Refusal
from hubbub.protos.strict_json import read_json
from hubbub.protos.task.admission import Mode
from hubbub.protos.task.task import Task
from hubbub.protos.transport.channels import TLS
from hubbub.service.processes.hardening import disable_core_dumps

MOST_AT_ONCE = 20_000
"""Concurrent calls of a process; at this limit, devices whose calls are due are counted as unsent."""

UNANSWERED = "unanswered"
"""The reason that counts devices for which nobody answered in time."""

PULSE = 0.5
"""Seconds between two lines of progress."""


@dataclass(frozen=True)
class LoadAssignment:
    """A worker's assignment. Paths are texts and keys are hex; `tickets` are lines first … last-1 of that file.

    Calls alternate among `connections` connections.
    """

    task: str
    operator_key: str
    shuffler_key: str
    shuffler: str
    authority: str
    round: int
    schedule: dict[str, object]
    rows: str
    connections: int = 1
    tickets: str = ""
    log_proof: str = ""
    first: int = 0
    last: int = 0

    def encode(self) -> bytes:
        """Return the assignment as the worker reads it, a line."""
        return json.dumps(asdict(self)).encode() + b"\n"


@dataclass
class _StepCounts:
    """The outcomes of a step's calls so far."""

    rows: array[float] = field(default_factory=lambda: array("d"))
    refused: dict[str, int] = field(default_factory=dict)
    retries: dict[str, int] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    unsent: int = 0
    devices: int = 0

    def refuse(self, reason: str, message: str, devices: int = 1) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + devices
        self.messages.setdefault(reason, message)

    def retry(self, retry: Retry) -> None:
        reason = retry.error.reason.value if isinstance(retry.error, Refusal) else UNANSWERED
        self.retries[reason] = self.retries.get(reason, 0) + 1


class LoadWorker:
    """One process's part of a load; devices are prepared before any call is due."""

    def __init__(
        self, assignment: LoadAssignment, task: Task, links: Sequence[ShufflerLink], keys: VerifiedRoundKeys
    ) -> None:
        self._assignment = assignment
        self._task = task
        self._links = links
        self._turns = itertools.cycle(links)
        self._keys = keys
        self._schedule = LoadSchedule.of(assignment.schedule)
        self._ready: list[Submission] = []
        self._random = random.Random()

    async def make_ready(self) -> None:
        """Redeem the tickets, if devices have any, and seal a submission for each device."""
        count = sum(calls_for(step, self._schedule.per_call) * self._schedule.per_call for step in self._schedule.steps)
        credentials = None
        if self._task.admission.mode is Mode.ENROLLED:
            credentials = await credentials_for(self._links[0], self._tickets(), _report_ready)
        for made in sealed(self._task, self._keys, count, credentials):
            self._ready += made
            _report_ready(len(made))
        # Reversed, since removal from the end moves no elements.
        self._ready.reverse()

    def _tickets(self) -> list[bytes]:
        lines = Path(self._assignment.tickets).read_bytes().splitlines()
        return lines[self._assignment.first : self._assignment.last]

    async def run(self, number: int, begins: float) -> dict[str, Any]:
        """Run a step that begins at `begins` (monotonic seconds); return what became of it, rows aside."""
        step, seen = self._schedule.steps[number], _StepCounts()
        timeout = RetryPolicy(total=self._schedule.timeout, call=self._schedule.timeout)
        retrying = Retrying(timeout, progress=seen.retry)
        await asyncio.sleep(max(0.0, begins - time.monotonic()))
        cpu, pulse = time.process_time(), asyncio.create_task(_pulse(seen))
        try:
            await (self._closed if step.users else self._open)(step, begins, retrying, seen)
        finally:
            pulse.cancel()
        lasted = time.monotonic() - begins
        (Path(self._assignment.rows) / f"{number}.rows").write_bytes(seen.rows.tobytes())
        _report_handled(seen)
        return {
            "refused": seen.refused,
            "retries": seen.retries,
            "messages": seen.messages,
            "unsent": seen.unsent,
            "cores": (time.process_time() - cpu) / lasted if lasted > 0 else 0.0,
        }

    async def _open(self, step: LoadStep, begins: float, retrying: Retrying, seen: _StepCounts) -> None:
        running: set[asyncio.Task[None]] = set()
        for at in due(step, self._schedule.per_call, self._random):
            await asyncio.sleep(max(0.0, begins + at - time.monotonic()))
            batch = self._next()
            if not batch or len(running) >= MOST_AT_ONCE:
                seen.unsent += self._schedule.per_call
                continue
            task = asyncio.create_task(self._send(batch, at, begins, retrying, seen))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)

    async def _closed(self, step: LoadStep, begins: float, retrying: Retrying, seen: _StepCounts) -> None:
        ends = begins + step.seconds

        async def place() -> None:
            # Not all at once: each begins at a random moment of its first think time.
            at = begins + self._random.expovariate(1 / step.think)
            while at < ends:
                await asyncio.sleep(max(0.0, at - time.monotonic()))
                batch = self._next()
                if not batch:
                    seen.unsent += self._schedule.per_call
                    return
                await self._send(batch, at - begins, begins, retrying, seen)
                at = time.monotonic() + self._random.expovariate(1 / step.think)

        await asyncio.gather(*(place() for _ in range(step.users)))

    def _next(self) -> list[Submission]:
        return [self._ready.pop() for _ in range(min(self._schedule.per_call, len(self._ready)))]

    async def _send(
        self, batch: list[Submission], at: float, begins: float, retrying: Retrying, seen: _StepCounts
    ) -> None:
        sent = time.monotonic()
        acknowledged = 0
        try:
            async for answer in self._answers(batch, retrying):
                if isinstance(answer, Receipt):
                    acknowledged += 1
                else:
                    seen.refuse(answer.reason.value, answer.message)
        except Unreachable as error:
            seen.refuse(UNANSWERED, str(error), len(batch) - acknowledged)
        except MessageError as error:
            # A malformed answer acknowledges nothing.
            seen.refuse("malformed_answer", str(error), len(batch) - acknowledged)
        seen.devices += len(batch)
        due_at = begins + at
        seen.rows.extend((at, sent - due_at, time.monotonic() - due_at, len(batch), acknowledged))

    async def _answers(self, batch: list[Submission], retrying: Retrying) -> AsyncIterator[Receipt | Refusal]:
        """Send one submission like a device, several like a gateway; each is tried until the timeout."""
        caller, to = next(self._turns).caller, self._keys.destination
        if self._schedule.per_call > 1:
            for answer in await submit_batch(caller, to, batch, retrying):
                yield answer
            return
        try:
            yield await retrying.retry(lambda deadline: caller.submit(to, batch[0], deadline))
        except Refusal as refusal:
            yield refusal


async def _pulse(seen: _StepCounts) -> None:
    while True:
        await asyncio.sleep(PULSE)
        _report_handled(seen)


def _report_ready(count: int) -> None:
    _print({"ready": count})


def _report_handled(seen: _StepCounts) -> None:
    devices, seen.devices = seen.devices, 0
    _print({"dealt_with": devices})


def _print(document: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _run(assignment: LoadAssignment, begins: Iterator[str]) -> None:
    keys = bytes.fromhex(assignment.operator_key), bytes.fromhex(assignment.shuffler_key)
    proof = Path(assignment.log_proof).read_bytes() if assignment.log_proof else None
    task = trusted_task(Path(assignment.task).read_bytes(), *keys, proof)
    asyncio.run(_run_steps(assignment, task, Path(assignment.authority).read_bytes(), begins))


async def _run_steps(assignment: LoadAssignment, task: Task, authority: bytes, begins: Iterator[str]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        # Separate channel credentials, because gRPC would share one connection otherwise.
        links = [ShufflerLink(assignment.shuffler, TLS(authority, None, None)) for _ in range(assignment.connections)]
        for link in links:
            await stack.enter_async_context(link)
        keys = await keys_of(links[0], task, assignment.round, Retrying())
        worker = LoadWorker(assignment, task, links, keys)
        await worker.make_ready()
        _print({"all_ready": True})
        for number in range(len(LoadSchedule.of(assignment.schedule).steps)):
            line = await asyncio.to_thread(next, begins, "")
            if not line:
                return
            _print({"result": await worker.run(number, read_json(line)["begins"])})


def main() -> None:
    """Read an assignment from stdin and run it; a failure is one line of JSON, too."""
    try:
        _run(LoadAssignment(**read_json(sys.stdin.readline())), iter(sys.stdin))
    except (HubbubError, OSError) as error:
        _print({"failed": str(error)})


if __name__ == "__main__":
    disable_core_dumps()
    main()
