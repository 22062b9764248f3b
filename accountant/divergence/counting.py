"""Computes E[S₊] for few draws by the plain sum over all counts, in which every term is positive.

The probability of counts (n₁, …, n₀) has relative error below 1e-11 (logarithms below 4000 in size, each with an error
of a few units of roundoff); a value's absolute error is charged at the term. Nothing cancels, so both ends are within
about 1e-11 of each other unless S is exactly 0.
"""

from functools import cache, lru_cache
from itertools import combinations_with_replacement
from math import comb, factorial, inf, log

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.divergence.log_bracket import ZERO, LogBracket
from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.numbers import UNIT_ROUNDOFF

Array = NDArray[np.float64]

OUTCOMES_LIMIT = 30_000
"""Most outcomes summed one by one."""

ENTRIES_LIMIT = 1_000_000
"""Most counts in memory at a time: outcomes times kinds."""

DRAWS_LIMIT = 240
"""Most draws: keeps the logarithms of probabilities small."""

_RELATIVE = 1e-11
"""Charge for the rounding of one probability and of the summation."""


def countable(sums: IidSum) -> bool:
    """Whether the outcomes are few enough to be summed one by one."""
    kinds = len(sums.steps)
    outcomes = comb(sums.draws + kinds, kinds)
    return sums.draws <= DRAWS_LIMIT and outcomes <= OUTCOMES_LIMIT and outcomes * kinds <= ENTRIES_LIMIT


def counted_positive_part(sums: IidSum) -> LogBracket:
    """Bracket of ln(scale · E[S₊]): `upper` never below the truth, `lower` never above it."""
    if sums.best <= 0:
        return ZERO
    counts = _outcomes(sums.draws, len(sums.steps))
    steps = np.array(sums.steps)
    values = counts @ steps + sums.draws * sums.rest
    doubt = 8 * UNIT_ROUNDOFF * (counts @ np.abs(steps) + sums.draws * abs(sums.rest))
    logs = _log_probabilities(sums.draws, tuple(sums.masses), sums.rest_mass)
    # x₊ rises with x: values raised by their error give the upper end, values lowered by it the lower end.
    top, bottom = _log_mean(logs, values + doubt), _log_mean(logs, values - doubt)
    scale = log(sums.scale)
    return LogBracket(bottom + scale - _RELATIVE, top + scale + _RELATIVE)


def _log_mean(logs: Array, values: Array) -> float:
    """Return the log of Σ e^log · value over the positive values; -inf if there is none."""
    positive = values > 0
    if not np.any(positive):
        return -inf
    terms = logs[positive] + np.log(values[positive])
    # The largest term is factored out before exponentials: all of them may be below the smallest double.
    peak = float(np.max(terms))
    return peak + log(float(np.sum(np.exp(terms - peak)))) if peak > -inf else -inf


# Cached, as a search for ε, or for γ, changes the steps of the same sums only.
@lru_cache(maxsize=64)
def _log_probabilities(draws: int, masses: tuple[float, ...], rest_mass: float) -> Array:
    counts = _outcomes(draws, len(masses))
    resting = draws - np.sum(counts, axis=1)
    table = log_factorials(draws)
    logs: Array = table[draws] - table[resting.astype(np.int64)]
    logs = logs - np.sum(table[counts.astype(np.int64)], axis=1) + counts @ np.log(np.array(masses))
    # If resting has no mass, an outcome in which something rests is impossible, and 0·log(0) would be NaN.
    alone: Array = resting * log(rest_mass) if rest_mass > 0 else np.where(resting > 0, -np.inf, 0.0)
    logs = logs + alone
    logs.setflags(write=False)
    return logs


@cache
def log_factorials(draws: int) -> Array:
    """Return ln 0!, …, ln draws!, each right to a few units of roundoff."""
    return np.array([log(factorial(i)) for i in range(draws + 1)])


@lru_cache(maxsize=64)
def _outcomes(draws: int, kinds: int) -> Array:
    """All counts of `kinds` steps with a sum of at most `draws`: outcomes × kinds."""
    if kinds > 3:
        return _few_draws(draws, kinds)
    axes = np.indices((draws + 1,) * kinds).reshape(kinds, -1).T if kinds < 3 else _triples(draws)
    kept: Array = axes[np.sum(axes, axis=1) <= draws].astype(np.float64)
    return kept


def _triples(draws: int) -> NDArray[np.int64]:
    pairs = np.indices((draws + 1, draws + 1)).reshape(2, -1).T
    pairs = pairs[np.sum(pairs, axis=1) <= draws]
    left = draws - np.sum(pairs, axis=1) + 1
    repeated = np.repeat(pairs, left, axis=0)
    third = np.concatenate([np.arange(each) for each in left])
    return np.column_stack([repeated, third])


def _few_draws(draws: int, kinds: int) -> Array:
    """The same one by one: what each draw is, 0 for rest, as a sorted tuple."""
    drawn = np.array(list(combinations_with_replacement(range(kinds + 1), draws)), dtype=np.int64)
    counts = np.zeros((len(drawn), kinds + 1))
    for place in range(draws):
        counts[np.arange(len(drawn)), drawn[:, place]] += 1
    return counts[:, 1:]
