"""Implements the common part of `sampled` and `vector`: signs for the nodes of one level, drawn uniformly and public.

Let E = weight / 2³². The coins of a level have, relative to fair ones, a density between c and cE, so a whole sequence
of signs is ln E-LDP. Both publish (levels/gap)·(the sum of all signs); here gap is the mean of a sign times the sign of
its node's value.
"""

from fractions import Fraction

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.exact import EPSILON_LOCAL_LEAST, EPSILON_LOCAL_LIMIT, exp_decimal
from hubbub.accountant.mechanisms.exact_values import GAMMA_DENOMINATOR
from hubbub.accountant.mechanisms.longitudinal.horizon import Horizon


def check_weight(weight: object) -> None:
    """Return only if `weight` is a whole number above 2³² and at most e^40·2³²."""
    most = int(exp_decimal(EPSILON_LOCAL_LIMIT) * GAMMA_DENOMINATOR)
    if type(weight) is not int or not GAMMA_DENOMINATOR < weight <= most:
        raise AccountingError(
            f"weight is {shown(weight)}; give e**epsilon_local * 2**32, rounded down: a whole number above 2**32, at "
            "which a report has no information, and at most e**40 * 2**32"
        )


def weight_of(epsilon_local: float) -> int:
    """Return the largest weight whose sequences are `epsilon_local`-LDP; raises AccountingError if there is none."""
    if not epsilon_local >= EPSILON_LOCAL_LEAST:
        raise AccountingError(f"epsilon_local is {shown(epsilon_local)}; give a number above 0, such as 1")
    weight = int(exp_decimal(min(epsilon_local, EPSILON_LOCAL_LIMIT)) * GAMMA_DENOMINATOR)
    check_weight(weight)
    return weight


def signs_variance(horizon: Horizon, scale: Fraction, period: int, reports: int, ones: int) -> Fraction:
    """Return the variance of `scale` times the sum of signs over the nodes of [1, period].

    One device sends at one level. The nodes of [1, period] have distinct levels, so it answers at most one of them,
    each with probability 1/levels. The square of its term is then scale², and its mean is its boolean, 0 or 1.
    """
    return reports * len(horizon.cover(period)) * scale**2 / horizon.levels - ones


def most_signs(horizon: Horizon, level: int, period: int | None) -> tuple[int, int]:
    """Return how many coins can all agree with one stream, and how many can all contradict another stream.

    Changes alternate in sign, +1 first. So if signs agree with the largest possible number of one stream's nodes,
    min(k, c) of c nodes, they contradict min(k, c − 1) nodes of another stream, or the other way round: no stream
    begins with −1, so a first node is left out.
    """
    nodes = horizon.nodes(level, period)
    return min(horizon.changes, nodes), min(horizon.changes, max(nodes - 1, 0))
