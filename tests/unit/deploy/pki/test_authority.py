"""The authority's certificates say who may speak, and nothing more."""

import ipaddress
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hubbub.deploy.pki.authority import CERTIFICATE_DAYS, Authority


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.generate()


def issued(authority: Authority, folder: Path, role: str = "shuffler", hosts: tuple[str, ...] = ()) -> x509.Certificate:
    certificate, key = folder / f"{role}.pem", folder / f"{role}.key"
    authority.issue(role, hosts, certificate, key)
    return x509.load_pem_x509_certificate(certificate.read_bytes())


def test_certificate_names_its_role_and_nothing_else(authority: Authority, tmp_path: Path) -> None:
    certificate = issued(authority, tmp_path, "operator")
    assert [attribute.value for attribute in certificate.subject] == ["operator"]
    assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)


def test_certificate_is_by_the_authority_and_of_its_own_key(authority: Authority, tmp_path: Path) -> None:
    certificate = issued(authority, tmp_path)
    certificate.verify_directly_issued_by(authority.certificate)
    key = load_pem_private_key((tmp_path / "shuffler.key").read_bytes(), None)
    assert key.public_key() == certificate.public_key()
    with pytest.raises(Exception, match=r"^"):
        certificate.verify_directly_issued_by(Authority.generate().certificate)


def test_hosts_are_names_or_addresses(authority: Authority, tmp_path: Path) -> None:
    certificate = issued(authority, tmp_path, hosts=("localhost", "127.0.0.1", "::1"))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")]


def test_party_without_hosts_has_no_host_names(authority: Authority, tmp_path: Path) -> None:
    with pytest.raises(x509.ExtensionNotFound):
        issued(authority, tmp_path).extensions.get_extension_for_class(x509.SubjectAlternativeName)


def test_only_the_authority_may_issue(authority: Authority, tmp_path: Path) -> None:
    party = issued(authority, tmp_path).extensions.get_extension_for_class(x509.BasicConstraints)
    own = authority.certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (party.value.ca, party.critical) == (False, True)
    assert (own.value.ca, own.value.path_length, own.critical) == (True, 0, True)


def test_certificate_serves_both_ends_of_a_connection(authority: Authority, tmp_path: Path) -> None:
    usages = issued(authority, tmp_path).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usages) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}


def test_certificates_are_valid_now_and_for_as_long_as_documented(authority: Authority, tmp_path: Path) -> None:
    certificate, now = issued(authority, tmp_path), datetime.now(UTC)
    assert certificate.not_valid_before_utc < now - timedelta(minutes=30)
    left = certificate.not_valid_after_utc - now
    assert timedelta(days=CERTIFICATE_DAYS - 1) < left <= timedelta(days=CERTIFICATE_DAYS)
    assert authority.certificate.not_valid_after_utc > certificate.not_valid_after_utc


def test_every_certificate_has_its_own_key_and_number(authority: Authority, tmp_path: Path) -> None:
    first, second = (issued(authority, tmp_path, role) for role in ("shuffler", "analyzer"))
    assert first.serial_number != second.serial_number
    assert first.public_key() != second.public_key()


def test_private_keys_are_for_their_owner_only_and_not_overwritten(authority: Authority, tmp_path: Path) -> None:
    issued(authority, tmp_path)
    authority.save_key(tmp_path / "authority.key")
    for name in ("shuffler.key", "authority.key"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        assert isinstance(load_pem_private_key((tmp_path / name).read_bytes(), None), ec.EllipticCurvePrivateKey)
    with pytest.raises(FileExistsError):
        issued(authority, tmp_path)
    with pytest.raises(FileExistsError):
        authority.save_key(tmp_path / "authority.key")


def test_saved_certificate_is_public_only(authority: Authority, tmp_path: Path) -> None:
    authority.save_certificate(tmp_path / "authority.pem")
    content = (tmp_path / "authority.pem").read_bytes()
    assert x509.load_pem_x509_certificate(content) == authority.certificate
    assert b"PRIVATE" not in content
