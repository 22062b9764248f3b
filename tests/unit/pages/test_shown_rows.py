"""Tables have every number with its exact value; names are plain and cut by their width."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.pages.test_charts import COUNT, HOSTILE, count, withheld
from unit.results.test_saved import COMMUTE

from hubbub.pages.shown_rows import plain, short, shown, table
from hubbub.results import open_saved
from support.html_page import Page


def test_a_table_has_the_numbers_of_the_rows() -> None:
    rows = open_saved(COMMUTE, keys=COMMUTE).read().rows
    page = Page(table(rows, "all"))
    expected = [
        value for row in rows for value in (row.estimate, row.standard_error, row.lower, row.upper) if value is not None
    ]
    assert page.numbers == expected
    for row in rows:
        assert row.label in page.words
        assert f"{shown(row).estimate}" in page.words
        assert shown(row).interval in page.words
    assert "begins" not in page.words


def test_a_table_of_several_rounds_has_times_reasons_and_what_may_be_zero() -> None:
    page = Page(table([count("a", 5, 0, significant=False), withheld(1)]))
    for said in ("2026-01-02 00:00", "withheld: 3 are valid", "may be 0", "begins (UTC)"):
        assert said in page.words


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_whole_and_is_text(name: str) -> None:
    row = replace(COUNT, category=name, unit=name)
    page = Page(table([row, replace(withheld(1), reason=name)], name))
    assert plain(name) in page.words
    assert {"script", "b"}.isdisjoint(page.elements)
    assert "\u202e" not in page.words


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        *(("👩\u200d👩\u200d👧", True), ("می\u200cخواهم", True), ("❤\ufe0f\u200d🔥", True)),
        *(("a\u200db", False), ("水\u200da", False), ("\u200d水", False), ("水\u200d", False)),
        *(("水\u200d\u200d水", False), ("水\u200d\u202e水", False), ("a\u00adb", False)),
    ],
)
def test_a_joiner_stays_where_words_and_pictures_need_it(text: str, stays: bool) -> None:
    assert (plain(text) == text) == stays
    assert len(plain(text)) == len(text)


@pytest.mark.parametrize(
    ("text", "longest", "cut"),
    [
        *(("abcdef", 6, "abcdef"), ("abcdefg", 6, "abcde…"), ("汉汉汉", 6, "汉汉汉"), ("汉汉汉汉", 6, "汉汉…")),
        *(("汉汉汉汉", 7, "汉汉汉…"), ("a\u202eb\n", 9, "a\ufffdb\ufffd"), ("", 4, "")),
    ],
)
def test_a_name_is_cut_by_its_width(text: str, longest: int, cut: str) -> None:
    assert short(text, longest) == cut
