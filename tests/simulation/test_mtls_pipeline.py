"""A task that admits by certificates, run whole by real processes, a restart among them."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from pathlib import Path

import pytest

from hubbub.client import Refusal
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import Role
from hubbub.protos.refusals import Reason
from hubbub.protos.task.admission import AdmissionPolicy, Mode
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.histogram import Histogram
from hubbub.verification.certificate import Pins, verify
from support.patience import PATIENCE
from support.samples import FEW

HOUR = 3600
DEVICES = 20
DRAFT = Draft(
    "kiosks",
    Schedule(int(time.time()), length=HOUR, grace=HOUR, rounds=1, close="operator"),
    DEVICES,
    Privacy(epsilon=10.0, delta=1e-2, epsilon_local=16.0, large_delta=FEW),
    (Histogram("theme", ("dark", "light")),),
    AdmissionPolicy(Mode.MTLS),
)


async def test_each_certificate_counts_once_and_the_round_s_certificate_says_whose_word_it_is(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), LocalPipeline(DRAFT, tmp_path / "pipeline") as pipeline:
        for number in range(DEVICES):
            async with pipeline.device(f"kiosk {number}") as device:
                await device.submit({"theme": "dark"})
        devices = pipeline.shuffler
        await pipeline.kill(Role.SHUFFLER)
        await pipeline.start(Role.SHUFFLER)
        assert pipeline.shuffler == devices
        assert pipeline.issuer is not None
        for file, copy in zip(pipeline.issuer.files("kiosk 0"), pipeline.issuer.files("copy"), strict=True):
            shutil.copy(file, copy)
        async with pipeline.device("copy") as device:
            with pytest.raises(Refusal) as refused:
                await device.submit({"theme": "light"})
        assert refused.value.reason is Reason.ID_CONFLICT
        status = await pipeline.close_round()
        assert status.submissions == DEVICES
        results = await pipeline.results()
        assert [query.valid for query in results.queries] == [DEVICES]
        pinned = pipeline.task.task.identities
        verified = verify(results.certificate, Pins(pinned.operator, pinned.shuffler, pinned.analyzer))
        assert verified.admission["mode"] == "mtls"
        batches = json.loads(results.certificate)["body"]["batches"]
        assert {batch["body"]["admission"] for batch in batches} == {"mtls"}
