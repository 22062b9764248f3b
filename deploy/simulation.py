"""Simulation: runs a task on a table of data without a network, and returns its estimates and its privacy.

Reports are drawn exactly as devices draw them. Nothing is sealed or shuffled, because estimates depend on counts alone.
The privacy stated is that of a shuffled batch of this size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.deploy.data import Dataset, truth_of
from hubbub.deploy.planning import Plan, expected_errors
from hubbub.deploy.views.compared import query_document
from hubbub.protos.results import QueryResult, QueryState
from hubbub.queries.debiased import Debiased
from hubbub.queries.draws import Random
from hubbub.queries.lookup import Decodable
from hubbub.queries.over_rounds import Batch, Moment
from hubbub.queries.query import Query
from hubbub.queries.question import Value
from hubbub.queries.randomizer import Tally
from hubbub.queries.rows import Estimates, Truth


def simulate(
    plan: Plan, dataset: Dataset, progress: Callable[[int], None], random: Random = os.urandom
) -> dict[str, Any]:
    """Return estimates beside the truth and the certificate's numbers, as one JSON document.

    Under the task's minimum nothing would be released: `released` is false, and there is no privacy to state.

    `dataset` has a column for each of the plan's queries; `progress` is told of every thousand devices dealt with.

    Raises:
        AnswerError: where the data does not fit the task.
    """
    queries, counted, dummies = [], [], plan.draft.privacy.dummies
    released = dataset.devices >= plan.draft.minimum_reports
    for planned in plan.queries:
        query = planned.query
        people = tally_of(query, dataset.answers[query.name].to_pylist(), progress, random)
        valid = people.valid
        tally = people + query.randomizer.tally(query.randomizer.dummies(dummies, random))
        # The minimum is about people: dummies hide them, but do not count as reports.
        state = QueryState.PUBLISHED if released else QueryState.WITHHELD
        truth = truth_of(dataset, query.question)
        estimates = estimates_of(query, tally, dummies, truth) if released else None
        result = QueryResult(query.name, state, valid, valid, {}, estimates)
        queries.append(query_document(result, query.question.kind, truth, query.question.optional))
        counted.append(QueryCount(query.name, query.mechanism, valid, valid, {}))
    return {
        "task": plan.draft.name,
        "devices": dataset.devices,
        "minimum_reports": plan.draft.minimum_reports,
        "released": released,
        "unusable": {name: dict(counts) for name, counts in dataset.unusable.items()},
        "expected": expected_errors(plan.queries),
        "queries": queries,
        "privacy": _privacy(plan, counted) if released else None,
    }


def _privacy(plan: Plan, counted: Sequence[QueryCount]) -> dict[str, Any]:
    stated = statement(Terms.of(plan.draft), [RoundCounts(0, tuple(counted))])
    return {"admission": plan.draft.admission.statement(), **stated}


def estimates_of(query: Query, tally: Tally, dummies: int, truth: Truth) -> Estimates:
    """Return what is published; texts are looked up, with those that the data holds as candidates."""
    if not isinstance(query.question, Decodable):
        return query.estimates_over(0, {0: Batch(tally, dummies)})
    candidates = [category for _, category in truth if category is not None]
    return query.question.decode(Debiased(query.randomizer, tally, dummies), candidates)


def tally_of(query: Query, answers: Sequence[Value], progress: Callable[[int], None], random: Random) -> Tally:
    """Return the counts of the reports of devices with these answers, each drawn as a device draws it.

    `progress` is told of every thousand devices.

    Raises:
        AnswerError: where an answer does not fit the query.
    """
    tally = query.randomizer.tally(b"")
    # Counted a thousand at a time, so that memory does not grow with the data.
    for start in range(0, len(answers), 1000):
        some = answers[start : start + 1000]
        reports = b"".join(query.randomize(query.encode_at(value, Moment(0), random).symbol, random) for value in some)
        tally += query.randomizer.tally(reports)
        progress(len(some))
    return tally
