"""Calls are made again while that can help, after pauses that grow, vary and obey the shuffler; then errors say so."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest

from hubbub.client import (
    CannotCall,
    Distrusted,
    HubbubError,
    MessageError,
    Reason,
    Refusal,
    Retrying,
    RetryPolicy,
    Unreachable,
)
from hubbub.client.submit import ShufflerLink, submit_batch
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Answer, Receipt, Submission
from hubbub.protos.refusals import TRANSIENT
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.transport.addresses import HostError, checked_target
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.https import HTTPSChannel
from support.fake_shuffler import Clock
from support.patience import CALL_SECONDS

TO = Destination(b"t" * 32, 1, b"h" * 32)
OVERLOADED = Refusal(Reason.OVERLOADED, "full", 3.0)


def failing(*errors: Exception) -> tuple[Callable[[float], Awaitable[str]], list[float]]:
    """An attempt that fails like this and then succeeds, and the deadlines it was given."""
    left, deadlines = list(errors), list[float]()

    async def attempt(deadline: float) -> str:
        deadlines.append(deadline)
        if left:
            raise left.pop(0)
        return "done"

    return attempt, deadlines


def paced(clock: Clock, share: float = 0.5, **policy: float) -> Retrying:
    content = round(share * 2**32).to_bytes(4, "big")
    return Retrying(RetryPolicy(**policy), monotonic=clock, sleep=clock.sleep, random=lambda _: content)


async def test_pauses_double_up_to_the_longest(clock: Clock) -> None:
    attempt, _ = failing(*[Unreachable("gone")] * 6)
    assert await paced(clock, first_pause=1.0, longest_pause=5.0).retry(attempt) == "done"
    assert clock.slept == [0.5, 1.0, 2.0, 2.5, 2.5, 2.5]


async def test_pauses_vary_over_their_whole_range() -> None:
    policy = RetryPolicy()
    pauses = [policy.pause(4, share / 10, None) for share in range(10)]
    assert pauses[0] == 0
    assert max(pauses) < 0.2 * 8
    assert len(set(pauses)) == 10


async def test_a_retry_hint_is_obeyed_and_jitter_comes_after_it(clock: Clock) -> None:
    attempt, _ = failing(OVERLOADED, Refusal(Reason.NOT_READY, "no keys yet", 7.0))
    assert await paced(clock, first_pause=1.0).retry(attempt) == "done"
    assert clock.slept == [3.5, 8.0]


async def test_what_can_be_done_without_is_tried_once_and_leaves_half_of_the_time(clock: Clock) -> None:
    attempt, deadlines = failing(OVERLOADED)
    retrying = paced(clock, total=60.0, call=15.0).begun(20.0)
    with pytest.raises(Refusal, match="full"):
        await retrying.once(attempt)
    clock.now += 12.0
    assert await retrying.once(attempt) == "done"
    assert (deadlines, clock.slept) == ([10.0, 4.0], [])


async def test_many_failures_do_not_overflow_the_pause() -> None:
    assert RetryPolicy(longest_pause=9.0).pause(10**6, 1.0, None) == 9.0


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason not in TRANSIENT])
async def test_a_final_refusal_is_raised_at_once(clock: Clock, reason: Reason) -> None:
    attempt, deadlines = failing(Refusal(reason, "no", 1.0))
    with pytest.raises(Refusal) as caught:
        await paced(clock).retry(attempt)
    assert caught.value.reason is reason
    assert len(deadlines) == 1


@pytest.mark.parametrize("kind", [CannotCall, Distrusted])
async def test_what_stays_as_it_is_is_raised_at_once(clock: Clock, kind: type[Unreachable]) -> None:
    attempt, _ = failing(kind("no call helps"))
    with pytest.raises(kind, match=r"^no call helps$"):
        await paced(clock).retry(attempt)
    assert clock.slept == []


async def test_what_is_not_foreseen_is_raised_at_once(clock: Clock) -> None:
    attempt, deadlines = failing(MessageError("nonsense"))
    with pytest.raises(MessageError):
        await paced(clock).retry(attempt)
    assert len(deadlines) == 1


async def test_no_pause_is_begun_that_would_end_after_the_deadline(clock: Clock) -> None:
    attempt, deadlines = failing(*[Unreachable("gone")] * 99)
    began = clock.now
    with pytest.raises(Unreachable) as caught:
        await paced(clock, total=20.0, longest_pause=4.0).retry(attempt)
    # It says the time that was used, not the time that was allowed.
    used = clock.now - began
    assert str(caught.value) == f"gone; tried {len(deadlines)} times in {used:.1f} s"
    assert used < 20.0
    assert len(deadlines) > 5


async def test_a_transient_refusal_is_raised_itself_where_time_is_up(clock: Clock) -> None:
    attempt, _ = failing(*[OVERLOADED] * 99)
    with pytest.raises(Refusal) as caught:
        await paced(clock, total=10.0).retry(attempt)
    assert caught.value is OVERLOADED


async def test_a_refusal_is_raised_although_the_last_try_had_too_little_time_for_an_answer(clock: Clock) -> None:
    async def attempt(deadline: float) -> str:
        if deadline > 5.0:
            raise OVERLOADED
        clock.now += deadline
        raise Unreachable("no answer in time")

    with pytest.raises(Refusal) as caught:
        await paced(clock, share=0.0, total=25.0, call=10.0).retry(attempt)
    assert caught.value is OVERLOADED


async def test_who_is_gone_after_a_refusal_is_unreachable(clock: Clock) -> None:
    attempt, _ = failing(OVERLOADED, *[Unreachable("gone")] * 99)
    with pytest.raises(Unreachable, match="gone; tried"):
        await paced(clock, total=10.0).retry(attempt)


async def test_a_hint_beyond_the_deadline_is_not_waited_for(clock: Clock) -> None:
    attempt, _ = failing(Refusal(Reason.NOT_READY, "tomorrow", 86400.0))
    with pytest.raises(Refusal, match="tomorrow"):
        await paced(clock).retry(attempt)
    assert clock.slept == []


async def test_each_call_has_its_deadline_and_never_more_than_is_left(clock: Clock) -> None:
    attempt, deadlines = failing(Refusal(Reason.OVERLOADED, "full", 15.0))
    await paced(clock, share=0.0, total=20.0, call=8.0).retry(attempt)
    assert deadlines == [8.0, 5.0]


@pytest.mark.parametrize("name", ["total", "call", "first_pause", "longest_pause"])
@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_patience_without_time_is_refused(name: str, seconds: float) -> None:
    with pytest.raises(HubbubError, match=f"retry policy {name} is .* above 0"):
        RetryPolicy(**{name: seconds})


class Caller:
    """A shuffler that gives each submission the answers planned for it, one per time it is sent."""

    def __init__(self, plan: dict[bytes, list[Any]]) -> None:
        self.plan = plan
        self.sizes: list[int] = []

    async def submit(self, to: Destination, submission: Submission, deadline: float) -> Receipt:
        (answer,) = await self.submit_batch(to, [submission], deadline)
        if isinstance(answer, Refusal):
            raise answer
        return answer

    async def submit_batch(self, to: Destination, submissions: list[Submission], deadline: float) -> list[Answer]:
        assert deadline > 0
        self.sizes.append(len(submissions))
        answers: list[Answer] = []
        for submission in submissions:
            planned = self.plan.get(submission.id, [])
            answer = planned.pop(0) if planned else Receipt(submission.id, to.round)
            if isinstance(answer, Exception) and not isinstance(answer, Refusal):
                raise answer
            answers.append(answer)
        return answers


def submissions(count: int) -> list[Submission]:
    return [Submission(os.urandom(16), b"sealed") for _ in range(count)]


async def test_only_those_refused_for_now_are_sent_again(clock: Clock) -> None:
    some = submissions(5)
    late = Refusal(Reason.TOO_LATE, "late")
    caller: Any = Caller({some[1].id: [OVERLOADED], some[3].id: [OVERLOADED, OVERLOADED], some[4].id: [late]})
    answers = await submit_batch(caller, TO, some, paced(clock))
    assert answers == [*(Receipt(one.id, 1) for one in some[:4]), late]
    assert caller.sizes == [5, 2, 1]


async def test_those_still_refused_in_the_end_keep_their_refusal(clock: Clock) -> None:
    some = submissions(3)
    caller: Any = Caller({some[1].id: [OVERLOADED] * 99})
    answers = await submit_batch(caller, TO, some, paced(clock, total=10.0))
    assert answers == [Receipt(some[0].id, 1), OVERLOADED, Receipt(some[2].id, 1)]


async def test_the_longest_hint_of_a_call_is_obeyed(clock: Clock) -> None:
    some = submissions(2)
    longer = Refusal(Reason.OVERLOADED, "full", 5.0)
    caller: Any = Caller({some[0].id: [OVERLOADED], some[1].id: [longer]})
    await submit_batch(caller, TO, some, paced(clock, share=0.0))
    assert clock.slept == [5.0]


async def test_a_call_refused_as_a_whole_refuses_each(clock: Clock) -> None:
    class Refusing(Caller):
        async def submit_batch(self, *_: Any) -> list[Answer]:
            raise Refusal(Reason.MALFORMED, "too many")

    caller: Any = Refusing({})
    answers = await submit_batch(caller, TO, submissions(2), paced(clock))
    assert [answer.reason for answer in answers if isinstance(answer, Refusal)] == [Reason.MALFORMED] * 2


async def test_cancelling_ends_the_tries(clock: Clock) -> None:
    attempt, _ = failing(asyncio.CancelledError())  # type: ignore[arg-type]  # a BaseException, on purpose
    with pytest.raises(asyncio.CancelledError):
        await paced(clock).retry(attempt)


async def test_a_call_that_is_never_whole_in_time_is_made_smaller_until_it_is(clock: Clock) -> None:
    """Over a slow line the same bytes would be refused for ever."""

    class Slow(Caller):
        async def submit_batch(self, to: Destination, submissions: list[Submission], deadline: float) -> list[Answer]:
            if len(submissions) > 30:
                self.sizes.append(len(submissions))
                raise Refusal(Reason.OVERLOADED, "the message was incomplete after 5 s", 1.0)
            return await super().submit_batch(to, submissions, deadline)

    some = submissions(100)
    caller: Any = Slow({})
    answers = await submit_batch(caller, TO, some, paced(clock))
    assert answers == [Receipt(each.id, TO.round) for each in some]
    assert caller.sizes == [100, 50, 25, 25, 25, 25]


class Told(SubmissionCaller):
    """A shuffler that answers as it is told."""

    def __init__(self, answer: KeySet | Exception) -> None:
        self._answer = answer

    async def get_round(self, *_: object) -> KeySet:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class Several(ShufflerLink):
    """A link to shufflers that answer as they are told."""

    def __init__(self, answers: Sequence[KeySet | Exception], first: int) -> None:
        super().__init__(",".join(f"host-{number}:1" for number in range(len(answers))), TLS(b""))
        self._answers, self._at = answers, first

    def opened(self) -> tuple[int, SubmissionCaller]:
        return self._at, Told(self._answers[self._at])


@pytest.mark.parametrize("first", [0, 1, 2])
async def test_who_does_not_answer_or_is_overloaded_is_followed_by_the_next_address(clock: Clock, first: int) -> None:
    keys = KeySet(SignedDocument(b"{}", bytes(64)), SignedDocument(b"{}", bytes(64)))
    link = Several([Unreachable("gone"), OVERLOADED, keys], first)
    call = partial(link.caller.get_round, b"t" * 32, 0)
    assert await paced(clock).retry(call) is keys
    assert len(clock.slept) == 2 - first
    # It stays with the one that answered.
    assert await paced(clock).retry(call) is keys
    assert len(clock.slept) == 2 - first


async def test_a_refusal_that_is_the_task_s_is_no_reason_to_ask_another(clock: Clock) -> None:
    refusal = Refusal(Reason.NOT_READY, "no keys yet", 1.0)
    link = Several([refusal, Unreachable("gone")], 0)
    for _ in range(3):
        with pytest.raises(Refusal):
            await link.caller.get_round(b"t" * 32, 0, 1.0)


def test_devices_begin_with_any_of_the_addresses() -> None:
    links = [ShufflerLink("a:1,b:2,c:3", TLS(b"")) for _ in range(200)]
    assert {link._at for link in links} == {0, 1, 2}


def test_several_addresses_are_checked_one_by_one() -> None:
    assert checked_target("a:1, https://B:2/") == "a:1,https://b:2"
    for wrong, why in (("a:1,", "not host:port"), ("a:1,b", "not host:port"), (",".join(["a:1"] * 65), "at most 64")):
        with pytest.raises(HostError, match=why):
            checked_target(wrong)


# One link in several event loops


async def test_each_loop_has_a_connection_of_its_own_and_closes_only_that(tls: TLS) -> None:
    link = ShufflerLink("127.0.0.1:1", tls)
    here = link.channel()
    assert link.channel() is here

    async def elsewhere() -> bool:
        other = link.channel()
        await link.close()
        return other is not here and link.channel() is not other

    assert await asyncio.to_thread(asyncio.run, elsewhere())
    assert link.channel() is here
    # The other loop has ended without closing what it opened last.
    assert len(link._channels) == 2
    await link.close()
    assert link._channels == {}


async def test_the_last_block_of_a_loop_closes_its_connection(tls: TLS) -> None:
    link = ShufflerLink("https://127.0.0.1:1", tls)
    async with link:
        async with link:
            inner = link.channel()
        assert link.channel() is inner, "a call of the outer block may be in work"
    assert (link._channels, link._blocks) == ({}, {})


def test_connections_of_a_loop_that_ended_are_dropped(tls: TLS) -> None:
    link = ShufflerLink("https://127.0.0.1:1", tls)

    async def opened() -> HTTPSChannel:
        await link.__aenter__()
        channel = link.channel()
        assert isinstance(channel, HTTPSChannel)
        return channel

    first = asyncio.run(opened())
    asyncio.run(opened())
    assert (len(link._channels), len(link._blocks)) == (1, 1)
    with pytest.raises(Unreachable, match="the connection was closed"):
        asyncio.run(SubmissionCaller(first).get_round(bytes(32), 0, CALL_SECONDS))
    asyncio.run(link.close())


@pytest.mark.parametrize(
    ("address", "ends", "waits"),
    [
        ("127.0.0.1:1", asyncio.CancelledError, 1),
        ("127.0.0.1:1", TimeoutError, 1),
        ("127.0.0.1:1", Unreachable, 0),
        ("https://127.0.0.1:1", TimeoutError, 0),
    ],
)
async def test_after_a_cancelled_call_the_loop_lasts_until_grpc_has_reported_its_end(
    tls: TLS, monkeypatch: pytest.MonkeyPatch, address: str, ends: type[BaseException], waits: int
) -> None:
    """Else gRPC reports it to a closed loop, through another loop, which logs an error."""
    link, open_then = ShufflerLink(address, tls), list[int]()

    async def settled() -> None:
        open_then.append(len(link._channels))

    async def ended() -> None:
        async with link:
            link.channel()
            raise ends

    monkeypatch.setattr("hubbub.client.submit.settled", settled)
    with pytest.raises(ends):
        await ended()
    assert open_then == [0] * waits
    async with link:
        link.channel()
    assert len(open_then) == waits
