"""E[S₊] for a sum S of many i.i.d. draws, as one contour integral, bracketed from both sides.

Let M(z) = E[e^{zS}], z = θ + it with θ > 0, and ξ a standard normal independent of S.

1. Smoothing. x₊ is convex and hξ has mean 0, so E[S₊] ≤ E[(S + hξ)₊] (Jensen). The increase is h·E[ψ(S/h)],
   ψ(a) = φ(a) − |a|Φ(−|a|) ≤ φ(a), so E[S₊] ≥ E[(S + hξ)₊] − h·E[φ(S/h)]. Both right sides are integrals
   over the same nodes, since x₊ has the transform 1/z² (where every draw rests at 0, S = 0 adds hφ(0) exactly,
   which is taken off the upper end):
       E[(S + hξ)₊] = (1/2π) ∫ M(z) e^{h²z²/2} / z² dt,    h·E[φ(S/h)] = (1/2π) ∫ M(z) e^{h²z²/2} h² dt.
2. Trapezoid. With step Δ and P = 2π/Δ, Poisson's summation gives *exactly* Σ_m e^{−θmP} E[(S + hξ + mP)₊]
   (and the like for φ): the wanted term m = 0, and others that are all ≥ 0. So the upper end stays an upper
   end, and only the lower one is charged: m > 0 adds at most e^{−θmP}(mP + E(S+hξ)₊), and m < 0 at most
   e^{θmP − smP}·K(s)/(es) for every s > θ, K(s) = M(s) e^{h²s²/2}, since x₊e^{−sx} ≤ 1/(es).
3. Cut. |M(z)e^{h²z²/2}| ≤ K(θ) e^{−h²t²/2} bounds what lies beyond the last node: charged to both sides.
4. Rounding. M(z)/M(θ) is the n-th power of Σ q_i e^{itd_i} with tilted masses q_i. All sums are arranged
   relative to the resting value, so that the exponent's error is n·u·Σ q_i|t d_i| and not n·u. Every node is
   charged with that error times a constant that covers the operations made on it.

The cost depends on the wanted precision, hardly on n: some thousand nodes, no convolution. θ is the saddle
point, so the result keeps its relative precision however small it is.
"""

from dataclasses import dataclass, replace
from math import ceil, e, frexp, inf, ldexp, log, log1p, pi

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.divergence.counting import countable, counted_positive_part
from hubbub.accountant.divergence.logs import ZERO, LogBracket
from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.numbers import DROWNED, UNIT_ROUNDOFF

Array = NDArray[np.float64]

_ROUNDING = 64 * UNIT_ROUNDOFF
"""Charge per unit of an argument's size: covers the rounded inputs and the operations of one node."""

_CUT = 9.0
"""The last node lies where the smoothing factor is e^(-40.5)."""

_ALIAS = 32.0
"""Aliases are pushed down to about e^-32 of the result; what is left is charged."""

_FLOOR = -600.0
"""Where Chernoff's bound on ln δ is below this, it is the answer."""

_EXPONENTS = 128
"""Largest binary exponent of a step, up or down, for which powers of tilts and smoothings surely are doubles."""

_LARGEST = 600.0
"""Largest exponent of a charge that is formed: e^709 is the end of the doubles, and it is multiplied on."""

_NODES_LIMIT = 300_000
"""Most nodes of one evaluation; a request beyond it is answered with fewer and a wider bracket."""

_TERMS_LIMIT = 3_000_000
"""Most nodes times steps, for laws of many steps: a fraction of a second."""

_BLOCK = 1 << 18
"""Nodes times steps worked on at once: keeps memory at a few megabytes."""


@dataclass(frozen=True)
class Contour:
    """Where to integrate: tilt θ, smoothing h, period P and the log of K(θ), all doubles."""

    tilt: float
    smoothing: float
    period: float
    nodes: int


def positive_part(sums: IidSum, precision: float) -> LogBracket:
    """Bracket ln(scale · E[S₊]): `upper` never below the truth, `lower` never above it.

    Where the integral is lost in its error, the upper end is Chernoff's K(θ)/(eθ).

    `precision` is the smoothing in units of 1/θ: the relative width is about its square where S has a
    density, and about `precision` where S sits on a few points.
    """
    # Few draws sit on few points, where smoothing is at its worst; there the plain sum is cheap and nearly exact.
    return counted_positive_part(sums) if countable(sums) else integrated_positive_part(sums, precision)


