"""Real shufflers on one database, killed and stopped; a standby goes on with the round."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from unit.shuffler.workers.test_supervisor import workers_of

from hubbub.client import Device
from hubbub.deploy.init.hops import change
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.local.ports import SETTINGS, kept_address
from hubbub.deploy.local.process import ServiceProcess
from hubbub.protos.errors import Unreachable
from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.identity.successions import Succession
from hubbub.protos.messages import RoundState
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import open_channel
from hubbub.queries.questions.histogram import Histogram
from support import postgres
from support.cli import hubbub
from support.patience import CALL_SECONDS, PATIENCE, pause
from support.thoroughness import usually

DEVICES, OPENED = usually(40, 100), usually(15, 40)


def draft() -> Draft:
    schedule = Schedule(int(time.time()), length=3600, grace=60, rounds=1, close="operator")
    return Draft("kiosks", schedule, DEVICES, Privacy(8.0, 1e-3, 16.0), (Histogram("theme", ("light", "dark")),))


class Pair:
    """The pipeline's shuffler and a second one, that keep the same rounds in turn."""

    def __init__(self, pipeline: LocalPipeline) -> None:
        self.pipeline = pipeline
        first = pipeline.folder.of(Role.SHUFFLER)
        self.folders = [first, first.with_name("standby")]
        shutil.copytree(first, self.folders[1], ignore=shutil.ignore_patterns("data"))
        addresses = [kept_address(), kept_address()]
        for folder, own, other in zip(self.folders, addresses, addresses[::-1], strict=True):
            change(folder / "shuffler.toml", "leader_listen", own)
            change(folder / "shuffler.toml", "leaders", [other])
        for name in SETTINGS[Role.SHUFFLER].values():
            # Ports that stay: it opens them anew each time that it begins to act, or to stand by.
            change(self.folders[1] / "shuffler.toml", name, kept_address())
        standby = self.folders[1] / "shuffler.toml"
        assert "keyring" in hubbub("shuffler", standby, "--create-store").out
        self.services = [
            pipeline.services[Role.SHUFFLER],
            ServiceProcess("shuffler", standby, pipeline.logs / "standby.log"),
        ]
        for service in self.services:
            service.timeout = PATIENCE  # whoever stands by serves once the other has ended

    async def start(self, which: int) -> None:
        """Start one, and wait until it keeps the rounds."""
        await self.services[which].start()

    async def submit(self, which: int, names: Iterable[str]) -> None:
        for name in names:
            async with self.device(which, name) as device:
                await device.submit({"theme": "dark"}, timeout=PATIENCE)

    def device(self, which: int, name: str) -> Device:
        pipeline = self.pipeline
        return Device(
            pipeline.task.encode(),
            operator_key=pipeline.operator_key,
            shuffler_key=pipeline.shuffler_key,
            state=pipeline.folder.of("client") / f"{name}.db",
            shuffler=self.services[which].addresses["submission"],
            authority=pipeline.authority,
            ticket=pipeline.ticket(name),
        )

    def caller(self, which: int):  # type: ignore[no-untyped-def]
        return open_channel(self.services[which].addresses["control"], self.pipeline.operator_tls)

    async def held(self, which: int) -> int:
        async with self.caller(which) as channel:
            (status,) = await ControlCaller(channel).get_status(None, CALL_SECONDS)
        return status.submissions

    async def follows(self, which: int, times: int) -> None:
        """Return once the other one's keyring is a member so often."""
        log = self.services[which].log
        while (await asyncio.to_thread(log.read_text)).count("a standby has everything") < times:
            assert self.services[which].pid is not None
            await pause()

    async def stands_by(self, which: int) -> None:
        """Return once one that was replaced says so."""
        async with self.caller(which) as channel:
            refused = None
            while refused is None:
                try:
                    await ControlCaller(channel).get_status(None, CALL_SECONDS)
                except Refusal as refusal:
                    refused = refusal.reason
                except Unreachable:
                    pass  # its port is being opened
                await pause()
        assert refused is Reason.NOT_READY


