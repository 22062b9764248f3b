"""Defines the questions that the accountant asks of every mechanism; each answers them in a `MechanismPairs`.

No other module checks which mechanism it has, unless a theorem is about kRR alone. If a mechanism does not override a
method, the result is not proven for it: the default reports it, and never uses another mechanism's numbers.

A *pair* is two laws that dominate the observer's view of one round, for every two inputs of the victim. It is symmetric
and fixed before the round, so pairs compose over rounds, adaptively (Zhu, Dong and Wang, 2022, Thm 10).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import ClassVar, TypeVar
from typing import Generic as Of

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.divergence.log_bracket import ZERO, LogBracket
from hubbub.accountant.divergence.search import EpsilonEnds, Evaluate
from hubbub.accountant.divergence.sums import IidSum, SumPoints
from hubbub.accountant.divergence.whole_law import Whole
from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.losses.attack_curves import attack_curves_grid
from hubbub.accountant.losses.grid import LossGrid, connect_dots
from hubbub.accountant.losses.tangents import tangent_grid
from hubbub.accountant.losses.walks import Walk, contracted_atoms
from hubbub.accountant.mechanisms import KRR, AnyMechanism, LocalMechanism
from hubbub.accountant.pairs.amplification_variable import Amplification
from hubbub.accountant.pairs.composition_part import Part

M_co = TypeVar("M_co", bound=AnyMechanism, covariant=True)
L_co = TypeVar("L_co", bound=LocalMechanism, covariant=True)

Search = Callable[[Evaluate], EpsilonEnds]
"""Finds both ends of the ε at which a δ, which falls in ε, reaches its target."""

ABOVE = 1 + Fraction(1, 10**45)
"""Raises a number that was rounded down beyond 50 digits above the truth again."""


@dataclass(frozen=True)
class MechanismPairs(ABC, Of[M_co]):
    """All proven results for one mechanism: the bounds of one round, and the pairs that compose.

    Attributes:
        mechanism: the mechanism.
        binary: whether it is kRR of two values, so that the tighter pair applies.
        has_blanket: whether its own blanket is known, not only its local ε.
        exact_blanket: whether that blanket is summed exactly, not between points above and points below.
        cuts_tail: whether putting its blanket on points loses some mass, which is charged to δ.
    """

    mechanism: M_co

    binary: ClassVar[bool] = False
    has_blanket: ClassVar[bool] = True
    exact_blanket: ClassVar[bool] = False
    cuts_tail: ClassVar[bool] = False

    @abstractmethod
    def described(self) -> str:
        """Return a short description, for errors and tables."""

    # One report

    @property
    def local_epsilon(self) -> float | None:
        """The ε if shuffler and analyzer collude; None if there is no local ε."""
        return None

    @property
    def ceiling(self) -> float:
        """The ε from which on δ is 0: the local one, infinite if there is none."""
        local = self.local_epsilon
        return inf if local is None else local

    @abstractmethod
    def largest_epsilon(self, delta: float) -> float:
        """Return an ε that is valid for one report alone at `delta`: a search for a smaller one ends there."""

    @property
    def symbols(self) -> int:
        """Fewest values of one report, on which its own δ depends: two, if nothing is known about it."""
        return 2

    # One round

    @abstractmethod
    def upper_bounds(self) -> tuple[str, ...]:
        """Return the names of the upper bounds whose minimum is the best; `local`, if there is one, comes last."""

    @abstractmethod
    def attack_bound(self, dummies: int) -> str | None:
        """Return the name of the best known attack on a batch beside `dummies`; None if there is none.

        With dummies, what others send must be counted with what the dummies are: usually everyone else's answer is one
        by which their report has a dummy's law. Then n + D reports are alike but for the victim's. If those answers are
        drawn, a divergence is at most that of some data set, as it is convex; over rounds, too.
        """

    def amplification(self, power: Fraction) -> Amplification:
        """Return the known bounds of the amplification variable at the ε with e^ε = `power`, to 80 digits."""
        raise AccountingError(
            f"mechanism is {self.described()}, whose amplification variable is not known; choose another mechanism"
        )

    def blanket_sum(self, people: int, epsilon: float, missing: float) -> IidSum:
        """Return the sum whose positive part is the blanket's δ, with dummies counted as people.

        `missing` is roughly the mass that may be cut if `cuts_tail`.
        """
        raise self._no_blanket()

    def blanket_delta(self, reports: int, epsilon: float, dummies: int, precision: float, missing: float) -> LogBracket:
        """Return ends of ln δ of the blanket at an ε below the local one; cut mass is charged."""
        raise self._no_blanket()

    def blanket_epsilon(self, reports: int, dummies: int, missing: float, delta: float, search: Search) -> EpsilonEnds:
        """Return ends of the blanket's ε at `delta`, by `search`, which finds them for one (ε, precision) → ln δ."""

        def evaluate(epsilon: float, precision: float) -> LogBracket:
            # From the ceiling on δ is 0.
            if epsilon >= self.ceiling:
                return ZERO
            return self.blanket_delta(reports, epsilon, dummies, precision, missing)

        return search(evaluate)

    @property
    def whole_law(self) -> Whole | None:
        """What a bound by all that the others send needs (`divergence.whole_law`); None if it is not known."""
        return None

    def attack_sums(self, reports: int, epsilon: float, dummies: int = 0) -> tuple[IidSum, ...]:
        """Return sums whose positive parts are divergences of data sets in which everyone else has one value.

        With `dummies` everyone else's report has the law of a dummy (`attack_bound`).
        """
        raise OutsideConditions(f"{self.described()} has no attack of this form; ask for 'best' instead")

    def event_delta(self, reports: int, epsilon: float) -> float:
        """Return a number that δ is never below on one of these data sets, by a single event; 0 if none is known."""
        return 0.0

    def event_epsilon(self, reports: int, delta: float) -> float:
        """Return a number that ε is never below on one of these data sets, by a single event; 0 if none is known."""
        return 0.0

    @property
    def attacked(self) -> KRR | None:
        """The kRR that it is or may be, if the attack in which everyone else has a third value applies; else None."""
        return None

    def _no_blanket(self) -> OutsideConditions:
        return OutsideConditions(f"{self.described()} has no blanket of its own; ask for 'best' instead")


