"""What anybody can send to the ports of real services, and what they hold, answer and say meanwhile and afterwards.

Bounded, on loopback: memory is the process's own, as the system tells it. What a proxy in front adds is not tried here.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos import codec
from hubbub.protos.identity.keys import KeySet, Role
from hubbub.protos.rpc import ControlCaller, SubmissionCaller
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.protos.v1 import submission_pb2
from hubbub.queries.questions.histogram import Histogram
from hubbub.service.rpc import largest_submissions
from hubbub.service.transport.file_limits import raise_limit
from support import http2_frames
from support.http2_frames import Connection, Ended
from support.metrics_scrape import fetch, scrape
from support.patience import CALL_SECONDS, PATIENCE

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="no memory is told here"),
]

DRAFT = Draft(
    "kiosks",
    Schedule(int(time.time()), length=3600, grace=3600, rounds=1, close="operator"),
    20,
    Privacy(epsilon=10.0, delta=5e-3, epsilon_local=16.0),
    (Histogram("theme", ("dark", "light")),),
)
MEBIBYTE = 1024 * 1024
NEWCOMERS = 16

BOMB = 3_900_000
"""Empty submissions, which gzip makes 7,671 bytes of."""

LOW = ("sh", "-c", 'ulimit -S -n 1024; exec "$@"', "sh", sys.executable, "-m", "hubbub.cli.main", "shuffler")
"""The shuffler as a system starts it that lets a process have 1,024 files unless it asks for more."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pipeline() -> AsyncIterator[LocalPipeline]:
    async with LocalPipeline(DRAFT, programs={Role.SHUFFLER: LOW}) as started:
        yield started


class Shuffler:
    """The shuffler's process: its memory, and its answers."""

    def __init__(self, pipeline: LocalPipeline) -> None:
        self.pipeline = pipeline
        service = pipeline.services[Role.SHUFFLER]
        assert service.pid is not None
        self.of = Path(f"/proc/{service.pid}")
        self.addresses = service.addresses
        self.tls = TLS(pipeline.authority)

    def forget_peak(self) -> None:
        """Begin to measure `peak` anew."""
        (self.of / "clear_refs").write_text("5")

    def memory(self, name: str = "VmRSS") -> int:
        """Resident memory in MiB: now, or at its most ("VmHWM")."""
        (line,) = [each for each in (self.of / "status").read_text().splitlines() if each.startswith(f"{name}:")]
        return int(line.split()[1]) // 1024

    @contextlib.contextmanager
    def attackers(self, count: int) -> Iterator[list[Connection]]:
        """So many connections."""
        with contextlib.ExitStack() as stack:
            connect = partial(http2_frames.connect, self.addresses["submission"], self.tls)
            yield [stack.enter_context(connect()) for _ in range(count)]

    async def answers(self) -> list[KeySet]:
        """What newcomers are answered, each over a connection of its own, and none of which tries twice."""

        async def one() -> KeySet:
            async with open_channel(self.addresses["submission"], self.tls) as channel:
                return await SubmissionCaller(channel).get_round(self.pipeline.task.task.id, 0, CALL_SECONDS)

        return await asyncio.gather(*(one() for _ in range(NEWCOMERS)))

    async def said(self) -> list[str]:
        """The incidents that the operator is shown."""
        async with open_channel(self.addresses["control"], self.pipeline.operator_tls) as channel:
            return [incident.text for incident in (await ControlCaller(channel).get_incidents(CALL_SECONDS)).incidents]


@pytest_asyncio.fixture(loop_scope="module")
async def shuffler(pipeline: LocalPipeline) -> Shuffler:
    made = Shuffler(pipeline)
    # Keys are made a moment after the start.
    async with open_channel(made.addresses["submission"], made.tls) as channel:
        while True:
            with contextlib.suppress(Exception):
                await SubmissionCaller(channel).get_round(pipeline.task.task.id, 0, CALL_SECONDS)
                break
    made.forget_peak()
    return made


async def test_bombs_are_refused_by_their_bytes(shuffler: Shuffler) -> None:
    bomb = http2_frames.empty_submissions(BOMB)

    def attack(attacker: Connection) -> list[Ended | None]:
        streams = [attacker.call(http2_frames.SUBMIT_BATCH, bomb, "gzip") for _ in range(12)]
        streams += [attacker.call(http2_frames.SUBMIT_BATCH, bomb[:MEBIBYTE]) for _ in range(12)]
        return attacker.all_ended(streams, CALL_SECONDS)

    with shuffler.attackers(1) as (attacker,):
        ended = await asyncio.to_thread(attack, attacker)
    assert [None if each is None else each.status for each in ended] == [3] * 24  # INVALID_ARGUMENT
    assert shuffler.memory("VmHWM") < 200
    shown = await scrape(shuffler.addresses["metrics"])
    for limit in ("compressed", "count"):
        assert shown.value("hubbub_shuffler_calls_refused_total", port="submission", limit=limit) >= 12


