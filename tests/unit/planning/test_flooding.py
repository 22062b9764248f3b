"""What a flood leaves is what the certificate of so few honest reports would state, and dummies keep the promise."""

from __future__ import annotations

import io
from dataclasses import replace
from math import sqrt

import pytest
from rich.console import Console

from hubbub.accountant.bounds import delta_upper, epsilon_upper
from hubbub.accountant.certificate.minimum import check_minimum
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.errors import AccountingError
from hubbub.cli.tables.flooding import flood_document, print_flood
from hubbub.planning.flooding import floods_of, shield_of
from hubbub.planning.plan import plan
from hubbub.planning.planned import Plan
from hubbub.protos.task.admission import OPEN
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.design import Design
from hubbub.queries.longitudinal.question import Longitudinal
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.question import Question
from support.samples import FEW, START

pytestmark = pytest.mark.usefixtures("composed_once")

THEME = Histogram("theme", ("dark", "light", "system"))
COLOR = Histogram("color", ("red", "green"), randomizer="krr", weight=2.0)
PRIVACY = Privacy(1.0, 1e-4, 8.0, large_delta=FEW)


def planned(*questions: Question, reports: int = 600, privacy: Privacy = PRIVACY, rounds: int = 1) -> Plan:
    return plan(Draft("usage", Schedule(START, 3600, 60, rounds), reports, privacy, questions))


@pytest.fixture(scope="module")
def one() -> Plan:
    return planned(replace(THEME, randomizer="krr"))


@pytest.fixture(scope="module")
def two() -> Plan:
    return planned(replace(THEME, randomizer="krr"), COLOR)


def test_a_flood_leaves_what_so_many_honest_reports_give(one: Plan) -> None:
    (mechanism,) = one.mechanisms
    found = floods_of(one)
    assert [(each.fakes, each.honest) for each in found] == [(300, 300), (540, 60), (599, 1)]
    for each in found:
        assert each.epsilon_upper == pytest.approx(epsilon_upper(mechanism, each.honest, 1e-4), rel=1e-9)
    assert PRIVACY.epsilon < found[0].epsilon_upper < found[1].epsilon_upper < found[2].epsilon_upper
    assert found[2].epsilon_upper <= mechanism.epsilon_local


def test_dummies_are_enough_and_at_most_an_eighth_too_many(one: Plan) -> None:
    (mechanism,), shield = one.mechanisms, shield_of(one)
    assert shield is not None
    fewer = shield.dummies - max(1, shield.dummies // 8)
    reached = [delta_upper(mechanism, 1, 1.0, dummies=each) for each in (shield.dummies, fewer)]
    assert reached[0] <= 1e-4 < reached[1]


def test_a_draft_that_says_what_the_shield_needs_promises_the_round_to_one_honest_report(two: Plan) -> None:
    shield = shield_of(two)
    assert shield is not None
    privacy = replace(PRIVACY, dummies=shield.dummies, honest_share=shield.honest_share)
    check_minimum(Terms.of(replace(two.draft, privacy=privacy)), two.mechanisms)
    for dummies in (0, shield.dummies // 8):
        draft = replace(two.draft, privacy=replace(privacy, dummies=dummies))
        with pytest.raises(AccountingError, match="is promised"):
            check_minimum(Terms.of(draft), two.mechanisms)


def test_the_errors_are_those_of_the_planned_randomizers_with_the_dummies(two: Plan) -> None:
    shield = shield_of(two)
    assert shield is not None
    for each in two.queries:
        question, size = each.query.question, each.query.symbols
        mse = Design(question).mse(size, each.query.randomizer, 600, shield.dummies)
        assert shield.errors[question.name] == pytest.approx(sqrt(mse) * question.extent, rel=1e-9)
        assert shield.errors[question.name] > each.expected_error


def test_planned_anew_the_error_is_no_larger(one: Plan) -> None:
    shield = shield_of(one)
    assert shield is not None
    privacy = replace(PRIVACY, dummies=shield.dummies, honest_share=shield.honest_share)
    (again,) = plan(replace(one.draft, privacy=privacy)).queries
    assert again.expected_error <= shield.errors["theme"] * (1 + 1e-6)


@pytest.mark.parametrize("reports", [3, 7, 600, 999, 1000, 123_457])
def test_the_share_counts_one_report_at_least_and_hardly_more(reports: int, one: Plan) -> None:
    shield = shield_of(replace(one, draft=replace(one.draft, minimum_reports=reports)))
    assert shield is not None
    assert 1 <= shield.honest_share * reports < 2.5


def test_dummies_do_not_count_for_what_is_sent_over_rounds() -> None:
    asked = Longitudinal("on", 1, strategy="tree", epsilon_local=8.0)
    found = planned(asked, rounds=4, privacy=Privacy(3.0, 1e-3, 8.0, large_delta=FEW), reports=2000)
    document = flood_document(found)
    assert document["shield"] is None
    assert [row["honest"] for row in document["left"]] == [1000, 200, 1]
    assert document["noise"]["noise"] == "auto"
    assert 'set noise = "auto", and plan again; the standard errors become' in text_of(found)
    assert "dummies" not in text_of(found)


def test_dummies_that_cannot_help_are_not_advised() -> None:
    """Neither noise nor dummies are known for these strategies."""
    asked = Longitudinal("on", 1, strategy="vector", steady_share=1.0, epsilon_local=8.0)
    found = planned(asked, rounds=4, privacy=Privacy(3.0, 1e-3, 8.0, large_delta=FEW), reports=2000)
    assert (flood_document(found)["noise"], flood_document(found)["shield"]) == (None, None)
    assert "no number of dummies" in text_of(found)


def text_of(found: Plan) -> str:
    printed = io.StringIO()
    print_flood(Console(file=printed, width=200), found)
    return printed.getvalue()


def test_people_are_told_what_is_left_and_who_could_do_it(one: Plan) -> None:
    document, text = flood_document(one), text_of(one)
    assert [row["fakes"] for row in document["left"]] == [300, 540, 599]
    assert all(f"{row['epsilon_upper']:.4f}" in text for row in document["left"])
    assert "needs a ticket of its own" in text
    assert f"dummies = {document['shield']['dummies']}, and plan again" in text
    assert "anybody who reaches the shuffler" in text_of(replace(one, draft=replace(one.draft, admission=OPEN)))
