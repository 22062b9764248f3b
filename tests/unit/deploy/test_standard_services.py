"""Every port of both services answers standard clients: gRPC health and reflection, from the start to the drain."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from unit.analyzer.test_server import Deployment as AnalyzerDeployment
from unit.shuffler.test_server import Deployment as ShufflerDeployment
from unit.shuffler.test_server import running

from hubbub.protos import transport, wire
from hubbub.protos.transport import TLS
from hubbub.service import listening
from hubbub.service.health import is_serving
from hubbub.service.ports import Ports

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
PORTS = {
    "submission": wire.SUBMISSION_SERVICE,
    "control": wire.CONTROL_SERVICE,
    "delivery": wire.DELIVERY_SERVICE,
    "results": wire.RESULTS_SERVICE,
}
DEADLINE = 10.0


@contextlib.asynccontextmanager
async def both(folder: Path) -> AsyncIterator[tuple[dict[str, str], TLS, TLS]]:
    """Both services with the addresses of all ports, and certificates that the shuffler's and analyzer's take."""
    (folder / "shuffler").mkdir()
    (folder / "analyzer").mkdir()
    shuffler, analyzer = ShufflerDeployment(folder / "shuffler"), AnalyzerDeployment.make(folder / "analyzer")
    async with running(shuffler.settings("127.0.0.1:1")) as first, analyzer.running() as second:
        yield {**first, **second}, shuffler.tls["operator"], analyzer.tls["operator"]


async def listed(channel: grpc.aio.Channel) -> set[str]:
    """The services a port says it has."""
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = stub.ServerReflectionInfo(timeout=DEADLINE)
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    answer = await call.read()
    await call.done_writing()
    return {service.name for service in answer.list_services_response.service}


async def described(channel: grpc.aio.Channel, symbol: str) -> bytes:
    """The file that describes a service, as reflection gives it."""
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = stub.ServerReflectionInfo(timeout=DEADLINE)
    await call.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol=symbol))
    answer = await call.read()
    await call.done_writing()
    return b"".join(answer.file_descriptor_response.file_descriptor_proto)


async def health(channel: grpc.aio.Channel, service: str) -> int:
    stub = health_pb2_grpc.HealthStub(channel)
    return int((await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=DEADLINE)).status)


async def test_every_port_answers_health_and_reflection(tmp_path: Path) -> None:
    async with both(tmp_path) as (addresses, to_shuffler, to_analyzer):
        assert set(addresses) == set(PORTS)
        for name, service in PORTS.items():
            tls = to_shuffler if name in ("submission", "control") else to_analyzer
            async with transport.open_channel(addresses[name], tls) as channel:
                assert [await health(channel, asked) for asked in ("", service)] == [SERVING, SERVING]
                with pytest.raises(grpc.aio.AioRpcError) as unknown:
                    await health(channel, "no.such.Service")
                assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
                others = {each for each in PORTS.values() if each != service}
                found = await listed(channel)
                assert {service, "grpc.health.v1.Health"} <= found
                assert not found & others
                assert service.rpartition(".")[2].encode() in await described(channel, service)


async def test_a_port_says_not_serving_until_all_serve_and_from_the_drain_on(tmp_path: Path) -> None:
    deployment = ShufflerDeployment(tmp_path)
    tls = deployment.tls["shuffler"]
    server, ports = listening.new_server(), Ports()
    await ports.open("submission", "127.0.0.1:0", wire.SUBMISSION_SERVICE, server, tls.server(mutual=False))
    address = ports._addresses["submission"]
    async with transport.open_channel(address, TLS(tls.authority)) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        seen = stub.Watch(health_pb2.HealthCheckRequest(service=wire.SUBMISSION_SERVICE), timeout=DEADLINE)
        assert await health(channel, "") == NOT_SERVING
        assert (await seen.read()).status == NOT_SERVING
        await ports.serving(None)
        assert (await seen.read()).status == SERVING
        draining = asyncio.create_task(ports.drain())
        # The watch is a call in work: while the port drains it still answers.
        assert (await seen.read()).status == NOT_SERVING
        seen.cancel()
        await draining
        assert not await is_serving(channel, 0.2)
