"""Defines the pair of noise of the shuffler: one person against everybody, whatever the others sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hubbub.accountant.divergence.noise_atoms import NoiseAtoms, dominated_atoms, dominating_atoms
from hubbub.accountant.divergence.noise_beside_people import people_attack
from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.losses.grid import LossGrid, connect_dots, grid_step
from hubbub.accountant.losses.tangents import tangent_grid, tangent_grid_of
from hubbub.accountant.losses.walks import Walk
from hubbub.accountant.mechanisms import KRR, WithNoise
from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.accountant.pairs.base import LocalPairs
from hubbub.accountant.pairs.composition_part import Part

FINER = 2
"""By how much finer a grid must become to be worth that the ends of the law count as an infinite loss."""


@dataclass(frozen=True)
class NoisePairs(LocalPairs[WithNoise]):
    """The pair depends on neither the reports nor the dummies of a part: everybody else is known.

    Of a tree's nodes it is that of a unit; two of them cover a value that differs by two. `alone` is any difference.

    Bounds of the randomizer alone are valid too, as noise is a post-processing of the batch without it. They are asked
    for the randomizer (`without_noise`).
    """

    has_blanket: ClassVar[bool] = False

    def described(self) -> str:
        """Return a short description."""
        law, local = self.mechanism.noise, self.mechanism.epsilon_local
        return (
            f"{self.mechanism.randomizer.kind} of local ε {local:.4g} beside {law.family} noise of standard deviation "
            f"{float(law.variance) ** 0.5:.4g}"
        )

    @property
    def symbols(self) -> int:
        """As many as an answer's report can be."""
        return self.mechanism.krr.categories

    def upper_bounds(self) -> tuple[str, ...]:
        """The noise; the bounds of the randomizer alone are added by who asks (`bounds.best_bounds`)."""
        return ("noise", "local")

    def attack_bound(self, dummies: int) -> str | None:
        """The counts of two answers. None of a tree, and of hashes: answers may share a cell."""
        return "noise-lower" if isinstance(self.mechanism.randomizer, KRR) else None

    def dominating_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield the atoms of the pair."""
        yield from dominating_atoms(*self._asked()).parts

    def dominating_grid(self, part: Part, log_tail: float) -> LossGrid:
        """Return its losses; those of the law's ends may count as infinite, so that the others get a finer grid."""
        atoms = dominating_atoms(*self._asked())
        return connect_dots(atoms.parts if self.mechanism.ends else _without_ends(atoms))

    def dominated_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield atoms of the pair below."""
        yield from dominated_atoms(*self._asked()).parts

    def dominated_grid(self, part: Part, log_tail: float) -> LossGrid:
        """Return losses below; those of the law's ends are left out if they count as infinite above."""
        atoms = dominated_atoms(*self._asked())
        return tangent_grid(atoms.parts if self.mechanism.ends else _without_ends(atoms))

    def attacking_walk(self, part: Part) -> Walk | None:
        """Return None: this attack is no walk."""
        return None

    def attack_grid(self, part: Part, log_tail: float) -> LossGrid | None:
        """Return losses of the pair below, which is an attack if nobody else is honest; else of what counts tell."""
        if self.is_attack_on_itself(part):
            return self.dominated_grid(part, log_tail)
        if self.attack_bound(part.dummies) is None:
            return None
        found = people_attack(self.mechanism, part.reports, part.dummies)
        return None if found is None else tangent_grid_of(found.forth, found.back)

    def is_attack_on_itself(self, part: Part) -> bool:
        """The pair below is the attack."""
        return self.attack_bound(part.dummies) is not None and part.reports == 1 and not part.dummies

    def _asked(self) -> tuple[KRR, NoiseLaw, bool]:
        return self.mechanism.krr, self.mechanism.noise, self.mechanism.one_moves


def without_noise(part: Part) -> Part:
    """Return the part of the randomizer alone, whose bounds are valid beside noise too: it is a post-processing."""
    return replace(part, mechanism=part.mechanism.randomizer) if isinstance(part.mechanism, WithNoise) else part


def _without_ends(atoms: NoiseAtoms) -> tuple[Atoms, ...]:
    """Return the atoms with those of the law's ends cut, if a grid without them is so much finer.

    At the ends of the law nothing is hidden but by the randomizer, so their loss is near ε_local; that of all other
    values may be a tenth of it.
    """
    inner, ends = atoms.parts
    largest, last = (float(np.log1p(part.gap / part.q).max(initial=0.0)) for part in atoms.parts)
    if not largest or grid_step(largest) * FINER > grid_step(last):
        return atoms.parts
    return (replace(inner, cut=inner.cut + float((2 * ends.q + ends.gap).sum())),)
