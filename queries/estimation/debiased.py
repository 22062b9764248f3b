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

If the shufflers add noise, their dummies are not uniform. Their numbers z_j by symbol of reports were drawn, and D is
the sum S of all shufflers' draws. In the mean each symbol has the same number of them in either case, so ĉ_j is the
same. Their variance is that of D' uniform dummies (`equal_dummies`), and D' replaces D in it.

Intervals of counts follow from the exact law of their reports (`count_law`), those of ratios from Fieller's method
(`ratios`), and others from the normal law and what one report can move (`bands.near_half_width`).

The standard errors are those of the randomizer and of rounding, with the people in the round fixed. They do not cover
people who are not in the round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from hubbub.queries.estimation.bands import near_interval
from hubbub.queries.estimation.count_law import CountIntervals, CountLaw, law_of_counts
from hubbub.queries.estimation.estimates import Estimate
from hubbub.queries.estimation.noise_sums import LONGEST_LAW
from hubbub.queries.estimation.ratios import Line, Parabola
from hubbub.queries.estimation.significance import bounded_p_values, exact_p_values, noisy_p_values
from hubbub.queries.randomizers.hashed_noise import added_moments
from hubbub.queries.randomizers.randomizer import Imitable, Randomizer, Tally, check_sum, equal_dummies

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms.noise_law import ChainNoise
    from hubbub.queries.randomizers.randomizer import Counts, Vector

ANY = (-math.inf, math.inf)
"""The range of a statistic that can have any value."""


