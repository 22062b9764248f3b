"""`make soak`: both services under steady load for minutes, restarted and killed on the way; nothing may grow.

    python tests/soak/run.py [--minutes 3] [--rate 150]

Rounds follow each other. In the first ones a service is killed or restarted amid the load, each time another way; the
later ones run undisturbed, and over those memory, file descriptors and counts are compared. It prints a line for each
round and a verdict for each promise, and ends by itself; the exit status is 1 where a promise is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from hubbub.client import Fleet, Summary
from hubbub.client.fleet import Answers
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.errors import Unreachable
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import RoundState, Submission
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from support.metrics_scrape import Scraped, scrape
from support.samples import FEW

TICK_SECONDS = 0.5
"""How often devices come."""

ROUND_SECONDS = 6.0
"""How long devices come for a round; closing, counting and certifying it take longer, the more rounds there were."""

BAD_PER_TICK = 3
"""Malformed submissions that come with the others."""

MINIMUM = 50
"""Minimum of a round."""

GROWTH_MEBIBYTES = 16.0
"""Most that a service may have grown over the undisturbed rounds; 4 kB kept of each submission are 3.5 MiB a round."""

SPARE_DESCRIPTORS = 2
"""How many more file descriptors may be open at the end: a scrape or a connection that is being closed."""

SERVICES = (Role.SHUFFLER, Role.ANALYZER)


@dataclass(frozen=True)
class Use:
    """What a service holds, its workers' memory included."""

    mebibytes: float
    descriptors: int


@dataclass(frozen=True)
class SoakedRound:
    """One round: what was done to it, what devices were told, what was counted, what both services held after it."""

    number: int
    fault: str
    accepted: int
    bad: int
    submissions: int
    valid: tuple[int, ...]
    seconds: float
    use: dict[Role, Use]
    refused: float


Fault = Callable[[LocalPipeline], Awaitable[None]]


async def _kill_shuffler(pipeline: LocalPipeline) -> None:
    await pipeline.kill(Role.SHUFFLER)
    await pipeline.start(Role.SHUFFLER)


async def _restart_shuffler(pipeline: LocalPipeline) -> None:
    await pipeline.stop(Role.SHUFFLER)
    await pipeline.start(Role.SHUFFLER)


async def _kill_analyzer(pipeline: LocalPipeline) -> None:
    await pipeline.kill(Role.ANALYZER)
    await pipeline.start(Role.ANALYZER)


async def _restart_both(pipeline: LocalPipeline) -> None:
    for role in SERVICES:
        await pipeline.stop(role)
    for role in SERVICES:
        await pipeline.start(role)


FAULTS: dict[str, Fault] = {
    "shuffler killed": _kill_shuffler,
    "analyzer killed": _kill_analyzer,
    "shuffler restarted": _restart_shuffler,
    "both restarted": _restart_both,
}


def draft(rounds: int) -> Draft:
    """A task whose rounds all take submissions from now on."""
    return Draft(
        "soak",
        Schedule(int(time.time()), length=60, grace=86_400, rounds=rounds, close="operator"),
        MINIMUM,
        Privacy(epsilon=8.0, delta=1e-4, epsilon_local=16.0, large_delta=FEW),
        (Histogram("theme", ("light", "dark")), Number("session", 0.0, 60.0, "minutes", optional=True)),
    )


