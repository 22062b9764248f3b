"""A sum by digits is planned within (ε, δ) and the cap, simulated, and refused where one message is better."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from hubbub.accountant.composition import compose_upper
from hubbub.accountant.pairs import Part
from hubbub.planning.digits import PlannedSum, enough_local
from hubbub.planning.plan import plan
from hubbub.planning.planned import Plan, PlannedQuery, expected_sums, forecast_of, half_width
from hubbub.planning.simulate.dataset import Dataset
from hubbub.planning.simulate.simulate import simulate
from hubbub.protos.errors import TaskError
from hubbub.protos.sealing.envelope import inner_bytes
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.protos.task.draft import MAXIMUM_EPSILON_LOCAL
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question
from support.samples import START, Parties

pytestmark = pytest.mark.usefixtures("composed_once")

DELAY = Number("delay", -30.0, 90.0, "minutes", digits=4)
THEME = Histogram("theme", ("light", "dark"))
REPORTS = 2_000


def draft(*questions: Question, cap: float = 45.0, rounds: int = 1, **changes: Any) -> Draft:
    privacy = Privacy(2.0, 1e-6, cap)
    schedule = Schedule(START, 3600, 60, rounds)
    return replace(Draft("usage", schedule, REPORTS, privacy, questions, noise="always"), **changes)


def sum_of(planned: Plan) -> PlannedSum:
    (found,) = (each for each in planned.asked if isinstance(each, PlannedSum))
    return found


def test_digits_are_queries_of_one_question() -> None:
    planned = plan(draft(THEME, DELAY))
    assert [each.query.name for each in planned.queries] == ["theme", *(f"delay-bit-{place}" for place in range(1, 5))]
    assert [each.name for each in planned.asked] == ["theme", "delay"]
    whole, privacy = sum_of(planned), planned.draft.privacy
    assert whole.planned_for == DELAY.planned_for
    assert [each.digit_of for each in planned.queries] == [None, *[whole] * 4]
    assert [each.query for each in planned.queries[1:]] == list(whole.queries)
    # All of one submission: within the cap, and within (ε, δ) by the noise alone.
    assert sum(each.epsilon_local for each in planned.queries) <= privacy.epsilon_local
    parts = [Part(mechanism, 1) for mechanism in planned.mechanisms]
    assert compose_upper(parts, privacy.delta) <= privacy.epsilon
    assert whole.epsilon_upper <= privacy.epsilon / 2
    # More of everything for the digits that weigh more.
    local = [each.epsilon_local for each in planned.queries[1:]]
    noise = [float(each.query.noise.variance) for each in planned.queries[1:] if each.query.noise is not None]
    assert local == sorted(local, reverse=True)
    assert noise == sorted(noise)
    assert len(noise) == 4
    assert planned.submission_bytes > 5 * inner_bytes(4, DEFAULT)


def test_noise_of_every_shuffler_of_a_chain_is_in_the_error() -> None:
    one, three = (sum_of(plan(draft(DELAY, shufflers=number))) for number in (1, 3))
    assert [query.noise for query in one.queries] == [query.noise for query in three.queries]
    assert [query.shufflers for query in three.queries] == [3] * 4
    weights = [2**place / 15 for place in reversed(range(4))]
    once = sum(
        weight**2 * float(query.noise.variance)
        for weight, query in zip(weights, one.queries, strict=True)
        if query.noise is not None
    )
    more = (three.expected_error**2 - one.expected_error**2) / DELAY.width**2
    gaps = [float(1 - query.randomizer.mechanism.gamma) for query in one.queries]
    assert once * 2 <= more <= once * 2 / min(gaps) ** 2


def test_the_error_is_that_of_the_weighted_digits_and_of_one_rounding() -> None:
    planned = plan(draft(DELAY))
    whole = sum_of(planned)
    digits = [(2 ** (4 - place) / 15 * each.expected_error) ** 2 for place, each in enumerate(planned.queries, 1)]
    assert whole.expected_error == pytest.approx(120 * (sum(digits) + REPORTS / (4 * 15**2)) ** 0.5)
    assert whole.widest == 120 * REPORTS
    (row,) = expected_sums(planned.queries)
    assert row == {
        "name": "delay",
        "digits": [f"delay-bit-{place}" for place in range(1, 5)],
        "epsilon_local": whole.epsilon_local,
        "epsilon_upper": whole.epsilon_upper,
        "planned_for": DELAY.planned_for,
        "expected_standard_error": whole.expected_error,
        "expected_half_width": half_width(whole),
        "range": whole.widest,
    }
    assert all(isinstance(each, PlannedQuery) for each in planned.queries)


def test_a_plan_is_the_same_each_time_and_its_task_is_read_back() -> None:
    planned, again = plan(draft(THEME, DELAY)), plan(draft(THEME, DELAY))
    assert planned == again
    task = planned.task(Parties.generate().public)
    assert SignedTask.decode(SignedTask(task).encode()).task == task
    assert [each.name for each in task.asked] == ["theme", "delay"]


def test_rounds_keep_their_total() -> None:
    privacy = Privacy(2.0, 1e-6, 45.0, epsilon_total=3.0)
    planned = plan(draft(DELAY, rounds=2, privacy=privacy))
    assert forecast_of(planned).within == 2
    assert forecast_of(planned).epsilon_of_all <= 3.0


def test_auto_noise_keeps_the_noise_of_digits() -> None:
    planned = plan(draft(DELAY, noise="auto"))
    assert all(each.query.noise is not None for each in planned.queries)


def test_an_error_may_be_stated_for_the_sum() -> None:
    """The least ε up to the draft's: that of the number, not of a digit."""
    own = sum_of(plan(draft(DELAY))).expected_error
    planned = plan(draft(DELAY, errors=(("delay", 1.5 * own),)))
    assert planned.draft.privacy.epsilon < 2.0
    assert own < sum_of(planned).expected_error <= 1.5 * own


