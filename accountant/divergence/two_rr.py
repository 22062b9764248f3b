"""Brackets, for k = 2, the largest divergence over the number of ones among the others, from both sides.

Dropping others never lowers a divergence (balle-2019, Lemma A.2), so every number of ones in [j₀, j₁] is bounded
by j₀ ones and n−1−j₁ zeros. Blocks cover 0..n−1 and are split only if their bound is above the target.
Any single number of ones is an attack: a lower bound. Dummies are exactly B(D, ½) more ones.
"""

from math import inf

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.divergence.binomial_shift import Shift, log_delta_ends, log_keep_up, shift_at
from hubbub.accountant.divergence.log_bracket import ZERO, LogBracket
from hubbub.accountant.divergence.search import EpsilonEnds, find_epsilon, two_rr_guess
from hubbub.accountant.mechanisms import KRR
from hubbub.accountant.numbers import exp_down, exp_up, log_down

Array = NDArray[np.float64]

_BLOCKS = 60_000
"""Most blocks of one cover; a target that needs more blocks counts as not shown."""

_EPSILON_MARGINS = (1e-9, 3e-5, 6e-5, 1.5e-4, 5e-4, 2e-3, 1e-2, 5e-2, 0.2, 1.0, 10.0, 1e3, 1e5, 1e7)
"""Relative distances above the best attack's ε at which a cover is tried, in turn."""

_DELTA_MARGINS = (1e-9, 1e-4, 5e-4, 2e-3, 6e-3, 2e-2, 0.1, 0.7, 3.0)
"""The same for ln δ."""

_SMALL = 2_000
"""Up to this many reports every number of ones is evaluated."""


def delta_ends(mechanism: KRR, reports: int, epsilon: float, dummies: int) -> tuple[float, float]:
    """Return (lower, upper) of the largest δ at `epsilon` over all inputs of the others."""
    shift = shift_at(mechanism, epsilon, dummies)
    if shift is None:
        return 0.0, 0.0
    attack = best_attack(shift, reports)
    # No cover can show less than an attack reaches. The margins rise, so the first successful cover is the tightest.
    for margin in _margins(_DELTA_MARGINS, reports):
        if covered(shift, reports, attack.upper + margin):
            return exp_down(attack.lower), min(1.0, exp_up(attack.upper + margin))
    # No cover succeeded within its limit of blocks. The δ of one report alone is valid for any reports of others.
    return exp_down(attack.lower), exp_up(log_keep_up(shift))


def epsilon_ends(mechanism: KRR, reports: int, delta: float, dummies: int) -> EpsilonEnds:
    """Return ends of ε: at `upper` every number of ones was shown to be at most `delta`; at `lower` one is above it."""
    local = mechanism.epsilon_local

    def evaluate(epsilon: float, precision: float) -> LogBracket:  # noqa: ARG001 - always precise
        shift = shift_at(mechanism, epsilon, dummies)
        return ZERO if shift is None else best_attack(shift, reports)

    guess = two_rr_guess(float(mechanism.other), reports + dummies, delta)
    attack = find_epsilon(evaluate, delta, local, guess)
    # At ε = 0 the tried attacks are below delta; others may not be. So the result is 0 only if a cover shows it, and
    # otherwise the margins start from a tiny ε.
    if attack.upper == 0:
        attack = EpsilonEnds(local * 1e-9, 0.0)
        zero = shift_at(mechanism, 0.0, dummies)
        if zero is not None and covered(zero, reports, log_down(delta)):
            return EpsilonEnds(0.0, 0.0)
    for margin in _margins(_EPSILON_MARGINS, reports):
        epsilon = attack.upper * (1 + margin)
        shift = shift_at(mechanism, epsilon, dummies) if epsilon < local else None
        if shift is None:
            break
        if covered(shift, reports, log_down(delta)):
            return EpsilonEnds(epsilon, attack.lower)
    return EpsilonEnds(local, attack.lower)


def _margins(margins: tuple[float, ...], reports: int) -> tuple[float, ...]:
    return margins if reports <= _SMALL else margins[1:]


def best_attack(shift: Shift, reports: int) -> LogBracket:
    """The best of some numbers of ones: both ends of *its* ln δ, refined twice around the best."""
    tried = _spread_out(reports)
    best = LogBracket(-inf, -inf)
    for _ in range(3):
        lower, upper = log_delta_ends(shift, reports - 1 - tried, tried)
        place = int(np.argmax(lower))
        best = LogBracket(max(best.lower, float(lower[place])), max(best.upper, float(np.max(upper))))
        # Any number is a valid attack; trying more around the best only improves the lower end.
        left, right = tried[max(place - 1, 0)], tried[min(place + 1, len(tried) - 1)]
        if right - left <= 2:
            break
        tried = np.unique(np.rint(np.linspace(left, right, 24)))
    return best


def _spread_out(reports: int) -> Array:
    others = reports - 1
    if others <= 64:
        return np.arange(others + 1.0)
    # The worst number need not be 0: two ones can be worse. So both ends are searched densely, the middle sparsely.
    near = np.concatenate([np.arange(8.0), np.rint(np.geomspace(8, others / 2, 24))])
    return np.unique(np.concatenate([near, others - near]))


def covered(shift: Shift, reports: int, target: float) -> bool:
    """Whether ln δ ≤ `target` was shown for every number of ones among the others; False proves nothing."""
    edges = np.unique(np.rint(np.linspace(0, reports, 33 if reports > _SMALL else reports + 1)))
    first, last = edges[:-1], edges[1:] - 1
    count = 0
    while first.size:
        count += first.size
        if count > _BLOCKS:
            return False
        # Every case of the block has at least `first` ones and reports − 1 − last zeros; the rest is dropped, which
        # never lowers a divergence (Lemma A.2).
        _, upper = log_delta_ends(shift, reports - 1 - last, first)
        open_ = upper > target
        # A single number of ones cannot be split any further.
        if np.any(open_ & (first == last)):
            return False
        first, last = _split(first[open_], last[open_])
    return True


def _split(first: Array, last: Array) -> tuple[Array, Array]:
    middle = np.floor((first + last) / 2)
    return np.concatenate([first, middle + 1]), np.concatenate([middle, last])
