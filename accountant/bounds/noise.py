"""Evaluates the pair of the shuffler's noise exactly: the bound that is valid beside any number of liars."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from math import exp
from typing import overload

import numpy as np

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.bounds.bound import Bound, Direction, Quantity, require, uncovered, with_local_epsilon
from hubbub.accountant.divergence.noise_atoms import (
    NoiseAtoms,
    delta_near,
    dominated_atoms,
    dominating_atoms,
    order_above,
    order_below,
)
from hubbub.accountant.divergence.noise_beside_people import people_attack
from hubbub.accountant.divergence.search import EpsilonEnds
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import AnyMechanism, LocalMechanism, WithNoise
from hubbub.accountant.numbers import checked_delta, checked_dummies, checked_epsilon, checked_reports
from hubbub.accountant.pairs import pairs_of
from hubbub.accountant.pairs.renyi import rdp_upper

ERROR = 2e-14
"""Relative error of a sum by pairs of up to two million terms, each of some ten roundings: less than 100 · 2^-53.

A gap of two coordinates is a sum of two terms, or the difference of two products if these are the smaller numbers. If
the terms cancel, the one coordinate's atom says P and the other one's says Q, and the error is relative to the gap of
the atom with the second one mirrored. That atom has a larger ratio, so the scale of the sum has it too.
"""

WIDTH = 1e-9
"""Relative width at which the search for ε ends."""

CLOSE = 1e-8
"""If quick sums leave a doubt of a smaller share of ε, it is added: no sum over all atoms is made to find the rest."""

FEW_ATOMS = 8
"""Up to so many atoms of a coordinate, a sum over their pairs is as quick as any."""


@dataclass(frozen=True)
class NoiseBound:
    """One person beside the shuffler's noise, if everybody else's report is known; the number of reports has no part.

    As an upper bound it is the upper pair of `divergence.noise_atoms`, as an attack the lower one.
    """

    name: str
    direction: Direction
    source: str = "the shuffler's noise, everybody else known; arXiv 2504.07362 for its setting"
    cost: str = "a sum of at most a million terms, whatever the number of reports"
    proven: bool = True

    @property
    def gives(self) -> frozenset[Quantity]:
        """An attack gives no Rényi divergence."""
        return frozenset(("delta", "epsilon", "rdp") if self.direction == "upper" else ("delta", "epsilon"))

    def conditions(self, mechanism: AnyMechanism, reports: int, dummies: int = 0) -> None:
        """Raise OutsideConditions for a randomizer without noise beside it; an attack is on kRR alone."""
        checked_reports(reports)
        checked_dummies(dummies)
        require(isinstance(mechanism, WithNoise), self.name, mechanism, "noise of the shuffler beside the randomizer")
        if self.direction == "upper":
            return
        if pairs_of(mechanism).attack_bound(dummies) != self.name:
            raise OutsideConditions(
                f"bound {self.name!r} covers kRR beside noise, got {pairs_of(mechanism).described()}; ask for 'best' "
                "instead"
            )

    def _atoms(self, beside: WithNoise) -> tuple[NoiseAtoms, NoiseAtoms]:
        """Return atoms above and below those of the bound: of an attack, the same ones."""
        asked = beside.krr, beside.noise, beside.one_moves
        below = dominated_atoms(*asked)
        return dominating_atoms(*asked) if self.direction == "upper" else below, below

    @answering
    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """Return (lower, upper) of δ at `epsilon`."""
        self.conditions(mechanism, reports, dummies)
        beside, wanted = self._beside(mechanism), checked_epsilon(epsilon)
        hidden = self.direction == "lower" and _is_hidden(reports, dummies)
        above, below = self._atoms(beside)
        # From the local ε on δ is 0, and rounding alone decides which atoms are above it.
        if wanted >= beside.epsilon_local:
            lower = 0.0
        else:
            lower = _among_people(beside, (reports, dummies), wanted) if hidden else _delta(below, wanted)[0]
        return lower, _delta(above, wanted)[1]

    def _beside(self, mechanism: AnyMechanism) -> WithNoise:
        if not isinstance(mechanism, WithNoise):
            raise uncovered(self.name, mechanism, "noise of the shuffler beside the randomizer")
        return mechanism

    def is_within(self, mechanism: WithNoise, epsilon: float, delta: float) -> bool:
        """Return whether the upper end of δ at `epsilon` is at most `delta`, without the sum if that is far from it."""
        if not mechanism.one_moves:
            low, high = delta_near(mechanism.krr, order_above(mechanism.noise, mechanism.krr.categories), epsilon)
            if high <= delta or low > delta:
                return high <= delta
        return _delta(dominating_atoms(mechanism.krr, mechanism.noise, mechanism.one_moves), epsilon)[1] <= delta

    @answering
    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Return the ends of ε at `delta`, by bisection; the local ε is valid without the noise."""
        self.conditions(mechanism, reports, dummies)
        beside, wanted = self._beside(mechanism), checked_delta(delta)
        if self.direction == "lower":
            if _is_hidden(reports, dummies):
                return _attack_among_people(beside, (int(reports), int(dummies)), wanted)
            return _attack_epsilon(beside, wanted)
        return EpsilonEnds(_upper_epsilon(beside, wanted), _attack_epsilon(beside, wanted).lower)

    @answering
    def rdp(self, mechanism: AnyMechanism, reports: int, order: float, dummies: int = 0) -> float:
        """Return the Rényi divergence of the pair, never below the truth, in nats."""
        self.conditions(mechanism, reports, dummies)
        if self.direction == "lower":
            raise OutsideConditions(f"bound {self.name!r} gives no Rényi divergence; ask for epsilon or delta")
        return rdp_upper(with_local_epsilon(mechanism, self.name), int(reports), order, int(dummies))