# test_kills_at_any_moment.py kills leaders beside a standby, and tests/unit/shuffler/cluster/test_failover.py has
# whoever is replaced stand by.
@pytest.mark.exhaustive
@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.exhaustive), 2])
async def test_a_standby_goes_on_with_a_round_whose_leader_was_killed_or_stopped(tmp_path: Path, workers: int) -> None:
    names, database = [f"device {number}" for number in range(DEVICES)], postgres.new_database()
    async with LocalPipeline(draft(), tmp_path / "pipeline", database=database, workers=workers) as pipeline:
        await pipeline.stop(Role.SHUFFLER)
        pair = Pair(pipeline)
        try:
            await pair.start(0)
            second = asyncio.create_task(pair.start(1))
            await pair.follows(0, 1)
            await pair.submit(0, names[:OPENED])
            # Killed while the round is open: the standby has its keys, and holds on.
            await pair.services[0].kill()
            await second
            assert await pair.held(1) == OPENED
            await pair.submit(1, names[OPENED : 2 * OPENED])
            first = asyncio.create_task(pair.start(0))
            await pair.follows(1, 1)
            # Stopped: the server frees its lock. Woken, it is fenced, and stands by.
            pid = pair.services[1].pid
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
            await first
            assert await pair.held(0) == 2 * OPENED
            await pair.submit(0, names[2 * OPENED :])
            os.kill(pid, signal.SIGCONT)
            await pair.stands_by(1)
            # Nobody is answered by what it had started.
            assert not workers_of(pid)
            assert await pair.held(0) == DEVICES
            await pair.follows(0, 2)
            # Killed while the batch waits for the analyzer: the standby delivers it.
            await pipeline.stop(Role.ANALYZER)
            async with pair.caller(0) as channel:
                await ControlCaller(channel).close_round(pipeline.task.task.id, 0, CALL_SECONDS)
                state = RoundState.CUT
                while state is RoundState.CUT:
                    state = (await ControlCaller(channel).get_status(None, CALL_SECONDS))[0].state
                    await pause()
                assert state is RoundState.MIXED
            await pair.services[0].kill()
            await pipeline.start(Role.ANALYZER)
            pipeline.services[Role.SHUFFLER] = pair.services[1]
            found = await pipeline.results()
            path = tmp_path / "certificate.json"
            path.write_bytes(found.certificate)
            verified = hubbub("verify", path, "--json").json
            assert verified["verified"]
            assert [each.reports for each in found.queries] == [DEVICES]
        finally:
            await pair.services[1].stop()


# tests/unit/shuffler/cluster has each part of it: test_readiness.py and test_failover.py.
@pytest.mark.exhaustive
async def test_a_standby_without_the_next_private_key_says_so_before_its_turn(tmp_path: Path) -> None:
    several = replace(draft(), schedule=replace(draft().schedule, rounds=3))
    async with LocalPipeline(several, tmp_path / "pipeline", database=postgres.new_database()) as pipeline:
        await pipeline.stop(Role.SHUFFLER)
        pair = Pair(pipeline)
        new, old = Identity.generate(), Identity.load(pipeline.folder.identity(Role.SHUFFLER))
        operator = Identity.load(pipeline.folder.identity(Role.OPERATOR))
        begins = int(time.time()) + 1800  # before the last round is prepared
        made = Succession(Role.SHUFFLER, old.public, new.public, operator.public, begins)
        for signer in (old, new, operator):
            made = made.signed_by(signer)
        for folder in pair.folders:
            (folder / "successions" / "next.json").write_bytes(made.encode())
        new.save(pair.folders[0] / "identity-next.pem")
        try:
            await pair.start(0)
            second, log = asyncio.create_task(pair.start(1)), pair.services[1].log
            told = ""
            while "cannot take over" not in told:
                told = await asyncio.to_thread(log.read_text) if log.exists() else ""
                assert not second.done()
                await pause()
            assert f"the private key of {new.public.hex()[:16]}" in told
            assert "cannot take over" not in pair.services[0].log.read_text()
        finally:
            second.cancel()
            await pair.services[1].stop()
