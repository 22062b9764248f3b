"""Real processes answer devices by both servers; they and the shuffler are killed at drawn moments."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import httpx2
import pytest
from unit.shuffler.workers.test_supervisor import workers_of

from hubbub.client import Device
from hubbub.client.submit import Retrying, RetryPolicy
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.enrollment.tickets import Ticket
from hubbub.protos.errors import Unreachable
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import CredentialAction
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.queries.questions.histogram import Histogram
from support import postgres
from support.cli import hubbub
from support.patience import CALL_SECONDS, PATIENCE
from support.samples import make_tls
from support.thoroughness import thinned

WORKERS, DEVICES, AT_A_TIME = 2, 80, 4


def draft(devices: int = DEVICES) -> Draft:
    schedule = Schedule(int(time.time()), length=3600, grace=60, rounds=1, close="operator")
    return Draft("kiosks", schedule, devices, Privacy(8.0, 1e-3, 16.0), (Histogram("theme", ("light", "dark")),))


def device(pipeline: LocalPipeline, name: str, by: str, policy: RetryPolicy | None = None) -> Device:
    address = pipeline.services[Role.SHUFFLER].addresses[by]
    public = by == "https" and isinstance(pipeline, WithPublicCertificate)
    return Device(
        pipeline.task.encode(),
        operator_key=pipeline.operator_key,
        shuffler_key=pipeline.shuffler_key,
        state=pipeline.folder.of("client") / f"{name}.db",
        shuffler=f"https://{address}" if by == "https" else address,
        authority=pipeline.public.authority if public else pipeline.authority,
        ticket=pipeline.ticket(name),
        retrying=Retrying(policy or RetryPolicy()),
    )


class WithPublicCertificate(LocalPipeline):
    """Its HTTPS port shows a certificate that the deployment's authority did not issue."""

    @property
    def public(self) -> TLS:
        return TLS(*(self.directory / "public" / name for name in ("authority.pem", "app.pem", "app.key")))

    def _set(self, party: str, key: str, value: str | int) -> None:
        super()._set(party, key, value)
        if key == "https_listen" and not (self.directory / "public").exists():
            make_tls(self.directory / "public", "app")
            super()._set(Role.SHUFFLER, "https_key", str(self.public.key))
            super()._set(Role.SHUFFLER, "https_certificate", str(self.public.certificate))


class Harm:
    """What happens to a shuffler with workers."""

    def __init__(self, pipeline: LocalPipeline, random: Random) -> None:
        self._pipeline, self._random = pipeline, random

    @property
    def running(self) -> list[int]:
        return workers_of(self._pipeline.services[Role.SHUFFLER].pid or 0)

    def deeds(self) -> list[Callable[[], Awaitable[None]]]:
        return [self._one, self._all, self._shuffler, self._one, self._shuffler, self._stopped]

    async def _one(self) -> None:
        with contextlib.suppress(IndexError, ProcessLookupError):
            os.kill(self._random.choice(self.running), signal.SIGKILL)

    async def _all(self) -> None:
        for pid in self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def _shuffler(self) -> None:
        """The one that keeps the rounds alone: the others notice it by themselves, and leave the ports."""
        await self._pipeline.kill(Role.SHUFFLER)
        await self._pipeline.start(Role.SHUFFLER)

    async def _stopped(self) -> None:
        """One that does nothing for a while; whoever it had in work waits, and is answered, or comes again."""
        with contextlib.suppress(IndexError, ProcessLookupError):
            pid = self._random.choice(self.running)
            os.kill(pid, signal.SIGSTOP)
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(("seed", "store"), thinned([(1, "sqlite"), (2, "sqlite"), (3, "postgres")], 1))
async def test_whoever_is_killed_and_whenever_everybody_counts_once(tmp_path: Path, seed: int, store: str) -> None:
    random, names = Random(seed), iter([f"device {number}" for number in range(DEVICES)])
    acknowledged, changed = [0], asyncio.Condition()
    database = postgres.new_database() if store == "postgres" else ""
    pipeline = LocalPipeline(draft(), tmp_path / "pipeline", https=True, workers=WORKERS, database=database)
    async with asyncio.timeout(PATIENCE), pipeline:
        harm = Harm(pipeline, random)

        async def people() -> None:
            for number, name in enumerate(names):
                async with device(pipeline, name, ("https", "submission")[number % 2]) as each:
                    await each.submit({"theme": "dark"}, timeout=PATIENCE)
                async with changed:
                    acknowledged[0] += 1
                    changed.notify_all()

        async def harmed() -> None:
            deeds = harm.deeds()
            random.shuffle(deeds)
            moments = sorted(random.sample(range(1, DEVICES - AT_A_TIME), len(deeds)))
            for moment, deed in zip(moments, deeds, strict=True):
                async with changed:
                    await changed.wait_for(lambda moment=moment: acknowledged[0] >= moment)
                await deed()

        await asyncio.gather(harmed(), *(people() for _ in range(AT_A_TIME)))
        status = await pipeline.close_round()
        assert status.submissions == DEVICES
        found = await pipeline.results()
    assert b'"reports":80' in found.certificate.replace(b" ", b"")
    path = tmp_path / "certificate.json"
    path.write_bytes(found.certificate)
    assert (await asyncio.to_thread(hubbub, "verify", path, "--json")).json["verified"]


