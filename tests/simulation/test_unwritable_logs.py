"""Services whose log cannot be written work on: a full device, a reader that is gone, one that never reads."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import Role
from hubbub.protos.rpc import ControlCaller, ResultsCaller
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import open_channel
from hubbub.queries.questions.histogram import Histogram
from support.cli import hubbub
from support.fleets import fleet_of
from support.metrics_scrape import scrape
from support.patience import CALL_SECONDS, PATIENCE
from support.samples import FEW

DEVICES = 80
SERVICES = (Role.ANALYZER, Role.SHUFFLER)


@contextlib.asynccontextmanager
async def logging_to(folder: Path, log: Path) -> AsyncIterator[LocalPipeline]:
    """A pipeline whose services write their logs to a file that is there already."""
    schedule = Schedule(int(time.time()), length=3600, grace=86_400, rounds=2, close="operator")
    privacy = Privacy(epsilon=8.0, delta=1e-2, epsilon_local=16.0, large_delta=FEW)
    draft = Draft("kiosks", schedule, DEVICES, privacy, (Histogram("theme", ("light", "dark")),))
    async with LocalPipeline(draft, folder) as pipeline:
        for role in SERVICES:
            await pipeline.stop(role)
            pipeline.services[role].log = log
        for role in SERVICES:
            await pipeline.start(role)
        yield pipeline


async def everyone_counts(pipeline: LocalPipeline, number: int) -> None:
    async with fleet_of(pipeline) as carrier:
        many = [(str(each), {"theme": "dark"}) for each in range(DEVICES)]
        assert (await carrier.submit_many(many, number)).accepted == DEVICES
    await pipeline.close_round(number)
    assert [query.valid for query in (await pipeline.results(number)).queries] == [DEVICES]


@contextlib.asynccontextmanager
async def pipeline_with_piped_log(folder: Path) -> AsyncIterator[tuple[LocalPipeline, int]]:
    """A pipeline whose services write their logs to a pipe, and the pipe's end to read from."""
    reader, writer = os.pipe()
    try:
        async with logging_to(folder, Path(f"/proc/self/fd/{writer}")) as pipeline:
            yield pipeline, reader
    finally:
        for end in (reader, writer):
            with contextlib.suppress(OSError):
                os.close(end)


def fill(writer: Path) -> None:
    """Put into a pipe what it takes."""
    descriptor = os.open(writer, os.O_WRONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(descriptor, b"x")
    os.close(descriptor)


async def test_rounds_go_on_while_the_log_is_on_a_full_device(tmp_path: Path) -> None:
    async with logging_to(tmp_path / "pipeline", Path("/dev/full")) as pipeline:
        await everyone_counts(pipeline, 0)
        await everyone_counts(pipeline, 1)
        for role, (port, caller) in {
            Role.SHUFFLER: ("control", ControlCaller),
            Role.ANALYZER: ("results", ResultsCaller),
        }.items():
            addresses = pipeline.services[role].addresses
            async with open_channel(addresses[port], pipeline.operator_tls) as channel:
                incident_report = await caller(channel).get_incidents(CALL_SECONDS)
            assert incident_report.log_lines_lost >= 3
            (incident,) = incident_report.incidents
            assert (incident.kind, incident.count) == ("log", incident_report.log_lines_lost)
            assert "No space left on device" in incident.text
            scraped = await scrape(addresses["metrics"])
            assert scraped.value(f"hubbub_{role.value}_log_lines_lost_total") >= 3
            assert scraped.value(f"hubbub_{role.value}_incidents", kind="log") == 1
            settings = pipeline.folder.of(role.value) / f"{role.value}.toml"
            # Health learns of incidents once a second, so a service that was just started may not report it yet.
            async with asyncio.timeout(PATIENCE):
                while (
                    "lines of its log are lost"
                    not in (asked := await asyncio.to_thread(hubbub, "health", role.value, settings)).out
                ):
                    assert asked.status == 0, asked.err
            assert asked.status == 0


async def test_rounds_go_on_when_the_logs_reader_is_gone(tmp_path: Path) -> None:
    async with pipeline_with_piped_log(tmp_path / "pipeline") as (pipeline, reader):
        await everyone_counts(pipeline, 0)
        assert b"serving" in os.read(reader, 10_000)
        os.close(reader)
        await everyone_counts(pipeline, 1)


async def test_rounds_go_on_and_services_end_while_the_logs_reader_does_not_read(tmp_path: Path) -> None:
    async with pipeline_with_piped_log(tmp_path / "pipeline") as (pipeline, _reader):
        fill(pipeline.services[Role.SHUFFLER].log)
        await everyone_counts(pipeline, 0)
        for role in reversed(SERVICES):
            await pipeline.stop(role)
            process = pipeline.services[role]._process
            assert process is not None
            assert process.returncode == 0
