"""Defines the steps of a load, each process's share of it, and when its calls are due.

Arrivals are open by default: like those of people, they are due at moments of a Poisson process, independent of earlier
calls. A latency counts from the moment a call was due. If the next call waited for the last answer, a service that
stalls for a second would show one slow call, and not the thousand that were due meanwhile.

With a think time, the loop is closed: a fixed number of users is present at once. Each is followed by another after its
answer and a pause, so the load slows down with the service.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass

MARGIN = 6.0
"""Standard deviations of arrivals that are prepared beyond the mean; more come in one of 10⁹ steps."""

MOST_RATE = 1_000_000.0
MOST_SECONDS = 86_400.0
MOST_DEVICES = 2_000_000
"""Limits of a load: devices a second, seconds of a step, devices in all; each takes about a kilobyte of memory."""


@dataclass(frozen=True)
class LoadStep:
    """A chunk of load: open with `rate` devices a second, or closed with `users` calls at once; one of them is 0.

    `think` (seconds) is the mean of the exponential time between the answer to a user's call and the next.
    """

    rate: float
    seconds: float
    users: int = 0
    think: float = 0.0

    def mean_calls(self, per_call: int) -> float:
        """Return the largest mean number of calls, reached if every user is answered immediately."""
        return self.rate * self.seconds / per_call if self.rate else self.users * self.seconds / self.think

    def offered(self, per_call: int) -> float:
        """Return the largest mean number of devices a second."""
        return self.mean_calls(per_call) * per_call / self.seconds


@dataclass(frozen=True)
class LoadSchedule:
    """A load: its steps, the devices in a call, and how long each call is tried (seconds)."""

    steps: tuple[LoadStep, ...]
    per_call: int = 1
    timeout: float = 10.0

    def share(self, processes: int) -> LoadSchedule:
        """Return the share of each of `processes` processes; together they run all of it.

        Poisson processes with shares of the rate add up to one with the whole rate.
        """
        return LoadSchedule(tuple(_share(step, processes) for step in self.steps), self.per_call, self.timeout)

    def content(self) -> dict[str, object]:
        """Return it as JSON."""
        return asdict(self)

    @staticmethod
    def of(content: dict[str, object]) -> LoadSchedule:
        """Read what `content` returned."""
        given: dict[str, object] = dict(content)
        steps = given.pop("steps")
        if not isinstance(steps, list):
            raise TypeError("a schedule's steps must be a list")
        return LoadSchedule(tuple(LoadStep(**step) for step in steps), **given)  # type: ignore[arg-type]


def _share(step: LoadStep, processes: int) -> LoadStep:
    return LoadStep(step.rate / processes, step.seconds, -(-step.users // processes), step.think)


def calls_for(step: LoadStep, per_call: int) -> int:
    """Return for how many calls devices are made ready: the mean, and `MARGIN` standard deviations more."""
    mean = step.mean_calls(per_call)
    return math.ceil(mean + MARGIN * math.sqrt(mean)) + step.users


def devices_for(schedule: LoadSchedule, processes: int) -> int:
    """Return how many devices so many processes make ready for a schedule, each for its share."""
    share = schedule.share(processes)
    return processes * sum(calls_for(step, schedule.per_call) * schedule.per_call for step in share.steps)


def due(step: LoadStep, per_call: int, drawn: random.Random) -> Iterator[float]:
    """Yield when the calls of an open step are due, in seconds from its beginning."""
    at = 0.0
    while (at := at + drawn.expovariate(step.rate / per_call)) < step.seconds:
        yield at
