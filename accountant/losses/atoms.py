"""Defines the atoms of a symmetric pair, which walks yield and grids take."""

from __future__ import annotations

from dataclasses import dataclass

from hubbub.accountant.divergence.binomials import Array

TINY = 1e-290
"""Masses below this are near the smallest double, so ratios lose their digits: they are cut."""


@dataclass(frozen=True)
class Atoms:
    """Atoms with Q-mass `q` and P-mass `q + gap`; each also represents its mirror image (P and Q swapped).

    `even` is the mass at ratio 1, `cut` the mass (of P, and of Q) that is in no atom.
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
