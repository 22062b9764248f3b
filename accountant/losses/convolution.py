"""Computes sums of independent privacy losses by FFT, under an exponential tilt, and charges every error.

A `TiltedLaw` measure represents the P-law of a sum of losses: e^{θℓ}·P is e^{log_scale}·(masses + at most `lost`
anywhere). Lost tilted mass τ costs a δ of at most e^{log_scale − θε}·τ·max_x e^{−θx}(1 − e^{−x}), at any loss, because
δ counts mass of losses ℓ ≥ ε with weight (1 − e^{ε−ℓ}) and P is e^{−θℓ} times the tilted mass. So cut tails and the
FFT's rounding are one number each, and even a tiny δ keeps its relative accuracy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import fft

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.losses.grid import LossGrid, dot
from hubbub.accountant.losses.tangents import coarser_below
from hubbub.accountant.numbers import SMALLEST

MAX_POINTS = 1 << 15
"""A measure longer than this is put on a step twice as large before it is convolved."""

ROUNDING = 2.0**-53

NOTHING = 1e-13
"""Mass up to this between the points of a lower end is what transforms leave: it is left out."""

SPAN = 300.0
"""Largest difference of two losses, tilted ones too, at which a lower end is made coarser by lines."""


@dataclass(frozen=True)
class TiltedLaw:
    """P-law of a sum of losses, tilted by e^{θℓ}: see the module. Losses are (first + i)·step."""

    tilt: float
    step: float
    first: int
    masses: Array
    log_scale: float
    lost: float
    pessimistic: bool

    @property
    def losses(self) -> Array:
        """The losses, in nats."""
        return (self.first + np.arange(len(self.masses), dtype=float)) * self.step

    def delta(self, epsilon: float) -> float:
        """Return Σ P(ℓ)·(1 − e^{ε−ℓ})₊ with the lost mass charged: added if pessimistic, subtracted otherwise."""
        # Losses up to ε have weight 0; leaving them out also keeps 1 − e^(ε−ℓ) from being negative.
        start = max(0, math.floor(epsilon / self.step) + 1 - self.first)
        beyond = self.losses[start:] - epsilon
        found = dot(self.masses[start:], np.exp(-self.tilt * beyond) * -np.expm1(-beyond))
        charge = self.lost * worst_weight(self.tilt)
        # Cut mass may count in full, and transforms err in both directions: the charge raises an upper end and lowers a
        # lower one.
        total = found * (1 + 1e-11) + charge if self.pessimistic else found * (1 - 1e-11) - charge
        exponent = self.log_scale - self.tilt * epsilon
        if total <= 0:
            return 0.0
        value = math.exp(min(exponent + math.log(total), 0.0))
        # A positive upper value that underflows must not become 0.
        return max(value, SMALLEST) if self.pessimistic else value


def worst_weight(tilt: float) -> float:
    """Return max over x ≥ 0 of e^{−θx}(1 − e^{−x})."""
    return math.exp(tilt * -math.log1p(1 / tilt) - math.log1p(tilt)) * (1 + 1e-12)


def log_moment(grid: LossGrid, tilt: float) -> float:
    """Return ln Σ P(ℓ) e^{θℓ} over the finite losses."""
    losses, masses = grid.support
    exponents = tilt * losses
    top = float(exponents.max())
    total = dot(masses, np.exp(exponents - top))
    return top + math.log(total)


def tilted(grid: LossGrid, tilt: float) -> TiltedLaw:
    """Tilt one round's losses."""
    exponents = tilt * grid.losses
    top = float(exponents[grid.masses > 0].max())
    # Masses that underflow next to the largest one are covered by `lost`, 1e-300 for each.
    masses = grid.masses * np.exp(np.minimum(exponents - top, 0.0))
    raw = TiltedLaw(tilt, grid.step, grid.first, masses, top, 1e-300 * len(masses), grid.pessimistic)
    return _normalized(raw)


def power(base: TiltedLaw, rounds: int, tolerance: float) -> TiltedLaw:
    """Return the law of the sum of `rounds` independent losses; in all, tilted mass of `tolerance` may be cut."""
    result: TiltedLaw | None = None
    remaining = rounds
    while True:
        # This cut is part of about `remaining` copies of this law, so it gets that share of the tolerance.
        cut = max(tolerance / remaining, 4e-15)
        if remaining % 2:
            result = base if result is None else convolve(result, base, cut)
        remaining //= 2
        if remaining == 0:
            return result if result is not None else base
        base = convolve(base, base, cut)


def convolve(left: TiltedLaw, right: TiltedLaw, cut: float) -> TiltedLaw:
    """Return the law of the sum of the two; tails of tilted mass up to `cut` on each side are cut."""
    squared = left is right
    left = trim(left, cut)
    right = left if squared else trim(right, cut)
    # Steps are powers of two, so the finer law reaches the other's step by doubling its own.
    while left.step < right.step or len(left.masses) > MAX_POINTS:
        left = coarsen(left)
    # A square takes two transforms instead of three.
    right = left if squared else right
    while right.step < left.step or len(right.masses) > MAX_POINTS:
        right = coarsen(right)
    # The second loop may have made the right law coarser: start again.
    if left.step < right.step:
        return convolve(left, right, cut)
    masses, error = _product(left.masses, right.masses)
    # Both laws have total 1 apart from their lost mass: (1 + l)(1 + r) − 1, and the transforms' error.
    lost = left.lost + right.lost + left.lost * right.lost + error
    raw = replace(left, first=left.first + right.first, masses=masses, lost=lost)
    return trim(_normalized(replace(raw, log_scale=left.log_scale + right.log_scale)), cut)


