"""An analyst names texts and sees those that stand out, as `hubbub results` shows them; saved ones are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from unit.verification.test_results import results_of

from hubbub.deploy.operator import lookup
from hubbub.deploy.operator.lookup import decoded
from hubbub.pages.dashboard.sources import opened
from hubbub.protos.records.results import RoundResults
from hubbub.protos.records.results_document import results_document
from hubbub.results import NotVerified, PublishedRow, open_saved
from hubbub.results.published_row import rows_of
from support.dashboard import Browser, site_of
from support.messages import RESULTS_DO_NOT_AGREE
from vectors.make_kinds import WORDS

RESULTS = results_of("text")[0]
HERE = f"/task/{RESULTS.id.task_id.hex()}/round/0"
NAMED = [*WORDS, "nobody says this"]
FOUND = decoded(RESULTS, NAMED)


def file_of(folder: Path, results: RoundResults) -> Path:
    path = folder / "results.json"
    path.write_text(json.dumps(results_document(results)))
    return path


def browser_of(path: Path) -> Browser:
    return Browser(site_of(opened([path], None).reader))


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return browser_of(file_of(tmp_path, RESULTS))


def exact(rows: list[PublishedRow]) -> list[float | None]:
    """The numbers of rows in the order of a table."""
    return [value for row in rows for value in (row.estimate, row.standard_error, row.lower, row.upper)]


@pytest.mark.parametrize("by_file", [True, False])
def test_texts_of_a_list_or_a_file_are_those_that_the_command_finds(browser: Browser, by_file: bool) -> None:
    text = "\r\n".join(NAMED)
    more: dict[str, Any] = {"files": {"file": ("words.txt", text.encode())}} if by_file else {}
    seen = browser.post(f"{HERE}/texts", {"texts": "" if by_file else text}, **more)
    assert seen.status == 200
    assert FOUND.queries[0].estimates is not None
    assert f"of {len(NAMED):,} looked up" in " ".join(seen.page.words.split())
    rows = list(rows_of(FOUND))
    assert len(rows) > 1, "a text stands out"
    assert sorted(seen.page.numbers) == sorted(value for value in exact(rows) if value is not None)
    assert "nobody says this" not in seen.page.words


def test_a_round_with_such_a_query_alone_has_the_form(browser: Browser) -> None:
    page = browser.get(HERE).page
    assert [each["action"] for each in page.of("form")] == [f"{HERE}/texts"]


@pytest.mark.parametrize(
    ("fields", "more", "status", "why"),
    [
        ({"texts": " \r\n"}, {}, 400, "no text was given"),
        ({"texts": ""}, {"files": {"file": ("w<b>.txt", b"\xff\xfe\x00")}}, 502, "w<b>.txt is not UTF-8"),
        ({"texts": "a", "word": "other"}, {}, 403, "not of this dashboard's pages"),
    ],
)
def test_a_form_that_names_no_texts_is_refused(
    browser: Browser, fields: dict[str, str], more: dict[str, Any], status: int, why: str
) -> None:
    seen = browser.post(f"{HERE}/texts", fields, **more)
    assert (seen.status, why in seen.page.words) == (status, True)
    assert "b" not in seen.page.elements


def test_too_many_texts_are_refused(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "MOST_CANDIDATES", 2)
    seen = browser.post(f"{HERE}/texts", {"texts": "a\nb\nc"})
    assert (seen.status, "the list has 3 candidates" in seen.page.words) == (502, True)


def test_a_round_that_takes_no_texts_says_so(tmp_path: Path) -> None:
    other = results_of("hashed")[0]
    path = f"/task/{other.id.task_id.hex()}/round/0"
    browser = browser_of(file_of(tmp_path, other))
    assert browser.get(path).page.of("form") == []
    assert browser.post(f"{path}/texts", {"texts": "a"}).status == 400
    assert browser.post(f"{path.removesuffix('0')}x/texts", {"texts": "a"}).status == 404


def test_texts_that_saved_results_list_are_shown_with_their_note(tmp_path: Path) -> None:
    path = file_of(tmp_path, FOUND)
    rows = open_saved(path).read()
    assert [(row.category, row.estimate) for row in rows] == [(row.category, row.estimate) for row in rows_of(FOUND)]
    browser = browser_of(path)
    page = browser.get(HERE).page
    assert WORDS[0] in page.words
    assert "looked up" in page.words
    # Others can be looked up in the same table.
    assert "of 1 looked up" in browser.post(f"{HERE}/texts", {"texts": WORDS[0]}).page.words


def test_saved_texts_that_do_not_follow_from_the_table_are_refused(tmp_path: Path) -> None:
    path = file_of(tmp_path, FOUND)
    document = json.loads(path.read_text())
    document["queries"][0]["counts"][0]["estimate"] += 1
    path.write_text(json.dumps(document))
    with pytest.raises(NotVerified, match=RESULTS_DO_NOT_AGREE):
        open_saved(path).read()
    assert browser_of(path).get(HERE).status == 502
    document["queries"][0]["counts"][0]["estimate"] = "many"
    path.write_text(json.dumps(document))
    with pytest.raises(NotVerified, match="the texts of drink cannot be read"):
        open_saved(path)


def test_beginnings_that_saved_results_list_are_rows_with_the_round_that_counted_them(tmp_path: Path) -> None:
    path = file_of(tmp_path, FOUND)
    document = json.loads(path.read_text())
    (first, *_) = document["queries"][0]["counts"]
    document["queries"][0]["beginnings"] = [{**first, "category": "te…", "at": 1.0}]
    path.write_text(json.dumps(document))
    (row,) = [each for each in open_saved(path, verify=False).read() if each.statistic == "beginning"]
    assert (row.category, row.at, row.estimate) == ("te…", 1.0, first["estimate"])
