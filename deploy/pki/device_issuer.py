"""An authority of a local pipeline's devices, which makes each of them a TLS certificate when asked for."""

from __future__ import annotations

from pathlib import Path

from hubbub.deploy.pki.authority import Authority


class Issuer:
    """Makes certificates into `folder`; `trusted` is the file from which the shuffler learns whom to admit.

    Its own private key is in memory alone.
    """

    def __init__(self, folder: Path, trusted: Path) -> None:
        folder.mkdir(mode=0o700)
        self._folder = folder
        # Another name than that of the deployment's authority, which it must not be taken for.
        self._authority = Authority.generate("devices")
        self._authority.save_certificate(trusted)

    def files(self, name: str) -> tuple[Path, Path]:
        """Return the files of a device's certificate and key, which are made when they are first asked for."""
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        if not certificate.exists():
            self._authority.issue("device", [], certificate, key)
        return certificate, key
