"""The devices of a real pipeline: a fleet that keeps their state in one file."""

from __future__ import annotations

from hubbub.client import Fleet
from hubbub.deploy.local.pipeline import LocalPipeline


def fleet_of(pipeline: LocalPipeline, name: str = "fleet") -> Fleet:
    """A fleet that answers this pipeline's task; enter it to submit. `name` tells the state of several apart."""
    return Fleet(
        pipeline.task.encode(),
        operator_key=pipeline.operator_key,
        shuffler_key=pipeline.shuffler_key,
        state=pipeline.folder.of("client") / f"{name}.db",
        shuffler=pipeline.shuffler,
        authority=pipeline.authority,
        tickets=pipeline.ticket,
    )
