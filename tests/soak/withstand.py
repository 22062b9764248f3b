"""`make withstand`: the ports under each attack of `attacks.py`, a minute each; what strangers can do is bounded.

    python tests/soak/withstand.py [--seconds 60] [--only resets --only tiny] [--bare | --proxied]

Each attack has a pipeline of its own, once with the shuffler's port bare and once with the proxy of `hubbub init` in
front of it; those on the HTTPS port come without one. Attackers are processes with nearly the least priority, from
127.0.0.2, so that their work is not the service's; how much of the machine they took is in the table. An honest
newcomer comes ten times a second from 127.0.0.1: it connects, asks for the round's keys and submits, before the attack,
during it and after it.

It prints a line for each attack and whether the goals are met; the exit status is 1 where one is not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from soak.attacks import ATTACKS, CPU

from hubbub.client.submit import Retrying
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.planning.plan import plan
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.keys import KeySet, Role
from hubbub.protos.messages import Submission
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES, Destination, Sealer
from hubbub.protos.task.admission import OPEN
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Identities, Privacy, Task
from hubbub.protos.transport.addresses import HTTPS
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.protos.transport.https import HTTPSChannel
from hubbub.queries.questions.histogram import Histogram
from support.haproxy import Running, proxy_before
from support.metrics_scrape import fetch

MOST_MEBIBYTES = 400.0
"""Goal: resident memory of a service, its workers' included, at its highest."""

MOST_RATIO = 5.0
"""Goal: an honest newcomer's median latency under attack over the quiet one."""

MOST_SECONDS = 5.0
"""Goal: how soon after the attack all is as before."""

BETWEEN_SECONDS = 0.1
"""From one newcomer's beginning to the next one's, unless the first takes longer."""

DEADLINE_SECONDS = 10.0
"""A newcomer that is not done after this counts as never served."""

QUIET = 50
"""Newcomers before the attack."""

IN_A_ROW = 5
"""All is as before when so many newcomers in a row took no longer than the slowest before the attack."""

GIVE_UP_SECONDS = 60.0
"""How long that is waited for."""

SAMPLE_SECONDS = 0.02
"""How often memory is looked at."""

FILES = 1024
"""Files that the service may have open, as most shells start it; units allow more."""


@dataclass(frozen=True)
class Withstood:
    """What an attack did: seconds, MiB, cores, and the share of newcomers that were served meanwhile."""

    name: str
    proxied: bool
    quiet: float
    during: float
    served: float
    mebibytes: float
    until_before: float
    cores: float
    attacker_cores: float
    proxy_mebibytes: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """The median latency during the attack over the quiet one."""
        return self.during / self.quiet

    def missed(self) -> list[str]:
        """The goals that are not met, in words."""
        found = []
        if self.mebibytes >= MOST_MEBIBYTES:
            found.append(f"{self.mebibytes:.0f} MiB, below {MOST_MEBIBYTES:.0f} wanted")
        if self.ratio > MOST_RATIO and (self.proxied or not ATTACKS[self.name].by_proxy):
            found.append(f"latency {self.ratio:.1f} times the quiet one, {MOST_RATIO:.0f} at most wanted")
        if self.until_before > MOST_SECONDS:
            found.append(f"{self.until_before:.1f} s until all is as before, {MOST_SECONDS:.0f} at most wanted")
        return found


