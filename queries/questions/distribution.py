"""The question how a number is distributed over buckets, with its cumulative distribution and quantiles.

With c_j people in bucket j and A who answered, F(e) = (Σ_{j up to e} c_j)/A is the share of people whose number is at
most e. Its estimate is F̂(e) = (Σ ĉ_j)/Â. If everybody answers, it is linear in the debiased counts, and so unbiased. It
may be below 0, above 1 or fall, and its interval is that of a count. If some do not answer, F̂ is a ratio, which is
biased where few do. It is moved into 0 … 1, and has Fieller's interval (`ratios`). Its standard error is that of
Σ ĉ_j − F̂(e)·Â, divided by Â (the delta method; Â is n if everybody answers). The consistent version, published with it,
rises from 0 to 1, and is biased.

A quantile has an interval and no standard error. The interval is the inversion of a band that covers F at all inner
edges at once with a probability of at least 95 % (`simultaneous`). So all quantiles' intervals cover at once with that
probability, for any distribution within a bucket. Its ends are edges, so it is at least as wide as a bucket.
The point estimate is read from the consistent F, linear within a bucket: it is as accurate as the assumption that
people are spread evenly there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from hubbub.queries.errors import FieldError, shown
from hubbub.queries.estimation.bands import CDF, QUANTILE, interpolated, invert, rate_of, within
from hubbub.queries.estimation.estimates import Estimate, Estimates, Row, Truth
from hubbub.queries.fields import DEFAULT_RANDOMIZER, MAXIMUM_SYMBOLS, Fields, as_float, check_shared, is_finite_number
from hubbub.queries.questions.number import LARGEST_BOUND
from hubbub.queries.questions.number_answers import check_unit, finite, numbers_of, parsed
from hubbub.queries.questions.question import Value, symbols_of
from hubbub.queries.randomizers.sampling import Random

if TYPE_CHECKING:
    from hubbub.queries.estimation.debiased import Debiased
    from hubbub.queries.randomizers.randomizer import Vector

QUARTILES = (0.25, 0.5, 0.75)
"""The quantiles that are estimated if a draft names none."""

MOST_QUANTILES = 100
"""Most quantiles of one question."""


@dataclass(frozen=True)
class Distribution:
    """How many people have a number in each bucket, F at every inner edge, and the quantiles, of a number in `unit`.

    Of `edges` e_0 < … < e_K the buckets are: up to e_1, above e_1 up to e_2, …, above e_{K−1}. A number below e_0 or
    above e_K is clipped to it, which changes no count and no F at an inner edge.
    """

    kind: ClassVar[str] = "distribution"
    column: ClassVar[type] = float

    name: str
    edges: tuple[float, ...]
    quantiles: tuple[float, ...] = QUARTILES
    unit: str = ""
    optional: bool = False
    weight: float = 1.0
    randomizer: str = DEFAULT_RANDOMIZER

    @property
    def answers(self) -> int:
        """One symbol for each bucket, in their order."""
        return len(self.edges) - 1

    @property
    def _inner(self) -> tuple[float, ...]:
        return self.edges[1:-1]

    @property
    def categories(self) -> tuple[str, ...]:
        """The buckets' names."""
        first, last = self._inner[0], self._inner[-1]
        middle = (f"({_written(low)}, {_written(high)}]" for low, high in pairwise(self._inner))
        return (f"≤ {_written(first)}", *middle, f"> {_written(last)}")

    @property
    def parts(self) -> tuple[Distribution, ...]:
        """The question itself: an answer has one part."""
        return (self,)

    @classmethod
    def read(cls, fields: Fields) -> Distribution:
        """Read a table; see `Question.read`. A frozen task names its quantiles."""
        fields.check_keys({"edges"}, {"quantiles", "unit"})
        edges = tuple(as_float(fields.table, "edges", edge) for edge in fields.items("edges", "numbers"))
        quantiles: tuple[float, ...] = QUARTILES
        if fields.planned or "quantiles" in fields.content:
            listed = fields.items("quantiles", "probabilities")
            quantiles = tuple(as_float(fields.table, "quantiles", each) for each in listed)
        return cls(edges=edges, quantiles=quantiles, unit=fields.get("unit", ""), **fields.shared())

    def check(self, table: str) -> None:
        """Check the shared fields, that the edges rise and are enough, and that the quantiles rise within (0, 1)."""
        check_shared(table, self.name, self.optional, self.weight)
        check_unit(table, self.unit)
        if not 3 <= len(self.edges) < MAXIMUM_SYMBOLS:
            limit = f"from 3 to {MAXIMUM_SYMBOLS - 1}, the ends included"
            raise FieldError(
                table, "edges", f"has {len(self.edges)} numbers; give {limit}: there must be two buckets or more"
            )
        for edge in self.edges:
            if not is_finite_number(edge) or abs(edge) > LARGEST_BOUND:
                raise FieldError(table, "edges", f"has {shown(edge)}; each must be a number from -1e300 to 1e300")
        _check_rising(table, "edges", self.edges)
        if len(self.quantiles) > MOST_QUANTILES or not all(0 < each < 1 for each in self.quantiles):
            limit = f"at most {MOST_QUANTILES} probabilities above 0 and below 1, such as 0.5 for the median"
            raise FieldError(table, "quantiles", f"is {shown(list(self.quantiles))}; give {limit}")
        _check_rising(table, "quantiles", self.quantiles)

    def content(self) -> dict[str, Any]:
        """Return the members of a task's JSON."""
        return {
            "edges": list(self.edges),
            "kind": self.kind,
            "name": self.name,
            "optional": self.optional,
            "quantiles": list(self.quantiles),
            "unit": self.unit,
            "weight": self.weight,
        }

    def parse(self, text: str) -> Value:
        """Return a number."""
        return parsed(self.name, text)

    def encode(self, answer: Value, random: Random) -> int:  # noqa: ARG002 - numbers in steps need it
        """Return the bucket's index."""
        # Python compares whole numbers and floats exactly.
        return bisect_left(self._inner, finite(self.name, answer))

    def distinct_answers(self) -> tuple[Value, ...]:
        """Return the upper edges of the first buckets, which belong to them."""
        return self.edges[1:4]

    @property
    def sizes(self) -> range:
        """The only size: the number of its buckets."""
        return range(self.answers, self.answers + 1)

    def sized(self, answers: int) -> Distribution:
        """Return the distribution itself: its encoding cannot be chosen."""
        if answers != self.answers:
            raise ValueError(f"a distribution over {self.answers} buckets has no encoding into {answers}")
        return self

    @property
    def _middle(self) -> int:
        """How many buckets are up to the middle inner edge."""
        return self.answers // 2

    @property
    def planned_for(self) -> str:
        """The statistic of the expected error."""
        return f"the number of people up to the middle edge, {_written(self.edges[self._middle])}"

    @property
    def extent(self) -> float:
        """1: a report adds at most 1 to a number of people."""
        return 1.0

    def headline(self) -> Vector:
        """Return the weights of the number of people up to the middle edge."""
        import numpy as np

        return (np.arange(symbols_of(self)) < self._middle).astype(np.float64)

    def worst(self, variances: Vector) -> float:
        """Return the largest variance: a bucket is encoded without rounding, so nothing is added."""
        return float(variances.max())

    def estimates(self, debiased: Debiased) -> Estimates:
        """Return each bucket's count, how many answered, F at every inner edge, and the quantiles."""
        answered = debiased.answered(self.answers)
        consistent = debiased.consistent()[: self.answers].tolist()
        counted = zip(self.categories, debiased.every_symbol(), consistent, debiased.p_values().tolist(), strict=False)
        rows = [Row("count", count, name, projected, p_value=value) for name, count, projected, value in counted]
        shares = _shares(consistent)
        function = [self._share(debiased, place + 1) for place in range(len(self._inner))]
        for place, (edge, share) in enumerate(zip(self._inner, function, strict=True)):
            rows.append(Row(CDF, share, consistent=shares[place + 1] if shares else None, at=edge))
        rows += [
            Row(QUANTILE, self._quantile(function, shares, probability), unit=self.unit, at=probability)
            for probability in self.quantiles
        ]
        rows.append(Row("answered", answered))
        return Estimates(self.kind, tuple(rows), self.unit, (self.edges[0], self.edges[-1]))

    def _share(self, debiased: Debiased, buckets: int) -> Estimate | None:
        """Return F at the edge after so many buckets; None if the estimated number of answers is not positive."""
        import numpy as np

        below = (np.arange(symbols_of(self)) < buckets).astype(np.float64)
        answered = debiased.answered(self.answers)
        if answered.interval is None and answered.value > 0:
            return debiased.count_of(below).mapped(0.0, 1 / answered.value)
        return debiased.ratio(below, self.answers, (0.0, 1.0))

    def _quantile(self, function: list[Estimate | None], shares: list[float], probability: float) -> Estimate | None:
        known = [each.interval for each in function if each is not None and each.interval is not None]
        if not shares or len(known) < len(function):
            return None
        ends = invert(self.edges, [interval(rate_of(len(known))) for interval in known], probability)
        return within(interpolated(self.edges, shares, probability), ends)

    def truth(self, answers: Iterable[Value]) -> Truth:
        """Return the true counts by bucket and shares up to each edge, and the quantiles of the clipped numbers."""
        numbers = sorted(min(max(number, self.edges[0]), self.edges[-1]) for number in numbers_of(answers))
        found = Counter(bisect_left(self._inner, number) for number in numbers)
        truth: dict[tuple[str, str | None], float] = {("answered", None): float(len(numbers))}
        truth |= {Row("count", None, name).key: float(found[place]) for place, name in enumerate(self.categories)}
        if not numbers:
            return truth
        for place, edge in enumerate(self._inner):
            truth[Row(CDF, None, at=edge).key] = sum(found[each] for each in range(place + 1)) / len(numbers)
        for probability in self.quantiles:
            ranks = (rank for rank in range(len(numbers)) if (rank + 1) / len(numbers) >= probability)
            truth[Row(QUANTILE, None, at=probability).key] = numbers[next(ranks)]
        return truth


def _shares(counts: list[float]) -> list[float]:
    """Return counts that are not negative as shares up to each edge, from 0 to 1; an empty list if all are 0."""
    total = sum(counts)
    if total <= 0:
        return []
    return [min(sum(counts[:place]) / total, 1.0) for place in range(len(counts))] + [1.0]


def _written(number: float) -> str:
    return repr(number).removesuffix(".0")


def _check_rising(table: str, key: str, numbers: tuple[float, ...]) -> None:
    for low, high in pairwise(numbers):
        if not low < high:
            raise FieldError(table, key, f"has {low:g} before {high:g}; write them in rising order, each once")