def malformed(pipeline: LocalPipeline) -> submission_pb2.SubmitBatchRequest:
    """A call to a round that is taken, so far without submissions."""
    to = Destination(pipeline.task.task.id, 0, bytes(32))
    return submission_pb2.SubmitBatchRequest(destination=codec.write_destination(to))


async def test_submissions_of_two_bytes_are_refused_as_a_whole(shuffler: Shuffler) -> None:
    """Twenty thousand bytes would be answered by thirty times as many."""
    raw = malformed(shuffler.pipeline).SerializeToString() + http2_frames.empty_submissions(10_000)

    def attack(attacker: Connection) -> list[Ended | None]:
        return attacker.all_ended([attacker.call(http2_frames.SUBMIT_BATCH, raw) for _ in range(50)], CALL_SECONDS)

    with shuffler.attackers(1) as (attacker,):
        ended = await asyncio.to_thread(attack, attacker)
    # gRPC sends an empty message, of five bytes, with a refusal.
    assert {None if each is None else (each.status, each.body.strip(b"\0")) for each in ended} == {(3, b"")}


async def test_answers_that_nobody_takes_are_bounded_and_lock_nobody_out(shuffler: Shuffler) -> None:
    request = malformed(shuffler.pipeline)
    request.submissions.extend([submission_pb2.Submission(id=bytes(17))] * 10_000)
    raw = request.SerializeToString()

    def attack(attacker: Connection) -> None:
        attacker.take_nothing()
        attacker.all_ended([attacker.call(http2_frames.SUBMIT_BATCH, raw) for _ in range(60)], 0.5)

    before = shuffler.memory()
    with shuffler.attackers(1) as (attacker,):
        await asyncio.to_thread(attack, attacker)
        assert len(await shuffler.answers()) == NEWCOMERS
        # Each call is of 10,000 answers, which a busy machine takes a while to make.
        async with asyncio.timeout(PATIENCE):
            while not any("unread answers" in text for text in await shuffler.said()):
                continue
        assert shuffler.memory("VmHWM") < before + 200
    shown = await scrape(shuffler.addresses["metrics"])
    assert shown.value("hubbub_shuffler_calls_refused_total", port="submission", limit="bytes") > 0


async def test_messages_that_never_end_are_bounded_and_given_back(shuffler: Shuffler) -> None:
    largest = largest_submissions(shuffler.pipeline.task.task.outer_bytes)
    before = shuffler.memory()

    def attack(attackers: list[Connection]) -> None:
        for attacker in attackers:
            for size in (8 * MEBIBYTE, *[largest] * 49):
                attacker.send(
                    attacker.open(http2_frames.SUBMIT_BATCH), http2_frames.message(bytes(size))[:-100], seconds=2.0
                )

    with shuffler.attackers(5) as attackers:
        await asyncio.to_thread(attack, attackers)
        assert len(await shuffler.answers()) == NEWCOMERS
        assert shuffler.memory("VmHWM") < 400
        assert any("port refuses calls" in text for text in await shuffler.said())
    until = time.monotonic() + CALL_SECONDS
    while shuffler.memory() > before + 64 and time.monotonic() < until:
        await shuffler.answers()
    assert shuffler.memory() <= before + 64


async def test_calls_without_a_message_lock_nobody_out(shuffler: Shuffler) -> None:
    with shuffler.attackers(33) as (watching, *submitting):
        watching.open_many(http2_frames.WATCH, 4096)
        streams = [attacker.open_many(http2_frames.SUBMIT, 128) for attacker in submitting]
        assert len(await shuffler.answers()) == NEWCOMERS
        # Each of them ends, though its caller does nothing more: none holds anything for longer than the deadline.
        ended = await asyncio.to_thread(submitting[-1].all_ended, streams[-1], CALL_SECONDS)
    assert {None if each is None else each.status for each in ended} == {8}  # RESOURCE_EXHAUSTED


async def test_sockets_that_say_nothing_do_not_stop_newcomers(shuffler: Shuffler) -> None:
    raise_limit()  # of this process, which has the other ends
    with http2_frames.half_open(shuffler.addresses["submission"], 1100) as opened:
        assert len(opened) == 1100
        assert len(await shuffler.answers()) == NEWCOMERS
        # They are closed, though nobody closes them here.
        last: socket.socket = opened[-1]
        last.settimeout(CALL_SECONDS)
        assert await asyncio.to_thread(last.recv, 1) == b""


async def test_dripping_requests_do_not_hide_the_metrics(shuffler: Shuffler) -> None:
    host, _, port = shuffler.addresses["metrics"].rpartition(":")
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            slow = stack.enter_context(socket.create_connection((host, int(port)), CALL_SECONDS))
            slow.sendall(b"GET /metrics HTTP/1.0\r\nx: ")
        status, _ = await asyncio.to_thread(fetch, shuffler.addresses["metrics"])
        assert status == 200
