"""The least ε that reaches a stated error is found, and what would reach it otherwise is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

import pytest

from hubbub.accountant.calibration.calibrate import calibrate
from hubbub.accountant.calibration.design import Target
from hubbub.accountant.calibration.noise import noise_may_reach
from hubbub.planning import plan as planning
from hubbub.planning.by_error import (
    USUAL_EPSILONS,
    ErrorsAtEpsilon,
    check_workable,
    errors_by_epsilon,
    least_epsilon,
)
from hubbub.planning.plan import errors_by_epsilon as errors_of_plan
from hubbub.planning.plan import plan
from hubbub.protos.errors import TaskError, UnmetTask
from hubbub.protos.task.draft import read_draft
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.design import Design
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question
from support.samples import START, Parties

THEME, MINUTES = Histogram("theme", ("a", "b", "c")), Number("minutes", 0.0, 60.0, "minutes")
COLOR = Histogram("color", ("red", "green"))

TASK = """
[task]
name = "usage"
start = 2030-01-01T00:00:00Z
length = "1h"
grace = "1m"
minimum_reports = 1000
[privacy]
epsilon = 2
delta = 1e-6
[[query]]
name = "theme"
kind = "histogram"
categories = ["a", "b", "c"]
error = 20
"""


def draft(epsilon: float, reports: int = 1000, **errors: float) -> Draft:
    privacy = Privacy(epsilon, 1e-6, 12.0)
    schedule = Schedule(START, 3600, 60, 1)
    return Draft("usage", schedule, reports, privacy, (THEME, MINUTES), errors=tuple(errors.items()))


def test_the_least_epsilon_reaches_every_error_and_a_little_less_does_not() -> None:
    planned = plan(draft(2.0, theme=20.0, minutes=1200.0))
    errors = {each.query.name: each.expected_error for each in planned.queries}
    assert errors["theme"] <= 20
    assert errors["minutes"] <= 1200
    assert planned.epsilon_most == 2.0
    epsilon = planned.draft.privacy.epsilon
    less = plan(draft(epsilon * 0.98))
    assert less.queries[0].expected_error > 20 or less.queries[1].expected_error > 1200


def test_a_frozen_task_has_the_epsilon_that_was_found_and_no_error() -> None:
    planned = plan(read_draft(TASK))
    task = planned.task(Parties.generate().public)
    assert 0 < task.privacy.epsilon == planned.draft.privacy.epsilon < 2
    assert "error" not in task.queries[0].content()


def test_an_error_is_no_other_plan_than_its_epsilon() -> None:
    planned = plan(read_draft(TASK))
    again = plan(replace(planned.draft, errors=()))
    assert again.queries == planned.queries
    assert again.epsilon_most is None


def test_what_is_beyond_the_drafts_epsilon_names_what_would_do() -> None:
    with pytest.raises(TaskError, match=r"epsilon = 1, the most .* \(theme: 8\.873, not 5\)") as raised:
        plan(replace(draft(1.0, theme=5.0), questions=(THEME,)))
    told = str(raised.value)
    assert "each of these alone reaches it: epsilon = 3.5" in told
    assert 'noise = "auto"' in told
    assert told.endswith("; or state theme=8.88, which it reaches as it is")
    assert plan(replace(draft(1.0, theme=8.88), questions=(THEME,))).draft.privacy.epsilon <= 1
    assert plan(replace(draft(1.0), questions=(THEME,), noise="auto")).queries[0].expected_error <= 5


# The search alone, on errors by formula


def formula(of: Draft) -> Mapping[str, float]:
    """An error of 10/ε, but of at least √n/e^(cap/2)."""
    privacy = of.privacy
    return {"theme": max(10 / privacy.epsilon, of.minimum_reports**0.5 / 2.718281828 ** (privacy.epsilon_local / 2))}


@pytest.mark.parametrize("error", [100.0, 20.0, 10.0, 6.0, 5.01])
def test_the_search_ends_near_the_least_epsilon(error: float) -> None:
    found = least_epsilon(draft(2.0, theme=error), formula).privacy.epsilon
    assert 10 / error <= found <= min(2.0, 10 / error * 1.015)


def test_the_number_of_reports_that_would_do_is_named() -> None:
    def by_reports(of: Draft) -> Mapping[str, float]:
        return {"theme": 1e6 / of.minimum_reports}

    with pytest.raises(TaskError, match=r"alone reaches it: minimum_reports = 2[0-9]{4};") as raised:
        least_epsilon(draft(2.0, theme=50.0), by_reports)
    number = int(str(raised.value).split("minimum_reports = ")[2].split(";")[0])
    assert 20_000 <= number <= 20_000 * 9 / 8


def test_the_cap_that_would_do_is_named() -> None:
    tight = draft(2.0, 10**6, theme=5.0)
    tight = replace(tight, privacy=replace(tight.privacy, epsilon_local=8.0))
    with pytest.raises(TaskError, match="alone reaches it: epsilon_local = 11;"):
        least_epsilon(tight, formula)


def test_an_error_that_nothing_reaches_says_so() -> None:
    def useless(of: Draft) -> Mapping[str, float]:
        if of.privacy.epsilon > 50:
            raise UnmetTask("cannot be planned")
        return {"theme": float("nan")}

    with pytest.raises(TaskError, match="no single change reaches it: change several, or state a larger error"):
        least_epsilon(draft(2.0, theme=50.0), useless)


def test_if_no_single_change_is_enough_the_nearest_error_is_named_with_what_gives_it() -> None:
    def by_both(of: Draft) -> Mapping[str, float]:
        privacy = of.privacy
        return {"theme": 70 / privacy.epsilon + 24 / privacy.epsilon_local + 0.7, "rest": 3.0}

    with pytest.raises(TaskError, match=r"\(theme: 37\.7, not 2; rest: 3, not 2\)") as raised:
        least_epsilon(draft(2.0, theme=2.0, rest=2.0), by_both)
    told = str(raised.value).split("; no single change reaches it ")[1]
    nearest = "(of larger epsilon and epsilon_local, epsilon = 100 comes nearest: theme 3.4, rest 3)"
    assert told == f"{nearest}: change several, or state theme=37.7 and rest=3, which it reaches as it is"


@pytest.mark.exhaustive
def test_errors_over_epsilon_are_those_of_plans() -> None:
    planned = plan(replace(draft(1.0), questions=(COLOR,)))
    found = errors_of_plan(planned)
    assert [each.epsilon for each in found] == list(USUAL_EPSILONS)
    (own,) = (each for each in found if each.planned)
    assert own.errors == {each.query.name: each.expected_error for each in planned.queries}
    color = [each.errors["color"] for each in found]
    assert color == sorted(color, reverse=True)


def test_an_epsilon_that_cannot_be_planned_says_why() -> None:
    def refusing(of: Draft) -> Mapping[str, float]:
        raise TaskError(f"not at {of.privacy.epsilon:g}")

    first = errors_by_epsilon(draft(3.0), refusing)[0]
    assert first == ErrorsAtEpsilon(0.25, {}, False, "not at 0.25")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("error = 20", "error = 0", r"query\[0\].error is 0.0; it must be a standard error above 0"),
        ("error = 20", "error = -1", r"query\[0\].error is -1.0; it must be"),
        ("error = 20", "error = nan", r"query\[0\].error is nan; it must be"),
        ("error = 20", "error = inf", r"query\[0\].error is inf; it must be"),
        ("error = 20", 'error = "20"', r"query\[0\].error is '20'; it must be a number"),
        (
            'kind = "histogram"\ncategories = ["a", "b", "c"]',
            'kind = "longitudinal"\nchanges = 1',
            r"query\[0\].error is given, but a longitudinal question has errors over its rounds",
        ),
        (
            'kind = "histogram"\ncategories = ["a", "b", "c"]\nerror = 20',
            (
                'kind = "grouped"\nby = [{ name = "region", categories = ["x", "y"] }]\n'
                'of = { kind = "histogram", categories = ["a", "b"], error = 20 }'
            ),
            r"query\[0\].of.error belongs to the whole query",
        ),
    ],
)
def test_an_error_that_is_none_is_refused_by_its_key(old: str, new: str, says: str) -> None:
    with pytest.raises(TaskError, match=says):
        read_draft(TASK.replace(old, new))


def test_an_error_of_an_unknown_query_is_refused() -> None:
    with pytest.raises(TaskError, match="has an error for 'theem'; the queries are 'theme', 'minutes'"):
        plan(draft(1.0, theem=3.0))


def test_an_error_that_no_epsilon_mends_ends_the_search_as_it_is() -> None:
    def fails_below(draft: Draft) -> Mapping[str, float]:
        if draft.privacy.epsilon < 2:
            raise TaskError("the law is not read")
        return {"theme": 1.0}

    with pytest.raises(TaskError, match=r"^the law is not read$"):
        least_epsilon(draft(2.0, theme=20.0), fails_below)


# An ε that is too small


def tiny(epsilon: float, *questions: Question, noise: str = "auto", reports: int = 1000) -> Draft:
    return replace(draft(epsilon, reports), questions=questions, noise=noise)


@pytest.mark.parametrize("noise", ["auto", "always"])
def test_a_tiny_epsilon_is_refused_without_a_search_and_the_least_workable_one_is_named(
    noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def searched(*_: object) -> None:
        pytest.fail("a law of noise was searched for")

    monkeypatch.setattr("hubbub.accountant.calibration.noise.least_noise", searched)
    with pytest.raises(
        UnmetTask, match=r"^theme: no useful error can be had at epsilon = 0\.001 with minimum_rep"
    ) as told:
        plan(tiny(0.001, THEME, MINUTES, noise=noise))
    least = float(str(told.value).split("by itself it needs epsilon = ")[1].split()[0])
    assert 0.003 < least < 0.006
    assert f"choose so much, or about {least * 1000:.2g} times the minimum_reports" in str(told.value)


def test_an_epsilon_that_no_task_may_have_is_not_named() -> None:
    def never(draft: Draft, question: Question) -> float:
        raise UnmetTask(f"{question.name} of {draft.name} cannot be planned")

    with pytest.raises(UnmetTask, match=r"asked nothing else; choose a larger minimum_reports$"):
        check_workable(tiny(0.001, replace(THEME, randomizer="unary")), never)


@pytest.mark.slow
@pytest.mark.parametrize("question", [THEME, MINUTES], ids=lambda each: each.name)
def test_what_is_planned_alone_is_never_refused(question: Question) -> None:
    """The refusal rests on a law a little wider than allowed; the plan's own error is just within the range here."""
    asked = [tiny(epsilon, question) for epsilon in (0.0045, 0.007, 0.009)]
    useful = [each for each in asked if 1.96 * planning._error_alone(each, question) <= 1000 * question.extent]
    assert useful
    for each in useful:
        check_workable(each, planning._error_alone)


