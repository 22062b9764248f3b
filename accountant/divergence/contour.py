"""Brackets E[S₊] from both sides, for a sum S of many i.i.d. draws, by one contour integral.

Let M(z) = E[e^{zS}], z = θ + it with θ > 0, and ξ a standard normal independent of S.

1. Smoothing. x₊ is convex and hξ has mean 0, so E[S₊] ≤ E[(S + hξ)₊] (Jensen). The increase is h·E[ψ(S/h)],
   ψ(a) = φ(a) − |a|Φ(−|a|) ≤ φ(a), so E[S₊] ≥ E[(S + hξ)₊] − h·E[φ(S/h)]. Both right sides are integrals
   over the same nodes, since x₊ has the transform 1/z² (if every draw rests at 0, S = 0 adds hφ(0) exactly, which is
   subtracted from the upper end):
       E[(S + hξ)₊] = (1/2π) ∫ M(z) e^{h²z²/2} / z² dt,    h·E[φ(S/h)] = (1/2π) ∫ M(z) e^{h²z²/2} h² dt.
2. Trapezoid. With step Δ and P = 2π/Δ, Poisson's summation gives *exactly* Σ_m e^{−θmP} E[(S + hξ + mP)₊]
   (and likewise for φ): the wanted term m = 0, and others that are all ≥ 0. So the upper end stays an upper
   end, and only the lower one is charged: m > 0 adds at most e^{−θmP}(mP + E(S+hξ)₊), and m < 0 at most
   e^{θmP − smP}·K(s)/(es) for every s > θ, K(s) = M(s) e^{h²s²/2}, since x₊e^{−sx} ≤ 1/(es).
3. Cut. |M(z)e^{h²z²/2}| ≤ K(θ) e^{−h²t²/2} bounds the part beyond the last node: charged to both sides.
4. Rounding. M(z)/M(θ) is the n-th power of Σ q_i e^{itd_i} with tilted masses q_i. All sums are arranged
   relative to the resting value, so that the exponent's error is n·u·Σ q_i|t d_i| and not n·u. Every node is
   charged with that error times a constant that covers its operations.

5. Most nodes are only bounded (`negligible_nodes`): if M(z) is negligible, a bound on its size is charged.

The cost hardly depends on n or on the wanted precision: some hundred nodes, no convolution. θ is the saddle
point, so even a tiny result keeps its relative precision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, e, frexp, fsum, inf, ldexp, log, log1p, pi

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.divergence.counting import countable, counted_positive_part
from hubbub.accountant.divergence.log_bracket import ZERO, LogBracket
from hubbub.accountant.divergence.negligible_nodes import BLOCK, Nodes, loud
from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.divergence.tilted import TiltedDraw
from hubbub.accountant.numbers import DROWNED, UNIT_ROUNDOFF

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

_ROUNDING = 64 * UNIT_ROUNDOFF
"""Charge per unit of an argument's size: covers the rounded inputs and the operations of one node."""

_CUT = 9.0
"""At the last node the smoothing factor is e^(-40.5)."""

_ALIAS = 32.0
"""Aliases are reduced to about e^-32 of the result; the rest is charged."""

_FLOOR = -600.0
"""If Chernoff's bound on ln δ is below this, it is the result."""

_EXPONENTS = 128
"""Largest binary exponent of a step, up or down, for which powers of tilts and smoothings surely are doubles."""

_LARGEST = 600.0
"""Largest exponent of a step that is computed: doubles end at e^709."""

_LARGEST_CHARGE = 300.0
"""The same for a node's charge: such a charge drowns the end, and is multiplied by h² and 1/θ², which may be large."""

_NODES_LIMIT = 300_000
"""Most nodes of one evaluation; if more are requested, fewer are used and the bracket is wider."""

_ROUGH, _ROUGH_NODES = 0.01, 20_000
"""Most nodes of an evaluation of this smoothing: some 4,600 are usual. Finer ones may have more, rougher have less.

Sums with few values need more, and at hundreds of points of a curve that takes several seconds of the processor.
"""

