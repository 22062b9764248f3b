"""Runs a cluster on this machine: stores in PostgreSQL, front ends, a leader and a standby, and Spark if installed."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path

from hubbub.deploy.init.folders import LOOPBACK
from hubbub.deploy.init.frontends import add_frontend
from hubbub.deploy.init.hops import change
from hubbub.deploy.local.databases import Databases
from hubbub.deploy.local.pipeline import CALL_SECONDS, MOST_ENROLLMENTS, Freeze, LocalPipeline
from hubbub.deploy.local.ports import SETTINGS, kept_address, known_address
from hubbub.deploy.local.process import ServiceError, ServiceProcess
from hubbub.deploy.pki.authority import Authority
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.keys import Role
from hubbub.protos.task.task import Draft
from hubbub.protos.transport.channels import open_channel
from hubbub.service.settings import SparkSettings
from hubbub.service.spark.session import check_installed
from hubbub.service.transport.health import is_serving
from hubbub.shuffler import settings as shuffler
from hubbub.shuffler.stores.factory import create_store

STANDBY = "standby"
"""The folder and the log of the shuffler that is the standby at first."""

STANDING_BY_SECONDS = 7 * 86_400.0
"""How long a process may be a standby."""

FOLLOWING_SECONDS = 300.0
"""How long a standby may take until it has everything of the leader's keyring."""

LOOK_SECONDS = 0.05
"""How often the standby's log is checked meanwhile."""

FOLLOWS = "the keyring was copied"
"""A standby's log event once it follows; from then on the leader answers only after the standby has each change."""

LOCAL_SPARK = "local[2]"
"""Spark's master: two of this machine's cores."""

SPARK_FROM = 50_000
"""Devices from which on batches go to Spark, whose sessions take some twenty seconds to begin and end."""


def spark_missing(devices: int) -> str:
    """Return why Spark is not used for that many devices, and the remedy; empty if it is used."""
    try:
        check_installed(SparkSettings(master=LOCAL_SPARK))
    except HubbubError as error:
        return str(error).removeprefix("spark.master is set, but ")
    if devices < SPARK_FROM:
        return f"Spark is used from {SPARK_FROM:,} devices on: --devices all"
    return ""