@dataclass(frozen=True)
class Debiased:
    """A batch's tally under its randomizer, with `dummies` among the valid reports.

    Dummies are uniform, unless there is `noise`: then each shuffler drew their numbers by symbol from that law, and
    `dummies` is the sum of what all of them drew.

    Raises:
        ValueError: if the counts have another shape, or are negative or above the number of valid reports; if there are
            more dummies than valid reports, or a number of them that the noise cannot add up to; if a shuffler cannot
            add noise to the reports; or if the reports do not depend on the answers.
    """

    randomizer: Randomizer
    tally: Tally
    dummies: int = 0
    noise: ChainNoise | None = None

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

    def near(
        self, value: float, variance: float, weights: Vector, width: float = 1.0, within: tuple[float, float] = ANY
    ) -> Estimate:
        """Return an estimate with near intervals (`bands.near_interval`), which have values `within` a range only.

        `variance` is that of value / width, a sum in which the symbols have these weights.
        """
        error, reach = math.sqrt(variance) * width, self.reach(weights) * width
        return Estimate.of(value, error, partial(near_interval, value, error, reach, within))

    def reach(self, weights: Vector) -> float:
        """Return by how much one random choice of a report, the symbol or a bit, can move L_w at most."""
        most = np.ptp(weights) if self.randomizer.one_symbol_per_report else np.abs(weights).max()
        return float(most) / self.randomizer.support_gap

    def every_symbol(self) -> list[Estimate]:
        """Return every ĉ_j with its interval."""
        return self.intervals_of_sums(self.tally.counts, self.counts, self.further, 1)

    def count_of(self, chosen: Vector) -> Estimate:
        """Return how many people encoded one of the symbols that have a 1 in `chosen`, of 0s and 1s."""
        observed = self.tally.counts[chosen > 0].sum(keepdims=True) if self._of_symbols else self.tally.counts
        sums, further = (np.array([float(each @ chosen)]) for each in (self.counts, self.further))
        return self.intervals_of_sums(observed, sums, further, int(chosen.sum()))[0]

    def intervals_of_sums(self, observed: Counts, sums: Vector, further: Vector, symbols: int) -> list[Estimate]:
        """Return sums of the ĉ_j of so many symbols each, with their standard errors as by `variance`, and intervals.

        `observed` are the sums of their counts in the tally, and `further` those of `further`. Intervals follow from
        the exact law of a sum (`count_law`). For counts that are decoded from hashes there is none, so they are near.
        """
        # A randomizer treats all symbols alike, so every indicator has the same variances: one for people who encoded
        # one of its symbols (hit), and one for all others (miss).
        indicator = self._indicator(symbols)
        each = self.randomizer.variances(indicator)
        hit, miss = float(each[0]), float(each[-1])
        clipped = np.clip(sums, 0, self.reports)
        people = clipped * hit + (self.reports - clipped) * miss
        variances = np.maximum(people + self._dummies * self.randomizer.dummy_variance(indicator) + further, 0.0)
        values = sums.tolist()
        if not self._of_symbols:
            within, some = (0.0, float(self.reports)), indicator[:1]
            return [
                self.near(value, variance, some, within=within)
                for value, variance in zip(values, variances.tolist(), strict=True)
            ]
        found = CountIntervals(self.law_of_sum(symbols), observed)
        errors = np.sqrt(variances).tolist()
        return [
            Estimate.of(value, error, partial(found.of, place))
            for place, (value, error) in enumerate(zip(values, errors, strict=True))
        ]

    @property
    def _of_symbols(self) -> bool:
        """Whether the tally counts symbols. Otherwise counts are decoded from hashes."""
        return type(self.tally) is Tally

    def law_of_sum(self, symbols: int) -> CountLaw:
        """Return the exact law of the sum of so many symbols' counts of reports, by the number of people."""
        return law_of_counts(self.randomizer, self.reports, self.dummies, self.noise, symbols)

    def _indicator(self, symbols: int) -> Vector:
        return (np.arange(self.randomizer.symbols) < symbols).astype(np.float64)

    def ratio(self, weights: Vector, answers: int, span: tuple[float, float], rounding: float = 0.0) -> Estimate | None:
        """Return L_w over the number of people who gave one of the first `answers` symbols, within `span`.

        If that number is known, the ratio is unbiased. If it is estimated, the ratio is biased where few answer, its
        value is moved into the span, and its interval is Fieller's (`ratios`). None if nobody answers, as it seems.
        """
        people, answering = self.answered(answers).value, self.answering(answers)
        if people <= 0:
            return None
        total = self.total(weights)
        if not answering.any():
            return self.near(total / people, self.variance(weights, rounding), weights, 1 / people, span)
        value = min(max(total / people, span[0]), span[1])

        def spread(ratio: float) -> float:
            return self.variance(weights - ratio * answering, rounding)

        places = (span[0], value if span[0] < value < span[1] else (span[0] + span[1]) / 2, span[1])
        reach = max(self.reach(weights - end * answering) for end in span)
        line = Line(total, people, value, Parabola.through(places, [spread(place) for place in places]), reach, span)
        return Estimate.of(value, math.sqrt(spread(value)) / people, line.interval)

    def p_values(self) -> Vector:
        """Return, by symbol, how often noise alone gives as large a count if nobody encoded it (`significance`).

        The p-values are exact if the counts are those of the reports, and bounds if they are decoded from hashes.
        """
        return self.p_values_of_sums(self.tally.counts, self.counts, self.further, 1)

    def p_values_of_sums(self, observed: Counts, sums: Vector, further: Vector, symbols: int) -> Vector:
        """Return the p-values of sums of so many symbols each, as in `intervals_of_sums`."""
        if not self._of_symbols:
            return self._bounded_p_values(sums, further, symbols)
        if self.noise is None:
            return exact_p_values(observed, self.law_of_sum(symbols))
        if symbols * self.noise.largest < LONGEST_LAW:
            return noisy_p_values(self.randomizer, observed, self.reports, self.noise, symbols)
        return self.law_of_sum(symbols).chance_of_as_many(observed)

    def _bounded_p_values(self, sums: Vector, further: Vector, symbols: int) -> Vector:
        # The mean over the symbols: a report adds at most 1 to it, as to one symbol's count. By Hölder's inequality,
        # noise adds at most the moments that it adds to one.
        scale = self.randomizer.support_gap / symbols
        indicator = self._indicator(symbols)
        variances = self.reports * float(self.randomizer.variances(indicator)[-1]) + further
        if self.noise is not None:
            moments = added_moments(self.randomizer, self.noise)
            return bounded_p_values(sums * scale, variances * scale**2, moments)
        variances = variances + self._dummies * self.randomizer.dummy_variance(indicator)
        return bounded_p_values(sums * scale, variances * scale**2)

    def silent(self, answers: int) -> Vector:
        """Return 1 for "no answer", the symbol after the first `answers` ones if there is one, and 0 for others."""
        return (np.arange(self.randomizer.symbols) >= answers).astype(np.float64)

    def answering(self, answers: int) -> Vector:
        """Return the weights of `answered`, without its constant, which adds no noise: −1 at "no answer"."""
        return -self.silent(answers)

    def answered(self, answers: int) -> Estimate:
        """Return how many people gave one of the first `answers` symbols: all except those of "no answer".

        For some randomizers this is not the sum of the answers' ĉ_j: those of unary encoding need not add up to n, and
        have the noise of each symbol. If there is no further symbol, it is everybody, without noise.
        """
        silent = self.silent(answers)
        if not silent.any():
            return Estimate.known(float(self.reports))
        return self.count_of(silent).mapped(self.reports, -1)

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
