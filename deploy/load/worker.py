"""A player: a process that makes devices ready, and then sends what is due, step by step, as it is told.

It is run as `python -m hubbub.deploy.load.worker`, with one JSON document on the first line of stdin (`Assignment`),
and a line for each step: when it begins, by the clock `time.monotonic`, which all processes of a machine share. It
prints a JSON line for whatever it has done; the rows of a step go into a file, as they are many.
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

from hubbub.client.session.rounds import RoundKeys
from hubbub.client.session.trust import trusted_task
from hubbub.client.submit import Link, Pacing, Patience, Retry, submit_batch
from hubbub.deploy.load.credentials import credentials_for, keys_of, sealed
from hubbub.deploy.load.schedule import Offer, Step, calls_for, due
from hubbub.protos.errors import HubbubError, MessageError, Unreachable
from hubbub.protos.messages import Receipt, Submission
from hubbub.protos.refusals import Refusal
from hubbub.protos.task.admission import Mode
from hubbub.protos.task.task import Task
from hubbub.protos.transport.channels import TLS
from hubbub.service.processes.hardening import keep_memory_in

MOST_AT_ONCE = 20_000
"""Calls of a process on their way at once; devices whose call is due while there are as many are counted as unsent."""

UNANSWERED = "unanswered"
"""The reason that counts devices for which nobody answered in time."""

PULSE = 0.5
"""Seconds between two lines that say how many devices were dealt with."""


@dataclass(frozen=True)
class Assignment:
    """What a player has to do. Paths are texts and keys are hex; `tickets` are lines first … last-1 of that file.

    Calls take turns through so many `connections`.
    """

    task: str
    operator_key: str
    shuffler_key: str
    shuffler: str
    authority: str
    round: int
    offer: dict[str, object]
    rows: str
    connections: int = 1
    tickets: str = ""
    first: int = 0
    last: int = 0

    def encode(self) -> bytes:
        """Return the assignment as the player reads it, a line."""
        return json.dumps(asdict(self)).encode() + b"\n"


@dataclass
class _Seen:
    """What became of a step's calls so far."""

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


