"""Leader, standby, front ends and analyzer whose clocks differ by minutes and hours: everybody counts once.

Real processes on one database; each has its own clock (`support.shifted_clock`). What depends on a clock is whether a
round takes submissions. Who leads, what is stored and what counts depends on none.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from hubbub.client import Device, Refusal
from hubbub.deploy.local.cluster import STANDBY, LocalCluster
from hubbub.deploy.local.databases import new_databases
from hubbub.deploy.local.process import ServiceProcess
from hubbub.protos.messages import RoundState
from hubbub.protos.refusals import Reason
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.queries.questions.histogram import Histogram
from support import postgres
from support.cli import hubbub
from support.patience import CALL_SECONDS, PATIENCE
from support.shifted_clock import PROGRAM, set_ahead

HOUR = 3600
DEVICES = 24
AHEAD = {
    "shuffler": 0.0,
    STANDBY: 0.75 * HOUR,
    "frontend-1": -0.5 * HOUR,
    "frontend-2": 0.9 * HOUR,
    "frontend-3": 5.0 * HOUR,
    "analyzer": 7.0 * HOUR,
}
"""By how many seconds each clock is ahead: all but the third front end's by less than the rest of the round."""


def draft() -> Draft:
    """A round of two hours, half an hour ago begun."""
    schedule = Schedule(int(time.time()) - HOUR // 2, 2 * HOUR, grace=HOUR // 2, rounds=1, close="operator")
    return Draft("kiosks", schedule, DEVICES, Privacy(8.0, 1e-3, 16.0), (Histogram("theme", ("light", "dark")),))


class OutOfTime(ServiceProcess):
    """A process with a clock of its own."""

    def __init__(self, name: str, settings: Path, log: Path, *_program: object, **given: float) -> None:
        super().__init__(name, settings, log, (*PROGRAM, name), **given)
        set_ahead(settings.parent, AHEAD[settings.parent.name])


# tests/unit/shuffler/admit/test_admission.py has the times of one process, and test_leadership.py who leads.
@pytest.mark.exhaustive
async def test_whatever_their_clocks_say_a_cluster_counts_everybody_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("cluster", "pipeline"):
        monkeypatch.setattr(f"hubbub.deploy.local.{module}.ServiceProcess", OutOfTime)
    names = [f"device {number}" for number in range(DEVICES)]
    with new_databases(postgres.server()) as databases:
        cluster = LocalCluster(draft(), tmp_path / "pipeline", databases=databases, frontends=3)
        async with asyncio.timeout(PATIENCE), cluster:
            *near, far = cluster.shuffler.split(",")

            async def submit(some: list[str]) -> None:
                for number, name in enumerate(some):
                    device = Device(
                        cluster.task.encode(),
                        operator_key=cluster.operator_key,
                        shuffler_key=cluster.shuffler_key,
                        state=cluster.folder.of("client") / f"{name}.db",
                        shuffler=near[number % 2],
                        authority=cluster.authority,
                        ticket=cluster.ticket(name),
                    )
                    async with device:
                        assert (await device.submit({"theme": "dark"}, timeout=PATIENCE)).sent

            await submit(names[: DEVICES // 2])
            # To the third one the round is over by hours. It says so, and stores nothing.
            async with open_channel(far, TLS(cluster.authority)) as channel:
                with pytest.raises(Refusal, match="was cut at") as refused:
                    await SubmissionCaller(channel).get_round(cluster.task.task.id, 0, CALL_SECONDS)
            assert refused.value.reason is Reason.TOO_LATE
            # The standby, whose clock is ahead, goes on with the round that is open by the database.
            await cluster.fail_over()
            await submit(names[DEVICES // 2 :])
            status = await cluster.close_round()
            assert (status.submissions, status.state) == (DEVICES, RoundState.CUT)
            found = await cluster.results()
    assert [(query.reports, query.valid) for query in found.queries] == [(DEVICES, DEVICES)]
    path = tmp_path / "certificate.json"
    path.write_bytes(found.certificate)
    assert (await asyncio.to_thread(hubbub, "verify", path, "--json")).json["verified"]
