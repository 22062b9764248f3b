"""Step d_j with mass q_j = m_j·e^{θd_j}/M₁(θ), and what its doubles are wrong by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.numbers import UNIT_ROUNDOFF

Array = NDArray[np.float64]

_PAD = 1e-6
"""Relative charge for the rounding of a moment: a thousand times what a mass may be wrong by."""

_UNSEEN = 1e-250
"""What steps whose tilted mass is no double add to a moment at most, in units of 1/θ or 1/θ²: x²e^−x for x > 600."""


@dataclass(frozen=True)
class TiltedDraw:
    """One draw under the tilt; a draw that takes no step rests at 0.

    Attributes:
        steps: shape (steps,).
        masses: q_j, shape (steps,).
        spread: Σ q_j·w_j·|d_j|, w_j what q_j and sums of it may be wrong by, in units of roundoff, at least 2.
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
        moment = 1 + float(moved @ masses)
        tilted = masses * grown / moment
        # All q_j share the error of M₁, which is that of the sum before its cancellation. A sum of many terms is wrong
        # by as many units of roundoff, and a weight of 1 is charged with 64 of them (`contour._ROUNDING`).
        common = float((np.abs(moved) + np.abs(exponents) * grown) @ masses) / moment + len(steps) / 64
        # The part of a large negative step is 0 under the tilt, whatever its size.
        sizes = np.abs(np.where(tilted > 0, steps, 0.0))
        spread = float(((2 + common + tilt * sizes) * sizes) @ tilted)
        # About any point the second moment is at least the variance: the mean's own rounding does no harm.
        mean, resting = float(tilted @ steps), max(sums.rest_mass, 0.0) / moment
        away = np.where(tilted > 0, np.abs(steps - mean), 0.0)
        second = float(tilted @ away**2) + resting * mean**2
        first = min(float(tilted @ away) + resting * abs(mean), float(tilted @ sizes))
        pad, unseen = 1 + _PAD, _UNSEEN / tilt
        return cls(steps, tilted, spread, second * pad + unseen / tilt, first * pad + unseen)

    def transform(self, t: Array) -> tuple[Array, Array]:
        """Return the real and the imaginary part of Σ q_j (e^{itd_j} − 1), shape of `t`; off by a few u·t·`spread`."""
        # e^(itd) − 1 by half angles: 2i·sin(td/2)·e^(itd/2) keeps its digits where td is tiny, cos(td) − 1 would not.
        half = np.multiply.outer(t, self.steps / 2)
        sine, cosine = np.sin(half), np.cos(half)
        return -2 * ((sine * sine) @ self.masses), 2 * ((sine * cosine) @ self.masses)

    def doubt(self, t: Array | float) -> Array:
        """Return a bound on the error of |Σ q_j e^{itd_j}|² − 1 = 2a + a² + b², a + ib being `transform` at `t`."""
        doubt: Array = 1024 * UNIT_ROUNDOFF * (1 + np.asarray(t) * self.spread)
        return doubt
