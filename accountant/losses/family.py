"""Bounds rounds against an adversary who chooses each round's pair from a family: the worst case, by a dynamic program.

If no single pair of a family is the worst at every ε, the hull of their curves dominates each of them. But over rounds
the hull adds up the worst of all pairs. An adversary that chooses one pair a round, even after seeing earlier rounds,
reaches less. Let r = dP/dQ of the rounds so far, and φ(r) the largest value, under Q, of (r' − e^ε)₊ at the end. Then

    φ(r) = max over the family of E_Q[φ_next(r·ratio)],    φ_end(r) = (r − e^ε)₊,    δ(ε) = φ_first(1).

φ_end is convex, and so is every φ before it: an expectation of convex functions of r, and a maximum of those. Hence

- δ is never below the truth if every pair is replaced by a mean-preserving spread of its ratio under Q: its atoms are
  put on a grid by connecting the dots (`losses.grid`), at an error that is quadratic in the step;
- V(ℓ) = φ(e^ℓ)/e^ℓ rises with ℓ, as φ(0) = 0: below the grid, V is at most its value at the grid's end;
- a family that contains each pair's mirror image has V(ℓ) at ε equal to δ of the rounds left at ε − ℓ, with
  δ(−x) = 1 − e^−x + e^−x·δ(x). So one array is enough: δ of the rounds left at x = 0, step, 2·step, ….

The rounds together give a curve δ(ε), that is, a symmetric pair, which dominates every strategy of such an adversary in
these rounds. It composes with itself, for more rounds of the family, and with fixed pairs. Rounds of fixed pairs may
come in between: with L the expectation over a fixed pair and M the maximum above, M(Lφ) ≤ L(Mφ), as a choice with more
information reaches more. So any order is at most all fixed pairs first, and then the family's rounds in a row. Two
families may not both be played as a whole: their maxima cannot be put in order.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.losses.grid import dot, spread_shares
from hubbub.accountant.numbers import UNIT_ROUNDOFF

WORK = 2e9
"""Multiplications that one family may take: about half a second."""

POINTS_TRANSFORMED = 2.2e8
"""Points that may be transformed for one family instead, over all its rounds: some two seconds of a processor."""

MOST_ROUNDS = 1024
"""Most rounds played as a whole: for more, the hull of their curves adds less than the grid."""

LARGEST = 200.0
"""Largest ε of rounds that are played as a whole: its exponential, and products of it, must be doubles."""

_APART = 6.0
"""How far the square roots of depths of two tilts are apart."""

_LARGEST_EXPONENT = 600.0
"""Largest exponent of a tilt: beyond it, it is left out."""

_OPERATIONS = 16
"""Roundings of a place's value in addition to its sum's: exponentials, the mirror image, the infinite part."""

Pairs = Sequence[tuple[Array, Array]]
"""Atoms of each pair: P-masses and Q-masses, all above 0."""


@dataclass(frozen=True)
class Family:
    """Pairs on one grid, and with each its mirror image.

    `masses` has a row for each loss (place − reach)·step, place = 0, 1, …, 2·reach, and a column of P-masses for each
    pair; `infinite` is the P-mass of each at an infinite loss. Expectations of rising functions have a relative error
    of at most `doubt`, losses an error of at most `loss_doubt`.
    """

    step: float
    reach: int
    masses: Array
    infinite: Array
    doubt: float
    loss_doubt: float

    def log_moment(self, tilt: float) -> float:
        """Return ln E_P[e^{tilt·ℓ}] over finite losses, the largest of the family."""
        losses = (np.arange(len(self.masses)) - self.reach) * self.step
        return float(np.log(np.max(np.exp(tilt * losses - tilt * losses[-1]) @ self.masses))) + tilt * float(losses[-1])


def laid_out(pairs: Pairs, step: float, reach: int, doubt: float, underflow: float) -> Family:
    """Return the family of pairs given as atoms, by connecting the dots.

    P- and Q-masses have a relative error of at most `doubt`, so losses twice that; `underflow` is P-mass that may be
    missing.
    """
    masses = np.zeros((2 * reach + 2, len(pairs)))
    for column, (p, q) in enumerate(pairs):
        loss = np.log(p / q)
        index, up = spread_shares(loss, step)
        place = index + reach
        masses[:, column] = np.bincount(place, p * (1 - up), len(masses))
        masses[:, column] += np.bincount(place + 1, p * up, len(masses))
    return Family(step, reach, masses[:-1], np.full(len(pairs), underflow), doubt, 2 * doubt)


def rounds_at_once(family: Family, rounds: int, log_tail: float) -> int:
    """Return how many of `rounds` rounds are played as a whole: all, or a power of two."""
    reach = _Reach.of(family, log_tail)
    if _fits(family, rounds, reach):
        return rounds
    played = 1
    while _fits(family, 2 * played, reach):
        played *= 2
    return played


def _fits(family: Family, rounds: int, reach: _Reach) -> bool:
    if rounds > MOST_ROUNDS or reach.places(rounds) * family.step > LARGEST:
        return False
    return _is_short(family, rounds, reach) or _points(family, rounds, reach) <= POINTS_TRANSFORMED


def _is_short(family: Family, rounds: int, reach: _Reach) -> bool:
    """Whether so many rounds are played by multiplications alone, which keep every digit."""
    return float(rounds) * reach.places(rounds) * family.masses.size <= WORK


def _points(family: Family, rounds: int, reach: _Reach) -> float:
    """Return about how many points are transformed for so many rounds; fewer in the first ones."""
    size = reach.places(rounds) + 2 * family.reach
    return float(0.75 * rounds * size * family.masses.shape[1] * len(_depths(reach.log_tail)))


@dataclass(frozen=True)
class _Reach:
    """How far losses of several rounds reach: ln E_P[e^{tilt·ℓ}] at some tilts, the largest of the family."""

    step: float
    longest: int
    log_tail: float
    tilts: Array
    moments: Array

    @classmethod
    def of(cls, family: Family, log_tail: float) -> _Reach:
        """Return the reach of a family."""
        tilts = np.geomspace(0.01, 300.0, 40) / (family.reach * family.step)
        moments = np.array([family.log_moment(float(tilt)) for tilt in tilts])
        return cls(family.step, family.reach, log_tail, tilts, moments)

    def places(self, rounds: int) -> int:
        """Return a place beyond which δ of so many rounds is below e^−log_tail, by Chernoff's bound, or is 0."""
        far = float(np.min((rounds * self.moments + self.log_tail + 5) / self.tilts))
        return math.ceil(min(rounds * self.longest * self.step, far) / self.step) + 1

    def extended(self, left: Array, size: int, rounds: int, infinite: float) -> Array:
        """Return δ of so many rounds at `size` places: beyond those known the last one, or Chernoff's bound if less.

        Chernoff's holds whichever pairs are chosen: E_P[e^{tilt·ℓ}] grows by the family's largest factor at most. A
        tilt sees no infinite loss; each round adds at most the largest chance of one. Without Chernoff's bound a place
        far beyond would have too much weight under a tilt.
        """
        beyond = self.step * np.arange(len(left), size)
        place = int(np.argmin(rounds * self.moments - self.tilts * beyond[0]))
        exponents = rounds * (self.moments[place] + 1e-12) - self.tilts[place] * beyond
        chernoff = np.exp(np.clip(exponents + 1e-9, -700.0, 0.0)) + rounds * infinite
        return np.concatenate([left, np.minimum(chernoff, left[-1])])

    def tilt(self, rounds: int, depth: float) -> float:
        """Return the tilt of Chernoff's bound on δ where that is about e^−depth."""
        return float(self.tilts[np.argmin((rounds * self.moments + depth) / self.tilts)])


