"""Tilts a draw: step d_j has the mass q_j = m_j·e^{θd_j}/M₁(θ). Bounds the errors of the doubles."""

from __future__ import annotations

from dataclasses import dataclass

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
        moment = 1 + float(moved @ masses)
        tilted = masses * grown / moment
        # All q_j share the error of M₁, which is that of the sum before its cancellation. A sum of many terms has an
        # error of as many units of roundoff, and a weight of 1 is charged with 64 of them (`contour._ROUNDING`).
        common = float((np.abs(moved) + np.abs(exponents) * grown) @ masses) / moment + len(steps) / 64
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

    def transform(self, t: Array) -> tuple[Array, Array]:
        """Return the real and the imaginary part of Σ q_j (e^{itd_j} − 1), shape of `t`; off by a few u·t·`spread`."""
        # e^(itd) − 1 by half angles: 2i·sin(td/2)·e^(itd/2) keeps its digits if td is tiny, cos(td) − 1 would not.
        half = np.multiply.outer(t, self.steps / 2)
        sine, cosine = np.sin(half), np.cos(half)
        return -2 * ((sine * sine) @ self.masses), 2 * ((sine * cosine) @ self.masses)

    def doubt(self, t: Array | float) -> Array:
        """Return a bound on the error of |Σ q_j e^{itd_j}|² − 1 = 2a + a² + b², a + ib being `transform` at `t`."""
        doubt: Array = 1024 * UNIT_ROUNDOFF * (1 + np.asarray(t) * self.spread)
        return doubt
