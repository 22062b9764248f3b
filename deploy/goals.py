"""Goals: what a question over time may cost, and the least noise of a tree's nodes that keeps within it."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log, sqrt

from hubbub.accountant.certificate.batches import linked_part, local_sum, lone_part
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.composition import compose_upper
from hubbub.accountant.longitudinal.noise import GAMMA_MOST, SIDE_MOST, gaussian_mu
from hubbub.accountant.mechanisms import Finite, LocalMechanism, TreeNodes, one_round, paid_rounds
from hubbub.accountant.mechanisms.longitudinal import Horizon
from hubbub.accountant.mechanisms.written import GAMMA_DENOMINATOR
from hubbub.accountant.numbers import honest_reports
from hubbub.accountant.pairs import Part
from hubbub.accountant.pairs.doubles import single, spared

CLOSE = 3e-3
"""The search for a tree's noise ends where ε is met and this close, relatively."""

TRIES = 10
"""Most compositions of that search."""


@dataclass(frozen=True)
class Goal:
    """What a question over time may cost: `epsilon` and `local` over all rounds, the others in one of them, at `delta`.

    `terms` are the task's, with the minimum that everything is computed at.
    """

    terms: Terms
    epsilon: float
    local: float
    round_epsilon: float
    round_local: float
    delta: float

    @property
    def hiding(self) -> int:
        """The honest people of a round at the minimum."""
        return max(1, honest_reports(self.terms.minimum_reports, self.terms.minimum_reports, self.terms.honest_share))

    def holds(self, mechanism: LocalMechanism, rounds: int) -> bool:
        """Return whether a mechanism keeps within all of it over so many rounds."""
        paid, one = paid_rounds(mechanism, rounds), one_round(mechanism)
        if one.epsilon_local > self.round_local or local_sum([mechanism] * paid) > self.local:
            return False
        if self.reached(mechanism, rounds) > self.epsilon:
            return False
        # One round never costs more than all of them.
        if self.epsilon <= self.round_epsilon:
            return True
        alone = lone_part(self.terms, mechanism, self.hiding)
        return compose_upper([alone], self.delta) <= self.round_epsilon

    def reached(self, mechanism: LocalMechanism, rounds: int) -> float:
        """Return the certified ε of so many rounds together."""
        part = linked_part(self.terms, mechanism, self.hiding)
        paid = paid_rounds(mechanism, rounds)
        return compose_upper([Part(mechanism, part.reports, paid, part.dummies)], self.delta)


def least_noise(horizon: Horizon, goal: Goal) -> TreeNodes | None:
    """Return the nodes with the least noise within a goal; None where there are none.

    With s = γb/(1 − γ)², a value's variance is about 2s, and what a change by one costs falls as 1/s. Two shapes are
    tried: a small b, which hides zeros cheaply, and a third, whose local ε is smaller.
    """
    found = [_least(_Shape(horizon, side), goal) for side in (SIDE_MOST, 1 / 3)]
    return min((each for each in found if each is not None), key=_variance, default=None)


def _variance(mechanism: TreeNodes) -> float:
    return float(mechanism.node.variance(1, 0))


@dataclass(frozen=True)
class _Shape:
    """The nodes of a scale s: b is at most `side_most`, and γ a tenth until b is that."""

    horizon: Horizon
    side_most: float

    def at(self, scale: float) -> TreeNodes:
        ratio = self.side_most / scale
        # γ·ratio = (1 − γ)², written so that no digits cancel.
        gamma = max(GAMMA_MOST, 2 / (2 + ratio + sqrt(ratio * (ratio + 4))))
        side = min(self.side_most, scale * (1 - gamma) ** 2 / gamma)
        return TreeNodes(self.horizon.periods, self.horizon.changes, _numerator(gamma), _numerator(side))


def _numerator(probability: float) -> int:
    return min(max(int(probability * GAMMA_DENOMINATOR), 1), GAMMA_DENOMINATOR - 1)


def _least(shape: _Shape, goal: Goal) -> TreeNodes | None:
    """Return about the least noise: the local ε give a floor, the rest is met by steps that aim a little inside."""
    floor = _floor(shape, goal)
    if floor is None:
        return None
    units = paid_rounds(shape.at(1.0), shape.horizon.periods)
    start = units / (goal.hiding * gaussian_mu(goal.epsilon, goal.delta) ** 2)
    scale, short, met = max(start, floor), floor, inf
    for _ in range(TRIES):
        over = log(max(_assumed(shape.at(scale), goal) / goal.epsilon, 1e-12))
        short, met = (short, scale) if over <= 0 else (scale, met)
        if over <= 0 and (scale <= floor or over > -CLOSE):
            break
        # ε falls about as the root of the scale.
        aimed = max(floor, scale * exp(min(max(2 * (over + CLOSE / 2), -3.0), 3.0)))
        scale = aimed if short < aimed < met or aimed == floor == short else sqrt(short * met)
    for _ in range(TRIES):
        if met < inf and goal.holds(shape.at(met), shape.horizon.periods):
            return shape.at(met)
        met *= 1.01
    return None


def _assumed(mechanism: TreeNodes, goal: Goal) -> float:
    """Return ε of the horizon if two changes by one cover one by two: quick, certifies nothing."""
    node, units = mechanism.node, paid_rounds(mechanism, mechanism.periods)
    law, reports = (single(node), spared(goal.hiding)) if node.signed else (Finite(node.law), goal.hiding)
    return compose_upper([Part(law, reports, units)], goal.delta)


def _floor(shape: _Shape, goal: Goal) -> float | None:
    """Return nearly the least scale that keeps to both local ε and to one round's ε; None where none does."""

    def keeps(scale: float) -> bool:
        mechanism = shape.at(scale)
        units = paid_rounds(mechanism, shape.horizon.periods)
        return mechanism.epsilon_local <= goal.round_local and local_sum([mechanism] * units) <= goal.local

    low, high = 1e-15, 1e9
    if not keeps(high):
        return None
    while high > low * 1.001:
        middle = sqrt(low * high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high
