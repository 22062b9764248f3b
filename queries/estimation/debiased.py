"""Computes unbiased statistics about people from a batch's counts, with their standard errors.

With N_j counted for symbol j among n valid reports of people and D dummies (`Randomizer`),
ĉ_j = (N_j − base·n − dummy_mean·D)/keep is unbiased for the number c_j of people who encoded j. Everything published
is linear in these, L_w = Σ_j w_j ĉ_j, or a ratio of two such statistics.

Variance of L_w with the people fixed, over randomized rounding and the randomizer. Person i encodes y_i, with ρ_i the
variance of w(y_i) over rounding. Given y_i the report adds v_w(y_i) (`Randomizer.variances`), with mean w(y_i), so

    Var L_w = Σ_i ρ_i + Σ_j c_j v_w(j) + D · (a dummy's variance)

with c_j the expected number after rounding, for which ĉ_j is unbiased. For a number over `levels` steps
ρ_i ≤ (step of w)²/4. No statistic of the reports distinguishes it from Σx², so it is taken at that maximum.

The middle sum is clipped to the range that it has for counts that are not negative. If people are spread over the
symbols, that hardly ever changes it. If there are few people and nearly all are alike, it is clipped on one side only,
and the stated variance is slightly wrong in the mean: for four people of one category, kRR with k = 3 and γ = 1/2, it
is 3.30, and the truth is 3.56.

For kRR this is Σρ + γ/(1−γ) Σ_j c_j (w_j − w̄)² + (nγ + D) Var_U(w)/(1−γ)²; for a histogram (w = 1 at j) it is
c_j q(1−q) + (n−c_j) r(1−r) over (1−γ)², with q = 1−γ+γ/k and r = γ/k.

If the shuffler adds noise, its dummies are not uniform. Their numbers z_j by symbol of reports were drawn, and D is
their sum S. In the mean each symbol has the same number of them in either case, so ĉ_j is the same. Their variance is
that of D' uniform dummies (`equal_dummies`), and D' replaces D in it.

The standard errors are those of the randomizer and of rounding, with the people in the round fixed. They do not cover
people who are not in the round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hubbub.queries.estimation.bands import Z_95
from hubbub.queries.estimation.estimates import Estimate
from hubbub.queries.estimation.significance import bounded_p_values, exact_p_values
from hubbub.queries.randomizers.randomizer import Imitable, Randomizer, Tally, beside_noise, check_sum, equal_dummies

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms.noise_law import NoiseLaw
    from hubbub.queries.randomizers.randomizer import Vector


@dataclass(frozen=True)
class Debiased:
    """A batch's tally under its randomizer, with `dummies` among the valid reports.

    Dummies are uniform, unless there is `noise`: then the shuffler drew their numbers by symbol from that law, and
    `dummies` is the sum of what it drew.

    Raises:
        ValueError: if the counts have another shape, or are negative or above the number of valid reports; if there are
            more dummies than valid reports, or a number of them that the noise cannot add up to; if the shuffler cannot
            add noise to the reports; or if the reports do not depend on the answers.
    """

    randomizer: Randomizer
    tally: Tally
    dummies: int = 0
    noise: NoiseLaw | None = None

    def __post_init__(self) -> None:
        valid = self.tally.valid
        if self.randomizer.support_gap == 0:
            raise ValueError(
                f"the reports of {self.randomizer!r} have no information; choose a randomizer that is less private"
            )
        self.randomizer.check(self.tally)
        if not 0 <= self.dummies <= valid:
            raise ValueError(f"{self.dummies} dummies among {valid} valid reports; give 0 to {valid}")
        if self.noise is not None:
            check_sum(self.randomizer, self.noise, self.dummies)

    @property
    def reports(self) -> int:
        """n, the number of people's reports. It is not the sum of counts: a report may count for several symbols."""
        return self.tally.valid - self.dummies

    @cached_property
    def _debiased(self) -> tuple[Vector, Vector]:
        if self.noise is not None and isinstance(self.randomizer, Imitable):
            return self.randomizer.debias(self.tally, self.dummies, self.noise)
        return self.randomizer.debias(self.tally, self.dummies)

    @property
    def counts(self) -> Vector:
        """ĉ_j, shape (symbols,): unbiased, possibly negative."""
        return self._debiased[0]

    @property
    def further(self) -> Vector:
        """By how much collisions of hashes change each ĉ_j's variance from that of its reports, shape (symbols,)."""
        return self._debiased[1]

    @cached_property
    def _dummies(self) -> float:
        """The number of uniform dummies whose variance is that of the dummies."""
        return equal_dummies(self.randomizer, self.dummies, self.noise)

    def total(self, weights: Vector) -> float:
        """L_w = Σ_j w_j ĉ_j."""
        return float(weights @ self.counts)

    def variance(self, weights: Vector, rounding: float = 0.0) -> float:
        """Return the estimated variance of L_w; `rounding` is the sum of the ρ_i."""
        each = self.randomizer.variances(weights)
        people = self._clipped(float(each @ self.counts), float(each.min()), float(each.max()))
        dummies = self._dummies * self.randomizer.dummy_variance(weights)
        return max(0.0, rounding + people + dummies + float(self.further @ weights**2))

    def _clipped(self, spread: float, least: float, most: float) -> float:
        return min(max(spread, self.reports * least), self.reports * most)

    def interval(self, value: float, variance: float, width: float = 1.0) -> Estimate:
        """Return an estimate with its 95 % interval; the variance is that of value / width."""
        error = math.sqrt(variance) * width
        return Estimate(value, error, value - Z_95 * error, value + Z_95 * error)

    def every_symbol(self) -> list[Estimate]:
        """Return every ĉ_j with its interval, as by `variance` of every indicator, but at once."""
        return self.intervals_of_sums(self.counts, 1, self.further)

    def intervals_of_sums(self, sums: Vector, symbols: int, further: Vector) -> list[Estimate]:
        """Return sums of the ĉ_j of so many symbols each, with their intervals, as by `variance` of every indicator.

        `further` is the sum over the symbols of each.
        """
        # A randomizer treats all symbols alike, so every indicator has the same variances: one for people who encoded
        # one of its symbols (hit), and one for all others (miss).
        indicator = np.zeros(self.randomizer.symbols)
        indicator[:symbols] = 1.0
        each = self.randomizer.variances(indicator)
        hit, miss = float(each[0]), float(each[-1])
        clipped = np.clip(sums, 0, self.reports)
        people = clipped * hit + (self.reports - clipped) * miss
        variances = people + self._dummies * self.randomizer.dummy_variance(indicator) + further
        pairs = zip(sums.tolist(), np.maximum(variances, 0.0).tolist(), strict=True)
        return [self.interval(count, variance) for count, variance in pairs]

    def p_values(self) -> Vector:
        """Return, by symbol, how often noise alone gives as large a count if nobody encoded it (`significance`).

        The p-values are exact if the counts are those of the reports, and bounds if they are decoded from hashes.
        """
        if type(self.tally) is Tally:
            return exact_p_values(self.randomizer, self.tally, self.dummies, self.noise)
        excess, keep = self.counts * self.randomizer.support_gap, self.randomizer.support_gap
        if self.noise is None:
            return bounded_p_values(excess, self.noise_of_sums(1) * keep**2)
        of_people = self.noise_of_sums(1) - self._of_dummies(1)
        return bounded_p_values(excess, of_people * keep**2, beside_noise(self.randomizer, self.noise))

    def noise_of_sums(self, symbols: int) -> Vector:
        """Return the variance of each ĉ_j if nobody encoded it; for a sum of several symbols, without `further`."""
        indicator = np.zeros(self.randomizer.symbols)
        indicator[:symbols] = 1.0
        noise = self.reports * float(self.randomizer.variances(indicator)[-1])
        noise += self._of_dummies(symbols)
        return noise + (self.further if symbols == 1 else np.zeros(1))

    def _of_dummies(self, symbols: int) -> float:
        """Return the variance that the dummies add to a sum of so many symbols' ĉ_j."""
        indicator = np.zeros(self.randomizer.symbols)
        indicator[:symbols] = 1.0
        return self._dummies * self.randomizer.dummy_variance(indicator)

    def silent(self, answers: int) -> Vector:
        """Return 1 for "no answer", the symbol after the first `answers` ones if there is one, and 0 for others."""
        weights = np.zeros(self.randomizer.symbols)
        weights[answers:] = 1.0
        return weights

    def answering(self, answers: int) -> Vector:
        """Return the weights of `answered`, without its constant, which adds no noise: −1 at "no answer"."""
        return -self.silent(answers)

    def answered(self, answers: int) -> Estimate:
        """Return how many people gave one of the first `answers` symbols: all except those of "no answer".

        For some randomizers this is not the sum of the answers' ĉ_j: those of unary encoding need not add up to n, and
        have the noise of each symbol. If there is no further symbol, it is everybody, without noise.
        """
        silent = self.silent(answers)
        return self.interval(self.reports - self.total(silent), self.variance(silent) if silent.any() else 0.0)

    def consistent(self) -> Vector:
        """Return the counts projected on {c ≥ 0, Σc = n}: consistent, and biased.

        All symbols are projected together, "no answer" included. So an optional query's answers add up to at most the
        number of reports, and the rest is the consistent number of people without an answer.
        """
        return self._projected

    @cached_property
    def _projected(self) -> Vector:
        # Cached, because each slice of joint counts needs it.
        return project(self.counts, self.reports)


def project(estimates: Vector, total: float) -> Vector:
    """Return the point of {c ≥ 0, Σc = total} nearest to the estimates."""
    descending = np.sort(estimates)[::-1]
    shifts = (np.cumsum(descending) - total) / np.arange(1, len(descending) + 1)
    # The first one always qualifies, so there is a last one.
    shift = shifts[np.flatnonzero(descending >= shifts)[-1]]
    return np.asarray(np.maximum(estimates - shift, 0.0), dtype=np.float64)
