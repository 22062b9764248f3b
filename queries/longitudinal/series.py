"""Estimates the count after each round from the signs counted in the rounds so far, plain and smoothed.

A node's value is the sum of all people's changes within it. It is estimated by scale·(plus − minus) of its level in the
round that it ends with. [1, t] is divided into nodes of distinct levels, and their estimates add up to the count f_t
without bias. A device sends at one level. With n people of each node and D dummies, both known,

    Var f_t = Σ_nodes (n + D)·scale²/levels − Σ_i st_i(t)

(`signs_variance`; a person's contribution to all nodes together has the second moment scale²/levels for each node, and
the mean st_i(t)).

The smoothed series is the least squares fit of all nodes so far to the leaves' changes (Honaker, 2015; Hay and others,
2010), computed in two passes over the tree. It is also linear and unbiased, and at most as noisy. Its standard errors
assume that the nodes' noises are independent. Those of one person's nodes are not quite independent; the effect is at
most the share of people who changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hubbub.accountant.mechanisms.longitudinal import Sampled, Vector
from hubbub.queries.estimation.bands import Z_95
from hubbub.queries.estimation.estimates import Estimate, Row
from hubbub.queries.longitudinal.over_rounds import Batch

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TreeEstimates:
    """Estimated values and variances of the nodes of each level that have ended so far, in order.

    `values[h]` and `variances[h]` have the shape (periods so far >> h,). A node has an infinite variance if its round
    has no published batch.
    """

    values: tuple[Numbers, ...]
    variances: tuple[Numbers, ...]

    @classmethod
    def counted(cls, strategy: Sampled | Vector, number: int, batches: Mapping[int, Batch]) -> TreeEstimates:
        """Estimate the nodes that ended by round `number`, from the published batches."""
        periods, scale = number + 1, float(strategy.scale)
        values = [np.zeros(periods >> level) for level in range(periods.bit_length())]
        variances = [np.full(periods >> level, math.inf) for level in range(periods.bit_length())]
        for place, batch in batches.items():
            level, period, counts = 0, place + 1, batch.tally.counts
            each = scale**2 / strategy.horizon.levels
            while period <= periods and period % (1 << level) == 0:
                values[level][(period >> level) - 1] = scale * float(counts[2 * level + 1] - counts[2 * level])
                variances[level][(period >> level) - 1] = each * batch.tally.valid
                level += 1
        return cls(tuple(values), tuple(variances))

    def prefix(self, period: int) -> tuple[float, float]:
        """Return the sum of the nodes of [1, period] and of their variances."""
        nodes = [(level, (period >> level) - 1) for level in range(period.bit_length()) if period >> level & 1]
        total = sum(float(self.values[level][place]) for level, place in nodes)
        return total, sum(float(self.variances[level][place]) for level, place in nodes)


def rows_of(strategy: Sampled | Vector, number: int, batches: Mapping[int, Batch]) -> tuple[Row, ...]:
    """Return the rows after round `number`: the count, how many answered, and the smoothed counts up to it.

    A count has no value if the last round of one of its nodes was not published.
    """
    nodes, people = (
        TreeEstimates.counted(strategy, number, batches),
        batches[number].tally.valid - batches[number].dummies,
    )
    answered = Row("answered", Estimate(float(people), 0.0, float(people), float(people)))
    plain = Row("count", _estimate(*nodes.prefix(number + 1), people))
    fitted = zip(*smoothed(nodes), strict=True)
    series = [Row("smoothed_count", _estimate(*each, 0), f"round {place}") for place, each in enumerate(fitted)]
    return (plain, answered, *series)


def _estimate(value: float, variance: float, people: int) -> Estimate | None:
    if math.isinf(variance):
        return None
    # Each person in state yes makes the variance smaller by 1; their estimated number is `value`.
    error = math.sqrt(max(0.0, variance - min(max(value, 0.0), people)))
    return Estimate(value, error, value - Z_95 * error, value + Z_95 * error)


def smoothed(nodes: TreeEstimates) -> tuple[list[float], list[float]]:
    """Return the fitted counts after each period so far, and their variances."""
    values, variances, base, spread = [], [], 0.0, 0.0
    # [1, t] is divided into whole trees without common nodes, so each is fitted separately.
    period = len(nodes.values[0])
    begin = 0
    for level in reversed(range(period.bit_length())):
        if period >> level & 1:
            counts, errors = _tree(nodes, level, begin)
            values += (base + counts).tolist()
            variances += (spread + errors).tolist()
            base, spread, begin = values[-1], variances[-1], begin + (1 << level)
    return values, variances


def _tree(nodes: TreeEstimates, height: int, begin: int) -> tuple[Numbers, Numbers]:
    """Fit one whole tree of 2^height periods after period `begin`; return its prefix sums and their variances."""
    upper: list[Numbers] = []
    up: list[Numbers] = []
    for level in range(height + 1):
        cut = slice(begin >> level, (begin >> level) + (1 << height >> level))
        value, weight = nodes.values[level][cut], 1 / nodes.variances[level][cut]
        if level:
            below = upper[-1].reshape(-1, 2).sum(axis=1)
            through = _harmonic(up[-1].reshape(-1, 2))
            total = weight + through
            value = np.divide(weight * value + through * below, total, out=np.zeros_like(value), where=total > 0)
            weight = total
        upper.append(value)
        up.append(weight)
    return _down(upper, up)


def _harmonic(weights: Numbers) -> Numbers:
    """Return the weight of a sum of two nodes, for each row of two weights; 0 if either is unknown."""
    product, total = weights.prod(axis=1), weights.sum(axis=1)
    return np.asarray(np.divide(product, total, out=np.zeros_like(total), where=total > 0), dtype=np.float64)


def _down(upper: list[Numbers], up: list[Numbers]) -> tuple[Numbers, Numbers]:
    """Distribute the difference between each node's fit and its children's sum; return prefix sums and variances.

    Given its parent's value u, the left child's value is its own estimate plus the share a = v/(v + v') of the rest of
    u, with variance s = vv'/(v + v'). So a prefix sum is α·u plus a term that is independent of u, with variance β.
    Both are found from the leaf upwards: within a left child α·a and β + α²s, after a left child α + (1 − α)a and
    β + (1 − α)²s.
    """
    fitted, leaves = upper[-1], len(upper[0])
    alpha, beta = np.ones(leaves), np.zeros(leaves)
    for level, weight in enumerate(up[:-1]):
        pair = weight.reshape(-1, 2)
        total = pair.sum(axis=1)
        # A child's share is proportional to its variance, so to the other child's weight.
        share = np.divide(pair[:, 1], total, out=np.full(len(total), 0.5), where=total > 0)
        spread = np.divide(1.0, total, out=np.full(len(total), math.inf), where=total > 0)
        parents = np.arange(leaves) >> level + 1
        right = (np.arange(leaves) >> level & 1).astype(bool)
        moved = np.where(right, 1 - alpha, alpha)
        # 0·∞ is 0 here: a sum that does not depend on how two unknown children share has no unknown part.
        beta = beta + np.multiply(moved**2, spread[parents], out=np.zeros(leaves), where=moved != 0)
        alpha = np.where(right, alpha + moved * share[parents], alpha * share[parents])
    for value, weight in reversed(list(zip(upper[:-1], up[:-1], strict=True))):
        pair = weight.reshape(-1, 2)
        total = pair.sum(axis=1)
        share = np.divide(pair[:, 1], total, out=np.full(len(total), 0.5), where=total > 0)
        left = fitted - value.reshape(-1, 2).sum(axis=1)
        fitted = (value.reshape(-1, 2) + np.stack([left * share, left * (1 - share)], axis=1)).ravel()
    root = 1 / up[-1][0] if up[-1][0] > 0 else math.inf
    return np.cumsum(fitted), beta + np.multiply(alpha**2, root, out=np.zeros(leaves), where=alpha != 0)
