"""`hubbub verify` with a round's results beside its certificate, and with a task's id."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unit.verification.test_results import results_of

from hubbub.protos.records.counts import DIGEST, Counted, counts_digest
from hubbub.protos.records.results_document import results_document, series_document
from support.certificates import content_of, counts, encode
from support.cli import hubbub_here
from support.messages import NOT_OF_GIVEN_KEY, RESULTS_DO_NOT_AGREE
from support.samples import Parties
from support.source_tree import ROOT
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
    assert "the counts are those of the certificate in it; estimates follow from them: site" in ran.out
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
    assert ran.err.startswith("error: not verified: ")
    assert problem in ran.err
    assert ran.err.endswith("The certificate by itself is valid\n")
    assert ran.out.startswith("the certificate is valid: task ")
    assert "the counts are" not in ran.out, "nothing good is said of these results"


Odd = Callable[[str], str | bytes]

ODD: dict[str, tuple[Odd, str]] = {
    "a false estimate before the true one": (
        lambda text: text.replace('"estimate": ', '"estimate": 987.98,\n"estimate": ', 1),
        "the key 'estimate' occurs twice; keep the right one of both members (queries[0].counts[0])",
    ),
    "a false number of people before the true one": (
        lambda text: text.replace('"valid": ', '"valid": 99999, "valid": ', 1),
        "the key 'valid' occurs twice; keep the right one of both members (queries[0])",
    ),
    "a key that is written in another way": (
        lambda text: text.replace('"estimate": ', '"\\u0065stimate": 987.98, "estimate": ', 1),
        "the key 'estimate' occurs twice",
    ),
    "false queries before the true ones": (
        lambda text: text.replace('"queries": ', '"queries": [], "queries": ', 1),
        "the key 'queries' occurs twice; keep the right one of both members (at its top)",
    ),
    "a false certificate before the true one": (
        lambda text: text.replace('"certificate": ', '"certificate": {}, "certificate": ', 1),
        "the key 'certificate' occurs twice",
    ),
    "another format after the true one": (
        lambda text: text.replace('"format": "hubbub-results/1"', '"format": "hubbub-results/1", "format": "x"', 1),
        "the key 'format' occurs twice",
    ),
    "a false epsilon in its certificate": (
        lambda text: text.replace('"epsilon_upper": ', '"epsilon_upper": 0.1, "epsilon_upper": ', 1),
        "the key 'epsilon_upper' occurs twice; keep the right one of both members (certificate.body",
    ),
    "NaN": (lambda text: text.replace('"p_value": ', '"p_value": NaN, "x": ', 1), "NaN is not a number"),
    "an infinity": (lambda text: text.replace('"upper": ', '"upper": Infinity, "x": ', 1), "Infinity is not a number"),
    "a number without end": (lambda text: text.replace('"upper": ', '"upper": 1e999, "x": ', 1), "1e999' is too large"),
    "a long number": (lambda text: text.replace('"upper": ', f'"upper": {"9" * 5000}, "x": ', 1), "5000 characters"),
    "a second document": (lambda text: f"{text}\n{text}", "Extra data at line"),
    "a byte order mark": (lambda text: f"\ufeff{text}", "it begins with a byte order mark"),
    "half of a character": (lambda text: text.replace('"name": "', '"name": "\\ud800', 1), "half of a surrogate pair"),
    "bytes that are no text": (lambda text: text.replace('"site', '"\xff', 1).encode("latin-1"), "it is not UTF-8"),
    "values within each other": (
        lambda text: text.replace('"estimate": ', f'"more": {"[" * 9999}{"]" * 9999}, "estimate": ', 1),
        "it has more than 100 values within each other",
    ),
}
"""What readers of JSON take differently, made of right results; and what is said of it."""


@pytest.mark.parametrize("name", ODD)
def test_a_file_that_readers_take_differently_is_refused_with_the_place(saved: Path, tmp_path: Path, name: str) -> None:
    change, problem = ODD[name]
    text = (saved / "results.json").read_text()
    odd = change(text)
    assert odd != text
    path = tmp_path / "odd.json"
    path.write_bytes(odd if isinstance(odd, bytes) else odd.encode())
    for words in ([path], [saved / "certificate.json", path]):
        ran = hubbub_here("verify", *words)
        assert ran.status == 1
        assert ran.err.splitlines()[0].startswith(("error: not verified: ", "error: ")[len(words) == 1] + str(path))
        assert problem in ran.err
        assert "the counts are those" not in ran.out


def keys_of(folder: Path) -> list[str | Path]:
    words: list[str | Path] = []
    for role in ("operator", "shuffler", "analyzer"):
        path = folder / f"{role}.pub.pem"
        getattr(PARTIES, role).save_public(path)
        words += [f"--{role}-key", path]
    return words


def test_the_first_line_is_the_verdict_with_who_signed(saved: Path, tmp_path: Path) -> None:
    keys = keys_of(tmp_path)
    every = hubbub_here("verify", saved / "certificate.json", *keys, "--task", TASK.id.hex())
    assert every.out.splitlines()[0].endswith("; operator, shuffler and analyzer are as pinned")
    assert f"  task id: {TASK.id.hex()}, as given with --task\n" in every.out
    assert every.out.splitlines()[-6::2] == [f"  {role}, as pinned" for role in ("operator", "shuffler", "analyzer")]
    none = hubbub_here("verify", saved / "certificate.json")
    assert none.out.splitlines()[0].endswith("; anybody could have made it, as its signers are not pinned")


def test_a_key_of_another_party_is_named_and_a_strangers_is_to_be_compared(saved: Path, tmp_path: Path) -> None:
    keys = keys_of(tmp_path)
    swapped = [keys[0], keys[3], keys[2], keys[1], *keys[4:]]
    ran = hubbub_here("verify", saved / "certificate.json", *swapped)
    assert (ran.status, ran.out) == (1, "")
    assert f"is not of the operator {NOT_OF_GIVEN_KEY} with --operator-key" in ran.err
    assert "this key is that of its shuffler: give each key with the option of its own party" in ran.err
    stranger = tmp_path / "stranger.pub.pem"
    Parties.generate().operator.save_public(stranger)
    ran = hubbub_here("verify", saved / "certificate.json", "--operator-key", stranger)
    assert ran.status == 1
    assert "from the operator's party itself and compare" in ran.err
    assert "ask the analyzer's party" not in ran.err


def test_results_of_another_certificate_are_one_verdict(saved: Path) -> None:
    """The shipped example is of another task; both files are valid by themselves."""
    other = ROOT / "docs" / "examples" / "commute" / "certificate.json"
    ran = hubbub_here("verify", other, saved / "results.json")
    assert ran.status == 1
    assert ran.err.startswith(
        f"error: not verified: {saved / 'results.json'}: the certificate in these results is none"
    )
    assert f"it is of task {TASK.name} ({TASK.id.hex()[:12]}), round 0, and {other} is of task commute (" in ran.err
    assert ran.out.startswith("what follows is valid by itself only:\n")
    assert "the counts are those of the certificate in it" in ran.out


@pytest.mark.parametrize(
    ("task", "status", "problem"), [("00" * 32, 1, "not of the task given with --task"), ("abc", 2, "64 lower")]
)
def test_another_task_is_refused(saved: Path, task: str, status: int, problem: str) -> None:
    ran = hubbub_here("verify", saved / "certificate.json", "--task", task)
    assert ran.status == status
    assert problem in ran.err


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `hubbub results --all --json` prints of a question over time."""
    path = tmp_path_factory.mktemp("series") / "all.json"
    path.write_text(json.dumps(series_document(results_of("longitudinal-direct"))))
    return path


