"""A query: a question with the randomizer of its answers. It works for all kinds, through their protocols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hubbub.accountant.mechanisms import LocalMechanism, paid_rounds
from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, ChainNoise, NoiseLaw
from hubbub.queries.errors import AnswerError, FieldError
from hubbub.queries.fields import AUTO, Fields
from hubbub.queries.longitudinal.over_rounds import Batch, ByRound, Encoded, OverRounds, Repeated, RoundContext
from hubbub.queries.questions.question import Question, Value, symbols_of
from hubbub.queries.randomizers.randomizer import Randomizer, beside_noise, task_content
from hubbub.queries.randomizers.sampling import Random, draw
from hubbub.queries.registry import question_of, randomizer_of

if TYPE_CHECKING:
    from hubbub.queries.estimation.debiased import Debiased
    from hubbub.queries.estimation.estimates import Estimates
    from hubbub.queries.randomizers.randomizer import Tally


@dataclass(frozen=True)
class Query:
    """A question, encoded, with its exact randomizer, and the law of the shufflers' noise if they add any.

    Each of the `shufflers` of the chain draws from that law. A task sets their number, by the hops that it names.

    Raises:
        AccountingError: for noise beside a randomizer whose reports the shuffler cannot imitate symbol by symbol.
    """

    question: Question
    randomizer: Randomizer
    noise: NoiseLaw | None = None
    shufflers: int = 1

    def __post_init__(self) -> None:
        if self.noise is not None:
            beside_noise(self.randomizer, self.noise)

    @property
    def name(self) -> str:
        """The question's name."""
        return self.question.name

    @property
    def symbols(self) -> int:
        """How many symbols there are: the answers, and one more for "no answer" if the question is optional."""
        return self.randomizer.symbols

    @property
    def mechanism(self) -> LocalMechanism:
        """The exact law of the reports, for the accountant: the randomizer's, beside the noise if there is any."""
        if self.noise is not None:
            return beside_noise(self.randomizer, self.noise)
        return self.randomizer.mechanism

    @property
    def report_bytes(self) -> int:
        """Length of a report, the same for every answer and device."""
        return self.randomizer.report_bytes

    @property
    def horizon(self) -> int | None:
        """How many rounds the promise covers together; None if each round is separate."""
        return self.randomizer.rounds if isinstance(self.randomizer, OverRounds) else None

    # On the device

    def encode_at(self, answer: Value, moment: RoundContext, random: Random) -> Encoded:
        """Return the symbol that encodes `answer` in a round, and the memory to keep for the next round.

        Raises:
            AnswerError: if it does not fit the question, or the round.
        """
        if self._over_rounds is not None:
            return self._over_rounds.encode_at(answer, self.question.encode, moment, random)
        if answer is not None and self._by_round is not None:
            return Encoded(self._by_round.encode_in(answer, moment.round, random))
        return Encoded(self.encode(answer, random))

    # Both are cached: a fleet uses them for each device, and an isinstance check of a protocol takes as long as a draw.

    @cached_property
    def _over_rounds(self) -> OverRounds | None:
        return self.randomizer if isinstance(self.randomizer, OverRounds) else None

    @cached_property
    def _by_round(self) -> ByRound | None:
        return self.question if isinstance(self.question, ByRound) else None

    def local_cost(self, answered: int) -> float:
        """Return the local ε of answering one more round after `answered` rounds, never below the truth.

        The sum over a device's rounds is their total cost. A value that is drawn once for all rounds is paid for with
        the first round; a value that is randomized again, in each round.
        """
        paid = paid_rounds(self.mechanism, answered + 1) - (paid_rounds(self.mechanism, answered) if answered else 0)
        return paid * self.mechanism.epsilon_local

    def encode(self, answer: Value, random: Random) -> int:
        """Return the symbol, in range(symbols), that encodes `answer`.

        Raises:
            AnswerError: if it does not fit the question.
        """
        if answer is not None:
            return self.question.encode(answer, random)
        if not self.question.optional:
            raise AnswerError(
                f"{self.name} has no answer and is not optional; give one (only the task can make a query optional)"
            )
        return self.question.answers  # the last symbol, after those of the answers

    def randomize(self, symbol: int, random: Random) -> bytes:
        """Return a new random report for a symbol."""
        return self.randomizer.randomize(symbol, random)

    @property
    def chain_noise(self) -> ChainNoise | None:
        """The noise of all shufflers together; None if the query has no noise."""
        return None if self.noise is None else ChainNoise(self.noise, self.shufflers)

    # At the shufflers

    @property
    def noise_range(self) -> tuple[int, int] | None:
        """The fewest and the most reports that one shuffler adds as noise; None if the query has no noise."""
        if self.noise is None:
            return None
        return beside_noise(self.randomizer, self.noise).dummies_range

    @property
    def expected_noise(self) -> int:
        """How many reports all shufflers together add to a batch on average; 0 without noise."""
        if self.noise is None:
            return 0
        return self.shufflers * beside_noise(self.randomizer, self.noise).expected_dummies

    def draw_noise(self, random: Random) -> tuple[int, ...]:
        """Return how many reports of each symbol a shuffler adds to a batch; none if the query has no noise.

        Each drawn number is an independent draw of the law from 128 random bits. If the total is fixed, one symbol gets
        the rest of it (`WithNoise.by_symbol`).
        """
        if self.noise is None:
            return ()
        law = beside_noise(self.randomizer, self.noise)
        return law.by_symbol([self.noise.value_at(draw(random, TABLE_BITS // 8)) for _ in range(law.draws)])

    # At the analyzer

    def debiased(self, tally: Tally, dummies: int) -> Debiased:
        """Return the debiased counts of a batch with that many dummies in it: the sum of all shufflers' noise, if any.

        Raises:
            ValueError: if the tally, or the number of dummies, cannot be this query's.
        """
        from hubbub.queries.estimation.debiased import Debiased

        return Debiased(self.randomizer, tally, dummies, self.chain_noise)

    def estimates(self, tally: Tally, dummies: int) -> Estimates:
        """Return the published estimates of a counted batch that has that many dummies in it.

        Raises:
            ValueError: if the tally cannot be this query's.
        """
        from hubbub.queries.estimation.bands import with_bands
        from hubbub.queries.estimation.significance import with_verdicts

        return with_bands(with_verdicts(self.question.estimates(self.debiased(tally, dummies))))

    def estimates_over(self, number: int, batches: Mapping[int, Batch]) -> Estimates:
        """Return the published estimates after round `number`, from the published batches of the rounds up to it.

        Raises:
            ValueError: if a tally cannot be this query's.
        """
        if isinstance(self.randomizer, OverRounds):
            from hubbub.queries.estimation.estimates import Estimates

            return Estimates(self.question.kind, self.randomizer.rows(number, batches, self.chain_noise))
        batch = batches[number]
        return self.estimates(batch.tally, batch.dummies)

    # In a task

    def content(self) -> dict[str, Any]:
        """Return the query as a member of a task's JSON."""
        over_rounds = isinstance(self.randomizer, OverRounds)
        content = self.randomizer.content() if over_rounds else task_content(self.randomizer)
        noise = {} if self.noise is None else {"noise": self.noise.content()}
        return self.question.content() | content | noise

    @classmethod
    def read(cls, table: str, content: dict[str, Any]) -> Query:
        """Read and check what `content` wrote. The caller finds unknown keys: it writes the query again and compares.

        Raises:
            FieldError: if a value is not allowed; it is named.
        """
        fields = Fields(table, content, planned=True)
        question = question_of(table, fields["kind"], planned=True).read(fields)
        question.check(table)
        if isinstance(question, Repeated):
            return cls._beside(fields, question, question.read_randomizer(fields))
        kind = randomizer_of(table, fields["mechanism"], "mechanism")
        return cls._beside(fields, question, kind.read(fields, symbols_of(question)))

    @classmethod
    def _beside(cls, fields: Fields, question: Question, randomizer: Randomizer) -> Query:
        """Return the query with the noise in its table, if there is any there."""
        if "noise" not in fields.content:
            return cls(question, randomizer)
        try:
            return cls(question, randomizer, NoiseLaw.read(fields["noise"]))
        except ValueError as error:  # an AccountingError
            raise FieldError(fields.table, "noise", f"cannot be added: {error}") from error


def read_question(table: str, content: dict[str, Any]) -> Question:
    """Read the question in a draft's table; the caller checks its values.

    Raises:
        FieldError: if its kind, its randomizer or a key is unknown, or a key is missing or of another type.
    """
    fields = Fields(table, content)
    question = question_of(table, fields.get("kind", None)).read(fields)
    if question.randomizer != AUTO:
        randomizer_of(table, question.randomizer, also=(AUTO,))
    return question
