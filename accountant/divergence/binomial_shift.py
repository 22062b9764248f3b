"""Brackets δ of one report of binary randomized response among others whose true bits are known.

Others: z with 0 and o with 1, and D uniform dummies; p = 1/(E+1). The view is the number of ones, so
A = B(z, p) + B(o, 1−p) + B(D, ½), and P (victim has 1) and Q (victim has 0) add a Bernoulli(1−p) or (p):
    P(i) = (1−p)A(i−1) + pA(i),   Q(i) = pA(i−1) + (1−p)A(i).
A is log-concave, so ρ_i = A(i−1)/A(i) and with it P/Q rise in i: the best event is {count ≥ c}. With
a = (1−p) − e^ε p, b = e^ε(1−p) − p, r = b/a,
    δ(c) = P(≥c) − e^ε Q(≥c) = a·A(c−1) − (e^ε−1)·P(A ≥ c),   P(i) − e^ε Q(i) = a·A(i−1) − b·A(i) ≥ 0 iff ρ_i ≥ r.
So the best c has its c−1 at a mode of A(i)r^i: of A tilted by θ = ln r, again a sum of independent bits, whose modes
are less than 1 from its mean (Darroch, 1964). The maximum over the four whole numbers there *is* δ(ε); any one of
them is a lower bound. It also gives δ ≤ a·M(θ)e^{−θ(mean−1)}, Chernoff's bound on A(c−1).
The other direction (Q against P) is the mirror image with z and o exchanged.

A's mass and tail are trapezoid sums over |t| ≤ π of Π φ_i(θ+it)^{n_i} times a kernel. They are exact except for aliases
at distance P, charged with Chernoff bounds; the cut at T, charged through |φ_i| ≤ exp(−2v_i sin²(t/2)); and rounding,
charged per node. Everything is relative to the saddle point's value, so small δ keep their relative precision.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import asin, ceil, exp, expm1, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.mechanisms import KRR, exp_decimal
from hubbub.accountant.numbers import DROWNED, UNIT_ROUNDOFF

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

_ROUNDING = 16 * UNIT_ROUNDOFF
"""Charge per unit of an argument's size: more than the roundings of its inputs and operations combined."""

_DECAY = 45.0
"""The cut is at the node at which the power has fallen to e^-45."""

_ALIAS = 36.0
"""Aliases are reduced to about e^-36 of the peak."""

_OFFSETS = np.arange(4.0)
"""Thresholds that are tried, from the lowest that can be best."""

_LARGER = 1 + np.geomspace(0.02, 30.0, 60)
"""The s > θ that are tried against aliases, in units of θ."""

_FLOOR = -600.0
"""If Chernoff's bound on ln δ is below this, it is the result."""

_TILT_LIMIT = 200.0
"""Largest tilt: beyond it ε is within e^-200 of the local one."""

_CHUNK = 1 << 19
"""Most complex numbers in memory at once."""


@dataclass(frozen=True)
class Shift:
    """The victim's side at one ε: a, b, e^ε − 1 and p as doubles, to half an ulp, and the dummies."""

    keep: float
    lose: float
    growth: float
    other: float
    truthful: float
    dummies: int


def shift_at(mechanism: KRR, epsilon: float, dummies: int) -> Shift | None:
    """Return the setting for kRR with k = 2; None if ε is at least the local one, as δ is then 0."""
    factor = Fraction(exp_decimal(epsilon))
    other, truthful = mechanism.other, mechanism.truthful
    keep, lose = truthful - factor * other, factor * truthful - other
    if keep <= 0:
        return None
    return Shift(float(keep), float(lose), float(factor - 1), float(other), float(truthful), dummies)


def log_keep_up(shift: Shift) -> float:
    """The log of a, rounded up: the δ of one report alone."""
    alone = log(shift.keep)
    return alone + 4 * UNIT_ROUNDOFF * (1 + abs(alone))