# tests/cli/test_digits.py: `test_plan_refuses_digits_that_are_worth_nothing`.
@pytest.mark.exhaustive
def test_a_cap_that_does_not_pay_is_refused_with_one_that_does() -> None:
    with pytest.raises(
        TaskError, match=r"delay: by 4 digits its expected standard error is .* in one message"
    ) as caught:
        plan(draft(DELAY, cap=8.0))
    found = re.search(r"set epsilon_local = (\d+) or more", str(caught.value))
    assert found is not None
    cap = float(found[1])
    assert "if shuffler and analyzer collude" in str(caught.value)
    plan(draft(DELAY, cap=cap))
    # It is at most a little more than what pays: noise for a cap of its own is a little less.
    with pytest.raises(TaskError, match="by 4 digits"):
        plan(draft(DELAY, cap=cap - 3))


def test_where_no_cap_pays_that_is_said() -> None:
    # One digit of a number is two steps, as one message of two levels may be.
    assert enough_local(8.0, lambda _: False) is None
    assert enough_local(float(MAXIMUM_EPSILON_LOCAL), lambda _: True) is None
    assert enough_local(8.0, lambda cap: cap >= 31.0) == 31
    assert enough_local(8.5, lambda _: True) == 9
    with pytest.raises(TaskError, match="delay: its 4 digits cannot be planned: no noise with a reach of at most"):
        plan(draft(DELAY, privacy=Privacy(1e-5, 1e-6, 45.0)))


def test_digits_that_round_too_much_are_refused_with_the_remedy_of_more() -> None:
    """One digit rounds to an end of the range: no cap makes that smaller, but more digits do."""
    with pytest.raises(TaskError, match="as most of the error is rounding: use more digits or none"):
        plan(draft(replace(DELAY, digits=1)))


def test_a_simulation_rounds_once_and_compares_the_sum_with_the_truth() -> None:
    answers = [float(place % 120 - 30) for place in range(REPORTS)]
    themes = ["light" if place % 3 else "dark" for place in range(REPORTS)]
    dataset = Dataset("usage", (DELAY, THEME), pa.table({"delay": answers, "theme": themes}))
    drawn: list[int] = []
    document = simulate(plan(draft(DELAY, THEME)), dataset, drawn.append)
    assert sum(drawn) == 5 * REPORTS
    (found,) = document["sums"]
    assert [each["name"] for each in document["queries"]] == [*found["queries"], "theme"]
    assert document["expected_sums"][0]["name"] == found["name"] == "delay"
    total, mean = found["estimates"]
    assert (total["statistic"], total["truth"], mean["statistic"]) == ("sum", sum(answers), "mean")
    # Beyond twelve standard errors with TWELVE: geometric noise is most of the error.
    assert abs(total["error_in_standard_errors"]) < 12
    assert found["clipped_to"] == [-30.0, 90.0]
    # Of the queries for digits nothing is compared, as what they were rounded to is drawn.
    assert all(not each["estimates"] for each in document["queries"][:4])
    assert document["privacy"]["round_total"]["epsilon_upper"] <= 2.0
    few = simulate(plan(draft(DELAY, THEME)), dataset.taken(lambda table: table.slice(0, 100)), drawn.append)
    assert few["sums"][0]["state"] == "withheld"
