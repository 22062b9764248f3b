"""Tells the operator while fewer standbys follow the leader than `standbys` asks for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from prometheus_client import CollectorRegistry, Gauge

from hubbub.service.observability.incidents import IncidentKind, Incidents

LOOK_SECONDS = 1.0
"""Seconds between two looks at who follows."""

_EVENT = "too few standbys follow"

Standbys = Callable[[], tuple[int, int]]
"""Returns how many standbys `standbys` asks for, and how many follow now."""


@contextlib.asynccontextmanager
async def watched_standbys(
    standbys: Standbys, incidents: Incidents, registry: CollectorRegistry
) -> AsyncIterator[None]:
    """Look again and again at who follows: it is an incident while too few do, and `registry` shows how many lack."""
    standbys_gauge(registry, standbys)

    async def look() -> None:
        while True:
            asked, following = standbys()
            if following < asked:
                incidents.open(_EVENT, IncidentKind.STANDBYS, _EVENT, _text(asked, following))
            else:
                incidents.resolve(_EVENT)
            await asyncio.sleep(LOOK_SECONDS)

    task = asyncio.create_task(look())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def standbys_gauge(registry: CollectorRegistry, standbys: Standbys) -> None:
    """Add the metric that shows how many standbys are missing."""
    text = "How many of the standbys that `standbys` asks for do not follow; 0 with SQLite or on standby."

    def missing() -> float:
        asked, following = standbys()
        return max(0, asked - following)

    gauge = Gauge("hubbub_shuffler_standbys_missing", text, registry=registry)
    gauge.set_function(missing)


def _text(asked: int, following: int) -> str:
    wanted = f"{asked} standby{'' if asked == 1 else 's'} asked for (`standbys`)"
    here = "none follows" if not following else f"{following} follow{'s' if following == 1 else ''}"
    return (
        f"{wanted}, {here}: no round begins or gets its keys, and no device enrolls meanwhile; start the standby, or "
        "lower `standbys` and restart the leader"
    )
