"""Saved results open as typed rows, verified; what is changed, missing or mixed is refused."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from unit.verification.test_results import KINDS, results_of

import hubbub.results
from hubbub.protos.errors import HubbubError, UsageError
from hubbub.protos.identity.keys import Identity
from hubbub.protos.records.counts import DIGEST, Counted, counts_digest
from hubbub.protos.records.results import QueryState, RoundResults
from hubbub.protos.records.results_document import COLUMNS, results_document, series_document, table_rows
from hubbub.queries.longitudinal.over_rounds import Batch
from hubbub.results import NotVerified, PublishedRow, open_saved
from hubbub.results.published_row import rows_of
from support.certificates import content_of, counts, encode
from support.messages import NOT_OF_GIVEN_KEY, RESULTS_DO_NOT_AGREE
from support.samples import signed
from support.source_tree import ROOT
from vectors.make_kinds import DEVICES, reports_of, task_of
from vectors.make_signed import PARTIES

COMMUTE = ROOT / "docs" / "examples" / "commute"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(COMMUTE / "results.json", tmp_path)
    return tmp_path


def changed(folder: Path, change: Any) -> Path:
    path = folder / "results.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


def test_rows_are_those_of_the_exported_table_with_times_in_utc() -> None:
    table = open_saved(COMMUTE, keys=COMMUTE).read()
    begins = datetime(2026, 1, 1, tzinfo=UTC)
    assert {(row.round_begins, row.round_ends) for row in table} == {(begins, begins + timedelta(days=1))}
    car = table.one(query="transport", category="car")
    assert (car.estimate, car.standard_error, car.lower, car.upper) == (1097.07467, 18.21892, 1062.0, 1133.0)
    assert table.one(query="duration", statistic="mean").unit == "minutes"
    with pytest.raises(FrozenInstanceError):
        car.estimate = 0.0  # type: ignore[misc]


def test_what_was_checked_is_said() -> None:
    pinned = open_saved(COMMUTE, keys=COMMUTE).read().trust
    assert (pinned.verified, pinned.unpinned) == (True, ())
    strange = open_saved(COMMUTE / "results.json").read().trust
    assert strange.verified
    assert strange.unpinned == ("operator", "shuffler", "analyzer")
    assert "NOT PINNED: the keys of operator, shuffler, analyzer" in strange.words
    assert "as keys in Python, as --keys to a command" in strange.words, "both have these words"
    assert open_saved(COMMUTE, verify=False).read().trust.words.startswith("NOT VERIFIED")


def test_other_keys_than_those_that_signed_are_refused(tmp_path: Path) -> None:
    for name in ("operator", "shuffler", "analyzer"):
        shutil.copy(COMMUTE / "operator.pub.pem", tmp_path / f"{name}.pub.pem")
    with pytest.raises(NotVerified, match=f"not of the shuffler {NOT_OF_GIVEN_KEY}"):
        open_saved(COMMUTE, keys=tmp_path).read()


def test_an_estimate_that_does_not_follow_from_the_counts_is_refused(folder: Path) -> None:
    def more(document: dict[str, Any]) -> None:
        document["queries"][0]["counts"][0]["estimate"] += 1

    with pytest.raises(NotVerified, match=r"it is 1098\.07467, but"):
        open_saved(changed(folder, more)).read()


def test_counts_of_another_certificate_are_refused_even_unverified(folder: Path) -> None:
    def other(document: dict[str, Any]) -> None:
        counts = document["queries"][0]["tally"]
        counts["counts"] = "A" + counts["counts"][1:]

    with pytest.raises(NotVerified, match=RESULTS_DO_NOT_AGREE):
        open_saved(changed(folder, other), verify=False)


def test_a_folder_without_results_and_a_file_that_is_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no results in"):
        open_saved(tmp_path)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(UsageError, match="no results in"):
        open_saved(tmp_path)
    with pytest.raises(NotVerified, match="has no results"):
        open_saved(tmp_path / "other.json")
    with pytest.raises(NotVerified, match="cannot read"):
        open_saved(tmp_path / "missing.json")
    with pytest.raises(UsageError, match="has none of the keys"):
        open_saved(COMMUTE, keys=tmp_path)


def saved(path: Path, name: str, together: bool) -> Path:
    """The rounds of a kind of question as files, or as the one that `--all` makes."""
    results = results_of(name)
    path.mkdir()
    if together:
        (path / "all.json").write_text(json.dumps(series_document(results)))
    else:
        for each in results:
            (path / f"{each.id.round}.json").write_text(json.dumps(results_document(each)))
    return path


@pytest.mark.sampled(4)
@pytest.mark.parametrize("together", [True, False], ids=["together", "apart"])
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_question_opens_with_the_rows_that_are_exported(
    tmp_path: Path, name: str, together: bool
) -> None:
    results = results_of(name)
    rows = [row for each in results for row in rows_of(each)]
    opened = open_saved(saved(tmp_path / "saved", name, together))
    assert [each.round for each in opened.rounds()] == [each.id.round for each in results]
    assert list(opened.read()) == rows
    exported = [row for each in results for row in table_rows(each)]
    common = [name for name in COLUMNS if name in PublishedRow.__dataclass_fields__]
    common = [name for name in common if name not in ("group", "unit", "round_begins", "round_ends")]
    for row, other in zip(rows, exported, strict=True):
        assert [getattr(row, name) for name in common] == [other[name] for name in common]


OVER_TIME = next(name for name in KINDS if name.startswith("longitudinal"))


def test_rounds_behind_an_estimate_over_time_must_be_opened_too(tmp_path: Path) -> None:
    path = saved(tmp_path / "saved", OVER_TIME, together=False)
    (path / "0.json").unlink()
    with pytest.raises(NotVerified, match="also follow from rounds 0"):
        open_saved(path)


def earlier(devices: int = DEVICES, shuffler: Identity = PARTIES.shuffler) -> RoundResults:
    """The first round as its analyzer signs it if that many devices counted, and this key signed what was released."""
    first, task = results_of(OVER_TIME)[0], task_of(OVER_TIME)
    (result,), (query,), reports = first.queries, task.queries, reports_of(OVER_TIME)[0]
    tally = query.randomizer.tally(reports[: len(reports) // DEVICES * devices])
    content = content_of(task, replace(PARTIES, shuffler=shuffler), [counts(task, 0, devices)])
    content["task"] = signed(task, PARTIES).as_json()
    content[DIGEST] = counts_digest(task, 0, [Counted(devices, devices, {}, tally)]).hex()
    estimates = query.estimates_over(0, {0: Batch(tally, task.privacy.dummies)})
    other = replace(result, reports=devices, valid=devices, estimates=estimates, counts=tally.counts.tobytes())
    return replace(first, queries=(other,), certificate=encode(content, PARTIES))


FALSE = {
    "not released": (earlier(shuffler=PARTIES.operator), r"round 0 of task .*signature"),
    "counted in otherwise": (earlier(DEVICES - 10), "120 valid reports of round 0 were composed with it, .* have 110"),
}
"""Earlier rounds that their analyzer signed, and that a later one must not follow from."""


@pytest.mark.parametrize("which", FALSE)
def test_a_later_round_is_verified_only_if_those_behind_it_are(tmp_path: Path, which: str) -> None:
    path, last = saved(tmp_path / "saved", OVER_TIME, together=False), results_of(OVER_TIME)[-1].id.round
    false, says = FALSE[which]
    (path / "0.json").write_text(json.dumps(results_document(false)))
    with pytest.raises(NotVerified, match=says):
        open_saved(path).read(rounds=[last])


def test_some_rounds_are_read_and_one_that_is_missing_is_named(tmp_path: Path) -> None:
    opened = open_saved(saved(tmp_path / "saved", OVER_TIME, together=True))
    last = results_of(OVER_TIME)[-1].id.round
    assert opened.read(rounds=[last]).rounds == (last,)
    with pytest.raises(UsageError, match=r"rounds 99 of task .* are not there; these are: 0, 1"):
        opened.read(rounds=[0, 99])


def test_several_tasks_must_be_told_apart(tmp_path: Path) -> None:
    path = saved(tmp_path / "saved", OVER_TIME, together=True)
    opened = open_saved(path, COMMUTE / "results.json")
    with pytest.raises(UsageError, match="there are several tasks; name one"):
        opened.read()
    commute = next(each for each in opened.tasks() if each.name == "commute")
    assert list(opened.read("commute")) == list(opened.read(commute.task_id.hex()))
    assert list(opened.read(commute)) == list(opened.read("commute"))
    for call in (opened.read, opened.rounds):
        with pytest.raises(UsageError, match=r"no task 'other'; there are: commute, "):
            call("other")
        with pytest.raises(UsageError, match=r"not by 3; rounds are given as rounds="):
            call(3)  # type: ignore[arg-type]


def test_a_round_twice_is_one_and_with_other_content_it_is_refused(tmp_path: Path, folder: Path) -> None:
    again = tmp_path / "again.json"
    shutil.copy(COMMUTE / "results.json", again)
    assert len(open_saved(COMMUTE / "results.json", again).rounds()) == 1

    def noted(document: dict[str, Any]) -> None:
        document["queries"][0]["counts"][0]["estimate"] += 1

    with pytest.raises(NotVerified, match="have different results of round 0"):
        open_saved(COMMUTE, changed(folder, noted))


def test_a_withheld_query_is_a_row_with_its_reason() -> None:
    results = results_of(OVER_TIME)[0]
    query = replace(results.queries[0], state=QueryState.WITHHELD, estimates=None, valid=3, reports=9, counts=b"")
    (row,) = rows_of(replace(results, queries=(query,), sums=()))
    assert row.withheld
    assert (row.estimate, row.statistic) == (None, None)
    assert row.reason.startswith("3 of 9 reports are valid, fewer than the task's minimum_reports = ")


def test_the_packages_public_names_are_there() -> None:
    assert all(hasattr(hubbub.results, name) for name in hubbub.results.__all__)


def test_a_saved_task_is_shown_with_its_signatures_checked(folder: Path) -> None:
    assert open_saved(folder, keys=COMMUTE).task("commute").task.name == "commute"
    with pytest.raises(UsageError, match="there is no task 'other'"):
        open_saved(folder).task("other")
    for name in ("operator", "shuffler", "analyzer"):
        shutil.copy(COMMUTE / "shuffler.pub.pem", folder / f"{name}.pub.pem")
    with pytest.raises(HubbubError, match="names another operator"):
        open_saved(folder, keys=folder).task("commute")
    assert open_saved(folder, keys=folder, verify=False).task("commute").task.name == "commute"


FOREIGN = ("NaN", '{"loss": [0.5, NaN, -Infinity]}', '{"a": 1, "a": 2}', '{"number": 1e999}', "[" * 200)
"""What other programs write beside results."""


@pytest.mark.parametrize("content", FOREIGN)
def test_a_file_of_another_program_in_a_folder_is_left_out(folder: Path, content: str) -> None:
    (folder / "losses.json").write_text(content)
    assert len(open_saved(folder).read()) == len(open_saved(COMMUTE).read())
    with pytest.raises(NotVerified, match="losses"):
        open_saved(folder / "losses.json")


@pytest.mark.parametrize("name", ['"hubbub-results/', '"hubbub-series/', '"\\u0068ubbub'])
def test_what_may_be_results_is_never_left_out(folder: Path, name: str) -> None:
    (folder / "more.json").write_text('{"a": NaN, "b": "' + "x" * 300 + f'", "format": {name}1"}}')
    with pytest.raises(NotVerified, match="NaN is not a number"):
        open_saved(folder)


def test_folders_and_pipes_in_a_folder_are_left_out(folder: Path) -> None:
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    assert len(open_saved(folder).read()) == len(open_saved(COMMUTE).read())
    (folder / "gone.json").symlink_to("nowhere")
    with pytest.raises(NotVerified, match=r"gone\.json: No such file"):
        open_saved(folder)
