"""Bounds all that one person sends over a task's rounds as one report of a randomizer known by its local ε."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.mechanisms import Generic, Sequence
from hubbub.accountant.pairs.base import LocalPairs
from hubbub.accountant.pairs.composition_part import Part
from hubbub.accountant.pairs.generic import GenericPairs


@dataclass(frozen=True)
class SequencePairs(LocalPairs[Sequence]):
    """The stronger clones, with `part.reports` the steady people, also for a victim who misses rounds.

    See accounting-signs.md, "Who counts as n". No attack is known: it is only one randomizer of its ε.
    """

    has_blanket: ClassVar[bool] = False

    def described(self) -> str:
        """Return a short description."""
        return f"one report over all rounds, of local ε {self.mechanism.epsilon_local:.4g}"

    def upper_bounds(self) -> tuple[str, ...]:
        """Stronger clones."""
        return ("stronger-clones", "local")

    def attack_bound(self, dummies: int) -> None:
        """Return None: these reports need not reach what kRR on three values reaches."""
        return

    def dominating_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield atoms of the stronger-clone pair."""
        yield from self._generic.dominating_atoms(part, log_tail)

    def dominated_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield merged atoms of the same pair."""
        yield from self._generic.dominated_atoms(part, log_tail)

    def attacking_walk(self, part: Part) -> None:
        """Return None: no attack is known."""
        return

    @property
    def _generic(self) -> GenericPairs:
        return GenericPairs(Generic(self.mechanism.epsilon_local))
