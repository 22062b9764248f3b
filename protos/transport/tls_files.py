"""Checks TLS certificates and keys before gRPC gets them, since gRPC does not name the faulty file.

They protect connections only. Statements (tasks, records, certificates of privacy) are signed with other keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product

from cryptography import x509
from cryptography.exceptions import InternalError, InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import NameOID

from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.pem import what_it_is

WARNING_DAYS = 30
"""Days before a certificate's end at which warnings begin, so that new ones can reach every host in time."""

_UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm, InternalError)
_DAY_SECONDS = 86_400


class TlsCertificateError(HubbubError):
    """A TLS certificate or key cannot be used; the message names the file, the fault and the command to run."""


@dataclass(frozen=True)
class TlsCertificate:
    """A TLS certificate: `where` names it in errors, `party` is its common name, `hosts` are its host names.

    One that `is_public` is from an authority that callers trust already, not from the deployment's.
    """

    where: str
    party: str
    hosts: tuple[str, ...]
    not_before: datetime
    not_after: datetime
    is_authority: bool
    is_public: bool = False

    @classmethod
    def of(cls, found: x509.Certificate, where: str) -> TlsCertificate:
        """Describe a certificate."""
        names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return cls(
            where,
            str(names[0].value) if names else "",
            _hosts(found),
            found.not_valid_before_utc,
            found.not_valid_after_utc,
            _is_authority(found),
        )

    def days_left(self, now: float) -> float:
        """Return how many days from `now` (seconds since 1970) it is still valid; negative once it has expired."""
        return (self.not_after.timestamp() - now) / _DAY_SECONDS

    def ending(self, now: float) -> str:
        """Return in words when it expires, or that it has expired."""
        left = self.days_left(now)
        return f"expired on {at(self.not_after)}" if left <= 0 else f"expires in {left:.0f} days, {at(self.not_after)}"

    def check_time(self, now: float) -> None:
        """Check that it is valid at `now` (seconds since 1970).

        Raises:
            CertificateError: naming the file and the date.
        """
        if now < self.not_before.timestamp():
            raise TlsCertificateError(
                f"{self.where} is a certificate that is not valid before {at(self.not_before)}, and now is "
                f"{at(datetime.fromtimestamp(now, UTC))}; check this machine's clock"
            )
        if now > self.not_after.timestamp():
            raise TlsCertificateError(
                f"{self.where} is a certificate that expired on {at(self.not_after)}; {self.remedy}"
            )

    @property
    def remedy(self) -> str:
        """What to do to get a new certificate."""
        if self.is_public:
            return "get a new one where it is from, and replace it and its key"
        if self.is_authority:
            return "have the operator make a new authority (`hubbub keys add authority`) and give it to all parties"
        party, _, name = self.party.partition(":")
        named = f" --name {name}" if name else ""  # of a reader
        return (
            f"have the operator run `hubbub certificate {party}{named} --authority DIR`, and replace it by the new one"
        )