_TERMS_LIMIT = 3_000_000
"""Most nodes times steps, for laws of many steps: a fraction of a second."""

_LARGER = 1 + np.geomspace(0.02, 30.0, 60)
"""The s > θ that are tried against aliases, in units of θ."""

_EVENLY, _ROUNDS = np.linspace(0.0, 1.0, 24), 3
"""Tilts among which the saddle point is searched, as parts of an interval of logarithms, and how often."""

_AT_ONCE = 1 << 12
"""Blocks of nodes that are computed at once: keeps memory at some ten megabytes."""


@dataclass(frozen=True)
class Contour:
    """Where to integrate: tilt θ, smoothing h, period P and the log of K(θ), all doubles."""

    tilt: float
    smoothing: float
    period: float
    nodes: int


def positive_part(sums: IidSum, precision: float) -> LogBracket:
    """Bracket ln(scale · E[S₊]): `upper` never below the truth, `lower` never above it.

    If its error drowns the integral, the upper end is Chernoff's K(θ)/(eθ). It is never above n·E[Y₊], as x₊ is
    subadditive: where few draws leave their rest at all, that is nearly the truth.

    `precision` is the smoothing in units of 1/θ: the relative width is about its square if S has a density, and about
    `precision` if S has few values.
    """
    # The sum of few draws has few values, the worst case for smoothing; but a plain sum is cheap and nearly exact.
    return counted_positive_part(sums) if countable(sums) else integrated_positive_part(sums, precision)


def _log_of_each(sums: IidSum) -> float:
    """Return a number never below ln(scale·n·E[Y₊])."""
    resting = max(sums.rest, 0.0) * sums.rest_mass
    # The sum of two doubles, each within half an ulp, is wrong by at most two units of roundoff of both.
    moved = [
        mass * max(sums.rest + step + 4 * UNIT_ROUNDOFF * (abs(sums.rest) + abs(step)), 0.0)
        for step, mass in zip(sums.steps, sums.masses, strict=True)
    ]
    total = fsum([resting, *moved]) * sums.draws * sums.scale
    return log(total) + _ROUNDING * (1 + abs(log(total))) if total > 0 else inf


def integrated_positive_part(sums: IidSum, precision: float) -> LogBracket:
    """The same without counting, for sums of any length."""
    if sums.best <= 0:
        return ZERO
    found, most = _integrated(sums, precision), _log_of_each(sums)
    return found if found.upper <= most else LogBracket(min(found.lower, most), most)


def _integrated(sums: IidSum, precision: float) -> LogBracket:
    placed = _Placed.of(_in_range(sums))
    ceiling = placed.chernoff()
    # Far below the smallest accepted δ (1e-100): Chernoff's bound is safe and precise enough.
    if ceiling < _FLOOR:
        return LogBracket(-inf, ceiling)
    contour = _choose_contour(placed, precision)
    # One pass over the nodes gives both ends: they differ only in the kernel that each node is weighted with.
    return _assemble(placed, contour, _integrate(placed.sums, contour))


