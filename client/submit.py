"""Calls the shuffler with deadlines, and retries after growing random pauses as long as that can help.

A retry sends the stored bytes and never draws anything again. `SubmissionCaller` checks that a receipt is for the
submission that was sent, and never returns another.
"""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TypeVar

import grpc

from hubbub.client.blocking import checked_loop
from hubbub.client.session.batching import chunks
from hubbub.client.validation import as_float, checked_function, checked_type, is_number
from hubbub.protos.errors import CannotCall, Distrusted, Unreachable, UsageError
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Answer, Receipt, Redemption, Submission
from hubbub.protos.refusals import TRANSIENT, Reason, Refusal
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.rpc.enrollment import Enrolled
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.feed.feed import FeedPage
from hubbub.protos.transport import channels as transport
from hubbub.protos.transport.addresses import HTTPS
from hubbub.protos.transport.https import HTTPSChannel
from hubbub.protos.transport.proxies import way_to
from hubbub.protos.transport.relay import Relay, RelayChannel
from hubbub.queries.randomizers.sampling import Random, draw

T = TypeVar("T")

SETTLE_SECONDS = 0.1
"""Seconds until a cancelled call has ended in gRPC: some milliseconds on a busy machine, and a margin."""


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


async def submit(caller: SubmissionCaller, to: Destination, submission: Submission, retrying: Retrying) -> Receipt:
    """Send one submission until it is acknowledged.

    Raises:
        Refusal: if it is refused for good, or the shuffler stays overloaded.
        Unreachable: if the shuffler does not answer.
        MessageError: if the receipt is another submission's.
    """
    return await retrying.retry(lambda deadline: caller.submit(to, submission, deadline))


async def submit_batch(
    caller: SubmissionCaller, to: Destination, submissions: Sequence[Submission], retrying: Retrying
) -> list[Answer]:
    """Send many submissions, and retry those that were refused for now; return each one's last answer, in order.

    Raises:
        Unreachable: if the shuffler does not answer.
        MessageError: if a receipt is another submission's.
    """
    sending = _SubmissionBatch(caller, to, submissions, retrying)
    try:
        await retrying.retry(sending.attempt)
    except Refusal as refusal:
        # A refusal of the whole call is the answer to every submission that has no other answer yet.
        sending.answers.update({place: sending.answers.get(place, refusal) for place in sending.open})
    return [sending.answers[place] for place in range(len(submissions))]


