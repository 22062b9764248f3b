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

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.losses.grid import spread_shares
from hubbub.accountant.numbers import UNIT_ROUNDOFF

WORK = 2e9
"""Multiplications that one family may take: about half a second."""

MOST_ROUNDS = 1024
"""Most rounds played as a whole: for more, the hull of their curves adds less than the grid."""

LARGEST = 200.0
"""Largest ε of rounds that are played as a whole: its exponential, and products of it, must be doubles."""

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
    if _fits(family, rounds, log_tail):
        return rounds
    played = 1
    while _fits(family, 2 * played, log_tail):
        played *= 2
    return played


def _fits(family: Family, rounds: int, log_tail: float) -> bool:
    if rounds > MOST_ROUNDS:
        return False
    places = _places(family, rounds, log_tail)
    return float(rounds) * places * family.masses.size <= WORK and places * family.step <= LARGEST


def _places(family: Family, rounds: int, log_tail: float) -> int:
    """Return a place beyond which δ of all rounds is below e^−log_tail, by Chernoff's bound, or is 0."""
    reach = family.reach * family.step
    tilts = np.geomspace(0.01, 300.0, 40) / reach
    far = min((rounds * family.log_moment(float(tilt)) + log_tail + 5) / float(tilt) for tilt in tilts)
    return math.ceil(min(rounds * reach, far) / family.step) + 1


def play(family: Family, rounds: Collection[int], log_tail: float) -> dict[int, Array]:
    """Return δ of each of these numbers of rounds at ε = 0, step, 2·step, …, never below the truth."""
    count, reach, step = _places(family, max(rounds), log_tail), family.reach, family.step
    x = step * np.arange(max(count, reach) + 1)
    # Sums of so many products, none below 0, in any order: twice the bound of Higham, Accuracy and Stability, 4.2.
    rounding = 2 * (len(family.masses) + _OPERATIONS) * UNIT_ROUNDOFF
    # No round left: (1 − e^ε)₊, which is 0 from ε = 0 on.
    left, found = np.zeros(len(x)), {}
    for played in range(1, max(rounds) + 1):
        # δ at negative ε, from its mirror, and beyond the end, where V is at most its last value.
        above = -np.expm1(-x[1 : reach + 1]) + np.exp(-x[1 : reach + 1]) * left[1 : reach + 1]
        known = np.concatenate([above[::-1], left, np.full(reach, left[-1])])
        windows = np.lib.stride_tricks.sliding_window_view(known, 2 * reach + 1)
        # A window runs from ε − reach to ε + reach, and δ is needed at ε − ℓ, so the losses are reversed.
        left = np.max(windows @ family.masses[::-1] + family.infinite, axis=1) * (1 + rounding)
        left = np.minimum.accumulate(np.minimum(left, 1.0))
        if played in rounds:
            found[played] = _certain(left, family, played)[: count + 1]
    return found


def _certain(values: Array, family: Family, rounds: int) -> Array:
    """Return values that are valid in spite of the errors of the family's masses and losses.

    If losses are off by d in total, the true δ(ε) is at most our δ at ε − d. By convexity that is below the chord from
    the place before: it adds at most d/step of that place's value (twice that, since the chord is in e^ε).
    """
    before = np.append(1.0, values[:-1])
    moved = 2 * rounds * family.loss_doubt / family.step * before
    return np.minimum(1.0, (values + moved) * (1 + 2 * rounds * family.doubt))
