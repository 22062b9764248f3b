"""Intervals are exact, events are chosen and judged on different rounds, and find what is there."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
from scipy import stats

from hubbub.deploy.audit.inference import (
    attack,
    epsilon_shown,
    most_visible,
    proportion_lower,
    proportion_upper,
    roc,
    rounds_to_show,
)
from hubbub.deploy.audit.scores import Scores

LEVEL = 0.01


@pytest.mark.parametrize("chance", [0.0, 0.02, 0.3, 0.5, 0.9, 1.0])
def test_both_ends_hold_with_their_confidence(chance: float) -> None:
    """Summed over all outcomes: the probability that an end is on the wrong side of the truth is at most its level."""
    trials = 40
    seen = np.arange(trials + 1)
    masses = stats.binom.pmf(seen, trials, chance)
    assert masses[proportion_lower(seen, trials, LEVEL) > chance].sum() <= LEVEL
    assert masses[proportion_upper(seen, trials, LEVEL) < chance].sum() <= LEVEL


def test_ends_are_those_of_scipy() -> None:
    found = stats.binomtest(17, 40).proportion_ci(1 - 2 * LEVEL, method="exact")
    assert proportion_lower(np.array([17]), 40, LEVEL)[0] == pytest.approx(found.low)
    assert proportion_upper(np.array([17]), 40, LEVEL)[0] == pytest.approx(found.high)


@pytest.mark.parametrize(("epsilon", "delta", "wrong"), [(0.5, 0.02, 0.1), (1.0, 0.0, 0.3), (2.0, 0.1, 0.05)])
def test_an_event_that_is_private_is_accused_with_the_error_at_most(epsilon: float, delta: float, wrong: float) -> None:
    """The event of the largest rates that (ε, δ) allows, summed over all outcomes of 50 rounds with each answer."""
    right, trials = exp(epsilon) * wrong + delta, 50
    seen = np.arange(trials + 1)
    accused = 0.0
    for hits, mass in zip(seen, stats.binom.pmf(seen, trials, right), strict=True):
        shown = epsilon_shown((np.full(trials + 1, hits), trials), (seen, trials), delta, 0.05)
        accused += mass * stats.binom.pmf(seen, trials, wrong)[shown > epsilon].sum()
    assert 0 < accused <= 0.05


def scores(rounds: int, *columns: np.ndarray) -> Scores:
    is_first = np.arange(rounds) % 2 == 0
    return Scores(tuple(f"score {place}" for place in range(len(columns))), np.array(columns).T, is_first)


def test_the_telling_score_is_found_among_many() -> None:
    rounds, generator = 200, np.random.default_rng(1)
    noise = [generator.normal(size=rounds) for _ in range(30)]
    distinct_answers = np.where(np.arange(rounds) % 2 == 0, 1.0, -1.0)
    found = attack(scores(rounds, *noise, distinct_answers), 0.0, 0.001)
    assert found.event.score == "score 30"
    assert (found.right, found.wrong) == ((50, 50), (0, 50))
    assert found.epsilon == pytest.approx(most_visible(rounds, 0.0, 0.001))
    assert found.event.text == "score 30 above 0 predicts the first answer"


def test_a_score_that_is_low_for_the_first_answer_tells_as_much() -> None:
    distinct_answers = np.where(np.arange(100) % 2 == 0, -1.0, 1.0)
    found = attack(scores(100, distinct_answers), 0.0, 0.01)
    assert found.epsilon > 0.5
    assert found.event.above != found.event.first


def test_what_is_chosen_on_one_half_is_judged_on_the_other() -> None:
    """A score that tells in the first half only shows nothing: 50 rounds to choose by, 50 that are constant."""
    rounds = 100
    distinct_answers = np.where(np.arange(rounds) % 2 == 0, 1.0, -1.0)
    distinct_answers[rounds // 2 :] = 0.0
    assert attack(scores(rounds, distinct_answers), 0.0, 0.01).epsilon == 0.0


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_too_few_rounds_show_nothing(rounds: int) -> None:
    seen = scores(rounds, np.arange(float(rounds)))
    found = attack(seen, 0.01, 0.01)
    assert found.epsilon == 0.0
    assert roc(seen, found.event)[0][-1] == 1.0


def test_nothing_seen_shows_nothing() -> None:
    assert attack(scores(40, np.zeros(40)), 0.01, 0.01).epsilon == 0.0


def test_noise_is_accused_with_the_error_at_most() -> None:
    """100 audits of scores that say nothing, at ε = 0: a hundredth may be accused, and 10 of them once in 10⁶."""
    generator = np.random.default_rng(2)
    audits = [scores(60, *(generator.normal(size=60) for _ in range(5))) for _ in range(100)]
    assert sum(attack(each, 0.0, 0.01).epsilon > 0 for each in audits) < 10


def test_rounds_that_are_asked_for_suffice() -> None:
    for epsilon in (0.3, 1.0, 3.0):
        rounds = rounds_to_show(epsilon, 1e-6, 0.001)
        assert most_visible(rounds, 1e-6, 0.001) > epsilon >= most_visible(rounds // 2, 1e-6, 0.001)


def test_a_curve_rises_from_nothing_to_everything() -> None:
    distinct_answers = np.where(np.arange(100) % 2 == 0, 1.0, -1.0)
    wrong, right = roc(scores(100, distinct_answers), attack(scores(100, distinct_answers), 0.0, 0.01).event)
    assert (wrong[0], right[0], wrong[-1], right[-1]) == (0.0, 0.0, 1.0, 1.0)
    assert wrong == sorted(wrong)
    assert right == sorted(right)
