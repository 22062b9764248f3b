"""One device a call, and a hundred, against the same server with nothing to do and against bare opens.

Devices are enrolled, and each submission is another device's: the shuffler checks as many proofs as it is sent. Both
servers run in uvloop, as those do who care for speed.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import sqlite3
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import grpc
from cores import all_cores, open_bare, rate, sealed_outers, shares
from row import Comparison, Outcome, Row
from sample_task import INNER_BYTES

from hubbub.client.submit import Retrying
from hubbub.deploy.init.hops import change
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos import codec
from hubbub.protos.enrollment.credentials import NO_AUTHORITY, Credential, CredentialId, credential_key
from hubbub.protos.identity.keys import KeyRecord, Role
from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.protos.v1 import submission_pb2, submission_pb2_grpc
from hubbub.service.runtime import event_loop
from hubbub.service.transport import grpc_server
from hubbub.shuffler.admit.checks.capacity import OVERLOADED_SECONDS
from hubbub.shuffler.records import MasterSecret
from hubbub.shuffler.stores.sqlite.enrollment import masters

CALLS = 4000
"""Calls with one device each, in one run."""

AT_A_TIME = 100
"""Calls on their way at a time."""

BATCHES, DEVICES = 400, 100
"""Calls with many devices each, in one run; and how many."""

BATCHES_AT_A_TIME = 16
"""So many that the processes which open always have a next piece: with eight a twentieth of their time is idle."""

RUNS = 5
"""Runs of limit and result, by turns."""

TASK = """
[task]
name = "speed"
start = {start}
length = "1h"
grace = "1d"
rounds = 1
minimum_reports = 1000
close = "operator"
[privacy]
epsilon = 1.0
delta = 1e-6
[[query]]
name = "theme"
kind = "histogram"
categories = ["dark", "light"]
"""

SUBMIT, SUBMIT_BATCH = "/hubbub.v1.SubmissionService/Submit", "/hubbub.v1.SubmissionService/SubmitBatch"


def submissions() -> Iterator[Outcome]:
    """Both rows, on one running shuffler."""
    with all_cores() as pool:
        yield from asyncio.run(_measured(pool))


async def _measured(pool: Any) -> list[Outcome]:
    async with LocalPipeline(TASK.format(start=now())) as pipeline, _empty(pipeline) as idle:
        await _in_uvloop(pipeline)
        tls = TLS(pipeline.authority)
        async with open_channel(pipeline.shuffler, tls) as channel, open_channel(idle, tls) as bare:
            caller = SubmissionCaller(channel)
            key_set = await Retrying().retry(partial(caller.get_round, pipeline.task.task.id, 0))
            to = Destination(pipeline.task.task.id, 0, key_set.hash)
            public = KeyRecord.read(key_set.shuffler, pipeline.shuffler_key).public_key
            made = await _made(pool, public, to, RUNS * (CALLS + BATCHES * DEVICES))
            made = _proven(_master(pipeline), to, made)
            single = await _by_turns_single(channel, bare, to, made[: RUNS * CALLS])
            batch = await _by_turns_batch(channel, pool, to, made[RUNS * CALLS :])
    return [single, *batch]


async def _in_uvloop(pipeline: LocalPipeline) -> None:
    """Start the shuffler again as who cares for speed runs it."""
    await pipeline.stop(Role.SHUFFLER)
    change(pipeline.folder.of(Role.SHUFFLER) / "shuffler.toml", "event_loop", "uvloop")
    await pipeline.start(Role.SHUFFLER)


async def _made(pool: Any, public: bytes, to: Destination, count: int) -> list[Submission]:
    loop = asyncio.get_running_loop()
    pieces = [loop.run_in_executor(pool, partial(sealed_outers, public, to), share) for share in shares(count)]
    return [submission for piece in await asyncio.gather(*pieces) for submission in piece]


def _master(pipeline: LocalPipeline) -> MasterSecret:
    """The running shuffler's master key: redeeming as many tickets would take longer than all the rest."""
    path = pipeline.folder.of("shuffler") / "data" / "shuffler.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (master,) = masters(connection)
    return master


def _proven(master: MasterSecret, to: Destination, made: Sequence[Submission]) -> list[Submission]:
    """Each with the proof of a device of its own."""
    ids = [CredentialId(master.generation, 2**33, NO_AUTHORITY, os.urandom(16)).encode() for _ in made]
    return [
        Credential(each, credential_key(master.secret, each)).proven(to, submission)
        for each, submission in zip(ids, made, strict=True)
    ]


async def _by_turns_single(
    channel: grpc.aio.Channel, bare: grpc.aio.Channel, to: Destination, made: Sequence[Submission]
) -> Row:
    limits, values = list[float](), list[float]()
    destination = codec.write_destination(to)
    for run in range(RUNS):
        requests = [
            submission_pb2.SubmitRequest(
                destination=destination, submission=codec.write_submission(each)
            ).SerializeToString()
            for each in made[run * CALLS : (run + 1) * CALLS]
        ]
        for found, where in ((limits, bare), (values, channel)):
            found.append(len(requests) / (await sent([where], SUBMIT, requests, AT_A_TIME)).seconds)
    return Row.of("submit", "calls/s", values, limits)


