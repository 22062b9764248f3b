"""A service checks its TLS files at the start, warns of those that end soon, and shows how long they last."""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
from cryptography import x509
from prometheus_client import CollectorRegistry

from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.protos.transport.tls_files import TlsCertificateError
from hubbub.service.rpc import submission_router
from hubbub.service.rpc.pipeline import RequestPipeline
from hubbub.service.transport import grpc_server
from hubbub.service.transport.grpc_server import Connections
from hubbub.service.transport.health import Health, is_serving
from hubbub.service.transport.https_server import ConnectionLimits, HttpsServer
from hubbub.service.transport.tls_reload import ReloadingCertificates
from support.ended_with_test import opened_server
from support.messages import NOT_ISSUED_BY_AUTHORITY
from support.patience import CALL_SECONDS
from support.samples import make_tls

DAY = 86_400


@pytest.fixture
def identity(tmp_path: Path) -> Path:
    Identity.generate().save(tmp_path / "identity.pem")
    return tmp_path / "identity.pem"


@pytest.fixture
def tls(tmp_path: Path) -> TLS:
    return make_tls(tmp_path / "tls", "shuffler")["shuffler"]


def days_left(certificates: ReloadingCertificates, name: str) -> float:
    registry = CollectorRegistry()
    registry.register(certificates)
    remaining = registry.get_sample_value("hubbub_shuffler_certificate_remaining_seconds", {"certificate": name})
    assert remaining is not None
    return remaining / 86_400


def test_days_left_are_a_metric(tls: TLS, identity: Path) -> None:
    certificates = ReloadingCertificates(Role.SHUFFLER, tls, identity, lambda: time.time() + 100 * DAY)
    assert days_left(certificates, "own") == pytest.approx(725, abs=1)
    assert days_left(certificates, "authority") == pytest.approx(3550, abs=1)


@pytest.mark.parametrize(
    ("days", "events"),
    [(100, []), (800, ["a certificate ends soon"]), (830, ["a certificate has expired"])],
)
async def test_one_that_ends_soon_is_warned_of(tls: TLS, identity: Path, days: float, events: list[str]) -> None:
    now = [time.time()]
    certificates = ReloadingCertificates(Role.SHUFFLER, tls, identity, lambda: now[0])
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


def test_one_that_expires_is_warned_of_at_that_moment_and_once(tls: TLS, identity: Path) -> None:
    """The next daily warning may be a day away, and nobody connects meanwhile."""
    now = [time.time()]
    certificates = ReloadingCertificates(Role.SHUFFLER, tls, identity, lambda: now[0])
    seen = []
    for days in (800, 825.5, 825.6):
        now[0] = time.time() + days * DAY
        with structlog.testing.capture_logs() as logged:
            certificates.warn_at_the_end()
        seen.append([each["event"] for each in logged])
    assert seen == [[], ["a certificate has expired"], []]


def test_an_expired_certificate_stops_the_start(tls: TLS, identity: Path) -> None:
    with pytest.raises(TlsCertificateError, match=r"shuffler\.pem is a certificate that expired on"):
        ReloadingCertificates(Role.SHUFFLER, tls, identity, lambda: time.time() + 830 * DAY)


def test_a_certificate_of_another_authority_stops_the_start(tls: TLS, identity: Path, tmp_path: Path) -> None:
    other = replace(tls, authority=make_tls(tmp_path / "other", "shuffler")["shuffler"].authority)
    with pytest.raises(TlsCertificateError, match=rf"shuffler\.pem {NOT_ISSUED_BY_AUTHORITY} .*other"):
        ReloadingCertificates(Role.SHUFFLER, other, identity, time.time)


def test_another_party_s_certificate_stops_the_start(tls: TLS, identity: Path) -> None:
    with pytest.raises(
        TlsCertificateError, match=r"shuffler\.pem is the shuffler's certificate; give the analyzer its own"
    ):
        ReloadingCertificates(Role.ANALYZER, tls, identity, time.time)


@pytest.fixture
def public(tmp_path: Path) -> TLS:
    """A certificate that the deployment's authority did not issue."""
    return replace(make_tls(tmp_path / "public", "app.example.org")["app.example.org"], is_public=True)


async def test_the_https_port_may_show_a_certificate_of_another_authority(
    tls: TLS, identity: Path, public: TLS, tmp_path: Path
) -> None:
    """Browsers trust no authority of a deployment; and the one that they trust opens no port of the control."""
    now = [time.time()]
    certificates = ReloadingCertificates(Role.SHUFFLER, tls, identity, lambda: now[0], public=public)
    assert days_left(certificates, "https") == pytest.approx(825, abs=1)
    router, limits = submission_router(None, RequestPipeline()), ConnectionLimits(Connections())  # type: ignore[arg-type]
    server = HttpsServer(router, limits, public, lambda: certificates.renewals)
    port = server.listen("127.0.0.1:0")
    try:
        first = serial_of(public)
        assert await serial_at(port, public) == first != serial_of(tls)
        made = make_tls(tmp_path / "next", "app.example.org")["app.example.org"]
        put(public, made, "certificate")
        certificates.look()  # half of the pair: the one in use stays
        assert await serial_at(port, public) == first
        put(public, made, "key")
        certificates.look()
        assert certificates.renewals == 1
        assert await serial_at(port, made) == serial_of(made)
    finally:
        await server.close(None)
    now[0] += 800 * DAY
    with structlog.testing.capture_logs() as logged:
        certificates.warn()
    assert "get a new one where it is from" in logged[-1]["remedy"]


