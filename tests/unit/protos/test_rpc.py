"""Values and refusals cross a real TLS connection unchanged; nothing else does."""

import contextlib
import logging
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from hubbub.protos.codec import LONGEST_MESSAGE
from hubbub.protos.errors import HubbubError, MessageError, Unreachable
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import (
    Answer,
    Committed,
    Envelopes,
    Incident,
    IncidentReport,
    ListedTask,
    Receipt,
    RoundState,
    RoundStatus,
    Submission,
)
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.release_chain import NO_RELEASES, Known, Release, ReleaseChunk
from hubbub.protos.records.results import (
    AnalysisStage,
    AnalyzerRoundStatus,
    QueryResult,
    QueryState,
    QueryStatus,
    RoundId,
    RoundResults,
)
from hubbub.protos.refusals import TRANSIENT, Reason, Refusal
from hubbub.protos.rpc import ControlCaller, DeliveryCaller, ResultsCaller, SubmissionCaller
from hubbub.protos.rpc.leader import LeaderCaller
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.transport.channels import (
    MAXIMUM_MESSAGE_BYTES,
    MAXIMUM_RESULTS_BYTES,
    MAXIMUM_SUBMISSIONS,
    TLS,
    open_channel,
)
from hubbub.protos.transport.https import HTTPSChannel
from hubbub.protos.transport.statuses import STATUS
from hubbub.protos.v1 import submission_pb2
from hubbub.queries.estimation.estimates import Estimates
from hubbub.service.rpc import serve_control, serve_delivery, serve_results, serve_submissions, servicers
from hubbub.service.rpc.size_limits import FEW_SHORT
from hubbub.service.transport.grpc_server import listen
from support.ended_with_test import opened_server
from support.https_port import opened
from support.krr_queries import INNER_BYTES
from support.messages import NEEDS_ROLE, OTHER_ROLE
from support.patience import CALL_SECONDS
from support.samples import Parties, make_tls, sample_task, signed

TASK = b"t" * 32
HERE = Destination(TASK, 3, b"k" * 32)
RELEASES = ReleaseChunk(4, (Release(9, 20, 0, (b"r" * 32, b"s" * 32)), Release(8, 10**12, 5, (b"t" * 32,) * 2)))
RECORD = SignedDocument(b'{"a":1}', b"s" * 64)
KEYS = KeySet(RECORD, SignedDocument(b"{}", b"S" * 64))
STATUS_OF_ROUND = RoundStatus(TASK, 3, RoundState.MIXED, 10, 5, {"too_late": 2}, "the analyzer")
BATCH = BatchId(TASK, 3, 1)
ROUND = RoundId(TASK, "flights", 3)


def submission(number: int) -> Submission:
    return Submission(bytes([number]) * 16, bytes([number]) * 200)


def receipt(number: int) -> Receipt:
    return Receipt(bytes([number]) * 16, 3)


