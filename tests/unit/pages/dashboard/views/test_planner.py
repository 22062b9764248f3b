"""The form answers how large an error is, as `hubbub plan` computes it, and gives the draft of the task."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from hubbub.pages.dashboard.views import planner
from hubbub.pages.dashboard.views.curve import curve
from hubbub.pages.dashboard.views.planner import CHOICES, LATER, SIZES, PlannedQuestion
from hubbub.planning.by_error import USUAL_EPSILONS
from hubbub.planning.plan import plan
from hubbub.protos.task.draft import read_draft
from support.dashboard import Browser, site_of, stub
from support.html_page import Page

QUICK = "kind=histogram&categories=3&people=1000&randomizer=krr&noise=none"


@pytest.fixture
def browser() -> Browser:
    return Browser(site_of(stub()))


def errors(asked: PlannedQuestion) -> float:
    return plan(read_draft(asked.draft(LATER))).queries[0].expected_error


def test_the_first_look_is_a_form_and_computes_nothing(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "plan", None)
    page = browser.get("/plan").page
    assert page.numbers == []
    assert {each["name"] for each in page.of("input") + page.of("select")} == set(PlannedQuestion.__dataclass_fields__)


def test_its_numbers_are_those_of_planning(browser: Browser) -> None:
    page = browser.get(f"/plan?{QUICK}").page
    asked = PlannedQuestion(categories=3, people=1000, noise="none")
    found = plan(read_draft(asked.draft(LATER))).queries[0]
    assert page.numbers[:2] == [found.expected_error, found.half_width]
    by_epsilon = [errors(PlannedQuestion(categories=3, people=1000, noise="none", epsilon=e)) for e in USUAL_EPSILONS]
    assert page.numbers[2 : 2 + len(by_epsilon)] == by_epsilon
    assert len(page.of("svg")) == 2
    assert "script" not in page.elements


def test_numbers_are_taken_as_the_command_line_takes_them(browser: Browser) -> None:
    plain = browser.get("/plan/draft.toml?people=5000&epsilon=0.5&delta=1e-7").text
    written = browser.get("/plan/draft.toml?people=+5e3&epsilon=1/2&delta=0.00001%25").text
    assert written == plain


@pytest.mark.parametrize("kind", CHOICES["kind"])
def test_the_draft_is_one_that_plan_reads(browser: Browser, kind: str) -> None:
    seen = browser.get(f"/plan/draft.toml?kind={kind}&people=5000&epsilon=0.5")
    assert seen.headers["content-disposition"] == 'attachment; filename="draft.toml"'
    draft = read_draft(seen.text)
    assert (draft.minimum_reports, draft.privacy.epsilon, draft.questions[0].kind) == (5000, 0.5, kind)
    assert draft.schedule.start > datetime.now(UTC).timestamp()


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("people=x", "people is 'x'"),
        ("people=0", "whole number above 0"),
        ("people=1e30", "whole number above 0"),
        ("people=%D9%A7", "1000, 1_000 or 1e3"),
        ("epsilon=1_0", "0.25, .25, 1/4, 25% or 2.5e-1"),
        ("epsilon=nan", "epsilon is 'nan'"),
        ("epsilon=inf", "epsilon is 'inf'"),
        ("delta=0.5", "delta"),
        ("kind=<script>", "choose one of histogram"),
        ("randomizer=%22%0Aname=1", "choose one of auto"),
        ("categories=1", "give 2 to 1000"),
        ("categories=100000", "give 2 to 1000"),
        ("kind=sum&lower=5&upper=1", "upper"),
        ("epsilon=-1", "epsilon"),
    ],
)
def test_what_cannot_be_planned_is_said(browser: Browser, asked: str, why: str) -> None:
    seen = browser.get(f"/plan?{asked}")
    assert seen.status in (200, 400)
    assert "There is no plan" in seen.page.words
    assert why in seen.page.words
    assert seen.page.numbers == []
    assert browser.get(f"/plan/draft.toml?{asked}").status in (400, 502)


def test_a_page_stops_computing_and_the_next_goes_on(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "kind=histogram&categories=4&people=1000&randomizer=krr&noise=none"
    monkeypatch.setattr(planner, "SECONDS", -1.0)
    first = browser.get(f"/plan?{asked}").page
    assert "Not every point is computed yet" in first.words
    # The answer itself, and its own point on both curves.
    assert len(first.numbers) == 4
    monkeypatch.setattr(planner, "SECONDS", 1e9)
    whole = browser.get(f"/plan?{asked}").page
    assert "Not every point" not in whole.words
    assert len(whole.numbers) > 2 + len(USUAL_EPSILONS)
    monkeypatch.setattr(planner, "plan", None)
    assert browser.get(f"/plan?{asked}").page.numbers == whole.numbers, "nothing is planned again"


def test_a_curve_falls_and_marks_the_own_point() -> None:
    page = Page(curve([(1.0, 10.0), (2.0, 5.0), (4.0, 2.0)], own=2.0, across="ε", up="Error"))
    circles = page.of("circle")
    assert [each["class"] for each in circles] == ["dot untold", "dot", "dot untold"]
    across, up = ([float(each[name]) for each in circles] for name in ("cx", "cy"))
    assert across == sorted(across)
    assert up == sorted(up), "a smaller error is lower, and y grows downwards"
    assert "1: 10; 2: 5; 4: 2" in page.described
    assert curve([(1.0, 1.0)], own=1.0, across="a", up="b") == ""
    assert len(SIZES) > 2


@pytest.mark.parametrize(
    ("most", "said"),
    [
        (1e4, ["100", "250", "500", "1,000", "2,000", "4,000", "10,000"]),
        (1e7, ["100,000", "500,000", "2,000,000", "10,000,000"]),
    ],
)
def test_people_below_a_curve_are_whole_numbers_and_have_room(most: float, said: list[str]) -> None:
    points = [(most / 10 * size, 1 + size) for size in SIZES]
    drawn = curve(points, own=most, across="people", up="Error")
    assert re.findall(r'text-anchor="middle">([^<]*)<', drawn) == said
