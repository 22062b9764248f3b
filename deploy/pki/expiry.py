"""Reports to the operator how long the TLS certificates of a deployment are still valid."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

from cryptography import x509
from rich.console import Console

from hubbub.protos.transport.addresses import parted
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.tls_files import WARNING_DAYS, TlsCertificate

LOOK_SECONDS = 5.0
"""How long a service may take to present its certificate; it has just answered a call."""


def expiries(tls: TLS, services: Mapping[str, str], now: float) -> list[TlsCertificate]:
    """Return the operator's own certificate, the authority's, and those of the `services` by name.

    A service is at host:port, or at several with commas between them.

    A service that does not show one is left out: its answer to a call has the reason.

    Raises:
        CertificateError: if the operator's own cannot be used.
    """
    found = list(tls.check(now).values())
    for name, addresses in services.items():
        for address in addresses.split(","):
            with contextlib.suppress(OSError, ValueError):
                found.append(TlsCertificate.of(shown_at(address, tls), f"the {name} at {address}"))
    return found


def shown_at(address: str, tls: TLS) -> x509.Certificate:
    """Return the certificate that a server presents; gRPC does not pass it on.

    Raises:
        OSError, ValueError: if it presents none that is trusted.
    """
    host, port = parted(address)
    context = ssl.create_default_context()
    if isinstance(tls.authority, bytes):
        context.load_verify_locations(cadata=tls.authority.decode())
    else:
        context.load_verify_locations(tls.authority)
    if tls.certificate is not None:
        context.load_cert_chain(tls.certificate, tls.key)
    context.set_alpn_protocols(["h2"])
    name = host.strip("[]")
    with (
        socket.create_connection((name, port), LOOK_SECONDS) as raw,
        context.wrap_socket(raw, server_hostname=name) as connection,
    ):
        shown = connection.getpeercert(binary_form=True)
    if shown is None:
        raise ValueError(f"{address} presents no certificate")
    return x509.load_der_x509_certificate(shown)


def expiry_document(certificates: list[TlsCertificate], now: float) -> list[dict[str, Any]]:
    """Return the certificates' parties and ends as JSON."""
    return [
        {
            "party": each.party,
            "where": each.where,
            "not_after": each.not_after.isoformat(),
            "days_left": round(each.days_left(now), 1),
        }
        for each in certificates
    ]


def print_expiries(console: Console, certificates: list[TlsCertificate], now: float) -> None:
    """Print a line for each certificate that expires soon."""
    for line in _expiring(certificates, now):
        console.print(line, style="yellow", markup=False, soft_wrap=True)


def _expiring(certificates: list[TlsCertificate], now: float) -> Iterator[str]:
    for each in certificates:
        left = each.days_left(now)
        if left < WARNING_DAYS:
            yield f"warning: the TLS certificate of {each.where} {each.ending(now)}; {each.remedy}"
