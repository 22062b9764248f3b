"""Real stages and real files, which die at named points and go on from what is on disk.

A point is named by what a process does there: "before COMMIT", "after INSERT known", "after answering submit". The
production code knows none of them: they are in the connection to the database and in the network, both handed in.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from simulation.virtual import Killed, LoopCommits
from unit.analyzer.conftest import quick_statement

from hubbub.analyzer import server as analyzer_server
from hubbub.analyzer.certifier import Certifier
from hubbub.analyzer.receiver import BatchReceiver
from hubbub.analyzer.results import Results
from hubbub.analyzer.stores.sqlite import AnalyzerSqliteStore as AnalyzerStore
from hubbub.protos.sealing.suites import Suite
from hubbub.service.observability.incidents import Incidents
from hubbub.service.processes.opening_pool import OpeningPool
from hubbub.service.receiving.delivery_service import sweep
from hubbub.shuffler.admit.admission import AdmissionHandler
from hubbub.shuffler.admit.credentials import Credentials
from hubbub.shuffler.admit.enrollment import EnrollmentControl, Rate
from hubbub.shuffler.admit.load_shedding import LoadShedder
from hubbub.shuffler.admit.openers import Openers
from hubbub.shuffler.rounds.control import Control
from hubbub.shuffler.rounds.lifecycle import RoundLifecycle
from hubbub.shuffler.stores.sqlite import ShufflerSqliteStore
from support.store_contents import store_in

if TYPE_CHECKING:
    from simulation.world import Simulation

T = TypeVar("T")

QUEUE = 16
"""Submissions in work at once at the simulated shuffler: so few that they are opened without processes."""

_CHANGE = re.compile(
    r"\s*(?:(BEGIN|COMMIT|VACUUM|UPDATE)\b|(INSERT|DELETE)\s.*?(?:INTO|FROM)\s+(\w+)|PRAGMA\s+(wal_checkpoint))",
    re.DOTALL,
)
"""Statements that a full disk fails, and around which a process may be killed."""


class Life:
    """One run of a party's process, from its start until it is stopped or killed."""

    def __init__(self, party: Party, folder: Path) -> None:
        self.party = party
        self.folder = folder
        self.alive = True
        self.gone = asyncio.Event()
        self.connections: list[sqlite3.Connection] = []
        self.store: ShufflerSqliteStore | AnalyzerStore | None = None
        self.tasks: set[asyncio.Task[Any]] = set()
        self.burial: list[Callable[[], Any]] = []

    def reach(self, point: str) -> None:
        """Be killed here if that was asked for. A killed process goes nowhere."""
        if not self.alive:
            raise Killed
        if self.party.is_due(point):
            self.party.kill()
            raise Killed

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin something that ends with the process."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()

    async def unless_killed(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work of this process.

        Raises:
            Killed: where the process is killed meanwhile.
        """
        task, gone = self.spawn(work), asyncio.ensure_future(self.gone.wait())
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if self.gone.is_set():
                raise Killed
            return task.result()
        finally:
            task.cancel()
            gone.cancel()

    def statement(self, sql: str, work: Callable[[], T]) -> T:
        """Do a statement between two points."""
        verb = named(sql)
        if verb is not None:
            self.reach(f"before {verb}")
            if self.party.full:
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            result = work()
            self.reach(f"after {verb}")
            return result
        return work()


def named(sql: str) -> str | None:
    """The name of the point at which a statement changes files; None where it does not."""
    match = _CHANGE.match(sql)
    return " ".join(part for part in match.groups() if part) if match else None


def watched(life: Life) -> type[sqlite3.Connection]:
    """Return a connection whose every change of the file stands between two points of that life."""

    class Watched(sqlite3.Connection):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            life.connections.append(self)

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            return life.statement(sql, lambda: super(Watched, self).execute(sql, *values))

        def executemany(self, sql: str, values: Iterable[Any]) -> sqlite3.Cursor:
            return life.statement(sql, lambda: super(Watched, self).executemany(sql, values))

        def executescript(self, script: str) -> sqlite3.Cursor:
            return life.statement(script, lambda: super(Watched, self).executescript(script))

    return Watched


class Party:
    """Somebody with a process and files. `skew` (seconds) is how far its clock is ahead.

    `passed` counts how often it came to points at which it was to be killed then.
    """

    def __init__(self, name: str, folder: Path, world: Simulation) -> None:
        self.name = name
        self.world = world
        self.skew = 0.0
        self.full = False
        self.life: Life | None = None
        self.reached: Counter[str] = Counter()
        self.killed_at: list[str] = []
        self.passed = 0
        self._due: tuple[str, int] | None = None
        self._base = folder
        self._lives = 0
        self.folder = folder / "0"
        self.folder.mkdir(parents=True, mode=0o700)

    def clock(self) -> float:
        """This party's clock, seconds since 1970."""
        return self.world.now() + self.skew

    def is_due(self, point: str) -> bool:
        """Count a point, and return whether the process is to be killed at it."""
        self.reached[point] += 1
        if self._due is None or self._due[0] != point:
            return False
        self._due = (point, self._due[1] - 1)
        self.passed += 1
        if self._due[1] > 0:
            return False
        self.killed_at.append(point)
        return True

    def kill_at(self, point: str, occurrence: int) -> None:
        """Have the process killed when it comes to a point for that many times more."""
        self._due = (point, occurrence)

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self.life is not None

    async def start(self) -> None:
        """Start the process, on the files as they are; killed in the start, it is not running."""
        if self.life is not None:
            return
        self.life = life = Life(self, self.folder)
        try:
            await life.unless_killed(self._begin(life))
        except Killed:
            return
        except Exception:
            self.life = None
            await self._bury(life)
            if not self.full:
                raise

    def kill(self) -> None:
        """End the process at once; what it wrote stays, what it was about to do is not done."""
        life, self.life = self.life, None
        if life is None:
            return
        self._due = None
        self._lives += 1
        self.folder = self._base / str(self._lives)
        self.folder.mkdir(mode=0o700)
        for path in life.folder.iterdir():
            if not path.name.endswith(("-shm", "lock")):
                shutil.copy(path, self.folder / path.name)
        life.alive = False
        life.gone.set()
        self.world.killed(self)
        self.world.later(self._bury(life))

    async def stop(self) -> None:
        """Stop the process as its operator would, if it runs."""
        life = self.life
        if life is None:
            return
        try:
            await life.unless_killed(self._end(life))
        except Killed:
            return
        self.life = None
        life.gone.set()
        if self.full:
            # What waited for room on the disk went with the process.
            self.world.killed(self)
        await self._bury(life)

    async def _bury(self, life: Life) -> None:
        """Give back what a process held that runs no more."""
        life.alive = False
        tasks = list(life.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for rite in life.burial:
            await rite()
        for connection in life.connections:
            connection.close()
        if life.store is not None:
            life.store._database._opened.close()

    async def _begin(self, life: Life) -> None:
        raise NotImplementedError

    async def _end(self, life: Life) -> None:
        raise NotImplementedError

    def files(self) -> bytes:
        """Everything in this party's files."""
        return b"".join(path.read_bytes() for path in sorted(self.folder.iterdir()))


class ShufflerParty(Party):
    """The shuffler's stages."""

    store: ShufflerSqliteStore

    async def _begin(self, life: Life) -> None:
        world, task = self.world, self.world.task
        tasks = {task.id: task}
        self.store = life.store = store_in(
            ShufflerSqliteStore, life.folder, connection=watched(life), commits=LoopCommits
        )
        self.openers = Openers(1)
        line = world.delivery_line(life)
        identity = world.parties.shuffler
        self.rounds = RoundLifecycle(
            tasks, self.store, identity, line, "analyzer:1", clock=self.clock, random=world.random
        )
        credentials = Credentials()
        self.admission = AdmissionHandler(
            tasks,
            self.store,
            self.openers,
            self.clock,
            LoadShedder(QUEUE),
            credentials,
            damaged=self.rounds.damaged_keys,
        )
        signers = [world.parties.operator.public], [identity.public]
        rate = Rate(1000.0, self.clock)
        self.enrollment = EnrollmentControl(credentials, self.store, *signers, self.clock, rate, world.random)
        self.control = Control(tasks, self.store, self.rounds, self.clock, self.enrollment)
        life.burial += [self.rounds.stop, self.openers.close]
        await self.enrollment.start()
        await self.rounds.start()

    async def _end(self, _life: Life) -> None:
        await self.rounds.stop()
        self.store.close()


class AnalyzerParty(Party):
    """The analyzer's stages."""

    store: AnalyzerStore

    async def _begin(self, life: Life) -> None:
        world = self.world
        signed = {world.task.id: world.signed}
        self.store = life.store = store_in(AnalyzerStore, life.folder, connection=watched(life), commits=LoopCommits)
        await self.store.add_tasks(signed.values())
        await analyzer_server.check_store(self.store)
        certifier = Certifier(world.parties.analyzer, self.store, quick_statement)
        self.receiver = BatchReceiver(
            signed,
            world.parties.analyzer,
            self.store,
            OpeningPool(1),
            committed=certifier.start,
            new_key=self._new_key,
        )
        self.certifier = certifier
        self.results = Results(self.store, certifier, signed)
        life.spawn(sweep(self.store, self.clock, Incidents(), certifier.start))

    def _new_key(self, suite: Suite) -> tuple[bytes, bytes]:
        pair = suite.generate_key()
        self.world.secrets.append(pair[0])
        return pair

    async def _end(self, _life: Life) -> None:
        self.results.close()
        await self.certifier.settle()
        self.store.close()
