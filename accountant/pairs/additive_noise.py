"""Computes δ of one round of Laplace or Gaussian noise, from a blanket put on points from either side."""

from __future__ import annotations

from math import exp, log

from hubbub.accountant.divergence.blankets import Points
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.log_bracket import ZERO, LogBracket
from hubbub.accountant.divergence.search import COARSE
from hubbub.accountant.numbers import fraction_up


def laid_out_delta(points: Points, people: int, epsilon: float, precision: float) -> LogBracket:
    """Return ends of ln δ of a blanket that was put on points; cut mass is added to the upper end.

    At a coarse precision only the upper end is computed: a search that needs only a side needs no more.
    """
    above = positive_part(points.upper_sum(people, epsilon), precision)
    below = ZERO if precision >= COARSE else positive_part(points.lower_sum(people, epsilon), precision)
    # Raising a tiny upper end to e^−700 is safe, and keeps the sum from underflowing.
    total = exp(max(above.upper, -700.0)) + fraction_up(points.missing)
    upper = log(total) + 1e-15 * (1 + abs(log(total)))
    return LogBracket(min(below.lower, upper), upper)
