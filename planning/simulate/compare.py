"""Runs a question's column through several randomizers, and compares the observed errors with the promised ones.

Every report is drawn as a device draws it, and counted and estimated as the analyzer does. Only the promised errors
come from a formula. Each randomizer is planned anew for each number of reports, at the same (ε, δ). The people of a
round are drawn from the column without replacement, and the truth is that of these people.

How far may the observed errors be from the promised ones? Over R rounds the mean of (error / promised)² is about
χ²_R / R if all errors of a round move together, and nearer to 1 otherwise. So a true promise is marked with a chance of
at most about `FALSE_ALARM`. A promise that is wrong by half is detected from about 50 rounds on.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from scipy import special

from hubbub.accountant.calibration.calibrate import calibrate
from hubbub.accountant.errors import AccountingError
from hubbub.planning.planned import randomizer_words
from hubbub.planning.simulate.simulate import estimates_of, tally_of, tally_of_dummies, whole_round
from hubbub.planning.simulate.truth import compare
from hubbub.protos.errors import TaskError
from hubbub.protos.records.results import QueryResult, QueryState
from hubbub.protos.task.task import Privacy
from hubbub.queries.design import Design
from hubbub.queries.errors import FieldError
from hubbub.queries.query import Query
from hubbub.queries.questions.question import Question, Value
from hubbub.queries.randomizers.sampling import Random

COVERAGE = 0.95
"""The promised chance that an interval contains the truth."""

FALSE_ALARM = 0.001
"""The chance that one statistic is marked, for its error or its coverage, though its randomizer is as promised."""

POOL_BYTES = 2**16
"""Random bytes requested at once: a call to the operating system for every draw would take most of the time."""


class Pool:
    """Random bytes that are read from their source in blocks; each byte is given out once."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._block, self._place = b"", 0

    def __call__(self, count: int) -> bytes:
        """Return `count` bytes."""
        end = self._place + count
        if end > len(self._block):
            self._block, self._place, end = self._random(max(POOL_BYTES, count)), 0, count
        drawn, self._place = self._block[self._place : end], end
        return drawn


@dataclass(frozen=True)
class Contender:
    """A randomizer, or a strategy, as planned for a number of reports.

    If it cannot be planned, `why_not` is the reason. `parameters` are for people to read. A strategy of many rounds has
    no `query`.
    """

    randomizer: str
    reports: int
    query: Query | None = None
    epsilon_local: float | None = None
    epsilon_upper: float | None = None
    planned: float | None = None
    why_not: str | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)


@dataclass
class SimulatedErrors:
    """For each round, a statistic's mean squared error, the promised one, and the share of intervals with the truth."""

    errors: list[float] = field(default_factory=list)
    promises: list[float] = field(default_factory=list)
    covered: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class ObservedStatistic:
    """The errors of one statistic of a contender, over all of its categories and all rounds.

    `promised` is the root mean square of the stated standard errors, `seen` that of the errors. `coverage` is the share
    of intervals that contain the truth. `verdict` is "agrees", "larger" or "smaller" for the observed error, or "rarer"
    if too few intervals contain the truth.
    """

    statistic: str
    promised: float | None
    seen: float
    coverage: float
    verdict: str


@dataclass(frozen=True)
class RandomizerComparison:
    """A contender and its observed statistics; there are none if it cannot be planned."""

    contender: Contender
    seen: tuple[ObservedStatistic, ...] = ()


def contenders(question: Question, kinds: Sequence[str], sizes: Sequence[int], privacy: Privacy) -> list[Contender]:
    """Return each kind of randomizer planned for each number of reports, as if a round asked this question alone."""
    return [_planned(question, kind, reports, privacy) for kind in kinds for reports in sizes]


def _planned(question: Question, kind: str, reports: int, privacy: Privacy) -> Contender:
    # Every question is a frozen dataclass that names its randomizer (`queries.questions.question`).
    design = Design(cast(Question, replace(cast(Any, question), randomizer=kind)))
    try:
        design.question.check("query")
        (chosen,) = calibrate(
            [design],
            privacy.epsilon,
            privacy.delta,
            reports,
            epsilon_local_cap=privacy.epsilon_local,
            honest_share=privacy.honest_share,
            dummies=privacy.dummies,
        )
    except (AccountingError, TaskError, FieldError) as error:
        return Contender(kind, reports, why_not=str(error))
    query = design.query(chosen.size, chosen.randomizer)
    planned = chosen.expected_standard_error * question.extent
    words = randomizer_words(query)
    return Contender(kind, reports, query, chosen.epsilon_local, chosen.epsilon_upper, planned, parameters=words)


