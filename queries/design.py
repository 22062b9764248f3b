"""Design: a question for calibration, with the encodings and randomizers to choose from and their exact errors.

Only planning uses it; it imports numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hubbub.queries.errors import TaskError
from hubbub.queries.query import Query
from hubbub.queries.question import Question, symbols_of
from hubbub.queries.randomizer import Family, Randomizer
from hubbub.queries.registry import randomizer_of


@dataclass(frozen=True)
class Design:
    """A question with the kind of randomizer that it names; it implements `accountant.calibration.Design`."""

    question: Question

    @property
    def weight(self) -> float:
        """Its share of the round's privacy, relative to the other queries."""
        return self.question.weight

    @property
    def sizes(self) -> range:
        """The numbers of answers that it may be encoded into: those of the question that its randomizer takes."""
        sizes = self.question.sizes
        # The search for the least error steps upwards; beyond this a step would be an error that ends it.
        most = self._kind.most_symbols - (1 if self.question.optional else 0)
        # The first one stays, so that `families` can say what is too large.
        return range(sizes.start, max(sizes.start + 1, min(sizes.stop, most + 1)), sizes.step)

    @property
    def _kind(self) -> type[Randomizer]:
        return randomizer_of(f"query {self.question.name}", self.question.randomizer)

    def families(self, size: int) -> Sequence[Family]:
        """Return the families of its randomizer for that encoding.

        Raises:
            TaskError: where the randomizer does not take so many symbols.
        """
        try:
            return self._kind.families(symbols_of(self.question.sized(size)))
        except TaskError as error:
            raise TaskError(f"query {self.question.name}: {error}") from error

    def mse(self, size: int, randomizer: Randomizer, reports: int, dummies: int) -> float:
        """Return the largest variance of the headline statistic over all inputs of `reports` people.

        People are independent, so it is n times the largest variance of one debiased report, and that of the dummies.
        """
        # Reports that do not depend on the answer: no number of them gives an estimate.
        if randomizer.keep <= 0:
            return float("inf")
        question = self.question.sized(size)
        weights = question.headline()
        worst = question.worst(randomizer.variances(weights))
        return reports * worst + dummies * randomizer.dummy_variance(weights)

    def query(self, size: int, randomizer: Randomizer) -> Query:
        """Return the query that was chosen."""
        return Query(self.question.sized(size), randomizer)
