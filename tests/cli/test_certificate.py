"""`hubbub certificate`: the operator's authority goes on, so nobody else has to change anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from hubbub.deploy.authority import Authority
from support.command import hubbub


@pytest.fixture
def operator(tmp_path: Path) -> Path:
    folder = tmp_path / "operator"
    (folder / "tls").mkdir(parents=True)
    authority = Authority.generate()
    authority.save_key(folder / "authority.key")
    authority.save_certificate(folder / "tls" / "authority.pem")
    return folder


def test_a_monitor_gets_a_certificate_of_the_same_authority(operator: Path, tmp_path: Path) -> None:
    made = hubbub("certificate", "monitor", "--authority", operator, "--out", "monitoring", "--json", folder=tmp_path)
    assert made.status == 0, made.err
    certificate = x509.load_pem_x509_certificate((tmp_path / made.json["certificate"]).read_bytes())
    authority = x509.load_pem_x509_certificate((operator / "tls" / "authority.pem").read_bytes())
    certificate.verify_directly_issued_by(authority)
    assert certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "monitor"
    assert (tmp_path / made.json["key"]).stat().st_mode & 0o777 == 0o600
    with pytest.raises(x509.ExtensionNotFound):
        certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)


def test_a_service_gets_its_hosts_and_loopback(operator: Path, tmp_path: Path) -> None:
    words = ("certificate", "shuffler", "--authority", operator, "--host", "shuffler.example.org")
    assert hubbub(*words, folder=tmp_path).status == 0
    certificate = x509.load_pem_x509_certificate((tmp_path / "shuffler.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["shuffler.example.org", "localhost"]
    again = hubbub(*words, folder=tmp_path)
    assert again.status == 1
    assert "nothing is overwritten" in again.err


def test_another_authority_s_certificate_is_refused(operator: Path, tmp_path: Path) -> None:
    Authority.generate().save_certificate(operator / "tls" / "authority.pem")
    ran = hubbub("certificate", "reader", "--authority", operator, folder=tmp_path)
    assert ran.status == 1
    assert "is not the key of" in ran.err
    assert not (tmp_path / "reader.pem").exists()


@pytest.mark.parametrize("damage", ["missing", "text"])
def test_an_authority_that_cannot_be_read_is_said(operator: Path, tmp_path: Path, damage: str) -> None:
    key = operator / "authority.key"
    key.unlink() if damage == "missing" else key.write_text("no key")
    ran = hubbub("certificate", "reader", "--authority", operator, folder=tmp_path)
    assert ran.status == 1
    assert "authority.key" in ran.err
    assert "Traceback" not in ran.err


def test_a_party_nobody_knows_is_bad_use(operator: Path, tmp_path: Path) -> None:
    assert hubbub("certificate", "anybody", "--authority", operator, folder=tmp_path).status == 2
