"""What planning found: a draft with its randomizers chosen, and the errors to expect, in words and as JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hubbub.accountant.certificate.batches import round_part
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.composition import compose_upper
from hubbub.accountant.mechanisms import LocalMechanism
from hubbub.accountant.numbers import honest_reports
from hubbub.accountant.spending.budget import BudgetForecast, forecast
from hubbub.planning.by_error import HALF_WIDTH_ERRORS
from hubbub.planning.digits import PlannedSum
from hubbub.planning.longitudinal.plan import StrategyCandidate
from hubbub.protos.sealing.envelope import inner_bytes, outer_bytes
from hubbub.protos.sealing.suites import suite_named
from hubbub.protos.task.task import Draft, Identities, Task
from hubbub.queries.fields import MAXIMUM_SYMBOLS
from hubbub.queries.query import Query
from hubbub.queries.texts.heavy_hitters import HeavyHitterQuestion, PrefixStep

HELD_BYTES = 32
"""What the shuffler stores of a submission in addition to its inner envelopes: id and digest."""


@dataclass(frozen=True)
class PlannedQuery:
    """A query's randomizer and the expected error of its estimate at the minimum of reports.

    `expected_error` is the worst-case standard error of the statistic that the question is planned for, such as one
    count or the sum, in its unit. `widest` is the whole range of that estimate: n reports, or n times upper - lower.
    """

    query: Query
    epsilon_local: float
    epsilon_upper: float
    expected_error: float
    widest: float

    strategies: tuple[StrategyCandidate, ...] = ()
    """For a longitudinal question, the cost of each strategy; the errors above are those of the chosen one."""

    digit_of: PlannedSum | None = None
    """For a digit, the sum that is asked by it and others; the errors above are those of its number of ones."""

    @property
    def name(self) -> str:
        """The name by which people answer it, or that of a digit's query."""
        return self.query.name

    @property
    def planned_for(self) -> str:
        """The name of the statistic of the expected error."""
        return self.query.question.planned_for

    @property
    def half_width(self) -> float:
        """Half the width of the expected 95 % interval."""
        return half_width(self)


def half_width(of: PlannedQuery | PlannedSum) -> float:
    """Return half the width of the expected 95 % interval."""
    return HALF_WIDTH_ERRORS * of.expected_error


@dataclass(frozen=True)
class Plan:
    """A draft with its randomizers chosen.

    If the draft states errors, its ε is the one that was solved for, and `epsilon_most` is the one that was written.
    `noise_needs` is the `epsilon_total` that all rounds would need with noise of the shuffler, if planning left the
    noise out because fewer rounds would then fit the task's.
    """

    draft: Draft
    queries: tuple[PlannedQuery, ...]
    noise_needs: float | None = None
    epsilon_most: float | None = None

    @property
    def asked(self) -> tuple[PlannedQuery | PlannedSum, ...]:
        """What people are asked: each query, or the sum that several queries are the digits of."""
        return asked_of(self.queries)

    @property
    def submission_bytes(self) -> int:
        """Length of every submission's envelope: it follows from the queries' reports, the suite and the shufflers."""
        return outer_bytes(self.inner_bytes, suite_named(self.draft.suite))

    @property
    def most_disk_bytes(self) -> int:
        """Bytes of the shuffler's disk that a round of the most reports needs before it is mixed."""
        return self.draft.most_reports * (sum(self.inner_bytes) + HELD_BYTES)

    @property
    def inner_bytes(self) -> list[int]:
        """Lengths of the inner envelopes that the first shuffler stores, in the order of the queries."""
        # Each shuffler after the first one has a layer around the analyzer's, so there are as many as shufflers.
        suite = suite_named(self.draft.suite)
        return [inner_bytes(each.query.report_bytes, suite, self.draft.shufflers) for each in self.queries]

    @property
    def mechanisms(self) -> tuple[LocalMechanism, ...]:
        """Each query's randomizer, as the accountant takes it."""
        return tuple(each.query.mechanism for each in self.queries)

    def task(self, identities: Identities) -> Task:
        """Freeze the plan into a task of these three parties."""
        draft = self.draft
        queries = tuple(planned.query for planned in self.queries)
        promise = draft.minimum_reports, draft.privacy
        return Task(
            draft.name,
            draft.schedule,
            *promise,
            queries,
            identities,
            suite=draft.suite,
            admission=draft.admission,
            maximum_reports=draft.most_reports,
            about=draft.about,
            log=draft.log,
        )


