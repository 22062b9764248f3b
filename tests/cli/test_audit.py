"""`hubbub audit`: what it prints, keeps and draws, and what it refuses before anything is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hubbub.cli.main import main
from support.cli import hubbub_here
from support.thoroughness import EXHAUSTIVE, usually

TASK = """
[task]
name = "kiosks"
start = 2096-01-01T00:00:00Z
length = "24h"
grace = "10m"
minimum_reports = 20

[privacy]
epsilon = 0.5
delta = 0.05
large_delta = "few devices, none of them anybody's"
epsilon_local = 4

[[query]]
name = "theme"
kind = "histogram"
categories = ["light", "dark", "system"]
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    path = tmp_path / "task.toml"
    path.write_text(TASK)
    return path


OVER_TIME = """
[[query]]
name = "subscribed"
kind = "longitudinal"
changes = 1
"""

REFUSED = {
    "too few rounds": (("--rounds", "10"), "so no fault could contradict the certificate"),
    "certain": (("--confidence", "1"), "--confidence is 1.0; give a number above 0 and below 1"),
    "no delta": (("--delta", "2"), "--delta is 2.0"),
    "hardly a round": (("--rounds", "7"), "--rounds"),
    "no plot": (("--plot", "audit.gif"), "name a file that ends in .svg or .png"),
    "nobody else": (("--participants", "1"), "--participants"),
}


def error_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one member of the document that a refused audit prints; it ended with status 2."""
    with pytest.raises(SystemExit) as ended:
        main(["audit", *words, "--json"])
    assert ended.value.code == 2
    return str(json.loads(capsys.readouterr().out)["error"])


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused(task: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, says = REFUSED[name]
    assert says in error_of([str(task), *words], capsys)


def test_an_audit_that_was_not_made_contradicts_nothing(
    task: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1 says that the system is broken: neither a missing file nor a missing extra does."""
    assert "No such file" in error_of([str(task.with_name("missing.toml"))], capsys)
    monkeypatch.setattr("hubbub.cli.app.missing", lambda _command: "hubbub[services] is missing")
    assert error_of([str(task)], capsys) == "hubbub[services] is missing"


def test_a_question_over_time_is_refused(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task.write_text(TASK.replace("minimum_reports", "rounds = 2\nminimum_reports") + OVER_TIME)
    assert "task kiosks asks a question over 2 connected rounds" in error_of([str(task)], capsys)


def test_an_audit_is_printed_kept_and_drawn(task: Path, tmp_path: Path) -> None:
    """150 rounds at confidence 0.9999995: a right system is accused with probability 5e-7 at most.

    A usual run has fewer rounds, in which it may be accused by chance.
    """
    rounds, confidence = usually(26, 150), 0.9999995 if EXHAUSTIVE else 0.9
    words = ("--rounds", str(rounds), "--under-minimum", "0", "--confidence", str(confidence))
    ran = hubbub_here("audit", task, *words, "--out", tmp_path / "kept", "--plot", tmp_path / "audit.svg", "--json")
    document = ran.json
    accused = document["epsilon_attained"] > document["epsilon_certified"]
    assert (ran.status, document["consistent"]) == (int(accused), not accused), ran.err
    assert not (EXHAUSTIVE and accused)
    assert document["epsilon_certified"] < document["epsilon_visible"]
    assert (document["rounds"], document["confidence"], document["participants"]) == (rounds, confidence, 20)
    assert document["attacks"][0]["opened"] == rounds
    assert (document["noise"], document["second_deliveries"]) == ([], -(-rounds // 8))
    assert document["second_deliveries_that_differ"] == 0
    assert hubbub_here("verify", tmp_path / "kept" / "certificate.json", "--json").json["verified"]
    assert (tmp_path / "kept" / "logs" / "full" / "analyzer.log").is_file()
    drawn = (tmp_path / "audit.svg").read_text()
    assert f"certificate: ε ≤ {document['epsilon_certified']:.4g}" in drawn
    assert "attacker: " in drawn
