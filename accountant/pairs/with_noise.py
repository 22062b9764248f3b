"""Defines the pair of noise of the shuffler: one person against everybody, whatever the others sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from hubbub.accountant.divergence.noise_atoms import attacking_atoms, dominated_atoms, dominating_atoms
from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.losses.grid import LossGrid, connect_dots, grid_step
from hubbub.accountant.losses.tangents import tangent_grid
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
        """Everybody else is known. None if answers may share a cell, of a tree, and with dummies, which hide too."""
        return "noise-lower" if isinstance(self.mechanism.randomizer, KRR) and not dummies else None

    def dominating_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield the atoms of the pair."""
        yield dominating_atoms(*self._asked())

    def dominating_grid(self, part: Part, log_tail: float) -> LossGrid:
        """Return its losses; those of the law's ends may count as infinite, so that the others get a finer grid."""
        atoms = dominating_atoms(*self._asked())
        return connect_dots([atoms if self.mechanism.ends else _without_ends(atoms)])

    def dominated_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield atoms below those of the pair: the same ones, unless these are on a grid."""
        yield dominated_atoms(*self._asked())

    def dominated_grid(self, part: Part, log_tail: float) -> LossGrid:
        """Return losses below; those of the law's ends are left out if they count as infinite above."""
        atoms = dominated_atoms(*self._asked(), ends=self.mechanism.ends)
        return tangent_grid([atoms if self.mechanism.ends else _without_ends(atoms)])

    def attacking_walk(self, part: Part) -> Walk | None:
        """Return None: this attack is no walk."""
        return None

    def attack_grid(self, part: Part, log_tail: float) -> LossGrid | None:
        """Return losses of the attack on the two answers' counts; it is none on others who are honest."""
        if self.attack_bound(part.dummies) is None or part.reports > 1:
            return None
        return tangent_grid([_without_ends(attacking_atoms(*self._asked()))])

    def is_attack_on_itself(self, part: Part) -> bool:
        """With two symbols the attack is the pair."""
        is_attacked = self.attack_bound(part.dummies) is not None and part.reports == 1
        return is_attacked and self.mechanism.one_moves

    def _asked(self) -> tuple[KRR, NoiseLaw, bool]:
        return self.mechanism.krr, self.mechanism.noise, self.mechanism.one_moves


def without_noise(part: Part) -> Part:
    """Return the part of the randomizer alone, whose bounds are valid beside noise too: it is a post-processing."""
    return replace(part, mechanism=part.mechanism.randomizer) if isinstance(part.mechanism, WithNoise) else part


def _without_ends(atoms: Atoms) -> Atoms:
    """Return the atoms with those of the law's ends cut, if a grid without them is so much finer.

    At the ends of the law nothing is hidden but by the randomizer, so their loss is about ε_local; that of all other
    values may be a tenth of it.
    """
    loss = np.log1p(atoms.gap / atoms.q)
    largest = float(loss.max(initial=0.0))
    # At an end one law has no mass, so the randomizer alone decides: that loss is the largest of all.
    kept = loss < largest * (1 - 1e-9)
    inner = float(loss[kept].max(initial=0.0))
    if not inner or grid_step(inner) * FINER > grid_step(largest):
        return atoms
    cut = atoms.cut + float((2 * atoms.q + atoms.gap)[~kept].sum())
    return Atoms(atoms.q[kept], atoms.gap[kept], atoms.even, cut)
