"""Planning: from a draft to a task with exact randomizers, and the errors to expect before anyone is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hubbub.accountant.calibration import Calibration, QueryShape, calibrate_queries
from hubbub.accountant.certificate.minimum import check_minimum
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import KRR
from hubbub.accountant.spending.budget import Outlook, outlook
from hubbub.protos.draft import check_draft
from hubbub.protos.errors import TaskError
from hubbub.protos.task import (
    GAMMA_DENOMINATOR,
    MAXIMUM_REPORTS,
    Draft,
    Histogram,
    Identities,
    Query,
    Question,
    Sum,
    Task,
)

HALF_WIDTH_ERRORS = 1.96
"""Standard errors on each side of a 95 % interval."""


@dataclass(frozen=True)
class PlannedQuery:
    """A query's randomizer and what to expect of its estimate at the minimum reports.

    `expected_error` is the worst-case standard error of one count (histogram) or of the sum (in its unit); `widest` is
    the whole range of that estimate: n reports, or n times upper - lower.
    """

    query: Query
    epsilon_local: float
    epsilon_upper: float
    expected_error: float
    widest: float

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval to expect."""
        return HALF_WIDTH_ERRORS * self.expected_error


@dataclass(frozen=True)
class Plan:
    """A draft with its randomizers chosen."""

    draft: Draft
    queries: tuple[PlannedQuery, ...]

    @property
    def mechanisms(self) -> tuple[KRR, ...]:
        """Each query's randomizer, as the accountant takes it."""
        return tuple(KRR.from_numerator(each.query.symbols, each.query.gamma) for each in self.queries)

    def task(self, identities: Identities) -> Task:
        """Freeze the plan into a task of these three parties."""
        draft = self.draft
        queries = tuple(planned.query for planned in self.queries)
        return Task(draft.name, draft.schedule, draft.minimum_reports, draft.privacy, queries, identities)


def mechanisms_of(task: Task) -> tuple[KRR, ...]:
    """Each query's randomizer, as the accountant takes it."""
    return tuple(KRR.from_numerator(query.symbols, query.gamma) for query in task.queries)


def plan(draft: Draft) -> Plan:
    """Choose the randomizers with the smallest errors that the draft's (ε, δ) and cap on ε_local allow at its minimum.

    Raises:
        TaskError: where a value is out of its limits, a query's expected 95 % half-width would be wider than its whole
            range, naming the minimum that would do, where no randomizer meets the promise of a round, or not even one
            round fits epsilon_total.
    """
    check_draft(draft)
    planned = _plan_at(draft, draft.minimum_reports)
    useless = [query for query in planned if not query.half_width <= query.widest]
    if useless:
        raise TaskError(_too_wide(draft, useless[0]))
    chosen = Plan(draft, planned)
    try:
        check_minimum(Terms.of(draft), chosen.mechanisms)
    except AccountingError as error:
        raise TaskError(str(error)) from error
    return chosen


def outlook_of(plan: Plan) -> Outlook:
    """Return what the planned rounds cost together at the minimum, and how many of them fit the task's budget."""
    return outlook(Terms.of(plan.draft), plan.mechanisms, plan.draft.schedule.rounds)


def _plan_at(draft: Draft, reports: int) -> tuple[PlannedQuery, ...]:
    privacy = draft.privacy
    try:
        calibrations = calibrate_queries(
            [_shape(question) for question in draft.questions],
            privacy.epsilon,
            privacy.delta,
            reports,
            epsilon_local_cap=privacy.epsilon_local,
            honest_share=privacy.honest_share,
            dummies=privacy.dummies,
        )
    except AccountingError as error:
        raise TaskError(f"no randomizers meet this task's privacy at {reports} reports: {error}") from error
    pairs = zip(draft.questions, calibrations, strict=True)
    return tuple(_planned(question, chosen, reports) for question, chosen in pairs)


def _shape(question: Question) -> QueryShape:
    if isinstance(question, Histogram):
        return QueryShape("histogram", len(question.categories), question.optional, question.weight)
    return QueryShape("sum", None, question.optional, question.weight)


def _planned(question: Question, chosen: Calibration, reports: int) -> PlannedQuery:
    numerator = chosen.mechanism.gamma * GAMMA_DENOMINATOR
    if numerator.denominator != 1:
        raise AccountingError(f"gamma of {question.name} is not a multiple of 1/{GAMMA_DENOMINATOR}")
    query = Query(question, int(numerator), chosen.levels)
    scale = question.upper - question.lower if isinstance(question, Sum) else 1.0
    error = chosen.expected_standard_error * scale
    return PlannedQuery(query, chosen.epsilon_local, chosen.epsilon_upper, error, reports * scale)


def _too_wide(draft: Draft, query: PlannedQuery) -> str:
    enough = _smallest_minimum(draft)
    remedy = f"minimum_reports = {enough} would do" if enough is not None else "no minimum within the limits would do"
    return (
        f"{query.query.name}: the expected 95 % half-width is {query.half_width:.4g}, wider than the whole range "
        f"{query.widest:.4g} at minimum_reports = {draft.minimum_reports}; {remedy}, or a larger epsilon"
    )


def _smallest_minimum(draft: Draft) -> int | None:
    """A minimum at which every half-width is within its range, at most an eighth more than the smallest."""

    def does(reports: int) -> bool:
        try:
            return all(query.half_width <= query.widest for query in _plan_at(draft, reports))
        except TaskError:
            return False

    return _first(does, draft.minimum_reports, MAXIMUM_REPORTS)


def _first(holds: Callable[[int], bool], low: int, limit: int) -> int | None:
    """A number that holds, at most an eighth above the first one, by doubling and halving; None up to `limit`."""
    high = low
    while not holds(high):
        if high >= limit:
            return None
        low, high = high, min(2 * high, limit)
    while high - low > max(1, high // 8):
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def expected_errors(queries: Sequence[PlannedQuery]) -> list[dict[str, object]]:
    """Return what to expect of each query, as JSON."""
    return [
        {
            "name": planned.query.name,
            "kind": "histogram" if isinstance(planned.query.question, Histogram) else "sum",
            "symbols": planned.query.symbols,
            "levels": planned.query.levels,
            "gamma": f"{planned.query.gamma}/{GAMMA_DENOMINATOR}",
            "epsilon_local": planned.epsilon_local,
            "epsilon_upper": planned.epsilon_upper,
            "expected_standard_error": planned.expected_error,
            "expected_half_width": planned.half_width,
            "range": planned.widest,
        }
        for planned in queries
    ]