@dataclass(frozen=True)
class LocalPairs(MechanismPairs[L_co]):
    """A mechanism with a local ε, whose rounds compose.

    An argument `part` must be of this very mechanism. `log_tail` is −ln of the mass that may be cut; atoms and grids
    report the cut mass, so that it is charged.
    """

    @property
    def local_epsilon(self) -> float:
        """The ε if shuffler and analyzer collude."""
        return self.mechanism.epsilon_local

    @property
    def common_epsilon(self) -> float:
        """The local ε between any two inputs, neighbors or not: clones need it, as the others may have any input."""
        return self.mechanism.epsilon_local

    def largest_epsilon(self, delta: float) -> float:
        """Return the local ε, for any `delta`."""
        return self.mechanism.epsilon_local

    # Pairs

    @abstractmethod
    def dominating_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield atoms of a pair that dominates one round of `part`."""

    def dominating_grid(self, part: Part, log_tail: float) -> LossGrid:
        """Return the losses of a pair that dominates one round of `part`."""
        return connect_dots(self.dominating_atoms(part, log_tail))

    def played_grids(self, part: Part, log_tail: float) -> tuple[tuple[LossGrid, int], ...] | None:
        """Return pairs for all rounds of `part`, each with its number; None if repeating one round's pair is as good.

        They are tighter than repeating one round's pair if that is a hull over an adversary's choices. They compose
        only with other parts' fixed pairs, so only one of several parts can use them (`losses.family`).
        """
        return None

    @abstractmethod
    def dominated_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield atoms of a pair below the one that `dominating_atoms` approximates: the distance is its slack."""

    def dominated_grid(self, part: Part, log_tail: float) -> LossGrid:
        """Return losses below those of `dominating_grid`, of the same pair."""
        return tangent_grid(self.dominated_atoms(part, log_tail))

    def grid_is_tighter(self, part: Part) -> bool:
        """Whether `dominating_grid` has another pair than `dominating_atoms`: Rényi divergences then try both."""
        return False

    @property
    def dear(self) -> bool:
        """Whether points of its curves take long: then fewer are asked for what is stated from below."""
        return False

    @property
    def attacked_finely(self) -> bool:
        """Whether many points of an attack's curve are asked."""
        return not self.dear

    # Attacks on one round

    @abstractmethod
    def attacking_walk(self, part: Part) -> Walk | None:
        """Return the pair of a data set and of a test on part of the batch; None if no attack has this form."""

    def attacking_points(self, part: Part) -> SumPoints | None:
        """Return (μ/ω, μ'/ω, ω) of a data set that `attack_grid` composes, μ and μ' the victim's laws, ω the others'.

        None if a walk is as good, or no such attack is known.
        """
        return None

    def attack_grid(self, part: Part, log_tail: float) -> LossGrid | None:
        """Return losses that an attack on one round of `part` reaches; None if no attack is known."""
        points = self.attacking_points(part)
        if points is not None:
            people = part.reports + part.dummies
            return attack_curves_grid(points, self.local_epsilon, people, log_tail, finely=self.attacked_finely)
        walk = self.attacking_walk(part)
        return None if walk is None else tangent_grid(contracted_atoms(walk, log_tail))

    def zeros_law(self, reports: int, log_tail: float) -> tuple[Array, Array, Array] | None:
        """Return `losses.largest_curve.zeros_law` if others who all have 0 are an attack; otherwise None."""
        return None

    def is_attack_on_itself(self, part: Part) -> bool:
        """Whether the attack is on the same mechanism and batch, so that it is also a lower end of the bound."""
        return False