def log_delta_ends(shift: Shift, zeros: Array, ones: Array) -> tuple[Array, Array]:
    """Ends of ln δ for each pair (zeros, ones) of others: (lower, upper), with the shape of `zeros`.

    `upper` is at most ln a, the δ of one report alone.
    """
    width = 128
    rows = max(1, _CHUNK // width)
    parts = [_ends(shift, zeros[i : i + rows], ones[i : i + rows]) for i in range(0, len(zeros), rows)]
    return np.concatenate([low for low, _ in parts]), np.concatenate([high for _, high in parts])


@dataclass(frozen=True)
class _TiltedReports:
    """Laws tilted by e^θ: probabilities of a one and a zero, and the log moments, for zeros, ones, dummies."""

    tilt: float
    up: Array
    down: Array
    moments: Array

    def means(self, counts: Array) -> Array:
        return counts @ self.up

    def variances(self, counts: Array) -> Array:
        return counts @ (self.up * self.down)


def _tilted(shift: Shift, tilt: float) -> _TiltedReports:
    up = np.array([shift.other, shift.truthful, 0.5])
    down = np.array([shift.truthful, shift.other, 0.5])
    total = down + up * exp(tilt)
    return _TiltedReports(tilt, up * exp(tilt) / total, down / total, np.log1p(up * expm1(tilt)))


def _ends(shift: Shift, zeros: Array, ones: Array) -> tuple[Array, Array]:
    """Return both ends per row; rows that Chernoff's bound already decides are not integrated."""
    counts = np.column_stack([zeros, ones, np.full(len(zeros), float(shift.dummies))])
    best = log(shift.lose / shift.keep) if shift.growth > 0 else 0.0
    unknown = np.full(len(zeros), log_keep_up(shift))
    # ε is all but the local one: not worth an evaluation, and the δ of one report alone is safe.
    if best > _TILT_LIMIT:
        return np.full(len(zeros), -np.inf), unknown
    law = _tilted(shift, best)
    mean, variance = law.means(counts), law.variances(counts)
    # The best c is above the mean and less than 2 beyond it. The mean is known to ±doubt; while doubt < 0.4, the four
    # whole numbers from `center` on include every candidate.
    doubt = _ROUNDING * (mean + variance * (1 + best) + 1)
    center = np.floor(mean - doubt) + 1
    wrong = _ROUNDING * (counts @ np.abs(law.moments) + best * (mean + 1) + 8)
    # Chernoff's bound falls as the mean grows, so the smallest possible mean is safe.
    upper = np.minimum(unknown + counts @ law.moments - best * (mean - doubt - 1) + wrong, unknown)
    lower = np.full(len(zeros), -np.inf)
    open_ = (upper > _FLOOR) & (doubt < 0.4)
    if np.any(open_):
        # Any θ > 0 is valid, but near 0 the kernel has a pole and aliases hardly fade, so θ stays away from 0.
        tilt = max(best, 1 / sqrt(max(float(np.min(variance[open_])), 1.0)))
        found = _evaluate(shift, _tilted(shift, tilt), counts[open_], center[open_])
        lower[open_], upper[open_] = found[0], np.minimum(found[1], upper[open_])
    # If the mean is not known well enough to place c, only the δ of one report alone is certain.
    return lower, np.where(doubt < 0.4, upper, unknown)


def _evaluate(shift: Shift, law: _TiltedReports, counts: Array, center: Array) -> tuple[Array, Array]:
    """Both ends of ln max over the offsets of δ(center + offset), by the trapezoid."""
    variance = law.variances(counts)
    peak = counts @ law.moments - law.tilt * center
    period, alias = _period(law, counts, center, peak)
    small = float(np.min(variance))
    angle = 2 * asin(sqrt(_DECAY / 2 / small)) if small > _DECAY / 2 else pi
    nodes = min((period - 1) // 2, ceil(angle * period / (2 * pi)))
    t: Array = np.arange(nodes + 1, dtype=np.float64) * (2 * pi / period)
    if nodes < (period - 1) // 2:
        alias = alias + 2 * t[-1] / pi * np.exp(-2 * variance * np.sin(t[-1] / 2) ** 2)
    value, error = _trapezoid(shift, law, counts, center, (t, period))
    reach = _kernel_sizes(shift, law.tilt, t[:1])[0]
    error = (error + np.multiply.outer(alias, reach)) * (1 + 1e-9)
    wrong = _ROUNDING * (counts @ np.abs(law.moments) + law.tilt * np.abs(center) + np.abs(peak) + 8)
    return _logarithm(np.max(value - error, axis=1), peak - wrong), _logarithm(
        np.max(value + error, axis=1), peak + wrong
    )


def _logarithm(value: Array, scale: Array) -> Array:
    positive = value > 0
    result: Array = np.where(positive, np.log(np.where(positive, value, 1.0)) + scale, -np.inf)
    return result


def _trapezoid(
    shift: Shift, law: _TiltedReports, counts: Array, center: Array, nodes: tuple[Array, int]
) -> tuple[Array, Array]:
    """(value, rounding charge) of δ at each offset, both relative to the peak: rows × offsets."""
    t, period = nodes
    damping, phase, charge = _powers(law, counts, center, t)
    weight = np.where(t == 0, 1.0, 2.0) / period
    size = np.exp(damping) * weight
    kernels = _kernels(shift, law.tilt, t)
    value = (size * np.cos(phase)) @ kernels.real - (size * np.sin(phase)) @ kernels.imag
    drift = _OFFSETS[-1] * t * _ROUNDING
    charge = np.minimum(charge + drift, 50.0)
    # e^c − 1 is at most c + c² up to c = 1: no exponential is needed if no node is drowned.
    wrong = size * (charge * (1 + charge) if float(charge.max()) < 1 else np.expm1(charge))
    return value, wrong @ _kernel_sizes(shift, law.tilt, t)


def _period(law: _TiltedReports, counts: Array, center: Array, peak: Array) -> tuple[int, Array]:
    """An odd number P of lattice points, and what aliases add at most per row, relative to kernel and peak.

    δ(c) is a difference of sums over A of one-sided weights, so an alias at c ± mP is at most the kernel at t = 0
    times e^{−θmP − peak} (P(A ≥ ·) ≤ 1) on the left, and times Chernoff's bound at some s > θ on the right.
    """
    wide = int(np.argmax(law.variances(counts)))
    larger = law.tilt * _LARGER
    larger = larger[(larger < 600.0) | (np.arange(60) == 0)]
    # `_rise` of that row, at all of these s at once.
    grown = np.log1p(np.multiply.outer(np.expm1(larger - law.tilt), law.up)) @ counts[wide]
    rise = grown - (larger - law.tilt) * center[wide]
    ahead = (rise + 8 * larger + _ALIAS) / (larger - law.tilt)
    chosen = float(larger[int(np.argmin(ahead))])
    behind = (float(np.max(-peak)) + _ALIAS) / law.tilt + 8
    # Odd, so that nodes are 0 and pairs ±t, and none is at π without its partner.
    period = ceil(max(behind, float(np.min(ahead)), 9.0)) | 1
    left = np.exp(np.minimum(-law.tilt * (period - 4) - peak, 700.0))
    gain = (chosen - law.tilt) * period - 4 * chosen
    right = np.exp(np.minimum(_rise(law, counts, center, chosen) - gain, 700.0))
    beyond = np.sum(counts, axis=1) + 2 < period + center - 4
    return period, 2 * (left + np.where(beyond, 0.0, right))


def _rise(law: _TiltedReports, counts: Array, center: Array, tilt: float) -> Array:
    """The log of E[e^{s(A−c)}] less the peak, at s = `tilt`."""
    parts = law.up * expm1(tilt - law.tilt)
    grown: Array = counts @ np.log1p(parts) - (tilt - law.tilt) * center
    return grown


def _powers(law: _TiltedReports, counts: Array, center: Array, t: Array) -> tuple[Array, Array, Array]:
    """ln|Π φ_i^{n_i}|, its phase less c·t, and the relative error of both: each rows × nodes.

    |φ_i|² = 1 − 4 v_i sin²(t/2), raised to a floor above its own error. There the number computed and the true one are
    both at most the floor's in size, so they differ by twice that at most: the charge c has e^c − 1 > 2.
    """
    half = np.sin(t / 2)
    lost = np.multiply.outer(4 * law.up * law.down, half**2)
    square = np.maximum(1 - lost, 1e-12)
    magnitude = np.log1p(np.maximum(-lost, 1e-12 - 1)) / 2
    angle = np.arctan2(np.multiply.outer(law.up, np.sin(t)), 1 - 2 * np.multiply.outer(law.up, half**2))
    phase = counts @ angle - np.multiply.outer(center, t)
    drowned = np.where(lost > 1 - 1e-12, DROWNED / _ROUNDING, 0.0)
    charge = counts @ (np.abs(angle) + lost / square + drowned) + np.multiply.outer(np.abs(center), t)
    charge = charge + 8 + len(t) / 16  # kernels, and the summation over the nodes
    return counts @ magnitude, phase, _ROUNDING * charge


def _kernels(shift: Shift, tilt: float, t: Array) -> Complex:
    """Nodes × offsets: the transform of δ(c + offset), a·e^z − (e^ε − 1)/(1 − e^−z), shifted."""
    gone = -expm1(-tilt) + 2 * exp(-tilt) * np.sin(t / 2) ** 2 + 1j * exp(-tilt) * np.sin(t)
    delta = shift.keep * np.exp(tilt + 1j * t) - shift.growth / gone
    turn = np.exp(np.multiply.outer(-(tilt + 1j * t), _OFFSETS))
    shifted: Complex = turn * delta[:, None]
    return shifted


def _kernel_sizes(shift: Shift, tilt: float, t: Array) -> Array:
    """Moduli of the two parts that `_kernels` subtracts, added; largest at t = 0."""
    gone = np.hypot(-expm1(-tilt) + 2 * exp(-tilt) * np.sin(t / 2) ** 2, exp(-tilt) * np.sin(t))
    return np.multiply.outer(shift.keep * exp(tilt) + shift.growth / gone, np.exp(-tilt * _OFFSETS))
