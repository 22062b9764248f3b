"""Opens the ports for devices that the settings name: gRPC, gRPC with devices' certificates, and HTTPS."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import partial

import structlog

from hubbub.protos.errors import TaskError
from hubbub.protos.rpc import SUBMISSION_SERVICE
from hubbub.protos.task.task import Task
from hubbub.service.rpc import largest_submissions, serve_mtls, serve_submissions, submission_router
from hubbub.service.rpc.connect import ConnectRouter
from hubbub.service.rpc.oblivious import ObliviousRouter
from hubbub.service.rpc.pipeline import RequestPipeline
from hubbub.service.transport import grpc_server
from hubbub.service.transport.grpc_server import resolved
from hubbub.service.transport.https_server import ConnectionLimits, HttpsServer
from hubbub.service.transport.port_limits import connections_of_devices, device_pipeline
from hubbub.service.transport.ports import Ports
from hubbub.service.transport.tls_reload import ReloadingCertificates
from hubbub.shuffler.admit.handler import DeviceHandler
from hubbub.shuffler.admit.mtls import DevicesAuthority
from hubbub.shuffler.settings import DevicePortSettings
from hubbub.shuffler.tasks import Tasks

_LOG = structlog.get_logger(__name__)


async def open_to_devices(
    ports: Ports,
    settings: DevicePortSettings,
    tasks: Tasks,
    admission: DeviceHandler,
    certificates: ReloadingCertificates,
    devices: DevicesAuthority | None,
    others: int = 0,
    *,
    shared: bool = False,
    live: bool = False,
    full: Callable[[], bool] = lambda: False,
) -> dict[str, RequestPipeline]:
    """Open the devices' ports, and return their request pipelines by name.

    The limit of connections is shared with `others`, a number of further ports.

    If `live`, tasks may come while the ports are open (`longest_envelope`). If `shared`, other processes of this
    service listen at the same ports. `full` returns whether the process that stores the submissions has no memory for
    more.

    Raises:
        HubbubError: if an address cannot be used.
    """
    if not shared:
        warn_without_proxy(settings)
    limits = settings.limits
    optional = {"devices": devices is not None, "https": bool(settings.https_listen)}
    names = ("submission", *(name for name, is_set in optional.items() if is_set))
    envelope_bytes = longest_envelope(tasks, live=live)
    largest = largest_submissions(envelope_bytes)
    many = connections_of_devices(limits, len(names) + others)
    pipelines = {name: device_pipeline(limits, many, largest, full) for name in names}
    service, server = SUBMISSION_SERVICE, grpc_server.new_server(many, largest, shared=shared)
    serve_submissions(server, admission, pipelines["submission"], envelope_bytes)
    everyone = certificates.server(mutual=False)
    await ports.open("submission", settings.listen, service, server, everyone, pipelines["submission"], shared=shared)
    if devices is not None:
        mtls_server = grpc_server.new_server(many, largest, shared=shared)
        serve_mtls(mtls_server, admission, pipelines["devices"], envelope_bytes)
        credentials = devices.port(certificates)
        await ports.open(
            "devices", settings.devices_listen, service, mtls_server, credentials, pipelines["devices"], shared=shared
        )
    if settings.https_listen:
        # Behind a proxy all connections have its address, so a limit by address would be a limit for everybody.
        of_address = None if settings.behind_proxy else limits.address_connections
        make = partial(ObliviousRouter, source=admission.oblivious) if settings.https_oblivious else ConnectRouter
        router = submission_router(admission, pipelines["https"], envelope_bytes, make)
        connection_limits = ConnectionLimits(many, of_address, settings.https_origins)
        tls = settings.https_tls() or settings.tls.paths()
        https_server = HttpsServer(router, connection_limits, tls, lambda: certificates.renewals, shared=shared)
        await ports.open_https("https", settings.https_listen, https_server)
    return pipelines


LIVE_ENVELOPE_BYTES = 32 * 1024
"""The longest envelope of a task that comes while the ports are open, at least: twenty times that of most tasks."""


def longest_envelope(tasks: Tasks, *, live: bool) -> int:
    """Return the length of the longest envelope that the ports take; only the tasks determine it.

    If tasks may come while the ports are open (`live`), it is at least `LIVE_ENVELOPE_BYTES`.
    """
    return max([LIVE_ENVELOPE_BYTES] * live + [task.outer_bytes for task in tasks.values()])


def check_length(task: Task, longest: int) -> None:
    """Return only if ports that are open with that limit take a task's submissions.

    Raises:
        TaskError: if they do not.
    """
    if task.outer_bytes > longest:
        raise TaskError(
            f"submissions of task {task.name} have {task.outer_bytes} bytes, and the open ports take at most "
            f"{longest}; restart this process, which then takes the task"
        )


def warn_without_proxy(settings: DevicePortSettings) -> None:
    """Log a warning for each devices' port that is open beyond loopback without a proxy in front of it.

    gRPC accepts any number of connections, and any number of streams that are reset at once (CVE-2023-44487). Their
    cost is bounded, but devices wait meanwhile.

    Raises:
        HubbubError: if a name to listen on cannot be resolved here.
    """
    if settings.behind_proxy:
        return
    for port, address in (("listen", settings.listen), ("devices_listen", settings.devices_listen)):
        if address and not _on_loopback(address):
            _LOG.warning(
                "open to strangers without a proxy",
                setting=port,
                address=address,
                hint="put the proxy of `hubbub init --proxy` in front of it, which limits connections, calls and "
                "resets by address, and set behind_proxy = true; docs/howto/deploy-two-parties.md has the steps",
            )


def _on_loopback(address: str) -> bool:
    return all(ipaddress.ip_address(where[0].partition("%")[0]).is_loopback for _, where in resolved(address))
