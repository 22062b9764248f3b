"""A second leader that somebody set up by hand, from a copy of the first one's folder, on the same store.

Only one acts at a time; and a keyring that is an old copy never takes over, since it has forgotten who was revoked.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from simulation.test_failover import draft

from hubbub.client import Refusal
from hubbub.deploy.init.hops import change
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.local.ports import SETTINGS, kept_address
from hubbub.deploy.local.process import ServiceError, ServiceProcess
from hubbub.protos.enrollment.tickets import Ticket
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import CredentialAction
from hubbub.protos.refusals import Reason
from hubbub.protos.rpc import ControlCaller
from hubbub.protos.transport.channels import open_channel
from support import postgres
from support.messages import FOLDER_IN_USE
from support.patience import CALL_SECONDS, PATIENCE, pause


def second_of(pipeline: LocalPipeline, name: str = "second") -> ServiceProcess:
    """The shuffler's whole folder, copied as it is now, with ports of its own."""
    first = pipeline.folder.of(Role.SHUFFLER)
    folder = first.with_name(name)
    shutil.copytree(first, folder)
    for setting in SETTINGS[Role.SHUFFLER].values():
        change(folder / "shuffler.toml", setting, kept_address())
    return ServiceProcess("shuffler", folder / "shuffler.toml", pipeline.logs / f"{name}.log", timeout=PATIENCE)


async def said(service: ServiceProcess, text: str) -> str:
    """Return a service's log once it has this text."""
    while text not in (log := await asyncio.to_thread(service.log.read_text) if service.log.exists() else ""):
        await pause()
    return log


async def revoke(pipeline: LocalPipeline, name: str) -> None:
    async with open_channel(pipeline.services[Role.SHUFFLER].addresses["control"], pipeline.operator_tls) as channel:
        device = Ticket.decode(pipeline.ticket(name)).device
        caller = ControlCaller(channel)
        assert (await caller.manage_credentials(CredentialAction.REVOKE, [device], CALL_SECONDS)).revoked


async def submit(pipeline: LocalPipeline, name: str) -> Reason | None:
    async with pipeline.device(name) as device:
        try:
            await device.submit({"theme": "dark"}, timeout=PATIENCE)
        except Refusal as refusal:
            return refusal.reason
    return None


async def test_of_two_shufflers_on_one_folder_the_second_does_not_start(tmp_path: Path) -> None:
    async with LocalPipeline(draft(), tmp_path / "pipeline") as pipeline:
        settings = pipeline.folder.of(Role.SHUFFLER) / "second.toml"
        shutil.copy(settings.with_name("shuffler.toml"), settings)
        for setting in SETTINGS[Role.SHUFFLER].values():
            change(settings, setting, kept_address())
        second = ServiceProcess("shuffler", settings, pipeline.logs / "second.log")
        with pytest.raises(ServiceError, match=f"is {FOLDER_IN_USE}; stop it, or name another folder"):
            await second.start()
        assert await submit(pipeline, "somebody") is None


# test_replication.py has the same of two keyrings in one process.
@pytest.mark.exhaustive
@pytest.mark.parametrize("running", [False, True], ids=["copied while it was stopped", "copied while it ran"])
async def test_a_second_leader_with_an_old_copy_of_the_keyring_stands_by_and_never_takes_over(
    tmp_path: Path, running: bool
) -> None:
    database = postgres.new_database()
    async with asyncio.timeout(PATIENCE), LocalPipeline(draft(), tmp_path / "pipeline", database=database) as pipeline:
        assert await submit(pipeline, "lost") is None
        if not running:
            await pipeline.stop(Role.SHUFFLER)
        second = second_of(pipeline)
        if not running:
            await pipeline.start(Role.SHUFFLER)
        starting = asyncio.create_task(second.start())
        try:
            await said(second, "standing by")
            # What the copy does not know: a device that is admitted no more, and one that is new.
            await revoke(pipeline, "lost")
            assert await submit(pipeline, "new") is None
            await pipeline.kill(Role.SHUFFLER)
            log = await said(second, "so it does not take over")
            assert "acting as the leader" not in log
            assert not starting.done()
            # The first one has everything, and goes on.
            await pipeline.start(Role.SHUFFLER)
            assert await submit(pipeline, "another") is None
            (status,) = await pipeline.status()
            assert status.submissions == 3
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await second.stop()
