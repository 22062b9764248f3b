"""The proxy that a deployment brings refuses what gRPC's server cannot: rapid resets, and too much from one address.

HAProxy with the configuration that `hubbub init --proxy` writes, in front of a real shuffler; attackers are processes
of their own that come from 127.0.0.2. Without the proxy, what they cost is bounded, and ends with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from hubbub.client import Device
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.errors import Unreachable
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import Submission
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES, Destination
from hubbub.protos.task.admission import OPEN, AdmissionPolicy, Mode
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.addresses import parted
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.queries.questions.histogram import Histogram
from support.haproxy import Running, proxy_before
from support.http2_frames import SUBMIT, connect
from support.metrics_scrape import scrape
from support.patience import CALL_SECONDS, PATIENCE, when_ready

ATTACKS = Path(__file__).parents[1] / "soak" / "attacks.py"
ATTACKER = "127.0.0.2"
SECONDS = 3.0
NEWCOMERS = 20
MOST_OF_AN_ADDRESS = 64
CALLS_OF_A_CONNECTION = 1000
MOST_MEBIBYTES = 400.0
DRAFT = Draft(
    "usage",
    Schedule(int(time.time()), length=3600, grace=86_400, rounds=1, close="operator"),
    2,
    Privacy(epsilon=20.0, delta=1e-2, epsilon_local=20.0),
    (Histogram("theme", ("light", "dark")),),
)


@contextlib.asynccontextmanager
async def proxied(folder: Path) -> AsyncIterator[tuple[LocalPipeline, Running]]:
    """A pipeline with a proxy in front of it."""
    async with asyncio.timeout(PATIENCE), LocalPipeline(DRAFT, folder / "pipeline", behind_proxy=True) as pipeline:
        with proxy_before(pipeline, folder / "proxy") as proxy:
            await has_keys(proxy.address, pipeline)
            yield pipeline, proxy


async def has_keys(address: str, pipeline: LocalPipeline) -> None:
    """Return once the round has its keys, which the analyzer is asked for after the start."""
    async with open_channel(address, TLS(pipeline.authority)) as channel:
        await when_ready(lambda: SubmissionCaller(channel).get_round(pipeline.task.task.id, 0, CALL_SECONDS))


@contextlib.asynccontextmanager
async def attacked(name: str, address: str, pipeline: LocalPipeline, counts: dict[str, int]) -> AsyncIterator[None]:
    """Have an attack go on meanwhile; `counts` has in the end what it sent and what came back."""
    words = [name, "--address", address, "--authority", str(pipeline.authority), "--source", ATTACKER]
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(ATTACKS), *words, "--seconds", str(SECONDS), stdout=asyncio.subprocess.PIPE
    )
    try:
        yield
        said, _ = await process.communicate()
        counts.update(json.loads(said))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def served(address: str, pipeline: LocalPipeline, count: int = NEWCOMERS) -> int:
    """How many of so many newcomers, one after the other, get a round's keys, each by its first call."""
    found = 0
    for _ in range(count):
        async with open_channel(address, TLS(pipeline.authority)) as channel:
            with contextlib.suppress(Unreachable):
                await SubmissionCaller(channel).get_round(pipeline.task.task.id, 0, CALL_SECONDS)
                found += 1
    return found


async def mebibytes(pipeline: LocalPipeline) -> float:
    shown = await scrape(pipeline.services[Role.SHUFFLER].addresses["metrics"])
    return shown.value("process_resident_memory_bytes") / 2**20


