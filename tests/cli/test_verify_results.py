"""`hubbub verify` with a round's results beside its certificate, and with a task's id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hubbub.protos.records.counts import DIGEST, Counted, counts_digest
from hubbub.protos.records.results_document import results_document
from support.certificates import content_of, counts, encode
from support.cli import hubbub_here
from vectors.make_kinds import DEVICES, published, reports_of, task_of
from vectors.make_signed import PARTIES

TASK = task_of("top")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate, and the results as `hubbub results --json` prints them."""
    folder, rounds = tmp_path_factory.mktemp("saved"), reports_of("top")
    content = content_of(TASK, PARTIES, [counts(TASK, 0, DEVICES)])
    tally = TASK.queries[0].randomizer.tally(rounds[0])
    content[DIGEST] = counts_digest(TASK, 0, [Counted(DEVICES, DEVICES, {}, tally)]).hex()
    certificate = encode(content, PARTIES)
    (folder / "certificate.json").write_bytes(certificate)
    (folder / "results.json").write_text(json.dumps(results_document(published(TASK, rounds, certificate)), indent=2))
    return folder


def changed(saved: Path, tmp_path: Path) -> Path:
    """The results with one estimate that is larger by 40."""
    document: dict[str, Any] = json.loads((saved / "results.json").read_text())
    document["queries"][0]["counts"][0]["estimate"] += 40
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document))
    return path


def test_results_are_made_again_beside_the_certificate_and_whose_word_it_is_is_said(saved: Path) -> None:
    ran = hubbub_here("verify", saved / "certificate.json", saved / "results.json", "--task", TASK.id.hex())
    assert ran.status == 0, ran.err
    assert f"task id: {TASK.id.hex()}" in ran.out
    assert "the counts are the certificate's; estimates follow from them: site" in ran.out
    lines = ran.out.splitlines()
    heading = lines.index("  privacy of each person whose device is honest, in this round, at δ = 0.01:")
    rungs = [line.partition(" if ") for line in lines[heading + 1 : heading + 4]]
    assert [rung[0] for rung in rungs][2] == "    ε ≤ 4.44266"
    assert rungs[1][2].startswith("the shuffler and everyone who answers are honest, and at least ")


def test_results_by_themselves_hold_their_certificate(saved: Path) -> None:
    ran = hubbub_here("verify", saved / "results.json", "--json")
    assert ran.status == 0, ran.err
    assert [each["recomputed"] for each in ran.json["results"]] == [["site"]]
    assert ran.json["task_id"] == TASK.id.hex()
    rows = ran.json["ladder"]
    assert [(row["covers"], row["query"]) for row in rows] == [
        *[("query", "site")] * 3,
        *[("round_total", None)] * 3,
        *[("all_rounds", None)] * 3,
    ]
    assert all(row["epsilon"] == ran.json["round_total"][row["member"]] for row in rows[3:6])


def test_results_with_another_number_fail_beside_a_certificate_that_holds(saved: Path, tmp_path: Path) -> None:
    ran = hubbub_here("verify", saved / "certificate.json", changed(saved, tmp_path))
    assert ran.status == 1
    problem = "the results do not agree with their certificate: site: counts[0].estimate does not follow"
    assert problem in ran.err


@pytest.mark.parametrize(
    ("task", "status", "problem"), [("00" * 32, 1, "not of the task given with --task"), ("abc", 2, "64 lower")]
)
def test_another_task_is_refused(saved: Path, task: str, status: int, problem: str) -> None:
    ran = hubbub_here("verify", saved / "certificate.json", "--task", task)
    assert ran.status == status
    assert problem in ran.err
