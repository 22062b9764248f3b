"""A longitudinal question is planned over all rounds: the strategy with the least error, within every limit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from scipy import stats

from hubbub.accountant.bounds import epsilon_upper
from hubbub.accountant.calibration.noise import NOISE_WORTH
from hubbub.accountant.composition import compose_upper
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import NoiseLaw, WithNoise, one_round, paid_rounds
from hubbub.accountant.mechanisms.longitudinal import Horizon
from hubbub.accountant.pairs import Part
from hubbub.cli.tables.plan import Compared, print_plan
from hubbub.cli.terminal.output import console
from hubbub.planning.longitudinal.goals import Goal
from hubbub.planning.longitudinal.plan import StrategyTargets, candidates, chosen, compare_strategies
from hubbub.planning.plan import plan
from hubbub.planning.planned import expected_errors, forecast_of, randomizer_words
from hubbub.protos.errors import TaskError
from hubbub.protos.task.draft import read_draft
from hubbub.protos.task.signed_task import SignedTask, read_task
from hubbub.protos.task.task import Draft, Task, task_content
from hubbub.queries.longitudinal.question import Longitudinal
from support.messages import NO_NOISE
from support.samples import Parties

DRAFT = """
[task]
name = "capacity"
start = 2026-01-01T00:00:00Z
length = "7d"
grace = "1d"
rounds = 8
minimum_reports = 20_000

[privacy]
epsilon = 1
delta = 1e-6
epsilon_total = 2

