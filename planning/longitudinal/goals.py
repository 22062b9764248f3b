"""Limits the cost of a longitudinal question, and finds the least noise that keeps within the limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import exp, inf, log, sqrt
from typing import TypeVar

from hubbub.accountant.calibration.design import Target
from hubbub.accountant.calibration.noise import MOST_NOISE, least_noise
from hubbub.accountant.certificate.batches import linked_part, round_part
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.composition import compose_upper
from hubbub.accountant.errors import AccountingError, UnmetTarget
from hubbub.accountant.longitudinal.noise import NodeNoise, binary_numerator, gaussian_mu, open_nodes
from hubbub.accountant.mechanisms import KRR, Finite, LocalMechanism, TreeNodes, WithNoise, one_round, paid_rounds
from hubbub.accountant.mechanisms.longitudinal import Horizon
from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.accountant.numbers import fraction_up, honest_reports
from hubbub.accountant.pairs import Part
from hubbub.accountant.pairs.change_by_two import DELTA_LEAST, single, spared

CLOSE = 3e-3
"""The search for the least noise ends if ε is within its limit and this close to it, relatively."""

AIMED = (1 - 1e-6, 0.98, 0.9, 0.75, 0.5, 0.25)
"""The shares of ε at which noise is searched for, the next one if one round alone, or rounding, asks for more."""

TRIES = 10
"""The most compositions of each part of that search."""

M = TypeVar("M", bound=LocalMechanism)

N = TypeVar("N", KRR, TreeNodes)


@dataclass(frozen=True)
class Goal:
    """The most that a longitudinal question may cost, at `delta`.

    `epsilon` and `local` limit all rounds together, `round_epsilon` and `round_local` each round. `terms` are the
    task's; everything is computed at their minimum of reports.
    """

    terms: Terms
    epsilon: float
    local: float
    round_epsilon: float
    round_local: float
    delta: float

    @classmethod
    def over_all(
        cls, epsilon: float, delta: float, reports: int, local: float | None = None, honest_share: float = 1.0
    ) -> Goal:
        """Return a goal that limits all rounds together only, each with `reports` reports; None for `local` is no cap.

        Raises:
            AccountingError: if a number is out of range.
        """
        of = Target.of(epsilon, delta, reports, local, honest_share, 0)
        terms = Terms(of.epsilon, of.delta, of.cap, float(honest_share), of.reports)
        return cls(terms, of.epsilon, of.cap, of.epsilon, of.cap, of.delta)

    @property
    def hiding(self) -> int:
        """The number of honest people in a round at the minimum."""
        return max(1, honest_reports(self.terms.minimum_reports, self.terms.minimum_reports, self.terms.honest_share))

    def holds(self, mechanism: LocalMechanism, rounds: int) -> bool:
        """Return whether a mechanism keeps within all limits over `rounds` rounds."""
        if not self.holds_locally(mechanism, rounds) or self.reached(mechanism, rounds) > self.epsilon:
            return False
        return not self.asks_more_of_one or self.reached_alone(mechanism) <= self.round_epsilon

    def holds_locally(self, mechanism: LocalMechanism, rounds: int) -> bool:
        """Return whether a mechanism's local ε keeps within both caps."""
        alone = one_round(mechanism).epsilon_local
        return alone <= self.round_local and self.local_of(mechanism, rounds) <= self.local

    def local_of(self, mechanism: LocalMechanism, rounds: int) -> float:
        """Return the local ε of `rounds` rounds together, never below the exact sum."""
        return fraction_up(paid_rounds(mechanism, rounds) * Fraction(mechanism.epsilon_local))

    def holds_by_noise(self, mechanism: WithNoise, rounds: int) -> bool:
        """Return whether noise alone keeps within both limits on ε, whatever everybody else sent."""
        if self.reached_by_noise(mechanism, rounds) > self.epsilon:
            return False
        return not self.asks_more_of_one or _upper(Part(one_round(mechanism), 1), self.delta) <= self.round_epsilon

    def reached_by_noise(self, mechanism: WithNoise, rounds: int) -> float:
        """Return the certified ε of `rounds` rounds together, whatever everybody else sent."""
        return _upper(Part(mechanism, 1, paid_rounds(mechanism, rounds)), self.delta)

    @property
    def asks_more_of_one(self) -> bool:
        """Whether the limit on one round is stricter than the limit on all of them.

        If not, it need not be checked, because one round never costs more than all of them.
        """
        return self.round_epsilon < self.epsilon

    def reached(self, mechanism: LocalMechanism, rounds: int) -> float:
        """Return the certified ε of `rounds` rounds together."""
        part = linked_part(self.terms, mechanism, self.hiding)
        return _upper(Part(mechanism, part.reports, paid_rounds(mechanism, rounds), part.dummies), self.delta)

    def reached_alone(self, mechanism: LocalMechanism) -> float:
        """Return the certified ε of one round by itself."""
        return _upper(round_part(self.terms, mechanism, self.hiding), self.delta)