async def test_who_is_revoked_is_refused_by_each_once_the_operator_is_answered(tmp_path: Path) -> None:
    names = [f"device {number}" for number in range(12)]
    async with WithPublicCertificate(draft(10), tmp_path / "pipeline", https=True, workers=WORKERS) as pipeline:
        for name in names[:6]:
            async with device(pipeline, name, "submission") as each:
                await each.prepare({"theme": "dark"})
        revoked = [Ticket.decode(pipeline.ticket(name)).device for name in names]
        async with open_channel(
            pipeline.services[Role.SHUFFLER].addresses["control"], pipeline.operator_tls
        ) as channel:
            await ControlCaller(channel).manage_credentials(CredentialAction.REVOKE, revoked, CALL_SECONDS)
        for number, name in enumerate(names):
            # Each comes over a connection of its own: both workers are asked, by both servers.
            with pytest.raises(Refusal) as refused:
                async with device(pipeline, name, ("https", "submission")[number % 2]) as each:
                    await each.submit({"theme": "dark"}, timeout=PATIENCE)
            assert refused.value.reason is Reason.REVOKED
        async with device(pipeline, "another", "https") as each:
            await each.submit({"theme": "dark"}, timeout=PATIENCE)
        health = "https://" + pipeline.services[Role.SHUFFLER].addresses["https"] + "/health"
        trusted = ssl.create_default_context(cafile=str(pipeline.public.authority))
        async with httpx2.AsyncClient(verify=trusted, trust_env=False) as balancer:
            assert (await balancer.get(health)).status_code == 200


# tests/unit/shuffler/workers/test_supervisor.py drains them and starts those that are killed at the ports they had.
@pytest.mark.exhaustive
async def test_a_port_is_free_again_as_soon_as_all_are_gone(tmp_path: Path) -> None:
    async with LocalPipeline(draft(10), tmp_path / "pipeline", workers=WORKERS) as pipeline:
        for _ in range(2):
            await pipeline.stop(Role.SHUFFLER)
            with pytest.raises(Unreachable):
                async with device(pipeline, "early", "submission", RetryPolicy(total=2.0, call=1.0)) as each:
                    await each.submit({"theme": "dark"}, timeout=PATIENCE)
            await pipeline.start(Role.SHUFFLER)
        async with device(pipeline, "late", "submission") as each:
            await each.submit({"theme": "dark"}, timeout=PATIENCE)
