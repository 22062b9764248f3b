"""`hubbub verify` from the command line: `--rigorous` on the demo's own certificate, and `--succession`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from unit.verification.test_followed_successions import FOLLOWED, LATER, before

from hubbub.protos.identity.keys import CORE_ROLES
from support.cli import hubbub_here

WITHOUT_LIBRARY = "import sys; sys.modules['flint'] = None\nfrom hubbub.cli.main import main\nmain()"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = tmp_path_factory.mktemp("demo") / "kept"
    ran = hubbub_here("demo", "--devices", "2000", "--out", kept, "--json")
    assert ran.status == 0, ran.err
    return kept / "certificate-flights-0.json"


# tests/unit/verification/test_proof.py proves every number of a certificate.
@pytest.mark.exhaustive
def test_the_demos_certificate_is_proven(certificate: Path) -> None:
    ran = hubbub_here("verify", certificate, "--rigorous", "--json")
    assert ran.status == 0, ran.err
    proofs = ran.json["rigorous"]
    assert proofs["proven"]
    assert ran.json["suite"] == "X25519-HKDF-SHA256-CHACHA20POLY1305"
    found = {(each["where"], each["member"]): each for each in proofs["claims"]}
    for query in ran.json["queries"]:
        proof = found[query["name"], "epsilon_upper"]
        assert proof["proven"]
        assert proof["epsilon_proven"] == query["epsilon_upper"]
        assert proof["stated"] == query["epsilon_upper_stated"] == pytest.approx(query["epsilon_upper"], rel=1e-12)
        assert (proof["delta"], proof["route"]) == (ran.json["delta"], query["bound"])
    assert found["round_total", "epsilon_upper"]["proven"]
    total = ran.json["round_total"]
    assert found["round_total", "epsilon_upper"]["epsilon_proven"] == total["epsilon_upper"]
    rows = {row["member"]: row["epsilon"] for row in ran.json["ladder"] if row["covers"] == "round_total"}
    # The noise gives every number here, so the rung on which only the shuffler must be honest is the first one.
    assert rows == {member: total[member] for member in ("epsilon_upper_alone", "epsilon_local")}
    assert found["round_total", "epsilon_upper_alone"]["proven"]
    assert total["epsilon_upper_stated"] <= total["epsilon_upper"] <= 1.01001 * total["epsilon_upper_stated"]


def test_without_the_option_nothing_is_proven_and_nothing_said_of_it(certificate: Path) -> None:
    ran = hubbub_here("verify", certificate, "--json")
    assert ran.status == 0, ran.err
    assert "rigorous" not in ran.json


def test_without_the_library_the_error_names_the_extra(certificate: Path) -> None:
    words = [sys.executable, "-c", WITHOUT_LIBRARY, "verify", str(certificate), "--rigorous", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'hubbub[rigorous]', in a checkout pip install '.[rigorous]'" in json.loads(done.stdout)["error"]


def test_a_new_key_holds_for_a_certificate_of_before_with_the_succession(tmp_path: Path) -> None:
    (tmp_path / "certificate.json").write_bytes(before())
    words: list[str | Path] = ["verify", tmp_path / "certificate.json", "--json"]
    for role in CORE_ROLES:
        LATER.of(role).save_public(tmp_path / f"{role}.pub.pem")
        words += [f"--{role}-key", tmp_path / f"{role}.pub.pem"]
    assert "give its succession with --succession" in hubbub_here(*words).json["error"]
    for number, each in enumerate(FOLLOWED):
        (tmp_path / f"succession-{number}.json").write_bytes(each.encode())
        words += ["--succession", tmp_path / f"succession-{number}.json"]
    ran = hubbub_here(*words)
    assert (ran.status, ran.json["verified"]) == (0, True), ran.err
