"""Certificates that attest releases, one by one and together; whatever does not fit is named."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hubbub.accountant.certificate.terms import QueryCount, RoundCounts
from hubbub.cli.tables.history import document_of, history_ladder, in_words, table_of
from hubbub.protos.identity.formats import SERIES
from hubbub.protos.records.release_chain import Release
from hubbub.protos.task.admission import OPEN
from hubbub.verification.certificate import NotACertificate, Pins, VerificationError, verify
from hubbub.verification.history import Histories, read_histories
from support.certificates import batch_records, content_of, counts, encode, releases_of
from support.samples import QUERIES, Parties, sample_task

PARTIES = Parties.generate()
TASK = sample_task(PARTIES, minimum_reports=100, queries=QUERIES[:1], admission=OPEN)
# Not in the order of their numbers: round 2 was released before round 1.
ROUNDS = [counts(TASK, 0, 120), counts(TASK, 2, 130, left_out=4), counts(TASK, 1, 140)]
CONTENTS: list[dict[str, Any]]
PINS = Pins(PARTIES.operator.public, PARTIES.shuffler.public, PARTIES.analyzer.public)
NAMES = ("round-0.json", "round-2.json", "round-1.json")


@pytest.fixture(scope="module", autouse=True)
def _certified() -> None:
    """Make the certificates when the first test runs, not when tests are collected."""
    global CONTENTS
    CONTENTS = [content_of(TASK, PARTIES, ROUNDS[: end + 1]) for end in range(3)]


def at_minimum(number: int, released: int | None) -> RoundCounts:
    queries = (QueryCount(each.name, each.mechanism, 100, 100, {}, released) for each in TASK.queries)
    return RoundCounts(number, tuple(queries))


def uncounted(released: int | None = 130) -> dict[str, Any]:
    """The last certificate, where round 2 was released with 130 reports and never counted."""
    content = content_of(TASK, PARTIES, [ROUNDS[0], at_minimum(2, released), ROUNDS[2]])
    return {**content, **{name: CONTENTS[2][name] for name in ("batches", "releases")}, "uncounted": [2]}


# One by one


def test_a_certificate_that_lists_all_releases_holds() -> None:
    verified = verify(encode(CONTENTS[2], PARTIES), PINS)
    assert [release.round for release in verified.releases] == [0, 2]
    assert verified.release == releases_of(TASK, PARTIES, ROUNDS)[2]


def _without(place: int) -> dict[str, Any]:
    """What an analyzer signs that leaves a released round out, everywhere."""
    rest = [*ROUNDS[:place], *ROUNDS[place + 1 :]]
    content = content_of(TASK, PARTIES, rest)
    releases = [each for number, each in enumerate(CONTENTS[2]["releases"]) if number != place]
    return {**content, "batches": CONTENTS[2]["batches"], "releases": releases}


def _changed(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    content = copy.deepcopy(CONTENTS[2])
    change(content)
    return content


LIES: dict[str, tuple[Callable[[], dict[str, Any]], str]] = {
    "the first round left out": (lambda: _without(0), "2 rounds were released before it, but 1 are listed"),
    "the second round left out": (lambda: _without(1), "2 rounds were released before it, but 1 are listed"),
    "a round left out of what is composed": (
        lambda: {**_without(0), "releases": CONTENTS[2]["releases"]},
        r"it composes rounds \[2\], but the shuffler released \[0, 2\] before it",
    ),
    "the order of another chain": (
        lambda: _changed(lambda content: content["releases"].reverse()),
        "are not those that the shuffler's batch records attest",
    ),
    "another number of reports": (
        lambda: _changed(lambda content: content["releases"][0].update(reports=121)),
        "are not those that the shuffler's batch records attest",
    ),
    "more reports composed than released": (
        lambda: {**content_of(TASK, PARTIES, [counts(TASK, 0, 10**6), *ROUNDS[1:]]), **_attested()},
        "carrier of round 0: 120 reports were released, but 1000000 are stated",
    ),
    "no list": (
        lambda: {name: value for name, value in CONTENTS[2].items() if name != "releases"},
        "it does not have the members of hubbub-certificate/1",
    ),
    "a round called uncounted": (lambda: {**CONTENTS[2], "uncounted": [2]}, "never counted, so it must be charged at"),
    "a round that nobody released called uncounted": (lambda: {**CONTENTS[2], "uncounted": [1]}, "uncounted must list"),
    "truth for a number": (lambda: {**CONTENTS[0], "uncounted": [True]}, "uncounted must list"),
    "uncounted and not said so": (lambda: {**uncounted(), "uncounted": []}, "130 reports were released, but 100"),
}


def _attested() -> dict[str, Any]:
    return {name: CONTENTS[2][name] for name in ("batches", "releases")}


@pytest.mark.parametrize("lie", LIES)
def test_a_certificate_that_leaves_out_moves_or_changes_a_release_is_refused(lie: str) -> None:
    make, named = LIES[lie]
    with pytest.raises(VerificationError, match=named):
        verify(encode(make(), PARTIES), PINS)


def test_a_round_that_was_never_counted_stands_at_the_minimum() -> None:
    verified = verify(encode(uncounted(), PARTIES), PINS)
    assert verified.content["all_rounds"]["history"][1]["queries"][0]["valid"] == 100
    assert verified.content["all_rounds"]["epsilon_upper"] >= CONTENTS[2]["all_rounds"]["epsilon_upper"]


def test_an_uncounted_round_whose_dishonest_are_taken_from_the_minimum_alone_is_refused() -> None:
    """What is left if the minimum is valid must hold where the round was counted after all, and nobody says so."""
    task = replace(TASK, privacy=replace(TASK.privacy, honest_share=0.8))
    true, last = counts(task, 2, 400), counts(task, 1, 140)
    releases = releases_of(task, PARTIES, [true])
    lie = {
        **content_of(task, PARTIES, [at_minimum(2, None), last]),
        "batches": [record.as_json() for record in batch_records(task, PARTIES, last, before=releases)],
        "releases": [release.content() for release in releases],
        "uncounted": [2],
    }
    with pytest.raises(VerificationError, match="all_rounds, epsilon_upper_if_minimum_valid"):
        verify(encode(lie, PARTIES), PINS)


# Together


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "kept"
    folder.mkdir()
    for name, content in zip(NAMES, CONTENTS, strict=True):
        (folder / name).write_bytes(encode(content, PARTIES))
    (folder / "notes.txt").write_text("no certificate")
    return folder


def read(*paths: Path) -> Histories:
    return read_histories(paths, PINS)


def problems(*paths: Path) -> list[str]:
    return [str(problem) for problem in read(*paths).problems]


def test_all_certificates_of_a_task_are_one_history(folder: Path) -> None:
    (folder / "task.json").write_text('{"signatures": {}, "task": {}}')
    found = read(folder)
    assert found.problems == ()
    assert [path.name for path in found.skipped] == ["task.json"]
    (history,) = found.histories
    assert [each.path.name for each in history.certificates] == list(NAMES)
    assert "one history of 3 rounds, all that were released" in in_words(history)
    assert table_of(history).row_count == 3
    document = document_of(found)
    assert (document["verified"], document["signers_pinned"]) == (True, True)
    assert [each["round"] for each in document["histories"][0]["rounds"]] == [0, 2, 1]
    # Files that are named, in any order, and the same one twice: the same history.
    assert problems(*(folder / name for name in reversed(NAMES)), folder) == []


def test_what_certificates_state_alike_of_a_round_is_kept_once(folder: Path) -> None:
    (history,) = read(folder).histories
    first, second, third = (each.verified for each in history.certificates)
    for earlier, later in ((first, second), (second, third)):
        stated, again = (each.content["all_rounds"]["history"] for each in (earlier, later))
        assert all(one is other for one, other in zip(stated, again, strict=False))
    assert second.releases[0] is third.releases[0]
    assert second.content["releases"][0] is third.content["releases"][0]
    assert third.content == verify(history.certificates[2].document, PINS).content


def test_a_history_of_a_chain_says_which_shufflers_must_be_honest(folder: Path, tmp_path: Path) -> None:
    (history,) = read(folder).histories
    assert table_of(history).columns[4].header == "all rounds, device alone"
    parties = Parties.generate(2)
    privacy = dataclasses.replace(TASK.privacy, dummies=10)
    task = sample_task(parties, minimum_reports=100, queries=QUERIES[:1], admission=OPEN, privacy=privacy)
    path = tmp_path / "chained.json"
    path.write_bytes(encode(content_of(task, parties, ROUNDS[:1]), parties))
    found = read_histories([path], Pins())
    (chained,) = found.histories
    _, counted, minimum, alone, local = history_ladder(chained)
    # The first shuffler made the dummies, so it knows which they are: no hop is enough.
    assert counted.startswith("    ε ≤ ")
    assert " if the first shuffler, the analyzer and everyone who answers are honest; " in counted
    assert (
        " if the first shuffler is honest; everybody else may lie and work together, "
        "the analyzer too: the first shuffler's dummies hide " in alone
    )
    assert local.endswith("; everybody else may work together, all 3 shufflers and the analyzer too")
    rows = document_of(found)["histories"][0]["ladder"]
    shown = [counted, minimum, alone, local]
    told = [f"    ε ≤ {row['epsilon']:.6g} {row['words']}" for row in rows]
    assert all(line.startswith(words) for line, words in zip(shown, told, strict=True))
    # An attack beside dummies is known, and nothing is said of one that reads the reports.
    *beside, plain = (line[len(words) :] for line, words in zip(shown, told, strict=True))
    assert all(re.fullmatch(r" \(an attack reaches [0-9.]+\)", each) for each in beside)
    assert plain == ""


def test_a_copy_of_a_certificate_is_no_second_one(folder: Path) -> None:
    (folder / "copy.json").write_bytes((folder / NAMES[1]).read_bytes())
    assert problems(folder) == []


def test_a_round_without_a_certificate_is_a_gap_unless_it_was_never_counted(folder: Path) -> None:
    (folder / NAMES[1]).unlink()
    last = folder / NAMES[2]
    assert problems(folder) == [f"round 2: its certificate is missing: {last} includes this round"]
    last.write_bytes(encode(uncounted(), PARTIES))
    found = read(folder)
    assert found.problems == ()
    assert table_of(found.histories[0]).row_count == 3
    assert document_of(found)["histories"][0]["uncounted"] == [2]


def test_a_history_says_what_is_left_without_the_analyzers_word(folder: Path) -> None:
    (folder / NAMES[1]).unlink()
    (folder / NAMES[2]).write_bytes(encode(uncounted(), PARTIES))
    found = read(folder)
    stated = found.histories[0].last.verified.content["all_rounds"]
    opening, *rungs = history_ladder(found.histories[0])
    assert opening == "  privacy of each person whose device is honest, over all 3 rounds so far, at δ = 0.01:"
    alone, minimum = stated["epsilon_upper_alone"], stated["epsilon_upper_if_minimum_valid"]
    may_lie = f"    ε ≤ {minimum:.6g} if the shuffler and everyone who answers are honest, and at least"
    assert any(rung.startswith(may_lie) for rung in rungs)
    assert stated["epsilon_local"] == alone
    assert rungs[-1].startswith(f"    ε ≤ {alone:.6g} if only the person's own device is honest; ")
    for each in document_of(found)["histories"][0]["rounds"]:
        assert each["epsilon_upper"] <= each["epsilon_upper_if_minimum_valid"] <= each["epsilon_upper_alone"]
        assert each["all_rounds_epsilon_upper_alone"] <= alone
        assert each["all_rounds_epsilon_upper_if_minimum_valid"] <= minimum


def test_a_round_that_has_a_certificate_was_counted(folder: Path) -> None:
    (folder / NAMES[2]).write_bytes(encode(uncounted(), PARTIES))
    assert any("the round was never counted, but a certificate exists" in each for each in problems(folder))


def test_two_certificates_of_one_round_that_differ_are_named(folder: Path) -> None:
    other = content_of(TASK, PARTIES, [ROUNDS[0], counts(TASK, 2, 130, left_out=9)])
    (folder / "other.json").write_bytes(encode(other, PARTIES))
    found = problems(folder)
    assert any(
        each.startswith(f"{folder / NAMES[1]}, round 2: ") and "a different certificate" in each for each in found
    )
    assert any("its counts differ from those in" in each for each in found)


def test_a_chain_that_forked_is_named_with_file_and_round(folder: Path) -> None:
    # Round 2 was released once more, from an old copy of the shuffler's store: other envelopes, another number.
    fork = content_of(TASK, PARTIES, [ROUNDS[0], counts(TASK, 2, 125)])
    (folder / NAMES[1]).write_bytes(encode(fork, PARTIES))
    found = problems(folder)
    place = f"{folder / NAMES[1]}, round 2: it is not of one history with {folder / NAMES[2]}: at position 1"
    assert any(each.startswith(place) and "the same round with other batches" in each for each in found)


def test_a_file_that_does_not_hold_is_named_and_the_others_are_read(folder: Path) -> None:
    whole = (folder / NAMES[0]).read_bytes()
    (folder / NAMES[0]).write_bytes(whole[:-2] + b"0}")
    (folder / "empty.json").touch()
    found = read(folder)
    assert {problem.file for problem in found.alone} == {folder / NAMES[0], folder / "empty.json"}
    assert [each.round for each in found.histories[0].certificates] == [2, 1]
    assert not document_of(found)["verified"]
    assert [str(each) for each in read(folder / "missing.json", folder / NAMES[1]).alone] == [
        f"{folder / 'missing.json'}: it cannot be read: No such file or directory; put it there, or name another file"
    ]
    (folder / "one.json").mkdir()
    (problem,) = (each for each in read(folder).alone if each.file == folder / "one.json")
    assert problem.text == "it cannot be read: Is a directory; name a file, not a folder"


@pytest.mark.parametrize("others", [{}, {"other.json": "[]"}], ids=["no file", "another file"])
def test_a_folder_without_a_certificate_is_named_although_others_are_valid(
    tmp_path: Path, others: dict[str, str]
) -> None:
    certificate, folder = tmp_path / "certificate.json", tmp_path / "saved"
    certificate.write_bytes(encode(CONTENTS[0], PARTIES))
    folder.mkdir()
    for name, text in others.items():
        (folder / name).write_text(text)
    found = read_histories([certificate, folder], PINS)
    (problem,) = found.problems
    assert str(problem).startswith(f"{folder}: the folder has no certificate and no results")
    assert read_histories([certificate], PINS).problems == ()


def test_results_of_no_round_are_refused(tmp_path: Path) -> None:
    saved = tmp_path / "results.json"
    saved.write_text(json.dumps({"format": SERIES.format, "task": {"id": "00", "name": "x"}, "rounds": []}))
    (problem,) = read_histories([saved], PINS).problems
    assert "it has results of no round, so there is nothing to verify" in str(problem)


@pytest.mark.parametrize("content", ["[]", '[{"mechanism": "krr"}]', "7", '"text"', "null", "{}"])
def test_json_of_another_kind_beside_certificates_is_skipped(folder: Path, content: str) -> None:
    (folder / "rounds.json").write_text(content)
    found = read(folder)
    assert found.skipped == (folder / "rounds.json",)
    assert not found.problems


def test_a_pipe_beside_certificates_is_named_and_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.json")
    (problem,) = read(folder).alone
    assert (
        str(problem)
        == f"{folder / 'pipe.json'}: it is a pipe, not a file; give its own path to read it all the same, or remove it"
    )


def test_a_total_below_what_an_earlier_round_is_proven_to_cost_is_named(folder: Path) -> None:
    found = read(folder).histories[0]
    assert found.certificates[0].verified.content["round_total"]["epsilon_lower"] > 0
    # No certificate that verifies says so: it is put into one that was verified before.
    found.last.verified.content["all_rounds"]["epsilon_upper"] = 1e-6
    from hubbub.verification.history import _totals

    (problem,) = _totals(found.certificates)
    assert "for round" in problem.text
    assert problem.file == found.last.path


def test_nothing_to_check_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotACertificate, match="no certificate in"):
        read(tmp_path)


def test_tasks_are_histories_of_their_own(folder: Path) -> None:
    (folder / "other.json").write_bytes(encode(content_of(replace(TASK, name="other"), PARTIES, ROUNDS[:1]), PARTIES))
    assert [len(each.certificates) for each in read(folder).histories] == [1, 3]


def test_the_release_of_a_certificate_is_the_next_ones_last(folder: Path) -> None:
    first, second, _ = read(folder).histories[0].certificates
    assert isinstance(first.verified.release, Release)
    assert second.verified.releases == (first.verified.release,)
