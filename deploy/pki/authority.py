"""Makes a deployment's certificate authority, whose certificates decide which party may call which service over TLS.

A certificate's common name is the party's role; services check it on their mutual-TLS ports. These certificates protect
connections only. Statements (tasks, records, certificates of privacy) are signed with Ed25519 identities, other keys.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.keys import write_private
from hubbub.protos.transport.tls_files import TlsCertificate, TlsCertificateError, certificates_in, check_pair, key_in

AUTHORITY_DAYS = 3650
"""Days for which the authority's own certificate is valid: ten years, since all parties must replace it together."""

CERTIFICATE_DAYS = 825
"""Days for which a party's certificate is valid; `hubbub certificate` makes the next one before it ends."""

BACKDATE = timedelta(hours=1)
"""Certificates are valid from this long before they are made, since clocks of other machines may be behind."""


class Authority:
    """An authority's private key and certificate, in memory."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self.certificate = certificate

    @classmethod
    def generate(cls, name: str = "hubbub", after: x509.Certificate | None = None) -> Authority:
        """Make a new authority (ECDSA P-256). The validity of its certificate begins later than that of `after`."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(f"{name} authority")
        # The two that are True are key_cert_sign and crl_sign: this key signs certificates and nothing else.
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        # The time distinguishes the newer of two authorities, and X.509 has whole seconds only.
        earliest = None if after is None else after.not_valid_before_utc + timedelta(seconds=1)
        certificate = (
            _builder(subject, subject, key.public_key(), AUTHORITY_DAYS, earliest=earliest)
            # path_length 0: it issues certificates of parties only, never one of a further authority.
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    @classmethod
    def load(cls, key: Path, certificate: Path) -> Authority:
        """Read an authority from its files.

        Raises:
            HubbubError: if a file cannot be read.
            TlsCertificateError: if a file is not a certificate or an ECDSA key, the two do not belong together, or the
                certificate is not valid now.
        """
        try:
            private = key_in(key.read_bytes(), str(key))
            known = certificates_in(certificate.read_bytes(), str(certificate))[0]
        except OSError as error:
            raise HubbubError(f"cannot read {error.filename}: {error.strerror}; name the operator's folder") from error
        check_pair(known, private, str(certificate), str(key))
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise TlsCertificateError(f"{key} is not an ECDSA key; name the folder that `hubbub init` made")
        TlsCertificate.of(known, str(certificate)).check_time(datetime.now(UTC).timestamp())
        return cls(private, known)

    def save_certificate(self, path: Path) -> None:
        """Write the authority's certificate, which every party trusts."""
        path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def save_key(self, path: Path) -> None:
        """Write the authority's private key into a new file that only its owner can read."""
        write_private(path, _pem(self._key))

    def issue(self, role: str, hosts: Iterable[str], certificate_path: Path, key_path: Path) -> TlsCertificate:
        """Make a key and a certificate for `role`, as a server on `hosts` (names or addresses) and as a client.

        The certificate is never valid for longer than the authority's.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        until = self.certificate.not_valid_after_utc
        builder = _builder(_name(role), self.certificate.subject, key.public_key(), CERTIFICATE_DAYS, until)
        names = [_general_name(host) for host in hosts]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        authority_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usages, critical=False)
            .add_extension(authority_id, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        # The key first: `write_private` overwrites no file, so an existing certificate keeps its key.
        write_private(key_path, _pem(key))
        certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return TlsCertificate.of(certificate, str(certificate_path))


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    days: int,
    at_most: datetime | None = None,
    earliest: datetime | None = None,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    until = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(max(now - BACKDATE, earliest or now - BACKDATE))
        .not_valid_after(min(until, at_most or until))
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())