def test_a_public_certificate_that_cannot_be_used_stops_the_start(tls: TLS, identity: Path, public: TLS) -> None:
    swapped = replace(public, key=tls.key)
    with pytest.raises(TlsCertificateError, match=r"is not the key of .*app\.example\.org\.pem"):
        ReloadingCertificates(Role.SHUFFLER, tls, identity, time.time, public=swapped)
    with pytest.raises(TlsCertificateError, match=r"expired on .*; get a new one where it is from"):
        public.check(time.time() + 826 * DAY, own=True)


# New files while it runs


@pytest.fixture
def certificates(tls: TLS, identity: Path) -> ReloadingCertificates:
    return ReloadingCertificates(Role.SHUFFLER, tls, identity, time.time)


def put(tls: TLS, made: TLS, *names: str) -> None:
    """Put files in the place of a service's own, in one step each."""
    for name in names:
        new, place = getattr(made, name), getattr(tls, name)
        (copy := place.with_suffix(".new")).write_bytes(new.read_bytes())
        copy.chmod(0o600)
        copy.replace(place)


async def serial_at(port: int, tls: TLS) -> int:
    """Connect as a client that trusts that authority; return which certificate the server shows."""
    context = ssl.create_default_context(cafile=str(tls.authority))
    context.set_alpn_protocols(["h2"])
    _reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    shown = x509.load_der_x509_certificate(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
    writer.close()
    return shown.serial_number


def serial_of(tls: TLS) -> int:
    assert tls.certificate is not None
    return x509.load_pem_x509_certificate(tls.certificate.read_bytes()).serial_number


async def test_a_server_shows_new_files_and_keeps_connections_that_are_open(
    tls: TLS, certificates: ReloadingCertificates, tmp_path: Path
) -> None:
    async with opened_server() as server:
        health = Health(server, [])
        port = grpc_server.listen(server, "127.0.0.1:0", certificates.server(mutual=False))
        await server.start()
        await health.serving()
        async with open_channel(f"127.0.0.1:{port}", replace(tls, certificate=None, key=None)) as channel:
            assert await is_serving(channel, CALL_SECONDS)
            before = serial_of(tls)
            assert await serial_at(port, tls) == before
            made = make_tls(tmp_path / "made", "shuffler")["shuffler"]
            put(tls, made, "authority", "certificate", "key")
            assert await serial_at(port, replace(tls, authority=certificates_before(tls, certificates))) == before
            certificates.look()
            assert await serial_at(port, made) == serial_of(made) != before
            assert await is_serving(channel, CALL_SECONDS)


def certificates_before(tls: TLS, certificates: ReloadingCertificates) -> Path:
    """The authority that is still in use, in a file."""
    assert isinstance(tls.authority, Path)
    path = tls.authority.with_name("before.pem")
    path.write_bytes(certificates.in_use.authority)
    return path


@pytest.mark.parametrize("party", ["shuffler", "analyzer", "nobody"])
def test_files_that_cannot_be_used_change_nothing_until_they_can(
    tls: TLS, certificates: ReloadingCertificates, tmp_path: Path, party: str
) -> None:
    made = make_tls(tmp_path / "made", "shuffler", "analyzer")
    with structlog.testing.capture_logs() as logged:
        if party == "nobody":
            assert tls.key is not None
            tls.key.unlink()
        else:
            # One of a pair alone, or a whole pair that is another party's.
            put(tls, made[party], *(["certificate"] if party == "shuffler" else ["authority", "certificate", "key"]))
        for _ in range(3):
            certificates.look()
    assert certificates.renewals == 0
    assert [each["event"] for each in logged] == ["new TLS files cannot be used"]
    put(tls, made["shuffler"], "authority", "certificate", "key")
    certificates.look()
    assert certificates.renewals == 1
    assert certificates.in_use == tls.read()


def test_files_that_did_not_change_are_not_read(certificates: ReloadingCertificates) -> None:
    with structlog.testing.capture_logs() as logged:
        certificates.look()
    assert (certificates.renewals, logged) == (0, [])


def test_during_a_change_of_the_authority_certificates_of_both_are_trusted(tls: TLS, tmp_path: Path) -> None:
    assert isinstance(tls.authority, Path)
    made = make_tls(tmp_path / "made", "shuffler")["shuffler"]
    assert isinstance(made.authority, Path)
    both = tmp_path / "both.pem"
    both.write_bytes(tls.authority.read_bytes() + made.authority.read_bytes())
    for each in (tls, made):
        replace(each, authority=both).check(time.time(), own=True)


@pytest.mark.parametrize("which", ["identity", "key"])
def test_a_private_key_that_others_can_read_is_warned_of(tls: TLS, identity: Path, which: str) -> None:
    path = identity if which == "identity" else tls.key
    assert path is not None
    path.chmod(0o644)
    with structlog.testing.capture_logs() as logged:
        ReloadingCertificates(Role.SHUFFLER, tls, identity, time.time)
    (warning,) = logged
    assert warning["event"] == "a private key is open to others"
    assert f"{path} is private, but open to everyone (mode 0644); run `chmod 600 {path}`" in warning["problem"]
