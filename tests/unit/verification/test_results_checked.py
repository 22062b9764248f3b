"""What `hubbub results` shows: nothing that does not follow from what was certified, whatever the analyzer sends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from unit.verification.test_results import documents, results_of

from hubbub.protos.records.results import RoundId, RoundResults
from hubbub.protos.refusals import Reason, Refusal
from hubbub.queries.randomizers.hashed_cells import packed
from hubbub.results.checked import check_counts
from hubbub.verification.history import read_histories
from hubbub.verification.pins import Pins
from vectors.make_kinds import KINDS, reports_of, task_of


def refused(wanted: RoundResults, *behind: RoundResults) -> str:
    with pytest.raises(Refusal) as caught:
        check_counts([wanted], behind)
    assert caught.value.reason is Reason.RESULTS_DIFFER
    return caught.value.message


@pytest.mark.parametrize("name", KINDS)
def test_what_was_certified_is_shown_and_forged_estimates_beside_right_counts_are_not(name: str) -> None:
    *before, last = results_of(name)
    behind = [each for each in before if each.id.round in last.queries[0].rounds]
    check_counts([last], behind)
    (query,) = last.queries
    assert query.estimates is not None
    rows = list(query.estimates.rows)
    place = next(number for number, row in enumerate(rows) if row.estimate is not None)
    assert rows[place].estimate is not None
    rows[place] = replace(rows[place], estimate=replace(rows[place].estimate, value=77.5))
    forged = replace(query, estimates=replace(query.estimates, rows=tuple(rows)))
    assert "does not follow from the counts" in refused(replace(last, queries=(forged,)), *behind)


def test_a_forged_table_is_not_decoded_whatever_counts_are_beside_it() -> None:
    (results,) = results_of("text")
    (query,) = results.queries
    assert query.estimates is not None
    task, reports = task_of("text"), reports_of("text")[0]
    other = task.queries[0].randomizer.tally(reports[:-40] + reports[:40])
    forged = replace(query, counts=query.estimates.table, estimates=replace(query.estimates, table=packed(other)))
    assert "counts and a table" in refused(replace(results, queries=(forged,)))
    alone = replace(forged, counts=b"")
    assert "they have another digest" in refused(replace(results, queries=(alone,)))


def test_results_of_another_task_or_round_are_refused() -> None:
    (results,) = results_of("top")
    for other in (RoundId(bytes(32), "top", 0), RoundId(results.id.task_id, "top", 1)):
        assert "to another task or round" in refused(replace(results, id=other))


def test_estimates_over_time_without_the_rounds_behind_them_are_refused() -> None:
    *before, last = results_of("longitudinal-tree")
    assert "give them too" in refused(last, *before[1:])


def test_results_beside_another_certificate_are_said_to_be_of_none_that_is_named(tmp_path: Path) -> None:
    import json

    (top,), tree = results_of("top"), results_of("longitudinal-tree")
    paths = {name: tmp_path / name for name in ("top.json", "top-results.json", "tree.json", "tree-results.json")}
    paths["top.json"].write_bytes(top.certificate)
    paths["tree.json"].write_bytes(tree[1].certificate)
    paths["top-results.json"].write_text(json.dumps(documents([top])[0]))
    paths["tree-results.json"].write_text(json.dumps(documents(tree[:1])[0]))
    for certificate, results in (("top", "tree"), ("tree", "top"), ("tree", "tree")):
        named = [paths[f"{certificate}.json"], paths[f"{results}-results.json"]]
        problems = [str(each) for each in read_histories(named, Pins()).problems]
        assert any("is none of those given" in problem for problem in problems), (certificate, results)
    fine = read_histories([paths["top.json"], paths["top-results.json"], paths["tree.json"]], Pins())
    assert not any("none of those given" in str(each) for each in fine.problems)
    whole = read_histories([tmp_path], Pins())
    assert not any("none of those given" in str(each) for each in whole.problems)
