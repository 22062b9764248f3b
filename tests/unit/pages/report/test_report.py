"""A report has every number of the rows, says what was not checked, loads nothing, and shows hostile words as text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from unit.results.test_saved import COMMUTE, OVER_TIME, saved

from hubbub.pages.dictionary.entry import Entry
from hubbub.pages.environment import style
from hubbub.pages.report import report as report_module
from hubbub.pages.report.rendering import page_of
from hubbub.pages.report.report import Report
from hubbub.protos.records.results import QueryResult
from hubbub.protos.task.about import About
from hubbub.protos.task.signed_task import SignedTask
from hubbub.results import PublishedRow, ResultsTable, Trust, open_saved
from support.html_page import Page

NOW = datetime(2026, 11, 1, 12, 30, tzinfo=UTC)
HOSTILE = "<script>alert('1')</script> \u202e& \"more\""


@pytest.fixture(scope="module")
def table() -> ResultsTable:
    return open_saved(COMMUTE / "results.json", keys=COMMUTE).read()


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> ResultsTable:
    """Four rounds of a question over time."""
    return open_saved(saved(tmp_path_factory.mktemp("rounds") / "saved", OVER_TIME, True)).read()


def read(table: ResultsTable) -> Page:
    return Page(page_of(Report(table, NOW)))


def numbers_of(rows: Sequence[PublishedRow]) -> list[float]:
    every = (value for row in rows for value in (row.estimate, row.standard_error, row.lower, row.upper))
    return [value for value in every if value is not None]


def test_every_number_is_that_of_a_row_or_of_the_certificate(table: ResultsTable) -> None:
    page, stated = read(table), json.loads((COMMUTE / "certificate.json").read_text())["body"]
    round_total = stated["round_total"]
    rungs = [round_total[name] for name in ("epsilon_upper", "epsilon_upper_if_minimum_valid", "epsilon_local")]
    assert page.numbers == [*numbers_of(table.rows), stated["all_rounds"]["epsilon_upper_at_minimum"], *rungs]
    assert "4 of 5 tested counts are too large to be noise\nalone. The others may be 0" in page.words
    large = read(table.where(category=["car", "bus", "bicycle", "foot"])).words
    assert "4 of 4 tested counts are too large to be noise\nalone." in large
    assert "The others may be 0" not in large, "there are no others"
    assert len(page.of("svg", "chart")) == 1, "the counts; one number alone has no picture"
    for said in ("commute: round 0", "From 2026-01-01 00:00 to 2026-01-02 00:00 UTC", "Written\n2026-11-01 12:30"):
        assert said in page.words


def test_a_series_has_all_rounds_and_all_their_certificates(series: ResultsTable) -> None:
    page = read(series)
    assert sorted(numbers_of(series.rows)) == sorted(page.numbers[: len(numbers_of(series.rows))])
    assert "rounds 0 to 3" in page.words
    assert "All numbers" in page.words
    (dots,) = {each["d"].count("M") for each in page.of("path", "dots")}
    assert dots == len(series.rounds)
    links = [each for each in page.of("a") if "download" in each]
    held = [base64.b64decode(each["href"].partition("base64,")[2]) for each in links]
    assert held == [series.certificate(number) for number in series.rounds]
    assert all(hashlib.sha256(each).hexdigest() in page.words for each in held)
    assert "over all 4 rounds so far" in page.words


def test_certificates_too_large_for_a_page_are_left_out_but_the_newest(
    series: ResultsTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_module, "MOST_EMBEDDED", 3 * len(series.certificate(0)))
    report = Report(series, NOW)
    assert [each.round for each in report.certificates] == [3]
    assert "The certificates of all 4 rounds are too large" in Page(page_of(report)).words


def test_it_loads_nothing_and_its_only_links_are_the_certificates(table: ResultsTable) -> None:
    text = page_of(Report(table, NOW))
    page = Page(text)
    assert all(link.startswith("data:application/json;base64,") for link in page.links)
    assert not re.search(r"https?:|url\(|@import|<script|<img|<link|\son\w+=|\sstyle=", text)
    digest = base64.b64encode(hashlib.sha256(style().encode()).digest()).decode()
    assert page.policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'")


def test_it_says_how_to_verify_the_certificate_that_is_in_it(table: ResultsTable, tmp_path: Path) -> None:
    page = read(table)
    (link,) = page.of("a")
    content = base64.b64decode(link["href"].partition("base64,")[2])
    assert content == (COMMUTE / "certificate.json").read_bytes()
    keys = "--operator-key operator.pub.pem --shuffler-key shuffler.pub.pem --analyzer-key analyzer.pub.pem"
    assert f"hubbub verify {link['download']} {keys}" in page.words


@pytest.mark.parametrize(
    ("trust", "said", "pinned"),
    [
        (Trust(False), "These numbers were not verified. NOT VERIFIED", 0),
        (Trust(True, ("shuffler", "analyzer")), "The keys of\nshuffler, analyzer were not compared with known ones", 1),
        (Trust(True, (), {"theme": "its rounds are gone"}), "Not recomputed: theme (its rounds are gone)", 3),
        (Trust(True), "Verified: signatures, every epsilon", 3),
    ],
)
def test_what_was_not_checked_is_said(table: ResultsTable, trust: Trust, said: str, pinned: int) -> None:
    report = Report(ResultsTable(table._rounds, trust), NOW)
    page = Page(page_of(report))
    assert said in page.words
    assert [each.pinned for each in report.signers].count(True) == pinned
    first = next(iter(page.of("p", "warning")), None)
    assert (first is None) == (trust == Trust(True))


def test_a_withheld_query_has_its_reason_and_no_number(table: ResultsTable) -> None:
    nothing = dict.fromkeys(("statistic", "category", "estimate", "standard_error", "lower", "upper", "significant"))
    gone = replace(table.where(query="duration").rows[0], state="withheld", reason="7 of 9 are valid <b>", **nothing)  # type: ignore[arg-type]
    kept = table.where(query="transport").rows
    page = read(ResultsTable(table._rounds, table.trust, (*kept, gone)))
    assert "Withheld, so that no number of it is published" in page.words
    assert "round 0: 7 of 9 are valid <b>" in page.words
    assert page.numbers[: len(numbers_of(kept))] == numbers_of(kept)
    assert len(page.numbers) == len(numbers_of(kept)) + 4


def test_hostile_words_and_names_are_text(table: ResultsTable) -> None:
    about = About(HOSTILE, HOSTILE, "https://example.org/results", (("transport", HOSTILE),))
    rows = [replace(row, category=HOSTILE) if row.category == "car" else row for row in table]
    report = Report(ResultsTable(table._rounds, table.trust, rows), NOW)
    report.entry = Entry(SignedTask(replace(report.task, about=about)), "unsigned <i>")
    page = Page(page_of(report))
    assert page.elements.isdisjoint({"script", "i", "b"})
    assert page.words.count("<script>alert('1')</script>") >= 6
    assert "This task is not signed by both parties. unsigned <i>" in page.words
    assert [link for link in page.links if not link.startswith("data:")] == []


def test_ε_spent_is_by_the_counts_if_a_batch_was_below_the_minimum(table: ResultsTable) -> None:
    report = Report(table, NOW)
    assert report.spent == report.content["all_rounds"]["epsilon_upper_at_minimum"]
    report.content["all_rounds"]["epsilon_upper_at_minimum"] = None
    assert report.spent == report.content["all_rounds"]["epsilon_upper"]


def test_notes_of_estimates_stand_below_their_numbers(table: ResultsTable, series: ResultsTable) -> None:
    def noted(several: ResultsTable) -> ResultsTable:
        rounds = [
            replace(each, queries=(_noted(each.queries[0], f"of <b>{each.id.round}</b>"), *each.queries[1:]))
            for each in several.results
        ]
        return ResultsTable(rounds, several.trust, several.rows)

    page = read(noted(table))
    assert "of <b>0</b>" in page.words
    assert "round 0: of" not in page.words
    words = read(noted(series)).words
    assert [f"round {number}: of <b>{number}</b>" in words for number in range(4)] == [True] * 4


def _noted(result: QueryResult, note: str) -> QueryResult:
    assert result.estimates is not None
    return replace(result, estimates=replace(result.estimates, notes=(note,)))
