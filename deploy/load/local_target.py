"""Starts a pipeline on this machine as the target of a load, to measure the machine without a deployment."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

from hubbub.deploy.load.coordinator import Deployment
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.identity.keys import write_private

TASK = """
[task]
name = "load"
start = {start}
length = "1h"
grace = "1d"
rounds = 1
minimum_reports = 1000
close = "operator"
[privacy]
epsilon = 1.0
delta = 1e-6
[[query]]
name = "theme"
kind = "histogram"
categories = ["dark", "light"]
"""
"""One question with two answers to enrolled devices: the smallest possible submission."""


@contextlib.asynccontextmanager
async def pipeline(
    devices: int, connections: int, *, https: bool = False, workers: int = 0
) -> AsyncIterator[tuple[Deployment, LocalPipeline]]:
    """Start a pipeline for a load of so many enrolled devices, and stop it at the end; with `https` they come by HTTPS.

    So many `workers` answer them; 0: the main process.

    Raises:
        ServiceError: if a service does not start.
    """
    start = datetime.now(UTC).isoformat(timespec="seconds")
    async with LocalPipeline(TASK.format(start=start), https=https, workers=workers) as running:
        tickets = running.directory / "tickets"
        write_private(tickets, b"\n".join(running.tickets(devices)))
        yield deployment_of(running, tickets, connections), running


def deployment_of(running: LocalPipeline, tickets: Path | None, connections: int = 4) -> Deployment:
    """Return a running pipeline as the target of a load."""
    return Deployment(
        task=running.directory / "task.json",
        operator_key=running.operator_key.hex(),
        shuffler_key=running.shuffler_key.hex(),
        shuffler=running.shuffler,
        authority=running.authority,
        round=0,
        tickets=tickets,
        connections=connections,
    )
