"""What `sampled` and `vector` share: a device sends signs for the nodes of one level, drawn uniformly and told openly.

Let E = weight / 2³². The coins of a level have, relative to fair ones, a density between c and cE, so that a whole
sequence of signs is ln E-LDP. Both publish (levels/gap)·(the sum of all signs), where gap is how much a sign tells.
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
            f"weight is {shown(weight)}, must be a whole number above 2**32, at which a report says nothing, and at "
            "most e**40 * 2**32; take e**epsilon_local * 2**32, rounded down"
        )


def weight_of(epsilon_local: float) -> int:
    """Return the largest weight whose sequences are `epsilon_local`-LDP; raises AccountingError where there is none."""
    if not epsilon_local >= EPSILON_LOCAL_LEAST:
        raise AccountingError(f"epsilon_local is {shown(epsilon_local)}, must be above 0; allow a larger one")
    weight = int(exp_decimal(min(epsilon_local, EPSILON_LOCAL_LIMIT)) * GAMMA_DENOMINATOR)
    check_weight(weight)
    return weight


def signs_variance(horizon: Horizon, scale: Fraction, period: int, reports: int, ones: int) -> Fraction:
    """Return the variance of `scale` times the sum of signs over the nodes of [1, period].

    One device sends at one level, so of the nodes of [1, period], which have distinct levels, it answers one at most:
    with probability 1/levels each. Its term squared is scale² then, and its mean is its boolean, 0 or 1.
    """
    return reports * len(horizon.cover(period)) * scale**2 / horizon.levels - ones


def most_signs(horizon: Horizon, level: int, period: int | None) -> tuple[int, int]:
    """Return how many coins can all be drawn one way, and then at another stream all the other way.

    Changes alternate in sign, +1 first. So signs that agree with as many of one stream's nodes as there can be,
    min(k, c) of c nodes, contradict min(k, c − 1) nodes of another stream, or the other way round: a stream that is to
    begin with −1 does not exist, so a first node is left out.
    """
    nodes = horizon.nodes(level, period)
    return min(horizon.changes, nodes), min(horizon.changes, max(nodes - 1, 0))