class _SubmissionBatch:
    """Submissions that are sent together, with the answers so far; `open` are the places that still need one."""

    def __init__(
        self, caller: SubmissionCaller, to: Destination, submissions: Sequence[Submission], retrying: Retrying
    ) -> None:
        self._caller, self._to, self._submissions, self._retrying = caller, to, submissions, retrying
        self.answers: dict[int, Answer] = {}
        self.open = list(range(len(submissions)))
        self._load = max(1, len(submissions))

    async def attempt(self, deadline: float) -> None:
        """Send the open submissions, in as few calls as the load limit allows; the calls share the deadline."""
        until = self._retrying.monotonic() + deadline
        try:
            for chunk in list(chunks(self.open, self._load)) or [[]]:
                await self._send(chunk, max(until - self._retrying.monotonic(), 0.001))
        finally:
            self.open = [place for place in self.open if place not in self.answers or _transient(self.answers[place])]
        transient = [answer for place in self.open if (answer := _transient(self.answers[place])) is not None]
        if transient:
            # `retry` waits as long as this error asks for: the longest wait is enough for every submission.
            raise max(transient, key=lambda refusal: refusal.retry_after or 0.0)

    async def _send(self, chunk: Sequence[int], deadline: float) -> None:
        sent = [self._submissions[place] for place in chunk]
        try:
            found = await self._caller.submit_batch(self._to, sent, deadline)
        except Refusal as refusal:
            # Over a slow line a large call never arrives in time, so the next call is smaller.
            if refusal.reason is Reason.OVERLOADED:
                self._load = max(1, len(chunk) // 2)
            raise
        self.answers.update(zip(chunk, found, strict=True))


def _transient(answer: Answer) -> Refusal | None:
    return answer if isinstance(answer, Refusal) and answer.reason in TRANSIENT else None


class ShufflerLink:
    """A TLS connection to the shuffler, by gRPC (host:port) or HTTPS (https://host:port), opened at its first use.

    With a relay it is a connection to that, and there is none to the shuffler, whatever fails.

    If there are several addresses (with commas between them), it begins with a random one, so that devices spread over
    them. If an address does not answer, or is overloaded, the next call goes to the next address.

    A connection belongs to the event loop in which it was opened, so each loop has its own: several threads, each with
    a loop, may use one link at a time. `async with` closes the loop's connections at the end of the loop's last block.
    """

    def __init__(self, address: str, tls: transport.TLS, relay: Relay | None = None) -> None:
        """Open nothing yet; with a relay, only the relay is called, and `address` says for whom."""
        self._relay = relay
        self._addresses = address.split(",")[: None if relay is None else 1]
        called = [f"the shuffler at {way_to(each, tls.proxy)}" for each in self._addresses]
        self._called = called if relay is None else [f"the shuffler, through the relay {relay.address},"]
        self._at = secrets.randbelow(len(self._addresses))
        self._tls = tls
        # Other threads add and remove their loops at any time; what a loop has is changed in its own thread only.
        self._channels: dict[asyncio.AbstractEventLoop, dict[str, grpc.aio.Channel | HTTPSChannel]] = {}
        self._blocks: dict[asyncio.AbstractEventLoop, int] = {}

    @property
    def caller(self) -> SubmissionCaller:
        """The shuffler at the other end."""
        return SubmissionCaller(self.channel(), self._called[0]) if len(self._addresses) == 1 else FailoverCaller(self)

    def opened(self) -> tuple[int, SubmissionCaller]:
        """Return the index of the address in use, and the shuffler there."""
        return self._at, SubmissionCaller(self.channel(), self._called[self._at])

    def turn(self, at: int) -> None:
        """Use the next address from now on, if `at` is the one in use."""
        if at == self._at:
            self._at = (at + 1) % len(self._addresses)

    def channel(self) -> grpc.aio.Channel | HTTPSChannel:
        """Return the running event loop's connection to the address in use; open it if there is none."""
        address, loop = self._addresses[self._at], checked_loop()
        channels = self._channels.get(loop)
        if channels is None:
            self._drop_ended_loops()
            channels = self._channels[loop] = {}
        if address not in channels:
            channels[address] = self._open(address)
        return channels[address]

    def _open(self, address: str) -> grpc.aio.Channel | HTTPSChannel:
        if self._relay is not None:
            return RelayChannel(self._relay, address, self._tls)
        return (
            HTTPSChannel(address, self._tls)
            if address.startswith(HTTPS)
            else transport.open_channel(address, self._tls)
        )

    def _drop_ended_loops(self) -> None:
        """Drop the connections of loops that ended without closing them: nothing can be awaited there any more."""
        for loop in [each for each in list(self._channels) if each.is_closed()]:
            for channel in self._channels.pop(loop, {}).values():
                # gRPC closes its own when it is dropped.
                if isinstance(channel, HTTPSChannel):
                    channel.shut()
        for loop in [each for each in list(self._blocks) if each.is_closed()]:
            self._blocks.pop(loop, None)

    async def close(self) -> None:
        """Close the connections of the running event loop; a later use opens them again."""
        self._drop_ended_loops()
        for channel in self._channels.pop(checked_loop(), {}).values():
            await channel.close()

    async def __aenter__(self) -> ShufflerLink:
        loop = checked_loop()
        self._blocks[loop] = self._blocks.get(loop, 0) + 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = checked_loop()
        left = self._blocks.pop(loop, 1) - 1
        # Calls of another block in this loop may be in work: closing the connection would cancel them.
        if left > 0:
            self._blocks[loop] = left
            return
        by_grpc = any(not isinstance(channel, HTTPSChannel) for channel in self._channels.get(loop, {}).values())
        await self.close()
        if by_grpc and kind is not None and issubclass(kind, asyncio.CancelledError | TimeoutError):
            await settled()


async def settled() -> None:
    """Wait until gRPC has reported the end of cancelled calls to their event loop; nothing else tells when it has.

    It reports to all loops by one thread, through whichever loop runs. If the loop of a call is closed by then, the
    other one, which may be the application's, logs an error.
    """
    await asyncio.sleep(SETTLE_SECONDS)


class FailoverCaller(SubmissionCaller):
    """Calls the shuffler at the link's address in use. If that fails, the caller must call again."""

    def __init__(self, link: ShufflerLink) -> None:
        self._link = link

    async def _call(self, work: Callable[[SubmissionCaller], Awaitable[T]]) -> T:
        at, caller = self._link.opened()
        try:
            return await work(caller)
        except Unreachable:
            self._link.turn(at)
            raise
        except Refusal as error:
            if error.reason is Reason.OVERLOADED:
                self._link.turn(at)
            raise

    async def get_round(self, task_id: bytes, round_number: int, deadline: float) -> KeySet:
        """Return the round's keys; the caller must check their signatures."""
        return await self._call(lambda caller: caller.get_round(task_id, round_number, deadline))

    async def get_feed(self, first: int, deadline: float) -> FeedPage:
        """Return entries of the feed of tasks from a number on; the caller must check them."""
        return await self._call(lambda caller: caller.get_feed(first, deadline))

    async def submit(self, destination: Destination, submission: Submission, deadline: float) -> Receipt:
        """Send one submission; return its receipt."""
        return await self._call(lambda caller: caller.submit(destination, submission, deadline))

    async def submit_batch(
        self, destination: Destination, submissions: Sequence[Submission], deadline: float
    ) -> list[Answer]:
        """Send many submissions; return one answer for each, in order."""
        return await self._call(lambda caller: caller.submit_batch(destination, submissions, deadline))

    async def enroll(self, redemptions: Sequence[Redemption], deadline: float) -> list[Enrolled]:
        """Redeem tickets; return one answer for each, in order."""
        return await self._call(lambda caller: caller.enroll(redemptions, deadline))
