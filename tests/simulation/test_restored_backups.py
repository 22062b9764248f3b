"""Old copies of stores are put back under real processes: the other party notices, says so, and takes no more."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

from simulation.test_processes import (
    DEVICES,
    data,
    everything_counts,
    fleet,
    incident_report,
    metric,
    pipeline,
)

from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import RoundState
from hubbub.verification.certificate import Pins
from hubbub.verification.history import read_histories
from support.patience import PATIENCE


async def put_aside(running: LocalPipeline, role: Role, copy: Path) -> None:
    """Copy a service's store, and let the service go on."""
    await running.stop(role)
    shutil.copytree(data(running, role), copy)
    await running.start(role)


async def put_back(running: LocalPipeline, role: Role, copy: Path, newest: Path) -> None:
    """Put a copy in a store's place; the store itself is kept as `newest`."""
    await running.stop(role)
    data(running, role).rename(newest)
    shutil.copytree(copy, data(running, role))
    await running.start(role)


async def released(running: LocalPipeline, number: int) -> None:
    """Have all devices submit and the round closed, whatever becomes of it then."""
    many = [(str(each), {"theme": "dark", "session": 20.0}) for each in range(DEVICES)]
    async with fleet(running) as carrier:
        assert (await carrier.submit_many(many, number)).accepted == DEVICES
    await running.close_round(number)


async def told(running: LocalPipeline, number: int, says: Callable[[str], bool]) -> str:
    """Wait until the shuffler says of a round what it waits for; return it, with the round still undelivered."""
    async with asyncio.timeout(PATIENCE):
        while True:
            status = {status.round: status for status in await running.status()}[number]
            if says(status.waiting_for):
                assert status.state is RoundState.MIXED
                return status.waiting_for


async def test_an_old_copy_of_either_store_is_noticed_by_the_other_party_until_the_newest_is_back(
    tmp_path: Path,
) -> None:
    async with pipeline(tmp_path / "pipeline") as running:
        await everything_counts(running, 0)
        await put_aside(running, Role.SHUFFLER, tmp_path / "old shuffler")
        await put_aside(running, Role.ANALYZER, tmp_path / "old analyzer")
        await everything_counts(running, 1)

        await put_back(running, Role.SHUFFLER, tmp_path / "old shuffler", tmp_path / "newest shuffler")
        await released(running, 2)
        waiting = await told(running, 2, lambda text: "forked" in text)
        assert (
            "refused, forked: the shuffler's releases of task kiosks differ from those that it sent before" in waiting
        )
        (incident,) = (await incident_report(running, Role.ANALYZER)).incidents
        assert (
            "its release at position 1 is of round 2 now, and was of round 1 before. Its store is an old copy"
            in incident.text
        )
        assert await metric(running, Role.ANALYZER, "deliveries_refused_total", reason="forked") >= 1

        await put_back(running, Role.SHUFFLER, tmp_path / "newest shuffler", tmp_path / "forked shuffler")
        await everything_counts(running, 3)
        assert (await incident_report(running, Role.ANALYZER)).incidents == ()

        await put_back(running, Role.ANALYZER, tmp_path / "old analyzer", tmp_path / "newest analyzer")
        await running.stop(Role.SHUFFLER)
        await running.start(Role.SHUFFLER)
        await released(running, 4)
        waiting = await told(running, 4, lambda text: "old copy" in text)
        assert (
            "its store is an old copy: round 1, which it had counted, is missing there; restore its newest" in waiting
        )
        assert any("old copy" in each.text for each in (await incident_report(running, Role.SHUFFLER)).incidents)

        await put_back(running, Role.ANALYZER, tmp_path / "newest analyzer", tmp_path / "rolled back analyzer")
        await running.stop(Role.SHUFFLER)
        await running.start(Role.SHUFFLER)
        kept = {number: (await running.results(number)).certificate for number in (0, 1, 3, 4)}
        named = running.task.task.identities
        pins = Pins(named.operator, named.shuffler, named.analyzer)
    # A thread writes the log, and it is whole once the service has ended.
    assert " forked " in (tmp_path / "pipeline" / "logs" / "analyzer.log").read_text()
    for number, certificate in kept.items():
        (tmp_path / f"{number}.json").write_bytes(certificate)
    found = await asyncio.to_thread(read_histories, [tmp_path], pins)
    assert found.problems == ()
    (history,) = found.histories
    assert [each.round for each in history.certificates] == [0, 1, 3, 4]
