"""The whole pipeline on this machine, where devices come by the HTTPS port."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hubbub.client import Device, Fleet
from hubbub.deploy.init.hops import change
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import Role
from hubbub.protos.refusals import Reason, Refusal
from hubbub.verification.certificate import Pins, verify

DRAFT = f"""
[task]
name = "themes"
start = {datetime.now(UTC).isoformat(timespec="seconds")}
length = "1h"
grace = "1d"
rounds = 1
minimum_reports = 50
close = "operator"
[privacy]
epsilon = 4.0
delta = 1e-3
[[query]]
name = "theme"
kind = "histogram"
categories = ["dark", "light"]
"""


async def test_a_device_that_has_a_certificate_is_told_to_show_it_at_the_port_for_them(tmp_path: Path) -> None:
    """Nobody is asked for a certificate by HTTPS; what was drawn there is kept, and taken at the other port."""
    draft = DRAFT.replace("[privacy]", '[admission]\nmode = "mtls"\n[privacy]')
    async with LocalPipeline(draft, tmp_path / "pipeline", https=True) as pipeline:
        assert pipeline.issuer is not None
        certificate, key = pipeline.issuer.files("device")

        def device(shuffler: str) -> Device:
            return Device(
                pipeline.task.encode(),
                operator_key=pipeline.operator_key,
                shuffler_key=pipeline.shuffler_key,
                state=tmp_path / "device.db",
                shuffler=shuffler,
                authority=pipeline.authority,
                certificate=certificate,
                key=key,
            )

        async with device("https://" + pipeline.services[Role.SHUFFLER].addresses["https"]) as told:
            with pytest.raises(
                Refusal, match=r"that show a TLS certificate; submit to the port for devices"
            ) as refused:
                await told.submit({"theme": "dark"})
        assert refused.value.reason is Reason.NOT_ENROLLED
        async with device(pipeline.shuffler) as shown:
            assert await shown.resend()
        (status,) = await pipeline.status()
        assert (status.submissions, status.refusals) == (1, {"not_enrolled": 1})


async def test_devices_and_fleets_submit_by_https_and_the_certificate_verifies(tmp_path: Path) -> None:
    async with LocalPipeline(DRAFT, tmp_path / "pipeline", https=True) as pipeline:
        assert pipeline.shuffler.startswith("https://127.0.0.1:")
        async with pipeline.device("kiosk") as device:
            assert (await device.submit({"theme": "dark"})).sent
        # On the same ports and store, in the other event loop, by which the operator's calls by gRPC come, too.
        await pipeline.stop(Role.SHUFFLER)
        change(pipeline.folder.of(Role.SHUFFLER) / "shuffler.toml", "event_loop", "uvloop")
        await pipeline.start(Role.SHUFFLER)
        fleet = Fleet(
            pipeline.task.encode(),
            operator_key=pipeline.operator_key,
            shuffler_key=pipeline.shuffler_key,
            state=tmp_path / "fleet.db",
            shuffler=pipeline.shuffler,
            authority=pipeline.authority,
            tickets=pipeline.ticket,
        )
        async with fleet:
            summary = await fleet.submit_many(((f"device-{number}", {"theme": "light"}) for number in range(99)), 0)
        assert summary.accepted == 99
        status = await pipeline.close_round(0)
        assert (status.submissions, status.refusals) == (100, {})
        results = await pipeline.results(0)
        identities = pipeline.task.task.identities
        pins = Pins(identities.operator, identities.shuffler, identities.analyzer, identities.hops)
        # It raises where anything in it does not hold.
        await asyncio.to_thread(verify, results.certificate, pins)