def written(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder, with what it holds."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_a_submission_gets_through_the_proxy_and_no_address_is_written(tmp_path: Path) -> None:
    async with proxied(tmp_path) as (pipeline, proxy):
        device = Device(
            pipeline.task.encode(),
            operator_key=pipeline.operator_key,
            shuffler_key=pipeline.shuffler_key,
            state=tmp_path / "device.db",
            shuffler=proxy.address,
            authority=pipeline.authority,
            ticket=pipeline.ticket("device"),
        )
        async with device:
            assert (await device.submit({"theme": "dark"})).used
        # From an address that nothing else here has: calls that are refused, and one that is broken off.
        with connect(proxy.address, TLS(pipeline.authority), source="127.0.0.78") as stranger:
            ended = stranger.ended(stranger.call("/hubbub.v1.RoundControlService/GetStatus", b""), CALL_SECONDS)
            assert ended is not None
            assert ended.headers[b":status"] == b"404"
            ended = stranger.ended(stranger.call("/grpc.health.v1.Health/Watch", b""), CALL_SECONDS)
            assert ended is not None
            assert ended.headers[b":status"] == b"404"
            stranger.open(SUBMIT)
        assert [status.submissions for status in await pipeline.status()] == [1]
        assert proxy.total("requests_denied_total") == 2
    files = written(tmp_path)
    needles = (b"127.0.0.78", socket.inet_aton("127.0.0.78"))
    assert [path for path, content in files.items() if any(needle in content for needle in needles)] == []
    assert proxy.folder / "proxy.log" in files


async def passed_on(proxy: Running, part: str = "mtls") -> float:
    """How many connections of devices with certificates, or of another part, reached the shuffler so far."""
    return (await scrape(proxy.metrics)).total("haproxy_server_sessions_total", proxy=part)


async def test_a_device_with_a_certificate_shows_it_to_the_shuffler_through_the_proxy(tmp_path: Path) -> None:
    draft = replace(DRAFT, admission=AdmissionPolicy(Mode.MTLS))
    async with (
        asyncio.timeout(PATIENCE),
        LocalPipeline(draft, tmp_path / "pipeline", behind_proxy=True) as pipeline,
    ):
        with proxy_before(pipeline, tmp_path / "proxy") as proxy:
            assert pipeline.issuer is not None
            certificate, key = pipeline.issuer.files("device")
            device = Device(
                pipeline.task.encode(),
                operator_key=pipeline.operator_key,
                shuffler_key=pipeline.shuffler_key,
                state=tmp_path / "device.db",
                shuffler=proxy.mtls,
                authority=pipeline.authority,
                certificate=certificate,
                key=key,
            )
            async with device:
                assert (await device.submit({"theme": "dark"})).used
            assert [status.submissions for status in await pipeline.status()] == [1]
            # What is no TLS is not passed on.
            before = await passed_on(proxy)
            assert before > 0
            with socket.create_connection(place(proxy.mtls), 5.0) as stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                assert await asyncio.to_thread(stranger.recv, 1) == b""
            assert await passed_on(proxy) == before


async def test_https_goes_through_the_proxy_to_the_shuffler_unopened(tmp_path: Path) -> None:
    draft = replace(DRAFT, admission=OPEN, privacy=replace(DRAFT.privacy, honest_share=1.0))
    folder, https = tmp_path / "pipeline", {"behind_proxy": True, "https": True}
    async with asyncio.timeout(PATIENCE), LocalPipeline(draft, folder, **https) as pipeline:
        with proxy_before(pipeline, tmp_path / "proxy") as proxy:
            device = Device(
                pipeline.task.encode(),
                operator_key=pipeline.operator_key,
                shuffler_key=pipeline.shuffler_key,
                state=tmp_path / "device.db",
                shuffler=f"https://{proxy.https}",
                authority=pipeline.authority,
            )
            async with device:
                assert (await device.submit({"theme": "dark"})).used
            assert [status.submissions for status in await pipeline.status()] == [1]
            assert await passed_on(proxy, "https") > 0


async def test_an_honest_program_with_more_calls_than_a_connection_has_and_with_long_ones_gets_them_all(
    tmp_path: Path,
) -> None:
    async with proxied(tmp_path) as (pipeline, proxy), open_channel(proxy.address, TLS(pipeline.authority)) as channel:
        caller, task = SubmissionCaller(channel), pipeline.task.task
        for _ in range(CALLS_OF_A_CONNECTION // 100 + 1):
            await asyncio.gather(*(caller.get_round(task.id, 0, CALL_SECONDS) for _ in range(100)))
        # Three times what the proxy holds of a call.
        long = [Submission(os.urandom(SUBMISSION_ID_BYTES), bytes(task.outer_bytes)) for _ in range(500)]
        assert len(long) * task.outer_bytes > 3 * 16_384
        answers = await caller.submit_batch(Destination(task.id, 0, bytes(32)), long, CALL_SECONDS)
        assert len(answers) == len(long)
        assert proxy.total("connections_total") >= 2
        assert proxy.total("requests_denied_total") == 0


async def test_behind_the_proxy_a_rapid_reset_is_refused_and_every_newcomer_is_served(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    async with proxied(tmp_path) as (pipeline, proxy):
        # On a busy machine the attack comes to few connections in its time, so it comes again.
        while counts["connections refused"] <= counts["connections"]:
            sent: dict[str, int] = {}
            async with attacked("resets", proxy.address, pipeline, sent):
                assert await served(proxy.address, pipeline) == NEWCOMERS
            counts.update(sent)
        assert await served(proxy.address, pipeline) == NEWCOMERS
        shown = proxy.total("denied_connections_total")
    # A connection is closed after 1,000 calls, beside what was on its way; after a few the address is refused.
    assert counts["resets"] <= 10_000 * counts["connections"]
    assert counts["connections"] < 20
    assert shown >= counts["connections refused"]


async def test_without_a_proxy_a_rapid_reset_is_bounded_and_ends_with_the_attacker(tmp_path: Path) -> None:
    resets = 0
    async with asyncio.timeout(PATIENCE), LocalPipeline(DRAFT, tmp_path / "pipeline") as pipeline:
        while resets <= 10_000:  # which a busy machine does not come to in the time of one attack
            counts: dict[str, int] = {}
            async with attacked("resets", pipeline.shuffler, pipeline, counts):
                pass
            resets += counts["resets"]
        assert await served(pipeline.shuffler, pipeline) == NEWCOMERS
        assert await mebibytes(pipeline) < MOST_MEBIBYTES


async def test_too_many_connections_of_one_address_are_refused_and_another_is_served(tmp_path: Path) -> None:
    async with proxied(tmp_path) as (pipeline, proxy):
        with contextlib.ExitStack() as held:
            opened = MOST_OF_AN_ADDRESS + 10
            for _ in range(opened):
                # Without a word, not even of TLS, each stays for 15 s. One that is refused may be reset at once.
                with contextlib.suppress(ConnectionResetError):
                    held.enter_context(socket.create_connection(place(proxy.address), CALL_SECONDS, (ATTACKER, 0)))
            while proxy.total("connections_total") < opened:  # noqa: ASYNC110 - the proxy's own count
                await asyncio.sleep(0.01)
            assert proxy.total("denied_connections_total") == 10
            with pytest.raises(OSError):
                connect(proxy.address, TLS(pipeline.authority), source=ATTACKER)
            assert await served(proxy.address, pipeline) == NEWCOMERS


def place(address: str) -> tuple[str, int]:
    host, port = parted(address)
    return host, int(port)


async def test_a_call_without_its_end_holds_nothing_of_the_shuffler_and_is_refused_in_seconds(tmp_path: Path) -> None:
    async with proxied(tmp_path) as (pipeline, proxy):
        before = await passed_on(proxy, "shuffler")
        with connect(proxy.address, TLS(pipeline.authority), source=ATTACKER) as attacker:
            streams = attacker.open_many(SUBMIT, 100)
            assert await served(proxy.address, pipeline) == NEWCOMERS
            ended = await asyncio.to_thread(attacker.all_ended, streams, CALL_SECONDS)
            assert {each.headers.get(b":status") for each in ended if each is not None} == {b"408"}
            assert None not in ended
        # None of them was passed on.
        assert await passed_on(proxy, "shuffler") - before == NEWCOMERS
