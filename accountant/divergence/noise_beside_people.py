"""Computes an attack on noise of the shuffler beside honest people: what the counts of the victim's two values tell.

All others have one value; beside uniform dummies they have a uniform one, so that n − 1 + D reports are alike
(`pairs.base`, `attack_bound`). Let c be the chance that such a report is x, and also that it is x'. The counts of x and
x' are z and the others' reports, M, and the victim's report. A is their law without the victim's. So, with t and o the
chances that a report is one's own value, and another one,

    P[i, j] = t·A[i − 1, j] + o·A[i, j − 1] + (1 − t − o)·A[i, j],

and Q has t and o exchanged. Any function of the batch is an attack: so the two counts are, and their difference alone,
which is taken if the table of both would be large. With two values the total is fixed, and one count is all there is.

M is cut to a window. Then Q has mass of up to `rest` that is in no cell, anywhere. So δ(ε) is at least
Σ (P − e^ε·Q)₊ − e^ε·rest, which is what `rest` more Q-mass gives in the cells of the largest ratio, as long as their
ratio stays the largest. Masses have a relative error: P is lowered by it, and Q is raised.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import exp, isqrt

import numpy as np

from hubbub.accountant.divergence.binomials import MASS_ERROR, Array, Binomial, fair_mass
from hubbub.accountant.divergence.noise_atoms import WHOLE
from hubbub.accountant.losses.atoms import TINY
from hubbub.accountant.mechanisms import WithNoise
from hubbub.accountant.numbers import UNIT_ROUNDOFF

_LOG_TAIL = 90.0
"""Each tail of the others' reports that is cut has at most mass e^-90."""

_MOST_TOLD = 600
"""Most values of each of two counts; if there are more, only their difference is told."""

_MOST_PRODUCTS = 1e9
"""Most multiplications of one law with another; beyond, no attack is computed, and 0 is the lower end."""

Side = tuple[Array, Array]
"""Masses of the lesser of two laws, and by how much the other one's exceed them."""


@dataclass(frozen=True, eq=False)
class PeopleAttack:
    """Cells in which P is larger than Q, and those in which Q is larger."""

    forth: Side
    back: Side

    def delta(self, epsilon: float) -> float:
        """Return a δ that the attack reaches at `epsilon`, in the better of the two directions."""
        rate = float(np.expm1(epsilon))
        found = max(float(np.maximum(gap - rate * lesser, 0.0).sum()) for lesser, gap in (self.forth, self.back))
        # A term is a difference of two numbers with some roundings; cells that are not above 0 add nothing.
        doubt = max(float((gap + rate * lesser).sum()) for lesser, gap in (self.forth, self.back)) * 2.0**-48
        return max(0.0, found - doubt)


@lru_cache(maxsize=16)
def people_attack(mechanism: WithNoise, reports: int, dummies: int) -> PeopleAttack | None:
    """Return the attack on `reports` people with kRR beside noise and `dummies`; None if it is too large."""
    krr = mechanism.krr
    others, chance = reports - 1 + dummies, Fraction(1, krr.categories) if dummies else krr.other
    law = np.array([each / WHOLE for each in mechanism.noise.weights])
    if mechanism.fixed_total:
        found = _one_count(law, Binomial(others, chance))
    else:
        found = _two_counts(law, Binomial(others, 2 * chance))
    if found is None:
        return None
    # The cell that a report of x moves to, one of x', and one of another value.
    moved, against, stays, terms = found
    own, other, rest = (float(each) for each in (krr.truthful, krr.other, 1 - krr.truthful - krr.other))
    p, q = own * moved + other * against + rest * stays, other * moved + own * against + rest * stays
    error = 4 * MASS_ERROR + 8 * terms * UNIT_ROUNDOFF
    return PeopleAttack(_side(p, q, error), _side(q, p, error))


def _side(larger: Array, lesser: Array, error: float) -> Side:
    raised = lesser * (1 + error)
    gap = larger * (1 - error) - raised
    kept = (gap > 0) & (raised > TINY)
    return _with_rest(raised[kept], gap[kept], 3 * exp(-_LOG_TAIL))