class Player:
    """One process's part of a load; devices are made ready before anything is due."""

    def __init__(self, assignment: Assignment, task: Task, links: Sequence[Link], keys: RoundKeys) -> None:
        self._assignment = assignment
        self._task = task
        self._links = links
        self._turns = itertools.cycle(links)
        self._keys = keys
        self._offer = Offer.of(assignment.offer)
        self._ready: list[Submission] = []
        self._random = random.Random()

    async def make_ready(self) -> None:
        """Redeem the tickets, where devices have any, and seal a submission for each device."""
        count = sum(calls_for(step, self._offer.per_call) * self._offer.per_call for step in self._offer.steps)
        credentials = None
        if self._task.admission.mode is Mode.ENROLLED:
            credentials = await credentials_for(self._links[0], self._tickets(), _say_ready)
        for made in sealed(self._task, self._keys, count, credentials):
            self._ready += made
            _say_ready(len(made))
        # Taken from the end, which moves nothing.
        self._ready.reverse()

    def _tickets(self) -> list[bytes]:
        lines = Path(self._assignment.tickets).read_bytes().splitlines()
        return lines[self._assignment.first : self._assignment.last]

    async def play(self, number: int, begins: float) -> dict[str, Any]:
        """Play a step that begins at `begins` (monotonic seconds); return what became of it, rows aside."""
        step, seen = self._offer.steps[number], _Seen()
        patience = Patience(total=self._offer.patience, call=self._offer.patience)
        pacing = Pacing(patience, progress=seen.retry)
        await asyncio.sleep(max(0.0, begins - time.monotonic()))
        cpu, pulse = time.process_time(), asyncio.create_task(_pulse(seen))
        try:
            await (self._crowd if step.crowd else self._open)(step, begins, pacing, seen)
        finally:
            pulse.cancel()
        lasted = time.monotonic() - begins
        (Path(self._assignment.rows) / f"{number}.rows").write_bytes(seen.rows.tobytes())
        _say_played(seen)
        return {
            "refused": seen.refused,
            "retries": seen.retries,
            "messages": seen.messages,
            "unsent": seen.unsent,
            "cores": (time.process_time() - cpu) / lasted if lasted > 0 else 0.0,
        }

    async def _open(self, step: Step, begins: float, pacing: Pacing, seen: _Seen) -> None:
        running: set[asyncio.Task[None]] = set()
        for at in due(step, self._offer.per_call, self._random):
            await asyncio.sleep(max(0.0, begins + at - time.monotonic()))
            batch = self._next()
            if not batch or len(running) >= MOST_AT_ONCE:
                seen.unsent += self._offer.per_call
                continue
            task = asyncio.create_task(self._send(batch, at, begins, pacing, seen))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)

    async def _crowd(self, step: Step, begins: float, pacing: Pacing, seen: _Seen) -> None:
        ends = begins + step.seconds

        async def place() -> None:
            # Not all at once: each begins somewhere in its first time to think.
            at = begins + self._random.expovariate(1 / step.think)
            while at < ends:
                await asyncio.sleep(max(0.0, at - time.monotonic()))
                batch = self._next()
                if not batch:
                    seen.unsent += self._offer.per_call
                    return
                await self._send(batch, at - begins, begins, pacing, seen)
                at = time.monotonic() + self._random.expovariate(1 / step.think)

        await asyncio.gather(*(place() for _ in range(step.crowd)))

    def _next(self) -> list[Submission]:
        return [self._ready.pop() for _ in range(min(self._offer.per_call, len(self._ready)))]

    async def _send(self, batch: list[Submission], at: float, begins: float, pacing: Pacing, seen: _Seen) -> None:
        sent = time.monotonic()
        acknowledged = 0
        try:
            async for answer in self._answers(batch, pacing):
                if isinstance(answer, Receipt):
                    acknowledged += 1
                else:
                    seen.refuse(answer.reason.value, answer.message)
        except Unreachable as error:
            seen.refuse(UNANSWERED, str(error), len(batch) - acknowledged)
        except MessageError as error:
            # What cannot be right acknowledges nothing.
            seen.refuse("malformed_answer", str(error), len(batch) - acknowledged)
        seen.devices += len(batch)
        due_at = begins + at
        seen.rows.extend((at, sent - due_at, time.monotonic() - due_at, len(batch), acknowledged))

    async def _answers(self, batch: list[Submission], pacing: Pacing) -> AsyncIterator[Receipt | Refusal]:
        """Send one submission as a device does, several as a gateway; each is tried as long as the patience lasts."""
        caller, to = next(self._turns).caller, self._keys.destination
        if self._offer.per_call > 1:
            for answer in await submit_batch(caller, to, batch, pacing):
                yield answer
            return
        try:
            yield await pacing.persist(lambda deadline: caller.submit(to, batch[0], deadline))
        except Refusal as refusal:
            yield refusal


async def _pulse(seen: _Seen) -> None:
    while True:
        await asyncio.sleep(PULSE)
        _say_played(seen)


def _say_ready(count: int) -> None:
    _print({"ready": count})


def _say_played(seen: _Seen) -> None:
    devices, seen.devices = seen.devices, 0
    _print({"dealt_with": devices})


def _print(document: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _play(assignment: Assignment, begins: Iterator[str]) -> None:
    keys = bytes.fromhex(assignment.operator_key), bytes.fromhex(assignment.shuffler_key)
    task = trusted_task(Path(assignment.task).read_bytes(), *keys)
    asyncio.run(_played(assignment, task, Path(assignment.authority).read_bytes(), begins))


async def _played(assignment: Assignment, task: Task, authority: bytes, begins: Iterator[str]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        # Credentials of their own each, or gRPC would have them share a connection.
        links = [Link(assignment.shuffler, TLS(authority, None, None)) for _ in range(assignment.connections)]
        for link in links:
            await stack.enter_async_context(link)
        keys = await keys_of(links[0], task, assignment.round, Pacing())
        player = Player(assignment, task, links, keys)
        await player.make_ready()
        _print({"all_ready": True})
        for number in range(len(Offer.of(assignment.offer).steps)):
            line = await asyncio.to_thread(next, begins, "")
            if not line:
                return
            _print({"played": await player.play(number, json.loads(line)["begins"])})


def main() -> None:
    """Read an assignment from stdin and play it; a failure is one line of JSON, too."""
    try:
        _play(Assignment(**json.loads(sys.stdin.readline())), iter(sys.stdin))
    except (HubbubError, OSError) as error:
        _print({"failed": str(error)})


if __name__ == "__main__":
    keep_memory_in()
    main()