def _depths(log_tail: float) -> list[float]:
    """Return −ln of the δ around which a transform under a tilt is precise, in addition to one without a tilt.

    If losses are normal, δ falls as e^−d²/2 with d deviations. Under the tilt that is best at d, transforms have an
    error of at most 1e-8 of the largest value; at d' it is e^{(d−d')²/2} times as much of δ there. So tilts that are
    12/√2 deviations apart, √depth by 6, keep about 1e-4 of a δ. If losses are not normal, the upper end is valid but
    may be far above a small δ.
    """
    found = [_APART**2]
    while (math.sqrt(found[-1]) + _APART / 2) ** 2 < log_tail:
        found.append(min((math.sqrt(found[-1]) + _APART) ** 2, log_tail))
    return [0.0, *found]


def play(family: Family, rounds: Collection[int], log_tail: float) -> dict[int, Array]:
    """Return δ of each of these numbers of rounds at ε = 0, step, 2·step, …, never below the truth."""
    reach = _Reach.of(family, log_tail)
    last = max(rounds)
    short = _is_short(family, last, reach)
    places = _rising_places(family, last, reach, short)
    expected = _Windows(family) if short else _Transforms(family, reach, last)
    # No round left: (1 − e^ε)₊, which is 0 from ε = 0 on.
    left, found = np.zeros(places[0] + 1), {}
    for played, count in enumerate(places, start=1):
        left = reach.extended(left, count + 1 + family.reach, played - 1, family.infinite.max())
        left = np.minimum(expected.largest(_known(family, left)), 1.0)
        left = np.minimum.accumulate(left)
        if played in rounds:
            found[played] = _certain(left, family, played)[: reach.places(last) + 1]
    return found


def _rising_places(family: Family, rounds: int, reach: _Reach, short: bool) -> list[int]:
    """Return the last place that is kept in each round; if transforms are used they have as few lengths as possible."""
    most = max(reach.places(rounds), family.reach)
    if short:
        return [most] * rounds
    around = 2 * family.reach + 1
    return [
        min(most, (1 << (max(reach.places(played), family.reach) + around).bit_length()) - around)
        for played in range(1, rounds + 1)
    ]


def _known(family: Family, left: Array) -> Array:
    """Return V from the place −reach on: at negative ε by its mirror."""
    x = family.step * np.arange(1, family.reach + 1)
    above = -np.expm1(-x) + np.exp(-x) * left[1 : family.reach + 1]
    return np.concatenate([above[::-1], left])


