"""Estimate: from the counts of a batch's symbols to unbiased numbers about the people, with the noise that is on them.

A report passed through kRR on k symbols with blanket probability γ: with N_j reports of symbol j among n,
ĉ_j = (N_j − nγ/k)/(1−γ) is unbiased for the number c_j of devices that encoded j. Everything published is linear in
these, L_w = Σ_j w_j ĉ_j, or a ratio of two such.

Variance of L_w with the inputs fixed, over randomized rounding and kRR. Report i contributes w(y_i), where y_i is the
encoded symbol with probability 1−γ and uniform with γ. Let m_i be the mean of w over device i's rounding, ρ_i its
variance, and w̄, Var_U(w) the mean and variance of w over the k symbols. Then
(1−γ)² Var L_w = Σ_i [(1−γ) E w² + γ E_U w² − ((1−γ) m_i + γ w̄)²], and with E w² = m_i² + ρ_i this is

    Var L_w = Σ_i ρ_i + γ/(1−γ) · Σ_j c_j (w_j − w̄)² + n γ Var_U(w) / (1−γ)²

With D dummies of the shuffler, uniform on the symbols and not among the n, N_j counts D/k of them in the mean:
ĉ_j = (N_j − (nγ + D)/k)/(1−γ), and nγ + D stands for nγ in the last term, since each has variance Var_U(w).

Above, c_j in the middle term is the expected number after rounding, for which ĉ_j is unbiased. For a histogram (ρ = 0,
w = 1 at j) it is c_j q(1−q) + (n−c_j) r(1−r) over (1−γ)², with q = 1−γ+γ/k and r = γ/k. For a sum over `levels` steps
ρ_i ≤ (step of w)²/4, and no statistic of the reports tells it from Σx²; it is taken at that maximum, for each of those
who answered. So a stated variance is right up to that term, and never below the truth in expectation. The middle term
is clipped to what counts that are not negative can give.

The standard errors are about privacy and rounding given the people in the round; they say nothing about people who are
not in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hubbub.protos.results import Estimate, HistogramEstimate, SumEstimate
from hubbub.protos.task import Histogram, Query, Sum

Z_95 = 1.96
"""Half-width of a 95 % interval of the normal law, in standard errors."""

Counts = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Debiased:
    """A batch's counts N_j by symbol (shape (k,)), D dummies among them, and the estimates ĉ_j that they give."""

    gamma: float
    counts: Counts
    dummies: int = 0

    @property
    def reports(self) -> int:
        """How many reports of devices were counted, n."""
        return int(self.counts.sum()) - self.dummies

    @property
    def uniform(self) -> float:
        """How many of those counted say nothing, in the mean: nγ + D."""
        return self.reports * self.gamma + self.dummies

    @property
    def estimates(self) -> Weights:
        """ĉ_j, shape (k,): unbiased, possibly negative, adding up to n."""
        symbols = len(self.counts)
        return np.asarray((self.counts - self.uniform / symbols) / (1 - self.gamma), dtype=np.float64)

    def total(self, weights: Weights) -> float:
        """L_w = Σ_j w_j ĉ_j."""
        return float(weights @ self.estimates)

    def variance(self, weights: Weights, rounding: float = 0.0) -> float:
        """The estimated variance of L_w; `rounding` is the sum of the ρ_i."""
        deviations = (weights - weights.mean()) ** 2
        spread = float(deviations @ self.estimates)
        spread = min(max(spread, self.reports * float(deviations.min())), self.reports * float(deviations.max()))
        return self._variance(spread, float(deviations.mean()), rounding)

    def indicator_variances(self) -> Weights:
        """The estimated variances of all ĉ_j, shape (k,): `variance` of every indicator, at once."""
        symbols = len(self.counts)
        clipped = np.clip(self.estimates, 0, self.reports)
        spread = clipped * (1 - 1 / symbols) ** 2 + (self.reports - clipped) / symbols**2
        truth = 1 - self.gamma
        uniform = self.uniform * (1 - 1 / symbols) / symbols / truth**2
        return np.asarray(self.gamma / truth * spread + uniform, dtype=np.float64)

    def _variance(self, spread: float, uniform: float, rounding: float) -> float:
        truth = 1 - self.gamma
        return rounding + self.gamma / truth * spread + self.uniform * uniform / truth**2


