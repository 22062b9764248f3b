"""Certified: the port for devices that show a TLS certificate, issued by an authority of their own.

It is not the deployment's authority: who is named by one of its certificates may control rounds or read results.
"""

from __future__ import annotations

from pathlib import Path

import grpc

from hubbub.protos.admission import Mode
from hubbub.protos.certificates import certificates_in
from hubbub.protos.errors import HubbubError
from hubbub.protos.transport import read_pem
from hubbub.service.certificates import Certificates
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


def certified_devices(authority: Path, certificates: Certificates) -> grpc.ServerCredentials:
    """Return the port's credentials: the service's own certificate, and the devices' authority as it is at the start.

    Raises:
        HubbubError: where the authority's file is missing.
        CertificateError: where it cannot be used.
    """
    trusted = read_pem(authority)
    certificates_in(trusted, str(authority))
    return certificates.server(mutual=True, clients=trusted)