[[query]]
name = "active"
kind = "longitudinal"
changes = 2
"""


def drafted(**changes: str) -> Any:
    lines = "".join(f"{name} = {value}\n" for name, value in changes.items())
    return read_draft(DRAFT + lines)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("way", ["direct", "tree", "auto"])
def test_noise_that_is_always_asked_for_keeps_within_epsilon_alone(way: str) -> None:
    planned = plan(replace(drafted(strategy=f'"{way}"'), noise="always"))
    (query,) = planned.queries
    beside = query.query.mechanism
    assert isinstance(beside, WithNoise)
    assert query.query.noise == beside.noise
    units = paid_rounds(beside, 8)
    alone = compose_upper([Part(beside, 1, units)], 1e-6)
    assert query.epsilon_upper == alone <= 2
    assert epsilon_upper(one_round(beside), 1, 1e-6) <= 1
    # The noise is no larger than need be.
    smaller = NoiseLaw(beside.noise.family, int(beside.noise.parameter * 0.97), beside.noise.reach)
    assert compose_upper([Part(WithNoise(beside.randomizer, smaller), 1, units)], 1e-6) > 2
    assert query.epsilon_local <= 8
    task = planned.task(Parties.generate().public)
    assert read_task(task_content(task)).queries == task.queries
    assert SignedTask.decode(SignedTask(task).encode()).task == task
    told = {each.name: each for each in query.strategies}
    if way == "auto":
        assert f"it {NO_NOISE}, only direct and tree do" in str(told["vector"].why_not)
        assert told["sampled"].sending is None
    (document,) = expected_errors(planned.queries)
    assert document["noise"] == beside.noise.content()


def test_a_strategy_that_takes_no_noise_is_refused_if_noise_is_always_asked_for() -> None:
    with pytest.raises(TaskError, match=rf"vector: it {NO_NOISE}, only direct and tree do"):
        plan(replace(drafted(strategy='"vector"', steady_share="1.0"), noise="always"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("changes", "reports", "cap"), [(1, 10_000, 100.0), (4, 10**6, None), (4, 10**6, 600.0)])
def test_noise_is_worth_a_few_percent_of_error(changes: int, reports: int, cap: float | None) -> None:
    wanted = over_all(64, changes, reports, cap)
    found = {
        noise: compare_strategies(replace(wanted, noise=noise), ["direct", "tree"])
        for noise in ("none", "auto", "always")
    }
    for plain, auto, noisy in zip(*found.values(), strict=True):
        assert plain.noise is None
        assert noisy.noise is not None
        worth = noisy.standard_error_mean <= NOISE_WORTH * plain.standard_error_mean
        assert auto == (noisy if worth else plain)
        for each in (plain, auto, noisy):
            assert each.sending is not None
            assert 0 < (each.epsilon_upper or 0.0) <= 1.0
            assert (each.epsilon_local or 0.0) <= (cap or math.inf)


def test_direct_beside_noise_has_a_smaller_error_than_without_it_where_the_cap_allows() -> None:
    """34.08 without noise, at a local ε of 433; the noise alone has 33.81. Of the tree, who changes adds nothing."""
    direct, tree = compare_strategies(replace(over_all(64, 4), noise="always"), ["direct", "tree"])
    assert direct.standard_error_mean == pytest.approx(33.81, rel=1e-3)
    assert tree.standard_error_mean == pytest.approx(60.9, rel=2e-3)
    assert tree.standard_error_changing < 1.01 * tree.standard_error_largest
    plain, _ = compare_strategies(over_all(64, 4), ["direct", "tree"])
    assert direct.standard_error_mean < plain.standard_error_mean


def test_noise_is_one_of_three_words() -> None:
    with pytest.raises(AccountingError, match="noise is 'some'; give one of none, auto, always"):
        StrategyTargets.of(Horizon(4, 2), Goal.over_all(1.0, 1e-6, 50), noise="some")  # type: ignore[arg-type]


def test_one_round_by_itself_may_ask_for_more_noise_than_all_rounds() -> None:
    tight = goal(epsilon=20.0, round_epsilon=0.5, local=60.0, round_local=60.0)
    (found,) = candidates(Longitudinal("active", 2, "tree"), 2, tight, "always")
    assert found.sending is not None
    assert found.noise is not None
    beside = WithNoise(found.sending.mechanism, found.noise)
    assert epsilon_upper(one_round(beside), 1, 1e-6) <= 0.5
    assert (found.epsilon_upper or 0.0) < 2


def test_a_plan_takes_the_least_error_and_keeps_within_the_budget_of_all_rounds() -> None:
    planned = plan(drafted())
    (query,) = planned.queries
    errors = {each.name: each.standard_error_mean for each in query.strategies}
    assert set(errors) == {"direct", "vector", "sampled", "tree"}
    assert query.query.question.content()["strategy"] == min(errors, key=lambda name: errors[name])
    outlook = forecast_of(planned)
    assert (outlook.rounds, outlook.within) == (8, 8)
    assert outlook.epsilon_of_all <= 2
    (document,) = expected_errors(planned.queries)
    assert document["chosen"] == query.query.question.content()["strategy"]
    told = {each["strategy"]: each for each in document["strategies"]}  # type: ignore[attr-defined]
    assert told["tree"]["why_not"] is None
    for name in ("vector", "sampled"):
        assert not told[name]["applies"]
        assert "steady_share in a task's query, or --steady-share of a command" in told[name]["why_not"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", ["direct", "tree", "vector", "sampled"])
def test_a_planned_task_is_read_as_it_was_written(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    planned = plan(drafted(strategy=f'"{way}"', steady_share="0.5"))
    task = planned.task(Parties.generate().public)
    assert read_task(task_content(task)).id == task.id
    assert SignedTask.decode(SignedTask(task).encode()).task == task
    assert task.horizon == 8
    found = planned.queries[0]
    assert randomizer_words(found.query)["randomizer"] == way
    print_plan(console(), planned, forecast_of(planned), Compared({}, ()), explain=True)
    assert f"active: randomizer {way}" in capsys.readouterr().out
    assert found.epsilon_local <= 8
    assert found.epsilon_upper <= 2


def frozen(draft: Draft) -> Task:
    return plan(draft).task(Parties.generate().public)


def goal(**changes: float) -> Goal:
    terms = plan_terms()
    numbers = {"epsilon": 2.0, "local": 8.0, "round_epsilon": 1.0, "round_local": 8.0, "delta": 1e-6} | changes
    return Goal(terms, **numbers)


def plan_terms() -> Any:
    from hubbub.accountant.certificate.terms import Terms

    return Terms.of(drafted())


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "way",
    ["direct", "vector", "sampled", "tree"],
)
def test_every_limit_is_kept_and_one_is_used_up(way: str) -> None:
    question = Longitudinal("active", 2, way, steady_share=1.0)
    for limits in ({}, {"local": 2.0}, {"round_local": 0.5}, {"epsilon": 0.1}):
        wanted = goal(**limits)
        best = chosen(candidates(question, 8, wanted))
        assert best.sending is not None
        assert wanted.holds(best.sending.mechanism, 8)
        assert best.epsilon_local is not None
        assert best.epsilon_upper is not None
        assert best.epsilon_local <= wanted.local
        assert best.epsilon_upper <= wanted.epsilon
    loose, tight = (chosen(candidates(question, 8, goal(local=local))) for local in (8.0, 2.0))
    assert loose.standard_error_mean < tight.standard_error_mean


def test_fewer_who_are_steady_hide_less() -> None:
    question = Longitudinal("active", 2, "vector")
    every, some = (
        chosen(candidates(replace(question, steady_share=share), 8, goal(local=20.0))) for share in (1.0, 0.1)
    )
    assert some.standard_error_mean > every.standard_error_mean


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"changes": "9"}, r"line 18: query\[0\].changes is 9; the task has 8 rounds, and a state"),
        ({"strategy": '"oak"'}, "strategy is 'oak'; it must be 'auto' or 'direct'"),
        ({"optional": "true"}, "optional is given"),
        ({"steady_share": "0"}, "steady_share"),
        ({"strategy": '"vector"'}, "steady_share is missing, and strategy 'vector' is certified by the people of one"),
        ({"strategy": '"sampled"'}, "steady_share is missing, and strategy 'sampled' is certified by the people of"),
        ({"epsilon_local": "0"}, "epsilon_local"),
        ({"randomizer": '"krr"'}, "randomizer is given"),
    ],
)
def test_a_draft_that_cannot_be_asked_says_why(changes: dict[str, str], told: str) -> None:
    text = DRAFT.replace("changes = 2\n", "") if "changes" in changes else DRAFT
    with pytest.raises(TaskError, match=told):
        plan(read_draft(text + "".join(f"{name} = {value}\n" for name, value in changes.items())))


@pytest.mark.parametrize("strategy", ["vector", "sampled"])
def test_a_task_that_counts_on_more_people_than_there_are_is_refused(strategy: str) -> None:
    draft = read_draft(DRAFT.replace("20_000", "2_000") + f'strategy = "{strategy}"\nsteady_share = 0.5\n')
    task = frozen(draft)
    steady = int(task.queries[0].content()["steady"])
    # Of 1,000 people over 4 levels: with a chance of at most 1e-9, and not of much less, fewer others have one's own.
    assert stats.binom.cdf(steady - 2, 999, 0.25) <= 1e-9
    assert stats.binom.cdf(steady - 1, 999, 0.25) > 1e-13
    content = task_content(task)
    assert read_task(content).queries == task.queries
    content["queries"][0]["steady"] = steady + 1
    with pytest.raises(TaskError, match=rf"steady is {steady + 1}; of 2000 honest people .* at most {steady}"):
        read_task(content)
    content["queries"][0] |= {"steady": 1, "steady_share": None}
    with pytest.raises(TaskError, match=f"steady_share is missing, and strategy '{strategy}'"):
        read_task(content)


def test_who_is_steady_is_stated_and_never_assumed() -> None:
    question = Longitudinal("active", 2)
    unstated = {each.name: each for each in candidates(question, 8, goal(local=1e-9))}
    assert [name for name, each in unstated.items() if "steady_share" in str(each.why_not)] == ["vector", "sampled"]
    stated = candidates(replace(question, strategy="vector", steady_share=0.5), 8, goal())
    assert chosen(stated).sending is not None


def test_a_cap_of_the_question_s_own_holds_of_a_task_that_is_read() -> None:
    content = task_content(
        frozen(read_draft(DRAFT.replace("20_000", "2_000") + 'strategy = "vector"\nsteady_share = 1\n'))
    )
    content["queries"][0]["epsilon_local"] = 0.01
    with pytest.raises(TaskError, match=r"epsilon_local is 0.01; the strategy's over all rounds is"):
        read_task(content)


# All rounds together, as `hubbub account longitudinal` asks


def over_all(
    periods: int,
    changes: int,
    reports: int = 10**6,
    cap: float | None = None,
    changing: float = 0.0,
    delta: float = 1e-6,
) -> StrategyTargets:
    return StrategyTargets.of(Horizon(periods, changes), Goal.over_all(1.0, delta, reports, cap), 1.0, changing)


def errors(wanted: StrategyTargets) -> dict[str, float]:
    found = compare_strategies(wanted)
    for each in found:
        assert each.sending is not None, each.why_not
        assert 0.99 < (each.epsilon_upper or 0.0) <= 1.0
        assert wanted.goal.holds(each.sending.mechanism, wanted.horizon.periods)
    return {each.name: each.standard_error_mean for each in found}


def test_errors_of_64_periods_and_4_changes_are_the_references_and_the_goal() -> None:
    """kRR of −1, 0 and 1 at every node of the tree has 91.7; the goal for a blanket heavier on 0 was 74."""
    found = errors(over_all(64, 4))
    assert found["direct"] == pytest.approx(34.2, rel=0.01)
    assert found["tree"] == pytest.approx(61.9, rel=0.002)
    assert found["vector"] == pytest.approx(4516, rel=0.01)
    # The paper's floor, at any ε: k·√(levels·m·n) in the mean over the periods.
    floor = sum(4 * math.sqrt(7 * period.bit_count() * 1e6) for period in range(1, 65)) / 64
    assert floor <= found["sampled"] <= 1.01 * floor


def test_errors_of_1024_periods_and_1_change_are_the_references_and_the_goal() -> None:
    """kRR of −1, 0 and 1 at every node has 86.6; the goal was 66. A boolean that changes once never falls."""
    wanted = over_all(1024, 1)
    found = errors(wanted)
    assert found["direct"] == pytest.approx(136, rel=0.01)
    assert found["tree"] == pytest.approx(42.6, rel=0.005)
    assert found["sampled"] == pytest.approx(7321, rel=0.01)
    assert min(found, key=lambda name: found[name]) == "tree"


def test_a_cap_on_the_local_epsilon_is_kept_and_used_up_by_every_strategy() -> None:
    for each in compare_strategies(over_all(4, 2, 10_000, cap=2.0)):
        assert each.epsilon_local is not None
        assert 1.99 <= each.epsilon_local <= 2.0
        strategy: Any = each.sending.strategy  # type: ignore[union-attr]
        assert strategy.epsilon_local() == pytest.approx(each.epsilon_local)


def test_errors_are_stated_and_the_trees_noise_is_chosen_for_who_changes() -> None:
    still, busy = (compare_strategies(over_all(4, 1, 100_000, changing=share), ["tree"])[0] for share in (0.0, 0.5))
    assert still.sending is not None
    each_half = max(still.sending.strategy.variance(t, 100_000, 0, 50_000 * t.bit_count()) for t in range(1, 5))
    assert busy.standard_error_largest**2 < each_half
    assert busy.standard_error_largest <= busy.standard_error_changing


def test_what_cannot_be_asked_over_all_rounds_says_why() -> None:
    (found,) = compare_strategies(over_all(4, 2, 50, delta=1e-22), ["tree"])
    assert found.as_json()["standard_error_mean"] is None
    assert "delta is 1e-22, but tree needs at least 1e-20" in str(found.why_not)
    (tight,) = compare_strategies(over_all(4, 2, 50, cap=1e-12), ["direct"])
    assert (
        "no amount of noise keeps within epsilon 1 and epsilon_local 1e-12 over 4 rounds at 50 honest reports"
        in str(tight.why_not)
    )
    for wrong, told in (({"changing": 2.0}, "changing is 2.0"), ({"steady_share": 0.0}, "steady_share is 0.0")):
        with pytest.raises(AccountingError, match=told):
            StrategyTargets.of(Horizon(4, 2), Goal.over_all(1.0, 1e-6, 50), **wrong)


def test_one_round_is_kept_within_what_is_asked_of_it() -> None:
    """Two rounds may cost 2 together and each 0.3 by itself: then the round is what decides."""
    tight = goal(epsilon=2.0, round_epsilon=0.03, local=40.0, round_local=40.0)
    (found,) = candidates(Longitudinal("active", 2, "direct"), 2, tight)
    assert found.sending is not None
    assert 0.029 < tight.reached_alone(found.sending.mechanism) <= 0.03
    assert tight.reached(found.sending.mechanism, 2) < 1