class Newcomer:
    """An honest device's way through the network, each time over a new connection and with a new submission."""

    def __init__(self, pipeline: LocalPipeline, address: str, scrapes: bool) -> None:
        self._task = pipeline.tasks[0].task
        self._address, self._tls = address, TLS(pipeline.authority)
        self._metrics = pipeline.services[Role.SHUFFLER].addresses["metrics"] if scrapes else ""

    async def begin(self) -> None:
        """Wait for the round's keys, and make what is sealed to them."""
        async with self._channel() as channel:
            caller = SubmissionCaller(channel)
            key_set = await Retrying().retry(lambda deadline: caller.get_round(self._task.id, 0, deadline))
        self._sealer, self._to = _sealer(self._task, key_set)

    def _channel(self) -> Any:
        return (HTTPSChannel if self._address.startswith(HTTPS) else open_channel)(self._address, self._tls)

    async def come(self) -> float:
        """Come once; return the seconds that it took, infinite where it was not served in time."""
        submission_id = os.urandom(SUBMISSION_ID_BYTES)
        inners = [
            self._sealer.inner(bytes(query.report_bytes), place) for place, query in enumerate(self._task.queries)
        ]
        submission = Submission(submission_id, self._sealer.outer(inners, submission_id))
        begun = time.monotonic()
        try:
            async with asyncio.timeout(DEADLINE_SECONDS), self._channel() as channel:
                caller = SubmissionCaller(channel)
                await caller.get_round(self._task.id, 0, DEADLINE_SECONDS)
                await caller.submit(self._to, submission, DEADLINE_SECONDS)
                if self._metrics:
                    await asyncio.to_thread(fetch, self._metrics)
        except (HubbubError, TimeoutError, OSError):
            return math.inf
        return time.monotonic() - begun

    async def often(self, count: int) -> list[float]:
        """Come so many times; return what each took."""
        return [await self._in_turn() for _ in range(count)]

    async def until(self, ended: asyncio.Task[None]) -> list[float]:
        """Come until that is done; return what each took."""
        found = []
        while not ended.done():
            found.append(await self._in_turn())
        return found

    async def as_before(self, slowest: float) -> float:
        """Come until all is as before; return the seconds until the first of those that were served like that."""
        begun = since = time.monotonic()
        in_a_row = 0
        while in_a_row < IN_A_ROW and time.monotonic() < begun + GIVE_UP_SECONDS:
            now = time.monotonic()
            if await self._in_turn() > slowest:
                in_a_row = 0
                continue
            since = since if in_a_row else now
            in_a_row += 1
        return since - begun if in_a_row >= IN_A_ROW else math.inf

    async def _in_turn(self) -> float:
        begun = time.monotonic()
        took = await self.come()
        await asyncio.sleep(max(0.0, begun + BETWEEN_SECONDS - time.monotonic()))
        return took


def _sealer(task: Task, key_set: KeySet) -> tuple[Sealer, Destination]:
    ours = key_set.read(task.id, 0, task.suite, task.identities.shuffler, task.identities.analyzer)
    to = Destination(task.id, 0, key_set.hash)
    return Sealer(to, ours[0].public_key, ours[1].public_key, task.hpke), to


class Watched:
    """A process with those that it started: the most memory that they had at once, and the time they had on cores."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.peak = 0.0

    @contextlib.asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """Look again and again meanwhile."""
        watching = asyncio.create_task(self._look())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        # What rose and fell between two looks, in the process itself.
        workers = sum(_mebibytes(each, "VmRSS") for each in _children(self._pid))
        self.peak = max(self.peak, _mebibytes(self._pid, "VmHWM") + workers)

    async def _look(self) -> None:
        while True:
            self.peak = max(self.peak, sum(_mebibytes(each, "VmRSS") for each in [self._pid, *_children(self._pid)]))
            await asyncio.sleep(SAMPLE_SECONDS)

    def core_seconds(self) -> float:
        """The time that they have had on cores so far."""
        return sum(_core_seconds(each) for each in [self._pid, *_children(self._pid)])


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _mebibytes(pid: int, name: str) -> float:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
    return 0.0


def _core_seconds(pid: int) -> float:
    with contextlib.suppress(OSError):
        # Behind the name, which may hold anything: user and system time are the 12th and 13th there.
        parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def tasks(identities: Identities) -> tuple[Task, Task]:
    """Two tasks that admit whoever comes: the newcomer's, and one for who fills rounds."""
    schedule = Schedule(int(time.time()), length=86_400, grace=86_400, rounds=1, close="operator")
    privacy = Privacy(epsilon=20.0, delta=1e-3, epsilon_local=20.0, honest_share=1.0)
    themes = (Histogram("theme", ("light", "dark")),)
    drafts = (Draft(name, schedule, 50, privacy, themes, OPEN) for name in ("asked", "filled"))
    asked, filled = (plan(draft).task(identities) for draft in drafts)
    return asked, filled


async def withstand(name: str, folder: Path, seconds: float, proxied: bool) -> Withstood:
    """Run an attack on a pipeline in `folder` for so many seconds; return what it did."""
    https = ATTACKS[name].https
    async with LocalPipeline(tasks, folder / "pipeline", behind_proxy=proxied, https=https) as pipeline:
        with contextlib.ExitStack() as held:
            proxy = held.enter_context(proxy_before(pipeline, folder / "proxy")) if proxied else None
            return await _attacked(name, pipeline, folder, seconds, proxy)


