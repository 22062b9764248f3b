"""Repeats calls after growing random pauses, as long as that can help, and says how long it was tried.

A retry sends the stored bytes and never draws anything again.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hubbub.client.validation import as_float, checked_function, checked_type, is_number
from hubbub.protos.errors import CannotCall, Distrusted, Unreachable, UsageError
from hubbub.protos.refusals import TRANSIENT, Refusal
from hubbub.queries.randomizers.sampling import Random, draw

T = TypeVar("T")


@dataclass(frozen=True)
class RetryPolicy:
    """How long to try, in seconds.

    Attributes:
        total: the time for one request with all its calls.
        call: the time for each call.
        first_pause: the longest pause after the first call that failed. It doubles with each further call.
        longest_pause: the limit to which it grows.

    Raises:
        UsageError: if one of them is not a number above 0.
    """

    total: float = 60.0
    call: float = 10.0
    first_pause: float = 0.2
    longest_pause: float = 10.0

    def __post_init__(self) -> None:
        for name, seconds in tuple(vars(self).items()):
            if not is_number(seconds) or not seconds > 0:
                raise UsageError(f"retry policy {name} is {seconds!r:.80}; it must be a number of seconds above 0")
            # Sums with a clock's floats overflow for whole numbers beyond all floats.
            object.__setattr__(self, name, as_float(seconds))

    def pause(self, tries: int, share: float, retry_after: float | None) -> float:
        """Return the pause in seconds after that many failed tries; `share` is uniform in [0, 1).

        It is the wait that the shuffler asked for, plus a uniform time up to a limit that doubles with each try. With
        this "full jitter", devices that failed at the same moment do not come back at the same moment.
        """
        # The exponent is limited because 2.0 ** 1024 overflows.
        limit = min(self.longest_pause, self.first_pause * 2.0 ** min(tries - 1, 30))
        return (retry_after or 0.0) + share * limit


@dataclass(frozen=True)
class Retry:
    """The `tries`-th try failed with `error`; the next follows after `pause` seconds. `left` seconds remain in all."""

    tries: int
    error: Refusal | Unreachable
    pause: float
    left: float


@dataclass(frozen=True)
class Retrying:
    """A retry policy with its clock, sleep and randomness, which tests replace.

    Attributes:
        policy: how long each request tries.
        monotonic: a clock in seconds that is never set back.
        sleep: waits so many seconds.
        random: the source of the jitter.
        progress: is called before each pause.
        until: when all requests end by `monotonic`, in addition to the policy of each.

    Raises:
        UsageError: if one of them has the wrong type.
    """

    policy: RetryPolicy = field(default_factory=RetryPolicy)
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Random = os.urandom
    progress: Callable[[Retry], None] | None = None
    until: float = math.inf

    def __post_init__(self) -> None:
        checked_type(self.policy, RetryPolicy, "retrying policy", "a RetryPolicy(…)")
        checked_function(self.monotonic, "retrying monotonic", "seconds")
        checked_function(self.sleep, "retrying sleep", "an awaitable")
        checked_function(self.random, "retrying random", "bytes")
        if self.progress is not None:
            checked_function(self.progress, "retrying progress", "nothing")
        if not is_number(self.until) or math.isnan(self.until):
            raise UsageError(f"retrying until is {self.until!r}; give a time by its clock `monotonic`, in seconds")

    def begun(self, timeout: float | None) -> Retrying:
        """Return the retrying of requests that begin now and have `timeout` seconds together.

        The default is the policy's `total`.

        Raises:
            UsageError: if `timeout` is not a number above 0.
        """
        if timeout is None:
            timeout = self.policy.total
        if not is_number(timeout) or not timeout > 0:
            raise UsageError(f"timeout is {timeout!r:.80}; give a number of seconds above 0")
        timeout = as_float(timeout)
        return replace(self, policy=replace(self.policy, total=timeout), until=self.monotonic() + timeout)

    async def retry(self, attempt: Callable[[float], Awaitable[T]]) -> T:
        """Call `attempt` with its deadline in seconds, until it succeeds or another try cannot help.

        Raises:
            Refusal: a final one at once, a transient one when the time is up.
            Unreachable: if there was no answer until the time was up.
        """
        policy, started = self.policy, self.monotonic()
        tries, refused = 0, None
        while True:
            left = self._left(started)
            try:
                return await attempt(min(policy.call, max(left, 0.001)))
            except (Refusal, Unreachable) as error:
                tries += 1
                refused = error if isinstance(error, Refusal) else refused
                pause = self._pause_after(error, tries)
                left = self._left(started)
                # The last try may have had a moment only: then the answer to those before says more than its end.
                if pause is not None and left <= 0 and refused is not None:
                    raise refused from error
                # Do not begin a pause that uses up the time: no call could follow it.
                if pause is None or pause >= left:
                    raise _given_up(error, tries, self.monotonic() - started) from error
                if self.progress is not None:
                    self.progress(Retry(tries, error, pause, left))
            await self.sleep(pause)

    async def once(self, attempt: Callable[[float], Awaitable[T]]) -> T:
        """Call `attempt` once, with its deadline in seconds: at most half of the time, to leave the rest for later.

        Raises:
            Refusal, Unreachable: as the attempt does.
        """
        return await attempt(min(self.policy.call, max(self._left(self.monotonic()) / 2, 0.001)))

    def _left(self, started: float) -> float:
        now = self.monotonic()
        return min(self.policy.total - (now - started), self.until - now)

    def _pause_after(self, error: Refusal | Unreachable, tries: int) -> float | None:
        """Return the pause before the next try; None if the error is final."""
        if isinstance(error, Refusal) and error.reason not in TRANSIENT:
            return None
        # A server with a certificate that is not trusted shows the same one again; a process stays as it is.
        if isinstance(error, Distrusted | CannotCall):
            return None
        share = draw(self.random) / 2**32
        return self.policy.pause(tries, share, error.retry_after if isinstance(error, Refusal) else None)


def _given_up(error: Refusal | Unreachable, tries: int, seconds: float) -> Refusal | Unreachable:
    if isinstance(error, Refusal | Distrusted | CannotCall):
        return error
    times = "once" if tries == 1 else f"{tries} times"
    return Unreachable(f"{error}; tried {times} in {seconds:.1f} s")


def explained(error: Refusal | Unreachable, consequence: str) -> Refusal | Unreachable:
    """Return the same error, with the consequence added to its message."""
    if isinstance(error, Refusal):
        return Refusal(error.reason, f"{error.message}; {consequence}", error.retry_after)
    return type(error)(f"{error}; {consequence}")
