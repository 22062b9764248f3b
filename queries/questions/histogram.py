"""The question how many people have each of the named categories."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.queries.errors import AnswerError, FieldError, shown
from hubbub.queries.estimation.estimates import Estimates, Row, Truth
from hubbub.queries.fields import (
    AUTO,
    DEFAULT_RANDOMIZER,
    MAXIMUM_LABEL_LENGTH,
    MAXIMUM_SYMBOLS,
    TYPICAL_SHARE,
    Fields,
    check_share,
    check_shared,
    is_printable,
)
from hubbub.queries.questions.question import Value, listed, symbols_of
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.sampling import Random

if TYPE_CHECKING:
    from hubbub.queries.estimation.debiased import Debiased
    from hubbub.queries.randomizers.randomizer import Vector


@dataclass(frozen=True)
class Histogram:
    """How many people have each of the named categories; `optional` if a device may have no answer.

    `share` is for planning only, and not in a task: planning minimizes the largest error of a category that up to that
    share of people have.
    """

    kind: ClassVar[str] = "histogram"
    column: ClassVar[type] = str

    name: str
    categories: tuple[str, ...]
    optional: bool = False
    weight: float = 1.0
    randomizer: str = DEFAULT_RANDOMIZER
    share: float = field(default=1.0, compare=False)

    @property
    def answers(self) -> int:
        """One symbol for each category, in their order."""
        return len(self.categories)

    @property
    def parts(self) -> tuple[Histogram, ...]:
        """The question itself: an answer has one part."""
        return (self,)

    @classmethod
    def read(cls, fields: Fields) -> Histogram:
        """Read a table; see `Question.read`."""
        fields.check_keys({"categories"}, {"share"})
        shared, categories = fields.shared(), fields.items("categories", "names")
        # Other randomizers are planned for the worst case. Hashed ones need the share: rare categories need many cells.
        sized = shared["randomizer"] in (AUTO, HashedResponse.kind)
        share = fields.number("share", _usual_share(len(categories)) if sized else 1.0)
        return cls(categories=categories, share=share, **shared)

    def check(self, table: str) -> None:
        """Check the shared fields, and that the categories are distinct printable texts and not too few or many."""
        check_shared(table, self.name, self.optional, self.weight)
        check_share(table, self.share)
        # One category is enough if "no answer" is the second symbol.
        least = 1 if self.optional else 2
        if not least <= len(self.categories) < MAXIMUM_SYMBOLS:
            limit = f"from {least} to {MAXIMUM_SYMBOLS - 1}"
            raise FieldError(table, "categories", f"has {len(self.categories)} names; give {limit} of them")
        seen: set[str] = set()
        for category in self.categories:
            _check_label(table, category)
            if category in seen:
                raise FieldError(table, "categories", f"has {category!r} twice; remove one")
            seen.add(category)

    def content(self) -> dict[str, Any]:
        """Return the members of a task's JSON."""
        return {
            "categories": list(self.categories),
            "kind": self.kind,
            "name": self.name,
            "optional": self.optional,
            "weight": self.weight,
        }

    def for_share(self, share: float) -> Self:
        return replace(self, share=share)

    def parse(self, text: str) -> Value:
        """Return the text itself: a category's name."""
        return text

    def encode(self, answer: Value, random: Random) -> int:  # noqa: ARG002 - numbers need it
        """Return the category's index; a text is compared in Unicode's composed form."""
        places = _places(self.categories)
        place = places.get(answer) if isinstance(answer, str) else None
        if place is None and isinstance(answer, str):
            place = places.get(unicodedata.normalize("NFC", answer))
        if not isinstance(answer, str):
            found = "missing" if answer is None else f"a {type(answer).__name__}"
            known = f"it must be a text, one of {listed(self.categories)}"
            raise AnswerError(f"the answer to {self.name} is {found}; {known}")
        if place is None:
            known = f"it must be one of {listed(self.categories)}"
            raise AnswerError(f"the answer to {self.name} is not one of its categories; {known}")
        return place

    def distinct_answers(self) -> tuple[Value, ...]:
        """Return the first categories."""
        return self.categories[:3]

    @property
    def sizes(self) -> range:
        """The only size: the number of its categories."""
        return range(self.answers, self.answers + 1)

    def sized(self, answers: int) -> Histogram:
        """Return the histogram itself: its encoding cannot be chosen."""
        if answers != self.answers:
            raise ValueError(f"a histogram of {self.answers} categories has no encoding into {answers}")
        return self

    @property
    def planned_for(self) -> str:
        """The statistic of the expected error."""
        return "one count" if self.share == 1 else f"one count of at most {self.share:.3g} of the people"

    @property
    def extent(self) -> float:
        """1: a report adds at most 1 to a count."""
        return 1.0

    def headline(self) -> Vector:
        """Return the weights of one count, the first category's: all categories have the same error."""
        import numpy as np

        weights = np.zeros(symbols_of(self))
        weights[0] = 1.0
        return weights

    def worst(self, variances: Vector) -> float:
        """Return the largest variance if up to `share` of people have a category, which is encoded without rounding."""
        # The headline is the first category; all other symbols have the same variance.
        hit, miss = float(variances[0]), float(variances[1])
        return max(miss, self.share * hit + (1 - self.share) * miss)

    def estimates(self, debiased: Debiased) -> Estimates:
        """Return a count for each category, with its consistent projection, and how many answered."""
        counts = debiased.every_symbol()[: self.answers]
        consistent = debiased.consistent()[: self.answers].tolist()
        values = debiased.p_values()[: self.answers].tolist()
        rows = [
            Row("count", count, category, projected, p_value=value)
            for category, count, projected, value in zip(self.categories, counts, consistent, values, strict=True)
        ]
        return Estimates(self.kind, (*rows, Row("answered", debiased.answered(self.answers))))

    def truth(self, answers: Iterable[Value]) -> Truth:
        """Count the answers by category."""
        found = Counter(answer for answer in answers if answer is not None)
        truth: dict[tuple[str, str | None], float] = {("answered", None): float(found.total())}
        truth.update({("count", category): float(found[category]) for category in self.categories})
        return truth


def _check_label(table: str, category: Any) -> None:
    if not isinstance(category, str) or not 0 < len(category) <= MAXIMUM_LABEL_LENGTH or not is_printable(category):
        limit = f"a text of 1 to {MAXIMUM_LABEL_LENGTH} printable characters"
        raise FieldError(table, "categories", f"has {shown(category)}; each name must be {limit}")
    # Two names that look the same must be the same.
    if category != category.strip() or not unicodedata.is_normalized("NFC", category):
        limit = "without spaces at its ends, and in Unicode's composed form (NFC)"
        raise FieldError(table, "categories", f"has {category!a}; write each name {limit}")


@lru_cache(maxsize=64)
def _places(categories: tuple[str, ...]) -> dict[str, int]:
    # Cached between answers, because a fleet encodes thousands for one question.
    return {category: place for place, category in enumerate(categories)}


def _usual_share(categories: int) -> float:
    """Return the share to plan for if a draft has none: the largest of k categories has at least 1/k of the people."""
    return max(TYPICAL_SHARE, 1 / max(categories, 1))
