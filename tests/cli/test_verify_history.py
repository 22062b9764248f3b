"""`hubbub verify` with a folder or several files: what people and programs are told, and the exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.accountant.certificate.terms import QueryCount, RoundCounts
from hubbub.protos.identity.keys import save_public
from hubbub.protos.task.admission import OPEN
from support.certificates import content_of, counts, encode
from support.cli import hubbub_here
from support.samples import QUERIES, Parties, sample_task

PARTIES = Parties.generate()
TASK = sample_task(PARTIES, minimum_reports=100, queries=QUERIES[:1], admission=OPEN)
ROUNDS = [counts(TASK, number, 120 + number) for number in range(3)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kept = tmp_path / "kept"
    kept.mkdir()
    for end in range(3):
        (kept / f"{end}.json").write_bytes(encode(content_of(TASK, PARTIES, ROUNDS[: end + 1]), PARTIES))
    return kept


def test_a_whole_history_holds(folder: Path, tmp_path: Path) -> None:
    pins = []
    for role, identity in (
        ("operator", PARTIES.operator),
        ("shuffler", PARTIES.shuffler),
        ("analyzer", PARTIES.analyzer),
    ):
        save_public(tmp_path / f"{role}.pem", identity.public)
        pins += [f"--{role}-key", tmp_path / f"{role}.pem"]
    ran = hubbub_here("verify", folder, *pins)
    assert (ran.status, ran.err) == (0, "")
    assert "one history of 3 rounds, all that were released, by the shuffler's records\n" in ran.out
    assert "privacy of each person whose device is honest, over all 3 rounds so far, at δ = " in ran.out
    assert "nobody checked who submitted, so that is assumed" in ran.out
    assert " if only the person's own device is honest; everybody else may work together, " in ran.out
    assert "not pinned" not in ran.out
    ran = hubbub_here("verify", *sorted(folder.iterdir()), "--json")
    assert ran.status == 0
    assert (ran.json["verified"], ran.json["signers_pinned"], ran.json["problems"]) == (True, False, [])
    assert [each["round"] for each in ran.json["histories"][0]["rounds"]] == [0, 1, 2]
    assert set(ran.json["histories"][0]["rounds"][0]) >= {"file", "reports", "epsilon_upper", "epsilon_upper_alone"}


def test_a_gap_and_a_changed_file_are_named_with_file_and_round_and_the_status_is_1(folder: Path) -> None:
    (folder / "1.json").unlink()
    ran = hubbub_here("verify", folder)
    gap = f"round 1: its certificate is missing: {folder / '2.json'} includes this round"
    assert (ran.status, ran.err) == (1, f"error: not verified: {gap}\n")
    assert ran.out.startswith("what follows is valid by itself only:\n")
    assert "these certificates are not one history" in ran.out
    (folder / "0.json").write_bytes((folder / "0.json").read_bytes().replace(b'"round":0', b'"round":1', 1))
    ran = hubbub_here("verify", folder, "--json")
    assert ran.status == 1
    assert not ran.json["verified"]
    assert {(each["file"], each["round"]) for each in ran.json["problems"]} == {
        (str(folder / "0.json"), None),
        (None, 0),
        (None, 1),
    }
    assert ran.err.startswith("error: not verified: 3 problems were found\n  ")


def test_one_certificate_says_that_every_released_round_is_counted(folder: Path) -> None:
    ran = hubbub_here("verify", folder / "2.json")
    assert ran.status == 0
    assert "privacy of each person whose device is honest, over all 3 rounds so far, at δ = " in ran.out
    assert "no released round is missing, by the shuffler's signed records\n" in ran.out
    document = hubbub_here("verify", folder / "2.json", "--json").json
    assert [each["round"] for each in document["releases"]] == [0, 1]
    assert document["uncounted"] == []


def test_one_certificate_says_how_many_released_rounds_were_never_counted(tmp_path: Path) -> None:
    minimum = (QueryCount(each.name, each.mechanism, 100, 100, {}, 121) for each in TASK.queries)
    content = content_of(TASK, PARTIES, [ROUNDS[0], RoundCounts(1, tuple(minimum)), ROUNDS[2]])
    whole = content_of(TASK, PARTIES, ROUNDS)
    content |= {"batches": whole["batches"], "releases": whole["releases"], "uncounted": [1]}
    (tmp_path / "2.json").write_bytes(encode(content, PARTIES))
    ran = hubbub_here("verify", tmp_path / "2.json")
    assert ran.status == 0, ran.err
    assert "signed records; 1 round was never counted, as the analyzer claims, and charged at the minimum\n" in ran.out


def test_a_proof_is_of_one_certificate(folder: Path, tmp_path: Path) -> None:
    ran = hubbub_here("verify", folder, "--rigorous")
    assert (ran.status, ran.err) == (
        2,
        "error: --rigorous proves one certificate at a time; name one file, of one round\n",
    )
    ran = hubbub_here("verify", tmp_path, "--json")
    assert ran.status == 1
    assert "no certificate in" in ran.json["error"]