@dataclass(frozen=True)
class _Placed:
    """A sum with its tilt θ, the log of M(θ), and those of M(s) for some s > θ."""

    sums: IidSum
    steps: Array
    masses: Array
    tilt: float
    moment: float
    larger: Array
    moments: Array

    @classmethod
    def of(cls, sums: IidSum) -> _Placed:
        steps, masses = np.array(sums.steps), np.array(sums.masses)
        tilt = saddle_point(sums, steps, masses)
        larger = tilt * _LARGER
        larger = larger[larger * float(np.max(steps)) < _LARGEST]
        moments = log_moment(sums, steps, masses, np.append(tilt, larger))
        return cls(sums, steps, masses, tilt, float(moments[0]), larger, moments[1:])

    def chernoff(self) -> float:
        """The log of scale·M(θ)/(eθ), never below ln of scale·E[S₊], since x₊ ≤ e^{θx}/(eθ)."""
        return self.moment + log(self.sums.scale) - 1 - log(self.tilt) + self.peak_error(self.moment)

    def peak(self, smoothing: float) -> float:
        """The log of K(θ)."""
        return self.moment + (smoothing * self.tilt) ** 2 / 2

    def peaks(self, smoothing: float) -> Array:
        """The logs of K(s) for the larger s."""
        peaks: Array = self.moments + (smoothing * self.larger) ** 2 / 2
        return peaks

    def peak_error(self, peak: float) -> float:
        """Bound on the error of ln K(θ) = `peak`: of its parts relative to the resting value, never of n itself."""
        resting = abs(self.tilt * self.sums.draws * self.sums.rest)
        return _ROUNDING * (1 + self._inner + resting + abs(peak) + abs(log(self.sums.scale)))

    @cached_property
    def _inner(self) -> float:
        exponents = self.tilt * self.steps
        moved = np.expm1(exponents)
        parts = np.abs(moved) + np.abs(exponents) * np.exp(exponents)
        # As in `TiltedDraw.of`: sums of many terms.
        many = 1 + len(self.steps) / 64
        return many * self.sums.draws * float(parts @ self.masses) / (1 + float(moved @ self.masses))


def _in_range(sums: IidSum) -> IidSum:
    """Return the same sum in a unit in which tilts and smoothings, and their fourth powers, are doubles.

    E[(S/u)₊] = E[S₊]/u, and a power of two u changes no digit, except in steps 2^1000 times smaller than the largest
    one, which change by less than any charge.
    """
    binary = frexp(max(*sums.steps, abs(sums.rest)))[1]
    unit = 0 if abs(binary) <= _EXPONENTS else binary
    if unit == 0:
        return sums
    steps = tuple(ldexp(step, -unit) for step in sums.steps)
    rest, best, scale = ldexp(sums.rest, -unit), ldexp(sums.best, -unit), ldexp(sums.scale, unit)
    return replace(sums, steps=steps, rest=rest, best=best, scale=scale)


def log_moment(sums: IidSum, steps: Array, masses: Array, tilts: Array) -> Array:
    """The log of M(θ) for several real θ: shape of `tilts`."""
    exponents = np.multiply.outer(tilts, steps)
    grown: Array = sums.draws * np.log1p(np.expm1(exponents) @ masses) + tilts * (sums.draws * sums.rest)
    return grown


def _slope(sums: IidSum, steps: Array, masses: Array, tilts: Array) -> Array:
    exponents = np.multiply.outer(tilts, steps)
    weights = np.exp(exponents) @ (masses * steps)
    moment = 1 + np.expm1(exponents) @ masses
    # The −2/θ is the slope of −2·ln θ: the integrand carries 1/z², so M(θ)/θ² is its size, not M(θ).
    slope: Array = sums.draws * (weights / moment + sums.rest) - 2 / tilts
    return slope


def saddle_point(sums: IidSum, steps: Array, masses: Array) -> float:
    """Return the minimum of M(θ)/θ² to about one percent; any θ > 0 is valid, this one is precise."""
    # Beyond it e^(θ·step) would leave the range of doubles, which ends at e^709.
    top = 500.0 / float(np.max(steps))
    # A sum that hardly leaves its rest has its saddle point near 2/E S, even with tiny steps.
    low, high = top * min(1e-24, 1 / max(top * sums.draws * abs(sums.rest), 1e-200)), top
    for _ in range(_ROUNDS):
        grid = low * np.exp(log(high / low) * _EVENLY)
        rising = np.flatnonzero(_slope(sums, steps, masses, grid) > 0)
        # If all rise, the minimum is below them; if none rises, it is above.
        place = int(rising[0]) if rising.size else len(grid) - 1
        low, high = float(grid[max(place - 1, 0)]), float(grid[place])
        if low == high:
            break
    return high