async def _by_turns_batch(
    channel: grpc.aio.Channel, pool: Any, to: Destination, made: Sequence[Submission]
) -> list[Outcome]:
    limits, values, refused = list[float](), list[float](), list[int]()
    loop = asyncio.get_running_loop()
    for run in range(RUNS):
        part = made[run * BATCHES * DEVICES : (run + 1) * BATCHES * DEVICES]
        requests = _batches(to, part, DEVICES)
        bare = partial(rate, pool, partial(open_bare, INNER_BYTES), len(part))
        limits.append(await loop.run_in_executor(None, bare))
        found = await sent([channel], SUBMIT_BATCH, requests, BATCHES_AT_A_TIME)
        values.append(len(part) / found.seconds)
        refused.append(found.refused)
    return [
        Row.of("submit_batch", "devices/s", values, limits),
        refusals("submit_batch", BATCHES, refused),
    ]


def refusals(name: str, calls: int, refused: Sequence[int]) -> Comparison:
    """Return how many of a row's calls were told to come again."""
    return Comparison(name, f"calls of {calls} told to come again", statistics.median(refused), "calls", 0.0)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _batches(to: Destination, part: Sequence[Submission], devices: int) -> list[bytes]:
    destination = codec.write_destination(to)
    return [
        submission_pb2.SubmitBatchRequest(
            destination=destination,
            submissions=[codec.write_submission(each) for each in part[start : start + devices]],
        ).SerializeToString()
        for start in range(0, len(part), devices)
    ]


@dataclass(frozen=True)
class Sent:
    """The seconds until all requests were acknowledged, and how many calls were told to come again before that."""

    seconds: float
    refused: int


async def sent(channels: Sequence[grpc.aio.Channel], method: str, requests: Sequence[bytes], at_a_time: int) -> Sent:
    """Send ready-made requests, some at a time on each channel.

    A caller that is told to come again pauses as long as devices do, and another sends its request. A caller that came
    again at once would take the cores from those that are in work.
    """
    waiting: asyncio.Queue[bytes] = asyncio.Queue()
    for request in requests:
        waiting.put_nowait(request)
    refused = 0

    async def sender(channel: grpc.aio.Channel) -> None:
        nonlocal refused
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        while True:
            request = await waiting.get()
            if acknowledged(method, await call(request)):
                waiting.task_done()
                continue
            waiting.put_nowait(request)
            waiting.task_done()
            refused += 1
            await asyncio.sleep(OVERLOADED_SECONDS)

    started = time.perf_counter()
    senders = [asyncio.create_task(sender(channel)) for channel in channels for _ in range(at_a_time)]
    done = asyncio.create_task(waiting.join())
    await asyncio.wait([done, *senders], return_when=asyncio.FIRST_COMPLETED)
    seconds = time.perf_counter() - started
    for each in (done, *senders):
        if each.done():
            each.result()
        each.cancel()
    return Sent(seconds, refused)


def acknowledged(method: str, answer: bytes) -> bool:
    """Whether all of a call were acknowledged; else some were told to come again, which alone is let pass."""
    if method != SUBMIT_BATCH:
        return True
    results = submission_pb2.SubmitBatchResponse.FromString(answer).answers
    refused = [each.refusal for each in results if not each.HasField("receipt")]
    if any(each.reason != Reason.OVERLOADED.value for each in refused):
        raise RuntimeError(f"not all were acknowledged: {refused[-1]}")
    return not refused


# The same server with nothing to do


class _Nothing(submission_pb2_grpc.SubmissionServiceServicer):
    """Answers without looking."""

    async def Submit(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - gRPC's name
        return _RECEIPT

    async def GetRound(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        raise NotImplementedError("nobody asks for a round here")

    async def Enroll(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        raise NotImplementedError("devices are not enrolled here")

    async def GetFeed(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        raise NotImplementedError("nobody follows a feed here")

    async def SubmitBatch(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        raise NotImplementedError("batches are measured against bare opens")


_RECEIPT = submission_pb2.SubmitResponse(receipt=submission_pb2.Receipt(submission_id=bytes(16), round=0))


@asynccontextmanager
async def _empty(pipeline: LocalPipeline) -> AsyncIterator[str]:
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_serve_nothing, args=(there, pipeline._tls("shuffler")))
    process.start()
    try:
        yield await asyncio.to_thread(here.recv)
    finally:
        here.send("stop")
        await asyncio.to_thread(process.join)


def _serve_nothing(connection: Connection, tls: TLS) -> None:
    event_loop.run(lambda: _serving_nothing(connection, tls), "uvloop")


async def _serving_nothing(connection: Connection, tls: TLS) -> None:
    server = grpc_server.new_server()
    submission_pb2_grpc.add_SubmissionServiceServicer_to_server(_Nothing(), server)
    port = grpc_server.listen(server, "127.0.0.1:0", tls.server(mutual=False))
    await server.start()
    connection.send(f"127.0.0.1:{port}")
    await asyncio.to_thread(connection.recv)
    await server.stop(None)


ROWS = (submissions,)
