"""Builds the family of pairs of kRR with k = 2 over several rounds: one for each number of the others' ones, or some.

Among few people every number of ones has its own pair. Among many, neighboring numbers share the hull of their curves:
curves change slowly with the number of ones, so a few dozen pairs are as good as all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.losses.family import Family, Pairs, laid_out, play, rounds_at_once
from hubbub.accountant.losses.grid import LossGrid, grid_step, lower_hull
from hubbub.accountant.losses.largest_curve import ALIKE, BlockCurves, block_curves, grid_from_curve, two_rr_grid
from hubbub.accountant.mechanisms import KRR

PEOPLE_LIMIT = 128
"""Most people, dummies counted, for which every number of ones has its own pair."""

POINTS = (48, 24)
"""Points of the grid per standard deviation of one round's loss, fewer for many rounds.

They add 1/(6·24²) and 1/(6·12²) to its variance at most, and half of that to ε.
"""

_CURVE_DOUBT = 1e-11
"""Relative error of the slopes of a curve: differences of doubles, a thousandth of them or more."""

_DOUBT = 3e-13
"""Relative error of an atom: some 128 reports are added to a law one by one, each by a sum of two positive products."""

_FINEST = 1e6 * _DOUBT
"""Smallest step for which losses with an error of `_DOUBT` are accurate enough; those of a tiny local ε are not."""

_UNDERFLOW = 1e-290
"""Smaller masses lose their digits: such atoms are left out, and all of them count as an infinite loss."""


def two_rr_rounds(
    mechanism: KRR, reports: int, dummies: int, rounds: int, log_tail: float
) -> tuple[tuple[LossGrid, int], ...]:
    """Return symmetric pairs that dominate `rounds` rounds, each with its number."""
    family = None
    if (reports + dummies) * mechanism.other <= ALIKE:
        families = _families(mechanism, reports, dummies, log_tail)
        family = _most_at_once(families, rounds, log_tail)
    if family is None or family.reach == 0:
        return ((two_rr_grid(mechanism, reports, dummies, log_tail), rounds),)
    played = rounds_at_once(family, rounds, log_tail)
    # So often `played` rounds, and once the rest.
    times = {played: rounds // played, rounds % played: 1}
    curves = play(family, [each for each in times if each], log_tail)
    return tuple((_grid(values, family.step, log_tail), times[each]) for each, values in curves.items())


def _families(mechanism: KRR, reports: int, dummies: int, log_tail: float) -> Iterator[Family]:
    """Yield families that all dominate, the closest first; those of a tiny local ε have no single pairs."""
    if reports + dummies <= PEOPLE_LIMIT:
        pairs = _pairs(mechanism, reports, dummies)
        for points in POINTS:
            family = _family(pairs, mechanism.epsilon_local, points)
            if family.step >= _FINEST:
                yield family
    curves = block_curves(mechanism, reports, dummies, log_tail)
    yield _block_family(curves)
    yield _block_family(_coarser(curves))


def _most_at_once(families: Iterator[Family], rounds: int, log_tail: float) -> Family:
    """Return the first family whose rounds are all played as a whole, or that of which most are."""
    found: list[tuple[int, Family]] = []
    for family in families:
        # A curve that is small enough at ε = 0 has no losses to play.
        found.append((rounds_at_once(family, rounds, log_tail) if family.reach else rounds, family))
        if found[-1][0] == rounds:
            break
    return max(found, key=lambda each: each[0])[1]


def _coarser(curves: BlockCurves) -> BlockCurves:
    """Return the curves on steps twice as large: a curve is below the chord between any two of its points."""
    # The last point may move up to the next place: δ falls.
    kept = (curves.places % 2 == 0) | (curves.places == curves.places[-1])
    return BlockCurves((curves.places[kept] + 1) // 2, 2 * curves.step, curves.values[kept])


def _block_family(curves: BlockCurves) -> Family:
    """Return a family with a pair for each of some groups of neighboring blocks: the hull of their curves."""
    starts = _groups(curves.values.shape[1])
    upper = np.maximum.reduceat(curves.values, starts, axis=1)
    # Exchanging zeros and ones exchanges P and Q: the groups are symmetric, and the last is the first's mirror image.
    columns = [_pair(curves, upper[:, place], upper[:, -1 - place]) for place in range(len(starts))]
    reach = int(curves.places[-1])
    return Family(curves.step, reach, np.stack(columns, axis=1), upper[-1], _CURVE_DOUBT, 0.0)


def _groups(blocks: int) -> NDArray[np.int64]:
    """Return the first blocks of groups, from either end 1, 1, 2, 4, … blocks up to the middle: ends decide most."""
    left = [0, *(1 << bits for bits in range((blocks // 2 - 1).bit_length()))] if blocks > 1 else [0]
    # From the other end: a group [a, b) has the mirror image [blocks − b, blocks − a).
    middle = {blocks // 2, blocks - blocks // 2}
    return np.array(sorted({*left, *middle, *(blocks - each for each in left if each)} - {blocks}), dtype=np.int64)


def _pair(curves: BlockCurves, forth: Array, back: Array) -> Array:
    """Return P-masses at −reach·step, …, reach·step of the pair with these curves, P against Q and Q against P."""
    epsilon = curves.step * curves.places
    # δ(−ε) = 1 − e^−ε + e^−ε·δ'(ε), δ' the curve with P and Q exchanged. At 0 both are the total variation.
    low = -np.expm1(-epsilon[:0:-1]) + np.exp(-epsilon[:0:-1]) * back[:0:-1]
    places = np.concatenate([-curves.places[:0:-1], curves.places])
    x = np.concatenate([[-1.0], np.expm1(curves.step * places)])
    y = np.concatenate([[1.0], low, [min(forth[0], back[0])], forth[1:]])
    corners = np.array(lower_hull(x, y))
    slopes = -np.diff(y[corners]) / np.diff(x[corners])
    q = np.maximum(slopes - np.append(slopes[1:], 0.0), 0.0)
    masses = np.zeros(2 * int(curves.places[-1]) + 1)
    masses[places[corners[1:] - 1] + int(curves.places[-1])] = q * (1 + x[corners[1:]])
    return masses


def _family(pairs: Pairs, local: float, points: int) -> Family:
    deviation = max(math.sqrt(float(p @ np.log(p / q) ** 2)) for p, q in pairs)
    step = grid_step(max(deviation, local / 64), points)
    return laid_out(pairs, step, math.ceil(local / step) + 1, _DOUBT, 1e5 * _UNDERFLOW)


def _pairs(mechanism: KRR, reports: int, dummies: int) -> list[tuple[Array, Array]]:
    """Return the victim's view as (P, Q) for each number of ones among the others.

    With ones and zeros exchanged P and Q are, too: so each pair's mirror image is there.
    """
    other, truthful = float(mechanism.other), float(mechanism.truthful)
    zeros, coins = _sums(reports - 1, truthful, other), _sums(dummies, 0.5, 0.5)[dummies]
    # Ones among people with a one are zeros among people with a zero, counted from the other end.
    held = (np.convolve(zeros[reports - 1 - ones], zeros[ones][::-1]) for ones in range(reports))
    views = (np.convolve(each, coins) for each in held)
    return [_kept(np.convolve(view, [other, truthful]), np.convolve(view, [truthful, other])) for view in views]


def _kept(p: Array, q: Array) -> tuple[Array, Array]:
    seen = np.minimum(p, q) > _UNDERFLOW
    return p[seen], q[seen]


def _sums(reports: int, zero: float, one: float) -> list[Array]:
    """Return the laws of the number of ones among 0, 1, …, `reports` reports."""
    laws: list[Array] = [np.ones(1)]
    for _ in range(reports):
        laws.append(np.convolve(laws[-1], [zero, one]))
    return laws


def _grid(values: Array, step: float, log_tail: float) -> LossGrid:
    # The curve ends at the first value that is small enough to count as an infinite loss.
    small = values <= math.exp(-log_tail)
    end = int(np.argmax(small)) + 1 if small[-1] else len(values)
    return grid_from_curve(np.arange(end), values[:end], step)