@dataclass
class Recorder:
    """A handler of every service: records what arrives and answers, or raises, what it was told to."""

    calls: list[Any] = field(default_factory=list)
    answer: Any = None
    counted: list[tuple[Destination | None, Reason, int]] = field(default_factory=list)

    async def _reply(self, *call: Any) -> Any:
        self.calls.append(call)
        if isinstance(self.answer, BaseException) and not isinstance(self.answer, Answer):
            raise self.answer
        return self.answer

    async def get_round(self, *call: Any) -> Any:
        return await self._reply("get_round", *call)

    async def submit(self, destination: Destination, submissions: Sequence[Submission]) -> list[Answer]:
        if isinstance(self.answer, Refusal):
            self.answer = [self.answer]
        answers: list[Answer] = await self._reply("submit", destination, tuple(submissions))
        return answers

    def refused(self, destination: Destination | None, reason: Reason, count: int) -> None:
        self.counted.append((destination, reason, count))

    async def close_round(self, *call: Any) -> Any:
        return await self._raising("close_round", *call)

    async def get_status(self, *call: Any) -> Any:
        return await self._raising("get_status", *call)

    async def get_key(self, *call: Any) -> Any:
        return await self._raising("get_key", *call)

    async def get_releases(self, *call: Any) -> Any:
        return await self._raising("get_releases", *call)

    async def begin(self, *call: Any) -> Any:
        return await self._raising("begin", *call)

    async def put(self, *call: Any) -> Any:
        return await self._raising("put", *call)

    async def commit(self, *call: Any) -> Any:
        return await self._raising("commit", *call)

    async def get_results(self, *call: Any) -> Any:
        return await self._raising("get_results", *call)

    async def list_results(self, *call: Any) -> Any:
        return await self._raising("list_results", *call)

    async def get_statuses(self, *call: Any) -> Any:
        return await self._raising("get_statuses", *call)

    async def get_incidents(self, *call: Any) -> Any:
        return await self._raising("get_incidents", *call)

    async def list_tasks(self, *call: Any) -> Any:
        return await self._raising("list_tasks", *call)

    async def get_task(self, *call: Any) -> Any:
        return await self._raising("get_task", *call)

    async def _raising(self, *call: Any) -> Any:
        answer = await self._reply(*call)
        if isinstance(answer, Refusal):
            raise answer
        return answer


@dataclass(frozen=True)
class Callers:
    submissions: SubmissionCaller
    control: ControlCaller
    delivery: DeliveryCaller
    results: ResultsCaller
    channel: grpc.aio.Channel

    @classmethod
    def over(cls, channel: grpc.aio.Channel, https: grpc.aio.Channel | HTTPSChannel | None = None) -> "Callers":
        kinds = (ControlCaller, DeliveryCaller, ResultsCaller)
        submissions = SubmissionCaller(https or channel)
        return cls(submissions, *(kind(channel) for kind in kinds), channel)  # type: ignore[arg-type] # one of each


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TLS]:
    return make_tls(tmp_path_factory.mktemp("tls"), "service", "peer", "stranger")


@pytest.fixture
def handler() -> Recorder:
    return Recorder()


@pytest.fixture
async def address(handler: Recorder, tls: dict[str, TLS]) -> AsyncIterator[str]:
    async with opened_server() as server:
        serve_submissions(server, handler)
        for serve in (serve_control, serve_delivery, serve_results):
            serve(server, handler, {"peer"})  # type: ignore[operator] # the recorder is every handler
        port = listen(server, "127.0.0.1:0", tls["service"].server(mutual=True))
        await server.start()
        yield f"127.0.0.1:{port}"


@pytest.fixture(params=["grpc", "https"])
async def callers(
    request: pytest.FixtureRequest, address: str, handler: Recorder, tls: dict[str, TLS]
) -> AsyncIterator[Callers]:
    """Callers of each service; those of devices come by either port, and see the same."""
    async with contextlib.AsyncExitStack() as stack:
        channel = await stack.enter_async_context(open_channel(address, tls["peer"]))
        https = None
        if request.param == "https":
            port = await stack.enter_async_context(opened(handler, tls["service"]))
            https = await stack.enter_async_context(HTTPSChannel(f"https://127.0.0.1:{port}", tls["peer"]))
        yield Callers.over(channel, https)


STATUSES = [
    AnalyzerRoundStatus(
        ROUND,
        progress,
        (
            QueryStatus("carrier", 20, 25, 7, None, {}),
            QueryStatus("delay", 20, 25, 25, 0, {"duplicate": 20}),
        ),
        "carrier: 7 of 25 reports arrived",
    )
    for progress in AnalysisStage
]

INCIDENT_REPORT = IncidentReport((Incident("store", "the disk is full; make room", 1_700_000_000.125, 3),), 12)

PARTIES = Parties.generate()
SIGNED = signed(sample_task(PARTIES), PARTIES)
LISTED = [ListedTask(TASK, "commute"), ListedTask(SIGNED.task.id, SIGNED.task.name)]

