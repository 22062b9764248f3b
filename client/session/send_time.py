"""When a device sends its answers to a round, drawn once, so that it does not tell when they were given.

Who sees submissions arrive, the shuffler or the network, would otherwise learn when somebody used the application.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hubbub.protos.task.task import Schedule
from hubbub.queries.randomizers.sampling import Random

RESERVE_SECONDS = 60.0
"""Seconds before the cut that are left for tries, where a round's grace is shorter; at most a tenth of what is left."""

LOOK_SECONDS = 600.0
"""Most seconds between two looks at the clock while a moment is waited for: the machine may sleep meanwhile."""


def draw_send_time(schedule: Schedule, number: int, now: float, random: Random) -> float:
    """Draw a send time (seconds since 1970) uniformly from what is left of a round at `now`; `now` where nothing is.

    Who sees it come learns that the answers were given before. Of two such times the later one is likelier, by the
    ratio of what was left of the round then.
    """
    first = max(now, float(schedule.opens(number)))
    cut = schedule.cut(number)
    last = min(float(schedule.ends(number)), cut - min(RESERVE_SECONDS, (cut - first) / 10))
    if last <= first:
        return now
    return first + int.from_bytes(random(8), "big") / 2**64 * (last - first)


async def wait_until(send_time: float, clock: Callable[[], float], sleep: Callable[[float], Awaitable[None]]) -> bool:
    """Return at a moment by the clock; return whether there was anything to wait for."""
    waited = False
    while (left := send_time - clock()) > 0:
        await sleep(min(left, LOOK_SECONDS))
        waited = True
    return waited
