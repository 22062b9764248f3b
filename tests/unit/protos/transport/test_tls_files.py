"""TLS files that cannot be used are named, with what is wrong with them, before anybody is called or answered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from hubbub.deploy.pki import authority as authority_module
from hubbub.deploy.pki.authority import Authority
from hubbub.protos.errors import Unreachable
from hubbub.protos.rpc import ControlCaller
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.protos.transport.statuses import unreachable
from hubbub.protos.transport.tls_files import TlsCertificate, TlsCertificateError, check_apart
from hubbub.service.transport.grpc_server import listen
from hubbub.service.transport.health import Health
from support.ended_with_test import opened_server
from support.messages import NOT_ISSUED_BY_AUTHORITY
from support.patience import CALL_SECONDS
from support.samples import make_tls

NOW = datetime.now(UTC).timestamp()
DAY = 86_400


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TLS]:
    return make_tls(tmp_path_factory.mktemp("tls"), "shuffler", "analyzer", "operator")


@pytest.fixture
def own(tls: dict[str, TLS]) -> TLS:
    return tls["shuffler"]


def path_of(path: Path | bytes | None) -> Path:
    assert isinstance(path, Path)
    return path


def cut(path: Path | bytes | None, folder: Path) -> Path:
    """A copy of a file that ends halfway."""
    content = path_of(path).read_bytes()
    (folder / "cut.pem").write_bytes(content[: len(content) // 2])
    return folder / "cut.pem"


def garbled(path: Path | bytes | None, folder: Path) -> Path:
    """A copy of a file whose label holds, and whose content does not."""
    lines = path_of(path).read_text().splitlines()
    (folder / "bad.pem").write_text("\n".join([lines[0], "AAAA", lines[-1], ""]))
    return folder / "bad.pem"


WRONG: dict[str, tuple[Callable[[TLS, dict[str, TLS], Path], TLS], str]] = {
    "swapped certificate": (
        lambda own, _all, _tmp: replace(own, certificate=own.key),
        r"shuffler\.key has no readable certificate: it is a private key; check that certificate",
    ),
    "swapped key": (
        lambda own, _all, _tmp: replace(own, key=own.certificate),
        r"shuffler\.pem has no readable private key: it is a certificate; check that certificate",
    ),
    "the key of another": (
        lambda own, all_, _tmp: replace(own, key=all_["analyzer"].key),
        r"analyzer\.key is not the key of .*shuffler\.pem; use two files that were made together",
    ),
    "a key as authority": (
        lambda own, _all, _tmp: replace(own, authority=path_of(own.key)),
        r"shuffler\.key has no readable certificate: it is a private key",
    ),
    "a certificate cut short": (
        lambda own, _all, tmp: replace(own, certificate=cut(own.certificate, tmp)),
        r"cut\.pem has no readable certificate: it is a certificate that was cut short; the operator",
    ),
    "a key cut short": (
        lambda own, _all, tmp: replace(own, key=cut(own.key, tmp)),
        r"cut\.pem has no readable private key: it is a private key that was cut short; the operator",
    ),
    "an authority cut short": (
        lambda own, _all, tmp: replace(own, authority=cut(own.authority, tmp)),
        r"cut\.pem has no readable certificate: it is a certificate that was cut short",
    ),
    "a garbled certificate": (
        lambda own, _all, tmp: replace(own, certificate=garbled(own.certificate, tmp)),
        r"bad\.pem has no readable certificate: it is a certificate and damaged",
    ),
    "a garbled key": (
        lambda own, _all, tmp: replace(own, key=garbled(own.key, tmp)),
        r"bad\.pem has no readable private key: it is a private key and damaged",
    ),
    "bytes": (
        lambda own, _all, _tmp: replace(own, authority=b""),
        "the authority's certificate has no readable certificate: it is an empty file",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_each_wrong_file_has_its_own_message(
    case: str, own: TLS, tls: dict[str, TLS], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make, words = WRONG[case]
    wrong = make(own, tls, tmp_path)
    for use in (lambda: wrong.server(mutual=True), wrong.client):
        with pytest.raises(TlsCertificateError, match=words):
            use()
    assert capfd.readouterr().err == ""


def test_the_remedy_names_a_reader_as_the_command_takes_it() -> None:
    now = datetime.now(UTC)
    for party, words in (("reader:ana", "reader --name ana --authority DIR"), ("reader", "reader --authority DIR")):
        remedy = TlsCertificate("reader.pem", party, (), now, now, is_authority=False).remedy
        assert f"`hubbub certificate {words}`" in remedy


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (
            900,
            r"shuffler\.pem is a certificate that expired on 20.. UTC; have the operator run `hubbub certificate shuf",
        ),
        (4000, r"authority\.pem is a certificate that expired on 20.. UTC; have the operator make a new authority"),
        (-1, r"authority\.pem is a certificate that is not valid before .* check this machine's clock"),
    ],
)
def test_certificates_that_are_not_valid_now_are_named_with_their_date(own: TLS, days: float, words: str) -> None:
    with pytest.raises(TlsCertificateError, match=words.replace("20..", r"20\d\d-\d\d-\d\d \d\d:\d\d")):
        own.check(NOW + days * DAY)


def test_an_old_authority_beside_its_successor_is_not_in_the_way(own: TLS, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authority_module, "AUTHORITY_DAYS", 10)
    old = Authority.generate().certificate.public_bytes(Encoding.PEM)
    both = replace(own, authority=old + path_of(own.authority).read_bytes())
    assert both.check(NOW + 20 * DAY)["authority"].days_left(NOW) == pytest.approx(3650, abs=1)
    with pytest.raises(TlsCertificateError, match="the authority's certificate is a certificate that expired"):
        replace(own, authority=old).check(NOW + 20 * DAY)


def test_days_left_are_those_to_the_end(own: TLS) -> None:
    found = own.check(NOW)
    assert found["own"].days_left(NOW) == pytest.approx(825, abs=1)
    assert found["authority"].days_left(NOW) == pytest.approx(3650, abs=1)
    assert found["own"].hosts == ("localhost", "127.0.0.1")
    assert [found[name].party for name in ("own", "authority")] == ["shuffler", "hubbub authority"]


@asynccontextmanager
async def served(tls: TLS, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """A server with these files, however wrong their dates are."""
    monkeypatch.setattr(TLS, "check", lambda *_args, **_named: {})
    async with opened_server() as server:
        Health(server, [])
        port = listen(server, "127.0.0.1:0", tls.server(mutual=True))
        await server.start()
        yield f"127.0.0.1:{port}"


def issued(
    authority: Authority, folder: Path, monkeypatch: pytest.MonkeyPatch, start: float, days: float, host: str
) -> TLS:
    """The files of a shuffler whose certificate is valid from `start` days from now for `days` from now."""
    monkeypatch.setattr(authority_module, "BACKDATE", timedelta(days=-start))
    monkeypatch.setattr(authority_module, "CERTIFICATE_DAYS", days)
    authority.issue("shuffler", [host], folder / "other.pem", folder / "other.key")
    return TLS(folder / "authority.pem", folder / "other.pem", folder / "other.key")


@pytest.mark.parametrize(
    ("start", "days", "host", "words"),
    [
        (-20, -10, "127.0.0.1", "its TLS certificate, or the authority's, has expired"),
        (10, 20, "127.0.0.1", "its TLS certificate is not valid yet; check the clocks"),
        (-1, 20, "elsewhere.example", "its TLS certificate is not for the name by which it was called"),
    ],
)
async def test_a_server_s_wrong_certificate_is_named_to_who_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: float, days: float, host: str, words: str
) -> None:
    authority = Authority.generate()
    authority.save_certificate(tmp_path / "authority.pem")
    authority.issue("operator", [], tmp_path / "operator.pem", tmp_path / "operator.key")
    operator = TLS(tmp_path / "authority.pem", tmp_path / "operator.pem", tmp_path / "operator.key")
    wrong = issued(authority, tmp_path, monkeypatch, start, days, host)
    async with served(wrong, monkeypatch) as address, open_channel(address, operator) as channel:
        with pytest.raises(Unreachable, match=f"the shuffler is not trusted: {words}"):
            await ControlCaller(channel).get_status(None, CALL_SECONDS)


async def test_another_authority_is_named_to_who_calls(
    own: TLS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = make_tls(tmp_path, "operator")["operator"]
    async with served(own, monkeypatch) as address, open_channel(address, stranger) as channel:
        with pytest.raises(
            Unreachable, match="is not of the authority that is trusted here; check that authority's file"
        ):
            await ControlCaller(channel).get_status(None, CALL_SECONDS)


def test_what_nobody_knows_is_passed_on() -> None:
    found = unreachable("the shuffler", "something new")
    assert (type(found), str(found)) == (Unreachable, "the shuffler did not answer: something new")


def test_a_proxy_that_does_not_reach_the_shuffler_is_named() -> None:
    # What gRPC says if HAProxy answers 503 by itself.
    found = unreachable("the shuffler", "Received http2 header with status: 503")
    says = "the shuffler did not answer: the proxy in front of it does not reach it (503)"
    assert (type(found), str(found)) == (Unreachable, says)


def test_a_certificate_of_another_authority_is_refused_where_it_is_shown(own: TLS, tmp_path: Path) -> None:
    stranger = make_tls(tmp_path, "shuffler")["shuffler"]
    wrong = replace(own, certificate=stranger.certificate, key=stranger.key)
    says = rf"{stranger.certificate} was not issued by the authority in {own.authority}, .*hubbub certificate shuffler"
    with pytest.raises(TlsCertificateError, match=says):
        wrong.server(mutual=True)
    # While a new authority takes the place of an old one, either may have made it.
    both = path_of(own.authority).read_bytes() + path_of(stranger.authority).read_bytes()
    for each in (own, stranger):
        assert replace(each, authority=both).check(NOW, own=True)["own"].party == "shuffler"


def signed_by(
    issuer: str, key: ec.EllipticCurvePrivateKey, subject: str, public: ec.EllipticCurvePublicKey
) -> x509.Certificate:
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in (subject, issuer)]
    return (
        x509.CertificateBuilder()
        .subject_name(names[0])
        .issuer_name(names[1])
        .public_key(public)
        .serial_number(1)
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)])
def test_certificates_between_the_own_and_the_authority_are_followed(tmp_path: Path, order: tuple[int, ...]) -> None:
    root, upper, lower, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(4))
    chain = [
        signed_by("lower", lower, "shuffler", own.public_key()),
        signed_by("upper", upper, "lower", lower.public_key()),
        signed_by("root", root, "upper", upper.public_key()),
    ]
    authority = signed_by("root", root, "root", root.public_key()).public_bytes(Encoding.PEM)
    private = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "own.key").write_bytes(private)
    (tmp_path / "own.pem").write_bytes(b"".join(chain[each].public_bytes(Encoding.PEM) for each in order))
    files = TLS(authority, tmp_path / "own.pem", tmp_path / "own.key")
    assert files.check(NOW, own=True)["own"].party == "shuffler"
    # The bundle may hold one of those between instead, or the certificate itself.
    for trusted in chain:
        replace(files, authority=trusted.public_bytes(Encoding.PEM)).check(NOW, own=True)
    (tmp_path / "own.pem").write_bytes(chain[0].public_bytes(Encoding.PEM))
    with pytest.raises(TlsCertificateError, match=f"{NOT_ISSUED_BY_AUTHORITY} the authority's certificate"):
        files.check(NOW, own=True)


# Two authorities that must be apart


KEYS = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("parties", "devices", "other")}


def authority(name: str, key: str, issuer: tuple[str, str] | None = None) -> x509.Certificate:
    """A new certificate of an authority with that name and key, issued by itself, or by one with another."""
    issued_by, signing = issuer or (name, key)
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issued_by)]))
        .public_key(KEYS[key].public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(KEYS[signing], hashes.SHA256())
    )


PARTIES = authority("the parties", "parties")
OTHER = authority("another one", "other")


def test_authorities_of_different_keys_and_names_are_apart() -> None:
    check_apart([authority("the devices", "devices"), OTHER], "devices.pem", [PARTIES], "authority.pem")


@pytest.mark.parametrize(
    ("devices", "shared"),
    [
        (PARTIES, "devices.pem and authority.pem have the same authority, CN=the parties, by its key"),
        (authority("the parties", "parties"), "have the same authority, CN=the parties, by its key"),
        (authority("the devices", "parties"), "have the same authority, CN=the devices, by its key"),
        (authority("the parties", "devices"), "have authorities of the same name, CN=the parties"),
        (authority("The  PARTIES", "devices"), "have authorities of the same name, CN=The  PARTIES"),
        (
            authority("the devices", "devices", ("the parties", "parties")),
            "CN=the devices in devices.pem was issued by CN=the parties in authority.pem",
        ),
    ],
    ids=["the same", "made again", "renamed", "of one name", "of a name that matches", "issued by it"],
)
def test_authorities_that_share_a_key_a_name_or_a_chain_are_told_with_a_remedy(
    devices: x509.Certificate, shared: str
) -> None:
    with pytest.raises(TlsCertificateError) as refused:
        check_apart([OTHER, devices], "devices.pem", [PARTIES], "authority.pem")
    assert shared in str(refused.value)
    assert "name its file in devices_authority instead of devices.pem" in str(refused.value)


def test_a_deployment_whose_authority_the_devices_authority_issued_is_refused() -> None:
    own = authority("the parties", "parties", ("another one", "other"))
    with pytest.raises(
        TlsCertificateError, match=r"CN=the parties in authority.pem was issued by CN=another one in dev"
    ):
        check_apart([OTHER], "devices.pem", [own], "authority.pem")
