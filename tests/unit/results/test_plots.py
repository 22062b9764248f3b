"""Pictures have every number with its interval, and bands; what cannot be drawn is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.container import ErrorbarContainer
from unit.results.test_table import NOW, made, table

from hubbub.protos.errors import UsageError
from hubbub.results import PublishedRow, ResultsTable
from hubbub.results.intervals import band

__all__ = ["table"]

ROW = PublishedRow(
    *("t", "00" * 32, 0, NOW, NOW, "q", "published"),
    statistic="count",
    category="a",
    estimate=5.0,
    standard_error=2.0,
    lower=1.0,
    upper=9.0,  # type: ignore[arg-type]
)


@pytest.fixture(autouse=True)
def no_display() -> Iterator[None]:
    with mpl.rc_context():
        pyplot.switch_backend("agg")
        yield
        pyplot.close("all")


def series(rounds: int, *categories: str) -> list[PublishedRow]:
    return [
        replace(ROW, round=number, round_begins=NOW + timedelta(days=number), category=category, estimate=5.0 + number)
        for number in range(rounds)
        for category in categories
    ]


def test_one_round_is_drawn_as_bars_of_the_published_intervals(table: ResultsTable) -> None:
    counts = table.where(query="transport", statistic="count")
    axes = counts.plot()
    (bars,) = (each for each in axes.containers if isinstance(each, ErrorbarContainer))
    segments = bars.lines[2][0].get_segments()
    assert [each[0][0] for each in segments] == pytest.approx([row.lower for row in counts])
    assert [each[1][0] for each in segments] == pytest.approx([row.upper for row in counts])
    assert [each.get_text() for each in axes.get_yticklabels()] == [row.category for row in counts]
    assert axes.get_title() == "transport, round 0 of commute"


def test_several_rounds_are_series_with_a_band_that_holds_for_all_that_is_drawn() -> None:
    rows = series(3, "a", "b")
    figure, axes = pyplot.subplots()
    assert made(*rows).plot(axes) is axes
    assert [each.get_text() for each in axes.get_legend().get_texts()] == ["a", "b"]
    ends = band(rows)
    drawn = axes.collections[-1].get_paths()[0].get_extents()
    assert (drawn.ymin, drawn.ymax) == pytest.approx((min(low for low, _ in ends), max(high for _, high in ends)))
    figure.canvas.draw()


def test_a_withheld_round_is_a_gap() -> None:
    rows = series(3, "a")
    gone = replace(rows[1], state="withheld", estimate=None, lower=None, upper=None, statistic=None, category=None)
    axes = made(rows[0], gone, rows[2]).plot()
    line = next(each for each in axes.get_lines() if len(each.get_ydata()) == 3)
    assert np.isnan(np.asarray(line.get_ydata(), dtype=float)).tolist() == [False, True, False]


@pytest.mark.parametrize("projection", ["polar", "3d"])
def test_axes_that_are_not_flat_are_refused(projection: str, table: ResultsTable) -> None:
    _, axes = pyplot.subplots(subplot_kw={"projection": projection})
    with pytest.raises(UsageError, match=rf"ax is one of matplotlib's flat axes, .* not {projection} axes"):
        table.where(query="transport", statistic="count").plot(axes)


def test_what_is_no_axes_is_refused_and_one_of_several_is_drawn_on(table: ResultsTable) -> None:
    counts = table.where(query="transport", statistic="count")
    figure, several = pyplot.subplots(2)
    for wrong, what in ((several, "ndarray"), (figure, "Figure"), ([*several], "list")):
        with pytest.raises(UsageError, match=f"not {what}"):
            counts.plot(wrong)
    assert counts.plot(several[1]) is several[1]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "the table has no rows to draw"),
        ([replace(ROW, estimate=None, lower=None, upper=None)], "no row has a number"),
        ([ROW, replace(ROW, query="r")], "q in people, r in people, and one picture has one"),
        (series(2, *(f"c{number}" for number in range(21))), "21 series are too many"),
    ],
)
def test_what_cannot_be_drawn_is_refused(rows: list[PublishedRow], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        made(*rows).plot()
