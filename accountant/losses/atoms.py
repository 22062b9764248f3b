"""Atoms of a symmetric pair, as walks yield them and grids take them."""

from __future__ import annotations

from dataclasses import dataclass

from hubbub.accountant.divergence.binomials import Array

TINY = 1e-290
"""Masses below are near the least a double holds, where ratios lose their digits: they are cut."""


@dataclass(frozen=True)
class Atoms:
    """Atoms with Q-mass `q` and P-mass `q + gap`, each meaning its mirror image too (P and Q swapped).

    `even` is the mass at ratio 1, `cut` the mass (of P, and of Q) that no atom carries.
    """

    q: Array
    gap: Array
    even: float
    cut: float

    def accurate(self) -> Atoms:
        """Return them without the atoms whose ratio may have lost its digits to underflow; their mass is cut."""
        tiny = self.q < TINY
        if not tiny.any():
            return self
        # With its mirror image an atom has both of its masses on either side.
        cut = self.cut + float((2 * self.q + self.gap)[tiny].sum())
        return Atoms(self.q[~tiny], self.gap[~tiny], self.even, cut)
