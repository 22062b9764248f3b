"""Tilts a draw: step d_j has the mass q_j = m_j·e^{θd_j}/M₁(θ). Bounds the errors of the doubles."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, isqrt

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.numbers import UNIT_ROUNDOFF

Array = NDArray[np.float64]

_PAD = 1e-6
"""Relative charge for the rounding of a moment: a thousand times the error of a mass."""

_UNSEEN = 1e-250
"""Most that steps with an underflowing tilted mass add to a moment, in units of 1/θ or 1/θ²: x²e^−x for x > 600."""


@dataclass(frozen=True)
class TiltedDraw:
    """One draw under the tilt; a draw that takes no step rests at 0.

    Attributes:
        steps: shape (steps,).
        masses: q_j, shape (steps,).
        spread: Σ q_j·w_j·|d_j|, w_j the error of q_j and of sums of it, in units of roundoff, at least 2.
        variance: never below the draw's variance.
        deviation: never below the draw's mean distance from some point; at most about the root of the variance.
    """

    steps: Array
    masses: Array
    spread: float
    variance: float
    deviation: float

    @classmethod
    def of(cls, sums: IidSum, tilt: float) -> TiltedDraw:
        """Return a draw of `sums` under θ = `tilt`."""
        steps, masses = np.array(sums.steps), np.array(sums.masses)
        exponents = tilt * steps
        moved, grown = np.expm1(exponents), np.exp(exponents)
        moment = 1 + fsum((moved * masses).tolist())
        tilted = masses * grown / moment
        # All q_j share the error of M₁, which is that of its terms before their cancellation. A sum of k terms, in any
        # order, has an error of at most k units of roundoff of their sizes. With T = Σ q_j|td_j|, either component of a
        # transform sums terms of at most 2T: k at once, and then its parts. So both are wrong by at most 4T for each of
        # k + parts. A weight of 1 is charged with 64 units (`contour._ROUNDING`).
        common = float((np.abs(moved) + np.abs(exponents) * grown) @ masses) / moment
        common += (_part(len(steps)) + len(steps) / _part(len(steps))) / 16
        # The term of a large negative step is 0 under the tilt, for any size.
        sizes = np.abs(np.where(tilted > 0, steps, 0.0))
        spread = float(((2 + common + tilt * sizes) * sizes) @ tilted)
        # About any point the second moment is at least the variance, so the mean's own rounding is safe.
        mean, resting = float(tilted @ steps), max(sums.rest_mass, 0.0) / moment
        away = np.where(tilted > 0, np.abs(steps - mean), 0.0)
        second = float(tilted @ away**2) + resting * mean**2
        first = min(float(tilted @ away) + resting * abs(mean), float(tilted @ sizes))
        pad, unseen = 1 + _PAD, _UNSEEN / tilt
        return cls(steps, tilted, spread, second * pad + unseen / tilt, first * pad + unseen)

    def transform(self, starts: Array, offsets: Array) -> tuple[Array, Array]:
        """Return the real and the imaginary part of Σ q_j (e^{itd_j} − 1), shape (starts, offsets).

        Each t is a start plus an offset, both at least 0. The result is off by a few u·t·`spread`.

        If x(t) = e^{itd} − 1, then x(a + b) = x(a) + x(b) + x(a)·x(b). So few exponentials and a product of matrices
        are enough. No term is larger than 2|td|, so nothing is lost by cancellation.
        """
        across, along = np.zeros((2, len(starts), len(offsets)))
        part = _part(len(self.steps))
        for some in range(0, len(self.steps), part):
            steps, masses = self.steps[some : some + part], self.masses[some : some + part]
            real, imaginary = (turned * masses for turned in _turned(starts, steps))
            further, sideways = _turned(offsets, steps)
            across += real @ further.T - imaginary @ sideways.T
            along += real @ sideways.T + imaginary @ further.T
            across += real.sum(axis=1)[:, np.newaxis] + further @ masses
            along += imaginary.sum(axis=1)[:, np.newaxis] + sideways @ masses
        return across, along

    def doubt(self, t: Array | float) -> Array:
        """Return a bound on the error of |Σ q_j e^{itd_j}|² − 1 = 2a + a² + b², a + ib being `transform` at `t`."""
        doubt: Array = 1024 * UNIT_ROUNDOFF * (1 + np.asarray(t) * self.spread)
        return doubt


def _part(steps: int) -> int:
    """Return how many of so many steps are summed at once: the root, so that parts and their sums have few terms."""
    return isqrt(steps - 1) + 1


def _turned(t: Array, steps: Array) -> tuple[Array, Array]:
    """Return the real and the imaginary part of e^{itd} − 1, shape (t, steps)."""
    # By half angles: 2i·sin(td/2)·e^(itd/2) keeps its digits if td is tiny, cos(td) − 1 would not.
    half = np.multiply.outer(t, steps / 2)
    sine, cosine = np.sin(half), np.cos(half)
    return -2 * sine * sine, 2 * sine * cosine