def _choose_contour(placed: _Placed, precision: float) -> Contour:
    sums, tilt = placed.sums, placed.tilt
    smoothing = precision / tilt
    here = placed.peak(smoothing)
    # Aliases with m > 0: e^(−θP)·P must be small compared with K(θ) = e^here, so a smaller result needs a longer P.
    behind = max(0.0, -here + log(max(tilt * abs(sums.draws * sums.rest), 1.0))) + _ALIAS
    period = (behind + log1p(behind)) / tilt
    if placed.larger.size:
        # Aliases with m < 0: every s > θ bounds them; the s with the shortest period is used.
        needed = (placed.peaks(smoothing) - here + _ALIAS + 4) / (placed.larger - tilt)
        period = max(period, float(np.min(needed)))
    nodes, limit = ceil(_CUT / smoothing * period / (2 * pi)), _most_nodes(precision, len(sums.steps))
    if nodes > limit:
        # With more smoothing fewer nodes are needed. Both ends stay valid; they are only further apart.
        smoothing *= nodes / limit
        nodes = limit
    return Contour(tilt, smoothing, period, nodes)


def _most_nodes(precision: float, steps: int) -> int:
    rough = ceil(_ROUGH_NODES * _ROUGH / precision) if precision >= _ROUGH else _NODES_LIMIT
    return min(rough, _NODES_LIMIT, _TERMS_LIMIT // steps)


def _integrate(sums: IidSum, contour: Contour) -> tuple[float, float, float]:
    """(E(S+hξ)₊, h·Eφ(S/h), bound on the error of either end), all divided by K(θ)."""
    draw, step = TiltedDraw.of(sums, contour.tilt), 2 * pi / contour.period
    blocks, charge = loud(draw, sums.draws, Nodes(step, contour.nodes, contour.smoothing), contour.tilt)
    total = np.array([0.0, 0.0, charge])
    for start in range(0, len(blocks), _AT_ONCE):
        total += _node_sums(sums, draw, contour, blocks[start : start + _AT_ONCE])
    cut = step * contour.nodes
    # For a falling f the nodes beyond c, times the step, sum to at most ∫_c f; and ∫_c e^(−h²t²/2) dt is at most
    # e^(−h²c²/2)/(h²c). That is taken against 1/t² ≤ 1/c² for the value, and against h² for the bump.
    decay = float(np.exp(-((contour.smoothing * cut) ** 2) / 2)) * (1 + 1e-9)
    beyond = decay / pi * (1 / (contour.smoothing**2 * cut**3) + 1 / cut)
    value, bump, error = (float(part) * step / (2 * pi) for part in total)
    return value, bump, error * (1 + 1e-9) + beyond


def _node_sums(sums: IidSum, draw: TiltedDraw, contour: Contour, blocks: Whole) -> Array:
    """Real parts summed over nodes t and −t of these blocks: the integrand over z², times h², the rounding charge."""
    step, places = 2 * pi / contour.period, np.arange(float(BLOCK))
    index = np.add.outer(blocks, places).ravel()
    inside = index <= contour.nodes
    power = _power(sums, draw, contour, blocks.astype(np.float64) * step, places * step)
    index, damping, phase, charge = (each[inside] for each in (index, *power))
    t = index * step
    square = contour.tilt**2 + t**2
    weight = np.where(index == 0, 1.0, 2.0)
    size = weight * np.exp(damping)
    cosine, sine = np.cos(phase), np.sin(phase)
    value = size * ((contour.tilt**2 - t**2) * cosine + 2 * contour.tilt * t * sine) / square**2
    bump = size * cosine * contour.smoothing**2
    # If the charge overflows nothing is known: an infinite charge makes Chernoff's bound the result.
    known = damping + charge <= _LARGEST_CHARGE
    grown = np.where(known, np.exp(np.minimum(damping + charge, _LARGEST_CHARGE)), inf)
    wrong = weight * grown - size * (1 - 100 * UNIT_ROUNDOFF)
    return np.array([np.sum(value), np.sum(bump), np.sum(wrong * (1 / square + contour.smoothing**2))])


def _power(
    sums: IidSum, draw: TiltedDraw, contour: Contour, starts: Array, offsets: Array
) -> tuple[Array, Array, Array]:
    """ln|M(z)e^{h²z²/2}/K(θ)|, its phase, and a bound on the relative error of the number so computed.

    Each t is a start plus an offset; the results have one dimension, start by start.

    With a + ib = Σ q_j (e^{itd_j} − 1), |1 + a + ib|² = 1 + (2a + a² + b²). Each of a, b is wrong by at most
    a few u·x, x = Σ q_j |t d_j|, weighted with 2 + |θ d_j| for the rounding in q_j. If the modulus is so
    small that its own error dominates, it is raised to a floor of the error's size. The computed number and the true
    one are both at most that in size, so they differ by at most twice that: the charge c has e^c − 1 > 2.
    """
    t = np.add.outer(starts, offsets).ravel()
    real, imaginary = (part.ravel() for part in draw.transform(starts, offsets))
    floor = np.minimum(draw.doubt(t), 0.5)
    modulus = np.maximum(2 * real + real**2 + imaginary**2, floor - 1)
    damping = sums.draws / 2 * np.log1p(modulus) - (contour.smoothing * t) ** 2 / 2
    drift = contour.smoothing**2 * contour.tilt * t
    resting = t * (sums.draws * sums.rest)
    phase = sums.draws * np.arctan2(imaginary, 1 + real) + resting + drift
    charge = sums.draws * (t * draw.spread) / (1 + modulus) + np.abs(resting) + drift + (contour.smoothing * t) ** 2
    charge = np.where(modulus > floor - 1, charge, charge + DROWNED / _ROUNDING)
    return damping, phase, _ROUNDING * charge


def _assemble(placed: _Placed, contour: Contour, parts: tuple[float, float, float]) -> LogBracket:
    value, bump, error = parts
    peak = placed.peak(contour.smoothing)
    wrong = placed.peak_error(peak)
    scale = peak + log(placed.sums.scale)
    upper = value + error - _resting_bump(placed, contour, peak)
    # The error drowns the value. The truth is above 0, so an upper end of 0 would be false; this catches NaN too.
    if not 0 < upper < inf:
        return LogBracket(-inf, placed.chernoff())
    # Smoothing and aliases only raise the value: an upper end may keep them, a lower end must subtract them.
    lower = value - bump - error - _aliases(placed, contour, peak, value + error)
    top = scale + log(upper) + wrong
    return LogBracket(scale + log(lower) - wrong if lower > 0 else -inf, top)


def _resting_bump(placed: _Placed, contour: Contour, peak: float) -> float:
    """Return a lower bound of P(S = 0)·h·φ(0)/K(θ), which smoothing adds on the event that all draws rest at 0."""
    sums = placed.sums
    if sums.rest != 0 or sums.rest_mass <= 0:
        return 0.0
    busy = float(np.sum(placed.masses))
    # 1 − busy as a double would be wrong by half an ulp of 1, n times over.
    log_alone = sums.draws * (log1p(-busy) if busy < 0.5 else log(sums.rest_mass))
    doubt = _ROUNDING * (abs(log_alone) + sums.draws * busy + abs(peak) + 8)
    doubt += placed.peak_error(peak)
    return float(np.exp(log_alone - peak - doubt)) * contour.smoothing * 0.3989422804014326


def _aliases(placed: _Placed, contour: Contour, peak: float, smoothed: float) -> float:
    """Bound on the terms m ≠ 0 of the trapezoid, divided by K(θ); `smoothed` is at least E(S+hξ)₊/K(θ)."""
    far = contour.tilt * contour.period
    if far < 2:
        return inf
    wrap = float(np.exp(min(-far - peak, 700.0))) * contour.period + float(np.exp(-far)) * smoothed
    # Any s > θ bounds the aliases on this side; the best of sixty is used.
    if not placed.larger.size:
        return inf
    gain = (placed.larger - contour.tilt) * contour.period
    ahead = np.where(gain > 1, placed.peaks(contour.smoothing) - peak - gain - np.log(e * placed.larger), 700.0)
    # Twice the first term covers each sum over m, as far ≥ 2 and gain > 1 make both fall geometrically.
    return 2 * (wrap + float(np.exp(min(float(np.min(ahead)), 700.0)))) * (1 + 1e-6)