def test_the_results_of_all_rounds_are_verified_each(series: Path) -> None:
    ran = hubbub_here("verify", series)
    assert ran.status == 0, ran.err
    count = len(results_of("longitudinal-direct"))
    assert count > 1
    assert ran.out.startswith(f"all {count} certificates are valid; ")
    assert ran.out.count("estimates follow from them: ") == count
    found = hubbub_here("verify", series, "--json").json
    assert [each["round"] for each in found["results"]] == list(range(count))
    proving = hubbub_here("verify", series, "--rigorous")
    assert (proving.status, "name one file, of one round" in proving.err) == (2, True)


def test_one_round_of_all_that_does_not_hold_is_named_by_its_place(series: Path, tmp_path: Path) -> None:
    document = json.loads(series.read_text())
    document["rounds"][1]["queries"][0]["count"]["estimate"] += 1
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document))
    ran = hubbub_here("verify", path)
    assert ran.status == 1
    assert f"{path}, rounds[1]: the results {RESULTS_DO_NOT_AGREE}: " in ran.err
    assert ran.out.count("estimates follow from them: ") == len(document["rounds"]) - 1


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda it: it.update(rounds=[]), "it has results of no round, so there is nothing to verify"),
        (lambda it: it.update(rounds={}), "rounds must be a list of files of results"),
        (lambda it: it.update(rounds=[1]), "rounds must be a list of files of results"),
        (lambda it: it.update(more=1), "the member 'more' is one too many"),
        (lambda it: it.pop("task"), "the member 'task' is missing"),
        (lambda it: it["task"].update(name="x"), "rounds[0] is of another task than the file: name "),
        (lambda it: it["rounds"][1].pop("certificate"), "rounds[1]: these results do not have the members"),
        (lambda it: it["rounds"][0].update(round_ends="x"), "rounds[0]: the results do not agree with their certif"),
        (lambda it: it.update(format="hubbub-series/2"), "this version of hubbub reads hubbub-series/1"),
    ],
)
def test_a_file_of_all_rounds_that_is_another_one_is_refused(
    series: Path, tmp_path: Path, change: Change, problem: str
) -> None:
    document = json.loads(series.read_text())
    change(document)
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(document))
    ran = hubbub_here("verify", path)
    assert ran.status == 1
    assert str(path) in ran.err
    assert problem in ran.err


def test_a_round_that_is_missing_among_all_is_a_gap(series: Path, tmp_path: Path) -> None:
    document = json.loads(series.read_text())
    del document["rounds"][0]
    path = tmp_path / "gap.json"
    path.write_text(json.dumps(document))
    ran = hubbub_here("verify", path)
    assert ran.status == 1
    assert "round 0: its certificate is missing" in ran.err
