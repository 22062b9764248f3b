"""Computes a lower bound of ε, with its confidence, from how often an event occurs under two answers.

For every event A of an (ε, δ)-private round, P[A | first] ≤ e^ε·P[A | second] + δ, so

    ε ≥ ln((p − δ)/q)   holds with   p ≥ its Clopper–Pearson lower end, q ≤ its upper end,

each at half the error probability. Score and threshold, which define the event, are chosen on one half of the rounds
and judged on the other half, for which they are fixed: the confidence is that of the two ends. Rounds must be
independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hubbub.deploy.audit.scores import Scores

if TYPE_CHECKING:
    from hubbub.queries.randomizers.randomizer import Counts, Vector

THRESHOLDS = 16
"""Most thresholds that are tried for a score, at evenly spaced quantiles."""


@dataclass(frozen=True)
class Event:
    """An attacker's decision rule: a score `above` a threshold, or up to it, means the first answer or the second.

    Both directions are tried, since broken devices may report the opposite of their answer.
    """

    score: str
    threshold: float
    above: bool = True
    first: bool = True

    @property
    def text(self) -> str:
        """The event in words."""
        side, answer = ("above" if self.above else "at most"), ("first" if self.first else "second")
        return f"{self.score} {side} {self.threshold:.4g} predicts the {answer} answer"


@dataclass(frozen=True)
class AttackResult:
    """The result of an event: how often it occurred under the answer that it predicts and under the other; the least ε.

    `right` and `wrong` are (times seen, rounds).
    """

    event: Event
    right: tuple[int, int]
    wrong: tuple[int, int]
    epsilon: float


def proportion_lower(hits: Counts, trials: Counts | int, level: float) -> Vector:
    """Return Clopper and Pearson's lower end of a proportion: above the truth with probability `level` at most."""
    # A quantile of the beta law. `scipy.stats` has it too, but takes a second to load.
    found = special.betaincinv(np.maximum(hits, 1), trials - hits + 1, level)
    ends: Vector = np.where(hits > 0, found, 0.0)
    return ends


def proportion_upper(hits: Counts, trials: Counts | int, level: float) -> Vector:
    """Return the upper end: it is below the truth with probability `level` at most."""
    found = special.betainccinv(hits + 1, np.maximum(trials - hits, 1), level)
    ends: Vector = np.where(hits < trials, found, 1.0)
    return ends


def epsilon_shown(right: tuple[Counts, int], wrong: tuple[Counts, int], delta: float, error: float) -> Vector:
    """Return the ε that an event shows, or 0: it is above the true ε with probability `error` at most."""
    least, most = proportion_lower(*right, error / 2), proportion_upper(*wrong, error / 2)
    ends: Vector = np.log(np.maximum(least - delta, most) / most)
    return ends


def attack(scores: Scores, delta: float, error: float) -> AttackResult:
    """Choose an event on the first half of the rounds with each answer, and return its result on the other half.

    With fewer than two rounds of an answer there is nothing to choose by, and the result shows nothing.
    """
    if min(np.count_nonzero(scores.is_first), np.count_nonzero(~scores.is_first)) < 2:
        return AttackResult(Event(scores.names[0], 0.0), (0, 0), (0, 0), 0.0)
    half = np.zeros(len(scores.is_first), dtype=bool)
    for answer in (False, True):
        places = np.flatnonzero(scores.is_first == answer)
        half[places[: len(places) // 2]] = True
    event = _chosen(_part(scores, half), delta, error)
    return _judged(_part(scores, ~half), event, delta, error)


def most_visible(rounds: int, delta: float, error: float) -> float:
    """Return the largest ε that this many rounds can show, by an event that is always right and never wrong."""
    judged = rounds // 2 - rounds // 2 // 2
    always, never = np.array([judged]), np.array([0])
    return float(epsilon_shown((always, judged), (never, judged), delta, error)[0])


def rounds_to_show(epsilon: float, delta: float, error: float) -> int:
    """Return how many rounds could show more than ε, if the system hid nothing."""
    rounds = 8
    while most_visible(rounds, delta, error) <= epsilon:
        rounds *= 2
    return rounds


def _part(scores: Scores, kept: NDArray[np.bool_]) -> Scores:
    return Scores(scores.names, scores.values[kept], scores.is_first[kept])


def _chosen(scores: Scores, delta: float, error: float) -> Event:
    """Return the event that shows most. Charged for how many are tried, so that luck among many does not decide.

    Of events that show the same, as nothing, it is the one that is right most often beyond being wrong.
    """
    best, event = (-1.0, -1.0), Event(scores.names[0], 0.0)
    for place, name in enumerate(scores.names):
        values = scores.values[:, place]
        thresholds = _thresholds(values)
        for above, first in product((True, False), repeat=2):
            right, wrong = _seen(values, scores.is_first, thresholds, above, first)
            shown = epsilon_shown(right, wrong, delta, error / len(scores.names))
            beyond = right[0] / right[1] - wrong[0] / wrong[1]
            found = max(zip(shown.tolist(), beyond.tolist(), thresholds.tolist(), strict=True))
            if found[:2] > best:
                best, event = found[:2], Event(name, found[2], above, first)
    return event


def _thresholds(values: Vector) -> Vector:
    """Return thresholds between the values that occur; if there is only one value, that one."""
    distinct = np.unique(values)
    between: Vector = (distinct[1:] + distinct[:-1]) / 2 if len(distinct) > 1 else distinct
    if len(between) <= THRESHOLDS:
        return between
    spread: Vector = between[np.linspace(0, len(between) - 1, THRESHOLDS).round().astype(int)]
    return spread


def _seen(
    values: Vector, is_first: NDArray[np.bool_], thresholds: Vector, above: bool, first: bool
) -> tuple[tuple[Counts, int], tuple[Counts, int]]:
    """Return how often each threshold's event is seen with the answer that it says and with the other, of how many."""
    happened = (values[:, None] > thresholds[None, :]) == above
    says = is_first == first
    right, wrong = happened[says].sum(axis=0), happened[~says].sum(axis=0)
    return (right, int(says.sum())), (wrong, int((~says).sum()))


def _judged(scores: Scores, event: Event, delta: float, error: float) -> AttackResult:
    values = scores.values[:, scores.names.index(event.score)]
    right, wrong = _seen(values, scores.is_first, np.array([event.threshold]), event.above, event.first)
    shown = float(epsilon_shown(right, wrong, delta, error)[0])
    return AttackResult(event, (int(right[0][0]), right[1]), (int(wrong[0][0]), wrong[1]), shown)


def roc(scores: Scores, event: Event) -> tuple[list[float], list[float]]:
    """Return how often each threshold of an event's score is passed, wrongly and rightly, of all rounds: rising."""
    values = scores.values[:, scores.names.index(event.score)]
    thresholds = np.unique(values)
    right, wrong = _seen(values, scores.is_first, thresholds, event.above, event.first)
    # Of one round only one answer was given.
    shares = ((seen / max(rounds, 1)).tolist() for seen, rounds in (wrong, right))
    pairs = sorted(zip(*shares, strict=True))
    return [0.0, *(x for x, _ in pairs), 1.0], [0.0, *(y for _, y in pairs), 1.0]
