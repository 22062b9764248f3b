"""Every port of both services answers standard clients: gRPC health, from the start to the drain."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from unit.analyzer.test_server import Deployment as AnalyzerDeployment
from unit.shuffler.test_server import Deployment as ShufflerDeployment
from unit.shuffler.test_server import running

from hubbub.protos.rpc import CONTROL_SERVICE, DELIVERY_SERVICE, RESULTS_SERVICE, SUBMISSION_SERVICE
from hubbub.protos.transport import channels
from hubbub.protos.transport.channels import TLS
from hubbub.service.transport.health import is_serving
from hubbub.service.transport.ports import Ports
from support.ended_with_test import opened_server
from support.patience import CALL_SECONDS

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
PORTS = {
    "submission": SUBMISSION_SERVICE,
    "control": CONTROL_SERVICE,
    "delivery": DELIVERY_SERVICE,
    "results": RESULTS_SERVICE,
}
HELD = (
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
)
"""Standard calls that last for as long as their caller wishes."""


@contextlib.asynccontextmanager
async def both(folder: Path) -> AsyncIterator[tuple[dict[str, str], TLS, TLS]]:
    """Both services with the addresses of all ports, and certificates that the shuffler's and analyzer's take."""
    (folder / "shuffler").mkdir()
    (folder / "analyzer").mkdir()
    shuffler, analyzer = ShufflerDeployment(folder / "shuffler"), AnalyzerDeployment.make(folder / "analyzer")
    async with running(shuffler.settings("127.0.0.1:1")) as first, analyzer.running() as second:
        yield {**first, **second}, shuffler.tls["operator"], analyzer.tls["operator"]


async def health(channel: grpc.aio.Channel, service: str) -> int:
    stub = health_pb2_grpc.HealthStub(channel)
    return int((await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=CALL_SECONDS)).status)


async def test_every_port_answers_health_and_holds_no_call_for_its_caller(tmp_path: Path) -> None:
    async with both(tmp_path) as (addresses, to_shuffler, to_analyzer):
        assert set(addresses) == set(PORTS)
        for name, service in PORTS.items():
            tls = to_shuffler if name in ("submission", "control") else to_analyzer
            async with channels.open_channel(addresses[name], tls) as channel:
                assert [await health(channel, asked) for asked in ("", service)] == [SERVING, SERVING]
                with pytest.raises(grpc.aio.AioRpcError) as unknown:
                    await health(channel, "no.such.Service")
                assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
                for endless in HELD:
                    with pytest.raises(grpc.aio.AioRpcError) as refused:
                        await channel.unary_unary(endless)(b"", timeout=CALL_SECONDS)
                    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.fixture
async def server() -> AsyncIterator[grpc.aio.Server]:
    async with opened_server() as one:
        yield one


async def test_a_port_says_not_serving_until_all_serve_and_from_the_drain_on(
    server: grpc.aio.Server, tmp_path: Path
) -> None:
    deployment = ShufflerDeployment(tmp_path)
    tls = deployment.tls["shuffler"]
    ports = Ports()
    await ports.open("submission", "127.0.0.1:0", SUBMISSION_SERVICE, server, tls.server(mutual=False))
    address = ports._addresses["submission"]
    async with channels.open_channel(address, TLS(tls.authority)) as channel:
        assert await health(channel, SUBMISSION_SERVICE) == NOT_SERVING
        await ports.serving(None)
        assert await health(channel, SUBMISSION_SERVICE) == SERVING
        # A call whose message comes only after the drain has begun is still answered.
        held = channel.stream_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )(timeout=CALL_SECONDS)
        await held.wait_for_connection()
        # On the same connection: when this one is answered, that one has been taken.
        assert await health(channel, "") == SERVING
        draining = asyncio.create_task(ports.drain())
        await held.write(health_pb2.HealthCheckRequest())
        assert (await held).status == NOT_SERVING
        await draining
        assert not await is_serving(channel, 0.2)