class _Windows:
    """Expectations over each pair by multiplications: their error is relative."""

    def __init__(self, family: Family) -> None:
        # A window runs from ε − reach to ε + reach, and δ is needed at ε − ℓ, so the losses are reversed.
        self._masses, self._infinite = family.masses[::-1], family.infinite
        # Sums of so many products, none below 0, in any order: twice the bound of Higham, Accuracy and Stability, 4.2.
        self._rounding = 2 * (len(family.masses) + _OPERATIONS) * UNIT_ROUNDOFF

    def largest(self, known: Array) -> Array:
        """Return an upper end of the largest E_P[V(ε − ℓ)] of all pairs for each place of ε."""
        windows = np.lib.stride_tricks.sliding_window_view(known, len(self._masses))
        found: Array = np.max(windows @ self._masses + self._infinite, axis=1) * (1 + self._rounding)
        return found


class _Transforms:
    """Expectations over each pair by FFT, under some tilts θ, each with its error added.

    e^{θε}·E_P[V(ε − ℓ)] is the convolution of e^{θℓ}·P with e^{θε}·V. The error of a transform in the 2-norm
    (`losses.convolution`) is that of no place exceeded. Every tilt gives an upper end, and the smallest counts.
    """

    def __init__(self, family: Family, reach: _Reach, rounds: int) -> None:
        top = (reach.places(rounds) + 4 * family.reach + 4) * family.step
        tilts = [reach.tilt(rounds, depth) if depth else 0.0 for depth in _depths(reach.log_tail)]
        self._tilts = [tilt for tilt in dict.fromkeys(tilts) if tilt * top <= _LARGEST_EXPONENT]
        self._family, self._transformed = family, dict[int, list[NDArray[np.complex128]]]()
        losses = family.step * (np.arange(len(family.masses)) - family.reach)
        masses = [np.exp(tilt * losses)[:, None] * family.masses for tilt in self._tilts]
        self._masses = [np.ascontiguousarray(each.T) for each in masses]
        self._norms = [(each.sum(axis=0).max(), np.sqrt((each**2).sum(axis=0)).max()) for each in masses]
        everywhere = family.step * (np.arange(reach.places(rounds) + 4 * family.reach + 4) - family.reach)
        self._factors = [np.exp(tilt * everywhere) for tilt in self._tilts]
        # A mass, a value and their product each have the error of an exponential.
        self._rounding = (3 * self._tilts[-1] * top + _OPERATIONS) * 4 * UNIT_ROUNDOFF

    def largest(self, known: Array) -> Array:
        """Return an upper end of the largest E_P[V(ε − ℓ)] of all pairs for each place of ε."""
        # What wraps around reaches only the first 2·reach places, of which none is needed.
        length = 1 << (len(known) - 1).bit_length()
        if length not in self._transformed:
            self._transformed[length] = [fft.rfft(masses, length) for masses in self._masses]
        reach, transformed = self._family.reach, self._transformed[length]
        weighted = [factors[: len(known)] * known for factors in self._factors]
        values = [fft.rfft(each, length) for each in weighted]
        errors = [self._error(each, norms, length) for each, norms in zip(weighted, self._norms, strict=True)]
        backs = [1 / factors[reach : len(known) - reach] for factors in self._factors]
        found = np.zeros(len(known) - 2 * reach)
        # Pair by pair: all at once would not fit into a processor's cache, and takes twice as long.
        for pair, infinite in enumerate(self._family.infinite.tolist()):
            smallest = np.full(len(found), np.inf)
            for one, other, error, back in zip(transformed, values, errors, backs, strict=True):
                product = fft.irfft(one[pair] * other, length, overwrite_x=True)[2 * reach : len(known)]
                np.minimum(smallest, (np.maximum(product, 0.0) + error) * back, out=smallest)
            np.maximum(found, smallest + infinite, out=found)
        return found * (1 + self._rounding)

    def _error(self, weighted: Array, norms: tuple[float, float], length: int) -> float:
        """Return a bound on the error of each place of a convolution."""
        # Squares of values under a tilt may be more than a double holds.
        largest = float(weighted.max())
        scaled = weighted / largest
        size = largest * (2 * norms[0] * math.sqrt(dot(scaled, scaled)) + 2 * norms[1] * float(scaled.sum()))
        return 8 * math.log2(length + 1) * UNIT_ROUNDOFF * size


def _certain(values: Array, family: Family, rounds: int) -> Array:
    """Return values that are valid in spite of the errors of the family's masses and losses.

    If losses are off by d in total, the true δ(ε) is at most our δ at ε − d. By convexity that is below the chord from
    the place before: it adds at most d/step of that place's value (twice that, since the chord is in e^ε).
    """
    before = np.append(1.0, values[:-1])
    moved = 2 * rounds * family.loss_doubt / family.step * before
    return np.minimum(1.0, (values + moved) * (1 + 2 * rounds * family.doubt))
