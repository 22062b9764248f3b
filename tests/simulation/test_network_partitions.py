"""The network between front ends, leaders and PostgreSQL is parted at drawn moments while devices submit.

All count once.

Real processes, and a cable of their own for each way between them. What is on its way when a cable is cut arrives when
it is healed: a statement of a leader may come when another has long taken over.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest
from simulation.test_kills_at_any_moment import AT_A_TIME, DEVICES, closed, counted, draft

from hubbub.deploy.init.hops import change
from hubbub.deploy.local.cluster import LocalCluster
from hubbub.deploy.local.databases import Databases, new_databases
from hubbub.protos.identity.keys import Role
from hubbub.service.postgres.outage import WAIT_SECONDS
from hubbub.shuffler.stores.postgres.replication.leadership import LEASE_SECONDS, LOOK_SECONDS
from support import partitionable_links
from support.cli import hubbub
from support.partitionable_links import Cable
from support.patience import PATIENCE
from support.postgres import OwnServer

SOCKET = ".s.PGSQL.5432"
TAKEOVER_SECONDS = LEASE_SECONDS + 2 * LOOK_SECONDS + WAIT_SECONDS
"""The longest time from a leader's last sign to a standby's term, if the standby reaches a server that answers."""

SECONDS = (0.3, 3.0, TAKEOVER_SECONDS + 3.0)
"""How long a way may be cut: too short for anybody to notice, long enough for calls to fail, and for a takeover."""

FRONTENDS = ("frontend-1", "frontend-2")
LEADERS = (Role.SHUFFLER.value, "standby")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name, as those of sockets must have."""
    folder = Path(tempfile.mkdtemp(prefix="hubbub-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def server() -> Iterator[OwnServer]:
    server = OwnServer()
    yield server
    server.close()


class Ways:
    """A cable from each process to PostgreSQL, and from each front end and leader to each other leader."""

    def __init__(self, folder: Path, databases: Databases) -> None:
        self._folder, self._databases = folder, databases
        self._stack = contextlib.AsyncExitStack()
        self.cables: dict[tuple[str, str], Cable] = {}
        self.leaders: dict[str, list[str]] = {}
        """Where each process reaches leaders."""

    async def __aenter__(self) -> Ways:
        for who in (*LEADERS, *FRONTENDS):
            (self._folder / who).mkdir()
            real = Path(urlsplit(self._databases.shuffler).query.removeprefix("host=")) / SOCKET
            opened = partitionable_links.to_socket(real, self._folder / who / SOCKET)
            self.cables[who, "store"] = await self._stack.enter_async_context(opened)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def store(self, who: str) -> str:
        """The shuffler's database by that process's own way."""
        address = urlsplit(self._databases.shuffler)
        return address._replace(query=f"host={self._folder / who}").geturl()

    async def lay(self, leaders: list[str]) -> None:
        """Lay cables from each process to the leaders at these addresses, besides itself."""
        for who in (*LEADERS, *FRONTENDS):
            self.leaders[who] = []
            for leader, address in zip(LEADERS, leaders, strict=True):
                if leader != who:
                    opened = partitionable_links.to_port(address)
                    self.cables[who, leader], begins = await self._stack.enter_async_context(opened)
                    self.leaders[who].append(begins)


class Cabled(LocalCluster):
    """A cluster whose processes reach each other by cables."""

    def __init__(self, directory: Path, databases: Databases, ways: Ways) -> None:
        super().__init__(draft(), directory, databases=databases)
        self._ways = ways

    async def _start(self) -> None:
        await self._ways.lay(self._leaders)
        await super()._start()

    def _place_stores(self) -> None:
        super()._place_stores()
        self._by_cables(self.folder.of(Role.SHUFFLER) / "shuffler.toml", LEADERS[0])

    async def _stand_by(self) -> None:
        self._by_cables(self.folder.root / LEADERS[1] / "shuffler.toml", LEADERS[1])
        await super()._stand_by()

    async def _replicate(self) -> None:
        await super()._replicate()
        for who, frontend in zip(FRONTENDS, self._frontends, strict=True):
            await frontend.stop()
            change(frontend._settings, "listen", frontend.addresses["submission"])
            self._by_cables(frontend._settings, who)
            await frontend.start()

    def _by_cables(self, settings: Path, who: str) -> None:
        change(settings, "store", self._ways.store(who))
        change(settings, "leaders", self._ways.leaders[who])


def parted(ways: Ways) -> list[list[Cable]]:
    """What is cut at once: the ways of a process to the database, to leaders, or both; the first leader's, from all."""
    found = [[ways.cables[who, "store"]] for who in (*LEADERS, *FRONTENDS)]
    found += [[ways.cables[who, leader] for leader in LEADERS] for who in FRONTENDS]
    found.append([ways.cables[LEADERS[0], LEADERS[1]], ways.cables[LEADERS[1], LEADERS[0]]])
    found += [[cable for (who, _to), cable in ways.cables.items() if who == each] for each in FRONTENDS]
    found.append([cable for way, cable in ways.cables.items() if LEADERS[0] in way])
    return found


@contextlib.asynccontextmanager
async def cut(partitionable_links: list[Cable]) -> AsyncIterator[None]:
    for cable in partitionable_links:
        cable.cut()
    try:
        yield
    finally:
        for cable in partitionable_links:
            cable.heal()


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
async def test_whichever_way_is_cut_and_whenever_everybody_counts_once(
    tmp_path: Path, folder: Path, server: OwnServer, seed: int
) -> None:
    random, names = Random(seed), iter([f"device {number}" for number in range(DEVICES)])
    acknowledged, changed = [0], asyncio.Condition()
    with new_databases(server.address) as databases:
        async with (
            asyncio.timeout(PATIENCE),
            Ways(folder, databases) as ways,
            Cabled(tmp_path / "pipeline", databases, ways) as cluster,
        ):
            leaders = [cluster.services[Role.SHUFFLER], cluster._standby]

            async def people() -> None:
                for name in names:
                    async with cluster.device(name) as device:
                        await device.submit({"theme": "dark"}, timeout=PATIENCE)
                    async with changed:
                        acknowledged[0] += 1
                        changed.notify_all()

            async def harmed() -> None:
                ways_cut = random.sample(parted(ways), 5)
                moments = sorted(random.sample(range(1, DEVICES - AT_A_TIME), len(ways_cut)))
                for moment, some in zip(moments, ways_cut, strict=True):
                    async with changed:
                        await changed.wait_for(lambda moment=moment: acknowledged[0] >= moment)
                    async with cut(some):
                        # Not to wait for anything: so long they are cut.
                        await asyncio.sleep(random.choice(SECONDS))

            await asyncio.gather(harmed(), *(people() for _ in range(AT_A_TIME)))
            status = await closed(cluster, leaders)
            assert status.submissions == DEVICES
            found = await counted(cluster)
    assert b'"reports":80' in found.certificate.replace(b" ", b"")
    path = tmp_path / "certificate.json"
    path.write_bytes(found.certificate)
    assert (await asyncio.to_thread(hubbub, "verify", path, "--json")).json["verified"]
