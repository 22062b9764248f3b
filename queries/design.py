"""A question for calibration, with the encodings and randomizers to choose from and their exact errors.

Only planning uses it; it imports numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hubbub.queries.errors import TaskError
from hubbub.queries.fields import AUTO
from hubbub.queries.query import Query
from hubbub.queries.questions.question import Question, symbols_of
from hubbub.queries.randomizers.randomizer import Randomizer, RandomizerFamily
from hubbub.queries.registry import RANDOMIZERS, randomizer_of


@dataclass(frozen=True)
class Design:
    """A question with the kind of randomizer that it names; it implements `accountant.calibration.Design`."""

    question: Question

    @property
    def weight(self) -> float:
        return self.question.weight

    @property
    def sizes(self) -> range:
        """The numbers of answers that it may be encoded into: those of the question that its randomizer takes."""
        sizes = self.question.sizes
        # The search for the least error steps upwards; beyond this a step would be an error that ends it.
        most = min(kind.most_symbols for kind in self._kinds) - (1 if self.question.optional else 0)
        # The first one stays, so that `families` can say what is too large.
        return range(sizes.start, max(sizes.start + 1, min(sizes.stop, most + 1)), sizes.step)

    @property
    def _kinds(self) -> Sequence[type[Randomizer]]:
        """Return the kind that the question names, or those that take its symbols where it is to be chosen."""
        if self.question.randomizer != AUTO:
            return (randomizer_of(f"query {self.question.name}", self.question.randomizer),)
        least = self.question.sizes.start + (1 if self.question.optional else 0)
        return tuple(kind for kind in RANDOMIZERS.values() if least <= kind.most_symbols)

    def families(self, size: int) -> Sequence[RandomizerFamily]:
        """Return the families of its randomizer, or of all that may be chosen, for that encoding.

        Raises:
            TaskError: where the randomizer does not take so many symbols.
        """
        try:
            symbols = symbols_of(self.question.sized(size))
            return tuple(family for kind in self._kinds for family in kind.families(symbols))
        except TaskError as error:
            raise TaskError(f"query {self.question.name}: {error}") from error

    def mse(self, size: int, randomizer: Randomizer, reports: int, dummies: int) -> float:
        """Return the largest variance of the headline statistic over all inputs of `reports` people.

        People are independent, so it is n times the largest variance of one debiased report, and that of the dummies.
        """
        # Reports that do not depend on the answer: no number of them gives an estimate.
        if randomizer.support_gap <= 0:
            return float("inf")
        question = self.question.sized(size)
        weights = question.headline()
        worst = question.worst(randomizer.variances(weights))
        return reports * worst + dummies * randomizer.dummy_variance(weights)

    def query(self, size: int, randomizer: Randomizer) -> Query:
        """Return the query that was chosen."""
        sized: Any = self.question.sized(size)
        # Every question is a frozen dataclass with this field; what it names may be that planning is to choose.
        return Query(replace(sized, randomizer=randomizer.kind), randomizer)
