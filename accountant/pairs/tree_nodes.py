"""Defines the pair of a tree's nodes: one covers a value that differs by one, two cover a difference by two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.search import EpsilonEnds
from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.losses.grid import LossGrid
from hubbub.accountant.mechanisms import Finite, TreeNodes
from hubbub.accountant.pairs.base import LocalPairs, Search
from hubbub.accountant.pairs.change_by_two import covered, single, spared
from hubbub.accountant.pairs.composition_part import Part
from hubbub.accountant.pairs.finite import FinitePairs


@dataclass(frozen=True)
class TreeNodesPairs(LocalPairs[TreeNodes]):
    """A pair above every difference by one; two rounds of it are above every difference by two.

    It is the pair of a difference by one at a few reports fewer, if `change_by_two` shows the second property; else the
    pair of any difference. `alone` is the pair of any difference.

    The attack is on one unit. In any round a stream that becomes 1 in the last period of the node has the value 1, and
    one that is always 0 has the value 0. Everyone else may have either. How many units two streams can differ by
    depends on which rounds they are, so no attack on several is stated.
    """

    exact_blanket: ClassVar[bool] = True

    def described(self) -> str:
        """Return a short description."""
        return f"the tree's nodes, of local ε {self.mechanism.epsilon_local:.4g} for a change by one"

    def upper_bounds(self) -> tuple[str, ...]:
        """Its own blanket."""
        return ("blanket", "local")

    def attack_bound(self, dummies: int) -> str:
        """The victim's node has the value 0 or 1, and so has everyone else's."""
        return "finite-lower"

    def attack_sums(self, reports: int, epsilon: float, dummies: int = 0) -> tuple[IidSum, ...]:
        """Return the sum of the most revealing data set of those tried."""
        node = self.mechanism.node
        rows = tuple(node.law[node.values.index(value)] for value in (0, 1))
        return FinitePairs(Finite(rows)).attack_sums(reports, epsilon)

    def attack_grid(self, part: Part, log_tail: float) -> None:
        """None is stated over rounds."""
        return

    def blanket_sum(self, people: int, epsilon: float, missing: float) -> IidSum:
        """Return the sum of the neighbors that vary most."""
        pairs, reports = self._laid(people)
        return pairs.blanket_sum(reports, epsilon, missing)

    def blanket_delta(self, reports: int, epsilon: float, dummies: int, precision: float, missing: float) -> LogBracket:
        """Return ends of ln of the largest δ."""
        pairs, people = self._laid(reports)
        return pairs.blanket_delta(people, epsilon, dummies, precision, missing)

    def blanket_epsilon(self, reports: int, dummies: int, missing: float, delta: float, search: Search) -> EpsilonEnds:
        """Return the largest ends."""
        pairs, people = self._laid(reports)
        return pairs.blanket_epsilon(people, dummies, missing, delta, search)

    def dominating_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield the grid itself."""
        pairs, laid = self._part(part)
        yield from pairs.dominating_atoms(laid, log_tail)

    def dominated_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield the lower grid itself."""
        pairs, laid = self._part(part)
        yield from pairs.dominated_atoms(laid, log_tail)

    def dominating_grid(self, part: Part, log_tail: float) -> LossGrid:
        """Return losses of a curve above the blanket's."""
        pairs, laid = self._part(part)
        return pairs.dominating_grid(laid, log_tail)

    def dominated_grid(self, part: Part, log_tail: float) -> LossGrid:
        """Return losses of a curve below the blanket's."""
        pairs, laid = self._part(part)
        return pairs.dominated_grid(laid, log_tail)

    def attacking_walk(self, part: Part) -> None:
        """None is stated."""
        return

    def _part(self, part: Part) -> tuple[FinitePairs, Part]:
        pairs, reports = self._laid(part.reports)
        return pairs, replace(part, mechanism=pairs.mechanism, reports=reports)

    def _laid(self, reports: int) -> tuple[FinitePairs, int]:
        """Return the law whose pair is used, and the number of reports for it."""
        node = self.mechanism.node
        if self.mechanism.alone or not node.signed:
            return FinitePairs(Finite(node.law), by_blanket=True), reports
        if covered(node, reports):
            return FinitePairs(single(node), by_blanket=True), spared(reports)
        return FinitePairs(Finite(node.law), by_blanket=True), reports
