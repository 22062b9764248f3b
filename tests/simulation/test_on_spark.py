"""A round of real processes whose settings name Spark: it is mixed and opened there, and its certificate verifies."""

from __future__ import annotations

import time
from pathlib import Path

from hubbub.deploy.init.hops import change
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import Role
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.histogram import Histogram
from hubbub.verification.certificate import Pins, verify
from support.spark import CONFIGURATION, NEEDS_JAVA

DEVICES = 40
WAIT = 120.0
"""Seconds; each session takes some ten to begin."""


async def on_spark(pipeline: LocalPipeline) -> None:
    """Start both services again, with settings that name Spark for every batch."""
    for role in (Role.SHUFFLER, Role.ANALYZER):
        await pipeline.stop(role)
        settings = pipeline.folder.of(role) / f"{role.value}.toml"
        change(settings, "master", "local[2]")
        change(settings, "minimum_envelopes", DEVICES)
        change(settings, "configuration", str(CONFIGURATION))
        await pipeline.start(role)


async def answered(pipeline: LocalPipeline) -> None:
    for number in range(DEVICES):
        async with pipeline.device(f"device {number}") as device:
            await device.submit({"theme": "dark"})


@NEEDS_JAVA
async def test_a_round_is_mixed_and_opened_on_spark_and_its_noise_is_counted_once_and_certified(tmp_path: Path) -> None:
    schedule = Schedule(int(time.time()), length=3600, grace=60, rounds=1, close="operator")
    asked = (Histogram("theme", ("light", "dark", "none")),)
    draft = Draft("kiosks", schedule, DEVICES, Privacy(4.0, 1e-3, 16.0), asked, noise="always")
    async with LocalPipeline(draft, tmp_path / "pipeline") as pipeline:
        await on_spark(pipeline)
        await answered(pipeline)
        await pipeline.close_round()
        found = await pipeline.results(stalled_after=WAIT)
        verified = verify(found.certificate, Pins())
        (stated,), (record,) = verified.content["queries"], verified.records
        law = verified.task.queries[0].noise
        assert law is not None
        # Of every envelope that the record states, the dummies too, one report was counted.
        assert (stated["valid"], record.reports, stated["dummies"]) == (DEVICES, DEVICES, record.dummies)
        assert 0 < record.dummies <= 3 * law.largest
        assert found.queries[0].left_out == {}
        for role in (Role.SHUFFLER, Role.ANALYZER):
            assert "Spark session" in (pipeline.logs / f"{role.value}.log").read_text()