def _product(left: Array, right: Array) -> tuple[Array, float]:
    """Return the convolution and a bound on the sum of its errors.

    Each of the three transforms has a relative error in the 2-norm of at most 8·log₂(N)·u: Higham, Thm 24.2, gives
    about 7·log₂(N)·u for transforms by twos (radix 2), N a power of two, which is why N is one here. pocketfft takes
    such an N by fours, that is by twos, with no rounding for the factors 1, −1, i and −i between. The products' 2-norm
    is at most ‖x‖₁‖y‖₂ either way round, and a 1-norm is at most √N times it.
    """
    size = len(left) + len(right) - 1
    length = 1 << (size - 1).bit_length()
    left_values = fft.rfft(left, length)
    right_values = left_values if left is right else fft.rfft(right, length)
    result = fft.irfft(left_values * right_values, length)[:size]
    norms = [(float(np.abs(side).sum()), math.sqrt(dot(side, side))) for side in (left, right)]
    weight = 2 * norms[0][0] * norms[1][1] + 2 * norms[0][1] * norms[1][0]
    error = 8 * math.log2(length + 1) * ROUNDING * weight * math.sqrt(length)
    # The true masses are not negative, so raising a negative one to 0 brings it closer to the truth.
    return np.maximum(result, 0.0), error


def _normalized(law: TiltedLaw) -> TiltedLaw:
    total = float(law.masses.sum())
    return replace(law, masses=law.masses / total, lost=law.lost / total, log_scale=law.log_scale + math.log(total))


def trim(law: TiltedLaw, cut: float) -> TiltedLaw:
    """Cut tails whose tilted mass is at most `cut` on each side; pessimistic laws charge it."""
    masses = law.masses
    low = int(np.searchsorted(np.cumsum(masses), cut))
    high = len(masses) - int(np.searchsorted(np.cumsum(masses[::-1]), cut))
    # Nothing would be left: a law whose mass is all tail is not cut.
    if high <= low:
        return law
    # A lower end may leave tails out without a charge: that only lowers δ.
    gone = float(masses[:low].sum() + masses[high:].sum()) * (1 + 1e-12) if law.pessimistic else 0.0
    return replace(law, first=law.first + low, masses=masses[low:high], lost=law.lost + gone)


def coarsen(law: TiltedLaw) -> TiltedLaw:
    """Put the law on a step twice as large, in its own safe direction."""
    lower = None if law.pessimistic else _coarsen_by_lines(law)
    if lower is not None:
        return lower
    masses = law.masses
    if law.first % 2:
        masses = np.append(0.0, masses)
    if len(masses) % 2 == 0:
        masses = np.append(masses, 0.0)
    first = (law.first - law.first % 2) // 2
    even, odd = masses[::2], masses[1::2]
    # A point between two others goes up with share u and down with 1 − u. Its Q-mass is kept if
    # u·e^(−h) + (1 − u)·e^h = 1, that is u = 1/(1 + e^(−h)). Tilted mass has the factor e^(θℓ), which changes with it.
    rise = 1 / (1 + math.exp(-law.step))
    shift = math.exp(law.tilt * law.step)
    to_right = np.append(0.0, odd * (rise * shift))
    to_left = np.append(odd * ((1 - rise) / shift), 0.0)
    merged = even + (to_right + to_left if law.pessimistic else _balanced(to_right, to_left, law))
    return _normalized(replace(law, step=2 * law.step, first=first, masses=merged))


def _coarsen_by_lines(law: TiltedLaw) -> TiltedLaw | None:
    """Do the same for a lower end; None if its masses differ too much.

    Merged in pairs, atoms without a neighbor would move down, by half a step in the mean.
    """
    before = 2 + law.first % 2
    after = 3 - (before + len(law.masses)) % 2
    # What transforms leave between the atoms is left out, which only lowers it.
    kept = np.where(law.masses > NOTHING, law.masses, 0.0)
    masses = np.concatenate([np.zeros(before), kept, np.zeros(after)])
    losses = (law.first - before + np.arange(len(masses), dtype=float)) * law.step
    exponents = law.tilt * (losses - losses[len(losses) // 2])
    if (1 + law.tilt) * (losses[-1] - losses[0]) > SPAN:
        return None
    found = coarser_below(masses * np.exp(-exponents), losses) * np.exp(exponents[::2])
    return _normalized(replace(law, step=2 * law.step, first=(law.first - before) // 2, masses=found))


def _balanced(from_left: Array, from_right: Array, law: TiltedLaw) -> Array:
    """Merge in pairs the masses that the odd points gave to each even one; return those on the even points.

    A gap is the excess on the left of Q-mass over that of the even point's ratio, and on the right of P-mass. If both
    are equal the merged ratio is the point's: that is a post-processing. A surplus on the right stays, so its loss goes
    down; one on the left moves to the next lower even point.

    Masses were tilted to the even point. A surplus moved two steps down takes the tilt of its new place.
    """
    left_gap, right_gap = from_left * math.expm1(law.step), from_right * -math.expm1(-law.step)
    share = np.ones_like(from_left)
    surplus = left_gap > right_gap
    share[surplus] = right_gap[surplus] / left_gap[surplus]
    merged = from_right + share * from_left
    merged[:-1] += ((1 - share) * from_left)[1:] * math.exp(-2 * law.tilt * law.step)
    return merged