def _with_rest(lesser: Array, gap: Array, rest: float) -> Side:
    """Add `rest` to the lesser law: to the cells of the largest ratio, joined to one, whose ratio is still largest."""
    order = np.argsort(-(gap / lesser))
    lesser, gap = lesser[order], gap[order]
    below, over = np.cumsum(lesser) + rest, np.cumsum(gap) - rest
    following = np.append(gap[1:] / lesser[1:], 0.0)
    fits = np.flatnonzero((over > 0) & (over / below >= following))
    if not fits.size:
        return np.zeros(0), np.zeros(0)
    first = int(fits[0])
    return np.append(below[first], lesser[first + 1 :]), np.append(over[first], gap[first + 1 :])


Cells = tuple[Array, Array, Array, int]
"""A's mass one report of x earlier, one of x' earlier, and in place; and how many terms a mass is a sum of."""


def _one_count(law: Array, others: Binomial) -> Cells | None:
    """Return the cells of the count of x; a report of x' leaves it where it is."""
    low, high = others.window(_LOG_TAIL)
    if len(law) * (high + 1 - low) > _MOST_PRODUCTS:
        return None
    counts = np.convolve(law, others.mass(np.arange(low, high + 1.0)))
    stays = np.append(counts, 0.0)
    return np.append(0.0, counts), stays, np.zeros(len(stays)), len(law)


def _two_counts(law: Array, others: Binomial) -> Cells | None:
    """Return the cells of two counts; `others` is the law of how many reports are x or x', each with a fair chance."""
    low, high = others.window(_LOG_TAIL)
    both = np.arange(low, high + 1.0)
    masses = others.mass(both)
    if len(law) + high + 1 > _MOST_TOLD:
        return _difference(law, both, masses)
    first, second = np.meshgrid(np.arange(high + 1.0), np.arange(high + 1.0), indexing="ij")
    told = (first + second >= low) & (first + second <= high)
    people = np.zeros(first.shape)
    total = (first + second)[told]
    people[told] = masses[(total - low).astype(np.int64)] * fair_mass(first[told], total)
    rows = np.zeros((len(law) + high, high + 1))
    for place in range(high + 1):
        rows[place : place + len(law), place] = law
    counts = rows @ people @ rows.T
    stays = np.pad(counts, ((0, 1), (0, 1)))
    moved, against = np.pad(counts, ((1, 0), (0, 1))), np.pad(counts, ((0, 1), (1, 0)))
    return moved.ravel(), against.ravel(), stays.ravel(), 2 * (len(law) + high + 1)


def _difference(law: Array, both: Array, masses: Array) -> Cells | None:
    """Return the cells of the difference of the two counts: a sum of fair signs, and of the noise's difference."""
    near, more = _near(int(both[0])), len(both) - 1
    # Of signs one at a time, of these with those that are certain, and of all with the noise.
    products = 3.0 * more**2, 4.0 * more * near, 4.0 * len(law) * (near + more + len(law))
    if max(products) > _MOST_PRODUCTS:
        return None
    counts = np.convolve(np.convolve(law, law[::-1]), _signs(int(both[0]), near, masses))
    return np.pad(counts, (2, 0)), np.pad(counts, (0, 2)), np.pad(counts, 1), 2 * len(law) + len(both)


def _near(signs: int) -> int:
    """Return how far out so many fair signs add up to: beyond, both tails have at most e^-90 (Hoeffding)."""
    return min(signs, isqrt(int(2 * (_LOG_TAIL + 1) * signs)) + 1)


def _signs(few: int, near: int, masses: Array) -> Array:
    """Return the law of a sum of `few` fair signs, cut at `near`, and of i more with the chance `masses`[i].

    One more sign is an average of two neighbors. So what is added is found from the most signs on, one at a time.
    """
    places = np.arange(-near, near + 1.0)
    certain = np.zeros(len(places))
    even = (places + few) % 2 == 0
    certain[even] = fair_mass((few + places[even]) / 2, np.full(int(even.sum()), float(few)))
    added = masses[-1:]
    for mass in masses[-2::-1].tolist():
        added = (np.pad(added, (2, 0)) + np.pad(added, (0, 2))) / 2
        added[len(added) // 2] += mass
    return np.convolve(certain, added)
