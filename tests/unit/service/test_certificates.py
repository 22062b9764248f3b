"""A service checks its TLS files at the start, warns of those that end soon, and shows how long they last."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
from prometheus_client import CollectorRegistry

from hubbub.protos.certificates import CertificateError
from hubbub.protos.keys import Identity, Role
from hubbub.protos.transport import TLS
from hubbub.service.certificates import Certificates
from support.samples import make_tls

DAY = 86_400


@pytest.fixture
def identity(tmp_path: Path) -> Path:
    Identity.generate().save(tmp_path / "identity.pem")
    return tmp_path / "identity.pem"


@pytest.fixture
def tls(tmp_path: Path) -> TLS:
    return make_tls(tmp_path / "tls", "shuffler")["shuffler"]


def days_left(certificates: Certificates, name: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(certificates)
    return registry.get_sample_value("hubbub_shuffler_certificate_days_left", {"certificate": name})


def test_days_left_are_a_metric(tls: TLS, identity: Path) -> None:
    certificates = Certificates(Role.SHUFFLER, tls, identity, lambda: time.time() + 100 * DAY)
    assert days_left(certificates, "own") == pytest.approx(725, abs=1)
    assert days_left(certificates, "authority") == pytest.approx(3550, abs=1)


@pytest.mark.parametrize(
    ("days", "events"),
    [(100, []), (800, ["a certificate ends soon"]), (830, ["a certificate has expired"])],
)
async def test_one_that_ends_soon_is_warned_of(tls: TLS, identity: Path, days: float, events: list[str]) -> None:
    now = [time.time()]
    certificates = Certificates(Role.SHUFFLER, tls, identity, lambda: now[0])
    now[0] += days * DAY
    with structlog.testing.capture_logs() as logged:
        async with certificates.watched():
            await asyncio.sleep(0)
    assert [each["event"] for each in logged] == events
    for each in logged:
        assert each["log_level"] == "warning"
        assert each["file"].endswith("shuffler.pem")
        assert "hubbub certificate shuffler --authority DIR" in each["remedy"]
        assert each["days_left"] == pytest.approx(825 - days, abs=1)


def test_an_expired_certificate_stops_the_start(tls: TLS, identity: Path) -> None:
    with pytest.raises(CertificateError, match=r"shuffler\.pem is a certificate that expired on"):
        Certificates(Role.SHUFFLER, tls, identity, lambda: time.time() + 830 * DAY)


def test_a_certificate_of_another_authority_stops_the_start(tls: TLS, identity: Path, tmp_path: Path) -> None:
    other = replace(tls, authority=make_tls(tmp_path / "other", "shuffler")["shuffler"].authority)
    with pytest.raises(CertificateError, match=r"shuffler\.pem was not made by the authority in .*other"):
        Certificates(Role.SHUFFLER, other, identity, time.time)


def test_another_party_s_certificate_stops_the_start(tls: TLS, identity: Path) -> None:
    with pytest.raises(
        CertificateError, match=r"shuffler\.pem is the shuffler's certificate; give the analyzer its own"
    ):
        Certificates(Role.ANALYZER, tls, identity, time.time)


@pytest.mark.parametrize("which", ["identity", "key"])
def test_a_private_key_that_others_can_read_is_warned_of(tls: TLS, identity: Path, which: str) -> None:
    path = identity if which == "identity" else tls.key
    assert path is not None
    path.chmod(0o644)
    with structlog.testing.capture_logs() as logged:
        Certificates(Role.SHUFFLER, tls, identity, time.time)
    (warning,) = logged
    assert warning["event"] == "a private key is open to others"
    assert f"{path} is private, and open to everyone (mode 0644); `chmod 600 {path}`" in warning["problem"]
