"""Signed forms of every version that was ever written are read, verified and written again byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.deploy.verification import Pins, VerificationError, verify
from hubbub.protos.errors import HubbubError
from hubbub.protos.signed_task import SignedTask

FOLDER = Path(__file__).parents[2] / "vectors" / "signed"
TASKS = sorted(FOLDER.glob("hubbub-task-*.json"))
CERTIFICATES = sorted(FOLDER.glob("hubbub-certificate-*.json"))


def name(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", TASKS, ids=name)
def test_task_of_every_version_is_written_again_byte_for_byte(path: Path) -> None:
    document = path.read_bytes()
    signed = SignedTask.decode(document)
    assert signed.encode() == document
    signed.check(signed.task.identities.operator, signed.task.identities.shuffler)


@pytest.mark.parametrize("path", TASKS, ids=name)
def test_changed_byte_of_a_task_of_any_version_is_refused(path: Path) -> None:
    document = path.read_bytes()
    named = SignedTask.decode(document).task.identities
    for place in range(len(document)):
        changed = bytearray(document)
        changed[place] ^= 0x01
        with pytest.raises(HubbubError):
            SignedTask.decode(bytes(changed)).check(named.operator, named.shuffler)


@pytest.mark.parametrize("path", CERTIFICATES, ids=name)
def test_certificate_of_every_version_verifies(path: Path) -> None:
    verified = verify(path.read_bytes(), Pins())
    assert [record.reports for record in verified.records] == [130, 130]


@pytest.mark.parametrize("path", CERTIFICATES, ids=name)
def test_changed_byte_of_a_certificate_of_any_version_is_refused(path: Path) -> None:
    document = path.read_bytes()
    for place in range(0, len(document), 3):
        changed = bytearray(document)
        changed[place] ^= 0x01
        with pytest.raises(VerificationError):
            verify(bytes(changed), Pins())
