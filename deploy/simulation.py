"""Simulation: a task on a column of data without any network, from encoding to estimates and the privacy they cost.

Reports are drawn exactly as devices draw them. Nothing is sealed or shuffled: estimates depend on counts alone, and the
privacy stated is that of a shuffled batch of this size.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.mechanisms import KRR
from hubbub.analyzer.estimate import estimate
from hubbub.client.draws import Random
from hubbub.client.encode import encode
from hubbub.client.randomize import randomize
from hubbub.deploy.data import Dataset, truth_of
from hubbub.deploy.planning import Plan, expected_errors
from hubbub.deploy.report import query_document
from hubbub.protos.results import QueryResult, QueryState
from hubbub.protos.task import Query
from hubbub.shuffler.dummies import uniform_symbols


def simulate(
    plan: Plan, dataset: Dataset, progress: Callable[[int], None], random: Random = os.urandom
) -> dict[str, Any]:
    """Return estimates beside the truth and the certificate's numbers, as one JSON document.

    `dataset` has a column for each of the plan's queries; `progress` is told of every thousand devices dealt with.

    Raises:
        AnswerError: where the data does not fit the task.
    """
    queries, counted, dummies = [], [], plan.draft.privacy.dummies
    for planned in plan.queries:
        query = planned.query
        counts = _count(query, dataset, progress, random)
        valid = int(counts.sum())
        counts += np.bincount(uniform_symbols(dummies, query.symbols, random), minlength=query.symbols)
        published = valid >= plan.draft.minimum_reports
        state = QueryState.PUBLISHED if published else QueryState.WITHHELD
        result = QueryResult(
            query.name, state, valid, valid, {}, estimate(query, counts, dummies) if published else None
        )
        truth = truth_of(dataset, query.question)
        queries.append(query_document(result, truth, query.question.optional))
        counted.append(QueryCount(query.name, KRR.from_numerator(query.symbols, query.gamma), valid, valid, {}))
    return {
        "task": plan.draft.name,
        "devices": dataset.devices,
        "expected": expected_errors(plan.queries),
        "queries": queries,
        "privacy": statement(Terms.of(plan.draft), [RoundCounts(0, tuple(counted))]),
    }


def _count(query: Query, dataset: Dataset, progress: Callable[[int], None], random: Random) -> np.ndarray[Any, Any]:
    counts = np.zeros(query.symbols, dtype=np.int64)
    for number, value in enumerate(dataset.answers[query.name].to_pylist(), 1):
        counts[randomize(encode(query, value, random), query.symbols, query.gamma, random)] += 1
        if number % 1000 == 0:
            progress(1000)
    return counts
