"""Makes TLS certificates for the devices of a local pipeline, with an authority of their own."""

from __future__ import annotations

from pathlib import Path

from hubbub.deploy.pki.authority import Authority


class Issuer:
    """Makes certificates in `folder`; `trusted` is the shuffler's file of the devices' authority.

    Its own private key is only in memory.
    """

    def __init__(self, folder: Path, trusted: Path) -> None:
        folder.mkdir(mode=0o700)
        self._folder = folder
        # Not the name of the deployment's authority, from which it must differ.
        self._authority = Authority.generate("devices")
        self._authority.save_certificate(trusted)

    def files(self, name: str) -> tuple[Path, Path]:
        """Return the files of a device's certificate and key, made at the first call."""
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        if not certificate.exists():
            self._authority.issue("device", [], certificate, key)
        return certificate, key
