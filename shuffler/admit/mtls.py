"""The port for devices that show a TLS certificate, which a separate authority issues.

It must not be the deployment's authority: a party that one of its certificates names may control rounds or read
results.
"""

from __future__ import annotations

from pathlib import Path

import grpc

from hubbub.protos.errors import HubbubError
from hubbub.protos.task.admission import Mode
from hubbub.protos.transport.channels import read_pem
from hubbub.protos.transport.tls_files import certificates_in, check_apart
from hubbub.service.transport.tls_reload import ReloadingCertificates
from hubbub.shuffler.settings import DevicePortSettings
from hubbub.shuffler.tasks import Tasks


def check_devices(settings: DevicePortSettings, tasks: Tasks) -> None:
    """Return only if devices can reach every task.

    Raises:
        HubbubError: if a task admits devices by their certificates, and no port is set for them.
    """
    if settings.devices_listen and settings.devices_authority is None:
        raise HubbubError(
            "devices_listen is set, but devices_authority is not; set it to the authority of the devices' certificates"
        )
    for task in tasks.values():
        if task.admission.mode is Mode.MTLS and not settings.devices_listen:
            raise HubbubError(
                f"task {task.name} admits devices by their certificates, but no port for them is set; "
                "set devices_listen and devices_authority"
            )


class DevicesAuthority:
    """The authority that issues the devices' certificates; its file is read once, at the start."""

    def __init__(self, path: Path, parties: Path) -> None:
        """Read it; `parties` is the file of the deployment's own authority.

        Raises:
            HubbubError: if the file is missing.
            CertificateError: if it cannot be used.
        """
        self._path, self._parties = path, parties
        self._pem = read_pem(path)
        self._certificates = certificates_in(self._pem, str(path))

    def check(self, trusted: bytes) -> None:
        """Return only if it is none of the deployment's authorities (PEM).

        Raises:
            CertificateError: naming both files.
        """
        parties = str(self._parties)
        check_apart(self._certificates, str(self._path), certificates_in(trusted, parties), parties)

    def port(self, certificates: ReloadingCertificates) -> grpc.ServerCredentials:
        """Return the credentials of the devices' port: the service's certificate, and this authority for devices."""
        return certificates.server(mutual=True, clients=self._pem)


def devices_authority(settings: DevicePortSettings) -> DevicesAuthority | None:
    """Return the authority of the port for devices that show a certificate, None if there is no such port.

    Raises:
        HubbubError: if its file is missing.
        CertificateError: if it cannot be used.
    """
    if not settings.devices_listen or settings.devices_authority is None:
        return None
    return DevicesAuthority(settings.devices_authority, settings.tls.authority)
