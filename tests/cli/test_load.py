"""`hubbub load` against real services: every device is counted once, on both sides, and what is refused is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hubbub.deploy.init.hops import change
from hubbub.deploy.load.coordinator import run_schedule
from hubbub.deploy.load.latency import StepResult
from hubbub.deploy.load.local_target import deployment_of, pipeline
from hubbub.deploy.load.schedule import LoadSchedule, LoadStep, devices_for
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import Role
from support.cli import hubbub, hubbub_here
from support.patience import PATIENCE

ONE = ("--rate", "100", "--seconds", "1")


# `test_workers_answer_a_load_that_starts_services` starts one too.
@pytest.mark.exhaustive
def test_a_load_without_a_deployment_starts_one(tmp_path: Path) -> None:
    picture = tmp_path / "load.svg"
    ran = hubbub_here("load", "--steps", "60,120", "--seconds", "1", "--plot", picture, "--json")
    assert ran.status == 0, ran.err
    first, second = ran.json["steps"]
    assert (first["offered_per_second"], second["offered_per_second"]) == (60.0, 120.0)
    for step in (first, second):
        assert step["acknowledged"] == step["devices"] > 0
        assert step["refused"] == {}
        assert set(step["latency_ms"]) == {"p50", "p90", "p99", "p99.9", "max"}
        assert sum(each["devices"] for each in step["each_second"]) == step["devices"]
    assert ran.json["held_by_shuffler"] == first["acknowledged"] + second["acknowledged"]
    assert b"devices offered a second" in picture.read_bytes()


def test_workers_answer_a_load_that_starts_services(tmp_path: Path) -> None:
    ran = hubbub_here("load", *ONE, "--workers", "2", "--json")
    assert ran.status == 0, ran.err
    (step,) = ran.json["steps"]
    assert step["acknowledged"] == step["devices"] == ran.json["held_by_shuffler"] > 0
    refused = hubbub_here("load", tmp_path / "client.toml", "--workers", "2")
    assert refused.status == 2
    assert "in its shuffler.toml" in refused.err


def test_a_crowd_thinks_between_its_answers() -> None:
    ran = hubbub_here("load", "--users", "5", "--think", "0.2", "--seconds", "2", "--processes", "1", "--json")
    assert ran.status == 0, ran.err
    (step,) = ran.json["steps"]
    assert step["offered_per_second"] == 25.0
    # Five places, each with a call in 0.2 s and what the call takes: at most 25 a second, with some chance.
    assert 5 <= step["acknowledged"] == step["devices"] == ran.json["held_by_shuffler"] <= 100


@pytest.mark.sampled(1)
@pytest.mark.parametrize("https", [False, True], ids=["gRPC", "HTTPS"])
async def test_a_deployment_is_loaded_from_its_client_settings(tmp_path: Path, https: bool) -> None:
    needed = devices_for(LoadSchedule((LoadStep(100.0, 1.0),), per_call=10), 1)
    async with pipeline(needed, 1, https=https) as (deployment, running):
        assert running.shuffler.startswith("https://") is https
        client = running.folder.of("client") / "client.toml"
        client.write_text(client.read_text().replace("127.0.0.1:7301", running.shuffler))
        (client.parent / "task.json").write_bytes((running.directory / "task.json").read_bytes())
        assert deployment.tickets is not None
        few = tmp_path / "few"
        few.write_bytes(b"\n".join(deployment.tickets.read_bytes().splitlines()[:3]))
        words = (client, *ONE, "--per-call", "10")
        short = await asyncio.to_thread(hubbub, "load", *words, "--tickets", few)
        assert short.status == 2
        assert f"{needed} need a ticket each, but 3 are given; make them with `hubbub enroll FILE" in short.err
        ran = await asyncio.to_thread(hubbub, "load", *words, "--tickets", deployment.tickets)
        assert ran.status == 0, ran.err
        assert "acknowledged" in ran.out
        (status,) = await running.status()
        assert status.submissions > 0
        # The same tickets again are no new devices: they were redeemed by secrets that nobody has any more.
        again = await asyncio.to_thread(hubbub, "load", *words, "--tickets", deployment.tickets, "--json")
        assert again.status == 1
        assert "ticket" in again.json["error"]


class Silent:
    def ready(self, devices: int) -> None:
        assert devices >= 0

    def dealt_with(self, devices: int) -> None:
        assert devices >= 0


# tests/unit/shuffler/admit/test_admission.py refuses what is above its queue.
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "call_timeout", [0.5, pytest.param(30.0, marks=pytest.mark.exhaustive)], ids=["who gives up", "who comes again"]
)
async def test_above_its_queue_the_service_sheds_and_goes_on(tmp_path: Path, call_timeout: float) -> None:
    """Far more at once than are taken into work: what is refused is told and counted, and nothing counts twice."""
    offer = LoadSchedule((LoadStep(12_000.0, 0.25),), per_call=200, timeout=call_timeout)
    async with pipeline(devices_for(offer, 2), 2) as (deployment, running):
        await queue_of(running, 100)
        steps: list[StepResult] = []
        await run_schedule(deployment_of(running, deployment.tickets), offer, 2, tmp_path, Silent(), steps.append)
        (flood,) = steps
        assert flood.counts.retries["overloaded"] + flood.counts.refused["overloaded"] > 0
        assert flood.acknowledged + flood.counts.refused.total() == flood.devices
        (status,) = await running.status()
        assert status.submissions == flood.acknowledged
        # Counted on both sides: by devices here, where each call's refusal is one answer for each of them.
        assert status.refusals["overloaded"] >= flood.counts.refused["overloaded"]
        async with running.device("newcomer") as newcomer:
            await newcomer.submit({"theme": "dark"}, timeout=PATIENCE)
        (status,) = await running.status()
        assert status.submissions == flood.acknowledged + 1


async def queue_of(running: LocalPipeline, submissions: int) -> None:
    await running.stop(Role.SHUFFLER)
    change(running.folder.of(Role.SHUFFLER) / "shuffler.toml", "queue", submissions)
    await running.start(Role.SHUFFLER)
