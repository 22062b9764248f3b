"""What is refused before it costs anything, in which order, and what stays of it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from unit.protos.test_rpc import HERE, TASK, Recorder, submission

from hubbub.protos import codec
from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import DeliveryCaller, ResultsCaller, SubmissionCaller
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.protos.v1 import submission_pb2
from hubbub.service.rpc import serve_delivery, serve_results, serve_submissions
from hubbub.service.rpc.concurrency import PortLimit, PortLimits
from hubbub.service.rpc.pipeline import RequestPipeline
from hubbub.service.rpc.size_limits import FEW_SHORT
from hubbub.service.transport.grpc_server import listen
from support import http2_frames
from support.ended_with_test import opened_server
from support.patience import CALL_SECONDS, PATIENCE
from support.samples import make_tls

GET_KEY = "/hubbub.v1.DeliveryService/GetKey"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TLS]:
    return make_tls(tmp_path_factory.mktemp("tls"), "service", "shuffler", "monitor")


@contextlib.asynccontextmanager
async def served(
    tls: dict[str, TLS], pipeline: RequestPipeline, handler: Any, mutual: bool = False
) -> AsyncIterator[str]:
    async with opened_server() as server:
        if mutual:
            serve_delivery(server, handler, {"shuffler"}, pipeline)
        else:
            serve_submissions(server, handler, pipeline, 200)
        port = listen(server, "127.0.0.1:0", tls["service"].server(mutual=mutual))
        await server.start()
        yield f"127.0.0.1:{port}"


def everybody(tls: dict[str, TLS]) -> TLS:
    return TLS(tls["service"].authority)


async def test_who_is_not_allowed_takes_no_slot(tls: dict[str, TLS]) -> None:
    """Else a monitor, whose certificate is of the same authority, would keep the shuffler from delivering."""
    pipeline = RequestPipeline(PortLimits(calls=1, unfinished_seconds=CALL_SECONDS))
    handler = Recorder(answer=Refusal(Reason.UNKNOWN_TASK, "no"))
    async with served(tls, pipeline, handler, mutual=True) as address:

        def attack() -> set[int | None]:
            with http2_frames.connect(address, tls["monitor"]) as monitor:
                streams = monitor.open_many(GET_KEY, 100)
                return {None if each is None else each.status for each in monitor.all_ended(streams, CALL_SECONDS)}

        assert await asyncio.to_thread(attack) == {7}  # PERMISSION_DENIED, though no message came
        assert (pipeline.admission.waiting, pipeline.admission.refused) == (0, {PortLimit.PEER: 100})
        async with open_channel(address, tls["shuffler"]) as channel:
            with pytest.raises(Refusal) as caught:
                await DeliveryCaller(channel).get_key(TASK, 1, CALL_SECONDS)
        assert caught.value.reason is Reason.UNKNOWN_TASK


async def test_each_fault_of_a_request_is_counted_and_none_reaches_the_handler(tls: dict[str, TLS]) -> None:
    pipeline, handler = RequestPipeline(), Recorder()
    faults = {
        PortLimit.COUNT: (http2_frames.SUBMIT_BATCH, http2_frames.empty_submissions(10_000), None),
        PortLimit.SIZE: (http2_frames.SUBMIT, bytes(100_000), None),
        PortLimit.COMPRESSED: (http2_frames.SUBMIT_BATCH, http2_frames.empty_submissions(3_900_000), "gzip"),
    }
    async with served(tls, pipeline, handler) as address:

        def attack() -> list[int | None]:
            with http2_frames.connect(address, everybody(tls)) as stranger:
                streams = [stranger.call(path, content, encoding) for path, content, encoding in faults.values()]
                streams.append(stranger.call(http2_frames.SUBMIT, b"\xff"))
                streams.append(stranger.open(http2_frames.SUBMIT, end=True))
                return [None if each is None else each.status for each in stranger.all_ended(streams, CALL_SECONDS)]

        assert await asyncio.to_thread(attack) == [3] * 5  # INVALID_ARGUMENT
    assert pipeline.admission.refused == dict.fromkeys(faults, 1)
    assert handler.calls == []
    # What was no message at all ended before there was anything to count.
    assert sorted(count for _, _, count in handler.counted) == [1, 1, 1, FEW_SHORT + 1]


async def test_what_is_refused_for_what_it_is_waits_for_its_answer_and_others_do_not(
    tls: dict[str, TLS], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.service.rpc.concurrency.PAUSE_SECONDS", 3600.0)
    monkeypatch.setattr("hubbub.service.rpc.concurrency.LONGEST_PAUSE_SECONDS", 3600.0)
    pipeline, handler = RequestPipeline(), Recorder()
    async with served(tls, pipeline, handler) as address, open_channel(address, everybody(tls)) as channel:
        caller = SubmissionCaller(channel)
        with http2_frames.connect(address, everybody(tls)) as stranger:
            for _ in range(20):
                stranger.call(http2_frames.SUBMIT, b"\xff")
            while sum(pipeline.admission._pausing.values()) < 20:
                assert await caller.submit_batch(HERE, [], CALL_SECONDS) == []
            # Nothing of theirs is held but the call.
            assert pipeline.admission.in_work == 0
            # A call that is refused for what somebody else did is told at once.
            handler.answer = Refusal(Reason.UNKNOWN_TASK, "no")
            with pytest.raises(Refusal, match="no"):
                await caller.submit(HERE, submission(1), CALL_SECONDS)


async def test_a_process_without_memory_takes_no_calls(tls: dict[str, TLS]) -> None:
    pipeline, handler = RequestPipeline(full=lambda: full), Recorder()
    full = True
    async with served(tls, pipeline, handler) as address, open_channel(address, everybody(tls)) as channel:
        caller = SubmissionCaller(channel)
        with pytest.raises(Refusal, match="its limit of memory") as caught:
            await caller.submit(HERE, submission(1), CALL_SECONDS)
        assert (caught.value.reason, caught.value.retry_after) == (Reason.OVERLOADED, 1.0)
        full = False
        assert await caller.submit_batch(HERE, [], CALL_SECONDS) == []


async def test_a_call_that_ends_before_its_message_does_leaves_nothing(tls: dict[str, TLS]) -> None:
    pipeline = RequestPipeline()
    async with served(tls, pipeline, Recorder()) as address:

        def attack() -> None:
            with http2_frames.connect(address, everybody(tls)) as stranger:
                for stream in stranger.open_many(http2_frames.SUBMIT, 50):
                    stranger.reset(stream)
                # Answered behind all of them.
                assert stranger.ended(stranger.call(http2_frames.SUBMIT, b"\xff"), CALL_SECONDS) is not None

        await asyncio.to_thread(attack)
        async with asyncio.timeout(CALL_SECONDS):
            while pipeline.admission.waiting:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0)
    assert pipeline.admission.in_work == 0


async def test_answers_that_nobody_takes_are_bounded_and_given_back_with_their_connection(tls: dict[str, TLS]) -> None:
    limits = PortLimits(message_bytes=1024 * 1024)
    pipeline = RequestPipeline(limits)
    malformed = submission_pb2.SubmitBatchRequest(destination=codec.write_destination(HERE))
    malformed.submissions.extend([submission_pb2.Submission(id=bytes(17))] * 500)
    async with served(tls, pipeline, Recorder()) as address:

        def attack() -> None:
            with http2_frames.connect(address, everybody(tls)) as stranger:
                stranger.take_nothing()
                streams = [stranger.call(http2_frames.SUBMIT_BATCH, malformed.SerializeToString()) for _ in range(50)]
                until = time.monotonic() + CALL_SECONDS
                while not pipeline.admission.refused[PortLimit.UNREAD] and time.monotonic() < until:
                    stranger.read(0.01)
                assert all(each is None or each.status != 0 for each in stranger.all_ended(streams, 0.0))
                assert 0 < pipeline.admission._bytes <= limits.message_bytes

        await asyncio.to_thread(attack)
        assert pipeline.admission.refused[PortLimit.UNREAD] > 0
        async with open_channel(address, everybody(tls)) as channel:
            assert len(await SubmissionCaller(channel).submit_batch(HERE, [Submission(b"x", b"")], CALL_SECONDS)) == 1
        async with asyncio.timeout(CALL_SECONDS):
            while pipeline.admission._bytes:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0)


async def test_who_waits_for_results_keeps_no_slot_from_who_reads_them(tls: dict[str, TLS]) -> None:
    pipeline, waits = RequestPipeline(PortLimits(calls=1)), asyncio.Event()

    class Waiting(Recorder):
        async def get_results(self, _task: bytes, _round: int, wait: float) -> Any:
            if wait:
                await waits.wait()
            raise Refusal(Reason.NO_RESULTS, "none")

    async with opened_server() as server:
        serve_results(server, Waiting(), {"monitor"}, pipeline)
        port = listen(server, "127.0.0.1:0", tls["service"].server(mutual=True))
        await server.start()
        async with open_channel(f"127.0.0.1:{port}", tls["monitor"]) as channel:
            caller = ResultsCaller(channel)
            waiting = [asyncio.create_task(caller.get_results(TASK, 1, CALL_SECONDS, PATIENCE)) for _ in range(3)]
            async with asyncio.timeout(CALL_SECONDS):
                while pipeline.admission.in_work < len(waiting):  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0)
            with pytest.raises(Refusal, match="none"):
                await caller.get_results(TASK, 1, 0.0, CALL_SECONDS)
            waits.set()
            await asyncio.gather(*waiting, return_exceptions=True)
    assert pipeline.admission.refused == {}


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No garbage is collected but by its last reference."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def held() -> int:
    """How many submissions anything holds."""
    return sum(isinstance(each, Submission) for each in gc.get_objects())


class Refusing(Recorder):
    async def submit(self, *_: Any) -> Any:
        raise Refusal(Reason.TOO_LATE, "over")


async def test_refused_calls_leave_nothing_for_the_garbage_collector(tls: dict[str, TLS]) -> None:
    """What only the collector frees is held for minutes, and each refused call would leave its own."""
    batch = [submission(number) for number in range(3)]
    async with served(tls, RequestPipeline(), Refusing()) as address, open_channel(address, everybody(tls)) as channel:
        caller = SubmissionCaller(channel)
        with uncollected():
            before = held()
            for _ in range(20):
                # Not with pytest's own, which keeps what was raised.
                with contextlib.suppress(Refusal):
                    await caller.submit_batch(HERE, batch, CALL_SECONDS)
            assert held() - before <= len(batch)
