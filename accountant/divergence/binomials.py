"""Computes binomial masses with relative accuracy at any size, up to 10^13 trials, and their sums over bins of a grid.

Everything here has a relative error of at most `MASS_ERROR`, which the users of these masses charge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

Array = NDArray[np.float64]

MASS_ERROR = 5e-10
"""Bound on the relative error of a mass or of a bin's sum, for masses above e^-300.

A mass costs about 1e-15 times its exponent (Loader's saddle-point form never subtracts large logarithms). A bin's sum
by Euler and Maclaurin leaves less than (t/σ)^6/10000 < 4e-10 for the bins used here (σ ≥ 150, t ≤ 15 deviations)."""

DIRECT_POINTS = 1 << 14
"""Up to this many lattice points a window is summed term by term; beyond it by quadrature."""


def stirling_error(x: Array) -> Array:
    """Return ln Γ(x+1) − ((x+½) ln x − x + ½ ln 2π), absolute error below 1e-14, for x > 0."""
    # Both formulas are evaluated for all of x and one is chosen afterwards; clipping keeps each in its own range.
    large = np.maximum(x, 16.0)
    square = 1.0 / (large * large)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - square / 1188) * square) * square) * square) / large
    if bool(np.all(x >= 16.0)):
        return series
    small = np.clip(x, 0.25, 16.0)
    direct = gammaln(small + 1) - (small + 0.5) * np.log(small) + small - 0.5 * math.log(2 * math.pi)
    return np.asarray(np.where(x >= 16.0, series, direct))


def deviance(difference: Array, mean: Array | float) -> Array:
    """Return x ln(x/mean) + mean − x for x = mean + difference, without cancellation (relative error about 1e-15)."""
    ratio = difference / np.maximum(mean, 1e-300)
    # Near the mean the direct form subtracts almost equal numbers; the series has nothing to subtract.
    near = np.clip(ratio, -0.1, 0.1)
    series = np.zeros_like(ratio)
    for order in range(17, 1, -1):
        series = (1.0 if order % 2 == 0 else -1.0) / (order * (order - 1)) + near * series
    series = series * near * near
    if bool(np.all(np.abs(ratio) <= 0.1)):
        return np.asarray(mean * series)
    far = np.maximum(ratio, -1.0)
    direct = np.where(far > -1.0, (1 + far) * np.log1p(np.maximum(far, -1 + 1e-16)) - far, 1.0)
    return np.asarray(mean * np.where(np.abs(ratio) <= 0.1, series, direct))


def fair_mass(x: Array, trials: Array, offset: Array | float = 0.0) -> Array:
    """Return P[B(trials, ½) = x + offset] for arrays that broadcast; 0 outside [0, trials].

    x is a multiple of ½, the offset may be anything: near 10^13 a double has no digits left for it (`bin_sums`).
    """
    half = trials / 2
    difference = (x - half) + offset
    exponent = deviance(difference, half) + deviance(-difference, half)
    return _mass((x + offset, (trials - x) - offset), trials, exponent, trials * math.log(2))


def _mass(sides: tuple[Array, Array], trials: Array, exponent: Array, edge: Array) -> Array:
    """Return a binomial mass from x and trials − x, each right in itself, and its exponent."""
    x, rest = sides
    # The ends are separate: Stirling's form divides by 0 there, and the mass is a plain power.
    inside = (x > 0) & (rest > 0)
    left, right = np.where(inside, x, 1.0), np.where(inside, rest, 1.0)
    errors = stirling_error(np.asarray(trials)) - stirling_error(left) - stirling_error(right)
    body = np.sqrt(trials / (2 * math.pi * left * right)) * np.exp(errors - exponent)
    ends = np.where((x == 0) | (rest == 0), np.exp(-edge), 0.0)
    return np.asarray(np.where(inside, body, ends))


@dataclass(frozen=True)
class Binomial:
    """B(trials, probability), the probability exact: at 10^12 trials a rounded one would shift the mean visibly."""

    trials: int
    probability: Fraction

    @property
    def mean(self) -> float:
        """The mean, rounded to nearest."""
        return float(self.trials * self.probability)

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return math.sqrt(float(self.trials * self.probability * (1 - self.probability)))

    def exponent(self, x: Array, offset: Array | float = 0.0) -> Array:
        """Return trials·KL(y/trials ‖ probability), y = x + offset: Chernoff bounds the tail outward by e^−exponent."""
        if self.probability in (0, 1):
            return np.where(x == self.trials * int(self.probability), 0.0, np.inf)
        exact = self.trials * self.probability
        # The mean as two doubles: near 10^12 trials one double is too coarse for the difference x − mean.
        high = float(exact)
        low = float(exact - Fraction(high))
        difference = ((x - high) - low) + offset
        return deviance(difference, high) + deviance(-difference, float(self.trials - exact))

    def mass(self, x: Array, offset: Array | float = 0.0) -> Array:
        """Return P[X = x + offset]; 0 outside [0, trials]. Between integers, the Gamma function's continuation.

        x is whole. What lies between goes into the offset: near 10^13 a double has no digits left for it, and next to
        an end of [0, trials] that would be all there is to know.
        """
        if self.trials == 0 or self.probability in (0, 1):
            return np.asarray(x + offset == self.trials * int(self.probability), dtype=float)
        outside = (x + offset < 0) | ((self.trials - x) - offset < 0)
        place, between = np.where(outside, 0.0, x), np.where(outside, 0.0, offset)
        exponent = self.exponent(place, between)
        sides = (place + between, (self.trials - place) - between)
        masses = _mass(sides, np.asarray(float(self.trials)), exponent, exponent)
        return np.asarray(np.where(outside, 0.0, masses))

    def window(self, log_tail: float) -> tuple[int, int]:
        """Return (low, high) with P[X < low] and P[X > high] each at most e^−log_tail, by Chernoff's bound."""
        if self.trials == 0 or self.probability in (0, 1):
            fixed = self.trials * int(self.probability)
            return fixed, fixed
        # The exponent grows away from the mean, so bisection finds each edge.
        middle = int(self.trials * self.probability)
        low = _last_within(middle, -1, lambda x: x < 0 or self._reaches(x, log_tail))
        high = _last_within(middle + 1, self.trials + 1, lambda x: x > self.trials or self._reaches(x, log_tail))
        return low, high

    def _reaches(self, x: int, log_tail: float) -> bool:
        # A little further out than requested: the exponent is rounded, but the tail must be small enough.
        return float(self.exponent(np.asarray(float(x)))) >= log_tail * (1 + 1e-9)

    def bins(self, edges: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return for each bin [edges[i], edges[i+1]) its mass and Σ (x − edges[i])·P[X = x]; equally spaced."""
        if edges[-1] - edges[0] <= DIRECT_POINTS:
            points = np.arange(edges[0], edges[-1])
            masses = self.mass(points.astype(float))
            step = int(edges[1] - edges[0])
            grid = masses.reshape(-1, step)
            return grid.sum(axis=1), grid @ np.arange(step, dtype=float)
        slope = math.log(self.probability / (1 - self.probability))
        return bin_sums(edges.astype(float), float(self.trials), self.mass, slope, self.deviation)


def _last_within(start: int, end: int, reached: Callable[[int], bool]) -> int:
    """Return the point furthest from `start` towards `end` that has not reached the tail; reached(end) is true."""
    inside, outside = start, end
    if reached(start):
        return start
    while abs(outside - inside) > 1:
        middle = (inside + outside) // 2
        if reached(middle):
            outside = middle
        else:
            inside = middle
    return inside


def bin_sums(
    edges: Array,
    trials: Array | float,
    mass: Callable[[Array, Array | float], Array],
    log_odds: float,
    deviation: float,
) -> tuple[Array, Array]:
    """Return (Σ f, Σ (x − left) f) over the integers of each bin [left, right) for a wide binomial mass f.

    Gauss–Legendre for the integral, Euler–Maclaurin to the third derivative for the sum; edges along the last axis.
    `mass` takes a place as an edge and an offset from it: their sum would be rounded, by 10⁻³ at 10¹³.
    """
    left, right = edges[..., :-1], edges[..., 1:]
    width = right - left
    nodes, weights = np.polynomial.legendre.leggauss(5 if float(np.max(width)) <= 0.06 * deviation else 16)
    offsets = width[..., None] * (nodes + 1) / 2
    density = mass(left[..., None], offsets) * (weights / 2) * width[..., None]
    total = density.sum(axis=-1)
    moment = (density * offsets).sum(axis=-1)
    value = mass(edges, 0.0)
    slope = digamma(trials - edges + 1) - digamma(edges + 1) + log_odds
    bend = -1 / (edges + 0.5) - 1 / (trials - edges + 0.5)
    first, second, third = value * slope, value * (slope**2 + bend), value * (slope**3 + 3 * slope * bend)
    total += _correct(value, first, third)
    upper = width * value[..., 1:]
    moment += -upper / 2 + (width * first[..., 1:] + value[..., 1:] - value[..., :-1]) / 12
    moment -= (width * third[..., 1:] + 3 * (second[..., 1:] - second[..., :-1])) / 720
    return total, moment


def _correct(value: Array, first: Array, third: Array) -> Array:
    def rise(x: Array) -> Array:
        return np.asarray(x[..., 1:] - x[..., :-1])

    return -rise(value) / 2 + rise(first) / 12 - rise(third) / 720
