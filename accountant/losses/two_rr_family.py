"""kRR with k = 2 over several rounds among few people: one pair for each number of ones among the others."""

from __future__ import annotations

import math

import numpy as np

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.losses.envelope import grid_from_curve
from hubbub.accountant.losses.family import Family, Pairs, laid_out, play, rounds_at_once
from hubbub.accountant.losses.grid import LossGrid, grid_step
from hubbub.accountant.mechanisms import KRR

PEOPLE_LIMIT = 128
"""Most people, dummies counted, of whom every number of ones has a pair of its own."""

POINTS = (48, 24)
"""Points of the grid per standard deviation of one round's loss, fewer for many rounds.

They add 1/(6·24²) and 1/(6·12²) to its variance at most, and half of that to ε.
"""

_DOUBT = 3e-13
"""Relative error of an atom: some 128 reports are added to a law one by one, each by a sum of two positive products."""

_FINEST = 1e6 * _DOUBT
"""Steps from which on losses that are known to `_DOUBT` are known well enough; those of a tiny local ε are not."""

_UNDERFLOW = 1e-290
"""Masses that are smaller lose their digits: such an atom is left out, and all of them count as an infinite loss."""


def two_rr_rounds(
    mechanism: KRR, reports: int, dummies: int, rounds: int, log_tail: float
) -> tuple[tuple[LossGrid, int], ...] | None:
    """Return symmetric pairs that dominate `rounds` rounds, each with how often it comes.

    None for too many people, and for a local ε so small that the hull of one round is all that is needed.
    """
    if reports + dummies > PEOPLE_LIMIT:
        return None
    pairs = _pairs(mechanism, reports, dummies)
    tried = [_family(pairs, mechanism.epsilon_local, points) for points in POINTS]
    family = max(tried, key=lambda each: rounds_at_once(each, rounds, log_tail))
    if family.step < _FINEST:
        return None
    played = rounds_at_once(family, rounds, log_tail)
    # So often `played` rounds, and once the rest.
    times = {played: rounds // played, rounds % played: 1}
    curves = play(family, [each for each in times if each], log_tail)
    return tuple((_grid(values, family.step, log_tail), times[each]) for each, values in curves.items())


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
    # Ones among those who hold a one are zeros among those who hold a zero, counted from the other end.
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
    # The curve ends where it is small enough to count as an infinite loss.
    small = values <= math.exp(-log_tail)
    end = int(np.argmax(small)) + 1 if small[-1] else len(values)
    return grid_from_curve(np.arange(end), values[:end], step)
