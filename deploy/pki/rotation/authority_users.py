"""Finds who still shows a TLS certificate of an authority that is about to lose its trust.

Two places are looked at: the ports that the operator's settings name, and the folders of parties beside the operator's,
as `hubbub init` makes them. Whoever is elsewhere, such as a reader or a proxy, is not seen.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from hubbub.deploy.operator.client import hops_of
from hubbub.deploy.pki.expiry import shown_at
from hubbub.deploy.pki.rotation.key import KeyLocation, of_operator
from hubbub.protos.transport.tls_files import TlsCertificate, TlsCertificateError, certificates_in, check_issued


@dataclass(frozen=True)
class AuthorityUsers:
    """Those who would be cut off, each as a place and its certificate's end; and the ports that showed none."""

    cut_off: tuple[str, ...]
    unseen: tuple[str, ...]


def users_of(location: KeyLocation, kept: Sequence[x509.Certificate]) -> AuthorityUsers:
    """Return who shows a certificate that none of the `kept` authorities issued, and is still valid."""
    cut_off = dict.fromkeys(where for where, found in _in_folders(location) if _needs_another(found, where, kept))
    unseen = []
    for name, address in _ports(location):
        where = f"the {name} at {address}"
        try:
            found = shown_at(address, location.tls)
        except ssl.SSLCertVerificationError:
            # The trusted file still has every authority, so this certificate is cut off already.
            unseen.append(f"{where}, whose certificate is not trusted even now")
        except (OSError, ValueError) as error:
            unseen.append(f"{where} ({getattr(error, 'strerror', None) or error!s:.100})")
        else:
            cut_off |= {where: None} if _needs_another([found], where, kept) else {}
    return AuthorityUsers(tuple(cut_off), tuple(unseen))


def _needs_another(chain: Sequence[x509.Certificate], where: str, kept: Sequence[x509.Certificate]) -> bool:
    own = TlsCertificate.of(chain[0], where)
    if own.is_authority or own.days_left(time.time()) <= 0:
        return False
    try:
        check_issued(chain, kept, own, "the authorities that would remain")
    except TlsCertificateError:
        return True
    return False


def _in_folders(location: KeyLocation) -> Iterator[tuple[str, Sequence[x509.Certificate]]]:
    """Yield the certificates of parties beside the operator, each with its file. Those that retired are in subfolders.

    The operator's own is left out: it is checked by itself.
    """
    deployment = location.authority.absolute().parent.parent.parent
    for path in sorted(deployment.glob("*/tls/*.pem")):
        if path.parent != location.authority.absolute().parent:
            try:
                yield _called(path), certificates_in(path.read_bytes(), str(path))
            except (OSError, TlsCertificateError):
                continue  # another account's, or something else


def _called(path: Path) -> str:
    return f"{path.stem} in {path}"


def _ports(location: KeyLocation) -> Iterator[tuple[str, str]]:
    operator = of_operator(location, "the TLS authority")
    services = {"shuffler": operator.shuffler_control, "analyzer": operator.analyzer_results, **hops_of(operator)}
    for name, addresses in services.items():
        yield from ((name, address) for address in addresses.split(","))