@lru_cache(maxsize=64)
def _upper(part: Part, delta: float) -> float:
    """Return the composed ε of a part; cached because the last noise that is tried is composed again to be stated."""
    return compose_upper([part], delta)


def least_binary(horizon: Horizon, goal: Goal) -> KRR | None:
    """Return the two-valued kRR, sent every round, with the least noise within a goal; None if there is none."""

    def at(variance: float) -> KRR:
        return KRR.from_numerator(2, binary_numerator(variance))

    return _least(
        at, horizon.periods, goal, _start(horizon.periods, goal), lambda each: goal.reached(each, horizon.periods)
    )


def least_nodes(horizon: Horizon, goal: Goal, changing: float = 0.0) -> TreeNodes | None:
    """Return the tree's nodes with the least noise within a goal; None if there are none.

    There are two shapes of noise. The search takes the shape that is expected to need less noise, by the cost of a
    Gaussian and by the caps on local ε.

    Raises:
        AccountingError: if δ is so small that nothing is proved of values that differ by two.
    """
    if goal.delta < DELTA_LEAST:
        raise AccountingError(
            f"delta is {goal.delta:g}, but tree needs at least {DELTA_LEAST:g}; choose the strategy direct"
        )
    found = []
    for shape in NodeNoise.shapes(horizon, changing):
        floor, start = (
            _floor(shape.at, horizon.periods, goal),
            _start(paid_rounds(shape.at(1.0), horizon.periods), goal),
        )
        if floor is not None:
            found.append((shape, start, shape.at(max(floor, start)).node.variance(10**6, round(changing * 10**6))))
    if not found:
        return None
    shape, start, _ = min(found, key=lambda each: each[2])
    return _least(shape.at, horizon.periods, goal, start, lambda each: _assumed(each, goal))


def binary_beside_noise(horizon: Horizon, goal: Goal) -> tuple[KRR, NoiseLaw] | None:
    """Return the two-valued kRR, sent every round, beside the least noise that alone keeps within a goal."""
    return _least_beside(lambda scale: KRR.from_numerator(2, binary_numerator(scale)), horizon.periods, goal)


def nodes_beside_noise(horizon: Horizon, goal: Goal) -> tuple[TreeNodes, NoiseLaw] | None:
    """Return the tree's nodes beside the least noise that alone keeps within a goal."""
    return _least_beside(lambda scale: open_nodes(horizon, scale), horizon.periods, goal)


