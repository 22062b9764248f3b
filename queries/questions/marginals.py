"""The part of a batch's debiased counts that is about one group, or about several groups together.

Joint symbols are pairs of a group and an answer. So a statistic of one group is linear in the joint counts, with
weights that are 0 elsewhere. Its variance is that of those weights over all reports: people of other groups add noise
too. Every slice uses the same joint counts. So the sums over groups equal the totals. The consistent counts also agree,
because they are sums of one projection of all joint counts.

The number of people in a group is an estimate, the sum of its symbols' ĉ_j, even if everybody answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.estimation.significance import LONGEST_LAW, noisy_p_values, normal_p_values
from hubbub.queries.randomizers.randomizer import Tally

if TYPE_CHECKING:
    import numpy.typing as npt

    from hubbub.queries.estimation.estimates import Estimate
    from hubbub.queries.randomizers.randomizer import Vector


@dataclass(frozen=True, kw_only=True)
class Marginal(Debiased):
    """The debiased counts of `whole` for the symbols of one question, in some of the groups.

    `place`, shape (joint symbols,), is the question's symbol that a joint symbol belongs to, and −1 outside the groups.
    `size` is the number of the question's symbols, each of which has equally many joint ones.
    """

    whole: Debiased = field(repr=False)
    place: npt.NDArray[np.int64] = field(repr=False)
    size: int

    @classmethod
    def of(cls, whole: Debiased, place: npt.NDArray[np.int64], size: int) -> Marginal:
        """Return a slice of a batch's counts."""
        return cls(whole.randomizer, whole.tally, whole.dummies, whole.noise, whole=whole, place=place, size=size)

    @cached_property
    def counts(self) -> Vector:
        """The joint ĉ_j added up by the question's symbol, shape (size,)."""
        return self._added(self.whole.counts)

    def _added(self, joint: Vector) -> Vector:
        inside = self.place >= 0
        return np.asarray(np.bincount(self.place[inside], joint[inside], self.size), dtype=np.float64)

    def variance(self, weights: Vector, rounding: float = 0.0) -> float:
        """Return the estimated variance of Σ w_s ĉ_s over the question's symbols s."""
        return self.whole.variance(np.where(self.place >= 0, weights[self.place], 0.0), rounding)

    def every_symbol(self) -> list[Estimate]:
        """Return every ĉ_s with its interval."""
        together = int((self.place >= 0).sum()) // self.size
        return self.whole.intervals_of_sums(self.counts, together, self._added(self.whole.further))

    def p_values(self) -> Vector:
        """Return, by the question's symbol, how often noise alone gives as large a count if nobody there has it."""
        inside = self.place >= 0
        if int(inside.sum()) == self.size:
            return self._added(self.whole.p_values())
        together, further = int(inside.sum()) // self.size, self._added(self.whole.further)
        if self.noise is not None and type(self.tally) is Tally and together * self.noise.largest < LONGEST_LAW:
            totals = self._added(self.tally.counts.astype(np.float64)).astype(np.int64)
            return noisy_p_values(self.randomizer, totals, self.reports, self.noise, together)
        return normal_p_values(self.counts, self.whole.noise_of_sums(together) + further)

    def silent(self, answers: int) -> Vector:
        """Return 1 for the question's "no answer", if there is one, and 0 for other symbols."""
        return (np.arange(self.size) >= answers).astype(np.float64)

    def answered(self, answers: int) -> Estimate:
        """Return how many people of the groups gave one of the first `answers` symbols: the sum of these ĉ_s."""
        weights = self.answering(answers)
        return self.interval(self.total(weights), self.variance(weights))

    def answering(self, answers: int) -> Vector:
        """Return the weights of `answered`: 1 at each answer."""
        return 1.0 - self.silent(answers)

    def consistent(self) -> Vector:
        """Return the consistent joint counts added up by the question's symbol."""
        return self._added(self.whole.consistent())