CALLS: list[tuple[str, Callable[[Callers], Awaitable[Any]], tuple[Any, ...], Any]] = [
    ("get_round", lambda to: to.submissions.get_round(TASK, 3, CALL_SECONDS), (TASK, 3), KEYS),
    ("close_round", lambda to: to.control.close_round(TASK, 3, CALL_SECONDS), (TASK, 3), STATUS_OF_ROUND),
    ("get_status", lambda to: to.control.get_status(TASK, CALL_SECONDS), (TASK,), [STATUS_OF_ROUND, STATUS_OF_ROUND]),
    ("get_status", lambda to: to.control.get_status(None, CALL_SECONDS), (None,), []),
    ("get_key", lambda to: to.delivery.get_key(TASK, 3, CALL_SECONDS), (TASK, 3), RECORD),
    ("get_releases", lambda to: to.delivery.get_releases(TASK, CALL_SECONDS), (TASK,), Known(3, b"h" * 32, (1, 2))),
    ("begin", lambda to: to.delivery.begin(RECORD, KEYS, RELEASES, CALL_SECONDS), (RECORD, KEYS, RELEASES), 2**40),
    ("begin", lambda to: to.delivery.begin(RECORD, KEYS, NO_RELEASES, CALL_SECONDS), (RECORD, KEYS, NO_RELEASES), 0),
    (
        "put",
        lambda to: to.delivery.put(Envelopes(BATCH, 7, (b"e" * INNER_BYTES,) * 2), CALL_SECONDS),
        (Envelopes(BATCH, 7, (b"e" * INNER_BYTES,) * 2),),
        9,
    ),
    (
        "commit",
        lambda to: to.delivery.commit(BATCH, b"d" * 32, CALL_SECONDS),
        (BATCH, b"d" * 32),
        Committed(5, {"bad": 1}),
    ),
    (
        "get_results",
        lambda to: to.results.get_results(TASK, 3, 1.5, CALL_SECONDS),
        (TASK, 3, 1.5),
        RoundResults(ROUND, (), b"{}"),
    ),
    ("list_results", lambda to: to.results.list_results(TASK, CALL_SECONDS), (TASK,), [ROUND]),
    ("list_results", lambda to: to.results.list_results(None, CALL_SECONDS), (None,), []),
    ("get_statuses", lambda to: to.results.get_statuses(TASK, CALL_SECONDS), (TASK,), STATUSES),
    ("get_statuses", lambda to: to.results.get_statuses(None, CALL_SECONDS), (None,), []),
    ("get_incidents", lambda to: to.control.get_incidents(CALL_SECONDS), (), INCIDENT_REPORT),
    ("get_incidents", lambda to: to.results.get_incidents(CALL_SECONDS), (), IncidentReport()),
    ("list_tasks", lambda to: to.control.list_tasks(CALL_SECONDS), (), LISTED),
    ("list_tasks", lambda to: to.results.list_tasks(CALL_SECONDS), (), []),
    ("get_task", lambda to: to.control.get_task(SIGNED.task.id, CALL_SECONDS), (SIGNED.task.id,), SIGNED),
    ("get_task", lambda to: to.results.get_task(SIGNED.task.id, CALL_SECONDS), (SIGNED.task.id,), SIGNED),
]
EVERY_CALL = pytest.mark.parametrize(("name", "call", "arrives", "answer"), CALLS, ids=[call[0] for call in CALLS])
MUTUAL = [case for case in CALLS if case[0] != "get_round"]


@pytest.mark.sampled(17)
@EVERY_CALL
async def test_values_arrive_and_come_back(
    handler: Recorder, callers: Callers, name: str, call: Any, arrives: tuple[Any, ...], answer: Any
) -> None:
    handler.answer = answer
    assert await call(callers) == answer
    assert handler.calls == [(name, *arrives)]


