"""Exposure: what gRPC's server cannot refuse by itself, and so a warning where it is reached without a proxy."""

from __future__ import annotations

import ipaddress

import structlog

from hubbub.service.net.grpc_server import resolved
from hubbub.shuffler.settings import PublicSettings

_LOG = structlog.get_logger(__name__)


def warn_if_exposed(settings: PublicSettings) -> None:
    """Log a warning for each port of devices that is open beyond loopback without a proxy in front of it.

    gRPC takes any number of connections, and any number of streams that are reset at once (CVE-2023-44487): what they
    cost is bounded, but devices wait meanwhile.

    Raises:
        HubbubError: where a name to listen on is not known here.
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
                "resets by address, and set behind_proxy = true; docs/deployment.md has the steps",
            )


def _on_loopback(address: str) -> bool:
    return all(ipaddress.ip_address(where[0].partition("%")[0]).is_loopback for _, where in resolved(address))
