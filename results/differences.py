"""Compares published numbers: differences with their errors, and intervals that hold at once.

What is random in an estimate is the noise that privacy put on it: people's answers are as they are. So two estimates
are independent if no report and no noise is behind both. Where some are, the covariance decides, and for most
statistics it is not known. Then the standard error of the difference is at most the sum of both (Cauchy and Schwarz),
and the ends of two intervals that each miss half as often bound it (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hubbub.protos.errors import UsageError
from hubbub.protos.records.counts import Counted, read_certified
from hubbub.protos.records.results import RoundResults
from hubbub.queries.estimation.bands import half_width, near_half_width, rate_of
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.randomizers.randomizer import Tally
from hubbub.results.intervals import halves
from hubbub.results.published_row import PublishedRow

if TYPE_CHECKING:
    from hubbub.protos.task.task import Task
    from hubbub.queries.estimation.debiased import Debiased

Method = Literal["covariance", "independent", "bound"]
Rounds = Mapping[tuple[str, int], RoundResults]
"""The results behind rows, by the id of the task (hex) and the round."""


@dataclass(frozen=True)
class Difference:
    """One number less another, with the error of the difference.

    Attributes:
        a: the row that is subtracted from.
        b: the row that is subtracted.
        value: a − b, in the unit of both.
        standard_error: the standard deviation of the noise on it; None if a or b has none.
        lower, upper: its 95 % interval.
        simultaneous_lower, simultaneous_upper: an interval of all differences that were made together: all of them
            hold at once with a probability of 95 %.
        method: how the error follows. "covariance": both are counts of one histogram, whose covariance is known.
            "independent": no report is behind both. "bound": reports are behind both, and the error is at most this.
    """

    a: PublishedRow
    b: PublishedRow
    value: float
    standard_error: float | None
    lower: float
    upper: float
    simultaneous_lower: float
    simultaneous_upper: float
    method: Method

    @property
    def significant(self) -> bool:
        """Whether the simultaneous interval excludes 0: at most 5 % of sets of comparisons err in any such claim."""
        return not self.simultaneous_lower <= 0 <= self.simultaneous_upper


def differences(rounds: Rounds, pairs: Sequence[tuple[PublishedRow, PublishedRow]]) -> tuple[Difference, ...]:
    """Return a − b of each pair; their simultaneous intervals hold at once with a probability of 95 %.

    Raises:
        UsageError: if a row has no number, is compared with itself, or two have different units.
    """
    return _differences(pairs, lambda a, b: _method(rounds, a, b))


def differences_of_rounds(task: Task, a: Iterable[PublishedRow], b: Iterable[PublishedRow]) -> tuple[Difference, ...]:
    """Return the differences of two rounds of a task, a − b, of all that both have: what `compare_all` returns of them.

    Raises:
        UsageError: as `matched` and `differences`; also if the rows are of one round.
    """
    return _differences(matched(a, b), lambda a, b: (_of_rounds(task, a, b), None))


def _differences(
    pairs: Sequence[tuple[PublishedRow, PublishedRow]],
    method_of: Callable[[PublishedRow, PublishedRow], tuple[Method, tuple[float, float] | None]],
) -> tuple[Difference, ...]:
    usual, rate = rate_of(1), rate_of(len(pairs))
    found = []
    for a, b in pairs:
        _check(a, b)
        value = (a.estimate or 0.0) - (b.estimate or 0.0)
        method, known = method_of(a, b)
        error = known[0] if known is not None else _error(a, b, method)
        ends = []
        for each in (usual, rate):
            below, above = _halves(a, b, each, method) if known is None else _near(known, each)
            ends += [value - below, value + above]
        found.append(Difference(a, b, value, error, ends[0], ends[1], ends[2], ends[3], method))
    return tuple(found)


def covariance_error(debiased: Debiased, a: int, b: int) -> tuple[float, float]:
    """Return the standard error of ĉ_a − ĉ_b, and by how much one report can move it (`Debiased.reach`).

    The variance is that of the weighted sum with +1 at a and −1 at b, estimated from the counts: each person's report
    has the variance of its part, which includes that a report that counts for one symbol counts less for the other.
    """
    import numpy as np

    weights = np.zeros(debiased.randomizer.symbols)
    weights[[a, b]] = 1.0, -1.0
    return math.sqrt(debiased.variance(weights)), debiased.reach(weights)


def _near(known: tuple[float, float], rate: float) -> tuple[float, float]:
    error, reach = known
    half = near_half_width(half_width(rate), error, reach)
    return half, half


def _error(a: PublishedRow, b: PublishedRow, method: Method) -> float | None:
    if a.standard_error is None or b.standard_error is None:
        return None
    if method == "independent":
        return math.hypot(a.standard_error, b.standard_error)
    return a.standard_error + b.standard_error


def _halves(a: PublishedRow, b: PublishedRow, rate: float, method: Method) -> tuple[float, float]:
    """Return the half-widths of an interval of a − b that misses with probability `rate`.

    Of independent numbers they are those of Zou and Donner (2008, Statistics in Medicine 27, eq. 5): the difference is
    low where a is low and b is high, and the squares of half-widths add up as variances do, so that skew is kept. Of
    others, the ends of two intervals that miss with half the probability each: if both hold, so does their difference.
    """
    if method == "independent":
        (a_below, a_above), (b_below, b_above) = halves(a, rate), halves(b, rate)
        return math.hypot(a_below, b_above), math.hypot(a_above, b_below)
    (a_below, a_above), (b_below, b_above) = halves(a, rate / 2), halves(b, rate / 2)
    return a_below + b_above, a_above + b_below


def matched(a: Iterable[PublishedRow], b: Iterable[PublishedRow]) -> list[tuple[PublishedRow, PublishedRow]]:
    """Return the pairs of rows about the same thing, such as a category in two rounds, that both have a number.

    Raises:
        UsageError: if there is none, or a table has two rows about the same thing.
    """
    for each in (a, b):
        if isinstance(each, PublishedRow):
            raise UsageError("compare_all takes two tables, such as table.where(round=0); compare takes two rows")
        if not isinstance(each, Iterable):
            raise UsageError(f"compare_all takes two tables, such as table.where(round=0), not {type(each).__name__}")
    left, right = _by_key(a), _by_key(b)
    if not left or not right:
        raise UsageError("a table to compare has no row with a number; choose another round or query with `where`")
    pairs = [(row, right[key]) for key, row in left.items() if key in right]
    if not pairs:
        raise UsageError("the two tables have no row about the same thing; compare tables of the same query")
    return pairs


def _by_key(rows: Iterable[PublishedRow]) -> dict[tuple[object, ...], PublishedRow]:
    found: dict[tuple[object, ...], PublishedRow] = {}
    for row in rows:
        if not isinstance(row, PublishedRow):
            raise UsageError(
                f"compare_all takes tables of rows, such as table.where(round=0), not {type(row).__name__}"
            )
        if row.estimate is None or row.lower is None:
            continue
        if row.key in found:
            raise UsageError(
                f"{row.query}: {row.label} is there twice, in rounds {found[row.key].round} and {row.round}; "
                "choose one round of each side, such as table.where(round=0)"
            )
        found[row.key] = row
    return found


def _check(a: PublishedRow, b: PublishedRow) -> None:
    if a.unit != b.unit or (a.statistic, b.statistic).count(None):
        raise UsageError(
            f"{a.query}: {a.label} and {b.query}: {b.label} cannot be compared: units {a.unit or 'none'} and "
            f"{b.unit or 'none'}, states {a.state} and {b.state}; choose rows of one unit that have numbers"
        )
    if (a.task_id, a.round, a.key) == (b.task_id, b.round, b.key):
        raise UsageError(f"{a.query}: {a.label} is compared with itself; choose another row or round")


def _method(rounds: Rounds, a: PublishedRow, b: PublishedRow) -> tuple[Method, tuple[float, float] | None]:
    """Return how the error of a − b follows, with the error and the reach if the covariance is known.

    It is "bound" wherever it is not known that no report is behind both.
    """
    if a.task_id != b.task_id:
        return "independent", None
    results = rounds[a.task_id, a.round]
    task = read_certified(results.certificate).task
    if a.round != b.round:
        return _of_rounds(task, a, b), None
    if a.query != b.query:
        # A sum by digits follows from the reports of its digits.
        by_digits = {each.name for each in results.sums}
        return ("bound" if by_digits & {a.query, b.query} else "independent"), None
    known = _of_histogram(results, a, b)
    return ("bound" if known is None else "covariance"), known


def _of_rounds(task: Task, a: PublishedRow, b: PublishedRow) -> Method:
    """Return how the error of a difference of two rounds follows."""
    # Of a question over time, the same device's reports of several rounds are linked.
    linked = a.query == b.query and any(each.name == a.query and each.horizon for each in task.queries)
    return "bound" if linked else "independent"


def _of_histogram(results: RoundResults, a: PublishedRow, b: PublishedRow) -> tuple[float, float] | None:
    """Return the error and the reach of a difference of two counts of one histogram; None if they are not known."""
    certified = read_certified(results.certificate)
    task = certified.task
    index = task.query_index(a.query)
    query = task.queries[index]
    counts = all(each.statistic == "count" and not each.group and each.at is None for each in (a, b))
    if not counts or query.horizon or type(query.question) is not Histogram:
        return None
    counted = Counted.published(task, results.queries[index], certified.noise(index))
    # Collisions of hashes correlate counts, by how much is not known for pairs.
    if counted.tally is None or type(counted.tally) is not Tally:
        return None
    debiased = query.debiased(counted.tally, task.privacy.dummies + counted.noise)
    places = [query.question.categories.index(each.category or "") for each in (a, b)]
    return covariance_error(debiased, places[0], places[1])
