"""Evaluates the pair of the shuffler's noise exactly: the bound that is valid beside any number of liars."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import exp
from typing import overload

import numpy as np

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.bounds.bound import Bound, Direction, Quantity, require, uncovered, with_local_epsilon
from hubbub.accountant.divergence.noise_atoms import (
    RatioOrder,
    attack_near,
    attacking_atoms,
    delta_near,
    dominated_atoms,
    dominating_atoms,
    order_above,
    order_attacking,
    order_below,
)
from hubbub.accountant.divergence.search import EpsilonEnds
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.mechanisms import KRR, AnyMechanism, LocalMechanism, WithNoise
from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.accountant.numbers import checked_delta, checked_dummies, checked_epsilon, checked_reports
from hubbub.accountant.pairs import pairs_of
from hubbub.accountant.pairs.renyi import rdp_upper

ERROR = 2e-14
"""Relative error of a sum by pairs of up to two million terms, each of some ten roundings: less than 100 · 2^-53.

A gap of two coordinates is a sum of two terms. If they cancel, the one coordinate's atom says P and the other one's
says Q, and the error is relative to the gap of the atom with the second one mirrored. That atom has a larger ratio, so
the scale of the sum has it too.
"""

WIDTH = 1e-9
"""Relative width at which the search for ε ends."""

CLOSE = 1e-8
"""If quick sums leave a doubt of a smaller share of ε, it is added: no sum over all atoms is made to find the rest."""

FEW_ATOMS = 64
"""Up to so many atoms of a coordinate, a sum over their pairs is as quick as any."""

Ends = Callable[[float], tuple[float, float]]
"""From ε to ends of δ."""


@dataclass(frozen=True)
class NoiseBound:
    """One person beside the shuffler's noise, if everybody else's report is known; the number of reports has no part.

    As an upper bound it is the pair of `divergence.noise_atoms`, as a lower one what the counts of two answers tell.
    """

    name: str
    direction: Direction
    atoms: Callable[[KRR, NoiseLaw, bool], Atoms]
    near: Callable[[KRR, RatioOrder, float], tuple[float, float]]
    source: str = "the shuffler's noise, everybody else known; arXiv 2504.07362 for its setting"
    cost: str = "a sum of at most a million terms, whatever the number of reports"
    proven: bool = True

    @property
    def gives(self) -> frozenset[Quantity]:
        """An attack gives no Rényi divergence."""
        return frozenset(("delta", "epsilon", "rdp") if self.direction == "upper" else ("delta", "epsilon"))

    def conditions(self, mechanism: AnyMechanism, reports: int, dummies: int = 0) -> None:
        """Raise OutsideConditions for a randomizer without noise beside it; an attack also takes no dummies."""
        checked_reports(reports)
        checked_dummies(dummies)
        require(isinstance(mechanism, WithNoise), self.name, mechanism, "noise of the shuffler beside the randomizer")
        if self.direction == "upper":
            return
        # The others' reports are known: honest ones would hide the victim too.
        if pairs_of(mechanism).attack_bound(dummies) != self.name or reports != 1:
            raise OutsideConditions(
                f"bound {self.name!r} covers kRR without dummies and one honest report alone, got "
                f"{pairs_of(mechanism).described()}, {reports} reports and {dummies} dummies; ask for 'best' instead"
            )

    def _atoms(self, beside: WithNoise) -> tuple[Atoms, Atoms]:
        """Return atoms above and below those of the bound: of an attack, the same ones."""
        asked = beside.krr, beside.noise, beside.one_moves
        above = self.atoms(*asked)
        return above, dominated_atoms(*asked) if self.direction == "upper" else above

    @answering
    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """Return (lower, upper) of δ at `epsilon`."""
        self.conditions(mechanism, reports, dummies)
        above, below = self._atoms(self._beside(mechanism))
        wanted = checked_epsilon(epsilon)
        return _delta(below, wanted)[0], _delta(above, wanted)[1]

    def _beside(self, mechanism: AnyMechanism) -> WithNoise:
        if not isinstance(mechanism, WithNoise):
            raise uncovered(self.name, mechanism, "noise of the shuffler beside the randomizer")
        return mechanism

    def _orders(self, mechanism: WithNoise) -> tuple[RatioOrder, RatioOrder] | tuple[None, None]:
        """Return what quick sums need, above and below; None if a sum over all atoms is as quick."""
        if mechanism.one_moves:
            return None, None
        if self.direction == "lower":
            above = below = order_attacking(mechanism.noise)
        else:
            above, below = order_above(mechanism.noise), order_below(mechanism.noise)
        return (None, None) if len(above.p) <= FEW_ATOMS else (above, below)

    def is_within(self, mechanism: WithNoise, epsilon: float, delta: float) -> bool:
        """Return whether the upper end of δ at `epsilon` is at most `delta`, without the sum if that is far from it."""
        if not mechanism.one_moves:
            low, high = delta_near(mechanism.krr, order_above(mechanism.noise), epsilon)
            if high <= delta or low > delta:
                return high <= delta
        return _delta(self.atoms(mechanism.krr, mechanism.noise, mechanism.one_moves), epsilon)[1] <= delta

    @answering
    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Return the ends of ε at `delta`, by bisection; the local ε is valid without the noise."""
        self.conditions(mechanism, reports, dummies)
        beside, wanted = self._beside(mechanism), checked_delta(delta)
        quick = self._attack_ends(beside, wanted) if self.direction == "lower" else None
        if quick is not None:
            return quick
        upper = self._upper_epsilon(beside, wanted)
        return EpsilonEnds(upper, min(self._lower_epsilon(beside, wanted, upper), upper))

    def _attack_ends(self, beside: WithNoise, delta: float) -> EpsilonEnds | None:
        """Return both ends of an attack's ε from one search: its atoms above are those below. None if sums are needed.

        `_most_beyond` returns an ε only if it saw that `CLOSE` more is enough.
        """
        order, largest = self._orders(beside)[1], beside.epsilon_local
        found = None if order is None else _most_beyond(partial(self.near, beside.krr, order), delta, largest)
        return None if found is None else EpsilonEnds(min(found * (1 + CLOSE), largest), found)

    def _upper_epsilon(self, beside: WithNoise, delta: float) -> float:
        order, largest = self._orders(beside)[0], beside.epsilon_local
        if order is not None:
            near = _least_within(partial(self.near, beside.krr, order), delta, largest)
            if near is not None:
                return near
        atoms = self._atoms(beside)[0]
        return _boundary(lambda epsilon: _delta(atoms, epsilon)[1] <= delta, largest)[1]

    def _lower_epsilon(self, beside: WithNoise, delta: float, upper: float) -> float:
        order = self._orders(beside)[1]
        if order is not None:
            near = _most_beyond(partial(self.near, beside.krr, order), delta, upper)
            if near is not None:
                return near
        atoms = self._atoms(beside)[1]
        return _boundary(lambda epsilon: _delta(atoms, epsilon)[0] <= delta, upper)[0]

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