def _least_beside(at: Callable[[float], N], rounds: int, goal: Goal) -> tuple[N, NoiseLaw] | None:
    """Return the least private randomizer within both caps on local ε, and the least noise found beside it.

    The noise keeps within the goal whatever all others sent. None if no randomizer is within the caps.

    Raises:
        AccountingError: if no noise within reach meets ε, or if it needs too many dummies.
    """
    floor = _floor(at, rounds, goal)
    if floor is None:
        return None
    randomizer, units = at(floor), paid_rounds(at(floor), rounds)
    alone = None
    if goal.asks_more_of_one:
        alone = least_noise(one_round(randomizer), goal.round_epsilon, goal.delta, lasting=rounds)
    for share in AIMED:
        over_all = least_noise(randomizer, share * goal.epsilon, goal.delta, units)
        for law in (over_all,) if alone is None else sorted((over_all, alone), key=lambda each: each.variance):
            beside = WithNoise(randomizer, law)
            if goal.holds_by_noise(beside, rounds):
                needed = goal.terms.shufflers * beside.expected_dummies
                if needed > MOST_NOISE:
                    raise UnmetTarget(
                        f"noise needs {needed} dummies in each round, more than {MOST_NOISE}; allow a larger epsilon"
                    )
                return randomizer, law
    raise UnmetTarget(f"no noise found meets epsilon {goal.epsilon:g} over {rounds} rounds; allow more")


def _start(units: int, goal: Goal) -> float:
    """Return about the variance of a report at which `units` differences by one meet ε, as if it were Gaussian."""
    return units / (goal.hiding * gaussian_mu(goal.epsilon, goal.delta) ** 2)


def _assumed(mechanism: TreeNodes, goal: Goal) -> float:
    """Return ε of the horizon under the assumption that two differences by one cost at least as much as one by two.

    This is quick and guides the search; it certifies nothing.
    """
    node, units = mechanism.node, paid_rounds(mechanism, mechanism.periods)
    law, reports = (single(node), spared(goal.hiding)) if node.signed else (Finite(node.law), goal.hiding)
    # By the blanket alone, as the nodes are certified: with one of its own, a law counts nothing else.
    return _upper(Part(replace(law, blanket=law.masses), reports, units), goal.delta)


def _least(at: Callable[[float], M], rounds: int, goal: Goal, start: float, reached: Callable[[M], float]) -> M | None:
    """Return a mechanism with about the least noise within a goal; None if none is found.

    The caps on local ε give the least scale. From there, steps that aim a little inside the limit meet ε. `at` returns
    the mechanism of a scale of noise, and `reached` about its ε over all rounds. The result is always checked against
    the goal itself.
    """
    floor = _floor(at, rounds, goal)
    if floor is None:
        return None
    scale, short, met = max(start, floor), floor, inf
    for _ in range(TRIES):
        over = _over(at(scale), goal, reached)
        short, met = (short, scale) if over <= 0 else (scale, met)
        if over <= 0 and (scale <= floor or over > -CLOSE or met < short * (1 + CLOSE)):
            break
        # ε is about proportional to 1 / √scale, so the logarithm of the scale moves by twice that of ε.
        aimed = max(floor, scale * exp(min(max(2 * (over + CLOSE / 2), -3.0), 3.0)))
        scale = aimed if short < aimed < met or aimed == floor == short else sqrt(short * met)
    for _ in range(TRIES):
        if met < inf and goal.holds(at(met), rounds):
            return at(met)
        met *= 1.01
    return None


def _over(mechanism: M, goal: Goal, reached: Callable[[M], float]) -> float:
    """Return the logarithm of the factor by which ε exceeds its limit: the larger of all rounds and one."""
    times = [reached(mechanism) / goal.epsilon]
    if goal.asks_more_of_one:
        times.append(goal.reached_alone(mechanism) / goal.round_epsilon)
    return log(max(*times, 1e-12))


def _floor(at: Callable[[float], LocalMechanism], rounds: int, goal: Goal) -> float | None:
    """Return nearly the least scale that keeps within both caps on the local ε; None if none does."""
    low, high = 1e-15, 1e9
    if not goal.holds_locally(at(high), rounds):
        return None
    if goal.holds_locally(at(low), rounds):
        return low
    while high > low * 1.0001:
        middle = sqrt(low * high)
        low, high = (low, middle) if goal.holds_locally(at(middle), rounds) else (middle, high)
    return high