async def test_submission_arrives_and_its_receipt_comes_back(handler: Recorder, callers: Callers) -> None:
    handler.answer = [receipt(1)]
    assert await callers.submissions.submit(HERE, submission(1), CALL_SECONDS) == receipt(1)
    assert handler.calls == [("submit", HERE, (submission(1),))]


async def test_many_submissions_are_answered_one_by_one_in_order(handler: Recorder, callers: Callers) -> None:
    refusal = Refusal(Reason.TOO_LATE, "too late", 2.5)
    handler.answer = [receipt(0), refusal, receipt(2)]
    answers = await callers.submissions.submit_batch(HERE, [submission(number) for number in range(3)], CALL_SECONDS)
    assert [answers[0], answers[2]] == [receipt(0), receipt(2)]
    assert isinstance(answers[1], Refusal)
    assert (answers[1].reason, answers[1].message, answers[1].retry_after) == (Reason.TOO_LATE, "too late", 2.5)


async def test_malformed_submission_does_not_sink_its_neighbors(handler: Recorder, callers: Callers) -> None:
    handler.answer = [receipt(0), receipt(2)]
    batch = [submission(0), Submission(b"short", b"e"), submission(2), Submission(b"", b"")]
    answers = await callers.submissions.submit_batch(HERE, batch, CALL_SECONDS)
    assert [answers[0], answers[2]] == [receipt(0), receipt(2)]
    for answer, length in ((answers[1], 5), (answers[3], 0)):
        assert isinstance(answer, Refusal)
        assert (answer.reason, answer.retry_after) == (Reason.MALFORMED, None)
        assert answer.message == f"the submission id has {length} bytes, but 16 are expected"
    assert handler.calls == [("submit", HERE, (submission(0), submission(2)))]
    assert handler.counted == [(HERE, Reason.MALFORMED, 2)]


async def test_malformed_submission_of_its_own_call_is_counted(handler: Recorder, callers: Callers) -> None:
    with pytest.raises(Refusal, match="5 bytes, but 16 are expected"):
        await callers.submissions.submit(HERE, Submission(b"short", b"e"), CALL_SECONDS)
    assert (handler.calls, handler.counted) == ([], [(HERE, Reason.MALFORMED, 1)])


async def test_batch_of_nothing_well_formed_does_not_reach_the_handler(handler: Recorder, callers: Callers) -> None:
    answers = await callers.submissions.submit_batch(HERE, [Submission(b"", b"")], CALL_SECONDS)
    assert [type(answer) for answer in answers] == [Refusal]
    assert await callers.submissions.submit_batch(HERE, [], CALL_SECONDS) == []
    assert handler.calls == []


async def test_flood_of_empty_submissions_is_refused_as_a_whole(handler: Recorder, callers: Callers) -> None:
    flood = [Submission(bytes(16), b"")] * (MAXIMUM_SUBMISSIONS + 1)
    with pytest.raises(Refusal, match=f"send at most {MAXIMUM_SUBMISSIONS}") as caught:
        await callers.submissions.submit_batch(HERE, flood, CALL_SECONDS)
    assert caught.value.reason is Reason.MALFORMED
    # They are counted before anything is parsed: not even where they were to go is read.
    assert (handler.calls, handler.counted) == ([], [(None, Reason.MALFORMED, MAXIMUM_SUBMISSIONS + 1)])


async def test_submissions_too_short_to_be_any_are_refused_as_a_whole(handler: Recorder, callers: Callers) -> None:
    """Twenty thousand bytes would be answered by half a million, after half a tenth of a second of work."""
    with pytest.raises(Refusal, match="send elements of at least 18") as caught:
        await callers.submissions.submit_batch(HERE, [Submission(b"", b"")] * 5000, CALL_SECONDS)
    assert caught.value.reason is Reason.MALFORMED
    assert (handler.calls, handler.counted) == ([], [(None, Reason.MALFORMED, FEW_SHORT + 1)])