@pytest.mark.parametrize("question", [THEME, MINUTES], ids=lambda each: each.name)
def test_noise_may_reach_every_error_that_a_search_reaches_and_none_that_is_far_smaller(question: Question) -> None:
    design = Design(question)
    (found,) = calibrate([design], 0.3, 1e-6, 1000, epsilon_local_cap=12.0, noise="always")
    target = Target.of(0.3, 1e-6, 1000, 12.0, 1.0, 0, "always", 1, None, 1)
    assert noise_may_reach(design, target, found.expected_standard_error)
    assert noise_may_reach(design, target, inf)
    assert not noise_may_reach(design, target, found.expected_standard_error / 1.3)
    assert not noise_may_reach(design, target, 1e-9)


@pytest.mark.slow
def test_a_query_that_takes_no_noise_is_judged_without_it() -> None:
    unary = replace(THEME, randomizer="unary")
    target = Target.of(0.3, 1e-6, 1000, 12.0, 1.0, 0, "always", 1, None, 1)
    assert not noise_may_reach(Design(unary), target, inf)
    check_workable(tiny(0.009, unary, reports=100_000), planning._error_alone)
    with pytest.raises(UnmetTask, match="theme: no useful error can be had"):
        check_workable(tiny(0.001, unary), planning._error_alone)