def integrated_positive_part(sums: IidSum, precision: float) -> LogBracket:
    """The same by the contour integral alone, for sums of any length."""
    if sums.best <= 0:
        return ZERO
    sums = _in_range(sums)
    steps, masses = np.array(sums.steps), np.array(sums.masses)
    tilt = _saddle_point(sums, steps, masses)
    ceiling = _chernoff(sums, steps, masses, tilt)
    # Far below the smallest δ that can be asked for (1e-100): Chernoff's bound is safe and precise enough.
    if ceiling < _FLOOR:
        return LogBracket(-inf, ceiling)
    contour = _choose_contour(sums, steps, masses, tilt, precision)
    # One pass over the nodes gives both ends: they differ only in the kernel that each node is weighted with.
    value, bump, error = _integrate(sums, steps, masses, contour)
    return _assemble(sums, steps, masses, contour, (value, bump, error))


def _in_range(sums: IidSum) -> IidSum:
    """Return the same sum in a unit in which tilts and smoothings, and their fourth powers, are doubles.

    E[(S/u)₊] = E[S₊]/u, and a power of two u changes no digit, but for steps 2^1000 times smaller than the largest one,
    which move by less than any charge.
    """
    binary = frexp(max(*sums.steps, abs(sums.rest)))[1]
    unit = 0 if abs(binary) <= _EXPONENTS else binary
    if unit == 0:
        return sums
    steps = tuple(ldexp(step, -unit) for step in sums.steps)
    rest, best, scale = ldexp(sums.rest, -unit), ldexp(sums.best, -unit), ldexp(sums.scale, unit)
    return replace(sums, steps=steps, rest=rest, best=best, scale=scale)


def _chernoff(sums: IidSum, steps: Array, masses: Array, tilt: float) -> float:
    """The log of scale·M(θ)/(eθ), never below ln of scale·E[S₊], since x₊ ≤ e^{θx}/(eθ)."""
    peak = float(log_moment(sums, steps, masses, np.array([tilt]))[0])
    wrong = _peak_error(sums, steps, masses, tilt, peak)
    return peak + log(sums.scale) - 1 - log(tilt) + wrong


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


