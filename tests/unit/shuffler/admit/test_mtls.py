"""A device that shows a certificate has one pseudonym a round, by real sockets; nothing that names it is kept."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding
from unit.shuffler.test_server import Deployment, analyzer_at, channel, running, seal

from hubbub.client import Device, Fleet, Retrying, RetryPolicy, UsageError
from hubbub.deploy.pki.authority import Authority
from hubbub.protos.errors import HubbubError, Unreachable
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import Receipt, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc import ControlCaller, SubmissionCaller
from hubbub.protos.task.admission import AdmissionPolicy, Mode
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.tls_files import TlsCertificateError
from hubbub.service.transport.tls_reload import ReloadingCertificates
from hubbub.shuffler.admit.mtls import check_devices, devices_authority
from hubbub.shuffler.settings import ShufflerSettings
from support.patience import CALL_SECONDS
from support.samples import changed, signed

ANSWERS = {"carrier": "UA", "delay": 12.5}
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order of P-256's group."""

IMPATIENT = Retrying(RetryPolicy(total=3.0, call=2.0, first_pause=0.02))


class Certified(Deployment):
    """A deployment whose task admits by certificates, of an authority of the devices' own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.task = changed(self.task, admission=AdmissionPolicy(Mode.MTLS))
        self.write(signed(self.task, self.parties))
        self.issuer = Authority.generate("devices")
        self.issuer.save_certificate(folder / "devices.pem")

    def settings(self, analyzer: str) -> ShufflerSettings:
        certified = {"devices_listen": "127.0.0.1:0", "devices_authority": self.folder / "devices.pem"}
        return super().settings(analyzer).model_copy(update=certified)

    def issue(self, name: str) -> TLS:
        """A device's certificate, and the authority that it trusts."""
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        self.issuer.issue(name, [], certificate, key)
        return TLS(self.tls["shuffler"].authority, certificate, key)

    def device(self, address: str, tls: TLS, state: str) -> Device:
        assert isinstance(tls.authority, Path)
        return Device(
            signed(self.task, self.parties).encode(),
            operator_key=self.parties.operator.public,
            shuffler_key=self.parties.shuffler.public,
            state=self.folder / f"{state}.db",
            shuffler=address,
            authority=tls.authority,
            certificate=tls.certificate,
            key=tls.key,
            retrying=IMPATIENT,
        )


@dataclass
class Running:
    """A certified deployment with its addresses."""

    deployment: Certified
    addresses: dict[str, str]


@asynccontextmanager
async def begun(folder: Path, **changes: object) -> AsyncIterator[Running]:
    deployment = Certified(folder)
    async with (
        analyzer_at(deployment) as (name, _),
        running(deployment.settings(name).model_copy(update=changes)) as addresses,
    ):
        yield Running(deployment, addresses)


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Running]:
    async with begun(tmp_path) as found:
        yield found


async def sent(live: Running, tls: TLS, state: str, port: str = "devices") -> Reason | None:
    """Submit as a device; return why it was refused."""
    async with live.deployment.device(live.addresses[port], tls, state) as device:
        try:
            await device.submit(ANSWERS, 0)
        except Refusal as refusal:
            return refusal.reason
    return None


async def test_each_certificate_has_one_submission_a_round(live: Running) -> None:
    one, other = live.deployment.issue("kiosk-heliotrope"), live.deployment.issue("kiosk-vermilion")
    assert await sent(live, one, "first") is None
    assert await sent(live, one, "first") is None
    assert await sent(live, one, "again, with another state file") is Reason.ID_CONFLICT
    assert await sent(live, other, "second") is None


async def test_workers_tell_devices_by_their_certificates_at_a_port_that_they_share(tmp_path: Path) -> None:
    async with begun(tmp_path, workers=2, event_loop="uvloop") as live:
        tls = [live.deployment.issue(f"kiosk-{number}") for number in range(4)]
        for number, each in enumerate(tls):
            assert await sent(live, each, f"first {number}") is None
            # Whichever of them is asked, by another connection: the pseudonym is taken.
            assert await sent(live, each, f"another {number}") is Reason.ID_CONFLICT
        assert await sent(live, tls[0], "elsewhere", port="submission") is Reason.NOT_ENROLLED


def second_signature(path: Path) -> None:
    """Write a certificate again with the other signature that holds for what was issued: (r, n − s) for (r, s)."""
    found = x509.load_pem_x509_certificate(path.read_bytes())
    issued, whole = found.tbs_certificate_bytes, found.public_bytes(serialization.Encoding.DER)
    one, other = decode_dss_signature(found.signature)
    signature = encode_dss_signature(one, ORDER - other)
    # Behind what was issued comes the algorithm, and behind that the signature as a bit string.
    start = whole.index(issued) + len(issued)
    algorithm = whole[start : -len(found.signature) - 3]
    content = issued + algorithm + bytes([3, len(signature) + 1, 0]) + signature
    again = b"\x30\x82" + len(content).to_bytes(2, "big") + content
    path.write_bytes(x509.load_der_x509_certificate(again).public_bytes(serialization.Encoding.PEM))


async def test_a_certificate_with_a_second_signature_is_the_same_one(live: Running) -> None:
    tls = live.deployment.issue("kiosk-heliotrope")
    assert await sent(live, tls, "first") is None
    assert tls.certificate is not None
    before = tls.certificate.read_bytes()
    second_signature(tls.certificate)
    assert tls.certificate.read_bytes() != before
    assert await sent(live, tls, "with the other signature") is Reason.ID_CONFLICT


async def test_who_shows_no_certificate_is_refused(live: Running) -> None:
    assert await sent(live, live.deployment.issue("kiosk"), "plain", "submission") is Reason.NOT_ENROLLED
    with pytest.raises(Unreachable):
        await sent(live, live.deployment.tls["operator"], "of the deployment's authority")


