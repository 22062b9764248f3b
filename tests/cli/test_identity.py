"""`hubbub identity`: a key pair is made where it is used, and nothing is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.identity.keys import Identity, load_public
from support.cli import hubbub, hubbub_here


def test_it_makes_a_private_key_and_the_public_one_to_hand_over(tmp_path: Path) -> None:
    made = hubbub("identity", "identity.pem", "--json", folder=tmp_path)
    assert made.status == 0, made.err
    private, public = tmp_path / "identity.pem", tmp_path / "identity.pub.pem"
    assert made.json == {
        "private": "identity.pem",
        "public": "identity.pub.pem",
        "fingerprint": fingerprint(Identity.load(private).public),
    }
    assert load_public(public) == Identity.load(private).public
    assert private.stat().st_mode & 0o777 == 0o600


def test_people_are_told_what_the_digits_are(tmp_path: Path) -> None:
    made = hubbub_here("identity", "identity.pem", folder=tmp_path)
    digits = fingerprint(load_public(tmp_path / "identity.pub.pem"))
    assert made.out == f"fingerprint {digits}\nhand over identity.pub.pem; identity.pem stays here\n"


@pytest.mark.parametrize("taken", ["identity.pem", "identity.pub.pem"])
def test_it_overwrites_nothing(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).write_text("kept")
    ran = hubbub("identity", "identity.pem", folder=tmp_path)
    assert ran.status == 1
    assert f"{taken} exists" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == [taken]
    assert (tmp_path / taken).read_text() == "kept"


def test_the_next_steps_of_init_are_those_of_hosts_if_a_party_has_its_own_identity(tmp_path: Path) -> None:
    assert hubbub("identity", "shuffler.pem", folder=tmp_path).status == 0
    made = hubbub("init", "deployment", "--shuffler-key", "shuffler.pub.pem", "--proxy", "--hops", "2", folder=tmp_path)
    assert made.status == 0, made.err
    steps = made.out.splitlines()
    assert "  hubbub sign task.json --key identity.pem" in steps
    for place in (
        "deployment/shuffler deployment/proxy   # to the shuffler's host",
        "deployment/analyzer   # to the analyzer's host",
        "deployment/hop-2   # to hop-2's host",
    ):
        assert f"  {place}" in steps
    # Commands that would run a service, or sign as the shuffler, on the operator's machine.
    assert not [
        line for line in steps if "shuffler/identity.pem" in line or ("--create-store" in line and "hubbub" in line)
    ]
    assert not (tmp_path / "deployment/shuffler/identity.pem").exists()
    # The folder of the application goes to many devices.
    assert not [line for line in steps if "hubbub enroll" in line and "client" in line]
    assert [line for line in steps if line.startswith("  hubbub enroll ticket.json --key deployment/operator/")]