def at(moment: datetime) -> str:
    """Return a time in a form for people, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def certificates_in(pem: bytes, where: str) -> list[x509.Certificate]:
    """Return the certificates of a PEM file, at least one; `where` is used in errors.

    Raises:
        TlsCertificateError: naming what the file has instead.
    """
    try:
        return x509.load_pem_x509_certificates(pem)
    except _UNREADABLE as error:
        raise TlsCertificateError(_instead(pem, where, "certificate")) from error


def key_in(pem: bytes, where: str) -> PrivateKeyTypes:
    """Return the private key of a PEM file; `where` is used in errors.

    Raises:
        TlsCertificateError: naming what the file has instead.
    """
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except _UNREADABLE as error:
        raise TlsCertificateError(_instead(pem, where, "private key")) from error


_NEW = "the operator has the authority's certificate, and makes the others and their keys with `hubbub certificate`"


def _instead(pem: bytes, where: str, wanted: str) -> str:
    found = what_it_is(pem)
    swapped = found.removeprefix("a ") in {"certificate", "private key"} - {wanted}
    remedy = "check that certificate and key are not swapped" if swapped else _NEW
    return (
        f"{where} has no readable {wanted}: it is {found}{' and damaged' if found == f'a {wanted}' else ''}; {remedy}"
    )


def check_pair(certificate: x509.Certificate, key: PrivateKeyTypes, certificate_at: str, key_at: str) -> None:
    """Check that the key belongs to the certificate.

    Raises:
        TlsCertificateError: naming both files.
    """
    try:
        belongs = certificate.public_key() == key.public_key()
    except _UNREADABLE as error:
        raise TlsCertificateError(f"{certificate_at} is for a key of an unknown kind; make it with `hubbub`") from error
    if not belongs:
        raise TlsCertificateError(f"{key_at} is not the key of {certificate_at}; use two files that were made together")


def check_issued(
    chain: Sequence[x509.Certificate],
    authorities: Sequence[x509.Certificate],
    certificate: TlsCertificate,
    authority: str,
) -> None:
    """Check that the first of `chain` leads to one of the authorities, possibly through the others.

    Raises:
        TlsCertificateError: naming both files.
    """
    reached, others = [chain[0]], list(chain[1:])
    while reached:
        last = reached.pop()
        if last in authorities or any(_is_issued_by(last, each) for each in authorities):
            return
        # Each is checked once, in any order of the file.
        issuers = [each for each in others if _is_issued_by(last, each)]
        others = [each for each in others if each not in issuers]
        reached.extend(issuers)
    raise TlsCertificateError(
        f"{certificate.where} was not issued by the authority in {authority}, so parties that trust it would refuse "
        f"this party; put the issuing authority into that file, or {certificate.remedy}"
    )


def check_apart(
    devices: Sequence[x509.Certificate], devices_at: str, parties: Sequence[x509.Certificate], parties_at: str
) -> None:
    """Check that no authority of devices is one of the parties', so that no certificate counts as the other's.

    Two authorities count as the same if they share a key or a subject name, or if one issued the other.

    Raises:
        TlsCertificateError: naming both files, what they share, and what to do.
    """
    for each, party in product(devices, parties):
        shared = _shared(each, devices_at, party, parties_at)
        if shared is not None:
            raise TlsCertificateError(
                f"{shared}: certificates of {parties_at} permit control of rounds and reading of results, so devices "
                "must not get them; issue the devices' certificates with an authority that has its own key and name, "
                f"and name its file in devices_authority instead of {devices_at}"
            )


def _shared(device: x509.Certificate, device_at: str, party: x509.Certificate, party_at: str) -> str | None:
    """Describe the common property of two authorities; None if they differ."""
    try:
        one_key = device.public_key() == party.public_key()
    except _UNREADABLE as error:
        raise TlsCertificateError(
            f"{device_at} or {party_at} has a key of an unknown kind; use ECDSA or RSA"
        ) from error
    if one_key:
        return f"{device_at} and {party_at} have the same authority, {_name(device)}, by its key"
    if _comparable(device.subject) == _comparable(party.subject):
        return f"{device_at} and {party_at} have authorities of the same name, {_name(device)}"
    for issued, issued_at, issuer, issuer_at in (
        (device, device_at, party, party_at),
        (party, party_at, device, device_at),
    ):
        if _is_issued_by(issued, issuer):
            return f"{_name(issued)} in {issued_at} was issued by {_name(issuer)} in {issuer_at}"
    return None


def _name(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string()


def _comparable(name: x509.Name) -> str:
    """Return a name in a form that is equal for names that X.509 matches (RFC 5280, 7.1): case and spaces aside."""
    return " ".join(name.rfc4514_string().casefold().split())


def _is_issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, *_UNREADABLE):
        return False
    return True


def _hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return ()
    return tuple(str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress))


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return False
