"""The blanket pair of kRR over the cells of one row holds for it (docs/explanation/accounting-hashed.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from hubbub.accountant.divergence.logs import LogBracket
from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.losses.walks import Walk
from hubbub.accountant.mechanisms import Hashed
from hubbub.accountant.pairs.amplification_variable import Amplification
from hubbub.accountant.pairs.base import LocalPairs
from hubbub.accountant.pairs.composition_part import Part
from hubbub.accountant.pairs.krr import KrrPairs


@dataclass(frozen=True)
class HashedPairs(LocalPairs[Hashed]):
    """What a uniform report says of x against x', given its row, is below what kRR's says in the convex order.

    A row where x and x' have different hashes says exactly what kRR over the cells says; one where they collide says
    less. So kRR's blanket bound at the same n, with as many dummies, is never below the truth, and its pair dominates
    and composes. No attack is stated: kRR's needs answers that collide in no row, and whether there are any depends on
    the hash functions.
    """

    exact_blanket: ClassVar[bool] = True

    @cached_property
    def _krr(self) -> KrrPairs:
        return KrrPairs(self.mechanism.krr)

    def described(self) -> str:
        """Return it in a few words."""
        return f"hashed kRR with {self.mechanism.cells} cells and local ε {self.mechanism.epsilon_local:.4g}"

    @property
    def symbols(self) -> int:
        """As many as cells in a row."""
        return self.mechanism.cells

    def upper_bounds(self) -> tuple[str, ...]:
        """The blanket."""
        return self._krr.upper_bounds()

    def attack_bound(self, dummies: int) -> str | None:
        """None is known of every family of hash functions."""
        return None

    def amplification(self, power: Fraction) -> Amplification:
        """KRR's: balle-2019, Lemma 5.7."""
        return self._krr.amplification(power)

    def blanket_sum(self, people: int, epsilon: float, missing: float) -> IidSum:
        """KRR's four-point sum."""
        return self._krr.blanket_sum(people, epsilon, missing)

    def blanket_delta(self, reports: int, epsilon: float, dummies: int, precision: float, missing: float) -> LogBracket:
        """Return ends of ln δ of kRR's blanket."""
        return self._krr.blanket_delta(reports, epsilon, dummies, precision, missing)

    def dominating_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield atoms of kRR's pair, which depends on the part's numbers alone."""
        return self._krr.dominating_atoms(part, log_tail)

    def dominated_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield atoms below kRR's pair."""
        return self._krr.dominated_atoms(part, log_tail)

    def attacking_walk(self, part: Part) -> Walk | None:
        """None is known of every family of hash functions."""
        return None