class Soak:
    """Plays rounds on a pipeline, `rate` devices a second for `length` seconds each."""

    def __init__(self, pipeline: LocalPipeline, rate: float, length: float) -> None:
        self._pipeline = pipeline
        self._length = length
        self._per_tick = max(1, round(rate * TICK_SECONDS))
        self._fleet = Fleet(
            pipeline.task.encode(),
            operator_key=pipeline.operator_key,
            shuffler_key=pipeline.shuffler_key,
            state=pipeline.folder.of("client") / "soak.db",
            shuffler=pipeline.shuffler,
            authority=pipeline.authority,
            tickets=pipeline.ticket,
        )

    async def close(self) -> None:
        """Close the fleet."""
        await self._fleet.close()

    async def run_round(self, number: int, fault: str) -> SoakedRound:
        """Play one round from its first device to its erasure."""
        started = time.monotonic()
        failing = asyncio.create_task(self._fail(fault))
        accepted, bad = await self._load(number)
        await failing
        status = await self._pipeline.close_round(number)
        results = await self._pipeline.results(number)
        while not await self._is_erased(number):  # noqa: ASYNC110 - over the wire
            await asyncio.sleep(0.05)
        shown = {role: await self.metrics(role) for role in SERVICES}
        return SoakedRound(
            number=number,
            fault=fault,
            accepted=accepted,
            bad=bad,
            submissions=status.submissions,
            valid=tuple(query.valid for query in results.queries),
            seconds=time.monotonic() - started,
            use={role: _use(shown[role], self._pipeline.services[role].pid) for role in SERVICES},
            refused=shown[Role.SHUFFLER].total("hubbub_shuffler_submissions_total", reason="not_enrolled"),
        )

    async def metrics(self, role: Role) -> Scraped:
        """What a service shows its monitoring now."""
        return await scrape(self._pipeline.services[role].addresses["metrics"])

    async def _fail(self, fault: str) -> None:
        if fault:
            await asyncio.sleep(self._length / 3)  # amid the load
            await FAULTS[fault](self._pipeline)

    async def _load(self, number: int) -> tuple[int, int]:
        """Have devices come tick by tick; return how many were accepted, and how many malformed ones were answered."""
        total, bad = Summary(), 0
        begun, ticks = time.monotonic(), round(self._length / TICK_SECONDS)
        for tick in range(ticks):
            names = range(tick * self._per_tick, (tick + 1) * self._per_tick)
            devices: list[Answers] = [(f"{name}", {"theme": "dark", "session": float(name % 60)}) for name in names]
            total.add(await self._fleet.submit_many(devices, number, per_call=25, calls=4))
            bad += await self._misbehave(number)
            await asyncio.sleep(max(0.0, begun + (tick + 1) * TICK_SECONDS - time.monotonic()))
        if total.refused:
            raise RuntimeError(f"devices of round {number} were refused: {dict(total.refused)}")
        return total.accepted, bad

    async def _misbehave(self, number: int) -> int:
        here = Destination(self._pipeline.task.task.id, number, bytes(32))
        submissions = [Submission(os.urandom(16), b"too short") for _ in range(BAD_PER_TICK)]
        async with open_channel(self._pipeline.shuffler, TLS(self._pipeline.authority)) as channel:
            try:
                return len(await SubmissionCaller(channel).submit_batch(here, submissions, 5.0))
            except Unreachable:
                return 0

    async def _is_erased(self, number: int) -> bool:
        found = [status.state for status in await self._pipeline.status() if status.round == number]
        return found == [RoundState.ERASED]


def _use(shown: Scraped, pid: int | None) -> Use:
    own = shown.value("process_resident_memory_bytes")
    return Use((own + _workers_bytes(pid)) / 2**20, int(shown.value("process_open_fds")))


