"""What may be added to a randomizer's reports: the numbers that were promised, and that they are those of a plan."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from hubbub.accountant.composition import compose_upper
from hubbub.accountant.mechanisms import WithNoise
from hubbub.accountant.pairs import Part
from hubbub.planning.alternatives import Alternative, alternatives_of, caps_of, compare, is_quick, steps_of
from hubbub.planning.comparison import PrivacyTarget
from hubbub.planning.plan import plan
from hubbub.planning.planned import forecast_of
from hubbub.protos.errors import TaskError
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question
from support.samples import START


def histogram(categories: int) -> Histogram:
    return Histogram("value", tuple(map(str, range(categories))))


@cache
def rows(categories: int, reports: int, epsilon: float = 1.0, delta: float = 1e-6) -> tuple[Alternative, ...]:
    (found,) = compare([histogram(categories)], PrivacyTarget(epsilon, delta, reports, 8.0))
    return found


def the(found: tuple[Alternative, ...], added: str, cap: float) -> Alternative:
    (one,) = (each for each in found if (each.added, each.cap) == (added, cap))
    return one


@pytest.mark.parametrize(
    ("categories", "reports", "cap", "rare", "even", "common"),
    [
        (16, 10**4, 8, 3.3, 3.8, 4.8),
        (16, 10**4, 10, 2.8, 2.9, 3.1),
        (16, 10**5, 8, 6.5, 8.5, 12.6),
        (16, 10**5, 10, 3.5, 4.0, 5.3),
        (16, 10**5, 12, 2.9, 3.0, 3.2),
        (16, 10**6, 10, 7.3, 9.7, 14.6),
        (16, 10**6, 12, 3.7, 4.4, 6.0),
        (16, 10**6, 14, 2.9, 3.0, 3.4),
        (1000, 10**5, 8, 7.3, 9.3, 91.9),
        (1000, 10**5, 10, 3.7, 4.3, 33.9),
        (1000, 10**5, 12, 3.0, 3.1, 12.8),
        (1000, 10**5, 14, 2.9, 2.9, 5.4),
        (2, 10**4, 8, 2.3, 2.3, 2.3),
        (2, 10**4, 10, 1.6, 1.6, 1.6),
        (2, 10**4, 12, 1.4, 1.4, 1.4),
    ],
)
def test_errors_beside_noise_at_1_and_1e_6_are_as_small_as_they_can_be(
    categories: int, reports: int, cap: float, rare: float, even: float, common: float
) -> None:
    """At a count of nobody, of an even share, and of a quarter of the people (half of them, for two categories)."""
    errors = the(rows(categories, reports), "noise", cap).errors
    assert errors is not None
    found = [errors[0], errors[reports // categories], errors[reports // 4]]
    for error, limit in zip(found, (rare, even, common), strict=True):
        assert limit - 0.2 < error <= limit, (found, limit)


@pytest.mark.parametrize(
    ("categories", "reports", "local", "rare", "even", "common"),
    [
        (16, 10**4, 5.53, 6.48, 8.76, 13.45),
        (16, 10**5, 7.77, 6.53, 8.92, 13.81),
        (16, 10**6, 10.06, 6.53, 8.94, 13.85),
        (1000, 10**5, 8.09, 6.32, 8.40, 87.63),
        (2, 10**4, 5.69, 5.84, 5.84, 5.84),
    ],
)
def test_errors_of_randomizers_alone_are_those_of_the_best_krr(
    categories: int, reports: int, local: float, rare: float, even: float, common: float
) -> None:
    alone = the(rows(categories, reports), "nothing", 14.0)
    assert alone.errors is not None
    assert alone.epsilon_local == pytest.approx(local, abs=0.01)
    found = [alone.errors[0], alone.errors[reports // categories], alone.errors[reports // 4]]
    assert found == pytest.approx([rare, even, common], abs=0.01)


def test_a_cap_that_does_not_bind_changes_nothing_and_one_that_binds_is_kept() -> None:
    found = rows(16, 10**6)
    assert the(found, "nothing", 12).error == the(found, "nothing", 14).error
    assert all(each.epsilon_local is not None and each.epsilon_local <= each.cap for each in found if each.cap)
    assert [each.error for each in found if each.added == "noise"] == sorted(
        (each.error or 0 for each in found if each.added == "noise"), reverse=True
    )


def test_dummies_are_compared_if_asked_for_and_as_many_as_noise_adds() -> None:
    aim, steps = PrivacyTarget(1.0, 1e-6, 10_000, 8.0), []
    (found,) = compare([histogram(16)], aim, 0, lambda: steps.append(1))
    assert len(steps) == steps_of(aim, 0) == 2 * len(caps_of(8.0)) + 1
    (dummies,) = (each for each in found if each.added == "dummies")
    assert (dummies.cap, dummies.dummies) == (8.0, the(found, "noise", 8.0).dummies)
    assert Alternative.read(dummies.as_json()) == dummies


def test_what_cannot_be_planned_says_why() -> None:
    (found,) = compare([replace(histogram(4), randomizer="unary")], PrivacyTarget(1.0, 1e-6, 10_000, 8.0))
    noise = the(found, "noise", 8.0)
    assert noise.error is None
    assert "noise is asked for, but it works beside krr and hashed answers only" in (noise.why_not or "")
    assert noise.as_json()["standard_error_at"] == {}


# In a draft

THEME, MINUTES = histogram(4), Number("minutes", 0.0, 60.0, "minutes")


def draft(*questions: Question, rounds: int = 1, total: float | None = None, **more: object) -> Draft:
    privacy = Privacy(1.0, 1e-6, 10.0, epsilon_total=total)
    fields: dict[str, object] = {"noise": "none", **more}
    return replace(Draft("usage", Schedule(START, 3600, 60, rounds), 10_000, privacy, questions), **fields)  # type: ignore[arg-type]


def test_alternatives_are_what_the_plan_would_be() -> None:
    asked = draft(THEME, MINUTES)
    found = alternatives_of(asked, with_dummies=False)
    for noise, added in (("none", "nothing"), ("always", "noise")):
        for cap in (8.0, 10.0):
            planned = plan(replace(asked, noise=noise, privacy=replace(asked.privacy, epsilon_local=cap)))
            for each in planned.queries:
                row = the(found[each.query.name], added, cap)
                assert row.error == pytest.approx(each.expected_error, rel=1e-3)
                assert row.epsilon_local == pytest.approx(each.epsilon_local, rel=1e-3)


def test_a_draft_is_quick_if_it_asks_little_through_krr() -> None:
    assert is_quick(draft(THEME, MINUTES))
    assert not is_quick(draft(THEME, MINUTES, replace(MINUTES, name="more")))
    assert not is_quick(draft(replace(THEME, randomizer="auto")))
    assert not is_quick(draft(replace(MINUTES, digits=8)))
    assert not is_quick(draft(THEME, rounds=12, total=3.0))
    assert is_quick(draft(THEME, rounds=12))


@pytest.mark.parametrize(("total", "family"), [(3.0, "gaussian"), (12.5, "geometric")])
def test_a_law_of_noise_is_chosen_for_all_rounds_together(total: float, family: str) -> None:
    planned = plan(draft(THEME, rounds=12, total=total, noise="always"))
    (query,) = planned.queries
    assert query.query.noise is not None
    assert query.query.noise.family == family
    assert forecast_of(planned).within == 12
    # By the noise alone: nobody else is counted on.
    mechanism = query.query.mechanism
    assert isinstance(mechanism, WithNoise)
    assert compose_upper([Part(mechanism, 1)], 1e-6) <= 1.0
    assert compose_upper([Part(mechanism, 1, 12)], 1e-6) <= total


def test_a_randomizer_alone_is_compared_where_all_rounds_fit_too() -> None:
    """Without noise the plan itself is for one round, and rounds that do not fit are erased."""
    asked = draft(THEME, rounds=12, total=1.5)
    assert forecast_of(plan(asked)).within < 12
    alone = the(alternatives_of(asked, with_dummies=False)["value"], "nothing", 10.0)
    (query,) = plan(asked).queries
    assert alone.error is not None
    assert alone.error > 1.5 * query.expected_error
    fitting = plan(replace(asked, privacy=replace(asked.privacy, epsilon=(alone.epsilon_upper or 0.0) * 0.999)))
    assert forecast_of(fitting).within == 12


def test_more_dummies_than_can_be_sealed_are_refused_with_what_to_do() -> None:
    """A batch gets some 27 dummies of each symbol, but at most ten million are sealed."""
    asked = (
        r"noise beside krr of 900,000 symbols needs [1-9]\d,\d{3},\d{3} dummies on average, and at most 10,000,000 "
        r"are sealed for a batch; ask for fewer answers, use uniform dummies, or leave the noise out"
    )
    with pytest.raises(TaskError, match=asked):
        plan(replace(draft(histogram(900_000), noise="always"), privacy=Privacy(1.0, 1e-6, 20.0)))


def test_a_sum_by_digits_is_compared_where_it_is_asked_for() -> None:
    asked = Number("delay", 0.0, 60.0, digits=6)
    aim = PrivacyTarget(1.0, 1e-6, 10**4, 45.0)
    (found,) = compare([asked], aim)
    (plain,) = compare([replace(asked, digits=None)], aim)
    assert [each for each in found if each.added != "digits"] == list(plain)
    by_digits = [each for each in found if each.added == "digits"]
    own = the(found, "digits", 45.0)
    best = min(each.error for each in plain if each.added == "noise" and each.error is not None)
    assert by_digits[-1] == own
    assert own.error is not None
    assert own.error < best
    assert own.epsilon_local == pytest.approx(45.0)
    # The least cap with which digits are better than one message under any.
    first = by_digits[0]
    assert first.cap is not None
    assert first.error is not None
    assert 14 < first.cap < 45
    assert own.error < first.error <= best
    assert Alternative.read(first.as_json()) == first
    planned = plan(replace(draft_of(asked), noise="always"))
    (whole,) = planned.asked
    assert whole.expected_error <= own.error * (1 + 1e-9)


def draft_of(question: Question) -> Draft:
    return Draft("usage", Schedule(START, 3600, 60, 1), 10**4, Privacy(1.0, 1e-6, 45.0), (question,))


def test_a_sum_that_cannot_have_digits_is_compared_without() -> None:
    aim = PrivacyTarget(1.0, 1e-6, 10**4, 8.0)
    for question in (Number("delay", 0.0, 60.0, optional=True), Number("delay", 0.0, 60.0, randomizer="unary")):
        (found,) = compare([question], aim, by_digits=True)
        assert all(each.added != "digits" for each in found)
