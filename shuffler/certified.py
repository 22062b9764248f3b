"""Certified: the port for devices that show a TLS certificate, issued by an authority of their own.

It is not the deployment's authority: who is named by one of its certificates may control rounds or read results.
"""

from __future__ import annotations

import grpc

from hubbub.protos.admission import Mode
from hubbub.protos.errors import HubbubError
from hubbub.shuffler.settings import Settings
from hubbub.shuffler.tasks import Tasks


def check_devices(settings: Settings, tasks: Tasks) -> None:
    """Return only if devices can reach every task.

    Raises:
        HubbubError: where a task admits devices by their certificates, and there is no port for them.
    """
    if settings.devices_listen and settings.devices_authority is None:
        raise HubbubError(
            "devices_listen is set, and devices_authority is not: name who issued the devices' certificates"
        )
    for task in tasks.values():
        if task.admission.mode is Mode.MTLS and not settings.devices_listen:
            raise HubbubError(
                f"task {task.name} admits devices by their certificates, and there is no port where they show them; "
                "set devices_listen and devices_authority"
            )


def certified_devices(settings: Settings) -> grpc.ServerCredentials:
    """Return the port's credentials: the service's own certificate, and the devices' authority.

    Raises:
        HubbubError: where a file is missing.
        CertificateError: where one cannot be used.
    """
    return settings.tls.paths().server(mutual=True, clients=settings.devices_authority)
