"""A question over time is planned over all rounds: the strategy with the least error, within every limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scipy import stats

from hubbub.deploy.commands.plan import _print
from hubbub.deploy.goals import Goal
from hubbub.deploy.horizons import candidates, chosen
from hubbub.deploy.planning import expected_errors, outlook_of, plan, randomizer_words
from hubbub.protos.draft import read_draft
from hubbub.protos.errors import TaskError
from hubbub.protos.signed_task import SignedTask, read_task
from hubbub.protos.task import Draft, Task, task_content
from hubbub.queries.longitudinal.question import Longitudinal
from support.samples import Parties

DRAFT = """
[task]
name = "fleet"
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


@pytest.mark.slow
def test_a_plan_takes_the_least_error_and_keeps_within_the_budget_of_all_rounds() -> None:
    planned = plan(drafted())
    (query,) = planned.queries
    errors = {each.name: each.standard_error_mean for each in query.strategies}
    assert set(errors) == {"direct", "vector", "sampled", "tree"}
    assert query.query.question.content()["strategy"] == min(errors, key=lambda name: errors[name])
    outlook = outlook_of(planned)
    assert (outlook.rounds, outlook.within) == (8, 8)
    assert outlook.epsilon_of_all <= 2
    (document,) = expected_errors(planned.queries)
    assert document["chosen"] == query.query.question.content()["strategy"]
    told = {each["strategy"]: each for each in document["strategies"]}  # type: ignore[attr-defined]
    assert told["tree"]["why_not"] is None
    for name in ("vector", "sampled"):
        assert not told[name]["applies"]
        assert "say steady_share in the query" in told[name]["why_not"]


@pytest.mark.parametrize(
    "way", [*(pytest.param(way, marks=pytest.mark.slow) for way in ("direct", "tree")), "vector", "sampled"]
)
def test_a_planned_task_is_read_as_it_was_written(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    planned = plan(drafted(strategy=f'"{way}"', steady_share="0.5"))
    task = planned.task(Parties.generate().public)
    assert read_task(task_content(task)).id == task.id
    assert SignedTask.decode(SignedTask(task).encode()).task == task
    assert task.horizon == 8
    found = planned.queries[0]
    assert randomizer_words(found.query)["randomizer"] == way
    _print(planned, outlook_of(planned), None)
    assert f"active: {way}" in capsys.readouterr().out
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


@pytest.mark.parametrize(
    "way",
    [pytest.param("direct", marks=pytest.mark.slow), "vector", "sampled", pytest.param("tree", marks=pytest.mark.slow)],
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
        ({"changes": "9"}, "changes"),
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
    unstated = {each.name: each for each in candidates(question, 8, goal(local=2.0, epsilon=0.0))}
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
