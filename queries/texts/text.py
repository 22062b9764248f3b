"""The question which texts people have, if the task does not list them. Candidates are decoded afterwards.

A device encodes a text into 64 bits, by BLAKE2b of the query's name and the text in Unicode's composed form (NFC). The
analyzer publishes the table of reported cells. Readers can look up any texts in it, as often as they like: that is
post-processing of a release, and costs no privacy.

If no list of candidates is known, the question is asked by `prefixes`, lengths in bytes: round r asks for the first
`prefixes[r]` bytes of the text, and every later round for all of it. A text that is not longer is reported with an end
mark. The texts that stand out of one round's table are continued in the next one's (`queries.texts.heavy_hitters`).
Every device answers every round, and the task fixes what each round asks for. So rounds compose as for any question,
whether or not a person's text is the same in all of them.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.queries.errors import AnswerError, FieldError, shown
from hubbub.queries.estimation.estimates import BEGINNING, Estimates, Row, Truth
from hubbub.queries.fields import AUTO, TYPICAL_SHARE, Fields, check_share, check_shared
from hubbub.queries.questions.question import Value
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.sampling import Random
from hubbub.queries.texts.prefixes import Digests, Prefix, read_prefixes

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms.noise_law import ChainNoise
    from hubbub.queries.estimation.debiased import Debiased
    from hubbub.queries.randomizers.randomizer import Randomizer, Vector
    from hubbub.queries.texts.alphabet import Alphabet
    from hubbub.queries.texts.heavy_hitters import PrefixStep

RANDOMIZERS = (HashedResponse.kind, AUTO)
"""The randomizers that a text may name; `auto` makes planning choose the first."""

MAXIMUM_TEXT_LENGTH = 10_000
"""Most characters of an answer: far more than a text that many people have in common."""

DIGESTS = 2**64 - 1
"""The number of digests of texts; one further number is left for "no answer"."""


@dataclass(frozen=True)
class Text:
    """Which texts people have; `optional` if a device may have no answer.

    `share` is for planning only, and not in a task: planning minimizes the largest error of a text that up to that
    share of people have. `prefixes` are the lengths in bytes of the beginnings that the first rounds ask for; empty if
    every round asks for whole texts.
    """

    kind: ClassVar[str] = "text"
    column: ClassVar[type] = str

    name: str
    optional: bool = False
    weight: float = 1.0
    randomizer: str = HashedResponse.kind
    share: float = field(default=TYPICAL_SHARE, compare=False)
    prefixes: tuple[int, ...] = ()

    @property
    def answers(self) -> int:
        """One symbol for each digest."""
        return DIGESTS

    @property
    def parts(self) -> tuple[Text, ...]:
        """An answer answers this question alone."""
        return (self,)

    @classmethod
    def read(cls, fields: Fields) -> Text:
        """Read a table; see `Question.read`."""
        fields.check_keys(set(), {"share", "prefixes"})
        shared = fields.shared(HashedResponse.kind)
        given = fields["prefixes"] if fields.planned else fields.get("prefixes", None)
        # A draft leaves them out, a task has an empty list.
        none = given == [] if fields.planned else "prefixes" not in fields.content
        lengths = () if none else read_prefixes(fields.table, given)
        return cls(**shared, prefixes=lengths, share=fields.number("share", TYPICAL_SHARE))

    def check(self, table: str) -> None:
        """Check the shared fields, the share, and that the randomizer takes any text."""
        check_shared(table, self.name, self.optional, self.weight)
        check_share(table, self.share)
        if self.randomizer not in RANDOMIZERS:
            limit = "a text needs one that takes any number of symbols: leave it out, or use 'hashed'"
            raise FieldError(table, "randomizer", f"is {shown(self.randomizer)}; {limit}")

    def check_rounds(self, table: str, rounds: int) -> None:  # noqa: ARG002 - the rounds are the task's
        """Check that after the rounds for its prefixes there is one that asks for whole texts.

        Raises:
            FieldError: if there is none.
        """
        if self.prefixes and rounds <= len(self.prefixes):
            needed = f"{self.name} takes one for each of its {len(self.prefixes)} prefixes and one for whole texts"
            remedy = f"set at least {len(self.prefixes) + 1}, or fewer prefixes"
            raise FieldError("task", "rounds", f"is {rounds}; {needed}: {remedy}")

    def content(self) -> dict[str, Any]:
        """Return the members of a task's JSON."""
        return {
            "kind": self.kind,
            "name": self.name,
            "optional": self.optional,
            "prefixes": list(self.prefixes),
            "weight": self.weight,
        }

    def for_share(self, share: float) -> Self:
        return replace(self, share=share)

    def parse(self, text: str) -> Value:
        """Return the text itself."""
        return text

    def encode(self, answer: Value, random: Random) -> int:  # noqa: ARG002 - numbers need it
        """Return the whole text's digest."""
        return self.digest(self._checked(answer))

    def encode_in(self, answer: Value, number: int, random: Random) -> int:  # noqa: ARG002 - numbers need it
        """Return the digest of the text, or of the beginning that round `number` asks for."""
        return self.symbol(self.said(answer, number), number)

    def length_in(self, number: int) -> int | None:
        """Return how many bytes of the text round `number` asks for; None if it asks for all of it."""
        return self.prefixes[number] if number < len(self.prefixes) else None

    def said(self, answer: Value, number: int) -> Prefix:
        """Return the part of an answer that round `number` asks for.

        Raises:
            AnswerError: if the answer is not a text, too long, or cannot be written in UTF-8.
        """
        return self._written(self._checked(answer), self.length_in(number))

    def symbol(self, said: Prefix, number: int) -> int:
        """Return the number in range(`DIGESTS`) that encodes a beginning, or a text, in round `number`."""
        return self._number(said, self.length_in(number))

    def _number(self, said: Prefix, length: int | None) -> int:
        digest = Digests.at(self.name, length).joined(said.content, (b"",), said.ended)
        return int.from_bytes(digest, "little") % DIGESTS

    def _checked(self, answer: Value) -> str:
        if not isinstance(answer, str):
            raise AnswerError(f"the answer to {self.name} is a {type(answer).__name__}; it must be a text")
        if not 0 < len(answer) <= MAXIMUM_TEXT_LENGTH:
            limit = f"it takes a text of 1 to {MAXIMUM_TEXT_LENGTH}"
            raise AnswerError(f"the answer to {self.name} has {len(answer)} characters; {limit}")
        return answer

    def digest(self, text: str) -> int:
        """Return the number in range(`DIGESTS`) that encodes a text.

        Raises:
            AnswerError: if it cannot be written in UTF-8.
        """
        return self._number(self._written(text, None), None)

    def _written(self, text: str, length: int | None) -> Prefix:
        try:
            return Prefix.of(text, length)
        except UnicodeEncodeError as error:
            raise AnswerError(f"the answer to {self.name} cannot be written in UTF-8; give whole characters") from error

    def distinct_answers(self) -> tuple[Value, ...]:
        """Return three texts."""
        return ("one", "two", "three")

    @property
    def sizes(self) -> range:
        """The one size there is."""
        return range(DIGESTS, DIGESTS + 1)

    def sized(self, answers: int) -> Text:
        """Return the text itself: its encoding cannot be chosen."""
        if answers != DIGESTS:
            raise ValueError(f"a text has no encoding into {answers}")
        return self

    @property
    def planned_for(self) -> str:
        """The statistic of the expected error."""
        return f"one text that at most {self.share:.3g} of the people have"

    @property
    def extent(self) -> float:
        """1: a report adds at most 1 to a count."""
        return 1.0

    def headline(self) -> Vector:
        """Return the weights of one text's count: for that text, and for any other, because all others are alike."""
        import numpy as np

        return np.array([1.0, 0.0])

    def worst(self, variances: Vector) -> float:
        """Return the largest variance if up to `share` of people have the text."""
        hit, miss = float(variances[0]), float(variances[1])
        return max(miss, self.share * hit + (1 - self.share) * miss)

    def estimates(self, debiased: Debiased) -> Estimates:
        """Return how many answered, and the table that texts are looked up in."""
        from hubbub.queries.texts.lookup import answered, packed

        return Estimates(self.kind, (Row("answered", answered(self, debiased)),), table=packed(debiased.tally))

    def decode(self, debiased: Debiased, candidates: Sequence[str], number: int = 0) -> Estimates:
        """Look candidates up in the table of round `number`; return the counts of those that stand out, largest first.

        The part of each candidate that the round asked for, a beginning or the text, is looked up once. Among the
        returned ones, the expected share that nobody has is at most `lookup.FALSE_DISCOVERIES`.

        Raises:
            AnswerError: if a candidate cannot be a text.
        """
        from hubbub.queries.texts.lookup import look_up

        return look_up(self, debiased, candidates, number)

    def discover(
        self, number: int, batches: Mapping[int, Debiased], alphabet: Alphabet | None, say: Callable[[str], None]
    ) -> Estimates:
        """Find frequent texts, from the batches of the rounds up to `number`; see `heavy_hitters.find_heavy_hitters`.

        Raises:
            ValueError: if the question has no prefixes, or they are too far apart to be continued.
        """
        from hubbub.queries.texts.heavy_hitters import find_heavy_hitters

        return find_heavy_hitters(self, number, batches, alphabet, say)

    def steps(
        self, randomizer: Randomizer, people: int, dummies: int, noise: ChainNoise | None = None
    ) -> tuple[PrefixStep, ...]:
        """Return the work to decode each round, and the counts that stand out of it; empty without prefixes."""
        from hubbub.queries.texts.heavy_hitters import steps_of

        return steps_of(self, randomizer, people, dummies, noise)

    def truth(self, answers: Iterable[Value]) -> Truth:
        """Count the answers by text, and by each beginning that a round asks for."""
        found = Counter(str(answer) for answer in answers if answer is not None)
        truth: Counter[tuple[str, str | None]] = Counter({("answered", None): found.total()})
        for text, people in found.items():
            truth["count", unicodedata.normalize("NFC", text)] += people
            for number, length in enumerate(self.prefixes):
                said = self._written(text, length)
                if not said.ended:
                    truth[Row(BEGINNING, None, said.label, at=number).key] += people
        return {key: float(people) for key, people in truth.items()}