@overload
def covered(bound: Bound, mechanism: LocalMechanism) -> LocalMechanism: ...
@overload
def covered(bound: Bound, mechanism: AnyMechanism) -> AnyMechanism: ...
def covered(bound: Bound, mechanism: AnyMechanism) -> AnyMechanism:
    """Return the mechanism that `bound` is asked about: the randomizer alone, for an upper bound of another kind.

    Who sees the batch without noise can draw the noise, which depends on no answer, add it and shuffle again. So noise
    is a post-processing, and an upper bound without it is one with it. An attack without it is none with it.
    """
    if isinstance(mechanism, WithNoise) and bound.direction == "upper" and not isinstance(bound, NoiseBound):
        return mechanism.randomizer
    return mechanism


def _delta(pair: NoiseAtoms, epsilon: float) -> tuple[float, float]:
    """Return ends of Σ (P − e^ε·Q)₊: the mirror images add nothing, as their ratio is below 1."""
    # P − e^ε·Q is (gap − (e^ε − 1)·Q): no digits are lost for a small ε.
    rate, low, high = float(np.expm1(epsilon)), 0.0, 0.0
    for atoms in pair.parts:
        over = atoms.gap - rate * atoms.q
        scales = atoms.gap + rate * atoms.q
        # An atom whose ratio is near e^ε may be above it although rounding says that it is not: it is in the doubt.
        found, doubt = float(over[over > 0].sum()), ERROR * float(scales[over > -ERROR * scales].sum())
        low, high = low + found - doubt, high + found + doubt + atoms.cut
    return max(0.0, low), min(1.0, high)


@lru_cache(maxsize=64)
def _upper_epsilon(beside: WithNoise, delta: float) -> float:
    """Return an ε at which δ of the pair above is at most `delta`, near the least one."""
    asked, largest = (beside.noise, beside.krr.categories), beside.epsilon_local
    order = None if beside.one_moves else order_above(*asked)
    if order is not None and len(order.p) > FEW_ATOMS:
        ends = partial(delta_near, beside.krr, order)
        found = _boundary(lambda epsilon: ends(epsilon)[1] <= delta, 0.0, largest)[1]
        # δ falls in ε, so an ε at which the lower end is above `delta` is below the true one.
        if not found or ends(found * (1 - CLOSE))[0] > delta:
            return found
    atoms = dominating_atoms(beside.krr, beside.noise, beside.one_moves)
    return _boundary(lambda epsilon: _delta(atoms, epsilon)[1] <= delta, 0.0, largest)[1]


@lru_cache(maxsize=64)
def _attack_epsilon(beside: WithNoise, delta: float) -> EpsilonEnds:
    """Return the ends of the ε of the pair below; it is searched from the upper one down, as it is near that."""
    asked, upper = (beside.noise, beside.krr.categories), _upper_epsilon(beside, delta)
    order = None if beside.one_moves else order_below(*asked)
    if order is not None and len(order.p) > FEW_ATOMS:
        ends = partial(delta_near, beside.krr, order)
        found = _last_beyond(lambda epsilon: ends(epsilon)[0] <= delta, upper)
        farther = min(found * (1 + CLOSE), beside.epsilon_local)
        if ends(farther)[1] <= delta:
            return EpsilonEnds(farther, found)
    atoms = dominated_atoms(beside.krr, beside.noise, beside.one_moves)
    found = _last_beyond(lambda epsilon: _delta(atoms, epsilon)[0] <= delta, upper)
    return EpsilonEnds(_boundary(lambda epsilon: _delta(atoms, epsilon)[1] <= delta, found, upper)[1], found)


def _is_hidden(reports: int, dummies: int) -> bool:
    """Whether honest people or uniform dummies hide the victim too."""
    return reports > 1 or dummies > 0


def _among_people(beside: WithNoise, hidden_by: tuple[int, int], epsilon: float) -> float:
    """Return the δ that the attack beside honest people reaches; 0 if it is too large to compute."""
    attack = people_attack(beside, int(hidden_by[0]), int(hidden_by[1]))
    return 0.0 if attack is None else attack.delta(epsilon)


@lru_cache(maxsize=64)
def _attack_among_people(beside: WithNoise, hidden_by: tuple[int, int], delta: float) -> EpsilonEnds:
    """Return the ends of the ε of the attack beside honest people; above, it is that of one person alone."""
    upper = _upper_epsilon(beside, delta)
    found = _boundary(lambda epsilon: _among_people(beside, hidden_by, epsilon) <= delta, 0.0, upper)[0]
    return EpsilonEnds(upper, found)


def _last_beyond(small: Callable[[float], bool], upper: float) -> float:
    """Return the first end of `_boundary` below `upper`; it is looked for close to `upper` first."""
    high = upper
    for share in (1e-6, 1e-4, 1e-2):
        low = upper * (1 - share)
        if not small(low):
            return _boundary(small, low, high)[0]
        high = low
    return _boundary(small, 0.0, high)[0]


def _boundary(small: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Return (an ε at which δ is not small, or `low`; one at which it is, or `high`), close together."""
    if not low and small(0.0):
        return 0.0, 0.0
    while high - low > WIDTH * high and high > exp(-690):
        middle = (low + high) / 2
        low, high = (low, middle) if small(middle) else (middle, high)
    return low, high


NOISE = NoiseBound("noise", "upper")

NOISE_ATTACK = NoiseBound("noise-lower", "lower", "the counts of two answers; and of the others, if these are known")
