"""Draws once when a device sends its answers to a round, so that the time does not reveal when they were given.

The shuffler and the network see submissions arrive. Otherwise they would learn when somebody used the application.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hubbub.protos.task.schedule import Schedule
from hubbub.queries.randomizers.sampling import Random

RESERVE_SECONDS = 60.0
"""Seconds before the cut that are left for tries, if a round's grace is shorter.

At most a tenth of the rest of the round is reserved."""

LOOK_SECONDS = 600.0
"""Most seconds between two looks at the clock while waiting for a send time: the machine may sleep meanwhile."""


def draw_send_time(schedule: Schedule, number: int, now: float, random: Random) -> float:
    """Draw a send time (seconds since 1970) uniformly from the rest of a round at `now`; `now` if nothing is left.

    An observer of the arrival learns that the answers were given before it. Of two times at which they may have been
    given, the later one is likelier: the likelihood is inversely proportional to the rest of the round at that time.
    """
    first = max(now, float(schedule.opens(number)))
    cut = schedule.cut(number)
    last = min(float(schedule.ends(number)), cut - min(RESERVE_SECONDS, (cut - first) / 10))
    if last <= first:
        return now
    return first + int.from_bytes(random(8), "big") / 2**64 * (last - first)


async def wait_until(send_time: float, clock: Callable[[], float], sleep: Callable[[float], Awaitable[None]]) -> bool:
    """Return at `send_time` by the clock; return whether the call had to wait."""
    waited = False
    while (left := send_time - clock()) > 0:
        await sleep(min(left, LOOK_SECONDS))
        waited = True
    return waited