def asked_of(queries: Sequence[PlannedQuery]) -> tuple[PlannedQuery | PlannedSum, ...]:
    """Return each planned query, or once the sum of which it is a digit."""
    return tuple({each.name: each for query in queries for each in [query.digit_of or query]}.values())


def forecast_of(plan: Plan) -> BudgetForecast:
    """Return the cost of all planned rounds together at the minimum, and how many of them fit the task's budget."""
    return forecast(Terms.of(plan.draft), plan.mechanisms, plan.draft.schedule.rounds)


def expected_errors(queries: Sequence[PlannedQuery]) -> list[dict[str, object]]:
    """Return the expected errors of each query as JSON values."""
    return [
        {
            "name": planned.query.name,
            "kind": planned.query.question.kind,
            "symbols": symbols_named(planned.query),
            "levels": _levels(planned.query.question.content()),
            **randomizer_words(planned.query),
            "noise": None if planned.query.noise is None else planned.query.noise.content(),
            "epsilon_local": planned.epsilon_local,
            "epsilon_upper": planned.epsilon_upper,
            "planned_for": planned.query.question.planned_for,
            "expected_standard_error": planned.expected_error,
            "expected_half_width": planned.half_width,
            "range": planned.widest,
            **_strategies(planned),
        }
        for planned in queries
    ]


def expected_sums(queries: Sequence[PlannedQuery]) -> list[dict[str, object]]:
    """Return the expected errors of each sum that is asked by digits as JSON values; the digits are queries too."""
    return [
        {
            "name": each.name,
            "digits": [query.name for query in each.queries],
            "epsilon_local": each.epsilon_local,
            "epsilon_upper": each.epsilon_upper,
            "planned_for": each.planned_for,
            "expected_standard_error": each.expected_error,
            "expected_half_width": half_width(each),
            "range": each.widest,
        }
        for each in asked_of(queries)
        if isinstance(each, PlannedSum)
    ]


def _levels(content: Mapping[str, Any]) -> int | None:
    """Return the number of levels in a question's content, its own or those of the question asked by group."""
    inner = content.get("of")
    levels: int | None = content.get("levels", inner.get("levels") if isinstance(inner, Mapping) else None)
    return levels


def _strategies(planned: PlannedQuery) -> dict[str, object]:
    if not planned.strategies:
        return {}
    chosen_one = planned.query.question.content().get("strategy")
    return {"strategies": [each.as_json() for each in planned.strategies], "chosen": chosen_one}


def randomizer_words(query: Query) -> dict[str, object]:
    """Return a randomizer's members for people: its kind, and each exact ratio as one text."""
    content = query.randomizer.content()
    ratios = {key: f"{value[0]}/{value[1]}" for key, value in content.items() if isinstance(value, list)}
    sizes = {key: value for key, value in content.items() if isinstance(value, int) and key != "categories"}
    return {"randomizer": sent_by(query), **sizes, **ratios}


def sent_by(query: Query) -> str:
    """Return the kind of randomizer, or the strategy of a longitudinal question."""
    kind: str = query.randomizer.content().get("mechanism") or query.question.content()["strategy"]
    return kind


def symbols_named(query: Query) -> int | None:
    """Return how many symbols a query has; None if any text is an answer."""
    return query.symbols if query.symbols <= MAXIMUM_SYMBOLS else None


def steps_of(plan: Plan) -> dict[str, tuple[PrefixStep, ...]]:
    """Return, by query name, what each round costs and finds of each text that is asked by prefixes."""
    found, people, dummies = {}, plan.draft.minimum_reports, plan.draft.privacy.dummies
    for planned in plan.queries:
        question = planned.query.question
        if isinstance(question, HeavyHitterQuestion) and question.prefixes:
            found[question.name] = question.steps(planned.query.randomizer, people, dummies, planned.query.chain_noise)
    return found


def too_weak_when_full(plan: Plan) -> tuple[str, ...]:
    """Return the queries whose ε would be 0 in the certificate of a round of the most reports.

    For these, δ alone permits everything that such a round reveals.
    """
    terms, most = Terms.of(plan.draft), plan.draft.most_reports
    honest = max(1, honest_reports(most, most, terms.honest_share))
    return tuple(
        each.query.name
        for each in plan.queries
        if compose_upper([round_part(terms, each.query.mechanism, honest)], terms.delta) <= 0
    )
