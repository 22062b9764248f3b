"""`hubbub certificate`: the operator's authority goes on, so nobody else has to change anything."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from hubbub.deploy.init.folders import Placement, initialize
from hubbub.deploy.pki import authority as authority_module
from hubbub.deploy.pki.authority import Authority
from hubbub.protos.identity.keys import Role
from support.cli import hubbub


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
    assert "is not overwritten" in again.err


def hosts_of(path: Path) -> list[str]:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


LOOPBACK = ["localhost", "127.0.0.1", "::1"]


def test_a_service_s_new_certificate_is_for_the_hosts_of_the_old_one(tmp_path: Path) -> None:
    hosts = {Role.SHUFFLER: ["shuffler.example.org", "192.0.2.7"]}
    folder = initialize(tmp_path / "deployment", Placement(hosts))
    words = ("certificate", "shuffler", "--authority", folder.of("operator"))
    made = hubbub(*words, "--out", tmp_path / "new", "--json")
    assert made.status == 0, made.err
    assert made.json["hosts"] == ["shuffler.example.org", "192.0.2.7", *LOOPBACK]
    assert hosts_of(tmp_path / "new" / "shuffler.pem") == made.json["hosts"]
    assert made.json["party"] == "shuffler"
    assert made.json["not_before"] < made.json["not_after"]

    shutil.rmtree(folder.of("shuffler"))
    lost = hubbub(*words, "--out", tmp_path / "newer")
    assert lost.status == 2
    assert "the hosts of the shuffler are not known" in lost.err
    assert "give them with --host, or name its certificate with --old" in lost.err
    assert not (tmp_path / "newer").exists()

    again = hubbub(*words, "--out", tmp_path / "newer", "--old", tmp_path / "new" / "shuffler.pem")
    assert again.status == 0, again.err
    hosts = "shuffler.example.org, 192.0.2.7, localhost, 127.0.0.1, ::1"
    assert f"certificate of the shuffler, reached as {hosts}; valid until 20" in again.out


def test_the_old_certificate_is_that_party_s(operator: Path, tmp_path: Path) -> None:
    assert hubbub("certificate", "reader", "--authority", operator, folder=tmp_path).status == 0
    ran = hubbub("certificate", "shuffler", "--authority", operator, "--old", "reader.pem", folder=tmp_path)
    assert ran.status == 1
    assert "reader.pem is a certificate of reader, not of the shuffler; name the shuffler's" in ran.err


def test_who_is_not_called_has_no_hosts(operator: Path, tmp_path: Path) -> None:
    ran = hubbub("certificate", "reader", "--authority", operator, "--host", "x.example", folder=tmp_path)
    assert ran.status == 2
    assert "the reader is a client, so its certificate has no hosts" in ran.err


@pytest.mark.parametrize("host", ["https://x/", "host:7301", ""])
def test_a_host_that_is_none_is_bad_use(operator: Path, tmp_path: Path, host: str) -> None:
    ran = hubbub("certificate", "shuffler", "--authority", operator, "--host", host, "--out", "new", folder=tmp_path)
    assert ran.status == 2
    assert "--host: " in ran.err
    assert not (tmp_path / "new").exists()


def test_no_certificate_outlives_its_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authority_module, "AUTHORITY_DAYS", 100)
    authority = Authority.generate()
    made = authority.issue("reader", [], tmp_path / "reader.pem", tmp_path / "reader.key")
    assert made.not_after == authority.certificate.not_valid_after_utc


def test_an_authority_that_expired_issues_nothing(
    operator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authority_module, "BACKDATE", timedelta(days=9))
    monkeypatch.setattr(authority_module, "AUTHORITY_DAYS", -1)
    (operator / "authority.key").unlink()
    authority = Authority.generate()
    authority.save_key(operator / "authority.key")
    authority.save_certificate(operator / "tls" / "authority.pem")
    ran = hubbub("certificate", "reader", "--authority", operator, "--out", "new", folder=tmp_path)
    assert ran.status == 1
    assert "authority.pem is a certificate that expired on" in ran.err


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


def test_a_reader_has_a_name_of_its_own_and_no_other_party_has(operator: Path, tmp_path: Path) -> None:
    ran = hubbub("certificate", "reader", "--name", "ana", "--authority", operator, "--out", tmp_path, "--json")
    assert ran.status == 0, ran.err
    assert ran.json["party"] == "reader:ana"
    assert sorted(path.name for path in tmp_path.glob("reader*")) == ["reader.key", "reader.pem"]
    for party, name, says in (("operator", "ana", "--name is for a reader"), ("reader", "Ana!", "cannot be called")):
        refused = hubbub("certificate", party, "--name", name, "--authority", operator, "--out", tmp_path / "none")
        assert refused.status == 2
        assert says in " ".join(refused.err.split())
        assert not (tmp_path / "none").exists()