def _workers_bytes(pid: int | None) -> int:
    """Resident memory of a process's children, where the system lists them."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        return 0
    found = 0
    for child in children.read_text().split():
        pages = Path(f"/proc/{child}/statm").read_text().split()[1]
        found += int(pages) * os.sysconf("SC_PAGE_SIZE")
    return found


def verdicts(rounds: Sequence[SoakedRound], depth: float, incident: float) -> dict[str, tuple[bool, str]]:
    """Return each promise with whether it was kept and the figures that say so."""
    accepted, held = sum(each.accepted for each in rounds), sum(each.submissions for each in rounds)
    counted = [sum(each.valid[query] for each in rounds) for query in range(len(rounds[0].valid))]
    quiet = [each for each in rounds if not each.fault]
    refused, bad = quiet[-1].refused - quiet[0].refused, sum(each.bad for each in quiet[1:])
    found = {
        "each acknowledged device counted once": (
            all(each.accepted == each.submissions for each in rounds) and counted == [accepted] * len(counted),
            f"{accepted} acknowledged, {held} held, {counted} counted",
        ),
        "refusals add up": (refused == bad, f"{bad} sent, {refused:.0f} shown"),
        "queues empty, no incidents": (depth == incident == 0, f"{depth:.0f} waiting, {incident:.0f} with an incident"),
    }
    for role in SERVICES:
        growth = _growth([each.use[role].mebibytes for each in quiet])
        files = [each.use[role].descriptors for each in quiet]
        found[f"{role.value}: memory flat"] = (
            growth <= GROWTH_MEBIBYTES,
            f"{growth:+.1f} MiB over {len(quiet)} rounds",
        )
        found[f"{role.value}: no file descriptor left open"] = (
            files[-1] <= files[0] + SPARE_DESCRIPTORS,
            f"{files[0]} at first, {files[-1]} at last",
        )
    return found


def _growth(values: Sequence[float]) -> float:
    """Return by how much values grew from their first to their last: the slope of the median line, times its length."""
    slopes = [(later - earlier) / (j - i) for i, earlier in enumerate(values) for j, later in _after(values, i)]
    return statistics.median(slopes) * (len(values) - 1) if slopes else 0.0


def _after(values: Sequence[float], place: int) -> list[tuple[int, float]]:
    return list(enumerate(values))[place + 1 :]


async def soak(
    folder: Path, seconds: float, rate: float, length: float, say: Callable[[SoakedRound], None]
) -> dict[str, tuple[bool, str]]:
    """Play rounds for about so many seconds, at least four disturbed and four not; return the verdicts."""
    most = 2 * len(FAULTS) + int(seconds / length)
    async with LocalPipeline(draft(most), folder) as pipeline:
        soaking = Soak(pipeline, rate, length)
        ends, faults = time.monotonic() + seconds, list(FAULTS)
        rounds: list[SoakedRound] = []
        try:
            while len(rounds) < most and (time.monotonic() < ends or len(rounds) < 2 * len(faults)):
                fault = faults[len(rounds)] if len(rounds) < len(faults) else ""
                rounds.append(await soaking.run_round(len(rounds), fault))
                say(rounds[-1])
            shown = {role: await soaking.metrics(role) for role in SERVICES}
        finally:
            await soaking.close()
    depth = sum(shown[role].total(f"hubbub_{role.value}_queue_depth") for role in SERVICES)
    incident = sum(shown[role].total(f"hubbub_{role.value}_rounds_with_incidents") for role in SERVICES)
    return verdicts(rounds, depth, incident)


def line(round_: SoakedRound) -> str:
    """Return a round in words."""
    uses = "; ".join(
        f"{role.value} {use.mebibytes:.0f} MiB, {use.descriptors} files" for role, use in round_.use.items()
    )
    what = f"round {round_.number}: {round_.accepted} devices in {round_.seconds:.1f} s; {uses}"
    return f"{what}; {round_.fault}" if round_.fault else what


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak, print, and return the exit status."""
    parser = argparse.ArgumentParser(description="Run both services under load and restarts; see what grows.")
    parser.add_argument("--minutes", type=float, default=3.0, help="how long, about")
    parser.add_argument("--rate", type=float, default=150.0, help="devices a second")
    chosen = parser.parse_args(arguments)
    limit = chosen.minutes * 60 * 3 + 300
    console = Console(highlight=False, width=110)
    with tempfile.TemporaryDirectory(prefix="hubbub-soak-") as folder:
        place, seconds = Path(folder) / "pipeline", chosen.minutes * 60
        work = soak(place, seconds, chosen.rate, ROUND_SECONDS, lambda each: console.print(line(each), soft_wrap=True))
        found = asyncio.run(asyncio.wait_for(work, limit))
    table = Table("promise", "figures", "")
    for promise, (kept, figures) in found.items():
        table.add_row(promise, figures, "kept" if kept else "BROKEN")
    console.print(table)
    return 0 if all(kept for kept, _ in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