async def test_submissions_to_nowhere_are_counted_as_malformed(handler: Recorder, callers: Callers) -> None:
    nowhere = submission_pb2.SubmitBatchRequest(submissions=[submission_pb2.Submission()] * 3).SerializeToString()
    with pytest.raises(grpc.aio.AioRpcError):
        await callers.channel.unary_unary("/hubbub.v1.SubmissionService/SubmitBatch")(nowhere, timeout=CALL_SECONDS)
    assert (handler.calls, handler.counted) == ([], [(None, Reason.MALFORMED, 3)])


@pytest.mark.parametrize("number", [0, 1, 3])
async def test_handler_that_answers_another_number_fails_the_call(
    handler: Recorder, callers: Callers, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    handler.answer = [receipt(0)] * number
    with pytest.raises(Unreachable):
        await callers.submissions.submit_batch(HERE, [submission(0), submission(1)], CALL_SECONDS)


async def test_receipt_for_another_submission_or_round_is_not_believed(handler: Recorder, callers: Callers) -> None:
    for wrong in (receipt(2), Receipt(receipt(1).submission_id, 4)):
        handler.answer = [wrong]
        with pytest.raises(MessageError, match="another submission or round"):
            await callers.submissions.submit(HERE, submission(1), CALL_SECONDS)
        handler.answer = [receipt(0), wrong]
        with pytest.raises(MessageError, match="another submission or round"):
            await callers.submissions.submit_batch(HERE, [submission(0), submission(1)], CALL_SECONDS)


# Refusals


def test_every_reason_has_a_status_and_none_means_success() -> None:
    assert set(STATUS) == set(Reason)
    assert grpc.StatusCode.OK not in STATUS.values()
    assert set(Reason) > TRANSIENT


@pytest.mark.sampled(44)
@pytest.mark.parametrize("retry_after", [None, 0.001, 1.25, 3600.0])
@pytest.mark.parametrize("reason", Reason)
async def test_refusal_comes_back_as_it_was_raised(
    handler: Recorder, callers: Callers, reason: Reason, retry_after: float | None
) -> None:
    message = "round 3 is over; send to round 4 — é"
    for call in (
        lambda: callers.submissions.submit(HERE, submission(1), CALL_SECONDS),
        lambda: callers.control.close_round(TASK, 3, CALL_SECONDS),
    ):
        handler.answer = Refusal(reason, message, retry_after)
        with pytest.raises(Refusal) as caught:
            await call()
        assert (caught.value.reason, caught.value.message) == (reason, message)
        assert caught.value.retry_after == retry_after


@pytest.mark.sampled(22)
@pytest.mark.parametrize("reason", Reason)
async def test_refusal_travels_as_its_status(handler: Recorder, callers: Callers, reason: Reason) -> None:
    handler.answer = Refusal(reason, "no")
    raw = callers.channel.unary_unary("/hubbub.v1.RoundControlService/GetStatus")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await raw(b"", timeout=CALL_SECONDS)
    assert caught.value.code() is STATUS[reason]
    assert dict(caught.value.trailing_metadata() or ())["hubbub-reason"] == reason.value


async def test_long_message_still_arrives(handler: Recorder, callers: Callers) -> None:
    handler.answer = Refusal(Reason.BAD_RECORD, "é\n" * 50_000)
    with pytest.raises(Refusal) as caught:
        await callers.control.close_round(TASK, 3, CALL_SECONDS)
    assert caught.value.reason is Reason.BAD_RECORD
    assert caught.value.message == ("é\\n" * 50_000)[:LONGEST_MESSAGE]


@pytest.mark.sampled(12)
@EVERY_CALL
async def test_unexpected_failure_does_not_leak_its_details(
    handler: Recorder,
    callers: Callers,
    name: str,
    call: Any,
    arrives: tuple[Any, ...],
    answer: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler.answer = RuntimeError("secret of the house")
    with caplog.at_level(logging.ERROR), pytest.raises(Unreachable) as caught:
        await call(callers)
    assert "secret" not in str(caught.value)
    assert "secret of the house" in caplog.text


@pytest.mark.parametrize(("name", "call", "arrives", "answer"), MUTUAL, ids=[case[0] for case in MUTUAL])
async def test_certificate_of_another_role_is_not_allowed(
    handler: Recorder, address: str, tls: dict[str, TLS], name: str, call: Any, arrives: Any, answer: Any
) -> None:
    for role in ("stranger", "service"):
        async with open_channel(address, tls[role]) as channel:
            with pytest.raises(
                Refusal,
                match=f"{NEEDS_ROLE} .*peer.*, {OTHER_ROLE} {role}; use such a one",
            ) as caught:
                await call(Callers.over(channel))
        assert caught.value.reason is Reason.NOT_ALLOWED
    assert handler.calls == []


async def test_nobody_is_allowed_where_no_certificates_are_asked_for(handler: Recorder, tls: dict[str, TLS]) -> None:
    async with opened_server() as server:
        serve_control(server, handler, {"peer", ""})
        port = listen(server, "127.0.0.1:0", tls["service"].server(mutual=False))
        await server.start()
        async with open_channel(f"127.0.0.1:{port}", tls["peer"]) as channel:
            with pytest.raises(Refusal) as caught:
                await ControlCaller(channel).get_status(None, CALL_SECONDS)
    assert caught.value.reason is Reason.NOT_ALLOWED
    assert handler.calls == []


# Malformed requests and answers


MALFORMED = [
    ("SubmissionService/GetRound", submission_pb2.GetRoundRequest(task_id=b"short").SerializeToString()),
    ("SubmissionService/Submit", b""),
    ("SubmissionService/SubmitBatch", b""),
    ("RoundControlService/CloseRound", b""),
    ("RoundControlService/GetStatus", b"\x0a\x01x"),
    ("DeliveryService/GetKey", b""),
    ("DeliveryService/BeginDelivery", b""),
    ("DeliveryService/PutEnvelopes", b""),
    ("DeliveryService/CommitDelivery", b""),
    ("ResultsService/GetResults", b""),
    ("ResultsService/ListResults", b"\x0a\x01x"),
    ("ResultsService/GetStatuses", b"\x0a\x01x"),
]


@pytest.mark.parametrize(("method", "request_bytes"), MALFORMED, ids=[method for method, _ in MALFORMED])
async def test_malformed_request_is_refused_before_the_handler(
    handler: Recorder, callers: Callers, method: str, request_bytes: bytes
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await callers.channel.unary_unary(f"/hubbub.v1.{method}")(request_bytes, timeout=CALL_SECONDS)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert dict(caught.value.trailing_metadata() or ())["hubbub-reason"] == "malformed"
    assert handler.calls == []


@pytest.mark.parametrize("method", ["SubmissionService/Submit", "DeliveryService/PutEnvelopes"])
@pytest.mark.parametrize("request_bytes", [b"\xff", b"\x0a\x05abc", b"\x0a" * 1000], ids=range(3))
async def test_bytes_that_are_no_message_stop_at_the_border(
    handler: Recorder, callers: Callers, method: str, request_bytes: bytes
) -> None:
    """gRPC itself turns them away; the server goes on."""
    with pytest.raises(grpc.aio.AioRpcError):
        await callers.channel.unary_unary(f"/hubbub.v1.{method}")(request_bytes, timeout=CALL_SECONDS)
    assert handler.calls == []
    handler.answer = []
    assert await callers.control.get_status(None, CALL_SECONDS) == []


@pytest.mark.parametrize("wait", [-1.0, float("nan")])
async def test_wait_that_is_no_time_is_malformed(handler: Recorder, callers: Callers, wait: float) -> None:
    with pytest.raises(Refusal) as caught:
        await callers.results.get_results(TASK, 3, wait, CALL_SECONDS)
    assert caught.value.reason is Reason.MALFORMED


@pytest.mark.parametrize("number", [-1, 2**32])
async def test_round_that_no_message_holds_is_named_to_the_caller(callers: Callers, number: int) -> None:
    for call in (
        callers.submissions.get_round(TASK, number, CALL_SECONDS),
        callers.control.close_round(TASK, number, CALL_SECONDS),
        callers.delivery.get_key(TASK, number, CALL_SECONDS),
        callers.results.get_results(TASK, number, 0.0, CALL_SECONDS),
        callers.delivery.commit(BatchId(TASK, number, 0), b"d" * 32, CALL_SECONDS),
    ):
        with pytest.raises(MessageError, match="the round is"):
            await call


async def test_message_above_the_limit_is_not_sent_again_and_again(callers: Callers) -> None:
    """gRPC would answer RESOURCE_EXHAUSTED, which reads like a busy server."""
    for call in (
        callers.submissions.submit(HERE, Submission(bytes(16), bytes(MAXIMUM_MESSAGE_BYTES)), CALL_SECONDS),
        callers.delivery.put(Envelopes(BATCH, 0, (bytes(INNER_BYTES),) * 200_000), CALL_SECONDS),
    ):
        with pytest.raises(MessageError, match=f"send at most {MAXIMUM_MESSAGE_BYTES}"):
            await call


def large_results(table: int) -> RoundResults:
    estimates = Estimates("text", (), table=os.urandom(table))
    return RoundResults(ROUND, (QueryResult("word", QueryState.PUBLISHED, 9, 9, {}, estimates),), b"{}")


async def test_results_above_the_largest_request_are_fetched(
    handler: Recorder, address: str, tls: dict[str, TLS]
) -> None:
    handler.answer = large_results(2 * MAXIMUM_MESSAGE_BYTES)
    async with open_channel(address, tls["peer"], largest=MAXIMUM_RESULTS_BYTES) as channel:
        fetched = await ResultsCaller(channel).get_results(TASK, 3, 0.0, 60.0)
    assert fetched == handler.answer


async def test_results_above_what_readers_take_are_refused_by_name(
    handler: Recorder, callers: Callers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC would answer RESOURCE_EXHAUSTED, for which a reader tries again and again."""
    monkeypatch.setattr(servicers, "MAXIMUM_RESULTS_BYTES", 1000)
    handler.answer = large_results(1000)
    with pytest.raises(
        Refusal, match=r"round 3 has 1\d{3} bytes of results, but a message has at most 1000; .*fewer"
    ) as caught:
        await callers.results.get_results(TASK, 3, 0.0, CALL_SECONDS)
    assert caught.value.reason is Reason.TOO_LARGE


class Liar(grpc.GenericRpcHandler):
    """A server that answers every call with the same bytes, or the same status and trailers."""

    def __init__(self, answer: bytes, trailers: tuple[tuple[str, str], ...] = ()) -> None:
        self.answer, self.trailers = answer, trailers

    def service(self, handler_call_details: Any) -> Any:  # noqa: ARG002 - gRPC's name
        async def reply(request: bytes, context: Any) -> bytes:
            if self.trailers:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "\x1b[2Jgone", self.trailers)
            return self.answer

        return grpc.unary_unary_rpc_method_handler(reply)


async def lied_to(tls: TLS, liar: Liar, call: Callable[[Callers], Awaitable[Any]]) -> Any:
    async with opened_server() as server:
        server.add_generic_rpc_handlers((liar,))
        port = listen(server, "127.0.0.1:0", tls.server(mutual=False))
        await server.start()
        async with open_channel(f"127.0.0.1:{port}", tls) as channel:
            return await call(Callers.over(channel))


UNREADABLE = [case for case in CALLS if case[0] in ("get_round", "close_round", "get_key", "get_results")]


@pytest.mark.parametrize("content", [b"", b"\x0a\x00", b"\xff\xff", b"\x0a\x05abc", b"\x0a\x02\x0a\x00"], ids=range(5))
@pytest.mark.parametrize(("name", "call", "arrives", "answer"), UNREADABLE, ids=[case[0] for case in UNREADABLE])
async def test_malformed_answer_is_a_hubbub_error(
    tls: dict[str, TLS], content: bytes, name: str, call: Any, arrives: Any, answer: Any
) -> None:
    with pytest.raises(HubbubError):
        await lied_to(tls["service"], Liar(content), call)


async def test_malformed_receipts_are_hubbub_errors(tls: dict[str, TLS]) -> None:
    for content in (b"", b"\x0a\x00", b"\xff", submission_pb2.SubmitBatchResponse(answers=[{}]).SerializeToString()):
        for call in (
            lambda to: to.submissions.submit(HERE, submission(1), CALL_SECONDS),
            lambda to: to.submissions.submit_batch(HERE, [submission(1)], CALL_SECONDS),
        ):
            with pytest.raises(HubbubError):
                await lied_to(tls["service"], Liar(content), call)


@pytest.mark.parametrize(
    "trailers",
    [
        (("hubbub-reason", "unheard"),),
        (("hubbub-reason", ""),),
        (("hubbub-reason", "too_late"), ("hubbub-retry-after-ms", "soon")),
        (("hubbub-reason", "too_late"), ("hubbub-retry-after-ms", "-1")),
        (("hubbub-reason", "too_late"), ("hubbub-retry-after-ms", "9" * 5000)),
        (("hubbub-retry-after-ms", "5"),),
    ],
    ids=range(6),
)
async def test_malformed_refusal_is_a_hubbub_error(tls: dict[str, TLS], trailers: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(HubbubError) as caught:
        await lied_to(tls["service"], Liar(b"", trailers), lambda to: to.control.get_status(None, CALL_SECONDS))
    assert "\x1b" not in str(caught.value)
    if isinstance(caught.value, Refusal):
        assert caught.value.retry_after is None


# Nobody there


async def test_server_that_is_down_is_unreachable(tls: dict[str, TLS]) -> None:
    async with open_channel("127.0.0.1:1", tls["peer"]) as channel:
        with pytest.raises(Unreachable, match="the shuffler did not answer"):
            await Callers.over(channel).submissions.get_round(TASK, 3, 2.0)
        with pytest.raises(Unreachable, match="the analyzer did not answer"):
            await Callers.over(channel).delivery.get_key(TASK, 3, 2.0)


async def test_server_of_another_authority_is_unreachable(
    address: str, tls: dict[str, TLS], tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = make_tls(tmp_path_factory.mktemp("other"), "peer")["peer"]
    async with open_channel(address, other) as channel:
        with pytest.raises(Unreachable):
            await Callers.over(channel).control.get_status(None, 1.0)


async def test_deadline_that_passes_is_unreachable(callers: Callers, handler: Recorder) -> None:
    with pytest.raises(Unreachable):
        await callers.control.get_status(None, 0.0)


async def test_an_unknown_service_is_a_wrong_port_or_another_version(tls: dict[str, TLS]) -> None:
    async with opened_server() as server:
        port = listen(server, "127.0.0.1:0", tls["service"].server(mutual=False))
        await server.start()
        async with open_channel(f"127.0.0.1:{port}", tls["peer"]) as channel:
            callers = Callers.over(channel)
            calls = {
                "port for devices (7301)": callers.submissions.get_round(bytes(32), 0, CALL_SECONDS),
                "control port (7302)": callers.control.get_status(None, CALL_SECONDS),
                "delivery port (7401, or a hop's 7501)": callers.delivery.get_key(bytes(32), 0, CALL_SECONDS),
                "results port (7402)": callers.results.get_statuses(None, CALL_SECONDS),
                "leader port (7309)": LeaderCaller(channel).get_secrets(bytes(32), 0, CALL_SECONDS),
            }
            for called, call in calls.items():
                says = f"UNIMPLEMENTED: .*; check that the address has its {re.escape(called)}, and that it has the"
                with pytest.raises(HubbubError, match=says):
                    await call
