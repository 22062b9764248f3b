"""Text: the question which texts people hold, where the task does not list them. Candidates are decoded afterwards.

A device encodes a text into 64 bits, by BLAKE2b of the query's name and the text in Unicode's composed form (NFC). What
the analyzer publishes is the table of reported cells; whoever has it looks up any texts in it, as often as they like:
that is post-processing of what was released, and costs no privacy.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from hubbub.queries.draws import Random
from hubbub.queries.errors import AnswerError, FieldError, shown
from hubbub.queries.fields import AUTO, TYPICAL_SHARE, Fields, check_share, check_shared
from hubbub.queries.hashed import HashedResponse
from hubbub.queries.question import Value
from hubbub.queries.rows import Estimates, Row, Truth

if TYPE_CHECKING:
    from hubbub.queries.debiased import Debiased
    from hubbub.queries.randomizer import Vector

RANDOMIZERS = (HashedResponse.kind, AUTO)
"""What a text can be asked through; with `auto` planning finds that it is the first."""

MAXIMUM_TEXT_LENGTH = 10_000
"""Characters of an answer: far more than what many people hold alike."""

DIGESTS = 2**64 - 1
"""How many texts' digests there are; one number more is left for "no answer"."""


@dataclass(frozen=True)
class Text:
    """Which texts people hold; `optional` where a device may have no answer.

    `share` is for planning, and not in a task: the largest error of a text that up to that share of people hold is made
    smallest.
    """

    kind: ClassVar[str] = "text"
    column: ClassVar[type] = str

    name: str
    optional: bool = False
    weight: float = 1.0
    randomizer: str = HashedResponse.kind
    share: float = field(default=TYPICAL_SHARE, compare=False)

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
        fields.check_keys(set(), {"share"})
        shared = fields.shared(HashedResponse.kind)
        return cls(**shared, share=fields.number("share", TYPICAL_SHARE))

    def check(self, table: str) -> None:
        """Check the shared fields, the share, and that the randomizer takes any text."""
        check_shared(table, self.name, self.optional, self.weight)
        check_share(table, self.share)
        if self.randomizer not in RANDOMIZERS:
            limit = "a text needs one that takes any number of symbols: leave it out, or use 'hashed'"
            raise FieldError(table, "randomizer", f"is {shown(self.randomizer)}; {limit}")

    def content(self) -> dict[str, Any]:
        """Return the members of a task's JSON."""
        return {"kind": self.kind, "name": self.name, "optional": self.optional, "weight": self.weight}

    def parse(self, text: str) -> Value:
        """Return the text itself."""
        return text

    def encode(self, answer: Value, random: Random) -> int:  # noqa: ARG002 - numbers need it
        """Return the text's digest."""
        if not isinstance(answer, str):
            raise AnswerError(f"the answer to {self.name} is a {type(answer).__name__}; it takes a text")
        if not 0 < len(answer) <= MAXIMUM_TEXT_LENGTH:
            limit = f"it takes a text of 1 to {MAXIMUM_TEXT_LENGTH}"
            raise AnswerError(f"the answer to {self.name} has {len(answer)} characters; {limit}")
        return self.digest(answer)

    def digest(self, text: str) -> int:
        """Return the number in range(`DIGESTS`) that stands for a text.

        Raises:
            AnswerError: where it cannot be written in UTF-8.
        """
        try:
            written = f"{self.name}\0{unicodedata.normalize('NFC', text)}".encode()
        except UnicodeEncodeError as error:
            raise AnswerError(f"the answer to {self.name} cannot be written in UTF-8; give whole characters") from error
        hashed = hashlib.blake2b(written, digest_size=8, person=b"hubbub-text-1").digest()
        return int.from_bytes(hashed, "little") % DIGESTS

    def telling(self) -> tuple[Value, ...]:
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
        """What the expected error is of."""
        return f"one text that at most {self.share:.3g} of the people hold"

    @property
    def extent(self) -> float:
        """1: a report adds at most 1 to a count."""
        return 1.0

    def headline(self) -> Vector:
        """Return the weights of one text's count: that text, and one that stands for all others, which are alike."""
        import numpy as np

        return np.array([1.0, 0.0])

    def worst(self, variances: Vector) -> float:
        """Return the largest variance where up to `share` of people hold the text."""
        hit, miss = float(variances[0]), float(variances[1])
        return max(miss, self.share * hit + (1 - self.share) * miss)

    def estimates(self, debiased: Debiased) -> Estimates:
        """Return how many answered, and the table that texts are looked up in."""
        from hubbub.queries.lookup import answered, packed

        return Estimates(self.kind, (Row("answered", answered(self, debiased)),), table=packed(debiased.tally))

    def decode(self, debiased: Debiased, candidates: Sequence[str]) -> Estimates:
        """Look candidates up in a batch's table; return the counts of those that stand out, largest first.

        A candidate that is there twice is looked up once. Of those returned a share of at most
        `lookup.FALSE_DISCOVERIES` is expected to be held by nobody.

        Raises:
            AnswerError: where a candidate cannot be a text.
        """
        from hubbub.queries.lookup import look_up

        return look_up(self, debiased, candidates)

    def truth(self, answers: Iterable[Value]) -> Truth:
        """Count the answers by text."""
        found = Counter(answer for answer in answers if answer is not None)
        truth: dict[tuple[str, str | None], float] = {("answered", None): float(found.total())}
        truth.update({("count", unicodedata.normalize("NFC", str(text))): float(n) for text, n in found.items()})
        return truth