def _delta(atoms: Atoms, epsilon: float) -> tuple[float, float]:
    """Return ends of Σ (P − e^ε·Q)₊: the mirror images add nothing, as their ratio is below 1."""
    # P − e^ε·Q is (gap − (e^ε − 1)·Q): no digits are lost for a small ε.
    rate = float(np.expm1(epsilon))
    over = atoms.gap - rate * atoms.q
    scales = atoms.gap + rate * atoms.q
    # An atom whose ratio is near e^ε may be above it although rounding says that it is not: it is in the doubt.
    found, doubt = float(over[over > 0].sum()), ERROR * float(scales[over > -ERROR * scales].sum())
    return max(0.0, found - doubt), min(1.0, found + doubt + atoms.cut)


def _least_within(ends: Ends, delta: float, largest: float) -> float | None:
    """Return an ε at which the upper end is at most `delta`; None if the true one may be smaller by more than `CLOSE`.

    δ falls in ε, so an ε at which the lower end is above `delta` is below the true one.
    """
    found = _boundary(lambda epsilon: ends(epsilon)[1] <= delta, largest)[1]
    return found if not found or ends(found * (1 - CLOSE))[0] > delta else None


def _most_beyond(ends: Ends, delta: float, upper: float) -> float | None:
    """Return an ε, at most `upper`, at which the lower end is above `delta`; None if `CLOSE` more might have it too."""
    found = _boundary(lambda epsilon: ends(epsilon)[0] <= delta, upper)[0]
    return found if ends(min(found * (1 + CLOSE), upper))[1] <= delta else None


def _boundary(small: Callable[[float], bool], largest: float) -> tuple[float, float]:
    """Return (an ε at which δ is not small, or 0; one at which it is, or `largest`), close together."""
    if small(0.0):
        return 0.0, 0.0
    low, high = 0.0, largest
    while high - low > WIDTH * high and high > exp(-690):
        middle = (low + high) / 2
        low, high = (low, middle) if small(middle) else (middle, high)
    return low, high


NOISE = NoiseBound("noise", "upper", dominating_atoms, delta_near)

NOISE_ATTACK = NoiseBound(
    "noise-lower", "lower", attacking_atoms, attack_near, "the counts of two answers, everybody else known"
)
