"""One device a call, and a hundred, against bare opens; and one device a call by gRPC beside.

Devices are enrolled, each submission is another device's, and each acknowledged one is on disk, as in `submitting`. The
load is one process that holds open connections, writes ready-made requests and reads answers, without a parser: it
takes a part of the same cores, which is in what is measured. A hundred a call are looked at one by one: the call is
answered 200 where all of them are refused, too.

One device a call is what several processes answer (`workers`, one a core). gRPC beside it, and a hundred a call, are
answered by one process, which opens in others: what is in many hands already gains nothing by it.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import grpc
from cores import CORES, all_cores, open_bare, rate
from row import Outcome, Row
from sample_task import INNER_BYTES
from submitting import (
    BATCHES_AT_A_TIME,
    SUBMIT,
    SUBMIT_BATCH,
    TASK,
    Sent,
    _batches,
    _empty,
    _in_uvloop,
    _made,
    _master,
    _proven,
    acknowledged,
    now,
    refusals,
    sent,
)

from hubbub.client.submit import Retrying
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos import codec
from hubbub.protos.identity.keys import KeyRecord
from hubbub.protos.messages import Submission
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.transport.addresses import parted
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.protos.v1 import submission_pb2
from hubbub.shuffler.admit.checks.capacity import OVERLOADED_SECONDS

CALLS, BATCHES, DEVICES = 6000, 200, 100
"""Calls with one device each, and with many, in one run; and how many those have."""

AT_A_TIME = 400
"""Calls with one device on their way at a time by HTTPS: so many that nobody waits for nothing to do."""

BY_GRPC_AT_A_TIME = 100
"""The same by gRPC, as in `submitting`: fewer keep it busy, and of 400 on a connection some are refused."""

GRPC_THEN = 0.55
"""Of a gRPC handler with nothing to do: what `submit` came to when the goal against it was set. It has grown since, by
what serves both ports, so that it is shown against both."""

RUNS = 5
"""Runs of limit and result, by turns."""

_OK, _LENGTH = b"HTTP/1.1 200 ", b"content-length: "
_RECORD = 16384
"""The longest piece that TLS gives at once."""


def submissions_by_https() -> Iterator[Outcome]:
    """All rows, on two running shufflers, of which one has work at a time."""
    with all_cores() as pool:
        yield from asyncio.run(_measured(pool))


async def _measured(pool: Any) -> list[Outcome]:
    async with (
        _target(pool, RUNS * CALLS, workers=CORES) as several,
        _target(pool, RUNS * (CALLS + BATCHES * DEVICES)) as one,
        _empty(one.pipeline) as idle,
        open_channel(idle, TLS(one.pipeline.authority)) as empty,
    ):
        return await _by_turns(pool, several, one, empty)


@dataclass(frozen=True)
class _Target:
    """A running shuffler, ways to it by both servers, and what is left to be sent to it."""

    pipeline: LocalPipeline
    channel: grpc.aio.Channel
    load: _Load
    to: Destination
    remaining: Iterator[Submission]

    def singles(self) -> list[bytes]:
        return _singles(self.to, [next(self.remaining) for _ in range(CALLS)])

    def batches(self) -> list[bytes]:
        return _batches(self.to, [next(self.remaining) for _ in range(BATCHES * DEVICES)], DEVICES)


@contextlib.asynccontextmanager
async def _target(pool: Any, count: int, workers: int = 0) -> AsyncIterator[_Target]:
    # All connections come from one address, as from a proxy.
    options: dict[str, Any] = {"https": True, "behind_proxy": True, "workers": workers}
    async with LocalPipeline(TASK.format(start=now()), **options) as pipeline:
        await _in_uvloop(pipeline)
        task, addresses = pipeline.task.task, pipeline.services["shuffler"].addresses
        async with open_channel(addresses["submission"], TLS(pipeline.authority)) as channel:
            key_set = await Retrying().retry(partial(SubmissionCaller(channel).get_round, task.id, 0))
            to = Destination(task.id, 0, key_set.hash)
            public = KeyRecord.read(key_set.shuffler, pipeline.shuffler_key).public_key
            made = await _made(pool, public, to, count)
            with _Load(addresses["https"], str(pipeline.authority)) as load:
                yield _Target(pipeline, channel, load, to, iter(_proven(_master(pipeline), to, made)))


async def _by_turns(pool: Any, several: _Target, one: _Target, empty: grpc.aio.Channel) -> list[Outcome]:
    found: dict[str, list[float]] = {name: [] for name in ("empty", "grpc", "https", "bare", "batch")}
    loop, devices, refused = asyncio.get_running_loop(), BATCHES * DEVICES, list[int]()
    for _ in range(RUNS):
        singles = one.singles()
        for name, channel in (("empty", empty), ("grpc", one.channel)):
            found[name].append(CALLS / (await sent([channel], SUBMIT, singles, BY_GRPC_AT_A_TIME)).seconds)
        by_https = await asyncio.to_thread(several.load.send, SUBMIT, several.singles(), AT_A_TIME)
        found["https"].append(CALLS / by_https.seconds)
        bare = partial(rate, pool, partial(open_bare, INNER_BYTES), devices)
        found["bare"].append(await loop.run_in_executor(None, bare))
        batches = await asyncio.to_thread(one.load.send, SUBMIT_BATCH, one.batches(), BATCHES_AT_A_TIME)
        found["batch"].append(devices / batches.seconds)
        refused.append(batches.refused)
    then = [GRPC_THEN * empty for empty in found["empty"]]
    return [
        Row.of("submit_https", "calls/s", found["https"], found["bare"]),
        Row.of("submit_https_over_grpc_then", "calls/s", found["https"], then),
        Row.of("submit_https_over_grpc", "calls/s", found["https"], found["grpc"]),
        Row.of("submit_batch_https", "devices/s", found["batch"], found["bare"]),
        refusals("submit_batch_https", BATCHES, refused),
    ]


def _singles(to: Destination, part: Sequence[Submission]) -> list[bytes]:
    destination = codec.write_destination(to)
    return [
        submission_pb2.SubmitRequest(
            destination=destination, submission=codec.write_submission(each)
        ).SerializeToString()
        for each in part
    ]


class _Load:
    """A process that sends requests over connections which it keeps, one after the other on each."""

    def __init__(self, address: str, authority: str) -> None:
        self._here, there = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_send_all, args=(there, address, authority), daemon=True)

    def __enter__(self) -> _Load:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._here.send(None)
        self._process.join()

    def send(self, path: str, requests: Sequence[bytes], at_a_time: int) -> Sent:
        """Have requests sent, so many at a time."""
        self._here.send((path, list(requests), at_a_time))
        found: Sent | str = self._here.recv()
        if isinstance(found, str):
            raise RuntimeError(found)
        return found


def _send_all(pipe: Connection, address: str, authority: str) -> None:
    connections: list[ssl.SSLSocket] = []
    context = ssl.create_default_context(cafile=authority)
    while (job := pipe.recv()) is not None:
        path, bodies, at_a_time = job
        while len(connections) < at_a_time:
            bare = socket.create_connection(parted(address))
            bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connections.append(context.wrap_socket(bare, server_hostname="127.0.0.1"))
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/proto\r\ncontent-length: ".encode()
        requests = [b"%b%d\r\n\r\n%b" % (head, len(body), body) for body in bodies]
        try:
            pipe.send(_timed(connections[:at_a_time], requests, partial(acknowledged, path)))
        except (OSError, RuntimeError) as error:
            pipe.send(f"the load failed: {error}")
    for connection in connections:
        connection.close()


def _timed(
    connections: Sequence[ssl.SSLSocket], requests: Sequence[bytes], acknowledged: Callable[[bytes], bool]
) -> Sent:
    """Send all requests, as `submitting.sent` does.

    By the system's own calls: what the load takes of the cores, who serves has not.
    """
    remaining, asked, refused = deque(requests), dict[int, bytes](), 0
    by_number = {connection.fileno(): connection for connection in connections}
    free, pausing = deque(by_number), deque[tuple[float, int]]()
    started = time.perf_counter()
    with select.epoll() as arrived:
        for number in by_number:
            arrived.register(number, select.EPOLLIN)
        while remaining or asked:
            while pausing and pausing[0][0] <= time.perf_counter():
                free.append(pausing.popleft()[1])
            while remaining and free:
                number, request = free.popleft(), remaining.popleft()
                by_number[number].sendall(request)
                asked[number] = request
            for number, _ in arrived.poll(max(0.0, pausing[0][0] - time.perf_counter()) if pausing else None):
                request = asked.pop(number)
                if acknowledged(_read_answer(by_number[number])):
                    free.append(number)
                else:
                    refused += 1
                    remaining.append(request)
                    pausing.append((time.perf_counter() + OVERLOADED_SECONDS, number))
    return Sent(time.perf_counter() - started, refused)


def _read_answer(connection: ssl.SSLSocket) -> bytes:
    """Read one answer, whose headers are in lower case and come in one piece with its first bytes; return its body."""
    found = connection.recv(_RECORD)
    if not found.startswith(_OK):
        raise RuntimeError(f"answered {found[:200]!r}")
    while (end := found.find(b"\r\n\r\n")) < 0:
        found += connection.recv(_RECORD)
    length = int(found[found.index(_LENGTH) + len(_LENGTH) :].split(b"\r", 1)[0])
    while len(found) < end + 4 + length:
        found += connection.recv(_RECORD)
    return found[end + 4 :]


ROWS = (submissions_by_https,)
