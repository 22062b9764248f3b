"""Bounds hashed kRR by the blanket pair of kRR over the cells of one row (docs/explanation/accounting-hashed.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.losses.walks import Walk
from hubbub.accountant.mechanisms import KRR, Hashed
from hubbub.accountant.pairs.amplification_variable import Amplification
from hubbub.accountant.pairs.base import LocalPairs
from hubbub.accountant.pairs.composition_part import Part
from hubbub.accountant.pairs.krr import KrrPairs


@dataclass(frozen=True)
class HashedPairs(LocalPairs[Hashed]):
    """Given its row, a uniform report's densities of x against x' are below kRR's in the convex order.

    In a row in which x and x' have different hashes they are exactly kRR's over the cells; if x and x' collide they are
    lower. So kRR's blanket bound at the same n, with as many dummies, is never below the truth, and its pair dominates
    and composes.

    The hash functions may be any, so the bound must cover those with three answers that collide in no row. Among these
    kRR's attack works: everybody knows the functions and sees each report's row r. If y = h_r(x) the report counts for
    x, if y = h_r(x') for x', else for neither. The counted batch is that of kRR over the cells, the others with a third
    value. If three answers collide in some rows, the same test is somewhat weaker.
    """

    exact_blanket: ClassVar[bool] = True

    @cached_property
    def _krr(self) -> KrrPairs:
        return KrrPairs(self.mechanism.krr)

    def described(self) -> str:
        """Return a short description."""
        return f"hashed kRR with {self.mechanism.cells} cells and local ε {self.mechanism.epsilon_local:.4g}"

    @property
    def symbols(self) -> int:
        """As many as cells in a row."""
        return self.mechanism.cells

    def upper_bounds(self) -> tuple[str, ...]:
        """The blanket."""
        return self._krr.upper_bounds()

    def attack_bound(self, dummies: int) -> str | None:
        """KRR's: some hash functions have three answers that collide in no row; beside dummies, one for each cell."""
        return self._krr.attack_bound(dummies)

    @property
    def attacked(self) -> KRR:
        """KRR over the cells of one row."""
        return self.mechanism.krr

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
        """KRR's: three answers that collide in no row, the others have the third."""
        return self._krr.attacking_walk(part)
