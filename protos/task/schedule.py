"""Computes when a round is prepared, taken and forgotten, and when its keys are valid, in seconds since 1970 (UTC).

Devices, shuffler and analyzer must agree on these times, so each is computed only here. In order:

    key valid ≤ prepared < taken ≤ opens < ends ≤ cut ≤ forgotten ≤ key no longer valid

`Schedule` has the times that the task itself states, `opens`, `ends` and `cut`. The others follow from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from hubbub.protos.identity.keys import LATEST_TIME

DAY = 86_400

LONGEST_LEAD = DAY
"""Longest time between the preparation of a round and its first submissions."""

SHORTEST_LEAD = 600
"""Shortest time between the preparation of a round and its first submissions: the analyzer, whose key is needed, may be
unreachable for a moment."""

CLOCK_SECONDS = DAY
"""A key record is valid from this long before it can first be given out: a device's clock may be behind."""

DELAY_SECONDS = 30 * DAY
"""A key record is valid this long after the cut, so that a delayed batch can still be delivered and checked."""

Close = Literal["schedule", "operator"]


def at(moment: float) -> str:
    """Return a time (seconds since 1970) in a form for people, in UTC."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Schedule:
    """Rounds 0 … rounds-1 of `length` seconds from `start` (UTC, since 1970), each cut `grace` after its end."""

    start: int
    length: int
    grace: int
    rounds: int
    close: Close = "schedule"

    def opens(self, round_number: int) -> int:
        """When a round begins to take submissions."""
        return self.start + round_number * self.length

    def ends(self, round_number: int) -> int:
        """When a round ends; late submissions are still taken for `grace` seconds."""
        return self.opens(round_number) + self.length

    def cut(self, round_number: int) -> int:
        """When a round stops taking submissions."""
        return self.ends(round_number) + self.grace

    def round_at(self, now: float) -> int | None:
        """The round at `now` (seconds since 1970); None before the first and after the last."""
        number = math.floor((now - self.start) / self.length)
        return number if 0 <= number < self.rounds else None


@dataclass(frozen=True)
class Validity:
    """The first and the last second at which a key record is valid."""

    not_before: int
    not_after: int


def taken_from(schedule: Schedule, round_number: int) -> int:
    """Return when a round begins to take submissions: a grace before it opens, since clocks may differ by that much."""
    return schedule.opens(round_number) - schedule.grace


def prepared_from(schedule: Schedule, round_number: int) -> int:
    """Return when a round's keys are made, and given out from then on.

    This is one round's length before submissions are taken, but at least `SHORTEST_LEAD` and at most `LONGEST_LEAD`.
    With a longer lead, a task of short rounds would have many rounds prepared at once.
    """
    lead = min(LONGEST_LEAD, max(SHORTEST_LEAD, schedule.length))
    return taken_from(schedule, round_number) - lead


def forgotten_after(schedule: Schedule, round_number: int) -> int:
    """Return when a device forgets a round: a grace after its cut, when by every clock the round has been cut."""
    return schedule.cut(round_number) + schedule.grace


def key_validity(schedule: Schedule, round_number: int) -> Validity:
    """Return the validity of a round's key records, the same for both services.

    A device seals from the time it gets the keys (not before `prepared_from` by the shuffler's clock) until it forgets
    the round, and refuses a key that is not valid then. So the validity covers all of that time for any grace of
    the task, which may be a year. It ends within the range of timestamps.
    """
    not_before = max(0, prepared_from(schedule, round_number) - CLOCK_SECONDS)
    not_after = max(schedule.cut(round_number) + DELAY_SECONDS, forgotten_after(schedule, round_number))
    return Validity(not_before, min(LATEST_TIME, not_after))


def first_not_cut(schedule: Schedule, now: float) -> int:
    """Return the first round whose cut is after `now`; it may be beyond the task's last round."""
    # cut(r) = start + (r + 1)·length + grace > now means r + 1 > (now - start - grace)/length: the first such r is the
    # floor of the right side.
    return max(0, int((now - schedule.start - schedule.grace) // schedule.length))
