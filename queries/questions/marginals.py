"""The part of a batch's debiased counts that is about one group, or about several groups together.

Joint symbols are pairs of a group and an answer. So a statistic of one group is linear in the joint counts, with
weights that are 0 elsewhere. Its variance is that of those weights over all reports: people of other groups add noise
too. Every slice uses the same joint counts. So the sums over groups equal the totals. The consistent counts also agree,
because they are sums of one projection of all joint counts.

The number of people in a group is an estimate, the sum of its symbols' ĉ_j, even if everybody answers. The number of
all people is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.randomizers.randomizer import Tally

if TYPE_CHECKING:
    import numpy.typing as npt

    from hubbub.queries.estimation.estimates import Estimate
    from hubbub.queries.randomizers.randomizer import Counts, Vector


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
        return self.whole.variance(self._joint(weights), rounding)

    @cached_property
    def _everybody(self) -> bool:
        """Whether every joint symbol is in one of the groups, so that the number of people is known."""
        return bool((self.place >= 0).all())

    @property
    def _together(self) -> int:
        """How many joint symbols each of the question's symbols has."""
        return int((self.place >= 0).sum()) // self.size

    def every_symbol(self) -> list[Estimate]:
        """Return every ĉ_s with its interval."""
        return self.whole.intervals_of_sums(*self._sums, self._together)

    def p_values(self) -> Vector:
        """Return, by the question's symbol, how often noise alone gives as large a count if nobody there has it."""
        return self.whole.p_values_of_sums(*self._sums, self._together)

    @property
    def _sums(self) -> tuple[Counts, Vector, Vector]:
        observed = self.tally.counts
        if type(self.tally) is Tally:
            observed = self._added(observed.astype(np.float64)).astype(np.int64)
        return observed, self.counts, self._added(self.whole.further)

    def count_of(self, chosen: Vector) -> Estimate:
        """Return how many people of the groups gave one of the question's symbols that have a 1 in `chosen`."""
        return self.whole.count_of(self._joint(chosen))

    def _joint(self, weights: Vector) -> Vector:
        return np.where(self.place >= 0, weights[self.place], 0.0)

    def reach(self, weights: Vector) -> float:
        """Return by how much one random choice of a report can move a statistic with these weights at most."""
        return self.whole.reach(self._joint(weights))

    def silent(self, answers: int) -> Vector:
        """Return 1 for the question's "no answer", if there is one, and 0 for other symbols."""
        return (np.arange(self.size) >= answers).astype(np.float64)

    def answered(self, answers: int) -> Estimate:
        """Return how many people of the groups gave one of the first `answers` symbols: the sum of these ĉ_s.

        Of everybody it is all people except those of "no answer", so it is known if everybody answers.
        """
        if self._everybody:
            return super().answered(answers)
        return self.count_of(self.answering(answers))

    def answering(self, answers: int) -> Vector:
        """Return the weights of `answered`: 1 at each answer, or of everybody −1 at "no answer"."""
        silent = self.silent(answers)
        return -silent if self._everybody else 1.0 - silent

    def consistent(self) -> Vector:
        """Return the consistent joint counts added up by the question's symbol."""
        return self._added(self.whole.consistent())