class LocalCluster(LocalPipeline):
    """A `LocalPipeline` on PostgreSQL, with front ends, a leader and its standby.

    The leader keeps the rounds; the standby follows its keyring, and calls are answered only once both disks have the
    change. `fail_over` kills the leader. Devices know the addresses of all front ends.

    Args:
        draft: as for `LocalPipeline`.
        directory: the folder for everything; it also has `parties/standby` and the front ends' folders.
        databases: the two empty databases of the stores.
        hops: how many shufflers there are in the chain.
        frontends: how many processes answer devices.
        spark_from: batches of so many envelopes and more are mixed and opened on Spark, in local mode; None for none.

    Raises:
        ServiceError: as of a pipeline, and if the standby does not follow.
    """

    def __init__(
        self,
        draft: Draft | str | Freeze,
        directory: Path | None = None,
        *,
        databases: Databases,
        hops: int = 1,
        spark_from: int | None = None,
        frontends: int = 2,
    ) -> None:
        super().__init__(draft, directory, hops=hops, database=databases.shuffler)
        self._leaders = [known_address(), known_address()]
        self._names = [f"frontend-{number + 1}" for number in range(frontends)]
        self._databases = databases
        self._spark_from = spark_from

    def _place_stores(self) -> None:
        super()._place_stores()
        self._set(Role.ANALYZER, "store", self._databases.analyzer)
        self._set(Role.SHUFFLER, "role", "leader")
        self._set(Role.SHUFFLER, "leader_listen", self._leaders[0])
        # From the start, so that a replaced leader follows the other without a restart.
        change(self.folder.of(Role.SHUFFLER) / "shuffler.toml", "leaders", self._leaders[1:])
        self._set(Role.SHUFFLER, "standbys", 1)
        if self._spark_from is not None:
            for party in (Role.SHUFFLER, Role.ANALYZER):
                self._set(party, "master", LOCAL_SPARK)
                self._set(party, "minimum_envelopes", self._spark_from)

    async def _start(self) -> None:
        await super()._start()
        first = self.folder.of(Role.SHUFFLER)
        folder = first.with_name(STANDBY)
        # It signs as the same shuffler, but has its own keyring, which follows.
        shutil.copytree(first, folder, ignore=shutil.ignore_patterns("data"))
        settings = folder / "shuffler.toml"
        for name in SETTINGS[Role.SHUFFLER].values():
            change(settings, name, kept_address())
        change(settings, "leader_listen", self._leaders[1])
        change(settings, "leaders", self._leaders[:1])
        await asyncio.to_thread(create_store, shuffler.load(settings))
        log = self.logs / f"{STANDBY}.log"
        self._standby = ServiceProcess("shuffler", settings, log, timeout=STANDING_BY_SECONDS)
        self._stack.push_async_callback(self._standby.stop)
        # The standby is stopped first, since it would take over otherwise.
        self._stack.push_async_callback(self._end_standby)
        await self._stand_by()
        await self._replicate()

    async def _replicate(self) -> None:
        """Make the front ends' folders, and start them."""
        operator = self.folder.of(Role.OPERATOR)
        authority = Authority.load(operator / "authority.key", operator / "tls" / "authority.pem")
        self._frontends = []
        for name in self._names:
            settings = add_frontend(
                self.folder.root, name, authority, LOOPBACK, self._databases.shuffler, self._leaders
            )
            for key in ("listen", "metrics_listen"):
                change(settings, key, kept_address())
            for key, number in (("enrollments_per_second", MOST_ENROLLMENTS), ("count_step", 1)):
                change(settings, key, number)
            self._frontends.append(ServiceProcess("shuffler", settings, self.logs / f"{name}.log"))
            # Stopped before the leader and the standby, which they call.
            self._stack.push_async_callback(self._frontends[-1].stop)
        await asyncio.gather(*(frontend.start() for frontend in self._frontends))

    @property
    def shuffler(self) -> str:
        """The address at which devices of the task submit: those of all front ends."""
        return ",".join(frontend.addresses["submission"] for frontend in self._frontends)

    async def _stand_by(self) -> None:
        """Start the standby, and wait until it has everything of the leader's keyring."""
        known = await asyncio.to_thread(_follows, self._standby.log)
        self._taking_over = asyncio.create_task(self._standby.start())
        try:
            async with asyncio.timeout(FOLLOWING_SECONDS):
                while await asyncio.to_thread(_follows, self._standby.log) == known:
                    if self._taking_over.done():
                        self._taking_over.result()
                        raise ServiceError(f"the standby has taken over, but the leader still runs; logs: {self.logs}")
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError as error:
            raise ServiceError(
                f"the standby had not copied the leader's keyring after {FOLLOWING_SECONDS:.0f} s; logs: {self.logs}"
            ) from error

    async def _end_standby(self) -> None:
        if not self._taking_over.done():
            self._taking_over.cancel()
            await asyncio.gather(self._taking_over, return_exceptions=True)
        await self._standby.stop()

    async def fail_over(self) -> None:
        """Kill the leader like a crash, and wait until the standby serves; the killed process then becomes a standby.

        Raises:
            ServiceError: if the standby does not take over.
        """
        killed = self.services[Role.SHUFFLER]
        await killed.kill()
        await self._taking_over
        leader = self._standby
        async with open_channel(leader.addresses["control"], self.operator_tls) as channel:
            if not await is_serving(channel, CALL_SECONDS):
                raise ServiceError(
                    "the standby has taken over, but its health check does not report SERVING; see its log"
                )
        self.services[Role.SHUFFLER], self._standby = leader, killed
        killed.timeout = STANDING_BY_SECONDS
        await self._stand_by()


def _follows(log: Path) -> int:
    """Count how often the standby in a log has begun to follow."""
    with contextlib.suppress(FileNotFoundError):
        return log.read_text("utf-8", "replace").count(FOLLOWS)
    return 0
