"""A question for calibration: the encodings and randomizers to choose from, and their exact errors.

Only planning uses this module, which imports numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hubbub.accountant.mechanisms.noise_law import ChainNoise
from hubbub.queries.errors import TaskError
from hubbub.queries.fields import AUTO
from hubbub.queries.query import Query
from hubbub.queries.questions.question import Question, symbols_of
from hubbub.queries.randomizers.randomizer import Randomizer, RandomizerFamily, equal_dummies
from hubbub.queries.registry import RANDOMIZERS, randomizer_of


@dataclass(frozen=True)
class Design:
    """A question with its kind of randomizer; it implements `accountant.calibration.design.QueryDesign`."""

    question: Question

    @property
    def weight(self) -> float:
        return self.question.weight

    @property
    def sizes(self) -> range:
        """The numbers of answers to choose from: those of the question that its randomizer takes."""
        sizes = self.question.sizes
        # The search for the least error steps upwards. Beyond this limit a step would raise, and end the search.
        most = min(kind.most_symbols for kind in self._kinds) - (1 if self.question.optional else 0)
        # The first one stays, so that `families` can raise with the number that is too large.
        return range(sizes.start, max(sizes.start + 1, min(sizes.stop, most + 1)), sizes.step)

    @property
    def _kinds(self) -> Sequence[type[Randomizer]]:
        """Return the kind that the question names; if planning chooses it, all kinds that take its symbols."""
        if self.question.randomizer != AUTO:
            return (randomizer_of(f"query {self.question.name}", self.question.randomizer),)
        least = self.question.sizes.start + (1 if self.question.optional else 0)
        return tuple(kind for kind in RANDOMIZERS.values() if least <= kind.most_symbols)

    def families(self, size: int) -> Sequence[RandomizerFamily]:
        """Return the families of its randomizer, or of all randomizers to choose from, for that encoding.

        Raises:
            TaskError: if the randomizer does not take so many symbols.
        """
        try:
            symbols = symbols_of(self.question.sized(size))
            return tuple(family for kind in self._kinds for family in kind.families(symbols))
        except TaskError as error:
            raise TaskError(f"query {self.question.name}: {error}") from error

    def mse(
        self, size: int, randomizer: Randomizer, reports: int, dummies: int, noise: ChainNoise | None = None
    ) -> float:
        """Return the largest variance of the headline statistic over all inputs of `reports` people.

        People are independent, so it is n times the largest variance of one debiased report, plus that of the dummies.
        If the shufflers add noise, that is the variance of its law, whatever `dummies` is.

        Raises:
            AccountingError: for noise beside a randomizer that the shuffler cannot imitate.
        """
        # The reports do not depend on the answer, so no number of them gives an estimate.
        if randomizer.support_gap <= 0:
            return float("inf")
        question = self.question.sized(size)
        weights = question.headline()
        worst = question.worst(randomizer.variances(weights))
        return reports * worst + equal_dummies(randomizer, dummies, noise) * randomizer.dummy_variance(weights)

    def query(self, size: int, randomizer: Randomizer, noise: ChainNoise | None = None) -> Query:
        """Return the query that was chosen, beside the noise of the shufflers if they add any."""
        sized: Any = self.question.sized(size)
        # Every question is a frozen dataclass with this field. Its value may be "auto", so it is replaced here.
        question = replace(sized, randomizer=randomizer.kind)
        return Query(question, randomizer) if noise is None else Query(question, randomizer, noise.law, noise.shufflers)
