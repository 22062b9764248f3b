"""Pictures have every number with its interval, gaps and what is left out; names cannot break them."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hubbub.pages.charts import MOST_SERIES, budget, estimates, series
from hubbub.pages.shown_rows import parts, plain, shown
from hubbub.queries.estimation.estimates import SHOWN_COUNTS
from hubbub.results import PublishedRow
from hubbub.results.intervals import band
from support.html_page import Page

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NUMBERS: dict[str, float] = {"estimate": 50.0, "standard_error": 10.0, "lower": 30.0, "upper": 70.0}
COUNT = PublishedRow("t", "00" * 32, 0, NOW, NOW, "q", "published", statistic="count", category="a", **NUMBERS)  # type: ignore[arg-type]
HOSTILE = ["</title><script>alert(1)</script>", "\u202egnp.exe\u2066", "x" * 300, '" onload="alert(1)', "汉" * 300]


def count(category: str, estimate: float, number: int = 0, **more: object) -> PublishedRow:
    numbers = {"estimate": estimate, "lower": estimate - 20 - number, "upper": estimate + 20}
    begins = NOW + timedelta(days=number)
    return replace(COUNT, category=category, round=number, round_begins=begins, **numbers, **more)  # type: ignore[arg-type]


def withheld(number: int) -> PublishedRow:
    nothing = dict.fromkeys(("statistic", "category", "estimate", "standard_error", "lower", "upper"))
    begins = NOW + timedelta(days=number)
    return replace(COUNT, round=number, round_begins=begins, state="withheld", reason="3 are valid", **nothing)  # type: ignore[arg-type]


def numbers_in(path: str) -> list[float]:
    return [float(each) for each in re.findall(r"-?\d+\.?\d*", path)]


def assert_proportional(drawn: list[float], values: list[float]) -> None:
    """Fail unless a picture shows values in proportion."""
    low, high = min(range(len(values)), key=values.__getitem__), max(range(len(values)), key=values.__getitem__)
    per = (drawn[high] - drawn[low]) / (values[high] - values[low])
    assert abs(per) > 0
    expected = [drawn[low] + per * (value - values[low]) for value in values]
    assert drawn == pytest.approx(expected, abs=0.11)


def test_estimates_are_drawn_in_proportion_with_their_intervals_and_numbers() -> None:
    rows = [count("a", 50), count("b", 310.5), count("c", -12)]
    page = Page(estimates(rows))
    bars = [numbers_in(each["d"]) for each in page.of("path", "error")]
    drawn = [x for bar in bars for x in (bar[0], bar[2])] + [float(each["cx"]) for each in page.of("circle")]
    values = [end for row in rows for end in (row.lower, row.upper)] + [row.estimate for row in rows]
    assert_proportional(drawn, [value or 0.0 for value in values])
    for row in rows:
        said = f"{shown(row).estimate} ({shown(row).interval})"
        assert said in page.words
        assert f"{row.category} {said}" in page.described
    assert page.of("svg")[0]["role"] == "img"
    assert {"title", "desc"} <= page.elements
    assert len(page.of("path", "zero")) == 1


def test_what_may_be_zero_is_drawn_hollow_and_said() -> None:
    page = Page(estimates([count("a", 50, significant=True), count("b", 1, significant=False)]))
    assert [("untold" in each["class"]) for each in page.of("circle")] == [False, True]
    assert "Hollow (may be 0)" in page.words
    assert "Hollow" not in estimates([count("a", 50, significant=True)])


def test_of_many_categories_the_largest_are_drawn_in_their_order_and_the_rest_is_said() -> None:
    rows = [count(f"c{number}.", 1000 - number if number % 2 else number) for number in range(SHOWN_COUNTS + 5)]
    page = Page(estimates(rows))
    assert len(page.of("circle")) == SHOWN_COUNTS
    assert "These are the largest 20 of 25" in page.words
    named = [int(each) for each in re.findall(r"c(\d+)\.", page.words)]
    assert named == sorted(named)
    assert set(range(25)) - set(named) == {0, 2, 4, 6, 8}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text_that_is_cut_and_turns_nothing_around(name: str) -> None:
    rows = [count(name, 50, number, query=name, unit=name) for number in range(2)]
    for picture in (estimates(rows[:1]), series(rows), series([replace(withheld(0), reason=name)])):
        page = Page(picture)
        assert page.elements <= {
            "figure",
            "svg",
            "title",
            "desc",
            "path",
            "text",
            "circle",
            "figcaption",
            "p",
            "ul",
            "li",
        }
        assert not [found for _, found in page.tags if any(each.startswith("on") for each in found)]
        assert "\u202e" not in picture
        assert "\u2066" not in picture
    assert plain(name)[:6] in Page(estimates(rows[:1])).words
    assert plain(name)[:100] not in Page(estimates(rows[:1])).words or len(name) < 40


def test_a_series_has_each_number_with_its_interval_and_a_band_that_holds_at_once() -> None:
    rows = [count(name, value + 9 * number, number) for number in range(4) for name, value in (("a", 50), ("b", 300))]
    page = Page(series(rows))
    assert len(page.of("svg")) == 2
    ends = dict(zip(((row.category, row.round) for row in rows), band(rows), strict=True))
    for place, name in enumerate("ab"):
        here = [row for row in rows if row.category == name]
        dots = numbers_in(page.of("path", "dots")[place]["d"].replace("h0", ""))[1::2]
        bars = numbers_in(page.of("path", "error")[place]["d"])
        filled = numbers_in(page.of("path", "band")[place]["d"])[1::2]
        drawn = dots + bars[1::3] + bars[2::3] + filled[:4] + filled[:3:-1]
        values = [each for key in ("estimate", "lower", "upper") for each in (getattr(row, key) for row in here)]
        values += [ends[name, number][side] for side in (1, 0) for number in range(4)]
        assert_proportional(drawn, values)
    assert "round 0, 2026-01-01" in page.words
    assert "round 3, 2026-01-04" in page.words


def test_a_withheld_round_is_a_gap_and_marked_and_a_missing_one_is_a_gap() -> None:
    rows = [count("a", 50, 0), count("a", 55, 1), withheld(2), count("a", 60, 3), count("a", 61, 5)]
    page = Page(series(rows))
    assert len(page.of("path", "cross")) == len(page.of("rect", "gap")) == 1
    assert [each["d"].count("L") for each in page.of("path", "trace")] == [1, 0, 0]
    assert "Withheld, marked by a cross: round 2." in page.words
    assert "withheld: round 2" in page.described
    crossed = numbers_in(page.of("rect", "gap")[0]["x"])[0] + 4
    xs = numbers_in(page.of("path", "dots")[0]["d"].replace("h0", ""))[0::2]
    assert_proportional([*xs, crossed], [0, 1, 3, 5, 2])


def test_of_many_series_the_largest_of_the_newest_round_are_drawn() -> None:
    rows = [count(f"c{place}.", 1000 - place, number) for number in range(2) for place in range(MOST_SERIES + 3)]
    page = Page(series(rows))
    assert len(page.of("svg")) == MOST_SERIES
    assert "3 more are in the table" in page.words
    assert "c12." not in page.words


def test_without_any_number_the_reasons_are_said() -> None:
    for picture in (series([withheld(0), withheld(1)]), estimates([withheld(1)])):
        assert "svg" not in Page(picture).elements
        assert "round 1: 3 are valid" in Page(picture).words


@pytest.mark.parametrize(("value", "half"), [(0.0, 0.0), (5.0, 0.0), (1e-9, 1e-12), (3e14, 1e12), (-4.0, 1e-3)])
def test_numbers_of_any_size_are_drawn(value: float, half: float) -> None:
    row = replace(COUNT, estimate=value, lower=value - half, upper=value + half, standard_error=half / 2, unit="m")
    for picture in (estimates([row]), series([row])):
        assert "nan" not in picture
        (title,) = Page(picture).of("svg", "chart")
        assert title["viewbox"].startswith("0 0 480 ")


@pytest.mark.parametrize(
    ("numbered", "lost", "dates"),
    [
        ((0, 9), (), ["start round 0", "end round 9"]),
        ((0,), (9,), ["start round 0"]),
        ((9,), (0,), ["end round 9"]),
        ((4,), (0, 9), ["middle round 4"]),
        ((0, 1), (9,), ["start round 1"]),
        ((5,), (), ["middle round 5"]),
    ],
)
def test_dates_below_a_series_are_whole_and_on_nothing(
    numbered: tuple[int, ...], lost: tuple[int, ...], dates: list[str]
) -> None:
    drawn = series([*(count("a", 50, number) for number in numbered), *map(withheld, lost)])
    assert [" ".join(each) for each in re.findall(r'text-anchor="(\w+)">(round \d+),', drawn)] == dates


def test_a_wide_name_ends_before_its_numbers() -> None:
    page = Page(estimates([count("W" * 200, 50)]))
    frame = next(each for each in page.of("svg") if not each.get("class"))
    assert 100 < float(frame["width"]) < 400


@pytest.mark.parametrize(("spent", "whole", "share"), [(1.25, 5.0, 0.25), (5.0, 5.0, 1.0), (6.0, 5.0, 1.0)])
def test_a_budget_is_drawn_with_what_is_left(spent: float, whole: float, share: float) -> None:
    page = Page(budget(spent, whole))
    assert float(page.of("rect", "spent")[0]["width"]) == pytest.approx(
        share * float(page.of("rect", "left")[0]["width"])
    )
    assert page.numbers == [spent, whole, max(whole - spent, 0.0)]


def test_a_budget_without_a_limit_is_said() -> None:
    page = Page(budget(1.25, None))
    assert "svg" not in page.elements
    assert "no limit" in page.words
    assert page.numbers == [1.25]


def test_parts_have_one_scale_and_withheld_rows_are_with_their_query() -> None:
    mean = replace(COUNT, statistic="mean", category=None, unit="min")
    north = replace(COUNT, group=(("region", "north"),))
    south = replace(COUNT, group=(("region", "south"),))
    rows = [COUNT, mean, north, south, withheld(1), replace(withheld(0), query="r")]
    found = parts(rows)
    assert found == [[COUNT, rows[4]], [mean, rows[4]], [north, south, rows[4]], [rows[5]]]


def test_numbers_that_are_nearly_the_same_are_drawn() -> None:
    rows = [replace(COUNT, estimate=5e-324, standard_error=5e-324, lower=0.0, upper=5e-324, round=n) for n in (0, 1)]
    assert "nan" not in estimates(rows[:1]) + series(rows)
