"""Brackets kRR's blanket with dummies: B + D blankets hide the victim (docs/explanation/accounting-crowds.md).

B ~ B(n−1, γ), and δ = E[g(B + D + 1)], g(m) = E[(L₁ + … + L_m)₊]/m over blanket draws. g falls with m (more blankets
never help an attacker), so on a bin of B it is at most its value at the left end and at least its value at the right
end: both ends of δ follow from the masses of bins. If B has few values, each is a bin, and nothing is lost. The mass
outside the window is at most e^−_TAIL, and g ≤ 1.
"""

from math import ceil, exp, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.divergence.binomials import MASS_ERROR, Binomial
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.search import COARSE
from hubbub.accountant.divergence.sums import blanket_draws_sum
from hubbub.accountant.mechanisms import KRR

_TAIL = 85.0
"""Each tail of B that is charged in full has at most mass e^-85."""

_FINE_BINS, _COARSE_BINS = 48, 12
"""Bins over the middle eight deviations of B."""

_FEW = 64
"""If B has at most so many values, each is a bin of its own."""

_SMOOTHING = 0.03
"""Smoothing of each g: finer than the width that the bins leave."""


def diluted_blanket(mechanism: KRR, reports: int, epsilon: float, dummies: int, precision: float) -> LogBracket:
    """Bracket ln δ at `epsilon`: `upper` never below the truth, `lower` never above it."""
    edges, masses = _bins(Binomial(reports - 1, mechanism.gamma), _COARSE_BINS if precision >= COARSE else _FINE_BINS)
    smoothing = max(precision, _SMOOTHING)
    values = [
        positive_part(blanket_draws_sum(mechanism, int(edge) + dummies + 1, epsilon), smoothing) for edge in edges
    ]
    # g falls: a bin's first place bounds it from above, its last one from below. The mass outside the window is added
    # to the upper end only, with g = 1.
    # An upper value that underflows is raised, a lower one becomes 0.
    high = _total(masses, [value.upper for value in values[:-1]]) * (1 + 2 * MASS_ERROR)
    # The last place of a bin with one value is its first one; beyond the edge g is smaller still.
    lower = np.array([value.lower for value in values])
    last = np.where(np.diff(edges) == 1, lower[:-1], lower[1:])
    low = float(masses @ np.exp(last)) * (1 - 2 * MASS_ERROR)
    return LogBracket(log(low) if low > 0 else -inf, log(high + 2 * exp(-_TAIL)))


def diluted_guess(mechanism: KRR, reports: int, epsilon: float, dummies: int) -> float:
    """Return roughly ln δ at `epsilon`, from three Gauss-Hermite nodes over B, for a search. It certifies nothing."""
    mean = (reports - 1) * float(mechanism.gamma)
    away = sqrt(3 * mean * float(1 - mechanism.gamma))
    nodes = ((mean - away, 1 / 6), (mean, 2 / 3), (mean + away, 1 / 6))
    draws = [round(min(max(blankets, 0.0), reports - 1.0)) + dummies + 1 for blankets, _ in nodes]
    values = [positive_part(blanket_draws_sum(mechanism, count, epsilon), COARSE).upper for count in draws]
    total = _total(np.array([weight for _, weight in nodes]), values)
    return log(total) if total > 0 else -inf


def _total(masses: NDArray[np.float64], logs: list[float]) -> float:
    """Return Σ mass·e^log, never below it."""
    return float(np.sum(masses * np.exp(np.maximum(np.array(logs), -700.0)))) if max(logs) > -inf else 0.0


def _bins(blankets: Binomial, bins: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Edges of bins over B's window, narrow in the middle and wide outside, and the masses between them."""
    low, high = blankets.window(_TAIL)
    few = high + 1 - low <= _FEW
    step = 1 if few else max(1, ceil(8 * blankets.deviation / bins))
    count = -(-(high + 1 - low) // step)
    edges = low + step * np.arange(count + 1, dtype=np.int64)
    masses, _ = blankets.bins(edges)
    apart = np.abs(edges[1:-1] - blankets.mean) / max(blankets.deviation, 1.0)
    kept = np.concatenate([[True], few | (apart <= 5) | (np.arange(1, count) % 8 == 0), [True]])
    starts = np.flatnonzero(kept[:-1])
    return edges[kept], np.add.reduceat(masses, starts)
