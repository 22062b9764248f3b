"""Finds the hosts for a service's next TLS certificate, from the options or the previous certificate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hubbub.deploy.init.folders import LOOPBACK
from hubbub.deploy.option_values import hosts_given
from hubbub.protos.errors import HubbubError, UsageError
from hubbub.protos.transport.tls_files import TlsCertificate, at, certificates_in


def hosts_for(service: str, given: Sequence[str] | None, old: Path | None, authority: Path) -> list[str]:
    """Return the hosts for a service's new certificate: the given ones, or those of the old one; and loopback.

    `old` is the certificate to replace. If it is not named, it is expected at the place at which `hubbub init` made it,
    next to the operator's folder `authority`.

    Raises:
        UsageError: if a host is not one, or neither hosts nor an old certificate are there.
        HubbubError: if the old certificate cannot be read, or is another party's.
    """
    hosts = hosts_given("--host", given) or _old_certificate(service, old, authority).hosts
    return list(dict.fromkeys((*hosts, *LOOPBACK)))


def _old_certificate(service: str, old: Path | None, authority: Path) -> TlsCertificate:
    path = old or authority.absolute().parent / service / "tls" / f"{service}.pem"
    try:
        found = TlsCertificate.of(certificates_in(path.read_bytes(), str(path))[0], str(path))
    except OSError as error:
        if old is not None:
            raise HubbubError(f"cannot read {path}: {error.strerror}; name the {service}'s certificate") from error
        raise UsageError(
            f"the hosts of the {service} are not known, since {path} has no certificate of it; give them with --host, "
            "or name its certificate with --old"
        ) from error
    if found.party != service:
        raise HubbubError(
            f"{path} is a certificate of {found.party or 'nobody'}, not of the {service}; name the {service}'s"
        )
    return found


def described(certificate: TlsCertificate) -> dict[str, Any]:
    """Return a certificate's party, hosts and validity as JSON."""
    return {
        "party": certificate.party,
        "hosts": list(certificate.hosts),
        "not_before": certificate.not_before.isoformat(),
        "not_after": certificate.not_after.isoformat(),
    }


def printed(certificate: TlsCertificate) -> str:
    """Return the same for people."""
    hosts = f"reached as {', '.join(certificate.hosts)}" if certificate.hosts else "a client's, valid for no host"
    whose = f"{certificate.where}: certificate of the {certificate.party}"
    return f"{whose}, {hosts}; valid until {at(certificate.not_after)}"
