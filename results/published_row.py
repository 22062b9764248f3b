"""One published number of a round, or one withheld query, as a typed value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hubbub.protos.records.counts import read_certified
from hubbub.protos.records.results import QueryState, RoundResults
from hubbub.protos.records.results_document import table_rows
from hubbub.queries.estimation.estimates import Group


@dataclass(frozen=True)
class PublishedRow:
    """One number that a round published, with its error; or a withheld query, with the reason and without numbers.

    Attributes:
        task: the task's name.
        task_id: its id, 64 hex digits.
        round: the round's number, from 0.
        round_begins: when the round began to take reports, in UTC.
        round_ends: when it stopped, in UTC.
        query: the query's name.
        state: "published" or "withheld".
        reason: why the query is withheld; empty if it is published.
        kind: the kind of the question, such as "histogram"; None if withheld.
        statistic: what the number is, such as "count", "mean" or "quantile"; None if withheld.
        category: the category that it is about, if any.
        group: the people that it is about, as (attribute, value); everybody if empty.
        at: where a function is evaluated: an edge, a probability, or a round.
        unit: the unit of the number; empty if it has none.
        estimate: the number. A count is unbiased, and may be negative.
        standard_error: the standard deviation of the noise on it, in its unit; None if it has none, as a quantile.
        lower, upper: its 95 % interval.
        simultaneous_lower, simultaneous_upper: its interval in the query's band, all of which hold at once with a
            probability of 95 %.
        consistent: a count's projection on counts that are not negative and add up to the reports: biased.
        p_value: how often noise alone gives as large a count; None if that is not tested.
        significant: whether the count is larger than noise explains; None if that is not tested.
        reports: people's reports in the batch; None for a sum by digits.
        valid: those that were counted.
        epsilon_upper: ε of the query's batch, if everybody is honest.
        epsilon_local: ε of a device's report alone.
        round_epsilon_upper: ε of all reports of one person in the round.
        delta: δ of all of these.
    """

    task: str
    task_id: str
    round: int
    round_begins: datetime
    round_ends: datetime
    query: str
    state: str
    reason: str = ""
    kind: str | None = None
    statistic: str | None = None
    category: str | None = None
    group: Group = ()
    at: float | None = None
    unit: str = ""
    estimate: float | None = None
    standard_error: float | None = None
    lower: float | None = None
    upper: float | None = None
    simultaneous_lower: float | None = None
    simultaneous_upper: float | None = None
    consistent: float | None = None
    p_value: float | None = None
    significant: bool | None = None
    reports: int | None = None
    valid: int | None = None
    epsilon_upper: float | None = None
    epsilon_local: float | None = None
    round_epsilon_upper: float | None = None
    delta: float | None = None

    @property
    def withheld(self) -> bool:
        """Whether the query is withheld, so that the row has no number."""
        return self.state == QueryState.WITHHELD

    @property
    def key(self) -> tuple[object, ...]:
        """What tells it from the other rows of its round, and is the same in every round."""
        return (self.query, self.statistic, self.category, self.group, self.at)

    @property
    def label(self) -> str:
        """What the number is about, in a few words."""
        about = [f"{attribute}={value}" for attribute, value in self.group]
        about += [self.category or self.statistic or self.state]
        return ", ".join(about) + ("" if self.at is None else f" at {self.at:g}")


def rows_of(results: RoundResults) -> Iterator[PublishedRow]:
    """Yield a row for each number of a round's results, in their order, and one for each withheld query.

    Raises:
        CountsDiffer: if the certificate cannot be read.
    """
    task = read_certified(results.certificate).task
    digits = {each.name for each in results.sums}
    begins, ends = task.schedule.opens(results.id.round), task.schedule.ends(results.id.round)
    shared = {
        "task_id": results.id.task_id.hex(),
        "round_begins": datetime.fromtimestamp(begins, UTC),
        "round_ends": datetime.fromtimestamp(ends, UTC),
    }
    for row in table_rows(results):
        named = {name: value for name, value in row.items() if name not in _OTHERWISE}
        named |= {**shared, "group": _group(row), "unit": row["unit"] or ""}
        if row["state"] == QueryState.WITHHELD:
            named["reason"] = _reason(row, row["query"] in digits, task.minimum_reports)
        yield PublishedRow(**named)


_OTHERWISE = frozenset({"attribute", "attribute_2", "group_2", "clip_lower", "clip_upper"})
"""Columns of the table that are no attributes: those of a group are one, and an answer's range is in the task."""


def _group(row: dict[str, Any]) -> Group:
    pairs = (("attribute", "group"), ("attribute_2", "group_2"))
    return tuple((row[attribute], row[value]) for attribute, value in pairs if row[attribute] is not None)


def _reason(row: dict[str, Any], by_digits: bool, minimum: int) -> str:
    if by_digits:
        return "the query of one of its digits is withheld"
    return f"{row['valid']} of {row['reports']} reports are valid, fewer than the task's minimum_reports = {minimum}"
