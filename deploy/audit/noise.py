"""Compares the noise in the rounds of an audit with its law: a shuffler that draws too little is seen by its counts.

The count of symbol j in a batch is z_j + b_j: the draw, and the people's reports. Given the people's reports, the draws
are independent, and their law is symmetric around its reach ν and falls on both sides. So for every b_j, whole number c
and distance t,

    P[|z_j + b_j − c| > t] ≥ P[|z_j − ν| > t],

because the draws that end within t of c are 2t + 1 neighboring numbers, and no such numbers are more probable than the
middle ones. So the number of counts that are far from c is, in distribution, at least a binomial with the probability
on the right, for any answers and any randomizer. If it is too small for that binomial, the draws do not follow the law.

The mean of people's reports, by their answers, is subtracted from the counts; it does not depend on the draws. The
center c is the one with the fewest far counts, of as many as the law has values. Each of them has its share of the
error. So draws that are too close together are seen wherever they are, as all zeros are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, NoiseLaw
from hubbub.deploy.audit.worst_case import WorstCase
from hubbub.protos.errors import UsageError
from hubbub.protos.task.task import Task
from hubbub.queries.query import Query
from hubbub.queries.randomizers.randomizer import beside_noise

SHARES = (1 / 2, 1 / 4, 1 / 16)
"""Distances that are tried: the least ones that a draw exceeds with at most each of these probabilities."""

REPORT = ">u4"
"""A report that the shuffler can imitate: the number of its symbol, as reports of kRR and of hashes are written."""


@dataclass(frozen=True)
class NoisyRound:
    """One query of a round that was opened: its reports, joined, the victim's answer, and how many took part."""

    seen: bytes
    is_first: bool
    participants: int


@dataclass(frozen=True)
class NoiseResult:
    """How many of a query's counts, one for each draw of its noise, were more than `distance` from one center.

    People's reports are subtracted in the mean. `expected` is the least mean of the number of `far` counts under the
    law. Fewer than `least` contradict the law.
    """

    query: str
    draws: int
    distance: int
    far: int
    expected: float
    least: int

    @property
    def consistent(self) -> bool:
        """Whether the counts do not contradict the law."""
        return self.far >= self.least


def check_rounds(task: Task, rounds: int, error: float) -> None:
    """Check that so many rounds could contradict the law of every query with noise.

    Raises:
        UsageError: if they could not, naming a sufficient number.
    """
    for query in task.queries:
        needed = rounds
        while query.noise is not None and _least(needed * _draws(query), SHARES[0], _share(task, query, error)) == 0:
            needed += 1
        if needed > rounds:
            raise UsageError(
                f"{rounds} rounds with all their people are too few to contradict the noise of query {query.name}; ask "
                f"for {needed}, or a lower --confidence"
            )


def compare(task: Task, worst: WorstCase, rounds: Sequence[NoisyRound], error: float) -> NoiseResult:
    """Return the result at the distance at which a query's counts are most surprising; the query has noise.

    A right shuffler is accused in any of the task's queries with probability `error` at most.
    """
    away = np.sort(_beyond_people(worst, rounds))
    error = _share(task, worst.query, error)
    found = [_judged(worst.query, away, distance, error) for distance in distances(_noise(worst.query))]
    return min(found, key=lambda each: each[0])[1]


def distances(law: NoiseLaw) -> list[int]:
    """Return the distances that are tried: the least ones that a draw exceeds with at most each of `SHARES`."""
    return sorted({next(t for t in range(law.reach + 1) if beyond(law, t) <= share) for share in SHARES})


def beyond(law: NoiseLaw, distance: int) -> float:
    """Return the probability that a draw is more than a distance from the middle of its law."""
    within = law.weights[max(0, law.reach - distance) : law.reach + distance + 1]
    return ((1 << TABLE_BITS) - sum(within)) / (1 << TABLE_BITS)


def _noise(query: Query) -> NoiseLaw:
    if query.noise is None:
        raise ValueError(f"query {query.name} has no noise")
    return query.noise


def _draws(query: Query) -> int:
    """Return how many independent draws a batch has: one for each symbol of reports, or one in all for two symbols."""
    law = beside_noise(query.randomizer, _noise(query))
    return 1 if law.fixed_total else law.symbols


def _share(task: Task, query: Query, error: float) -> float:
    """Return the error probability of one distance and center of a query."""
    noisy = sum(each.noise is not None for each in task.queries)
    return error / noisy / len(SHARES) / (_noise(query).largest + 1)


def _least(draws: int, chance: float, error: float) -> int:
    """Return the least number of far counts that contradicts nothing; fewer have probability `error` at most."""
    # Imported late: it takes a second to load, and most tasks have no noise.
    from scipy import stats

    found = int(stats.binom.ppf(error, draws, chance))
    return found if stats.binom.cdf(found, draws, chance) > error else found + 1


def _judged(query: Query, away: NDArray[np.int64], distance: int, error: float) -> tuple[float, NoiseResult]:
    """Return how probable so few far counts are at most under the law, and the result; `away` is in order."""
    from scipy import stats

    law = _noise(query)
    centers, chance = np.arange(-law.reach, law.reach + 1), beyond(law, distance)
    within = np.searchsorted(away, centers + distance, "right") - np.searchsorted(away, centers - distance, "left")
    far = len(away) - int(within.max())
    result = NoiseResult(query.name, len(away), distance, far, len(away) * chance, _least(len(away), chance, error))
    return float(stats.binom.cdf(far, len(away), chance)), result


def _beyond_people(worst: WorstCase, rounds: Sequence[NoisyRound]) -> NDArray[np.int64]:
    """Return the counts of all rounds, one for each draw, less the law's middle and the mean of people's reports."""
    query, draws = worst.query, _draws(worst.query)
    symbols = beside_noise(query.randomizer, _noise(query)).symbols
    law = worst.likelihoods(np.arange(symbols, dtype=REPORT).tobytes())
    found = np.empty((len(rounds), draws), dtype=np.int64)
    for place, each in enumerate(rounds):
        people = (law.first if each.is_first else law.second) + (each.participants - 1) * law.others
        expected = np.rint(people / people.sum() * each.participants).astype(np.int64)
        reports = np.frombuffer(each.seen, dtype=REPORT).astype(np.int64)
        counts = np.bincount(reports[reports < symbols], minlength=symbols)
        found[place] = (counts - expected - _noise(query).reach)[:draws]
    return found.ravel()
