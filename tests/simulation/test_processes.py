"""Real processes die at named system calls, their disks fill, and what they were sent is on disk before they say so.

disk.c is loaded into a service by its environment; the service knows nothing of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from simulation import disk

from hubbub.client import Device, Fleet, Retrying, RetryPolicy
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.local.process import ServiceError
from hubbub.protos.errors import Unreachable
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import IncidentReport, RoundState
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller, ResultsCaller
from hubbub.protos.task.admission import ENROLLED, OPEN, AdmissionPolicy
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import open_channel
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from support.cli import Ran, hubbub
from support.metrics_scrape import scrape
from support.patience import CALL_SECONDS, pause
from support.samples import FEW
from support.thoroughness import spread

DEVICES = 150
ROUNDS = 6


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return disk.build(tmp_path_factory.mktemp("library"))


@contextlib.asynccontextmanager
async def pipeline(folder: Path, admission: AdmissionPolicy = ENROLLED) -> AsyncIterator[LocalPipeline]:
    schedule = Schedule(int(time.time()), length=3600, grace=86_400, rounds=ROUNDS, close="operator")
    privacy = Privacy(epsilon=8.0, delta=1e-2, epsilon_local=16.0, large_delta=FEW)
    queries = (Histogram("theme", ("light", "dark")), Number("session", 0.0, 60.0, "minutes", optional=True))
    async with LocalPipeline(Draft("kiosks", schedule, 100, privacy, queries, admission), folder) as running:
        yield running


def data(running: LocalPipeline, role: Role) -> Path:
    return running.folder.of(role.value) / "data"


async def restart(running: LocalPipeline, role: Role, settings: Mapping[str, str]) -> None:
    await running.stop(role)
    running.services[role].environment = dict(settings)
    try:
        await running.start(role)
    finally:
        # Whoever starts it again does so as it always is.
        running.services[role].environment = {}


async def revived(running: LocalPipeline) -> int:
    """Start again, as a supervisor would, what has ended by itself; return how many there were."""
    ended = [role for role, service in running.services.items() if service.pid is None]
    for role in ended:
        await running.start(role)
    return len(ended)


def fleet(running: LocalPipeline, policy: RetryPolicy | None = None) -> Fleet:
    return Fleet(
        running.task.encode(),
        operator_key=running.operator_key,
        shuffler_key=running.shuffler_key,
        state=running.folder.of("client") / "fleet.db",
        shuffler=running.shuffler,
        authority=running.authority,
        tickets=running.ticket,
        retrying=Retrying(policy or RetryPolicy(total=60.0, call=5.0, longest_pause=1.0)),
    )


def device(running: LocalPipeline, name: str, policy: RetryPolicy) -> Device:
    return Device(
        running.task.encode(),
        operator_key=running.operator_key,
        shuffler_key=running.shuffler_key,
        state=running.folder.of("client") / f"{name}.db",
        shuffler=running.shuffler,
        authority=running.authority,
        ticket=running.ticket(name),
        retrying=Retrying(policy),
    )


async def everything_counts(running: LocalPipeline, number: int) -> int:
    """Have all devices submit, close the round, and read the results, reviving what dies; return how often it did."""
    deaths = 0
    many = [(str(each), {"theme": "dark", "session": 20.0}) for each in range(DEVICES)]
    async with fleet(running) as carrier:
        sending = asyncio.ensure_future(carrier.submit_many(many, number, per_call=10))
        while not sending.done():
            deaths += await revived(running)
            await asyncio.wait({sending}, timeout=0.05)
        assert sending.result().accepted == DEVICES
    while True:
        deaths += await revived(running)
        try:
            await running.close_round(number)
            results = await running.results(number)
            break
        except (ServiceError, Unreachable):
            continue
    assert [(query.reports, query.valid, dict(query.left_out)) for query in results.queries] == [
        (DEVICES, DEVICES, {})
    ] * 2
    while {status.round: status.state for status in await running.status()}[number] is not RoundState.ERASED:
        deaths += await revived(running)
        await pause()
    return deaths


POINTS = {
    Role.SHUFFLER: (
        "before sync 2",
        "after sync 9",
        "before write 30",
        "after write 31",
        "before send 12",
        "after send 25",
    ),
    Role.ANALYZER: (
        "before sync 2",
        "after sync 5",
        "before write 20",
        "after write 33",
        "before send 8",
        "after send 9",
    ),
}


@pytest.mark.parametrize("role", list(POINTS), ids=lambda role: role.value)
async def test_killed_before_or_after_any_write_sync_or_send_everyone_counts_once(
    library: Path, tmp_path: Path, role: Role
) -> None:
    async with pipeline(tmp_path / "pipeline") as running:
        deaths = []
        for number, point in enumerate(spread(POINTS[role], 1)):
            settings = disk.environment(library, data(running, role), tmp_path / "log", DISK_KILL=point)
            with contextlib.suppress(ServiceError):
                await restart(running, role, settings)
            deaths.append(await everything_counts(running, number))
        assert deaths == [1] * len(deaths)


async def test_a_receipt_is_sent_only_after_the_submission_is_synced(library: Path, tmp_path: Path) -> None:
    # Of an open task the submission's own id is stored, by which it is found again in what was written.
    async with pipeline(tmp_path / "pipeline", OPEN) as running:
        await restart(running, Role.SHUFFLER, disk.environment(library, data(running, Role.SHUFFLER), tmp_path / "log"))
        receipts = []
        for number in range(20):
            async with device(running, f"device{number}", RetryPolicy()) as one:
                receipt = await one.submit({"theme": "dark"}, 0)
                receipts.append((receipt.submission_id, time.monotonic()))
        events = list(disk.events(tmp_path / "log"))
    for submission_id, moment in receipts:
        written = next(place for place, event in enumerate(events) if event.path and submission_id in event.data)
        after = iter(events[written:])
        synced = next(event for event in after if (event.kind, event.path) == ("S", events[written].path))
        sent = next(event for event in after if event.kind == "N")
        # A send is noted when its call has returned: on a busy machine the device may have the receipt before that.
        assert synced.moment <= sent.moment
        assert synced.moment < moment


async def test_a_full_disk_is_answered_with_a_hint_and_nothing_acknowledged_is_lost(
    library: Path, tmp_path: Path
) -> None:
    full = {role: tmp_path / f"{role.value} is full" for role in (Role.SHUFFLER, Role.ANALYZER)}
    # In an enrolled task a new device would be told where it redeems its ticket, before it submits anything.
    async with pipeline(tmp_path / "pipeline", OPEN) as running:
        for role, file in full.items():
            settings = disk.environment(library, data(running, role), tmp_path / "log", DISK_FULL=str(file))
            await restart(running, role, settings)
        many = [(str(each), {"theme": "dark", "session": 20.0}) for each in range(DEVICES)]
        async with fleet(running) as carrier:
            assert (await carrier.submit_many(many[:100], 0)).accepted == 100
        full[Role.SHUFFLER].touch()
        # The answer is to come again after five seconds, which ends this.
        async with device(running, "one", RetryPolicy(total=4.9, call=4.9)) as one:
            with pytest.raises(Refusal, match="cannot write to its disk") as refused:
                await one.submit({"theme": "dark"}, 0)
        assert (refused.value.reason, refused.value.retry_after) == (Reason.OVERLOADED, 5.0)
        await _said_to_be_full(running, Role.SHUFFLER)
        async with fleet(running) as carrier:
            sending = asyncio.ensure_future(carrier.submit_many(many, 0))
            await _until_refused(running)
            full[Role.SHUFFLER].unlink()
            assert (await sending).accepted == DEVICES
        await _said_to_work(running, Role.SHUFFLER)
        full[Role.ANALYZER].touch()
        await running.close_round(0)
        while "is its disk full?" not in (await running.status())[0].waiting_for:
            await pause()
        await _said_to_be_full(running, Role.ANALYZER)
        full[Role.ANALYZER].unlink()
        assert [query.valid for query in (await running.results(0)).queries] == [DEVICES, DEVICES]
        await _said_to_work(running, Role.ANALYZER)


async def incident_report(running: LocalPipeline, role: Role) -> IncidentReport:
    name, caller = {
        Role.SHUFFLER: ("control", ControlCaller),
        Role.ANALYZER: ("results", ResultsCaller),
    }[role]
    async with open_channel(running.services[role].addresses[name], running.operator_tls) as channel:
        return await caller(channel).get_incidents(CALL_SECONDS)


async def metric(running: LocalPipeline, role: Role, name: str, **labels: str) -> float:
    scraped = await scrape(running.services[role].addresses["metrics"])
    return scraped.value(f"hubbub_{role.value}_{name}", **labels)


async def _health(running: LocalPipeline, role: Role) -> Ran:
    settings = running.folder.of(role.value) / f"{role.value}.toml"
    return await asyncio.to_thread(hubbub, "health", role.value, settings)


async def _said_to_be_full(running: LocalPipeline, role: Role) -> None:
    """Status, health and metrics name the store, its file and what to do."""
    (incident,) = [each for each in (await incident_report(running, role)).incidents if each.kind == "store"]
    assert str(data(running, role)) in incident.text
    assert "make room on its disk" in incident.text
    assert incident.count >= 1
    assert await metric(running, role, "incidents", kind="store") == 1
    while (asked := await _health(running, role)).status == 0:
        await pause()
    assert asked.status == 1
    assert f"its store in {data(running, role)} cannot be used (its disk may be full)" in asked.err


async def _said_to_work(running: LocalPipeline, role: Role) -> None:
    assert (await incident_report(running, role)).incidents == ()
    assert await metric(running, role, "incidents", kind="store") == 0
    while (await _health(running, role)).status != 0:
        await pause()


async def _until_refused(running: LocalPipeline) -> None:
    before = (await running.status())[0].refusals.get("overloaded", 0)
    while (await running.status())[0].refusals.get("overloaded", 0) <= before:
        await pause()


async def test_a_drain_on_sigterm_loses_nothing(tmp_path: Path) -> None:
    async with pipeline(tmp_path / "pipeline") as running:
        many = [(str(each), {"theme": "dark", "session": 20.0}) for each in range(DEVICES)]
        told = 0

        def progress(devices: int) -> None:
            nonlocal told
            told += devices

        async with fleet(running) as carrier:
            sending = asyncio.ensure_future(carrier.submit_many(many, 0, per_call=1, progress=progress))
            while told == 0:
                await asyncio.wait({sending}, timeout=0.001)
            await running.stop(Role.SHUFFLER)
            assert running.services[Role.SHUFFLER].pid is None
            acknowledged = told
            await running.start(Role.SHUFFLER)
            (status, *_) = await running.status()
            assert status.submissions >= acknowledged
            assert (await sending).accepted == DEVICES
        assert (await running.close_round(0)).submissions == DEVICES
        assert "Traceback" not in (running.logs / "shuffler.log").read_text()


# test_pipeline.py and test_network_partitions.py restart them and part them.
@pytest.mark.exhaustive
async def test_services_find_each_other_again_in_whatever_order_they_restart(tmp_path: Path) -> None:
    async with pipeline(tmp_path / "pipeline") as running:
        orders = [
            (Role.ANALYZER, Role.SHUFFLER, "shuffler first"),
            (Role.SHUFFLER, Role.ANALYZER, "analyzer first"),
        ]
        for number, (last, first, _) in enumerate(orders):
            await running.stop(last)
            await running.stop(first)
            await running.start(first)
            async with fleet(running) as carrier:
                many = [(str(each), {"theme": "dark", "session": 20.0}) for each in range(DEVICES)]
                sending = asyncio.ensure_future(carrier.submit_many(many, number))
                await running.start(last)
                assert (await sending).accepted == DEVICES
            await running.close_round(number)
            assert [query.valid for query in (await running.results(number)).queries] == [DEVICES, DEVICES]
