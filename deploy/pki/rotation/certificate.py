"""Rotates a party's own TLS certificate. `next/` in its folder has the pending one, `retired/` the previous."""

from __future__ import annotations

import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from hubbub.deploy.pki.authority import Authority
from hubbub.deploy.pki.renewal import hosts_for
from hubbub.deploy.pki.rotation.key import CertificateValidity, Key, KeyLocation, KeyRequest
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import KeyState
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.tls_files import TlsCertificateError, certificates_in

_FOLDERS = {KeyState.ACTIVE: ".", KeyState.PENDING: "next", KeyState.RETIRED: "retired"}

_LOADED = "a running service loads it within seconds"


class CertificateRotation:
    """Rotates the TLS certificates of a party: one is active, at most one is pending, and at most one is retired."""

    name = "certificate"

    def held(self, location: KeyLocation) -> list[Key]:
        """Read the certificates in the active one's folder and in its subfolders `next` and `retired`."""
        files = {state: pair_of(location, state)[0] for state in _FOLDERS}
        return [
            shown_certificate(self.name, file.stem, state, certificates_in(file.read_bytes(), str(file))[0])
            for state, file in files.items()
            if state is KeyState.ACTIVE or file.exists()
        ]

    def add(self, location: KeyLocation, request: KeyRequest) -> str:
        """Make a pending certificate with the operator's authority, for the hosts given or those of the active one.

        Raises:
            HubbubError: if the operator's folder is not known.
        """
        certificate, key = pair_of(location, KeyState.PENDING)
        # One that has expired meanwhile could not be activated.
        if certificate.exists() and not _expired(certificate):
            return f"{certificate} is already pending; activate it with `hubbub keys activate certificate`"
        folder = request.authority or (location.certificate.parent.parent if location.party is Role.OPERATOR else None)
        if folder is None:
            raise HubbubError(
                f"name the operator's folder with --authority; if it is on another machine, have the operator run "
                f"`hubbub certificate {location.name}`, and copy both files into {certificate.parent}"
            )
        issuer = Authority.load(folder / "authority.key", folder / "tls" / "authority.pem")
        # Nobody calls the operator, so its certificate names no host.
        calls_only = location.party is Role.OPERATOR
        hosts = [] if calls_only else hosts_for(location.name, request.hosts, location.certificate, folder)
        certificate.parent.mkdir(mode=0o700, exist_ok=True)
        # A key without its certificate is what a crash here left behind.
        for left in (key, certificate):
            left.unlink(missing_ok=True)
        issuer.issue(location.name, hosts, certificate, key)
        return f"{certificate} is pending; activate it with `hubbub keys activate certificate`"

    def activate(self, location: KeyLocation) -> str:
        """Replace the active certificate and key by the pending ones; a running service loads them within seconds."""
        certificate, key = pair_of(location, KeyState.PENDING)
        if not certificate.exists() and not key.exists():
            return f"nothing changed: no certificate is pending in {certificate.parent}"
        # A crash between the two files, below, leaves the new key in place. Calling this again completes the change.
        left = [(location.certificate_key, key)] if key.exists() else []
        try:
            # The same checks as a service's, so that it never finds files that it cannot use.
            TLS(location.authority, certificate, key if left else location.certificate_key).check(time.time(), own=True)
        except TlsCertificateError as error:
            if left:
                raise
            raise TlsCertificateError(f"{error}; there is no {key}: put both new files there") from error
        for active, pending in (*left, (location.certificate, certificate)):
            retired = active.parent / _FOLDERS[KeyState.RETIRED] / active.name
            retired.parent.mkdir(mode=0o700, exist_ok=True)
            # A link, so that there is an active file at every moment; the new one takes its place in one step.
            retired.unlink(missing_ok=True)
            retired.hardlink_to(active)
            pending.replace(active)
        used = "the operator's next command uses it" if location.party is Role.OPERATOR else _LOADED
        return f"{used}; `hubbub keys remove certificate` deletes the previous one"

    def remove(self, location: KeyLocation, forced: bool = False) -> str:  # noqa: ARG002 - nobody else uses one
        """Delete the retired certificate and its key."""
        for path in pair_of(location, KeyState.RETIRED):
            path.unlink(missing_ok=True)
        return ""


def _expired(certificate: Path) -> bool:
    found = certificates_in(certificate.read_bytes(), str(certificate))[0]
    return found.not_valid_after_utc.timestamp() < time.time()


def pair_of(location: KeyLocation, state: KeyState) -> tuple[Path, Path]:
    """Return the files of a certificate and its key in a state."""
    folder = _FOLDERS[state]
    return tuple(path.parent / folder / path.name for path in (location.certificate, location.certificate_key))  # type: ignore[return-value]


def shown_certificate(kind: str, name: str, state: KeyState, found: x509.Certificate) -> Key:
    """Return the shown form of a TLS certificate; the fingerprint is the first 16 hex digits of its SHA-256."""
    digits = found.fingerprint(hashes.SHA256()).hex()[:16]
    since, until = found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp()
    return Key(kind, name, state, digits, since, until, CertificateValidity.at(since, until, time.time()))