def estimate(query: Query, counts: Counts, dummies: int = 0) -> HistogramEstimate | SumEstimate:
    """Return a query's estimate from the counts of its symbols, shape (query.symbols,), with `dummies` among them.

    Raises:
        ValueError: where the counts are not of that shape, or negative, or fewer than the dummies, or γ is 1 and
            reports say nothing.
    """
    if query.gamma_fraction == 1:
        raise ValueError(f"gamma of query {query.name} is 1: its reports say nothing; choose a smaller one")
    if counts.shape != (query.symbols,) or (counts < 0).any():
        raise ValueError(f"counts of shape {counts.shape}, {query.symbols} counts from 0 on are expected")
    if not 0 <= dummies <= counts.sum():
        raise ValueError(f"{dummies} dummies among {counts.sum()} counted; there are from 0 to all of them")
    debiased = Debiased(float(query.gamma_fraction), counts, dummies)
    if isinstance(query.question, Histogram):
        return _histogram(query, query.question, debiased)
    return _sum(query, query.question, debiased)


def _interval(value: float, variance: float) -> Estimate:
    error = math.sqrt(variance)
    return Estimate(value, error, value - Z_95 * error, value + Z_95 * error)


def _answers(query: Query) -> Weights:
    """1 for every symbol that is an answer, 0 for "no answer"."""
    weights = np.ones(query.symbols)
    if query.no_answer is not None:
        weights[query.no_answer] = 0.0
    return weights


def _answered(query: Query, debiased: Debiased) -> Estimate:
    if query.no_answer is None:
        return _interval(float(debiased.reports), 0.0)
    weights = _answers(query)
    return _interval(debiased.total(weights), debiased.variance(weights))


def _histogram(query: Query, question: Histogram, debiased: Debiased) -> HistogramEstimate:
    counts = zip(debiased.estimates.tolist(), debiased.indicator_variances().tolist(), strict=True)
    intervals = tuple(_interval(count, variance) for count, variance in counts)
    consistent = project(debiased.estimates, debiased.reports)
    answers = len(question.categories)
    return HistogramEstimate(
        categories=question.categories,
        counts=intervals[:answers],
        consistent=tuple(consistent[:answers].tolist()),
        answered=_answered(query, debiased),
    )


def project(estimates: Weights, total: float) -> Weights:
    """Return the point of {c ≥ 0, Σc = total} nearest to the estimates: consistent, and biased.

    All symbols are projected together, "no answer" included: the answers' part of an optional query then adds up to at
    most the number of reports, and what is missing is the consistent number without an answer.
    """
    descending = np.sort(estimates)[::-1]
    shifts = (np.cumsum(descending) - total) / np.arange(1, len(descending) + 1)
    # The first one always qualifies, so there is a last one.
    shift = shifts[np.flatnonzero(descending >= shifts)[-1]]
    return np.asarray(np.maximum(estimates - shift, 0.0), dtype=np.float64)


def _sum(query: Query, question: Sum, debiased: Debiased) -> SumEstimate:
    """The sum is lower·A + (upper−lower)·T: A those who answered, T the sum of their values scaled to [0, 1].

    The mean is lower + (upper−lower)·T/A. Its standard error is the delta method's: that of the linear statistic with
    weights (t_j − T/A) over those who answered, divided by A; the covariance of T and A is in it.
    """
    answers, levels, width = _answers(query), query.answers - 1, question.upper - question.lower
    scaled = answers * np.minimum(np.arange(query.symbols), levels) / levels
    answered = _answered(query, debiased)
    rounding = min(max(answered.value, 0.0), float(debiased.reports)) / (4 * levels**2)
    total = debiased.total(scaled)
    # Constants add nothing to the noise where everybody answers; left out, they cost no digits either.
    weights = scaled if query.no_answer is None else question.lower / width * answers + scaled
    error_variance = debiased.variance(weights, rounding)
    value = question.lower * answered.value + width * total
    mean = _mean(question, debiased, answers, scaled, rounding) if answered.value > 0 else None
    return SumEstimate(
        question.unit, question.lower, question.upper, answered, _scaled(value, error_variance, width), mean
    )


def _mean(question: Sum, debiased: Debiased, answers: Weights, scaled: Weights, rounding: float) -> Estimate:
    answered, width = debiased.total(answers), question.upper - question.lower
    ratio = debiased.total(scaled) / answered
    variance = debiased.variance(scaled - ratio * answers, rounding) / answered**2
    return _scaled(question.lower + width * ratio, variance, width)


def _scaled(value: float, variance: float, width: float) -> Estimate:
    error = math.sqrt(variance) * width
    return Estimate(value, error, value - Z_95 * error, value + Z_95 * error)
