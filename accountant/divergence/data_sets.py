"""Computes attacks on kRR, k ≥ 3, among few reports: δ of the data sets in which j others have a value of the victim.

The victim has the second value under P, the first one under Q; of the others, j also have the second value, and the
rest a third. The attack uses the counts (N₁, N₂) of the two values. For any j this is a data set, so its divergence is
a lower bound. The best j is 0 if many blankets hide the victim (feldman-2022, Thm 5.3), and near all of the others if
few do: a first value that hardly anyone sends is then missing only if it was not the victim's.

All terms are positive and added one by one, so nothing cancels except in P − e^ε Q, which is charged.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf, log

import numpy as np

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.divergence.counting import log_factorials
from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.mechanisms import KRR, exp_decimal
from hubbub.accountant.numbers import UNIT_ROUNDOFF

FEW = 120
"""Most reports whose data sets are summed: about 40 of them with 7,000 counts each, a hundredth of a second."""

_ROUNDING = 4 * UNIT_ROUNDOFF
"""Charge per unit of a logarithm's size, and per report that is added to a law."""

_UNDERFLOW = 1e-280
"""More than all masses together that are too small for a double."""


@dataclass(frozen=True)
class DataSets:
    """Masses of the counts under P and Q, with a relative error of at most `doubt`: a row for each j in `held`."""

    held: tuple[int, ...]
    p: Array
    q: Array
    doubt: float

    def log_delta(self, epsilon: float) -> LogBracket:
        """Return ends of ln δ of the worst row."""
        factor, less, more = float(Fraction(exp_decimal(epsilon))), 1 - self.doubt, 1 + self.doubt
        low = np.maximum(self.p * less - factor * more * self.q, 0.0).sum(axis=1)
        high = np.maximum(self.p * more - factor * less * self.q, 0.0).sum(axis=1)
        least, most = float(low.max()) * less, float(high.max()) * more + _UNDERFLOW
        return LogBracket(log(least) if least > 0 else -inf, log(most))


@lru_cache(maxsize=4)
def data_sets(mechanism: KRR, reports: int) -> DataSets:
    """Return the data sets that are tried; cached, as a search for ε asks for the same ones many times."""
    other, truthful = mechanism.other, mechanism.truthful
    held, second, first = tuple(_tried(reports - 1)), (other, truthful), (truthful, other)
    # Counts (N₁, N₂) with N₁ + N₂ ≤ n: the others are impossible.
    possible = np.add.outer(np.arange(reports + 1), np.arange(reports + 1)) <= reports
    p, q = [], []
    for count in held:
        law = _others(mechanism, reports, count)
        p.append(_add_report(law, second)[possible])
        q.append(_add_report(law, first)[possible])
    # ln of a multinomial coefficient's factorials is below 600 each; a sum over all counts errs by far less.
    doubt = _ROUNDING * (8 + reports * (1 - log(other)) + 5 * 600)
    return DataSets(held, np.array(p), np.array(q), doubt)


def _tried(others: int) -> list[int]:
    """Return all numbers from 0 to `others` if they are few, else some, denser towards both ends."""
    if others <= 32:
        return list(range(others + 1))
    near = {0} | {step for bits in range(others.bit_length()) for step in (1 << bits, 3 << bits >> 1)}
    close = {count for count in near if 2 * count <= others}
    return sorted(close | {others - count for count in close})


def _others(mechanism: KRR, reports: int, held: int) -> Array:
    """Return the masses of the counts (N₁, N₂) of all but the victim; `held` of them have the second value."""
    third, other = reports - 1 - held, mechanism.other
    count = np.arange(reports + 1)
    rest = third - np.add.outer(count, count)
    logs, table = np.full(rest.shape, -inf), log_factorials(reports)
    first, second = np.nonzero(rest >= 0)
    resting = rest[first, second]
    logs[first, second] = table[third] - table[first] - table[second] - table[resting]
    logs[first, second] += (first + second) * log(other) + resting * log(1 - 2 * other)
    masses: Array = np.exp(logs)
    for _ in range(held):
        masses = _add_report(masses, (other, mechanism.truthful))
    return masses


def _add_report(masses: Array, chances: tuple[Fraction, Fraction]) -> Array:
    """Return the masses with one more report, of the first or the second value with these chances, else neither."""
    first, second = chances
    grown = masses * float(1 - first - second)
    grown[1:] += float(first) * masses[:-1]
    grown[:, 1:] += float(second) * masses[:, :-1]
    return grown
