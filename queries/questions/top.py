"""The question which of many named categories anybody has, and how many people; most categories may be empty.

Only categories that are significantly different from zero are published, largest first. Each has the exact p-value of
its count if nobody has the category (`significance`). Benjamini and Yekutieli's procedure selects: of m categories with
p-values in order, the first i for the last i with p_(i) ≤ i·q/(m·(1 + 1/2 + … + 1/m)). On average a share of at most q
of the published ones, the `false_discovery_rate`, is empty, under any dependence of the counts.

A category that is published because its count is large has noise in its favor: such counts are too high on average, and
small ones most. So their intervals are those of a band over all m categories: whichever are selected, all intervals
cover at once with a probability of 95 %.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from hubbub.queries.errors import FieldError, shown
from hubbub.queries.estimation.bands import in_band, rate_of
from hubbub.queries.estimation.estimates import Estimate, Estimates, Row
from hubbub.queries.fields import Fields, is_finite_number
from hubbub.queries.questions.histogram import Histogram

if TYPE_CHECKING:
    from hubbub.queries.estimation.debiased import Debiased

USUAL_RATE = 0.05
"""The false-discovery rate if a draft names none."""


@dataclass(frozen=True)
class Top(Histogram):
    """Which of the named categories anybody has, and how many people; `false_discovery_rate` is q."""

    kind: ClassVar[str] = "top"

    false_discovery_rate: float = USUAL_RATE

    @classmethod
    def read(cls, fields: Fields) -> Top:
        """Read a table; see `Question.read`. A frozen task names its rate."""
        fields.check_keys({"categories"}, {"false_discovery_rate"})
        rate = fields.number("false_discovery_rate", None if fields.planned else USUAL_RATE)
        return cls(categories=fields.items("categories", "names"), false_discovery_rate=rate, **fields.shared())

    def check(self, table: str) -> None:
        """Check the fields of a histogram, and the rate."""
        super().check(table)
        rate = self.false_discovery_rate
        if not is_finite_number(rate) or not 0 < rate <= 0.5:
            limit = "it must be above 0 and at most 0.5; 0.05 is usual"
            raise FieldError(table, "false_discovery_rate", f"is {shown(rate)}; {limit}")

    def content(self) -> dict[str, Any]:
        """Return the members of a task's JSON."""
        return {**super().content(), "false_discovery_rate": self.false_discovery_rate}

    def sized(self, answers: int) -> Top:
        """Return the question itself: its encoding cannot be chosen."""
        super().sized(answers)
        return self

    def estimates(self, debiased: Debiased) -> Estimates:
        """Return the significant categories with their counts, largest first, and how many answered."""
        from hubbub.queries.estimation.significance import discovered

        values = debiased.p_values()[: self.answers]
        counts, consistent = debiased.every_symbol(), debiased.consistent()
        answered = debiased.answered(self.answers)
        rate = rate_of(self.answers + (answered.interval is not None))
        found = sorted(discovered(values, self.false_discovery_rate), key=lambda place: -counts[place].value)
        rows = [
            Row(
                "count",
                _selected(counts[place], rate),
                self.categories[place],
                float(consistent[place]),
                p_value=float(values[place]),
                significant=True,
            )
            for place in found
        ]
        note = (
            f"{len(found)} of {self.answers} categories are significantly different from zero; on average at most "
            f"{self.false_discovery_rate:g} of those found have nobody; their counts are too high on average, "
            "and the intervals are valid for all categories at once"
        )
        return Estimates(self.kind, (*rows, Row("answered", in_band(answered, rate))), notes=(note,))


def _selected(estimate: Estimate, rate: float) -> Estimate:
    """Return an estimate with its interval of the band in place of its own."""
    banded = in_band(estimate, rate)
    lower, upper = banded.simultaneous or (banded.lower, banded.upper)
    return replace(banded, lower=lower, upper=upper)
