"""Evaluates the pair of the shuffler's noise exactly: the bound that is valid beside any number of liars."""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from typing import overload

import numpy as np

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.bounds.bound import Bound, Direction, Quantity, require, uncovered, with_local_epsilon
from hubbub.accountant.divergence.noise_atoms import attacking_atoms, delta_near, dominated_atoms, dominating_atoms
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


@dataclass(frozen=True)
class NoiseBound:
    """One person beside the shuffler's noise, if everybody else's report is known; the number of reports has no part.

    As an upper bound it is the pair of `divergence.noise_atoms`, as a lower one what the counts of two answers tell.
    """

    name: str
    direction: Direction
    atoms: Callable[[KRR, NoiseLaw, bool], Atoms]
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

    def _atoms(self, mechanism: AnyMechanism, reports: int, dummies: int) -> tuple[Atoms, Atoms]:
        """Return atoms above and below those of the bound: of an attack, the same ones."""
        self.conditions(mechanism, reports, dummies)
        if not isinstance(mechanism, WithNoise):
            raise uncovered(self.name, mechanism, "noise of the shuffler beside the randomizer")
        asked = mechanism.krr, mechanism.noise, mechanism.one_moves
        above = self.atoms(*asked)
        return above, dominated_atoms(*asked) if self.direction == "upper" else above

    @answering
    def delta(self, mechanism: AnyMechanism, reports: int, epsilon: float, dummies: int = 0) -> tuple[float, float]:
        """Return (lower, upper) of δ at `epsilon`."""
        above, below = self._atoms(mechanism, reports, dummies)
        wanted = checked_epsilon(epsilon)
        return _delta(below, wanted)[0], _delta(above, wanted)[1]

    def is_within(self, mechanism: WithNoise, epsilon: float, delta: float) -> bool:
        """Return whether the upper end of δ at `epsilon` is at most `delta`, without the sum if that is far from it."""
        if not mechanism.one_moves:
            low, high = delta_near(mechanism.krr, mechanism.noise, epsilon)
            if high <= delta or low > delta:
                return high <= delta
        return _delta(self.atoms(mechanism.krr, mechanism.noise, mechanism.one_moves), epsilon)[1] <= delta

    @answering
    def epsilon(self, mechanism: AnyMechanism, reports: int, delta: float, dummies: int = 0) -> EpsilonEnds:
        """Return the ends of ε at `delta`, by bisection; the local ε is valid without the noise."""
        above, below = self._atoms(mechanism, reports, dummies)
        wanted = checked_delta(delta)
        largest = with_local_epsilon(mechanism, self.name).epsilon_local
        upper = _boundary(lambda epsilon: _delta(above, epsilon)[1] <= wanted, largest)[1]
        lower = _boundary(lambda epsilon: _delta(below, epsilon)[0] <= wanted, largest)[0]
        return EpsilonEnds(upper, min(lower, upper))

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


def _boundary(small: Callable[[float], bool], largest: float) -> tuple[float, float]:
    """Return (an ε at which δ is not small, or 0; one at which it is, or `largest`), close together."""
    if small(0.0):
        return 0.0, 0.0
    low, high = 0.0, largest
    while high - low > WIDTH * high and high > exp(-690):
        middle = (low + high) / 2
        low, high = (low, middle) if small(middle) else (middle, high)
    return low, high


NOISE = NoiseBound("noise", "upper", dominating_atoms)

NOISE_ATTACK = NoiseBound("noise-lower", "lower", attacking_atoms, "the counts of two answers, everybody else known")
