"""Each scenario is a value with a dataset and a plot; answers may change from round to round."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hubbub.cli.plots.comparison import CategoryPanel, Comparison, OverRoundsPanel, drawn
from hubbub.cli.plots.demo_panels import by_category, over_rounds, plot_of
from hubbub.deploy.demo.scenarios.registry import SCENARIOS, scenario_named
from hubbub.planning.simulate.dataset import Dataset, sample, truth_of
from hubbub.protos.errors import UsageError
from hubbub.queries.estimation.estimates import SHOWN_COUNTS
from hubbub.queries.questions.histogram import Histogram


def row(category: str | None, statistic: str, truth: float, estimate: float) -> dict[str, Any]:
    return {
        "category": category,
        "statistic": statistic,
        "truth": truth,
        "estimate": estimate,
        "lower": estimate - 2,
        "upper": estimate + 2,
    }


def document(rounds: int) -> dict[str, Any]:
    def queries(number: int) -> list[dict[str, Any]]:
        counts = [row(f"c{place:02}", "count", place, place + number) for place in range(40)]
        return [
            {"name": "city", "estimates": counts},
            {"name": "delay", "estimates": [row(None, "sum", 5, 6 + number), row(None, "mean", 1, 2)]},
        ]

    return {
        "task": "trips",
        "devices": 40,
        "epsilon": 1.0,
        "delta": 1e-6,
        "rounds": [{"round": number, "queries": queries(number)} for number in range(rounds)],
    }


def test_the_first_demonstration_is_the_default_and_names_are_their_keys() -> None:
    assert scenario_named(None).name == "flights"
    assert all(each.name == name for name, each in SCENARIOS.items())
    assert all(scenario_named(name) is each for name, each in SCENARIOS.items())


def test_a_demonstration_that_is_none_is_told_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"--task 'trains' is not a scenario; give flights.*--list"):
        scenario_named("trains")


def test_answers_of_later_rounds_follow_their_devices_into_a_sample() -> None:
    tables = [pa.table({"city": [f"{'AB'[(device + number) % 2]}" for device in range(9)]}) for number in range(3)]
    dataset = Dataset("trips", (Histogram("city", ("A", "B")),), tables[0], later=tuple(tables[1:]))
    drawn_ = sample(dataset, 4, seed=3)
    first, second, third, fourth = (drawn_.in_round(number).answers["city"].to_pylist() for number in range(4))
    assert len(first) == 4
    assert all(one != other for one, other in zip(first, second, strict=True))
    assert first == third == fourth
    assert truth_of(dataset.in_round(1), dataset.questions[0])["count", "A"] == 4


def test_the_series_of_airplanes_is_that_of_2013_and_hardly_any_is_clipped() -> None:
    dataset = SCENARIOS["longitudinal"].dataset()
    states = [dataset.in_round(number).answers["late"].to_pylist() for number in range(16)]
    assert dataset.devices == 4037
    assert [sum(state == "yes" for state in each) for each in states] == [
        *(248, 600, 893, 1003, 1192, 1112, 1212, 1455, 1736, 1744, 1430, 1082, 855, 665, 761, 874)
    ]
    changes = [sum(a != b for a, b in pairwise(("no", *stream))) for stream in zip(*states, strict=True)]
    assert sum(each > 6 for each in changes) / dataset.devices < 0.002


def test_candidates_are_airports_that_mostly_nobody_flew_to() -> None:
    dataset = SCENARIOS["text"].dataset()
    flown = set(dataset.answers["destination"].to_pylist())
    assert dataset.devices == 336_776
    assert len(dataset.candidates) == 1440
    assert 90 < len(flown & set(dataset.candidates)) < 110


def test_every_flight_is_in_a_group() -> None:
    dataset = SCENARIOS["groups"].dataset()
    (question,) = dataset.questions
    assert dataset.answers[question.name].null_count == 0
    delays = pc.struct_field(dataset.answers[question.name].combine_chunks(), "departure_delay")
    assert delays.null_count == 8_255


def test_a_panel_shows_the_largest_counts_of_the_last_round() -> None:
    (panel,) = by_category(document(2))
    assert panel.title == "city"
    assert len(panel.points) == SHOWN_COUNTS
    assert (panel.points[0].at, panel.points[0].truth, panel.points[0].estimate) == ("c39", 39, 40)


@pytest.mark.parametrize("estimates", [[], [row(None, "answered", 40, 40)]], ids=["nothing", "answered"])
def test_a_text_of_which_nothing_stands_out_is_drawn_as_that(estimates: list[dict[str, Any]]) -> None:
    queries = [{"name": "destination", "estimates": estimates}]
    (panel,) = by_category({"rounds": [{"round": 0, "queries": queries}]})
    assert panel == CategoryPanel("destination", "devices", ())
    svg = drawn(Comparison("text", "made up", (panel,)), "svg").decode()
    assert "nothing stands out of the noise" in svg


def test_sums_alone_are_drawn_as_the_statistics_they_are() -> None:
    sums = {"rounds": [{"round": 0, "queries": document(1)["rounds"][0]["queries"][1:]}]}
    panels = by_category(sums)
    assert [panel.title for panel in panels] == ["delay: sum", "delay: mean"]
    assert b"delay: mean" in drawn(Comparison("sums", "made up", panels), "svg")


def test_a_panel_over_rounds_follows_each_statistic_without_a_category() -> None:
    one, other = over_rounds(document(3))
    assert (one.title, other.title) == ("delay: sum", "delay: mean")
    assert [(point.at, point.estimate) for point in one.points] == [(0.0, 6), (1.0, 7), (2.0, 8)]


def test_pictures_hold_truth_estimate_and_band_and_are_the_same_each_time() -> None:
    panels = (*by_category(document(3)), *over_rounds(document(3)))
    assert [type(panel) for panel in panels] == [CategoryPanel, OverRoundsPanel, OverRoundsPanel]
    picture = Comparison("trips", "made up", panels)
    svg = drawn(picture, "svg")
    assert svg == drawn(picture, "svg")
    text = svg.decode()
    for said in ("truth", "estimate", "95 % interval", "c39", "round", "made up"):
        assert said in text
    assert len(re.findall(r'id="band"', text)) == 2


def test_a_demonstration_s_picture_says_what_it_was_made_of() -> None:
    picture = plot_of(SCENARIOS["flights"], document(1))
    assert picture.title == "hubbub demo: trips"
    assert "40 devices, ε ≤ 1 at δ = 1e-06 a round" in picture.caption
    assert len(picture.panels) == 1