def _saddle_point(sums: IidSum, steps: Array, masses: Array) -> float:
    """The minimum of M(θ)/θ² to about a per cent; any θ > 0 would be right, this one is precise."""
    # Beyond it e^(θ·step) would leave the range of doubles, which ends at e^709.
    top = 500.0 / float(np.max(steps))
    # A sum that hardly leaves its rest has its saddle point near 2/E S, however small its steps are.
    least = min(1e-24, 1 / max(top * sums.draws * abs(sums.rest), 1e-200))
    grid = top * np.geomspace(least, 1.0, 120)
    for _ in range(2):
        rising = np.flatnonzero(_slope(sums, steps, masses, grid) > 0)
        place = int(rising[0]) if rising.size else len(grid) - 1
        low, high = grid[max(place - 1, 0)], grid[place]
        grid = np.geomspace(low, high, 40) if high > low else grid
    return float(grid[len(grid) // 2]) if place == 0 else float(high)


def _choose_contour(sums: IidSum, steps: Array, masses: Array, tilt: float, precision: float) -> Contour:
    smoothing = precision / tilt
    larger = tilt * (1 + np.geomspace(0.02, 30.0, 60))
    larger = larger[larger * float(np.max(steps)) < 600.0]
    here = _log_peak(sums, steps, masses, smoothing, np.array([tilt]))[0]
    # Aliases with m > 0: e^(−θP)·P has to be small beside K(θ) = e^here, so the smaller the result, the longer P.
    behind = max(0.0, -here + log(max(tilt * abs(sums.draws * sums.rest), 1.0))) + _ALIAS
    period = (behind + log1p(behind)) / tilt
    if larger.size:
        # Aliases with m < 0: every s > θ bounds them; the s that needs the shortest period is taken.
        there = _log_peak(sums, steps, masses, smoothing, larger)
        needed = (there - here + _ALIAS + 4) / (larger - tilt)
        period = max(period, float(np.min(needed)))
    nodes, limit = ceil(_CUT / smoothing * period / (2 * pi)), min(_NODES_LIMIT, _TERMS_LIMIT // len(steps))
    if nodes > limit:
        # A wider bell fades sooner, so fewer nodes reach the cut. Both ends stay valid; they only lie further apart.
        smoothing *= nodes / limit
        nodes = limit
    return Contour(tilt, smoothing, period, nodes)


def _log_peak(sums: IidSum, steps: Array, masses: Array, smoothing: float, tilts: Array) -> Array:
    peak: Array = log_moment(sums, steps, masses, tilts) + (smoothing * tilts) ** 2 / 2
    return peak


def _integrate(sums: IidSum, steps: Array, masses: Array, contour: Contour) -> tuple[float, float, float]:
    """(E(S+hξ)₊, h·Eφ(S/h), bound on the error of either end), all divided by K(θ)."""
    tilted = masses * np.exp(contour.tilt * steps)
    tilted = tilted / (1 + float(np.expm1(contour.tilt * steps) @ masses))
    total = np.zeros(3)
    block = _BLOCK // len(steps) + 1
    for start in range(0, contour.nodes + 1, block):
        index = np.arange(start, min(start + block, contour.nodes + 1), dtype=np.float64)
        total += _node_sums(sums, steps, tilted, contour, index)
    step = 2 * pi / contour.period
    cut = step * contour.nodes
    # For a falling f the nodes beyond c, times the step, sum to at most ∫_c f; and ∫_c e^(−h²t²/2) dt is at most
    # e^(−h²c²/2)/(h²c). That is taken against 1/t² ≤ 1/c² for the value, and against h² for the bump.
    decay = float(np.exp(-((contour.smoothing * cut) ** 2) / 2)) * (1 + 1e-9)
    beyond = decay / pi * (1 / (contour.smoothing**2 * cut**3) + 1 / cut)
    value, bump, error = (float(part) * step / (2 * pi) for part in total)
    return value, bump, error * (1 + 1e-9) + beyond


def _node_sums(sums: IidSum, steps: Array, tilted: Array, contour: Contour, index: Array) -> Array:
    """Real parts summed over nodes t and −t: the integrand over z², times h², and the rounding charge."""
    t = index * (2 * pi / contour.period)
    damping, phase, charge = _power(sums, steps, tilted, contour, t)
    square = contour.tilt**2 + t**2
    weight = np.where(index == 0, 1.0, 2.0)
    size = weight * np.exp(damping)
    cosine, sine = np.cos(phase), np.sin(phase)
    value = size * ((contour.tilt**2 - t**2) * cosine + 2 * contour.tilt * t * sine) / square**2
    bump = size * cosine * contour.smoothing**2
    # Where the charge is no double any more nothing is known: an infinite one has Chernoff's bound taken instead.
    grown = np.where(damping + charge > _LARGEST, inf, np.exp(np.minimum(damping + charge, _LARGEST)))
    wrong = weight * grown - size * (1 - 100 * UNIT_ROUNDOFF)
    return np.array([np.sum(value), np.sum(bump), np.sum(wrong * (1 / square + contour.smoothing**2))])


def _power(sums: IidSum, steps: Array, tilted: Array, contour: Contour, t: Array) -> tuple[Array, Array, Array]:
    """ln|M(z)e^{h²z²/2}/K(θ)|, its phase, and a bound on the relative error of the number so computed.

    With a + ib = Σ q_j (e^{itd_j} − 1), |1 + a + ib|² = 1 + (2a + a² + b²). Each of a, b is wrong by at most
    a few u·x, x = Σ q_j |t d_j|, weighted with 2 + |θ d_j| for the rounding in q_j. Where the modulus is so
    small that its own error dominates, it is raised to a floor of the error's size. The number computed and the true
    one are both at most that in size, so they differ by twice that at most: the charge c has e^c − 1 > 2.
    """
    # e^(itd) − 1 by half angles: 2i·sin(td/2)·e^(itd/2) keeps its digits where td is tiny, cos(td) − 1 would not.
    half = np.multiply.outer(t, steps / 2)
    sine, cosine = np.sin(half), np.cos(half)
    real = -2 * (sine**2 @ tilted)
    imaginary = 2 * ((sine * cosine) @ tilted)
    # The part of a large negative step is 0 under the tilt, whatever its size.
    sizes = np.abs(np.where(tilted > 0, steps, 0.0))
    spread = t * float((2 + contour.tilt * sizes) * sizes @ tilted)
    floor = np.minimum(1024 * UNIT_ROUNDOFF * (1 + spread), 0.5)
    modulus = np.maximum(2 * real + real**2 + imaginary**2, floor - 1)
    damping = sums.draws / 2 * np.log1p(modulus) - (contour.smoothing * t) ** 2 / 2
    drift = contour.smoothing**2 * contour.tilt * t
    resting = t * (sums.draws * sums.rest)
    phase = sums.draws * np.arctan2(imaginary, 1 + real) + resting + drift
    charge = sums.draws * spread / (1 + modulus) + np.abs(resting) + drift + (contour.smoothing * t) ** 2
    charge = np.where(modulus > floor - 1, charge, charge + DROWNED / _ROUNDING)
    return damping, phase, _ROUNDING * charge


def _assemble(
    sums: IidSum, steps: Array, masses: Array, contour: Contour, parts: tuple[float, float, float]
) -> LogBracket:
    value, bump, error = parts
    tilt = np.array([contour.tilt])
    peak = float(_log_peak(sums, steps, masses, contour.smoothing, tilt)[0])
    wrong = _peak_error(sums, steps, masses, contour.tilt, peak)
    scale = peak + log(sums.scale)
    upper = value + error - _resting_bump(sums, steps, masses, contour, peak)
    # The error has drowned the value. The truth is above 0, so an upper end of 0 would be false; NaN is caught, too.
    if not 0 < upper < inf:
        return LogBracket(-inf, _chernoff(sums, steps, masses, contour.tilt))
    # Smoothing and aliases only raise the value: an upper end may keep them, a lower end must give them back.
    lower = value - bump - error - _aliases(sums, steps, masses, contour, peak, value + error)
    top = scale + log(upper) + wrong
    return LogBracket(scale + log(lower) - wrong if lower > 0 else -inf, top)


def _resting_bump(sums: IidSum, steps: Array, masses: Array, contour: Contour, peak: float) -> float:
    """At most P(S = 0)·h·φ(0)/K(θ): what smoothing adds on the event that all draws rest at 0, known exactly."""
    if sums.rest != 0 or sums.rest_mass <= 0:
        return 0.0
    busy = float(np.sum(masses))
    # 1 − busy as a double would be wrong by half an ulp of 1, n times over.
    log_alone = sums.draws * (log1p(-busy) if busy < 0.5 else log(sums.rest_mass))
    doubt = _ROUNDING * (abs(log_alone) + sums.draws * busy + abs(peak) + 8)
    doubt += _peak_error(sums, steps, masses, contour.tilt, peak)
    return float(np.exp(log_alone - peak - doubt)) * contour.smoothing * 0.3989422804014326


def _peak_error(sums: IidSum, steps: Array, masses: Array, tilt: float, peak: float) -> float:
    """Bound on the error of ln K(θ): of its parts relative to the resting value, never of n itself."""
    exponents = tilt * steps
    moment = 1 + float(np.expm1(exponents) @ masses)
    parts = np.abs(np.expm1(exponents)) + np.abs(exponents) * np.exp(exponents)
    inner = sums.draws * float(parts @ masses) / moment
    resting = abs(tilt * sums.draws * sums.rest)
    return _ROUNDING * (1 + inner + resting + abs(peak) + abs(log(sums.scale)))


def _aliases(sums: IidSum, steps: Array, masses: Array, contour: Contour, peak: float, smoothed: float) -> float:
    """Bound on the terms m ≠ 0 of the trapezoid, divided by K(θ); `smoothed` is at least E(S+hξ)₊/K(θ)."""
    far = contour.tilt * contour.period
    if far < 2:
        return inf
    wrap = float(np.exp(min(-far - peak, 700.0))) * contour.period + float(np.exp(-far)) * smoothed
    # Any s > θ bounds the aliases on this side; the best of sixty is taken.
    larger = contour.tilt * (1 + np.geomspace(0.02, 30.0, 60))
    larger = larger[larger * float(np.max(steps)) < 600.0]
    if not larger.size:
        return inf
    there = _log_peak(sums, steps, masses, contour.smoothing, larger) - peak
    gain = (larger - contour.tilt) * contour.period
    ahead = np.where(gain > 1, there - gain - np.log(e * larger), 700.0)
    # Twice the first term covers each sum over m, as far ≥ 2 and gain > 1 make both fall geometrically.
    return 2 * (wrap + float(np.exp(min(float(np.min(ahead)), 700.0)))) * (1 + 1e-6)
