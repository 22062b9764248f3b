"""What a load is made of, how much of it each process runs, and when its calls are due.

Arrivals are open by default: they are due at moments of a Poisson process, whatever became of earlier ones, as those of
people are. A latency counts from the moment a call was due. Were the next call to wait for the last answer, a service
that stands still for a second would be charged for one slow call, and not for the thousand that came meanwhile.

With a time to think the loop is closed: so many people at once, each of whom is followed by another once it was
answered and a time has passed. That is what a fixed number of users does, and it slows down with the service.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass

MARGIN = 6.0
"""Standard deviations of arrivals that are made ready beyond the mean; more come in one of 10⁹ steps."""

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
        """Return how many calls come on average, at most: where each of the users is answered at once."""
        return self.rate * self.seconds / per_call if self.rate else self.users * self.seconds / self.think

    def offered(self, per_call: int) -> float:
        """Return how many devices a second come on average, at most."""
        return self.mean_calls(per_call) * per_call / self.seconds


@dataclass(frozen=True)
class LoadSchedule:
    """A load: its steps, how many devices go in a call, and for how long each call is tried (seconds)."""

    steps: tuple[LoadStep, ...]
    per_call: int = 1
    timeout: float = 10.0

    def share(self, processes: int) -> LoadSchedule:
        """Return what each of so many processes runs; together they run all of it.

        Poisson processes of a part of the rate each make one of the whole rate.
        """
        return LoadSchedule(tuple(_share(step, processes) for step in self.steps), self.per_call, self.timeout)

    def content(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return asdict(self)

    @staticmethod
    def of(content: dict[str, object]) -> LoadSchedule:
        """Read what `content` returned."""
        given: dict[str, object] = dict(content)
        steps = given.pop("steps")
        if not isinstance(steps, list):
            raise TypeError("a schedule's steps are a list")
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