def run(
    contender: Contender,
    values: Sequence[Value],
    repeat: int,
    dummies: int,
    progress: Callable[[int], None],
    random: Random = os.urandom,
) -> RandomizerComparison:
    """Run `repeat` rounds of a contender over `values`, a column with at least as many rows as it has reports.

    `progress` is called with the number of devices after every thousand devices.

    Raises:
        AnswerError: if a value does not fit the question.
    """
    if contender.query is None:
        return RandomizerComparison(contender)
    pool, chooser = Pool(random), np.random.default_rng(int.from_bytes(random(32), "big"))
    tried: dict[str, SimulatedErrors] = {}
    for _ in range(repeat):
        rows = chooser.choice(len(values), size=contender.reports, replace=False)
        _round(contender.query, [values[row] for row in rows.tolist()], dummies, progress, pool, tried)
    return RandomizerComparison(
        contender, tuple(observed_statistic(statistic, each) for statistic, each in tried.items())
    )


def _round(
    query: Query,
    answers: Sequence[Value],
    dummies: int,
    progress: Callable[[int], None],
    random: Random,
    tried: dict[str, SimulatedErrors],
) -> None:
    """Run one round, and add its errors to `tried`, by statistic."""
    people = tally_of(query, answers, progress, random, whole_round(query))
    of_dummies, added = tally_of_dummies(query, dummies, random)
    counted = people + of_dummies
    truth = query.question.truth(answers)
    estimates = estimates_of(query, counted, added, truth)
    result = QueryResult(query.name, QueryState.PUBLISHED, people.valid, people.valid, {}, estimates)
    lines = compare(result, truth, query.question.optional)
    for statistic in dict.fromkeys(line.row.statistic for line in lines):
        some = [line for line in lines if line.row.statistic == statistic]
        found = tried.setdefault(statistic, SimulatedErrors())
        found.errors.append(_mean((line.estimate.value - line.truth) ** 2 for line in some))
        if all(line.estimate.standard_error is not None for line in some):
            found.promises.append(_mean((line.estimate.standard_error or 0.0) ** 2 for line in some))
        found.covered.append(_mean(float(line.estimate.lower <= line.truth <= line.estimate.upper) for line in some))


def observed_statistic(statistic: str, tried: SimulatedErrors) -> ObservedStatistic:
    """Return a statistic's errors and its verdict, over all rounds that were run."""
    seen, coverage, rounds = math.sqrt(_mean(tried.errors)), _mean(tried.covered), len(tried.errors)
    promised = math.sqrt(_mean(tried.promises)) if len(tried.promises) == rounds else None
    return ObservedStatistic(statistic, promised, seen, coverage, verdict(promised, seen, coverage, rounds))


def verdict(promised: float | None, seen: float, coverage: float, rounds: int) -> str:
    """Return whether the observed errors over `rounds` rounds agree with the promised ones (`FALSE_ALARM`)."""
    low, high = tolerance(rounds)
    if promised is not None and seen > high * promised:
        return "larger"
    if coverage < least_coverage(rounds):
        return "rarer"
    return "smaller" if promised is not None and seen < low * promised else "agrees"


def tolerance(rounds: int) -> tuple[float, float]:
    """Return the least and the largest ratio of the observed error to the promised one that are not marked."""
    # Quantiles of χ². `scipy.stats` has them too, but takes a second to load.
    low, high = 2 * special.gammaincinv(rounds / 2, [FALSE_ALARM / 2, 1 - FALSE_ALARM / 2])
    return math.sqrt(low / rounds), math.sqrt(high / rounds)


def least_coverage(rounds: int) -> float:
    """Return the least share of intervals with the truth that is not marked."""
    within = special.bdtr(np.arange(rounds + 1), rounds, COVERAGE)
    return int(np.searchsorted(within, FALSE_ALARM)) / rounds


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return math.fsum(found) / len(found) if found else 0.0
