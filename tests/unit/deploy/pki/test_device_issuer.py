"""A local pipeline's devices have certificates of an authority that is not the deployment's."""

from __future__ import annotations

from pathlib import Path
from stat import S_IMODE

from hubbub.deploy.pki.authority import Authority
from hubbub.deploy.pki.device_issuer import Issuer
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.tls_files import certificates_in, check_apart


def test_each_name_has_files_of_its_own_that_its_authority_issued(tmp_path: Path) -> None:
    trusted = tmp_path / "devices.pem"
    issuer = Issuer(tmp_path / "certificates", trusted)
    one, other = issuer.files("one"), issuer.files("other")
    assert issuer.files("one") == one
    assert one[0].read_bytes() != other[0].read_bytes()
    for certificate, key in (one, other):
        TLS(trusted, certificate, key).check(
            Authority.generate().certificate.not_valid_before_utc.timestamp(), own=True
        )
        assert S_IMODE(key.stat().st_mode) == 0o600
    assert S_IMODE((tmp_path / "certificates").stat().st_mode) == 0o700


def test_its_authority_is_apart_from_a_deployments(tmp_path: Path) -> None:
    Issuer(tmp_path / "certificates", tmp_path / "devices.pem")
    found = certificates_in((tmp_path / "devices.pem").read_bytes(), "devices.pem")
    check_apart(found, "devices.pem", [Authority.generate().certificate], "authority.pem")