async def test_a_call_of_many_takes_one_for_its_certificate(live: Running) -> None:
    tls, task = live.deployment.issue("fleet"), live.deployment.task
    async with channel(live.addresses["devices"], tls) as opened:
        caller = SubmissionCaller(opened)
        to, submissions = await seal(caller, task, 20)
        # A credential that somebody made up is worth as little as none: the certificate alone decides.
        shown = [Submission(each.id, each.envelope, bytes(44), bytes(16)) for each in submissions]
        answers = await caller.submit_batch(to, shown, CALL_SECONDS)
        again = await caller.submit_batch(to, shown, CALL_SECONDS)
    assert [type(answer) for answer in answers] == [Receipt] + [Refusal] * 19
    assert {answer.reason for answer in answers if isinstance(answer, Refusal)} == {Reason.ID_CONFLICT}
    assert again[0] == answers[0]
    assert [type(answer) for answer in again] == [type(answer) for answer in answers]


async def test_nothing_that_names_a_certificate_is_kept_or_logged(
    live: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    tls = live.deployment.issue("kiosk-heliotrope")
    assert await sent(live, tls, "first") is None
    assert await sent(live, tls, "again") is Reason.ID_CONFLICT
    assert tls.certificate is not None
    held = x509.load_pem_x509_certificate(tls.certificate.read_bytes())
    digest = hashlib.sha256(held.public_bytes(Encoding.DER)).digest()
    serial = held.serial_number.to_bytes(20, "big").lstrip(b"\0")
    stored = b"".join(path.read_bytes() for path in (live.deployment.folder / "data").iterdir())
    written = "".join(capfd.readouterr()).encode()
    assert len(stored) > 1000
    for secret in (b"heliotrope", digest, digest[:16], serial):
        for text in (stored, written):
            assert secret not in text
            assert secret.hex().encode() not in text


async def test_a_device_s_certificate_opens_no_other_port(live: Running) -> None:
    impostor = live.deployment.issue("operator")
    async with channel(live.addresses["control"], impostor) as opened:
        with pytest.raises(Unreachable):
            await ControlCaller(opened).get_status(None, CALL_SECONDS)


@pytest.mark.parametrize("name", ["devices_listen", "devices_authority"])
def test_a_task_that_nobody_could_reach_is_refused_at_the_start(tmp_path: Path, name: str) -> None:
    deployment = Certified(tmp_path)
    settings = deployment.settings("127.0.0.1:1")
    check_devices(settings, {deployment.task.id: deployment.task})
    without = settings.model_copy(update={name: ShufflerSettings.model_fields[name].default})
    with pytest.raises(HubbubError, match=name):
        check_devices(without, {deployment.task.id: deployment.task})


async def test_an_authority_that_is_the_deployments_too_is_refused_at_the_start(tmp_path: Path) -> None:
    deployment = Certified(tmp_path)
    own = deployment.tls["shuffler"].authority
    assert isinstance(own, Path)
    bundle = deployment.folder / "devices.pem"
    # In a bundle behind another one, and under a text before it: the files differ, and the authority is there.
    bundle.write_bytes(bundle.read_bytes() + b"the deployment's\n" + own.read_bytes())
    with pytest.raises(
        TlsCertificateError, match=rf"{bundle} and {own} have the same authority, CN=hubbub authority, by its"
    ):
        async with running(deployment.settings("127.0.0.1:1")):
            pass
    # Without a port for devices its file is not read.
    bundle.unlink()
    with pytest.raises(HubbubError, match="set devices_listen and devices_authority"):
        async with running(deployment.settings("127.0.0.1:1").model_copy(update={"devices_listen": ""})):
            pass


def test_an_authority_of_devices_is_not_trusted_as_the_deployments_later_either(tmp_path: Path) -> None:
    deployment = Certified(tmp_path)
    settings = deployment.settings("127.0.0.1:1")
    devices, tls = devices_authority(settings), settings.tls.paths()
    assert devices is not None
    certificates = ReloadingCertificates(Role.SHUFFLER, tls, settings.identity, time.time, devices.check)
    before = settings.tls.authority.read_bytes()
    settings.tls.authority.write_bytes(before + (deployment.folder / "devices.pem").read_bytes())
    with structlog.testing.capture_logs() as logged:
        certificates.look()
    assert "have the same authority, CN=devices authority" in logged[0]["problem"]
    assert certificates.in_use.authority == before
    settings.tls.authority.write_bytes(before + b"\n")
    certificates.look()
    assert certificates.renewals == 1


def test_a_device_without_a_certificate_and_a_fleet_are_told_so(tmp_path: Path) -> None:
    deployment = Certified(tmp_path)
    tls = deployment.issue("kiosk")
    with pytest.raises(UsageError, match="admits devices by certificate"):
        deployment.device("127.0.0.1:1", TLS(tls.authority), "without")
    common = {"operator_key": deployment.parties.operator.public, "shuffler_key": deployment.parties.shuffler.public}
    with pytest.raises(UsageError, match="make a Device for each"):
        Fleet(
            signed(deployment.task, deployment.parties).encode(),
            state=tmp_path / "fleet.db",
            shuffler="127.0.0.1:1",
            authority=deployment.tls["shuffler"].authority,
            **common,
        )


def test_a_certificate_is_shown_to_no_other_task(tmp_path: Path) -> None:
    deployment = Certified(tmp_path)
    deployment.task = replace(deployment.task, admission=AdmissionPolicy(Mode.ENROLLED))
    device = deployment.device("127.0.0.1:1", deployment.issue("kiosk"), "state")
    assert (device._session.tls.certificate, device._session.tls.key) == (None, None)
