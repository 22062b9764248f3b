"""The question how many people have each of the named categories."""

from __future__ import annotations

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
)
from hubbub.queries.questions.question import Value, listed, symbols_of
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.sampling import Random

if TYPE_CHECKING:
    from hubbub.queries.estimation.debiased import Debiased
    from hubbub.queries.randomizers.randomizer import Vector


@dataclass(frozen=True)
class Histogram:
    """How many hold each of the named categories; `optional` where a device may have no answer.

    `share` is for planning, and not in a task: what is made smallest is the largest error of a category that up to that
    share of people hold.
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
        """An answer answers this question alone."""
        return (self,)

    @classmethod
    def read(cls, fields: Fields) -> Histogram:
        """Read a table; see `Question.read`."""
        fields.check_keys({"categories"}, {"share"})
        shared, categories = fields.shared(), fields.items("categories", "names")
        # Where there is only one kind of randomizer to size, the worst case tells it; many cells serve rare categories.
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
        """Return the category's place."""
        place = _places(self.categories).get(answer) if isinstance(answer, str) else None
        if place is None:
            known = f"it must be one of {listed(self.categories)}"
            raise AnswerError(f"the answer to {self.name} is not one of its categories; {known}")
        return place

    def distinct_answers(self) -> tuple[Value, ...]:
        """Return the first categories."""
        return self.categories[:3]

    @property
    def sizes(self) -> range:
        """The one size there is: the number of its categories."""
        return range(self.answers, self.answers + 1)

    def sized(self, answers: int) -> Histogram:
        """Return the histogram itself: its encoding cannot be chosen."""
        if answers != self.answers:
            raise ValueError(f"a histogram of {self.answers} categories has no encoding into {answers}")
        return self

    @property
    def planned_for(self) -> str:
        """What the expected error is of."""
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
        """Return the largest where up to `share` of people hold a category: it is encoded without rounding."""
        # All categories but the headline's, the first, are alike to it.
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
    if not isinstance(category, str) or not 0 < len(category) <= MAXIMUM_LABEL_LENGTH or not category.isprintable():
        limit = f"a text of 1 to {MAXIMUM_LABEL_LENGTH} printable characters"
        raise FieldError(table, "categories", f"has {shown(category)}; each name must be {limit}")


@lru_cache(maxsize=64)
def _places(categories: tuple[str, ...]) -> dict[str, int]:
    # Kept between answers: a fleet encodes thousands for one question.
    return {category: place for place, category in enumerate(categories)}


def _usual_share(categories: int) -> float:
    """Return the share of people to plan for where a draft does not say it: of k categories one holds 1/k at least."""
    return max(TYPICAL_SHARE, 1 / max(categories, 1))