async def _attacked(
    name: str, pipeline: LocalPipeline, folder: Path, seconds: float, proxy: Running | None
) -> Withstood:
    address = proxy.address if proxy else pipeline.shuffler
    newcomer = Newcomer(pipeline, address, ATTACKS[name].scrapes)
    await newcomer.begin()
    quiet = await newcomer.often(QUIET)
    if not math.isfinite(max(quiet)):
        raise RuntimeError(f"newcomers are not served before the attack {name}; logs: {pipeline.logs}")
    service = Watched(pipeline.services[Role.SHUFFLER].pid or 0)
    proxying = Watched(proxy.pid) if proxy else None
    counts: dict[str, int] = {}
    # The attacker imports for a while, longer on a busy machine. That time is not counted as under attack.
    attacker = await _attacker(name, pipeline, folder, address, seconds)
    begun, cores = time.monotonic(), service.core_seconds()
    async with contextlib.AsyncExitStack() as watching:
        for each in (service, proxying):
            if each is not None:
                await watching.enter_async_context(each.watch())
        attack = asyncio.create_task(_ended(name, attacker, seconds, counts))
        during = await newcomer.until(attack)
        await attack
        took, cores = time.monotonic() - begun, service.core_seconds() - cores
        until_before = await newcomer.as_before(max(quiet))
    return Withstood(
        name=name,
        proxied=proxy is not None,
        quiet=statistics.median(quiet),
        during=statistics.median_low(during),
        served=sum(map(math.isfinite, during)) / len(during),
        mebibytes=service.peak,
        until_before=until_before,
        cores=cores / took,
        attacker_cores=counts.pop(CPU) / 1000 / took,
        proxy_mebibytes=proxying.peak if proxying else 0.0,
        counts=counts,
    )


async def _attacker(
    name: str, pipeline: LocalPipeline, folder: Path, address: str, seconds: float
) -> asyncio.subprocess.Process:
    """Start the attack as a process; return it when it begins."""
    task = folder / "filled.json"
    task.write_bytes(pipeline.tasks[1].encode())
    words = [name, "--address", address.removeprefix(HTTPS), "--authority", str(pipeline.authority)]
    words += ["--seconds", str(seconds)]
    words += ["--task", str(task), "--metrics", pipeline.services[Role.SHUFFLER].addresses["metrics"]]
    program = ("nice", "-n", "18", sys.executable, str(Path(__file__).with_name("attacks.py")))
    process = await asyncio.create_subprocess_exec(*program, *words, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    await process.stdout.readline()
    return process


async def _ended(name: str, process: asyncio.subprocess.Process, seconds: float, counts: dict[str, int]) -> None:
    """Wait until an attack ends by itself; put what it did into `counts`."""
    most = 2 * seconds + 60
    try:
        said, _ = await asyncio.wait_for(process.communicate(), most)
    except TimeoutError:
        raise RuntimeError(f"the attack {name} of {seconds:g} s did not end within {most:g} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    counts.update(json.loads(said))


def table(rows: Sequence[Withstood]) -> Table:
    """Return what attacks did as a table."""
    shown = Table("attack", "", "peak", "latency", "ratio", "served", "as before", "cores", "attacker", "goals")
    for row in rows:
        shown.add_row(
            ATTACKS[row.name].hole,
            f"proxy, {row.proxy_mebibytes:.0f} MiB" if row.proxied else "https" if ATTACKS[row.name].https else "bare",
            f"{row.mebibytes:.0f} MiB",
            f"{1000 * row.quiet:.0f} → {1000 * row.during:.0f} ms",
            f"{row.ratio:.1f}",
            f"{row.served:.0%}",
            f"{row.until_before:.1f} s",
            f"{row.cores:.2f}",
            f"{row.attacker_cores:.2f}",
            "MISSED" if row.missed() else "met",
        )
    return shown


@contextlib.contextmanager
def few_files() -> Iterator[None]:
    """Allow as many open files as many systems begin with, which services inherit; fewer stay as they are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, FILES), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack, print, and return the exit status."""
    parser = argparse.ArgumentParser(description="Attack a shuffler as strangers can, and see what holds.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long each attack lasts")
    parser.add_argument("--only", action="append", choices=ATTACKS, help="this attack; repeat for more")
    chosen_way = parser.add_mutually_exclusive_group()
    chosen_way.add_argument("--bare", action="store_true", help="without the proxy only")
    chosen_way.add_argument("--proxied", action="store_true", help="behind the proxy only")
    chosen = parser.parse_args(arguments)
    console, rows = Console(highlight=False, width=150), []
    for name in chosen.only or ATTACKS:
        ways = [False] * (not chosen.proxied) + [True] * (not (chosen.bare or ATTACKS[name].https))
        for proxied in ways:
            with tempfile.TemporaryDirectory(prefix="hubbub-withstand-") as folder, few_files():
                rows.append(asyncio.run(withstand(name, Path(folder), chosen.seconds, proxied)))
            where = f"{name}, {'behind the proxy' if proxied else 'bare'}"
            did = ", ".join(f"{count} {what}" for what, count in sorted(rows[-1].counts.items()))
            console.print(f"{where}: {'; '.join(rows[-1].missed()) or 'all goals met'} ({did})", soft_wrap=True)
    console.print(table(rows))
    console.print(f"{os.cpu_count()} cores, of which each column says how many were at work for whom")
    return 1 if any(row.missed() for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
